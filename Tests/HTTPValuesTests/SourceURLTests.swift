import CodingTestSupport
import Foundation
import SystemValues
import Testing

@testable import HTTPValues

struct SourceURLTests {
    /// The document says what becomes of each form; others follow the WHATWG URL Standard, whose tests most of these
    /// rows are from.
    @Test(
        arguments: documentedForms + [
            ("http://example.org/?#", "http://example.org/?"),
            ("http://example.org/a#\u{301}x", "http://example.org/a"),
            ("http://example.org/\u{301}a", "http://example.org/%CC%81a"),
            ("http://example.org/%7e%7E", "http://example.org/%7e%7E"),
            ("http://example.org/a?b=http://x/@:c", "http://example.org/a?b=http://x/@:c"),
            ("http://example.org:/a", "http://example.org/a"), ("http://example.org:0080/a", "http://example.org/a"),
            ("https://example.org:80/", "https://example.org:80/"), ("http://a_b-c.d~e/", "http://a_b-c.d~e/"),
            ("http://127.0.0.1:8000/a.png", "http://127.0.0.1:8000/a.png"),
            // Slashes.
            ("http:example.org/", "http://example.org/"), ("http:/example.org/", "http://example.org/"),
            ("http:////example.org/", "http://example.org/"), ("http:\\\\x:hello", nil),
            ("http:\\\\a\\b:c\\d@foo.com\\", "http://a/b:c/d@foo.com/"),
            ("http:///a", "http://a/"), ("http://a\\@b/", "http://a/@b/"), ("http://a?b\\c", "http://a/?b\\c"),
            // Dots.
            ("http://a/b/./c", "http://a/b/c"), ("http://a/b/.", "http://a/b/"), ("http://a/..", "http://a/"),
            ("http://a/b/..", "http://a/"), ("http://a/b/../c/..", "http://a/"), ("http://a/b/%2e/c", "http://a/b/c"),
            ("http://a/b/%2E%2e/c", "http://a/c"), ("http://a/b/.%2e", "http://a/"),
            ("http://a/b/%2e./../c", "http://a/c"), ("http://a/b/....", "http://a/b/...."),
            ("http://a/.../b", "http://a/.../b"), ("http://a/%2e%2", "http://a/%2e%2"), ("http://a//..", "http://a/"),
            ("http://a/b//../c", "http://a/b/c"), ("http://a/..b", "http://a/..b"),
            ("http://a?b/../c", "http://a/?b/../c"), ("http://a/./?b", "http://a/?b"),
            ("http://a\\..\\b", "http://a/b"), ("http://a/%2e%2e%2e", "http://a/%2e%2e%2e"),
            // White space and other invalid characters.
            ("\u{0}\u{1F} http://a/b\u{1} ", "http://a/b"), ("h\tt\nt\rp://a\t/b\r\nc", "http://a/bc"),
            ("http://a/\u{7F}\u{0}", "http://a/%7F"), ("http://a/\u{0}b", "http://a/%00b"),
            ("http://a/{b}`^|'", "http://a/%7Bb%7D%60%5E|'"), ("http://a/?{b}`^|'", "http://a/?{b}`^|%27"),
            ("http://a/ b?c d", "http://a/%20b?c%20d"),
            ("http://a/\u{1F600}?\u{1F600}", "http://a/%F0%9F%98%80?%F0%9F%98%80"),
            // Names.
            ("http://ex%61mple.org/", "http://example.org/"), ("http://EX%41MPLE.org/", "http://example.org/"),
            ("http://\u{FF27}\u{FF4F}.com/", "http://go.com/"),
            ("http://www.foo\u{3002}bar.com/", "http://www.foo.bar.com/"), ("http://a\u{200B}b/", "http://ab/"),
            ("http://a\u{AD}b/", "http://ab/"), ("http://fa\u{DF}.de/", "http://xn--fa-hia.de/"),
            ("http://\u{30C6}\u{30B9}\u{30C8}/", "http://xn--zckzah/"),
            ("http://XN--BCHER-KVA.example/", "http://xn--bcher-kva.example/"),
            ("http://%e3%83%86%e3%82%b9%e3%83%88/", "http://xn--zckzah/"),
            ("http://a\u{308}.org/", "http://xn--4ca.org/"), ("http://r3---sn-x.example/", "http://r3---sn-x.example/"),
            ("http://a..b/", "http://a..b/"),
            // Addresses.
            ("http://192.0x00A80001/", "http://192.168.0.1/"), ("http://0x7f000001/", "http://127.0.0.1/"),
            ("http://017700000001/", "http://127.0.0.1/"), ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0xC0.0250.01/", "http://192.168.0.1/"), ("http://4294967295/", "http://255.255.255.255/"),
            ("http://192.168.0.1./", "http://192.168.0.1/"),
            ("http://%30%78%63%30%2e%30%32%35%30.01/", "http://192.168.0.1/"),
            ("http://\u{FF10}\u{FF38}\u{FF43}\u{FF10}.0250.01/", "http://192.168.0.1/"),
            ("http://0x/", "http://0.0.0.0/"),
            ("http://1.2.3.4.a/", "http://1.2.3.4.a/"), ("http://[::1]", "http://[::1]/"),
            ("http://[1:0::]/", "http://[1::]/"), ("http://[::127.0.0.1]/", "http://[::7f00:1]/"),
            ("http://[0:0:0:0:0:0:13.1.68.3]/", "http://[::d01:4403]/"),
            ("http://[FE80::1%25eth0]/", "http://[fe80::1%25eth0]/"),
        ])
    func spellingIsCanonical(written: String, canonical: String?) throws {
        guard let canonical else {
            #expect(throws: InvalidURL.self) { try SourceURL(written) }
            return
        }
        let url = try SourceURL(written)
        #expect(url.text == canonical)
        #expect(try SourceURL(url.text) == url)
    }

    /// The rows of the table in docs/protocol.md, whose cells are JSON strings.
    static let documentedForms: [(String, String?)] = {
        let page = Golden.repository.appending(path: "docs/protocol.md")
        let text = (try? String(contentsOf: page, encoding: .utf8)) ?? ""
        let section = text.components(separatedBy: "#### Spellings of a URL").dropFirst().first?.components(
            separatedBy: "\n#")[0]
        func value(_ cell: Substring) -> String? {
            let cell = cell.trimmingCharacters(in: CharacterSet(charactersIn: " `"))
            return cell.hasPrefix("\"") ? try? JSONDecoder().decode(String.self, from: Data(cell.utf8)) : nil
        }
        // A row of the table has two forms beside each other.
        return (section ?? "").split(separator: "\n").flatMap { line in
            let cells = line.split(separator: "|")
            return stride(from: 0, to: cells.count - 1, by: 2).compactMap { index in
                value(cells[index]).map { ($0, value(cells[index + 1])) }
            }
        }
    }()

    @Test func theDocumentHasForms() {
        #expect(Self.documentedForms.count >= 20)
        #expect(Self.documentedForms.contains { $0.1 == nil })
    }

    @Test func `the short way never accepts what the long one would refuse or spell otherwise`() throws {
        var random = SplitMix64(state: 7)
        let schemes = ["http://", "https://", "HTTP://", "http:/", "httpss://"]
        let hosts = [
            "a.org", "127.0.0.1", "A.org", "[::1]", "", "u@a.org", "é.org", "a_b", "127.1", "a.", "0x7f.1", "1.2.3.256",
            "1.2.3.04", "1.2.3.4.5", "1.2..3", "1",
        ]
        let ports = ["", ":", ":80", ":443", ":444", ":8080", ":08080", ":65535", ":65536", ":99999", ":100000", ":8x"]
        let paths = [
            "", "/", "/a.png", "/a?b=c", "?b", "/a#b", "/a b", "/\u{7F}", "/é", "/\"", "//x:80/@", "/.", "/..",
            "/a/../b", "/a/%2e", "/a\\b", "/a/.b", "/{", "/?'",
        ]
        var (plain, international) = (0, InternationalHosts())
        for scheme in schemes {
            for host in hosts {
                for port in ports {
                    for path in paths {
                        let written = scheme + host + port + path
                        guard SourceURL.isPlainlyCanonical(written) else { continue }
                        plain += 1
                        #expect(try SourceURL.canonical(written, &international) == written)
                    }
                }
            }
        }
        // Two schemes, two hosts, four ports, four paths.
        #expect(plain == 64)
        for count in 0...40 {
            let written = "http://" + (0..<count).map { _ in random.pick(["a", "/", ":", "9", ".", "s"]) }.joined()
            guard SourceURL.isPlainlyCanonical(written) else { continue }
            #expect(try SourceURL.canonical(written, &international) == written)
        }
        for count in 0...9 { #expect(!SourceURL.isPlainlyCanonical(String("https://a".prefix(count)))) }
    }

    @Test func originAndHost() throws {
        let url = try SourceURL("HTTPS://Example.org:8443/a?b")
        #expect(url.origin == "https://example.org:8443")
        #expect(url.host == "example.org")
        #expect(try SourceURL("https://example.org:443/").origin == "https://example.org")
        #expect(try SourceURL("http://[::1]:81/").origin == "http://[::1]:81")
        #expect(try SourceURL("http://[::1]:81/").host == "[::1]")
    }

    @Test func spellingsOfOneURLAreEqual() throws {
        let spellings = [
            "http://a.org/x", "HTTP://A.ORG/x", "http://a.org:80/x", "http://a.org/x#1", "http://a.org:/x",
        ]
        #expect(Set(try spellings.map { try SourceURL($0) }).count == 1)
        #expect(try SourceURL("http://a.org/x") != SourceURL("http://a.org/X"))
        #expect(try SourceURL("http://a.org/x") != SourceURL("https://a.org/x"))
        #expect(try SourceURL("http://a.org/x") != SourceURL("http://a.org/x?"))
    }

    @Test(arguments: [
        "ftp://example.org/", "file:///etc/passwd", "data:image/png;base64,AA==", "javascript:alert(1)",
        "httpx://a/", "gopher://a/", "HTTPSS://a", "://a/",
    ])
    func otherSchemesAreUnsupported(written: String) {
        let error = #expect(throws: InvalidURL.self) { try SourceURL(written) }
        #expect(error?.reason == .unsupportedScheme)
        let scheme = written.prefix { $0 != ":" }.lowercased()
        #expect(error?.message == "Only http and https URLs are loaded, not \"\(scheme)\".")
    }

    @Test(arguments: [
        "", "example.org/a", "//example.org/a", "http:", "http:/", "http://", "http://?q", "http://#f", "http://:80/",
        "http://user@example.org/", "http://user:pass@example.org/", "http://@example.org/",
        "http://user@\u{301}example.org/", "http://example.org@evil.org/", "http://example.org:65536/", "http://a:0/",
        "http://a:-1/", "http://a:+80/", "http://a:8o/", "http://a:80:80/", "http://a b/", "http://a%20b/",
        "http://a%2Fb/", "http://a%00b/", "http://a%zzb/", "http://a%", "http://[::1/", "http://[]/", "http://[::1]x/",
        "http://[g::1]/", "http://[1:2:3:4:5:6:7:8:9]/", "http://[::1.2.3]/", "http://[127.0.0.1]/", "http://a]/",
        "http://a[b/", "http://<a>/", "http://a\"b/", "http://a\u{0}b/", "http://a\u{7F}b/", "http://a\u{9B}b/",
        "http://\u{202E}gro.elpmaxe/", "http://a\u{2066}b/", "http://a\u{2028}b/", "http://a\u{2029}b/",
        "http://\u{FEFF}/", "http://a\u{E0041}b/", "http://a\u{85}/", "http://\u{FF05}41.com/", "http://a\u{FF0F}b/",
        "http://\u{5D0}a/", "http://\u{301}a/", "http://%80.com/", "http://./", "http://../", "http://a../",
        "http://256.256.256.256/", "http://1.2.3.4.5/", "http://4294967296/", "http://0xffffffffffffffffff/",
        "http://1.2.3.08/", "http://a.09/", "http://1..2/", "http://" + String(repeating: "\u{FC}", count: 64),
        "http://" + String(repeating: "a", count: 1025) + "./",
    ])
    func whatCannotBeLoadedIsBadRequest(written: String) {
        let error = #expect(throws: InvalidURL.self) { try SourceURL(written) }
        #expect(error?.reason == .malformed)
        #expect(error?.message.hasPrefix("url ") == true)
    }

    @Test func theLengthIsLimited() throws {
        let longest = "http://example.org/" + String(repeating: "a", count: SourceURL.maximumLength - 19)
        // Percent-encoding makes it longer than it was written.
        let growing = "http://example.org/" + String(repeating: "^", count: SourceURL.maximumLength / 2)
        #expect(throws: InvalidURL.self) { try SourceURL(growing) }
        #expect(try SourceURL(longest).text == longest)
        #expect(throws: InvalidURL.self) { try SourceURL(longest + "a") }
        // Bytes, not characters.
        #expect(throws: InvalidURL.self) { try SourceURL(String(longest.dropLast(1)) + "ä") }
    }

    @Test(arguments: 0..<4)
    func whateverIsAcceptedIsASafeRequestLine(seed: UInt64) {
        var random = SplitMix64(state: seed)
        let pieces = [
            "http://", "https:", "//", "/", "a", "example.org", ":", "80", "@", "[", "]", "::1", "?", "#", "%", " ",
            "\\", "\r", "\n", "\u{0}", "\u{301}", "é", "\u{2028}", "..", "&", "\"", "\u{200B}",
        ]
        for _ in 0..<3000 {
            let written =
                "http://" + (0..<Int.random(in: 1...8, using: &random)).map { _ in random.pick(pieces) }.joined()
            guard let url = try? SourceURL(written) else { continue }
            let path = url.text.utf8.dropFirst(url.origin.utf8.count)
            #expect(url.text.utf8.starts(with: "http://".utf8))
            #expect(path.first == UInt8(ascii: "/"), "\(written.debugDescription)")
            #expect(
                !path.contains { $0 <= 0x20 || $0 >= 0x7F || $0 == UInt8(ascii: "#") },
                "\(written.debugDescription)")
            #expect(!url.origin.utf8.contains { $0 <= 0x20 || $0 == 0x7F || "@#?\\".utf8.contains($0) })
            #expect((try? SourceURL(url.text)) == url, "\(written.debugDescription)")
        }
    }
}

/// The cases that the clients in C and Python have, too.
struct DataURLTests {
    private struct Case: Decodable {
        let url: String
        let bytes: String?
    }

    @Test func `the bytes of data URLs`() throws {
        let file = Golden.repository.appending(path: "clients/conformance/data-urls.json")
        let cases = try JSONDecoder().decode([Case].self, from: Data(contentsOf: file))
        #expect(cases.count == 21)
        for each in cases {
            #expect(DataURL.isSpelled(each.url))
            let bytes = try? DataURL.bytes(of: each.url)
            #expect(bytes == each.bytes.map { Array($0.utf8) }, "\(each.url)")
        }
        for url in ["data", "http://data:80/", "dat a:,", ""] { #expect(!DataURL.isSpelled(url)) }
    }
}

/// Texts that only Unicode considers equivalent are different keys.
struct ExactTextTests {
    private static let composed = "\u{E9}"
    private static let decomposed = "e\u{301}"

    @Test func equivalentTextsAreDifferent() throws {
        #expect(Self.composed == Self.decomposed)
        #expect(ExactText(Self.composed) != ExactText(Self.decomposed))
        #expect(Set([ExactText(Self.composed), ExactText(Self.decomposed), ExactText(Self.composed)]).count == 2)
        #expect(ExactText("") == ExactText(""))
        let (none, some): (String?, String?) = (nil, Self.composed)
        #expect(none.hasSameBytes(as: nil) && !none.hasSameBytes(as: some) && !some.hasSameBytes(as: none))
    }

    @Test func equivalentURLsHeadersAndCredentialsAreDifferent() throws {
        let hosts = try [Self.composed, Self.decomposed].map { try SourceURL("http://\($0).test/") }
        // A host has one spelling in ASCII.
        #expect(hosts[0] == hosts[1])
        #expect(try SourceURL("http://a.test/\(Self.composed)") != SourceURL("http://a.test/\(Self.decomposed)"))
        #expect(HeaderField(name: "a", value: Self.composed) != HeaderField(name: "a", value: Self.decomposed))
        #expect(HeaderField(name: "a", value: Self.composed) == HeaderField(name: "a", value: Self.composed))
        #expect(
            Credentials(username: "a", password: Self.composed) != Credentials(username: "a", password: Self.decomposed)
        )
        #expect(
            Credentials(username: Self.composed, password: "") != Credentials(username: Self.decomposed, password: ""))
    }
}

import CodingTestSupport
import Testing

@testable import HTTPValues

@Suite struct SourceURLTests {
    @Test(arguments: [
        ("http://example.org", "http://example.org/"), ("HTTP://Example.ORG/Path", "http://example.org/Path"),
        ("https://example.org:443/a", "https://example.org/a"), ("http://example.org:80/a", "http://example.org/a"),
        ("http://example.org:443/a", "http://example.org:443/a"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://example.org:/a", "http://example.org/a"), ("http://example.org:0080/a", "http://example.org/a"),
        ("http://example.org?q=1", "http://example.org/?q=1"), ("http://example.org/a#part", "http://example.org/a"),
        ("http://example.org#part", "http://example.org/"), ("http://example.org/?#", "http://example.org/?"),
        ("http://example.org/a#\u{301}x", "http://example.org/a"),
        ("http://example.org/a b", "http://example.org/a%20b"),
        ("http://example.org/ä?ö", "http://example.org/%C3%A4?%C3%B6"),
        ("http://example.org/\"<>", "http://example.org/%22%3C%3E"),
        ("http://example.org/%7e%7E", "http://example.org/%7e%7E"),
        ("http://example.org/\u{301}a", "http://example.org/%CC%81a"),
        ("http://example.org/a?b=http://x/@:c", "http://example.org/a?b=http://x/@:c"),
        ("http://[2001:DB8::1]:8080/a", "http://[2001:db8::1]:8080/a"), ("http://[::1]", "http://[::1]/"),
        ("http://127.0.0.1:8000/a.png", "http://127.0.0.1:8000/a.png"), ("http://a_b-c.d~e/", "http://a_b-c.d~e/"),
    ])
    func spellingIsCanonical(written: String, canonical: String) throws {
        let url = try SourceURL(written)
        #expect(url.text == canonical)
        #expect(try SourceURL(url.text) == url)
    }

    /// The short way never accepts what the long one would refuse or spell otherwise.
    @Test func whatIsPlainlyCanonicalStaysAsItIs() throws {
        var random = RandomSource(seed: 7)
        let schemes = ["http://", "https://", "HTTP://", "http:/", "httpss://"]
        let hosts = ["a.org", "127.0.0.1", "A.org", "[::1]", "", "u@a.org", "é.org", "a_b"]
        let ports = ["", ":", ":80", ":443", ":444", ":8080", ":08080", ":65535", ":65536", ":99999", ":100000", ":8x"]
        let paths = ["", "/", "/a.png", "/a?b=c", "?b", "/a#b", "/a b", "/\u{7F}", "/é", "/\"", "//x:80/@"]
        var plain = 0
        for scheme in schemes {
            for host in hosts {
                for port in ports {
                    for path in paths {
                        let written = scheme + host + port + path
                        guard SourceURL.isPlainlyCanonical(written) else { continue }
                        plain += 1
                        #expect(try SourceURL.canonical(written) == written)
                    }
                }
            }
        }
        // Two schemes, two hosts, four ports, four paths.
        #expect(plain == 64)
        for count in 0...40 {
            let written = "http://" + (0..<count).map { _ in random.pick(["a", "/", ":", "9", ".", "s"]) }.joined()
            guard SourceURL.isPlainlyCanonical(written) else { continue }
            #expect(try SourceURL.canonical(written) == written)
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
        "ftp://example.org/", "file:///etc/passwd", "data:image/png;base64,AA==", "javascript:alert(1)", " http://a/",
        "httpx://a/", "gopher://a/", "HTTPSS://a", "://a/",
    ])
    func otherSchemesAreUnsupported(written: String) {
        let error = #expect(throws: InvalidURL.self) { try SourceURL(written) }
        #expect(error?.reason == .unsupportedScheme)
        let scheme = written.prefix { $0 != ":" }.lowercased()
        #expect(error?.message == "Only http and https URLs are loaded, not \"\(scheme)\".")
    }

    @Test(arguments: [
        "", "example.org/a", "//example.org/a", "http:", "http:/", "http:example.org", "http://", "http:///a",
        "http://?q",
        "http://#f", "http://:80/", "http://user@example.org/", "http://user:pass@example.org/", "http://@example.org/",
        "http://user@\u{301}example.org/", "http://example.org@evil.org/", "http://example.org:65536/", "http://a:0/",
        "http://a:-1/", "http://a:+80/", "http://a:8o/", "http://a:80:80/", "http://a b/", "http://a\\b/",
        "http://a\\@b/",
        "http://a%20b/", "http://a%2Fb/", "http://[::1/", "http://[]/", "http://[::1]x/", "http://[g::1]/",
        "http://a]/",
        "http://a[b/", "http://<a>/", "http://a\"b/", "http://a/\n", "http://a/\r\nHost: b", "http://a/\u{0}",
        "http://a/\t",
        "http://a/\u{7F}", "http://a\u{0}b/",
        "http://a\u{9B}b/", "http://\u{202E}gro.elpmaxe/", "http://a\u{2066}b/", "http://a\u{2028}b/",
        "http://a\u{2029}b/",
        "http://a\u{200B}b/", "http://\u{FEFF}a/", "http://a\u{E0041}b/", "http://a\u{85}/",
    ])
    func whatCannotBeLoadedIsBadRequest(written: String) {
        let error = #expect(throws: InvalidURL.self) { try SourceURL(written) }
        #expect(error?.reason == .malformed)
        #expect(error?.message.hasPrefix("url ") == true)
    }

    @Test func theLengthIsLimited() throws {
        let longest = "http://example.org/" + String(repeating: "a", count: SourceURL.maximumLength - 19)
        // Percent-encoding makes it longer than it was written.
        let growing = "http://example.org/" + String(repeating: " ", count: SourceURL.maximumLength / 2)
        #expect(throws: InvalidURL.self) { try SourceURL(growing) }
        #expect(try SourceURL(longest).text == longest)
        #expect(throws: InvalidURL.self) { try SourceURL(longest + "a") }
        // Bytes, not characters.
        #expect(throws: InvalidURL.self) { try SourceURL(String(longest.dropLast(1)) + "ä") }
    }

    @Test(arguments: 0..<4)
    func whateverIsAcceptedIsASafeRequestLine(seed: UInt64) {
        var random = RandomSource(seed: seed)
        let pieces = [
            "http://", "https:", "//", "/", "a", "example.org", ":", "80", "@", "[", "]", "::1", "?", "#", "%", " ",
            "\\",
            "\r", "\n", "\u{0}", "\u{301}", "é", "\u{2028}", "..", "&", "\"", "\u{200B}",
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

import CTransfer
import IPCProtocol
import LinuxSystem
import Testing
import WorkerRuntime

@testable import imgfetch

@Suite struct ResponseHeadersTests {
    private func read(_ lines: String...) -> (ResponseHeaders, last: ResponseHeaders.Reading) {
        var headers = ResponseHeaders()
        var last = ResponseHeaders.Reading.incomplete
        for line in lines { last = headers.read(Array((line + "\r\n").utf8)) }
        return (headers, last)
    }

    @Test func `fields are known in any case, without the space around them`() {
        let (headers, last) = read(
            "HTTP/1.1 200 OK", "CONTENT-TYPE:  image/png \t", "etag:\"a:b\"", "Last-modified: x", "Content-Length: 12",
            "Retry-After: 3", "")
        #expect(last == .complete)
        #expect(headers.status == 200)
        #expect(headers.contentType == "image/png")
        #expect(headers.etag == "\"a:b\"")
        #expect(headers.lastModified == "x")
        #expect(headers.expectedLength == 12)
        #expect(headers.retryAfter == "3")
    }

    @Test func `an informational response is forgotten`() {
        let (early, last) = read("HTTP/1.1 103 Early", "ETag: early", "")
        #expect(last == .incomplete && !early.isComplete)
        let (headers, _) = read("HTTP/1.1 103 Early", "ETag: early", "", "HTTP/2 200", "")
        #expect(headers.isComplete && headers.status == 200 && headers.etag == nil)
    }

    @Test func `trailers change nothing`() {
        let (headers, _) = read("HTTP/1.1 200 OK", "ETag: a", "", "ETag: b", "HTTP/1.1 404 No", "")
        #expect(headers.status == 200 && headers.etag == "a")
    }

    @Test(arguments: [
        (["Content-Length: 5"], 5), (["Content-Length: -5"], nil), (["Content-Length: x"], nil), ([], nil),
        (["Content-Length: 5", "Content-Encoding: gzip"], nil),
        (["Content-Length: 5", "Content-Encoding: identity"], 5),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], nil), (["Content-Length: 99999999999999999999"], nil),
    ])
    func `a length counts where it is the body's`(fields: [String], length: Int?) {
        var headers = ResponseHeaders()
        for line in ["HTTP/1.1 200 OK"] + fields + [""] { _ = headers.read(Array((line + "\r\n").utf8)) }
        #expect(headers.isComplete)
        #expect(headers.expectedLength == length)
    }

    @Test func `a target is kept as ASCII, the first of several`() {
        var headers = ResponseHeaders()
        for line in [
            Array("HTTP/1.1 302 x\r\n".utf8), Array("Location: /a \u{E4}".utf8) + [0xFF, 13, 10],
            Array("Location: b\r\n".utf8),
        ] {
            _ = headers.read(line)
        }
        #expect(headers.location == "/a%20%C3%A4%FF")
    }

    @Test func `values that no use needs are not kept`() {
        let (headers, _) = read("HTTP/1.1 200 OK", "ETag: " + String(repeating: "e", count: 5000), "")
        #expect(headers.etag == nil)
        var binary = ResponseHeaders()
        _ = binary.read(Array("ETag: ".utf8) + [0xFF, 0xFE, 13, 10])
        #expect(binary.etag == nil)
    }

    @Test func `all lines together have a limit`() {
        var headers = ResponseHeaders()
        var readings: [ResponseHeaders.Reading] = []
        for _ in 0...256 { readings.append(headers.read([UInt8](repeating: 65, count: 1024))) }
        #expect(readings.last == .tooLong)
        #expect(readings.dropLast().allSatisfy { $0 == .incomplete })
    }

    @Test(arguments: ["HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20", "HTTP/1.1 abc", "HTTP/1.1 2000", "HTTP/", "200"])
    func `a status that is none ends no header`(line: String) {
        let (headers, last) = read(line, "")
        #expect(last == .incomplete && headers.status == 0)
    }
}

@Suite struct RetryAfterTests {
    @Test(arguments: [
        ("1", 1000), ("0", 1000), ("120", 120_000), ("601", 600_000), ("99999999999999999999999", 600_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37_000), ("Sun, 06 Nov 1994 08:00:00 GMT", 1000),
        ("Sun, 06 Nov 2094 08:00:00 GMT", 600_000), ("", nil), ("-1", nil), ("1.5", nil), ("soon", nil),
        ("Sun, 06 Foo 1994 08:49:37 GMT", nil), ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("a b c d e", nil),
        ("Sun Nov 6 x 1994", nil),
    ])
    func `patience is bounded`(value: String, milliseconds: Int?) {
        #expect(RetryAfter.milliseconds(value, now: 784_111_740) == milliseconds)
    }
}

@Suite struct TransferErrorTests {
    private static let codes = (1..<CURL_LAST.rawValue).map { CURLcode(rawValue: $0) }

    @Test func `every code of the library has one of ours and a sentence that names the host`() {
        let allowed: Set<ErrorCode> = [
            .unsupportedScheme, .badRequest, .dnsFailed, .connectFailed, .tlsFailed, .timeout, .tooManyRedirects,
            .transferFailed, .tooLarge, .outOfMemory, .internal,
        ]
        for code in Self.codes {
            let error = TransferError.error(code, host: "example.org", detail: "")
            #expect(allowed.contains(error.code))
            #expect(error.message.contains("example.org"))
            #expect(error.message.hasSuffix(".") && !error.message.hasSuffix(".."))
        }
    }

    @Test(arguments: [
        (CURLE_COULDNT_RESOLVE_HOST, ErrorCode.dnsFailed), (CURLE_COULDNT_CONNECT, .connectFailed),
        (CURLE_PEER_FAILED_VERIFICATION, .tlsFailed), (CURLE_SSL_CONNECT_ERROR, .tlsFailed),
        (CURLE_OPERATION_TIMEDOUT, .timeout), (CURLE_PARTIAL_FILE, .transferFailed),
        (CURLE_RECV_ERROR, .transferFailed),
        (CURLE_GOT_NOTHING, .transferFailed), (CURLE_HTTP2_STREAM, .transferFailed),
        (CURLE_BAD_CONTENT_ENCODING, .transferFailed), (CURLE_WEIRD_SERVER_REPLY, .transferFailed),
    ])
    func `what happens often has its own code`(code: CURLcode, expected: ErrorCode) {
        #expect(TransferError.code(for: code) == expected)
    }
}

@Suite struct TransferURLTests {
    @Test(arguments: [
        ("http://a/b", "http://a:8080/b"), ("http://a/b", "https://a/b"), ("http://a/b", "http://b/b"),
        ("http://a/b", "http://a.b/"), ("http://[::1]/", "http://[::2]/"),
    ])
    func `another scheme, host or port is another server`(left: String, right: String) throws {
        #expect(try !TransferURL(left).hasSameOrigin(as: TransferURL(right)))
    }

    @Test(arguments: [
        ("http://a/b", "http://A:80/c?d"), ("https://a/", "HTTPS://a:443"), ("http://127.0.0.1/", "http://0x7f.1/"),
    ])
    func `the same server may be written in several ways`(left: String, right: String) throws {
        #expect(try TransferURL(left).hasSameOrigin(as: TransferURL(right)))
    }

    @Test func `a redirect may lead to https but not away from it`() throws {
        #expect(try TransferURL("http://a/").redirected(to: "https://a/").scheme == "https")
        #expect(throws: TransferURL.Refusal.downgrade) { try TransferURL("https://a/").redirected(to: "http://a/") }
        #expect(throws: TransferURL.Refusal.scheme("ftp")) { try TransferURL("https://a/").redirected(to: "ftp://a/") }
    }

    @Test func `user information and fragment are taken off`() throws {
        #expect(try TransferURL("http://u:p@a/b?c#d").text == "http://a/b?c")
    }

    @Test(arguments: [
        ("/x", "https://h/x"), ("x?y", "https://h/a/x?y"), ("../x", "https://h/x"), ("//i/x", "https://i/x"),
        ("https://i/x", "https://i/x"), ("http://h/x", nil), ("HTTP://i/x", nil), ("?q", "https://h/a/b?q"),
        ("x:8/y", nil), ("data:,", nil),
    ])
    func `a reference is resolved against the URL that it came from`(reference: String, target: String?) throws {
        let base = try TransferURL("https://h/a/b")
        #expect((try? base.redirected(to: reference))?.text == target)
    }
}

@Suite struct FetchProgramTests {
    @Test func `options are read`() throws {
        var program = FetchProgram()
        let options = try WorkerOptions(
            [
                "--parent", "12", "--uid", "3", "--gid", "4", "--allow-address", "10.0.0.0/8", "--allow-address", "::1",
                "--log-level", "debug", "--proxy", "http://proxy.example:3128",
            ], for: &program)
        #expect(program.proxy == "http://proxy.example:3128")
        #expect(options.parent == 12 && options.logLevel == .debug)
        #expect(options.user == WorkerOptions.User(uid: 3, gid: 4))
        #expect(program.allowedAddresses.map(\.description) == ["10.0.0.0/8", "::1/128"])
        #expect(try WorkerOptions([], for: &program).user == nil)
    }

    @Test(arguments: [
        ["--parent"], ["--parent", "x"], ["--uid", "1"], ["--gid", "1"], ["--allow-address", "a"],
        ["--log-level", "loud"], ["--proxy", "proxy.example:3128"], ["--proxy", "ftp://a"], ["--proxy", "http://"],
        ["-v"], ["x"],
    ])
    func `wrong usage is an error`(arguments: [String]) {
        var program = FetchProgram()
        #expect(throws: UsageError.self) { try WorkerOptions(arguments, for: &program) }
    }
}

@Suite struct HeaderLineTests {
    @Test func `what was meant for one server is left out for another`() {
        let fields = ["Cookie", "AUTHORIZATION", "host", "accept", "x"].map { HeaderField(name: $0, value: "v") }
        let lines = RequestLines.lines(fields, asking: .body, withSecrets: false)
        #expect(lines == ["User-Agent: imgbroker/0.1.0", "Accept-Encoding: identity", "accept: v", "x: v"])
    }
}

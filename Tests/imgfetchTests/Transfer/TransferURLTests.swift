import CTransfer

@testable import imgfetch

struct TransferURLTests {
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

    @Test func `user information and fragment are removed`() throws {
        #expect(try TransferURL("http://u:p@a/b?c#d").text == "http://a/b?c")
    }

    @Test(arguments: [
        ("http://a/b?", "http://a/b?", "/b?"), ("http://a?", "http://a/?", "/?"),
        ("http://a/b?#c?", "http://a/b?", "/b?"), ("http://a/b?c", "http://a/b?c", nil),
        ("http://a/b", "http://a/b", nil), ("http://a/b??", "http://a/b??", nil),
        ("http://a/b#c?", "http://a/b", nil), ("https://u@a:8/?", "https://a:8/?", "/?"),
    ])
    func `an empty query is kept`(text: String, kept: String, target: String?) throws {
        let url = try TransferURL(text)
        #expect(url.text == kept)
        #expect(try TransferURL(kept) == url)
        #expect(url.requestTarget(isForProxy: false) == target)
        #expect(url.requestTarget(isForProxy: true) == (url.scheme == "http" ? target.map { _ in kept } : target))
    }

    @Test(arguments: [
        ("/x", "https://h/x"), ("x?y", "https://h/a/x?y"), ("../x", "https://h/x"), ("//i/x", "https://i/x"),
        ("https://i/x", "https://i/x"), ("http://h/x", nil), ("HTTP://i/x", nil), ("?q", "https://h/a/b?q"),
        ("?", "https://h/a/b?"), ("x?", "https://h/a/x?"), ("x:8/y", nil), ("data:,", nil),
    ])
    func `a reference is resolved against its base URL`(reference: String, target: String?) throws {
        let base = try TransferURL("https://h/a/b")
        #expect((try? base.redirected(to: reference))?.text == target)
    }
}

struct TransferErrorTests {
    @Test func `every code of libcurl has a wire code and a message that names the host`() {
        let allowed: Set<ErrorCode> = [
            .unsupportedScheme, .badRequest, .dnsFailed, .connectFailed, .tlsFailed, .timeout, .tooManyRedirects,
            .transferFailed, .tooLarge, .outOfMemory, .internal,
        ]
        for code in (1..<CURL_LAST.rawValue).map({ CURLcode(rawValue: $0) }) {
            let error = TransferError.error(code, host: "example.org", detail: "")
            #expect(allowed.contains(error.code))
            #expect(error.message.contains("example.org"))
            #expect(error.message.hasSuffix(".") && !error.message.hasSuffix(".."))
        }
    }

    @Test(arguments: [
        (CURLE_COULDNT_RESOLVE_HOST, "Could not resolve host: example.org", "Could not resolve host: example.org."),
        (CURLE_COULDNT_CONNECT, "Failed to connect to example.org", "Failed to connect to example.org."),
        (
            CURLE_COULDNT_RESOLVE_PROXY, "Could not resolve proxy: inner",
            "The host example.org could not be found: Could not resolve proxy: inner."
        ),
    ])
    func `a message names the host once`(code: CURLcode, detail: String, expected: String) {
        #expect(TransferError.error(code, host: "example.org", detail: detail).message == expected)
    }

    @Test(arguments: [
        (CURLE_COULDNT_RESOLVE_HOST, ErrorCode.dnsFailed), (CURLE_COULDNT_CONNECT, .connectFailed),
        (CURLE_PEER_FAILED_VERIFICATION, .tlsFailed), (CURLE_SSL_CONNECT_ERROR, .tlsFailed),
        (CURLE_OPERATION_TIMEDOUT, .timeout), (CURLE_PARTIAL_FILE, .transferFailed),
        (CURLE_RECV_ERROR, .transferFailed), (CURLE_GOT_NOTHING, .transferFailed),
        (CURLE_HTTP2_STREAM, .transferFailed),
        (CURLE_BAD_CONTENT_ENCODING, .transferFailed), (CURLE_WEIRD_SERVER_REPLY, .transferFailed),
    ])
    func `frequent errors have their own code`(code: CURLcode, expected: ErrorCode) {
        #expect(TransferError.code(for: code) == expected)
    }
}

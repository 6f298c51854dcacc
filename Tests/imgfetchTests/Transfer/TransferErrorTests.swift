import CTransfer
import IPCProtocol
import Testing

@testable import imgfetch

@Suite struct TransferErrorTests {
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

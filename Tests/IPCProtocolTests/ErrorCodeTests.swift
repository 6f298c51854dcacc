import CodingTestSupport
import Foundation
import IPCProtocol
import Testing

struct ErrorCodeTests {
    /// The codes are those of the table on the protocol page, no more and no fewer.
    @Test func theCodesAreThoseOfTheProtocolPage() throws {
        let page = try String(contentsOf: Golden.repository.appending(path: "docs/protocol.md"), encoding: .utf8)
        var documented: [String] = []
        var isInTable = false
        for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("| codes |") {
                isInTable = true
            } else if !line.hasPrefix("|") {
                isInTable = false
            } else if isInTable, let cell = line.split(separator: "|").first {
                documented += cell.matches(of: /`([a-z-]+)`/).map { String($0.output.1) }
            }
        }
        #expect(documented.sorted() == ErrorCode.allCases.map(\.rawValue).sorted())
    }

    @Test func codesAreRetryableWhereTheCauseMayPass() {
        let retryable: Set<ErrorCode> = [
            .shuttingDown, .overloaded, .quotaExceeded, .hostUnavailable, .dnsFailed, .connectFailed, .timeout,
            .transferFailed, .decoderUnavailable, .outOfMemory, .diskFailed, .internal,
        ]
        for code in ErrorCode.allCases where code != .httpStatus {
            #expect(WireError(code, "").isRetryable == retryable.contains(code), "\(code)")
        }
    }

    @Test func statusesAreRetryableWhereHTTPSaysSo() {
        let retryable: Set<Int> = [408, 425, 429, 500, 502, 503, 504, 507, 508, 511, 599]
        for status in [200, 204, 301, 304, 400, 401, 403, 404, 410, 418, 451, 501, 505, 600] + retryable {
            #expect(
                WireError(.httpStatus, "", httpStatus: status).isRetryable == retryable.contains(status), "\(status)")
        }
        #expect(!WireError(.httpStatus, "").isRetryable)
        // A status beside another code says nothing.
        #expect(!WireError(.tooLarge, "", httpStatus: 503).isRetryable)
    }
}

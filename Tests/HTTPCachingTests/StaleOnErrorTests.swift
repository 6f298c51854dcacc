import HTTPCaching
import HTTPValues
import IPCProtocol
import Testing

/// Stale responses in place of errors (RFC 5861, section 4).
struct StaleOnErrorTests {
    private static let timeout = WireError(.timeout, "")

    private func policy(_ control: String, shared: Bool = true, default window: Int = 0) -> CachePolicy {
        CachePolicy(
            ResponseRecord(status: 200, requestedAt: 0, receivedAt: 0, cacheControl: control), isShared: shared,
            settings: FreshnessRow.settings { $0.staleIfError = window })
    }

    @Test(arguments: ErrorCode.allCases)
    func `only failures on the way to the origin count`(code: ErrorCode) {
        let failures: Set<ErrorCode> = [
            .connectFailed, .dnsFailed, .tlsFailed, .hostUnavailable, .timeout, .transferFailed,
        ]
        let served = policy("max-age=60, stale-if-error=30").mayServeStale(atAge: 60, after: WireError(code, ""))
        #expect(served == failures.contains(code))
    }

    @Test(arguments: [
        (429, true), (500, true), (502, true), (503, true), (504, true), (501, false), (404, false), (410, false),
        (408, false), (nil, false),
    ])
    func `only statuses of failure count`(status: Int?, served: Bool) {
        let error = WireError(.httpStatus, "", httpStatus: status)
        #expect(policy("max-age=60, stale-if-error=30").mayServeStale(atAge: 60, after: error) == served)
    }

    @Test(arguments: [
        ("max-age=60, stale-if-error=30", 89, true), ("max-age=60, stale-if-error=30", 90, false),
        ("max-age=60, stale-if-error=30", 0, true), ("max-age=60, stale-if-error=30", Int.max, false),
        ("max-age=60", 60, false), ("max-age=60", 59, false), ("max-age=60, stale-if-error=", 60, false),
        ("max-age=60, stale-if-error=30, must-revalidate", 60, false),
        ("max-age=60, stale-if-error=30, proxy-revalidate", 60, false),
        ("max-age=60, stale-if-error=30, s-maxage=60", 60, false),
        ("max-age=60, stale-if-error=30, no-cache", 60, false),
        ("max-age=60, stale-if-error=30, no-cache", 0, false),
    ])
    func `the window is the response's`(control: String, age: Int, served: Bool) {
        #expect(policy(control).mayServeStale(atAge: age, after: Self.timeout) == served)
    }

    @Test func `the administrator's window is for responses that state none`() {
        #expect(policy("max-age=60", default: 5).mayServeStale(atAge: 64, after: Self.timeout))
        #expect(!policy("max-age=60", default: 5).mayServeStale(atAge: 65, after: Self.timeout))
        #expect(!policy("max-age=60, stale-if-error=0", default: 5).mayServeStale(atAge: 60, after: Self.timeout))
        #expect(!policy("max-age=60, must-revalidate", default: 5).mayServeStale(atAge: 60, after: Self.timeout))
    }

    @Test func `what the policy says of staleness is what the response says`() {
        let shared = policy("max-age=60, proxy-revalidate, immutable, stale-while-revalidate=9")
        #expect(shared.mustRevalidate && !shared.alwaysRevalidate)
        #expect(shared.staleWhileRevalidate == 0)
        let own = policy("max-age=60, proxy-revalidate, stale-while-revalidate=9", shared: false)
        #expect(!own.mustRevalidate)
        #expect(own.staleWhileRevalidate == 9)
        #expect(policy("no-cache").alwaysRevalidate)
    }
}

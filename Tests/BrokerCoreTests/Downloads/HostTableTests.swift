import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

struct HostTableTests {
    private let refused = WireError(.connectFailed, "")
    private let host = Self.key("http://a")

    private static func key(_ origin: String, user: UInt32 = 1) -> HostTable.Key {
        HostTable.Key(origin: origin, user: user)
    }

    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: 1_000_000_000).adding(milliseconds: milliseconds)
    }

    /// A table in which the breaker of `host` has just opened.
    private var broken: HostTable {
        var table = HostTable()
        for _ in 0..<5 { table.failed(host, refused, at: at(0)) }
        return table
    }

    @Test func `five failures in a row open the breaker, and any answer between them counts anew`() {
        var table = HostTable()
        for _ in 0..<4 { table.failed(host, refused, at: at(0)) }
        table.answered(host, status: 500, retryAfterMs: nil, at: at(0))
        #expect(table.count == 0)
        for _ in 0..<2 { table.failed(host, refused, at: at(0)) }
        for _ in 0..<2 { table.failed(host, WireError(.timeout, ""), at: at(0)) }
        for code in [ErrorCode.dnsFailed, .tlsFailed, .transferFailed, .cancelled] {
            table.failed(host, WireError(code, ""), at: at(0))
        }
        expect(nil, table.admit(host, at: at(0)))
        table.failed(host, refused, at: at(0))
        expect(5000, table.admit(host, at: at(0)))
        expect(4000, table.refusal(of: host, at: at(1000)))
        expect(nil, table.admit(Self.key("http://a:8080"), at: at(0)))
    }

    @Test func `a half open breaker lets one through until its outcome is known`() {
        var table = broken
        expect(1, table.admit(host, at: at(4999)))
        expect(nil, table.refusal(of: host, at: at(5000)))
        expect(nil, table.admit(host, at: at(5000)))
        expect(1000, table.admit(host, at: at(5000)))
        expect(1000, table.refusal(of: host, at: at(60_000)))
        table.abandoned(host)
        expect(nil, table.admit(host, at: at(60_000)))
        expect(1000, table.admit(host, at: at(60_000)))
        // An inconclusive probe.
        table.failed(host, WireError(.tlsFailed, ""), at: at(60_000))
        expect(nil, table.admit(host, at: at(60_000)))
        table.answered(host, status: 404, retryAfterMs: nil, at: at(60_000))
        expect(nil, table.admit(host, at: at(60_000)))
        expect(nil, table.admit(host, at: at(60_000)))
        #expect(table.count == 0)
    }

    @Test func `each failed probe doubles the wait, up to a minute`() {
        var table = broken
        var now = 0
        var waits: [Int?] = []
        for _ in 0..<6 {
            let wait = table.refusal(of: host, at: at(now))
            waits.append(wait)
            now += wait ?? 0
            expect(nil, table.admit(host, at: at(now)))
            table.failed(host, refused, at: at(now))
        }
        #expect(waits == [5000, 10_000, 20_000, 40_000, 60_000, 60_000])
        table.answered(host, status: 200, retryAfterMs: nil, at: at(now))
        for _ in 0..<5 { table.failed(host, refused, at: at(now)) }
        expect(5000, table.refusal(of: host, at: at(now)))
    }

    @Test func `transfers that were in flight when the breaker opened do not prolong it`() {
        var table = broken
        table.failed(host, refused, at: at(4000))
        expect(1000, table.admit(host, at: at(4000)))
        table.failed(host, refused, at: at(6000))
        expect(nil, table.admit(host, at: at(6000)))
    }

    @Test func `Retry-After is respected`() {
        var table = HostTable()
        func ends(_ end: Int?, at now: Int, location: SourceLocation = #_sourceLocation) {
            #expect(table.holdEnd(of: host, at: at(now)) == end.map(at), sourceLocation: location)
        }
        table.answered(host, status: 503, retryAfterMs: nil, at: at(0))
        table.answered(host, status: 500, retryAfterMs: 5000, at: at(0))
        ends(nil, at: 0)
        table.answered(host, status: 503, retryAfterMs: 3000, at: at(0))
        // Transfers that began earlier finish later.
        table.answered(host, status: 429, retryAfterMs: 1, at: at(0))
        table.answered(host, status: 200, retryAfterMs: nil, at: at(500))
        ends(3000, at: 500)
        // No failure is of the breaker's kind.
        expect(nil, table.refusal(of: host, at: at(500)))
        ends(nil, at: 3000)
        table.answered(host, status: 429, retryAfterMs: 0, at: at(3000))
        ends(4000, at: 3000)
        table.answered(host, status: 429, retryAfterMs: .max, at: at(3000))
        ends(603_000, at: 3000)
    }

    @Test func `an origin that asked for patience gets one transfer, and one more with each answer`() {
        var table = HostTable()
        #expect(table.mostTransfers(of: host, at: at(0)) == nil)
        table.answered(host, status: 429, retryAfterMs: 1000, at: at(0))
        #expect(table.mostTransfers(of: host, at: at(999)) == 0)
        #expect(table.mostTransfers(of: host, at: at(1000)) == 1)
        // An answer that came in the meantime was asked for before.
        table.answered(host, status: 200, retryAfterMs: nil, at: at(999))
        #expect(table.mostTransfers(of: host, at: at(1000)) == 1)
        for status in [200, 304, 404, 301] {
            table.answered(host, status: status, retryAfterMs: nil, at: at(1000))
        }
        #expect(table.mostTransfers(of: host, at: at(1000)) == 4)
        table.answered(host, status: 503, retryAfterMs: 1000, at: at(1000))
        #expect(table.mostTransfers(of: host, at: at(2000)) == 1)
        for _ in 1..<HostTable.mostGentle {
            #expect(table.mostTransfers(of: host, at: at(2000)) != nil)
            table.answered(host, status: 200, retryAfterMs: nil, at: at(2000))
        }
        #expect(table.mostTransfers(of: host, at: at(2000)) == nil && table.count == 0)
    }

    @Test func `retries are one in ten transfers, after the first ten`() {
        var table = HostTable()
        func retries() -> Int {
            var count = 0
            while table.takeRetry(host) { count += 1 }
            return count
        }
        #expect(retries() == 10)
        for _ in 0..<39 { expect(nil, table.admit(host, at: at(0))) }
        #expect(retries() == 3)
        expect(nil, table.admit(host, at: at(0)))
        #expect(retries() == 1)
        // Unused retries do not accumulate.
        for _ in 0..<1000 { expect(nil, table.admit(host, at: at(0))) }
        #expect(table.count == 0)
        #expect(retries() == 10)
    }

    @Test func `the table is bounded, and the least recently used entry is removed`() {
        var table = HostTable(capacity: 3)
        for name in ["http://a", "http://b", "http://c"] {
            table.answered(Self.key(name), status: 429, retryAfterMs: 60_000, at: at(0))
        }
        table.failed(Self.key("http://a"), refused, at: at(0))
        table.answered(Self.key("http://d"), status: 429, retryAfterMs: 60_000, at: at(0))
        #expect(table.count == 3)
        let held = ["a", "b", "c", "d"].filter { table.holdEnd(of: Self.key("http://\($0)"), at: at(0)) != nil }
        #expect(held == ["a", "c", "d"])
    }

    /// Keeps the mutating calls outside of `#expect`.
    private func expect(_ expected: Int?, _ wait: Int?, at location: SourceLocation = #_sourceLocation) {
        #expect(wait == expected, sourceLocation: location)
    }
}

struct RetryPolicyTests {
    @Test func `only failures that are often transient are retried`() {
        func mayRetry(_ error: WireError, received: Int = 0) -> Bool {
            RetryPolicy.mayRetry(error, receivedBytes: received, attempt: 1, limit: 1)
        }
        let codes = ErrorCode.allCases.filter { mayRetry(WireError($0, "")) }
        #expect(codes == [.connectFailed, .timeout, .transferFailed])
        #expect(!mayRetry(WireError(.timeout, ""), received: 1))
        #expect(mayRetry(WireError(.transferFailed, ""), received: 1))
        let statuses = (100...599).filter { mayRetry(WireError(.httpStatus, "", httpStatus: $0)) }
        #expect(statuses == [502, 503, 504])
        #expect(!mayRetry(WireError(.httpStatus, "", httpStatus: 503, retryAfterMs: 1000)))
    }

    @Test func `the number of retries is limited`() {
        let error = WireError(.connectFailed, "")
        for limit in 0...3 {
            let attempts = (1...5).filter {
                RetryPolicy.mayRetry(error, receivedBytes: 0, attempt: $0, limit: limit)
            }
            #expect(attempts.count == limit)
        }
    }

    @Test func `the delay is random up to a bound that doubles`() {
        let bounds = (0...9).map { RetryPolicy.delayMs(attempt: $0, random: .max) }
        #expect(bounds == [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
        #expect(RetryPolicy.delayMs(attempt: .max, random: .max) == 60_000)
        #expect(RetryPolicy.delayMs(attempt: 3, random: 0) == 0)
        var random = SplitMix64(state: 5)
        let delays = (0..<1000).map { _ in RetryPolicy.delayMs(attempt: 1, random: random.next()) }
        let mean = delays.reduce(0, +) / delays.count
        #expect((450...550).contains(mean))
    }
}

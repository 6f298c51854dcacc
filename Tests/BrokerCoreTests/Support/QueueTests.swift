import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The basic data structures of the state.
struct QueueTests {
    @Test func `deadlines come in the order of their instants`() {
        var random = SplitMix64(state: 3)
        var queue = MinHeap<Instant, Int>()
        let times = (0..<500).map { _ in Int64.random(in: 0...1000, using: &random) }
        for time in times { queue.add(Int(time), at: Instant(nanoseconds: time)) }
        #expect(queue.popDue(at: Instant(nanoseconds: -1)) == nil)
        var popped: [Int] = []
        while let next = queue.popDue(at: Instant(nanoseconds: 1000)) { popped.append(next) }
        #expect(popped == times.map(Int.init).sorted())
    }

    @Test func `a histogram's quantiles are right to six per cent`() {
        var histogram = LatencyHistogram()
        for value in 1...10_000 { histogram.record(microseconds: value) }
        let quantiles = histogram.quantiles(unit: 1)
        #expect(abs(quantiles.p50 - 5000) < 320)
        #expect(abs(quantiles.p90 - 9000) < 570)
        #expect(abs(quantiles.p99 - 9900) < 630)
        #expect(quantiles.max == 10_000)
        var small = LatencyHistogram()
        for _ in 0..<3 { small.record(microseconds: 5) }
        #expect(small.quantiles(unit: 1).p50 == 5)
        small.record(microseconds: .max)
        #expect(small.quantiles(unit: 1).max == Double(Int.max))
        #expect(LatencyHistogram().quantiles(unit: 1) == StatsReport.Quantiles())
    }

    @Test func `a lease is counted, its bytes once`() {
        var leases = LeaseTable()
        let (client, buffer) = (ClientID(number: 1), BufferID(number: 9))
        let grants = (0..<2).map { _ in leases.grant(buffer, bytes: 100, to: client, of: 7) }
        #expect(grants == [true, false])
        #expect(leases.held(by: client) == LeaseTable.Amount(buffers: 1, bytes: 100))
        let releases = (0..<3).map { _ in leases.release(buffer, from: client) }
        #expect(releases == [false, true, false])
        #expect(leases.held(by: client) == LeaseTable.Amount())
        let rest = leases.releaseAll(from: client)
        #expect(rest.isEmpty)
    }
}

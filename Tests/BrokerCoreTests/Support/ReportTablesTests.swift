import IPCProtocol
import Testing

@testable import BrokerCore

/// The tables and distributions of the statistics.
struct ReportTablesTests {
    @Test func `the buckets of a distribution are bounded by powers of two`() throws {
        var histogram = LatencyHistogram()
        #expect(histogram.distribution == nil)
        let values = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, (1 << 26) - 1, 1 << 26, 1 << 60]
        for value in values { histogram.record(microseconds: value) }
        let distribution = try #require(histogram.distribution)
        #expect((distribution.count, distribution.sumMicroseconds) == (values.count, values.reduce(0, +)))
        var cumulative = 0
        for bound in 0..<StatsReport.Histogram.bounds {
            cumulative += distribution.buckets[bound]
            #expect(cumulative == values.count { $0 < 1 << bound }, "below 2^\(bound)")
        }
        #expect(distribution.buckets.count == StatsReport.Histogram.bounds + 1 && distribution.buckets.last == 2)
    }

    @Test func `an origin with a large share of the time is in the table, however many others come`() {
        var origins = BusiestOrigins()
        for number in 0..<5000 {
            origins.count("http://h\(number)", microseconds: 2000, bytes: 1, hasFailed: false)
            if number % 20 == 0 { origins.count("http://slow", microseconds: 400_000, bytes: 10, hasFailed: true) }
        }
        let first = origins.first(10)
        #expect(first.count == 10)
        #expect((first[0].origin, first[0].milliseconds) == ("http://slow", 250 * 400))
        #expect((first[0].maxMilliseconds, first[0].failed, first[0].bytes) == (400, 250, 2500))
    }

    @Test func `an image counts as remade only if it was evicted lately, and once for each eviction`() {
        var recent = RecentEvictions()
        recent.decoded(1)
        #expect(recent.remade == 0)
        recent.evicted(1)
        recent.decoded(1)
        recent.decoded(1)
        #expect(recent.remade == 1)
        recent.evicted(2)
        for hash in 10..<10 + RecentEvictions.capacity { recent.evicted(hash) }
        recent.decoded(2)
        #expect(recent.remade == 1)
        recent.decoded(10)
        #expect(recent.remade == 2)
    }

    @Test func `an image that is evicted again is remembered from then on`() {
        var recent = RecentEvictions()
        recent.evicted(1)
        recent.decoded(1)
        for hash in 2...RecentEvictions.capacity { recent.evicted(hash) }
        // The next eviction takes the place of the first one.
        recent.evicted(1)
        recent.evicted(0)
        recent.decoded(1)
        #expect(recent.remade == 2)
    }
}

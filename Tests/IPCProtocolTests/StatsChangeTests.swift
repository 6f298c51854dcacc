import Testing

@testable import IPCProtocol

/// Figures of a period.
struct StatsChangeTests {
    private func report(_ uptime: Int, _ requests: Int, hits: Int = 0, buckets: [Int] = []) -> StatsReport {
        var report = StatsReport()
        (report[.uptimeSeconds], report[.requests], report[.memoryHits]) = (uptime, requests, hits)
        report[.networkLoads] = requests - hits
        report.histograms[.load] = StatsReport.Histogram()
        report.histograms[.load]?.buckets = buckets
        return report
    }

    @Test func `a period is between two reports`() {
        let change = StatsChange(to: report(20, 300, hits: 250), from: report(10, 100, hits: 100), seconds: 10)
        #expect(!change.isSinceStart)
        #expect(change.count([.requests]) == 200)
        #expect(change.perSecond(.requests) == 20)
        #expect(change.hitRatio == 0.75)
        #expect(change.now.hitRatio == 250.0 / 300)
    }

    @Test func `without an earlier report the period is the broker's life`() {
        let change = StatsChange(to: report(20, 300))
        #expect(change.isSinceStart)
        #expect(change.perSecond(.requests) == 15)
    }

    @Test(arguments: [(5, 500), (30, 50)])
    func `a broker that was restarted has a life of its own`(uptime: Int, requests: Int) {
        let change = StatsChange(to: report(uptime, requests), from: report(20, 300), seconds: 10)
        #expect(change.isSinceStart)
        #expect(change.count([.requests]) == requests)
        #expect(change.seconds == Double(uptime))
    }

    @Test func quantiles() {
        // 100 durations below 2^10 µs, 100 below 2^11.
        let buckets = [Int](repeating: 0, count: 10) + [100, 100]
        let change = StatsChange(
            to: report(20, 1, buckets: buckets), from: report(10, 1, buckets: buckets.dropLast() + [50]), seconds: 10)
        #expect(change.buckets(.load) == [Int](repeating: 0, count: 11) + [50])
        #expect(change.quantile(0.5, .load) == 1536)
        #expect(change.quantile(1, .load) == 2048)
        #expect(change.quantile(0.5, .hit) == nil)
        #expect(StatsChange(to: report(20, 1, buckets: buckets)).quantile(0.5, .load) == 1024)
    }

    @Test func `no number is too large`() {
        var report = StatsReport()
        for figure in StatsReport.Figure.allCases { report[figure] = .max }
        report.histograms[.hit] = StatsReport.Histogram()
        report.histograms[.hit]?.buckets = [Int](repeating: .max, count: 28)
        let change = StatsChange(to: report)
        #expect(change.count(StatsReport.hits) == .max)
        #expect(change.hitRatio == 1)
        #expect(change.quantile(0.99, .hit)?.isFinite == true)
    }
}

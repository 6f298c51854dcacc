// Figures that follow from others. They are computed with saturation, because other software may listen at the broker's
// socket.

extension StatsReport {
    /// The outcomes of `get`s that took no load of their own.
    package static let hits: [Figure] = [.memoryHits, .diskHits, .sharedHits, .coalesced]
    /// The outcomes of `get`s that have ended, cancelled ones aside.
    package static let answered: [Figure] = Figure.outcomes.filter { $0 != .cancelled }

    /// The sum of figures.
    package func sum(_ figures: [Figure]) -> Int {
        figures.reduce(0) { Self.saturating($0, self[$1]) }
    }

    /// The sum of two numbers.
    package static func saturating(_ left: Int, _ right: Int) -> Int {
        let (sum, overflowed) = left.addingReportingOverflow(right)
        return overflowed ? .max : sum
    }

    /// The part of a whole, from 0 to 1; nil of nothing.
    package static func share(_ part: Int, of whole: Int) -> Double? {
        whole <= 0 ? nil : max(0, min(1, Double(part) / Double(whole)))
    }

    /// The share of the answered `get`s that were hits; nil when none was answered.
    package var hitRatio: Double? { Self.share(sum(Self.hits), of: sum(Self.answered)) }

    /// Whether the report has the figures of all users: only then it states the broker's open descriptors, of which
    /// there are some.
    package var isComplete: Bool { self[.openDescriptors] > 0 }
}

extension StatsReport.User {
    /// The time of the user's jobs.
    package var workMilliseconds: Int { StatsReport.saturating(downloadMilliseconds, decodeMilliseconds) }
}

extension StatsReport.Host {
    /// The mean time of a transfer; 0 without one.
    package var meanMilliseconds: Double { transfers > 0 ? Double(milliseconds) / Double(transfers) : 0 }
}

/// The statistics of a period: of the time between two reports, or since the broker's start.
package struct StatsChange {
    /// The report at the end.
    package let now: StatsReport
    /// The report at the beginning; one of zeros for the broker's whole life.
    package let before: StatsReport
    /// The length of the period.
    package let seconds: Double
    /// Whether the period began with the broker.
    package let isSinceStart: Bool

    /// Creates the period until `now`, which began `seconds` ago with `before`. Without `before`, and when a broker
    /// that was started since then has made `now`, it began with the broker.
    package init(to now: StatsReport, from before: StatsReport? = nil, seconds: Double = 0) {
        self.now = now
        isSinceStart = before.map { $0[.uptimeSeconds] > now[.uptimeSeconds] || $0[.requests] > now[.requests] } ?? true
        self.before = isSinceStart ? StatsReport() : before ?? StatsReport()
        self.seconds = isSinceStart ? Double(max(1, now[.uptimeSeconds])) : max(0.001, seconds)
    }

    /// The growth of counters in the period.
    package func count(_ figures: [StatsReport.Figure]) -> Int { max(0, now.sum(figures) - before.sum(figures)) }

    /// The growth of a counter per second.
    package func perSecond(_ figure: StatsReport.Figure) -> Double { Double(count([figure])) / seconds }

    /// The share of the `get`s answered in the period that were hits; nil when none was answered.
    package var hitRatio: Double? {
        StatsReport.share(count(StatsReport.hits), of: count(StatsReport.answered))
    }

    /// Whether over a tenth of the decodings of the period, ten at least, have repeated the work for images that were
    /// evicted shortly before.
    package var isMemoryTooSmall: Bool {
        let decodes = count([.decodes])
        return decodes >= 10 && StatsReport.share(count([.remadeAfterEviction]), of: decodes) ?? 0 > 0.1
    }

    /// Whether the limit of descriptors, not that of memory, has caused most evictions of the period.
    package var areDescriptorsTooFew: Bool {
        StatsReport.share(count([.descriptorEvictions]), of: count([.evictions])) ?? 0 > 0.5
    }

    /// The durations of the period, in the buckets of `StatsReport.Histogram`.
    package func buckets(_ name: StatsReport.Distribution) -> [Int] {
        let earlier = before.histograms[name]?.buckets ?? []
        return (now.histograms[name]?.buckets ?? []).enumerated().map { index, count in
            max(0, count - (index < earlier.count ? earlier[index] : 0))
        }
    }

    /// A quantile of the durations of the period in microseconds, interpolated within its bucket; nil without a
    /// duration.
    package func quantile(_ share: Double, _ name: StatsReport.Distribution) -> Double? {
        let counts = buckets(name)
        let total = counts.reduce(0.0) { $0 + Double($1) }
        guard total > 0 else { return nil }
        var left = total * share
        for (bucket, count) in counts.enumerated() {
            if left <= Double(count) {
                let bound = Double(sign: .plus, exponent: bucket, significand: 1)
                let low = bucket == 0 ? 0 : bound / 2
                return low + (bound - low) * left / Double(count)
            }
            left -= Double(count)
        }
        return nil
    }
}

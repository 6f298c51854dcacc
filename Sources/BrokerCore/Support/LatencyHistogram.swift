package import IPCProtocol

/// A histogram of durations. Its buckets grow by an eighth, so a quantile is exact to 6 % at any magnitude.
package struct LatencyHistogram {
    private static let steps = 8
    private var counts = [Int](repeating: 0, count: 64 * steps)
    private var total = 0
    private var largest = 0
    /// Saturates.
    private var sum = 0

    package init() {}

    package mutating func record(microseconds: Int) {
        let value = max(microseconds, 0)
        counts[Self.bucket(of: value)] += 1
        total += 1
        largest = max(largest, value)
        let (newSum, overflowed) = sum.addingReportingOverflow(value)
        sum = overflowed ? .max : newSum
    }

    /// The distribution in buckets whose bounds are powers of two; nil while nothing was recorded.
    package var distribution: StatsReport.Histogram? {
        if total == 0 { return nil }
        var histogram = StatsReport.Histogram()
        (histogram.count, histogram.sumMicroseconds) = (total, sum)
        for (bucket, count) in counts.enumerated() where count > 0 {
            // The width of the bucket's largest value in bits.
            let width =
                bucket < Self.steps ? Int.bitWidth - bucket.leadingZeroBitCount : bucket / Self.steps + 3
            let index = min(width, StatsReport.Histogram.bounds)
            while histogram.buckets.count <= index { histogram.buckets.append(0) }
            histogram.buckets[index] += count
        }
        return histogram
    }

    /// The quantiles, in units of `unit` microseconds.
    package func quantiles(unit: Double) -> StatsReport.Quantiles {
        var quantiles = StatsReport.Quantiles()
        if total == 0 { return quantiles }
        quantiles.p50 = Double(value(at: 0.5)) / unit
        quantiles.p90 = Double(value(at: 0.9)) / unit
        quantiles.p99 = Double(value(at: 0.99)) / unit
        quantiles.max = Double(largest) / unit
        return quantiles
    }

    private func value(at quantile: Double) -> Int {
        var left = Int((Double(total) * quantile).rounded(.up))
        for (bucket, count) in counts.enumerated() {
            left -= count
            if left <= 0 { return min(Self.middle(of: bucket), largest) }
        }
        return largest
    }

    /// Values below 8 have a bucket each; above, each power of two has eight.
    private static func bucket(of value: Int) -> Int {
        if value < steps { return value }
        let exponent = Int.bitWidth - 1 - value.leadingZeroBitCount
        return (exponent - 2) * steps + (value >> (exponent - 3)) - steps
    }

    private static func middle(of bucket: Int) -> Int {
        if bucket < steps { return bucket }
        let exponent = bucket / steps + 2
        let low = (bucket % steps + steps) << (exponent - 3)
        return low + (1 << (exponent - 3)) / 2
    }
}

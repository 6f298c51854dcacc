import Glibc

/// The taps of each pixel of a filtered row or column: a run of source pixels with a weight for each.
///
/// The filter is Lanczos with three lobes (C. Duchon, "Lanczos Filtering in One and Two Dimensions", 1979). For scaling
/// down it is stretched by the ratio, which removes frequencies above the result's Nyquist limit; for scaling up it is
/// not.
struct FilterTaps {
    /// The range of source pixels with a weight; the others are not needed.
    let used: Range<Int>
    /// The start of each result pixel's run, relative to `used`. Never decreases.
    let starts: [UInt32]
    let counts: [UInt32]
    /// The weights of all result pixels, `stride` apart.
    let weights: [Float]
    /// The number of weights per result pixel: a multiple of four, padded with zeros.
    let stride: Int
    let longestRun: Int

    private static let lobes = 3.0

    /// Creates taps that scale the `extent` pixels from `origin`, of `sourceCount` source pixels, to `count` pixels.
    /// Source pixels beyond the extent contribute to the edges.
    init(count: Int, from sourceCount: Int, origin: Double, extent: Double) {
        let scale = extent / Double(count)
        let isCopy = scale == 1 && origin == origin.rounded()
        let stretch = max(scale, 1)
        let support = isCopy ? 0.5 : Self.lobes * stretch
        let longestRun = isCopy ? 1 : Self.longestRun(support, within: sourceCount)
        let stride = Self.stride(longestRun)
        var starts: [Int] = []
        var counts: [UInt32] = []
        var weights = [Float](repeating: 0, count: count * stride)
        starts.reserveCapacity(count)
        counts.reserveCapacity(count)
        for index in 0..<count {
            let center = origin + (Double(index) + 0.5) * scale
            let nearest = min(max(Int(center), 0), sourceCount - 1)
            let first = min(nearest, max(0, Int((center - support).rounded())))
            let end = max(nearest + 1, min(sourceCount, Int((center + support).rounded())))
            let run = isCopy ? nearest..<nearest + 1 : first..<min(end, first + longestRun)
            let values = run.map { isCopy ? 1 : Self.lanczos((Double($0) + 0.5 - center) / stretch) }
            let sum = values.reduce(0, +)
            for (tap, value) in values.enumerated() { weights[index * stride + tap] = Float(value / sum) }
            starts.append(run.lowerBound)
            counts.append(UInt32(run.count))
        }
        let (lower, upper) = (starts[0], starts[count - 1] + Int(counts[count - 1]))
        used = lower..<upper
        self.starts = starts.map { UInt32($0 - lower) }
        (self.counts, self.weights, self.stride, self.longestRun) = (counts, weights, stride, longestRun)
    }

    var count: Int { starts.count }

    /// The number of multiplications for one row.
    var work: Int { counts.reduce(0) { $0 + Int($1) } }

    /// The maximum number of result pixels whose runs share a source pixel.
    var mostOverlapping: Int {
        var (most, first) = (1, 0)
        for index in 0..<count {
            while starts[first] + counts[first] <= starts[index] { first += 1 }
            most = max(most, index - first + 1)
        }
        return most
    }

    /// Returns an upper estimate of the bytes of such taps.
    static func bytes(count: Int, from sourceCount: Int, extent: Double) -> Int {
        let run = longestRun(lobes * max(extent / Double(count), 1), within: sourceCount)
        return count * (stride(run) * 4 + 3 * 8)
    }

    private static func stride(_ longestRun: Int) -> Int { (longestRun + 3) / 4 * 4 }

    private static func longestRun(_ support: Double, within sourceCount: Int) -> Int {
        min(sourceCount, Int((2 * support).rounded(.up)) + 1)
    }

    private static func lanczos(_ x: Double) -> Double {
        guard abs(x) < lobes else { return 0 }
        guard abs(x) > 1e-9 else { return 1 }
        let angle = x * .pi
        return lobes * sin(angle) * sin(angle / lobes) / (angle * angle)
    }
}

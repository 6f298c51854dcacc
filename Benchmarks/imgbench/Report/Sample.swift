import Foundation

/// The reason for a missing figure.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Repeated measurements of one figure.
struct Sample {
    private(set) var values: [Double]

    init(values: [Double] = []) { self.values = values }

    mutating func add(_ value: Double) { values.append(value) }

    var median: Double { quantile(0.5) }
    var largest: Double { values.max() ?? 0 }

    func quantile(_ share: Double) -> Double {
        let sorted = values.sorted()
        return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }

    /// The median, and the range without the lowest and the highest tenth; of few values, the full range.
    var spread: Spread { Spread(median: median, low: quantile(0.1), high: quantile(0.9), count: values.count) }

    /// A confidence interval of 95 % for the median, from the ranks of the values, whatever their distribution: a value
    /// is above the true median as often as below. Of less than six values, the full range.
    var confidence: (low: Double, high: Double) {
        let sorted = values.sorted()
        guard let least = sorted.first, let most = sorted.last else { return (0, 0) }
        // The probability that at most `rank` values are below the true median.
        var (rank, ways, tail) = (-1, 1.0, 0.0)
        let all = pow(2, Double(sorted.count))
        while (tail + ways) / all <= 0.025 {
            tail += ways
            rank += 1
            ways *= Double(sorted.count - rank) / Double(rank + 1)
        }
        return rank < 0 ? (least, most) : (sorted[rank], sorted[sorted.count - 1 - rank])
    }

    /// The same figures in another unit.
    func scaled(by factor: Double) -> Sample { Sample(values: values.map { $0 * factor }) }
}

/// Alternating measurements of a figure and its reference: disturbances of the machine affect both.
struct Pairs {
    private(set) var ours = Sample()
    private(set) var theirs = Sample()

    init() {}

    init(_ ours: Sample, against theirs: Sample) { (self.ours, self.theirs) = (ours, theirs) }

    /// Measures `count` times, our figure first.
    init(_ count: Int, _ our: () throws -> Double, against their: () throws -> Double) rethrows {
        for _ in 0..<count { add(try our(), against: try their()) }
    }

    mutating func add(_ our: Double, against their: Double) {
        ours.add(our)
        theirs.add(their)
    }

    /// The ratio of each round.
    var ratios: Sample { Sample(values: zip(ours.values, theirs.values).map { $0 / $1 }) }

    /// The difference of each round.
    var differences: Sample { Sample(values: zip(ours.values, theirs.values).map { $0 - $1 }) }
}

func rounded(_ value: Double) -> String {
    String(format: abs(value) < 10 ? "%.2f" : abs(value) < 1000 ? "%.1f" : "%.0f", value)
}

func mebibytes(_ bytes: Int) -> Double { Double(bytes) / 1_048_576 }

/// The path of a file or folder of this process.
func temporaryPath(_ name: String) -> String { NSTemporaryDirectory() + "imgbench-\(getpid())." + name }

/// Runs `body`. Returns its time in milliseconds and its result.
func timed<Value>(_ body: () throws -> Value) rethrows -> (milliseconds: Double, value: Value) {
    let clock = ContinuousClock()
    let begun = clock.now
    let value = try body()
    return ((clock.now - begun) / .milliseconds(1), value)
}

/// Prints a line without buffering.
func printLine(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
}

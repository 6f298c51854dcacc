import Foundation

/// Why there is no figure.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Figures of the same thing, measured again and again.
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

    /// The median with the tenth that is lowest and the tenth that is highest cut off; of a few values, all.
    var spread: Spread { Spread(median: median, low: quantile(0.1), high: quantile(0.9)) }

    /// The same figures in another unit.
    func scaled(by factor: Double) -> Sample { Sample(values: values.map { $0 * factor }) }
}

/// What is measured and what it is measured against, in turns: what the machine does to one, it does to the other.
struct Pairs {
    private(set) var ours = Sample()
    private(set) var theirs = Sample()

    mutating func add(_ our: Double, against their: Double) {
        ours.add(our)
        theirs.add(their)
    }

    /// The ratio of each turn.
    var ratios: Sample { Sample(values: zip(ours.values, theirs.values).map { $0 / $1 }) }

    /// What is left of ours without theirs, in each turn.
    var differences: Sample { Sample(values: zip(ours.values, theirs.values).map { $0 - $1 }) }
}

func rounded(_ value: Double) -> String {
    String(format: abs(value) < 10 ? "%.2f" : abs(value) < 1000 ? "%.1f" : "%.0f", value)
}

func mebibytes(_ bytes: Int) -> Double { Double(bytes) / 1_048_576 }

/// Milliseconds that `body` takes, and what it returns.
func timed<Value>(_ body: () throws -> Value) rethrows -> (milliseconds: Double, value: Value) {
    let clock = ContinuousClock()
    let begun = clock.now
    let value = try body()
    return ((clock.now - begun) / .milliseconds(1), value)
}

/// Prints at once, also into a pipe.
func printLine(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
}

import Foundation

/// Why there is no figure.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// One line of the table.
struct Figure {
    let name: String
    let measured: String
    let reference: String
    let ratio: Double
    /// What the ratio should not exceed.
    let wanted: Double

    static func printHeader() {
        printLine(columns("what", "imgbroker", "measured against", "ratio", "wanted"))
    }

    func show() {
        printLine(Self.columns(name, measured, reference, rounded(ratio), "≤ \(rounded(wanted))"))
    }

    private static func columns(
        _ name: String, _ measured: String, _ reference: String, _ ratio: String, _ wanted: String
    ) -> String {
        func padded(_ text: String, _ width: Int) -> String {
            text + String(repeating: " ", count: max(1, width - text.count))
        }
        return padded(name, 30) + padded(measured, 30) + padded(reference, 34) + padded(ratio, 7) + wanted
    }
}

/// Durations of the same thing.
struct Sample {
    private var values: [Double] = []

    mutating func add(_ value: Double) { values.append(value) }

    var best: Double { values.min() ?? 0 }
    var largest: Double { values.max() ?? 0 }

    func quantile(_ share: Double) -> Double {
        let sorted = values.sorted()
        return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }
}

func rounded(_ value: Double) -> String {
    String(format: value < 10 ? "%.2f" : "%.1f", value)
}

func milliseconds(_ value: Double) -> String { rounded(value) + " ms" }

func mebibytes(_ bytes: Int) -> String { rounded(Double(bytes) / 1048576) + " MiB" }

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

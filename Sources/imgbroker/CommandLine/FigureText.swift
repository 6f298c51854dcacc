/// Figures in a few characters. They come from the process at the broker's socket, so they may be absurd.
enum FigureText {
    /// A share of 1: "94.1 %".
    static func percent(_ share: Double) -> String { oneDecimal(share * 100) + " %" }

    /// A number with one digit after the point.
    static func oneDecimal(_ value: Double) -> String {
        guard abs(value) < 1e15 else { return "\(value)" }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(abs(tenths % 10))"
    }

    /// A number with one digit after the point, or from 1,000 on none.
    static func number(_ value: Double) -> String {
        if value < 1000 { return oneDecimal(value) }
        return value < 1e15 ? "\(Int(value))" : "\(value)"
    }

    /// A count in at most seven characters: "99999", "1.2 M".
    static func count(_ value: Int) -> String {
        if value < 100_000 { return "\(value)" }
        var (scaled, unit) = (Double(value) / 1000, 0)
        while scaled >= 999.5, unit < 5 {
            scaled /= 1000
            unit += 1
        }
        let number = scaled < 99.95 ? oneDecimal(scaled) : "\(Int(scaled.rounded()))"
        return "\(number) \(["k", "M", "G", "T", "P", "E"][unit])"
    }

    /// A duration in at most seven characters: "12 µs", "3.4 ms", "340 ms", "6.7 s", "12 min", "3 h", "40 d".
    static func duration(microseconds: Double) -> String {
        if microseconds < 999.5 { return "\(Int(microseconds.rounded())) µs" }
        let milliseconds = microseconds / 1000
        if milliseconds < 9.95 { return oneDecimal(milliseconds) + " ms" }
        if milliseconds < 999.5 { return "\(Int(milliseconds.rounded())) ms" }
        let seconds = milliseconds / 1000
        if seconds < 9.95 { return oneDecimal(seconds) + " s" }
        if seconds < 599.5 { return "\(Int(seconds.rounded())) s" }
        if seconds < 36_000 { return "\(Int(seconds / 60)) min" }
        if seconds < 360_000 { return "\(Int(seconds / 3600)) h" }
        return seconds < 1e9 * 86_400 ? count(Int(seconds / 86_400)) + " d" : "ages"
    }

    /// A duration in two units: "12 s", "3 min 4 s", "2 h 5 min", "3 d 4 h".
    static func duration(seconds: Int) -> String {
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min \(seconds % 60) s" }
        if seconds < 86_400 { return "\(seconds / 3600) h \(seconds % 3600 / 60) min" }
        return "\(seconds / 86_400) d \(seconds % 86_400 / 3600) h"
    }
}

extension String {
    /// The text with spaces after it, up to `width` characters.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }

    /// The text with spaces before it, up to `width` characters.
    func leftPadded(to width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}

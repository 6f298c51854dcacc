import LinuxSystem

/// A line on the terminal that fills while bytes arrive.
final class ProgressBar {
    private let columns: Int
    private var isShown = false

    /// Nil when standard error is no terminal.
    init?() {
        guard let columns = CurrentProcess.terminalColumns else { return nil }
        self.columns = columns
    }

    /// Shows that `received` of `expected` bytes are there.
    func show(_ received: Int, of expected: Int?) {
        isShown = true
        var line = ByteCount(received).description
        if let expected, expected > 0 {
            let share = min(1, Double(received) / Double(expected))
            line = "\(Int(share * 100)) %  \(line) of \(ByteCount(expected))"
            let width = min(columns - line.count - 6, 50)
            if width > 4 { line = Self.bar(share, width: width) + "  " + line }
        }
        CurrentProcess.writeToStandardError("\r\u{1B}[K" + line)
    }

    /// Takes the line away.
    func clear() {
        if isShown { CurrentProcess.writeToStandardError("\r\u{1B}[K") }
        isShown = false
    }

    /// A bar of `width` columns, filled to `share`.
    static func bar(_ share: Double, width: Int) -> String {
        let eighths = Int((max(0, min(1, share)) * Double(width * 8)).rounded())
        let partial = eighths % 8 == 0 ? "" : String(["▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8 - 1])
        let filled = String(repeating: "█", count: eighths / 8) + partial
        return filled + String(repeating: "·", count: width - filled.count)
    }
}

import LinuxSystem

final class ProgressBar {
    private let columns: Int
    private var isShown = false

    /// Creates a bar; nil when standard error is not a terminal.
    init?() {
        guard let columns = Terminal.ofStandardError?.columns else { return nil }
        self.columns = columns
    }

    func show(_ received: Int, of expected: Int?) {
        let text = ByteCount(received).description
        guard let expected, expected > 0 else { return show(text, share: nil) }
        show("\(text) of \(ByteCount(expected))", share: Double(received) / Double(expected))
    }

    func show(done: Int, failed: Int, of total: Int) {
        let text = "\(done + failed) of \(total)" + (failed > 0 ? ", \(failed) failed" : "")
        show(text, share: total == 0 ? nil : Double(done + failed) / Double(total))
    }

    private func show(_ text: String, share: Double?) {
        isShown = true
        var line = text
        if let share {
            let share = min(1, share)
            line = "\(Int(share * 100)) %  \(text)"
            let width = min(columns - line.count - 6, 50)
            if width > 4 { line = Self.bar(share, width: width) + "  " + line }
        }
        CurrentProcess.writeToStandardError("\r\u{1B}[K" + line)
    }

    func clear() {
        if isShown { CurrentProcess.writeToStandardError("\r\u{1B}[K") }
        isShown = false
    }

    static func bar(_ share: Double, width: Int) -> String {
        let eighths = Int((max(0, min(1, share)) * Double(width * 8)).rounded())
        let partial = eighths % 8 == 0 ? "" : String(["▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8 - 1])
        let filled = String(repeating: "█", count: eighths / 8) + partial
        return filled + String(repeating: "·", count: width - filled.count)
    }
}

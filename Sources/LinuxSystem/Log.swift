internal import SystemValues

/// The severity of a line in the log.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    case error, warning, notice, info, debug

    /// The priority of syslog(3), which journald reads from "<N>" at the start of a line.
    var syslogPriority: Int {
        switch self {
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug: 7
        }
    }

    /// Whether `left` is more severe than `right`.
    package static func < (left: LogLevel, right: LogLevel) -> Bool {
        left.syslogPriority < right.syslogPriority
    }
}

/// Writes lines to standard error.
package struct Log: Sendable {
    /// The least severe level that is written.
    package let level: LogLevel
    /// The name of the process, at the start of each line.
    package let name: String
    private let underJournal: Bool

    /// A log of process `name` that writes `level` and more severe levels.
    package init(name: String, level: LogLevel) {
        self.name = name
        self.level = level
        underJournal = CurrentProcess.environment("JOURNAL_STREAM") != nil
    }

    // Deceptive characters of a message, which may quote others, are escaped.

    /// Logs a failure that needs attention.
    package func error(_ message: @autoclosure () -> String) { write(.error, message) }
    /// Logs a problem that does not interrupt service.
    package func warning(_ message: @autoclosure () -> String) { write(.warning, message) }
    /// Logs a rare event: start, stop, a replaced worker.
    package func notice(_ message: @autoclosure () -> String) { write(.notice, message) }
    /// Logs details about the service as a whole.
    package func info(_ message: @autoclosure () -> String) { write(.info, message) }
    /// Logs details about single requests.
    package func debug(_ message: @autoclosure () -> String) { write(.debug, message) }

    private func write(_ level: LogLevel, _ message: () -> String) {
        guard level <= self.level else { return }
        let prefix = underJournal ? "<\(level.syslogPriority)>" : "\(name): \(level.rawValue): "
        CurrentProcess.writeToStandardError(prefix + message().escapingDeceptive + "\n")
    }
}

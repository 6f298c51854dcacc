/// How grave a line of the log is.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    case error, warning, notice, info, debug

    /// The priority of syslog(3), as journald reads it from "<N>" at the beginning of a line.
    var syslogPriority: Int {
        switch self {
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug: 7
        }
    }

    /// Whether `left` is graver than `right`.
    package static func < (left: LogLevel, right: LogLevel) -> Bool {
        left.syslogPriority < right.syslogPriority
    }
}

/// Writes lines to standard error.
package struct Log: Sendable {
    /// The least grave level that is written.
    package let level: LogLevel
    /// Who speaks, at the beginning of each line.
    package let name: String
    private let underJournal: Bool

    /// A log of `name` for lines of `level` and graver ones.
    package init(name: String, level: LogLevel) {
        self.name = name
        self.level = level
        underJournal = CurrentProcess.environment("JOURNAL_STREAM") != nil
    }

    /// Something failed that somebody must look at.
    package func error(_ message: @autoclosure () -> String) { write(.error, message) }
    /// Something is not as it should be, and service goes on.
    package func warning(_ message: @autoclosure () -> String) { write(.warning, message) }
    /// Something that happens rarely: start, stop, a worker that was replaced.
    package func notice(_ message: @autoclosure () -> String) { write(.notice, message) }
    /// What helps to follow the service as a whole.
    package func info(_ message: @autoclosure () -> String) { write(.info, message) }
    /// What helps to follow single requests.
    package func debug(_ message: @autoclosure () -> String) { write(.debug, message) }

    private func write(_ level: LogLevel, _ message: () -> String) {
        guard level <= self.level else { return }
        let prefix = underJournal ? "<\(level.syslogPriority)>" : "\(name): \(level.rawValue): "
        CurrentProcess.writeToStandardError(prefix + message() + "\n")
    }
}

package import SystemValues

/// Writes lines to standard error.
package struct Log: Sendable {
    /// The least severe level that is written.
    package let level: LogLevel
    package let name: String
    package let format: LogFormat
    private let flood = Locked(LogFlood())

    package init(name: String, level: LogLevel, format: LogFormat = LogFormat()) {
        (self.name, self.level, self.format) = (name, level, format)
    }

    /// Whether standard error is the journal, and not only inherited from a process with the journal (systemd.exec(5)).
    package static var isJournal: Bool {
        guard let name = CurrentProcess.environment("JOURNAL_STREAM"),
            let file = CurrentProcess.standardErrorIdentity
        else { return false }
        return name == "\(file.device):\(file.inode)"
    }

    /// Logs a failure that needs attention.
    package func error(_ event: LogEvent, _ message: @autoclosure () -> String) { write(.error, event, message) }
    /// Logs a problem that does not interrupt service.
    package func warning(_ event: LogEvent, _ message: @autoclosure () -> String) { write(.warning, event, message) }
    /// Logs a rare event: start, stop, a changed setting.
    package func notice(_ event: LogEvent, _ message: @autoclosure () -> String) { write(.notice, event, message) }
    /// Logs failed requests, and details about the service as a whole.
    package func info(_ event: LogEvent, _ message: @autoclosure () -> String) { write(.info, event, message) }
    /// Logs details about single requests.
    package func debug(
        _ event: LogEvent, _ fields: @autoclosure () -> [LogField], _ message: @autoclosure () -> String = ""
    ) {
        if level == .debug { write(LogRecord(.debug, event, fields(), message())) }
    }

    private func write(_ level: LogLevel, _ event: LogEvent, _ message: () -> String) {
        if level <= self.level { write(LogRecord(level, event, [], message())) }
    }

    /// Writes a line, unless its level is less severe than the log's, or it belongs to a flood.
    package func write(_ record: LogRecord) {
        guard record.level <= level else { return }
        let now = Instant.now
        let (counts, isAdmitted) = flood.withLock { flood in
            (flood.takeCounts(at: now), flood.admits(record, at: now))
        }
        put(counts.map(\.record) + (isAdmitted ? [record] : []))
    }

    /// When to call `writeCounts` next; nil while no line is missing.
    package var nextCount: Instant? { flood.withLock { $0.nextCount } }

    /// Writes the counts of the floods that are over.
    package func writeCounts() { put(flood.withLock { $0.takeCounts(at: .now) }.map(\.record)) }

    /// Writes the counts of all floods.
    package func end() { put(flood.withLock { $0.takeAllCounts() }.map(\.record)) }

    private func put(_ records: [LogRecord]) {
        for record in records {
            CurrentProcess.writeToStandardError(format.line(record, process: name, unixMs: WallClock.milliseconds))
        }
    }
}

/// Bounds the lines of the log that others can cause: of each kind, a few in each period are written, and the rest is
/// counted.
package struct LogFlood: Sendable {
    /// The lines that count together.
    package struct Kind: Hashable, Sendable {
        package let level: LogLevel
        package let event: LogEvent
        /// The value of the first field that names a cause: `code`, `cause` or `state`.
        package let cause: String?
    }

    /// The lines of a kind that were not written in a period.
    package struct Count: Equatable, Sendable {
        package let kind: Kind
        package let lines: Int

        /// The line that stands for those that were not written.
        package var record: LogRecord {
            LogRecord(
                kind.level, .repeated,
                [LogField("of", kind.event.rawValue)] + (kind.cause.map { [LogField("cause", $0)] } ?? [])
                    + [LogField("count", lines), LogField("seconds", LogFlood.periodMs / 1000)])
        }
    }

    private struct Period {
        let end: Instant
        var lines = 0
    }

    /// The lines of a kind that are written in each period.
    package static let mostLines = 10
    /// The duration of a period in milliseconds.
    package static let periodMs = 10_000
    /// The kinds that are told apart; further ones count together.
    static let mostKinds = 64

    private var periods: [Kind: Period] = [:]

    package init() {}

    /// Whether to write `record` now. All that precede it are counted by `takeCounts` first.
    package mutating func admits(_ record: LogRecord, at now: Instant) -> Bool {
        guard record.event.isLimited, record.level < .debug else { return true }
        var kind = Kind(level: record.level, event: record.event, cause: Self.cause(of: record))
        if periods[kind] == nil, periods.count >= Self.mostKinds {
            kind = Kind(level: record.level, event: record.event, cause: nil)
        }
        var period = periods[kind] ?? Period(end: now.adding(milliseconds: Self.periodMs))
        period.lines += 1
        periods[kind] = period
        return period.lines <= Self.mostLines
    }

    /// When the next count is due; nil while all lines were written.
    package var nextCount: Instant? {
        periods.values.lazy.filter { $0.lines > Self.mostLines }.map(\.end).min()
    }

    /// Ends the periods that are over, and returns the counts of their lines.
    package mutating func takeCounts(at now: Instant) -> [Count] {
        take { $0.end <= now }
    }

    /// Ends all periods, and returns the counts of their lines.
    package mutating func takeAllCounts() -> [Count] {
        take { _ in true }
    }

    private mutating func take(_ isOver: (Period) -> Bool) -> [Count] {
        if periods.isEmpty { return [] }
        let over = periods.filter { isOver($0.value) }
        for kind in over.keys { periods[kind] = nil }
        return over.filter { $0.value.lines > Self.mostLines }
            .map { Count(kind: $0.key, lines: $0.value.lines - Self.mostLines) }
            .sorted { ($0.kind.event.rawValue, $0.kind.cause ?? "") < ($1.kind.event.rawValue, $1.kind.cause ?? "") }
    }

    private static func cause(of record: LogRecord) -> String? {
        for field in record.fields where ["code", "cause", "state"].contains(field.name) {
            if case .text(let text) = field.value { return text }
        }
        return nil
    }
}

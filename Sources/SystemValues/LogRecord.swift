/// The severity of a line in the log.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    case error, warning, notice, info, debug

    /// The priority of syslog(3), which journald reads from "<N>" at the start of a line.
    package var syslogPriority: Int {
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

/// The kind of a line in the log: the value of its key `event`. docs/operations.md explains each.
package enum LogEvent: String, CaseIterable, Sendable {
    // The process.
    case started, stopping, reload, upgrade, restored
    /// A setting without effect, or with a risk; a wrong setting or a missing file that ends the start.
    case setting
    /// A call of the system that failed unexpectedly.
    case system

    // Requests.
    case request, answer
    case requestFailed = "request-failed"
    case job
    /// A client is disconnected, or cannot connect.
    case client

    // The parts of the broker.
    case workerExit = "worker-exit"
    case worker
    /// Images are not decoded for a while, because decoders died of others.
    case pause
    case sandbox, memory, disk, entry, clock

    /// The count of lines that were not written.
    case repeated

    /// Whether others than the administrator can cause any number of lines. More than a few are counted instead of
    /// written.
    package var isLimited: Bool {
        switch self {
        case .started, .stopping, .reload, .upgrade, .restored, .setting, .repeated: false
        default: true
        }
    }
}

/// A key of a line in the log, and its value.
package struct LogField: Equatable, Sendable {
    package enum Value: Equatable, Sendable {
        case text(String)
        case number(Int)
    }

    /// Lower-case letters and hyphens.
    package let name: String
    package let value: Value

    package init(_ name: String, _ text: String) { (self.name, value) = (name, .text(text)) }
    package init(_ name: String, _ number: Int) { (self.name, value) = (name, .number(number)) }
}

/// A line in the log.
package struct LogRecord: Equatable, Sendable {
    package let level: LogLevel
    package let event: LogEvent
    package let fields: [LogField]
    /// For people; may be empty.
    package let message: String

    package init(_ level: LogLevel, _ event: LogEvent, _ fields: [LogField] = [], _ message: String = "") {
        (self.level, self.event, self.fields, self.message) = (level, event, fields, message)
    }
}

/// How lines in the log are written.
package struct LogFormat: Equatable, Sendable {
    /// The notation of a line.
    package enum Notation: String, CaseIterable, Sendable {
        /// `key=value`, separated by spaces.
        case text
        case json
    }

    package var notation = Notation.text
    /// Whether the reader is journald, which takes the level from "<N>", and notes the time itself.
    package var isForJournal = false
    /// Whether URLs have their user info and query.
    package var showsFullURLs = false

    package init(_ notation: Notation = .text, isForJournal: Bool = false, showsFullURLs: Bool = false) {
        (self.notation, self.isForJournal, self.showsFullURLs) = (notation, isForJournal, showsFullURLs)
    }

    /// Returns the line for `record` of process `process`, with the line feed.
    package func line(_ record: LogRecord, process: String, unixMs: Int) -> String {
        var fields: [LogField] = []
        if !isForJournal {
            let (seconds, milliseconds) = max(0, unixMs).quotientAndRemainder(dividingBy: 1000)
            let time = CalendarTime(secondsSince1970: seconds).text(milliseconds: milliseconds)
            fields.append(LogField("time", time))
        }
        if !isForJournal || notation == .json { fields.append(LogField("level", record.level.rawValue)) }
        fields += [LogField("process", process), LogField("event", record.event.rawValue)]
        fields += record.fields
        if !record.message.isEmpty { fields.append(LogField("message", record.message)) }
        let parts = fields.map { field in
            switch (field.value, notation) {
            case (.number(let number), .text): "\(field.name)=\(number)"
            case (.number(let number), .json): "\"\(field.name)\":\(number)"
            case (.text(let text), .text): "\(field.name)=\(Self.plainOrQuoted(shown(text)))"
            case (.text(let text), .json): "\"\(field.name)\":\(Self.quoted(shown(text)))"
            }
        }
        let line = notation == .json ? "{" + parts.joined(separator: ",") + "}" : parts.joined(separator: " ")
        return (isForJournal ? "<\(record.level.syslogPriority)>" : "") + line + "\n"
    }

    private func shown(_ text: String) -> String { showsFullURLs ? text : text.withoutURLSecrets }

    /// A value without quotation marks where it needs none.
    private static func plainOrQuoted(_ text: String) -> String {
        let needsNone = text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "=") }
        return needsNone && !text.isEmpty && !text.unicodeScalars.contains(where: \.isDeceptive) ? text : quoted(text)
    }

    /// A JSON string without deceptive characters.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { quoted += "\\" }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted.escapingDeceptive + "\""
    }
}

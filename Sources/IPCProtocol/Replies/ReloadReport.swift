package import JSONCoding

/// What a `reload` has changed, and what it has not.
public struct ReloadReport: Equatable, Sendable {
    /// A setting whose value in the sources is another than the broker's.
    public struct Change: Equatable, Sendable {
        /// The setting's key in the configuration file.
        public var key: String
        /// The broker's value before the request; empty without one.
        public var old: String
        /// The value in the sources; empty without one.
        public var new: String
        /// Why the broker keeps the old value; nil if it uses the new one.
        public var reason: String?

        /// Creates a change, which is refused if there is a reason.
        public init(key: String, old: String, new: String, reason: String? = nil) {
            self.key = key
            self.old = old
            self.new = new
            self.reason = reason
        }
    }

    /// The settings that are in force with their new values.
    public var changed: [Change]
    /// The settings that keep their old values, each with a reason.
    public var refused: [Change]

    /// Creates a report.
    public init(changed: [Change] = [], refused: [Change] = []) {
        self.changed = changed
        self.refused = refused
    }
}

extension ReloadReport: FieldList {
    package static var blank: ReloadReport { ReloadReport() }

    package mutating func list(_ fields: inout Fields) {
        fields.objects("changed", &changed)
        fields.objects("refused", &refused)
    }
}

extension ReloadReport.Change: FieldList {
    package static var blank: ReloadReport.Change { ReloadReport.Change(key: "", old: "", new: "") }

    package mutating func list(_ fields: inout Fields) {
        fields.string("key", &key)
        fields.string("old", &old)
        fields.string("new", &new)
        fields.string("reason", &reason)
    }
}

extension ReloadReport.Change: CustomStringConvertible {
    /// The change in one line: "memory-limit: 512M → 1G".
    public var description: String {
        let values = "\(key): \(old.isEmpty ? "(none)" : old) → \(new.isEmpty ? "(none)" : new)"
        return reason.map { "\(values), refused: \($0)" } ?? values
    }
}

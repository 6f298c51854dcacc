package import JSONCoding

extension StatsReport {
    /// A server of the shared tier. The counts are those of this broker since its process for the tier was started.
    public struct SharedServer: Equatable, Sendable {
        /// Its name and port as the broker was given them.
        public var name = ""
        /// `up`, or `ejected`: it has not answered, and is left out for 30 s.
        public var state = "up"
        /// The part of all keys that it has, in thousandths.
        public var share = 0
        /// Lookups that found a record.
        public var hits = 0
        /// Lookups that found none.
        public var misses = 0
        /// Records written.
        public var writes = 0
        /// Records that were not used, because they were damaged, foreign or of no use any more.
        public var rejected = 0
        /// Commands that failed.
        public var failures = 0
        /// The bytes of records read.
        public var bytesRead = 0
        /// The bytes of records written.
        public var bytesWritten = 0

        /// Creates a row of zeros.
        public init() {}

        /// The most servers.
        package static let most = 64
    }
}

extension StatsReport.SharedServer: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.string("name", &name, most: 261)
        fields.string("state", &state, most: 16)
        fields.integer("share", &share, in: 0...1000)
        fields.integer("hits", &hits, in: 0...Int.max)
        fields.integer("misses", &misses, in: 0...Int.max)
        fields.integer("writes", &writes, in: 0...Int.max)
        fields.integer("rejected", &rejected, in: 0...Int.max)
        fields.integer("failures", &failures, in: 0...Int.max)
        fields.integer("bytesRead", &bytesRead, in: 0...Int.max)
        fields.integer("bytesWritten", &bytesWritten, in: 0...Int.max)
    }
}

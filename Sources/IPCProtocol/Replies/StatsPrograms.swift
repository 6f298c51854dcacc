package import JSONCoding

// The programs whose requests are counted by themselves. Their names are a closed set, so that no client can add a row
// or a label.

extension StatsReport {
    /// A program between the broker and clients of another interface.
    public enum Program: String, CaseIterable, Sendable {
        /// Images over HTTP.
        case http = "imgbroker-http"
        /// The thumbnail service on the session bus.
        case thumbnailer = "imgbroker-thumbnailer"

        /// The program that a client states in `hello`, with or without a version after a slash; nil for any other.
        package init?(client: String) {
            self.init(rawValue: client.firstIndex(of: "/").map { String(client[..<$0]) } ?? client)
        }
    }

    /// The ended `get`s of a program.
    public struct ProgramRequests: Equatable, Sendable {
        /// The times from the receipt of a `get` to its answer, an image or an error.
        public var durations = Histogram()
        private var outcomes: [Figure: Int] = [:]

        /// Creates a row of zeros.
        public init() {}

        /// The number of `get`s with an outcome.
        public subscript(outcome: Figure) -> Int {
            get { outcomes[outcome] ?? 0 }
            set { outcomes[outcome] = newValue == 0 ? nil : newValue }
        }
    }
}

extension StatsReport.ProgramRequests: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        for outcome in StatsReport.Figure.outcomes {
            fields.integer(named: outcome.rawValue, &self[outcome], in: 0...Int.max)
        }
        fields.object("durations", &durations)
    }
}

/// Text in the exposition format of Prometheus, version 0.0.4.
struct PrometheusText {
    enum Kind: String {
        case counter, gauge, histogram
    }

    private(set) var text = ""
    private var name = ""

    /// Begins a metric; its samples follow. `help` is one sentence.
    mutating func begin(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        text += "# HELP \(name) \(Self.escape(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n"
    }

    /// Adds a sample of the metric begun last.
    mutating func sample(_ labels: KeyValuePairs<String, String>, _ value: Int) {
        line("", labels.map { ($0, $1) }, "\(value)")
    }

    /// Adds a histogram of the metric begun last. `bounds` are the upper bounds of the buckets, in the metric's unit;
    /// `counts` may have one more element, that of larger values, or fewer.
    mutating func histogram(
        _ labels: KeyValuePairs<String, String>, bounds: [String], counts: [Int], total: Int, sum: String
    ) {
        let labels = labels.map { ($0, $1) }
        var cumulative = 0
        for (index, bound) in bounds.enumerated() {
            // The counts are the broker's word, and other software may listen at its socket.
            if index < counts.count { cumulative = min(cumulative, .max - counts[index]) + counts[index] }
            line("_bucket", labels + [("le", bound)], "\(cumulative)")
        }
        line("_bucket", labels + [("le", "+Inf")], "\(total)")
        line("_sum", labels, sum)
        line("_count", labels, "\(total)")
    }

    /// Adds a metric without labels.
    mutating func metric(_ name: String, _ kind: Kind, _ help: String, _ value: Int) {
        begin(name, kind, help)
        sample([:], value)
    }

    private mutating func line(_ suffix: String, _ labels: [(String, String)], _ value: String) {
        let pairs = labels.map { "\($0.0)=\"\(Self.escape($0.1, quotes: true))\"" }.joined(separator: ",")
        text += name + suffix + (pairs.isEmpty ? "" : "{\(pairs)}") + " " + value + "\n"
    }

    private static func escape(_ words: String, quotes: Bool) -> String {
        var escaped = ""
        for character in words.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

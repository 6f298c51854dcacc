/// A flag and what the help says of it.
struct FlagHelp {
    /// The flag as in the help: "-o, --output FILE".
    let flag: String
    /// Plain text. A line break and four spaces begin a line that stays as it is.
    let explanation: String

    /// The words that the value may be; none if it may be others.
    let choices: [String]

    init(_ flag: String, _ explanation: String, choices: [String] = []) {
        (self.flag, self.explanation, self.choices) = (flag, explanation, choices)
    }

    static func table(_ entries: KeyValuePairs<String, String>) -> [FlagHelp] { entries.map { FlagHelp($0, $1) } }

    /// The flag's names, each with its dashes.
    var names: [String] {
        flag.split(whereSeparator: { " ,[]".contains($0) }).filter { $0.hasPrefix("-") }.map(String.init)
    }

    /// What the help calls its value; nil for a switch.
    var value: String? {
        guard let last = flag.split(separator: " ").last, !last.hasPrefix("-"), !last.hasPrefix("[") else { return nil }
        return String(last)
    }

    /// The lines of the help: the flag in one column, the explanation in another. A long flag has its own line.
    var lines: String {
        let (width, column) = (96, 26)
        let indentation = String(repeating: " ", count: column)
        var finished = ""
        var line = "  " + flag
        func breakLine() {
            finished += line + "\n"
            line = indentation
        }
        if line.count + 2 > column { breakLine() }
        line = line.padded(to: column)
        for (index, part) in explanation.split(separator: "\n").enumerated() {
            if index > 0 { breakLine() }
            for word in part.hasPrefix("    ") ? [part] : part.split(separator: " ") {
                if line.count > column, line.count + 1 + word.count > width { breakLine() }
                line += (line.count > column ? " " : "") + word
            }
        }
        // A space that does not break stays one until here.
        return (finished + line).split(separator: "\u{A0}").joined(separator: " ")
    }
}

extension [FlagHelp] {
    var lines: String { map(\.lines).joined(separator: "\n") }

    /// The help of a command with these flags, whose first line is `synopsis`.
    func usage(_ synopsis: String, _ purpose: String, title: String = "", remark: String = "", status: String) -> String
    {
        """
        Usage: imgbroker \(synopsis)

        \(purpose)

        \(title)\(lines)

        \(remark)Exit status: \(status)
        """
    }
}

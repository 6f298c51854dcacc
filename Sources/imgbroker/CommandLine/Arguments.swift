/// Why a command does not run, such as an invalid command line: one line of explanation, and exit status 2.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The error of a closure that throws no others, for which the compiler infers `any Error`.
    init(_ error: any Error) { self = error as? UsageError ?? UsageError("\(error)") }
}

/// The words of a command line, read one by one. `--name value` and `--name=value` are equivalent.
struct Arguments {
    enum Word: Equatable {
        case flag(String)
        case operand(String)
    }

    private var words: [String]
    /// The flag last read, and its value if it was written with "=".
    private var flag = ""
    private var attached: String?
    private var isPastFlags = false

    init(_ words: some Sequence<String>) { self.words = Array(words) }

    /// Reads the next word; nil at the end. The last flag must not have a value that was not read.
    mutating func next() throws(UsageError) -> Word? {
        if let attached { throw UsageError("\(flag) takes no value, so not \"\(attached)\"") }
        guard !words.isEmpty else { return nil }
        let word = words.removeFirst()
        if isPastFlags || !word.hasPrefix("-") || word == "-" { return .operand(word) }
        if word == "--" {
            isPastFlags = true
            return try next()
        }
        if word.hasPrefix("--"), let equals = word.firstIndex(of: "=") {
            attached = String(word[word.index(after: equals)...])
            flag = String(word[..<equals])
            return .flag(flag)
        }
        return .flag(word)
    }

    /// Reads the value of the flag last read, which must have one.
    mutating func given(_ flag: String) throws(UsageError) -> GivenValue {
        if attached == nil, words.isEmpty { throw UsageError("\(flag) needs a value") }
        return GivenValue(name: flag, text: attached.take() ?? words.removeFirst())
    }
}

extension UsageError {
    /// The error for an unknown option of `command` ("imgbroker get").
    static func unknown(option: String, among help: [FlagHelp], of command: String) -> UsageError {
        let guess = suggestion(for: option, among: help.flatMap(\.names))
        return UsageError("unknown option \(option)\(guess) (see \(command) --help)")
    }

    /// ": did you mean WORD?" for the first of `words` with the least edit distance, a third of the length at most.
    static func suggestion(for word: String, among words: some Sequence<String>) -> String {
        let written = Array(word.utf8.prefix(64))
        let most = max(1, written.count { $0 != UInt8(ascii: "-") } / 3)
        let nearest = words.map { (word: $0, distance: distance(written, Array($0.utf8))) }
            .filter { $0.distance <= most }
            .min { $0.distance < $1.distance }
        return nearest.map { ": did you mean \($0.word)?" } ?? ""
    }

    /// The bytes to insert, remove, replace, or exchange with the next one (optimal string alignment).
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var (before, last) = ([Int](), Array(0...right.count))
        for (i, a) in left.enumerated() {
            var row = [i + 1]
            for (j, b) in right.enumerated() {
                var least = min(last[j + 1] + 1, row[j] + 1, last[j] + (a == b ? 0 : 1))
                if i > 0, j > 0, a == right[j - 1], left[i - 1] == b { least = min(least, before[j - 1] + 1) }
                row.append(least)
            }
            (before, last) = (last, row)
        }
        return last[right.count]
    }
}

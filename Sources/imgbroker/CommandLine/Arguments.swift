/// An invalid command line: one line of explanation, and exit status 2.
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
    mutating func value(of flag: String) throws(UsageError) -> String {
        if let attached {
            self.attached = nil
            return attached
        }
        guard !words.isEmpty else { throw UsageError("\(flag) needs a value") }
        return words.removeFirst()
    }

    /// Reads the value of the flag last read, to be understood.
    mutating func given(_ flag: String) throws(UsageError) -> GivenValue {
        GivenValue(name: flag, text: try value(of: flag))
    }
}

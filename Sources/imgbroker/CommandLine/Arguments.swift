/// An invalid command line: one line of explanation, and exit status 2.
struct UsageError: Error, CustomStringConvertible {
    let description: String
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

    init(_ words: some Sequence<String>) {
        self.words = Array(words)
    }

    /// Reads the next word; nil at the end.
    ///
    /// - Throws: `UsageError` when the last flag has a value that it does not take.
    mutating func next() throws(UsageError) -> Word? {
        if let attached { throw UsageError(description: "\(flag) takes no value, so not \"\(attached)\"") }
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

    /// Reads the value of the flag last read.
    ///
    /// - Throws: `UsageError` when it is missing.
    mutating func value(of flag: String) throws(UsageError) -> String {
        if let attached {
            self.attached = nil
            return attached
        }
        guard !words.isEmpty else { throw UsageError(description: "\(flag) needs a value") }
        return words.removeFirst()
    }

    /// Reads the value of the flag last read as a path.
    ///
    /// - Throws: `UsageError` when it is empty.
    mutating func path(of flag: String) throws(UsageError) -> String {
        let path = try value(of: flag)
        if path.isEmpty { throw UsageError(description: "\(flag) needs a path") }
        return path
    }

    /// Reads the value of the flag last read as a whole number.
    ///
    /// - Throws: `UsageError` when it is not a number, or out of range.
    mutating func number(of flag: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        let text = try value(of: flag)
        guard let number = Int(text), range.contains(number) else {
            let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
            throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
        }
        return number
    }

    /// Reads the value of the flag last read as a number of bytes or pixels with K, M or G.
    ///
    /// - Throws: `UsageError` when it is not a size.
    mutating func size(
        of flag: String, unit: ByteCount.Unit, orZero: Bool = false
    ) throws(UsageError) -> Int {
        let text = try value(of: flag)
        guard let size = ByteCount(text, unit: unit), size.value > 0 || orZero else {
            throw UsageError(description: "\(flag) needs a size such as 64M (K, M, G), not \"\(text)\"")
        }
        return size.value
    }

    /// Reads the value of the flag last read as a time in seconds: "45", "90s", "30m", "12h", "7d".
    ///
    /// - Parameter orNever: whether a negative time is allowed, which returns nil.
    /// - Throws: `UsageError` when it is not a time.
    mutating func seconds(of flag: String, orNever: Bool = false) throws(UsageError) -> Int? {
        let text = try value(of: flag)
        if orNever, text.hasPrefix("-"), Seconds(text.dropFirst()) != nil { return nil }
        guard let seconds = Seconds(text) else {
            let expected = "seconds, or a time such as 30m, 12h or 7d" + (orNever ? " (negative: never)" : "")
            throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
        }
        return seconds.value
    }

    /// Reads the value of the flag last read as a case of an enumeration.
    ///
    /// - Throws: `UsageError` that lists the cases when it is not one of them.
    mutating func choice<Choice>(
        of flag: String
    ) throws(UsageError) -> Choice where Choice: RawRepresentable<String> & CaseIterable {
        let text = try value(of: flag)
        guard let choice = Choice(rawValue: text) else {
            let words = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError(description: "\(flag) needs one of \(words), not \"\(text)\"")
        }
        return choice
    }
}

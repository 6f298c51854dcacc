/// A command line that cannot be followed: one line that says what is wrong, and exit status 2.
struct UsageError: Error, CustomStringConvertible {
    let description: String
}

/// The words of a command line, taken one by one. `--name value` and `--name=value` are the same.
struct Arguments {
    enum Word: Equatable {
        case flag(String)
        case operand(String)
    }

    private var words: [String]
    /// The flag just taken, and its value if that was written with "=".
    private var flag = ""
    private var attached: String?
    private var isPastFlags = false

    init(_ words: some Sequence<String>) {
        self.words = Array(words)
    }

    /// The next word; nil at the end.
    ///
    /// - Throws: `UsageError` when the last flag was given a value that it does not take.
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

    /// The value of the flag just taken.
    ///
    /// - Throws: `UsageError` when there is none.
    mutating func value(of flag: String) throws(UsageError) -> String {
        if let attached {
            self.attached = nil
            return attached
        }
        guard !words.isEmpty else { throw UsageError(description: "\(flag) needs a value") }
        return words.removeFirst()
    }

    /// The value of the flag just taken, as a whole number.
    ///
    /// - Throws: `UsageError` when it is none, or out of range.
    mutating func number(of flag: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        let text = try value(of: flag)
        guard let number = Int(text), range.contains(number) else {
            let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
            throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
        }
        return number
    }

    /// The value of the flag just taken, as a number of bytes or pixels with K, M or G.
    ///
    /// - Throws: `UsageError` when it is none.
    mutating func size(
        of flag: String, unit: ByteCount.Unit, orZero: Bool = false
    ) throws(UsageError) -> Int {
        let text = try value(of: flag)
        guard let size = ByteCount(text, unit: unit), size.value > 0 || orZero else {
            throw UsageError(description: "\(flag) needs a size such as 64M (K, M, G), not \"\(text)\"")
        }
        return size.value
    }

    /// The value of the flag just taken, as a time in seconds: "45", "90s", "30m", "12h", "7d".
    ///
    /// - Parameter orNever: whether anything negative is a value too: it is then nil.
    /// - Throws: `UsageError` when it is none.
    mutating func seconds(of flag: String, orNever: Bool = false) throws(UsageError) -> Int? {
        let text = try value(of: flag)
        if orNever, text.hasPrefix("-"), Seconds(text.dropFirst()) != nil { return nil }
        guard let seconds = Seconds(text) else {
            let expected = "seconds, or a time such as 30m, 12h or 7d" + (orNever ? " (negative: never)" : "")
            throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
        }
        return seconds.value
    }

    /// The value of the flag just taken, as one of an enumeration's words.
    ///
    /// - Throws: `UsageError` that lists them when it is none.
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

/// A time in seconds, as people write it.
struct Seconds {
    /// The longest: a hundred years, so that sums of two still fit everywhere.
    private static let longest = 36_525 * 86_400

    let value: Int

    /// Reads "45", "90s", "30m", "12h", "7d"; nil for anything else, or more than a hundred years.
    init?(_ text: some StringProtocol) {
        let units = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[String($0)] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(digits) else { return nil }
        let (product, overflowed) = number.multipliedReportingOverflow(by: unit ?? 1)
        if overflowed || product > Self.longest { return nil }
        value = product
    }
}

/// A number of bytes, for people.
struct ByteCount: CustomStringConvertible {
    /// What K, M and G stand for: powers of 1024 for bytes, of 1000 for pixels.
    enum Unit: Int {
        case binary = 1024
        case decimal = 1000
    }

    let value: Int

    init(_ value: Int) {
        self.value = value
    }

    /// Reads "500", "64K", "512M", "4G"; nil for anything else, or more than a number can hold.
    init?(_ text: String, unit: Unit = .binary) {
        var digits = text[...]
        var factor = 1
        if let suffix = text.last, let power = ["K", "M", "G"].firstIndex(of: suffix.uppercased()) {
            digits = digits.dropLast()
            for _ in 0...power { factor *= unit.rawValue }
        }
        guard let number = Int(digits), number >= 0, digits.first?.isNumber == true else { return nil }
        let (product, overflowed) = number.multipliedReportingOverflow(by: factor)
        if overflowed { return nil }
        value = product
    }

    /// With three digits at most: "0 B", "980 B", "1.4 KiB", "512 MiB".
    var description: String {
        if value < 1024 { return "\(value) B" }
        var (scaled, unit) = (Double(value) / 1024, 0)
        while scaled >= 999.5, unit < 3 {
            scaled /= 1024
            unit += 1
        }
        let tenths = Int((scaled * 10).rounded())
        let text = tenths < 100 ? "\(tenths / 10).\(tenths % 10)" : "\(Int(scaled.rounded()))"
        return "\(text) \(["KiB", "MiB", "GiB", "TiB"][unit])"
    }
}

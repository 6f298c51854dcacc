extension StringProtocol {
    /// The value of a text of decimal digits only, else nil; `Int.max` when it exceeds the range of `Int`.
    package var decimal: Int? {
        guard !isEmpty, utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int(self) ?? .max
    }

    /// The text without leading and trailing spaces and tabs (RFC 9110, section 5.6.3).
    var trimming: SubSequence {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isSpace)
        return start[..<(start.lastIndex { !isSpace($0) }.map { index(after: $0) } ?? start.startIndex)]
    }
}

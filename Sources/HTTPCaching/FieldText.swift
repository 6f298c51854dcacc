extension StringProtocol {
    /// The number that decimal digits, and nothing but digits, make; one that is too large for `Int` is `Int.max`.
    var decimal: Int? {
        guard !isEmpty, utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int(self) ?? .max
    }

    /// The text without the spaces and tabs around it (RFC 9110, section 5.6.3).
    var trimming: SubSequence {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isSpace)
        return start[..<(start.lastIndex { !isSpace($0) }.map { index(after: $0) } ?? start.startIndex)]
    }
}

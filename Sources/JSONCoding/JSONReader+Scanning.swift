// Punctuation and words.
extension JSONReader {
    func malformed(_ expected: String) -> MalformedJSON {
        MalformedJSON(expected: expected, offset: position - bytes.startIndex)
    }

    mutating func enter() throws(MalformedJSON) {
        depth += 1
        if depth > Self.maximumDepth { throw malformed("at most \(Self.maximumDepth) levels") }
    }

    /// The position of the next byte that is no white space, or the end.
    private var nextPosition: Int {
        var next = position
        while next < bytes.endIndex {
            switch bytes[next] {
            case 0x20, 0x09, 0x0A, 0x0D: next += 1
            default: return next
            }
        }
        return next
    }

    mutating func skipWhitespace() { position = nextPosition }

    var nextByte: UInt8? {
        let next = nextPosition
        return next < bytes.endIndex ? bytes[next] : nil
    }

    mutating func peek() -> UInt8? {
        skipWhitespace()
        return position < bytes.endIndex ? bytes[position] : nil
    }

    mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        position += 1
        return true
    }

    /// Whether an array has another element, which stands next then.
    mutating func takeSeparator() -> Bool {
        form == .packed ? peek().map { $0 != UInt8(ascii: "]") } ?? false : take(UInt8(ascii: ","))
    }

    mutating func expect(_ byte: UInt8, _ expected: String) throws(MalformedJSON) {
        if !take(byte) { throw malformed(expected) }
    }

    mutating func scanWord(_ word: String) throws(MalformedJSON) {
        for byte in word.utf8 {
            guard position < bytes.endIndex, bytes[position] == byte else { throw malformed("a value") }
            position += 1
        }
    }

    package func expectEnd() throws(MalformedJSON) {
        var copy = self
        copy.skipWhitespace()
        if copy.position != bytes.endIndex { throw copy.malformed("the end of the text") }
    }
}

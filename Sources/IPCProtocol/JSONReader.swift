/// Reads JSON (RFC 8259) from bytes, value by value, without building a tree.
///
/// A message's values are read in the order in which they stand. A value of the wrong type or out of its range is
/// noted in `problem` and stepped over, so that the rest of the message is still read and the complaint can carry the
/// message's `id`. Only bytes that are no JSON end the reading, with `MalformedJSON`.
public struct JSONReader {
    /// Bytes that are no JSON: what was expected, at which offset.
    public struct MalformedJSON: Error, Equatable {
        /// What should have stood there.
        public let expected: String
        /// The offset from the first byte of the text.
        public let offset: Int
    }

    /// A member that is not what the protocol says.
    public struct FieldProblem: Error, Equatable {
        /// The member's name.
        public let field: String
        /// What it should have been: "an integer from 1 to 65535".
        public let expected: String
    }

    /// The deepest nesting that is read.
    public static let maximumDepth = 64

    /// The first member that was not what the protocol says.
    public private(set) var problem: FieldProblem?

    private let bytes: ArraySlice<UInt8>
    private var position: Int
    private var depth = 0

    /// Starts at the first of `bytes`, which are not copied.
    public init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    /// Notes that `field` is not `expected`, unless something was noted before. A name that came with the message is
    /// not repeated at whatever length it has.
    public mutating func note(_ field: String, expected: String) {
        if problem == nil { problem = FieldProblem(field: String(field.prefix(80)), expected: expected) }
    }

    // MARK: Structure

    /// Reads an object, and nothing but white space after it. `member` must read exactly one value for each name.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func readMessage(
        _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try readObject(member)
        skipWhitespace()
        if position != bytes.endIndex { throw malformed("the end of the text") }
    }

    /// Reads an object. `member` must read exactly one value for each name.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func readObject(
        _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"), "an object")
        try enter()
        if !take(UInt8(ascii: "}")) {
            repeat {
                skipWhitespace()
                let name = try scanString()
                try expect(UInt8(ascii: ":"), "a colon")
                try member(&self, name)
            } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "}"), "a comma or the end of the object")
        }
        depth -= 1
    }

    /// Reads an array. `element` must read exactly one value for each element.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func readArray(
        _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "["), "an array")
        try enter()
        if !take(UInt8(ascii: "]")) {
            repeat { try element(&self) } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "]"), "a comma or the end of the array")
        }
        depth -= 1
    }

    /// Steps over one value of any kind.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func skip() throws(MalformedJSON) {
        switch peek() {
        case UInt8(ascii: "{"): try readObject { (reader, _) throws(MalformedJSON) in try reader.skip() }
        case UInt8(ascii: "["): try readArray { (reader) throws(MalformedJSON) in try reader.skip() }
        case UInt8(ascii: "\""): try skipString()
        case UInt8(ascii: "t"): try scanWord("true")
        case UInt8(ascii: "f"): try scanWord("false")
        case UInt8(ascii: "n"): try scanWord("null")
        default: _ = try scanNumber()
        }
    }

    /// Whether an object stands next.
    public var nextIsObject: Bool { nextByte == UInt8(ascii: "{") }
    /// Whether an array stands next.
    public var nextIsArray: Bool { nextByte == UInt8(ascii: "[") }
    /// Whether a null stands next.
    public var nextIsNull: Bool { nextByte == UInt8(ascii: "n") }

    // MARK: Values

    /// The string of member `field`; nil, and a note, when it is none.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func string(_ field: String) throws(MalformedJSON) -> String? {
        if peek() == UInt8(ascii: "\"") { return try scanString() }
        return try reject(field, "a string")
    }

    /// The boolean of member `field`; nil, and a note, when it is none.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func boolean(_ field: String) throws(MalformedJSON) -> Bool? {
        switch peek() {
        case UInt8(ascii: "t"):
            try scanWord("true")
            return true
        case UInt8(ascii: "f"):
            try scanWord("false")
            return false
        default: return try reject(field, "true or false")
        }
    }

    /// The integer of member `field`; nil, and a note, when it is none or outside `range`.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(MalformedJSON) -> Int? {
        // Written only where it is needed: this is called for every integer of every message.
        func expected() -> String { "an integer from \(range.lowerBound) to \(range.upperBound)" }
        switch peek() {
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
            if let value = try scanNumber(), range.contains(value) { return value }
            note(field, expected: expected())
            return nil
        default: return try reject(field, expected())
        }
    }

    /// The number of member `field` as floating point; nil, and a note, when it is none.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func number(_ field: String) throws(MalformedJSON) -> Double? {
        switch peek() {
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
            skipWhitespace()
            let start = position
            _ = try scanNumber()
            return Double(String(decoding: bytes[start..<position], as: UTF8.self))
        default: return try reject(field, "a number")
        }
    }

    /// The word of member `field` as one of an enumeration's; nil, and a note, when it is none of them.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func choice<Choice>(
        _ field: String, of type: Choice.Type = Choice.self
    ) throws(MalformedJSON) -> Choice? where Choice: RawRepresentable<String> & CaseIterable {
        if peek() == UInt8(ascii: "\""), let value = Choice(rawValue: try scanString()) { return value }
        let expected = "one of " + Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        if previousByte == UInt8(ascii: "\"") {
            note(field, expected: expected)
            return nil
        }
        return try reject(field, expected)
    }

    /// Reads the object of member `field`; a note when it is none.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func object(
        _ field: String, _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        if nextIsObject { try readObject(member) } else { let _: Never? = try reject(field, "an object") }
    }

    /// Reads the array of member `field`; a note when it is none.
    ///
    /// - Throws: `MalformedJSON`.
    public mutating func array(
        _ field: String, _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        if nextIsArray { try readArray(element) } else { let _: Never? = try reject(field, "an array") }
    }

    // MARK: Scanning

    /// Reads member `field`, an array of strings.
    public mutating func strings(_ field: String) throws(MalformedJSON) -> [String] {
        var strings: [String] = []
        try array(field) { (reader) throws(MalformedJSON) in
            if let string = try reader.string(field) { strings.append(string) }
        }
        return strings
    }

    private mutating func reject<Value>(_ field: String, _ expected: String) throws(MalformedJSON) -> Value? {
        note(field, expected: expected)
        try skip()
        return nil
    }

    private func malformed(_ expected: String) -> MalformedJSON {
        MalformedJSON(expected: expected, offset: position - bytes.startIndex)
    }

    private mutating func enter() throws(MalformedJSON) {
        depth += 1
        if depth > Self.maximumDepth { throw malformed("at most \(Self.maximumDepth) levels") }
    }

    private mutating func skipWhitespace() {
        while position < bytes.endIndex {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    private var nextByte: UInt8? {
        var copy = self
        return copy.peek()
    }

    private var previousByte: UInt8 { bytes[position - 1] }

    private mutating func peek() -> UInt8? {
        skipWhitespace()
        return position < bytes.endIndex ? bytes[position] : nil
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ byte: UInt8, _ expected: String) throws(MalformedJSON) {
        if !take(byte) { throw malformed(expected) }
    }

    private mutating func scanWord(_ word: String) throws(MalformedJSON) {
        for byte in word.utf8 {
            guard position < bytes.endIndex, bytes[position] == byte else { throw malformed("a value") }
            position += 1
        }
    }

    /// Steps over a number; its value where that is an integer that `Int` can hold.
    private mutating func scanNumber() throws(MalformedJSON) -> Int? {
        skipWhitespace()
        let start = position
        let negative = position < bytes.endIndex && bytes[position] == UInt8(ascii: "-")
        if negative { position += 1 }
        let firstDigit = position
        var value: Int? = 0
        while let digit = digitHere() {
            let (product, overflowed) = (value ?? 0).multipliedReportingOverflow(by: 10)
            let (sum, carried) = product.addingReportingOverflow(digit)
            value = value == nil || overflowed || carried ? nil : sum
            position += 1
        }
        if position == firstDigit { throw malformed("a value") }
        if position - firstDigit > 1, bytes[firstDigit] == UInt8(ascii: "0") { throw malformed("no leading zero") }
        var isInteger = true
        if position < bytes.endIndex, bytes[position] == UInt8(ascii: ".") {
            isInteger = false
            position += 1
            try scanDigits()
        }
        if position < bytes.endIndex, bytes[position] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            position += 1
            if position < bytes.endIndex, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position += 1
            }
            try scanDigits()
        }
        if isInteger { return negative ? value.map { -$0 } : value }
        // 1.0 and 1e3 are integers too.
        return Double(String(decoding: bytes[start..<position], as: UTF8.self)).flatMap { Int(exactly: $0) }
    }

    private func digitHere() -> Int? {
        guard position < bytes.endIndex else { return nil }
        let byte = bytes[position]
        return byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") ? Int(byte - UInt8(ascii: "0")) : nil
    }

    private mutating func scanDigits() throws(MalformedJSON) {
        let start = position
        while digitHere() != nil { position += 1 }
        if position == start { throw malformed("a digit") }
    }

    private mutating func scanString() throws(MalformedJSON) -> String {
        try expect(UInt8(ascii: "\""), "a string")
        let start = position
        while position < bytes.endIndex {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let text = try utf8(bytes[start..<position])
                position += 1
                return text
            case UInt8(ascii: "\\"): return try scanEscapedString(from: start)
            case 0..<0x20: throw malformed("no control character in a string")
            default: position += 1
            }
        }
        throw malformed("the end of a string")
    }

    private func utf8(_ slice: ArraySlice<UInt8>) throws(MalformedJSON) -> String {
        // Not `String(validating:as:)`, which is not specialised for a slice.
        guard let text = try? UTF8Span(validating: slice.span) else { throw malformed("UTF-8") }
        return String(copying: text)
    }

    /// Steps over a string. One of plain ASCII, as nearly all are, is not made a value of.
    private mutating func skipString() throws(MalformedJSON) {
        let start = position
        position += 1
        while position < bytes.endIndex {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                return
            case UInt8(ascii: "\\"), 0..<0x20, 0x80...:
                position = start
                _ = try scanString()
                return
            default: position += 1
            }
        }
        throw malformed("the end of a string")
    }

    /// The slow path of `scanString`: from the first backslash on, characters go through a buffer.
    private mutating func scanEscapedString(from start: Int) throws(MalformedJSON) -> String {
        var buffer = Array(bytes[start..<position])
        while position < bytes.endIndex {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return try utf8(buffer[...])
            case UInt8(ascii: "\\"):
                guard position < bytes.endIndex else { throw malformed("an escaped character") }
                let escaped = bytes[position]
                position += 1
                switch escaped {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): buffer.append(escaped)
                case UInt8(ascii: "b"): buffer.append(0x08)
                case UInt8(ascii: "f"): buffer.append(0x0C)
                case UInt8(ascii: "n"): buffer.append(0x0A)
                case UInt8(ascii: "r"): buffer.append(0x0D)
                case UInt8(ascii: "t"): buffer.append(0x09)
                case UInt8(ascii: "u"): buffer.append(contentsOf: String(Character(try scanEscapedScalar())).utf8)
                default: throw malformed("a known escape")
                }
            case 0..<0x20: throw malformed("no control character in a string")
            default: buffer.append(byte)
            }
        }
        throw malformed("the end of a string")
    }

    /// The scalar after `\u`, two surrogates joined (RFC 8259, section 7).
    private mutating func scanEscapedScalar() throws(MalformedJSON) -> Unicode.Scalar {
        let first = try scanHex()
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard (0xD800..<0xDC00).contains(first), position + 1 < bytes.endIndex,
            bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u")
        else { throw malformed("a pair of surrogates") }
        position += 2
        let second = try scanHex()
        guard (0xDC00..<0xE000).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw malformed("a pair of surrogates") }
        return scalar
    }

    private mutating func scanHex() throws(MalformedJSON) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard position < bytes.endIndex, let digit = Character(Unicode.Scalar(bytes[position])).hexDigitValue,
                bytes[position] < 0x80
            else { throw malformed("four hexadecimal digits") }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }
}

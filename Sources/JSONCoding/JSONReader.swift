/// Reads JSON (RFC 8259) from bytes, value by value, without building a tree.
///
/// The values of a message are read in their order. A value of the wrong type or out of range is noted in `problem` and
/// skipped, so that the rest of the message is still read and the error can name the message's `id`. Only malformed JSON
/// ends the reading, with `MalformedJSON`.
package struct JSONReader {
    /// Malformed JSON: the expected token, and the offset.
    package struct MalformedJSON: Error, Equatable {
        /// The expected token.
        package let expected: String
        /// The offset from the first byte of the text.
        package let offset: Int
    }

    /// A member that does not conform to the protocol.
    package struct FieldProblem: Error, Equatable {
        /// The member's name.
        package let field: String
        /// The expected value: "an integer from 1 to 65535".
        package let expected: String
    }

    /// The largest integer that every JSON implementation represents exactly: 2^53 - 1.
    package static let maximumInteger = 1 << 53 - 1

    /// The deepest nesting that is read.
    package static let maximumDepth = 64

    /// The first member that did not conform to the protocol.
    package private(set) var problem: FieldProblem?

    let bytes: ArraySlice<UInt8>
    var position: Int
    var depth = 0

    /// Starts at the first of `bytes`, which are not copied.
    package init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    /// Notes that `field` is not `expected`, unless a problem was noted before. A name from the message is shortened.
    package mutating func note(_ field: String, expected: String) {
        if problem == nil { problem = FieldProblem(field: String(field.prefix(80)), expected: expected) }
    }

    // MARK: Structure

    /// Reads an object, and nothing but white space after it. `member` must read exactly one value for each name.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func readMessage(
        _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try readObject(member)
        skipWhitespace()
        if position != bytes.endIndex { throw malformed("the end of the text") }
    }

    /// Reads an object. `member` must read exactly one value for each name.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func readObject(
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
    package mutating func readArray(
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

    /// Skips one value of any kind.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func skip() throws(MalformedJSON) {
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
    package var nextIsObject: Bool { nextByte == UInt8(ascii: "{") }
    /// Whether an array stands next.
    package var nextIsArray: Bool { nextByte == UInt8(ascii: "[") }
    /// Whether a string stands next.
    package var nextIsString: Bool { nextByte == UInt8(ascii: "\"") }
    /// Whether a null stands next.
    package var nextIsNull: Bool { nextByte == UInt8(ascii: "n") }

    // MARK: Values

    /// Reads member `field`, a string; nil, and a note, for any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func string(_ field: String) throws(MalformedJSON) -> String? {
        if peek() == UInt8(ascii: "\"") { return try scanString() }
        return try reject(field, "a string")
    }

    /// Reads member `field`, a boolean; nil, and a note, for any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func boolean(_ field: String) throws(MalformedJSON) -> Bool? {
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

    /// Reads member `field`, an integer in `range`; nil, and a note, for any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(MalformedJSON) -> Int? {
        // The text of the note is made only when it is needed, because this is called for every integer.
        func expected() -> String { "an integer from \(range.lowerBound) to \(range.upperBound)" }
        switch peek() {
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
            if let value = try scanNumber(), range.contains(value) { return value }
            note(field, expected: expected())
            return nil
        default: return try reject(field, expected())
        }
    }

    /// Reads member `field`, a number, as floating point; nil, and a note, for any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func number(_ field: String) throws(MalformedJSON) -> Double? {
        switch peek() {
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
            skipWhitespace()
            let start = position
            _ = try scanNumber()
            return Double(String(decoding: bytes[start..<position], as: UTF8.self))
        default: return try reject(field, "a number")
        }
    }

    /// Reads member `field`, a raw value of an enumeration; nil, and a note, for any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func choice<Choice>(
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

    /// Reads member `field`, an object; notes any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func object(
        _ field: String, _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        if nextIsObject { try readObject(member) } else { let _: Never? = try reject(field, "an object") }
    }

    /// Reads member `field`, an array; notes any other value.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func array(
        _ field: String, _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        if nextIsArray { try readArray(element) } else { let _: Never? = try reject(field, "an array") }
    }

    /// Reads member `field`, an array of strings.
    package mutating func strings(_ field: String) throws(MalformedJSON) -> [String] {
        var strings: [String] = []
        try array(field) { (reader) throws(MalformedJSON) in
            if let string = try reader.string(field) { strings.append(string) }
        }
        return strings
    }
}

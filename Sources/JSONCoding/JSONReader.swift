/// Reads JSON (RFC 8259) from bytes, value by value, without building a tree. Malformed JSON ends the reading with
/// `MalformedJSON`.
package struct JSONReader {
    /// Malformed JSON: the expected token, and the offset.
    package struct MalformedJSON: Error, Equatable {
        /// The expected token.
        package let expected: String
        /// The offset from the first byte of the text.
        package let offset: Int
    }

    /// The largest integer that every JSON implementation represents exactly: 2^53 - 1.
    package static let maximumInteger = 1 << 53 - 1

    /// The deepest nesting that is read.
    package static let maximumDepth = 64

    /// A member of an object that was skipped.
    struct Member {
        /// The key of the name.
        let key: FieldKey
        /// The offset of the name's first byte.
        let nameStart: Int
        /// The offset of the value, or of white space before it.
        let value: Int
    }

    let bytes: ArraySlice<UInt8>
    var position: Int
    var depth = 0

    /// Starts at the first of `bytes`, which are not copied.
    package init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    // MARK: Structure

    /// Reads an object, and nothing but white space after it. `member` must read exactly one value for each name.
    ///
    /// - Throws: `MalformedJSON`.
    package mutating func readMessage(
        _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try readObject(member)
        try expectEnd()
    }

    /// Skips an object and appends its members, of which there may be `Fields.maximumMembers`.
    ///
    /// - Throws: `MalformedJSON`.
    mutating func index(_ members: inout [Member]) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"), "an object")
        try enter()
        if !take(UInt8(ascii: "}")) {
            repeat {
                if members.count == Fields.maximumMembers {
                    throw malformed("at most \(Fields.maximumMembers) members")
                }
                skipWhitespace()
                let start = position + 1
                let isPlain = try skipString()
                let key = isPlain ? FieldKey(bytes[start..<position - 1].span) : .unusual
                try expect(UInt8(ascii: ":"), "a colon")
                members.append(Member(key: key, nameStart: start, value: position))
                try skip()
            } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "}"), "a comma or the end of the object")
        }
        depth -= 1
    }

    /// Whether `member` has the name `wanted`, whose key is that of the member, or unusual.
    func isNamed(_ member: Member, _ wanted: Span<UInt8>) -> Bool {
        if member.key == .unusual { return Array(name(of: member).utf8).span.isEqual(to: wanted) }
        let start = member.nameStart - bytes.startIndex
        return bytes.span.extracting(start..<start + wanted.count).isEqual(to: wanted)
    }

    /// The name of `member`.
    func name(of member: Member) -> String {
        var copy = self
        copy.position = member.nameStart - 1
        return (try? copy.scanString()) ?? ""
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
    /// Whether a boolean stands next.
    package var nextIsBoolean: Bool { nextByte == UInt8(ascii: "t") || nextByte == UInt8(ascii: "f") }
    /// Whether a number stands next.
    package var nextIsNumber: Bool {
        guard let nextByte else { return false }
        return nextByte == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(nextByte)
    }

    // MARK: Values

    /// Reads a string.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readString() throws(MalformedJSON) -> String {
        skipWhitespace()
        return try scanString()
    }

    /// Reads a boolean.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readBoolean() throws(MalformedJSON) -> Bool {
        let isTrue = peek() == UInt8(ascii: "t")
        try scanWord(isTrue ? "true" : "false")
        return isTrue
    }

    /// Reads a number; nil when it is not an integer that `Int` can hold.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readInteger() throws(MalformedJSON) -> Int? { try scanNumber() }

    /// Reads a number as floating point; nil when it is too large.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readNumber() throws(MalformedJSON) -> Double? {
        skipWhitespace()
        let start = position
        _ = try scanNumber()
        return Double(String(decoding: bytes[start..<position], as: UTF8.self))
    }
}

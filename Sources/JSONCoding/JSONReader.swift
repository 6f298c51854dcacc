/// Reads JSON (RFC 8259) from bytes, value by value, without building a tree. Malformed JSON ends the reading with
/// `MalformedJSON`. Of the packed form, only `Fields` reads all values.
package struct JSONReader {
    /// The error of all its functions.
    package typealias MalformedJSON = JSONCoding.MalformedJSON

    /// The largest integer that every JSON implementation represents exactly: 2^53 - 1.
    package static let maximumInteger = 1 << 53 - 1

    /// The deepest nesting that is read.
    package static let maximumDepth = JSONScanner.maximumDepth

    /// The maximum number of members of an object whose members are looked up.
    package static let maximumMembers = 1024

    /// A member of an object that was skipped.
    struct Member {
        let key: FieldKey
        /// Whether the name is written with escapes or beyond ASCII.
        let isUnusual: Bool
        /// The offsets of the name's first byte and of the value.
        let nameStart, value: Int
    }

    let bytes: ArraySlice<UInt8>
    let form: JSONForm
    /// It stands before the next value.
    var scanner = JSONScanner(at: 0)

    /// Starts at the first of `bytes`, which are not copied.
    package init(_ bytes: ArraySlice<UInt8>, form: JSONForm = .text) {
        (self.bytes, self.form) = (bytes, form)
    }

    // MARK: Structure

    /// Skips an object of at most `tokens` tokens (`JSONScanner`) and appends its members, of which there may be
    /// `maximumMembers`.
    mutating func index(_ members: inout [Member], tokens: Int) throws(MalformedJSON) {
        if form == .packed { return try indexPacked(&members) }
        let bytes = bytes
        let text = bytes.span
        var scanner = scanner
        scanner.tokens = tokens
        defer { self.scanner.position = scanner.position }
        try scanner.expect(UInt8(ascii: "{"), "an object", in: text)
        try scanner.enter()
        if !scanner.take(UInt8(ascii: "}"), in: text) {
            repeat {
                if members.count == Self.maximumMembers {
                    throw scanner.malformed("at most \(Self.maximumMembers) members")
                }
                scanner.skipSpace(in: text)
                let start = scanner.position + 1
                let isUnusual = try !scanner.skipString(in: text)
                let name = text.extracting(start..<scanner.position - 1)
                let key = isUnusual ? FieldKey(written: text, at: start - 1) : FieldKey(name)
                try scanner.expect(UInt8(ascii: ":"), "a colon", in: text)
                scanner.skipSpace(in: text)
                members.append(Member(key: key, isUnusual: isUnusual, nameStart: start, value: scanner.position))
                try scanner.skipValue(in: text)
            } while scanner.take(UInt8(ascii: ","), in: text)
            try scanner.expect(UInt8(ascii: "}"), "a comma or the end of the object", in: text)
        }
    }

    /// `index` for the packed form.
    private mutating func indexPacked(_ members: inout [Member]) throws(MalformedJSON) {
        let bytes = bytes
        let packed = bytes.span
        var scanner = scanner
        defer { self.scanner.position = scanner.position }
        guard scanner.takeTag(UInt8(ascii: "{"), in: packed) else { throw scanner.malformed("an object") }
        while !scanner.takeTag(UInt8(ascii: "}"), in: packed) {
            if members.count == Self.maximumMembers {
                throw scanner.malformed("at most \(Self.maximumMembers) members")
            }
            let name = try scanner.readPackedString(in: packed)
            let key = FieldKey(packed.extracting(name))
            members.append(Member(key: key, isUnusual: false, nameStart: name.lowerBound, value: scanner.position))
            try scanner.skipPackedValue(in: packed)
        }
    }

    /// Whether `member` has the name `wanted`, whose key is that of the member.
    func isNamed(_ member: Member, _ wanted: Span<UInt8>) -> Bool {
        if member.isUnusual { return name(of: member, most: wanted.count)?.utf8Span.span.isEqual(to: wanted) ?? false }
        return bytes.span.extracting(member.nameStart..<member.nameStart + wanted.count).isEqual(to: wanted)
    }

    /// Returns the name of `member`; nil when it is longer than `most` bytes.
    func name(of member: Member, most: Int) -> String? {
        var copy = self
        copy.scanner.position = member.nameStart - (form == .packed ? 5 : 1)
        return try? copy.readString(most: most)
    }

    /// Reads an object. `member` must read exactly one value for each name.
    package mutating func readObject(
        _ member: (inout JSONReader, String) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "{"), "an object")
        try scanner.enter()
        if !take(UInt8(ascii: "}")) {
            repeat {
                let name = try readString()
                try expect(UInt8(ascii: ":"), "a colon")
                try member(&self, name)
            } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "}"), "a comma or the end of the object")
        }
        scanner.depth -= 1
    }

    /// Reads an array. `element` must read exactly one value for each element.
    package mutating func readArray(
        _ element: (inout JSONReader) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try expect(UInt8(ascii: "["), "an array")
        try scanner.enter()
        if !take(UInt8(ascii: "]")) {
            repeat { try element(&self) } while take(UInt8(ascii: ","))
            try expect(UInt8(ascii: "]"), "a comma or the end of the array")
        }
        scanner.depth -= 1
    }

    /// Skips one value of any kind.
    package mutating func skip() throws(MalformedJSON) {
        let bytes = bytes
        if form == .packed { return try scanner.skipPackedValue(in: bytes.span) }
        try scanner.skipValue(in: bytes.span)
    }

    mutating func take(_ byte: UInt8) -> Bool {
        let bytes = bytes
        return scanner.take(byte, in: bytes.span)
    }

    private mutating func expect(_ byte: UInt8, _ expected: String) throws(MalformedJSON) {
        if !take(byte) { throw scanner.malformed(expected) }
    }

    /// Whether an array has another element, which stands next then.
    mutating func takeSeparator() -> Bool {
        if form == .packed { nextByte != nil && nextByte != UInt8(ascii: "]") } else { take(UInt8(ascii: ",")) }
    }

    package func expectEnd() throws(MalformedJSON) {
        var end = scanner
        end.skipSpace(in: bytes.span)
        if end.position != bytes.count { throw end.malformed("the end of the text") }
    }

    /// The next byte that is no white space; nil at the end.
    private var nextByte: UInt8? {
        var next = scanner
        let text = bytes.span
        next.skipSpace(in: text)
        return next.position < text.count ? text[next.position] : nil
    }

    // Whether a value of this kind stands next.

    package var nextIsObject: Bool { nextByte == UInt8(ascii: "{") }
    package var nextIsArray: Bool { nextByte == UInt8(ascii: "[") }
    package var nextIsString: Bool { nextByte == UInt8(ascii: "\"") }
    package var nextIsNull: Bool { nextByte == UInt8(ascii: "n") }
    package var nextIsBoolean: Bool { nextByte == UInt8(ascii: "t") || nextByte == UInt8(ascii: "f") }
    package var nextIsNumber: Bool {
        guard let nextByte else { return false }
        if form == .packed { return nextByte == UInt8(ascii: "#") || nextByte == UInt8(ascii: "~") }
        return nextByte == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(nextByte)
    }

    // MARK: Values

    /// Reads a string.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readString() throws(MalformedJSON) -> String { try readString(most: .max) ?? "" }

    /// Reads a string; nil when it is longer than `most` bytes.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    mutating func readString(most: Int) throws(MalformedJSON) -> String? {
        let bytes = bytes
        let text = bytes.span
        if form == .packed {
            let contents = try scanner.readPackedString(in: text)
            return contents.count > most ? nil : String(validating: text.extracting(contents))
        }
        scanner.skipSpace(in: text)
        if let contents = scanner.skipPlainString(in: text) {
            return contents.count > most ? nil : String(validating: text.extracting(contents))
        }
        guard let characters = try scanner.readString(in: text, most: most) else { return nil }
        return String(validating: characters.span)
    }

    /// Reads a boolean.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readBoolean() throws(MalformedJSON) -> Bool {
        let bytes = bytes
        let isTrue = nextByte == UInt8(ascii: "t")
        scanner.skipSpace(in: bytes.span)
        try scanner.skipWord(form == .packed ? isTrue ? "t" : "f" : isTrue ? "true" : "false", in: bytes.span)
        return isTrue
    }

    /// Reads a number; nil when it is not an integer that `Int` can hold.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readInteger() throws(MalformedJSON) -> Int? {
        let bytes = bytes
        let text = bytes.span
        if form == .packed {
            if take(UInt8(ascii: "#")) { return try scanner.readPacked(Int.self, in: text) }
            return try readNumber().flatMap { Int(exactly: $0) }
        }
        scanner.skipSpace(in: text)
        let start = scanner.position
        // 1.0 and 1e3 are integers, too.
        guard try scanner.skipNumber(in: text) else {
            return Self.number(text.extracting(start..<scanner.position)).flatMap { Int(exactly: $0) }
        }
        let isNegative = text[start] == UInt8(ascii: "-")
        var value = 0
        for index in (isNegative ? start + 1 : start)..<scanner.position {
            let (product, overflowed) = value.multipliedReportingOverflow(by: 10)
            let (sum, carried) = product.addingReportingOverflow(Int(text[index] - UInt8(ascii: "0")))
            if overflowed || carried { return nil }
            value = sum
        }
        return isNegative ? -value : value
    }

    /// Reads a number as floating point; nil when it is too large.
    ///
    /// - Throws: `MalformedJSON`, also for any other value.
    package mutating func readNumber() throws(MalformedJSON) -> Double? {
        let bytes = bytes
        let text = bytes.span
        if form == .packed {
            if take(UInt8(ascii: "#")) { return Double(try scanner.readPacked(Int.self, in: text)) }
            try expect(UInt8(ascii: "~"), "a number")
            let number = Double(bitPattern: try scanner.readPacked(UInt64.self, in: text))
            return number.isFinite ? number : nil
        }
        scanner.skipSpace(in: text)
        let start = scanner.position
        try scanner.skipNumber(in: text)
        return Self.number(text.extracting(start..<scanner.position))
    }

    /// The longest number that is converted, in bytes, because the time grows with the number of digits.
    private static let longestNumber = 1024

    private static func number(_ digits: Span<UInt8>) -> Double? {
        digits.count > longestNumber ? nil : String(validating: digits).flatMap { Double($0) }
    }
}

extension String {
    /// The text in UTF-8; nil when it is not valid. `String(validating:as:)` is not specialised for a span.
    fileprivate init?(validating bytes: Span<UInt8>) {
        guard let text = try? UTF8Span(validating: bytes) else { return nil }
        self.init(copying: text)
    }
}

// The text itself: white space, words, numbers and strings.
extension JSONReader {
    func malformed(_ expected: String) -> MalformedJSON {
        MalformedJSON(expected: expected, offset: position - bytes.startIndex)
    }

    mutating func enter() throws(MalformedJSON) {
        depth += 1
        if depth > Self.maximumDepth { throw malformed("at most \(Self.maximumDepth) levels") }
    }

    mutating func skipWhitespace() {
        while position < bytes.endIndex {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    var nextByte: UInt8? {
        var next = position
        while next < bytes.endIndex {
            switch bytes[next] {
            case 0x20, 0x09, 0x0A, 0x0D: next += 1
            default: return bytes[next]
            }
        }
        return nil
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

    mutating func expect(_ byte: UInt8, _ expected: String) throws(MalformedJSON) {
        if !take(byte) { throw malformed(expected) }
    }

    mutating func scanWord(_ word: String) throws(MalformedJSON) {
        for byte in word.utf8 {
            guard position < bytes.endIndex, bytes[position] == byte else { throw malformed("a value") }
            position += 1
        }
    }

    /// Skips a number; returns its value if that is an integer that `Int` can hold.
    mutating func scanNumber() throws(MalformedJSON) -> Int? {
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

    func digitHere() -> Int? {
        guard position < bytes.endIndex else { return nil }
        let byte = bytes[position]
        return byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") ? Int(byte - UInt8(ascii: "0")) : nil
    }

    mutating func scanDigits() throws(MalformedJSON) {
        let start = position
        while digitHere() != nil { position += 1 }
        if position == start { throw malformed("a digit") }
    }

    mutating func scanString() throws(MalformedJSON) -> String {
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

    func utf8(_ slice: ArraySlice<UInt8>) throws(MalformedJSON) -> String {
        // Not `String(validating:as:)`, which is not specialised for a slice.
        guard let text = try? UTF8Span(validating: slice.span) else { throw malformed("UTF-8") }
        return String(copying: text)
    }

    /// Skips a string. Returns whether it is plain ASCII without escapes, as nearly all are; such a string is not copied.
    @discardableResult
    mutating func skipString() throws(MalformedJSON) -> Bool {
        guard position < bytes.endIndex, bytes[position] == UInt8(ascii: "\"") else { throw malformed("a string") }
        let start = position
        position += 1
        while position < bytes.endIndex {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                return true
            case UInt8(ascii: "\\"), 0..<0x20, 0x80...:
                position = start
                _ = try scanString()
                return false
            default: position += 1
            }
        }
        throw malformed("the end of a string")
    }

    func expectEnd() throws(MalformedJSON) {
        var copy = self
        copy.skipWhitespace()
        if copy.position != bytes.endIndex { throw copy.malformed("the end of the text") }
    }

    /// The slow path of `scanString`: from the first backslash on, characters go through a buffer.
    mutating func scanEscapedString(from start: Int) throws(MalformedJSON) -> String {
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
    mutating func scanEscapedScalar() throws(MalformedJSON) -> Unicode.Scalar {
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

    mutating func scanHex() throws(MalformedJSON) -> UInt32 {
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

/// Steps over JSON (RFC 8259) and checks all of it, without creating strings or numbers.
///
/// Each value, name, escape sequence and character beyond ASCII is a token. The time is that of `tokens` plus a
/// fraction of a nanosecond for each further byte, because these are checked eight at a time. So a limit of tokens
/// bounds it.
struct JSONScanner {
    /// The deepest nesting that is read.
    static let maximumDepth = 64

    /// The offset in the text.
    var position: Int
    /// The number of enclosing arrays and objects.
    var depth: Int
    /// The number of further tokens that are accepted.
    var tokens: Int

    init(at position: Int, depth: Int = 0, tokens: Int = .max) {
        (self.position, self.depth, self.tokens) = (position, depth, tokens)
    }

    func malformed(_ expected: String) -> MalformedJSON { MalformedJSON(expected: expected, offset: position) }

    mutating func enter() throws(MalformedJSON) {
        depth += 1
        if depth > Self.maximumDepth { throw malformed("at most \(Self.maximumDepth) levels") }
    }

    @inline(__always)
    private mutating func countToken() throws(MalformedJSON) {
        tokens -= 1
        if tokens < 0 { throw malformed("fewer values, names and escape sequences") }
    }

    // MARK: Punctuation

    @inline(__always)
    mutating func skipSpace(in text: Span<UInt8>) {
        while position < text.count, Self.isSpace(text[position]) {
            position += 1
            // A long run of white space.
            while position + 8 <= text.count, Self.allAreSpace(Self.word(in: text, at: position)) { position += 8 }
        }
    }

    @inline(__always)
    mutating func take(_ byte: UInt8, in text: Span<UInt8>) -> Bool {
        skipSpace(in: text)
        guard position < text.count, text[position] == byte else { return false }
        position += 1
        return true
    }

    @inline(__always)
    mutating func expect(_ byte: UInt8, _ expected: String, in text: Span<UInt8>) throws(MalformedJSON) {
        if !take(byte, in: text) { throw malformed(expected) }
    }

    // MARK: Values

    /// Skips one value of any kind.
    mutating func skipValue(in text: Span<UInt8>) throws(MalformedJSON) {
        let outer = depth
        // One bit for each level within the value, the innermost lowest: whether it is an object.
        var objects: UInt64 = 0
        while true {
            if objects & 1 == 1 { try skipName(in: text) }
            try countToken()
            skipSpace(in: text)
            guard position < text.count else { throw malformed("a value") }
            switch text[position] {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                let isObject = text[position] == UInt8(ascii: "{")
                position += 1
                try enter()
                if !take(UInt8(ascii: isObject ? "}" : "]"), in: text) {
                    objects = objects << 1 | (isObject ? 1 : 0)
                    continue
                }
                depth -= 1
            case UInt8(ascii: "\""): try skipString(in: text)
            case UInt8(ascii: "t"): try skipWord("true", in: text)
            case UInt8(ascii: "f"): try skipWord("false", in: text)
            case UInt8(ascii: "n"): try skipWord("null", in: text)
            default: try skipNumber(in: text)
            }
            while depth > outer, !take(UInt8(ascii: ","), in: text) {
                if objects & 1 == 1 {
                    try expect(UInt8(ascii: "}"), "a comma or the end of the object", in: text)
                } else {
                    try expect(UInt8(ascii: "]"), "a comma or the end of the array", in: text)
                }
                depth -= 1
                objects >>= 1
            }
            if depth == outer { return }
        }
    }

    /// Skips a member's name and the colon.
    private mutating func skipName(in text: Span<UInt8>) throws(MalformedJSON) {
        skipSpace(in: text)
        try countToken()
        try skipString(in: text)
        try expect(UInt8(ascii: ":"), "a colon", in: text)
    }

    mutating func skipWord(_ word: StaticString, in text: Span<UInt8>) throws(MalformedJSON) {
        let wanted = unsafe Span(_unsafeStart: word.utf8Start, count: word.utf8CodeUnitCount)
        for index in wanted.indices {
            guard position < text.count, text[position] == wanted[index] else { throw malformed("a value") }
            position += 1
        }
    }

    /// Skips a number; returns whether it has neither a fraction nor an exponent.
    @discardableResult
    mutating func skipNumber(in text: Span<UInt8>) throws(MalformedJSON) -> Bool {
        if position < text.count, text[position] == UInt8(ascii: "-") { position += 1 }
        let first = position
        skipDigits(in: text)
        if position == first { throw malformed("a value") }
        if position - first > 1, text[first] == UInt8(ascii: "0") { throw malformed("no leading zero") }
        var isInteger = true
        if position < text.count, text[position] == UInt8(ascii: ".") {
            isInteger = false
            position += 1
            try expectDigits(in: text)
        }
        if position < text.count, text[position] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            position += 1
            if position < text.count, text[position] == UInt8(ascii: "+") || text[position] == UInt8(ascii: "-") {
                position += 1
            }
            try expectDigits(in: text)
        }
        return isInteger
    }

    @inline(__always)
    private mutating func skipDigits(in text: Span<UInt8>) {
        while position < text.count, text[position] &- UInt8(ascii: "0") < 10 { position += 1 }
    }

    private mutating func expectDigits(in text: Span<UInt8>) throws(MalformedJSON) {
        let start = position
        skipDigits(in: text)
        if position == start { throw malformed("a digit") }
    }

    // MARK: Strings

    /// Skips a string; returns whether it is ASCII without escapes, as nearly all are.
    @discardableResult
    mutating func skipString(in text: Span<UInt8>) throws(MalformedJSON) -> Bool {
        guard position < text.count, text[position] == UInt8(ascii: "\"") else { throw malformed("a string") }
        position += 1
        var isPlain = true
        while true {
            skipPlain(in: text)
            guard position < text.count else { throw malformed("the end of a string") }
            switch text[position] {
            case UInt8(ascii: "\""):
                position += 1
                return isPlain
            case UInt8(ascii: "\\"):
                try countToken()
                isPlain = false
                _ = try scanEscape(in: text)
            case 0x80...:
                try countToken()
                isPlain = false
                try skipSequence(in: text)
            default: throw malformed("no control character in a string")
            }
        }
    }

    /// Skips a string of ASCII without escapes, and returns the offsets of its characters; nil, at its beginning, for
    /// any other.
    mutating func skipPlainString(in text: Span<UInt8>) -> Range<Int>? {
        var end = self
        guard position < text.count, text[position] == UInt8(ascii: "\"") else { return nil }
        end.position += 1
        end.skipPlain(in: text)
        guard end.position < text.count, text[end.position] == UInt8(ascii: "\"") else { return nil }
        defer { position = end.position + 1 }
        return position + 1..<end.position
    }

    /// Reads the characters of a string; nil, somewhere within it, when they take more than `most` bytes.
    mutating func readString(in text: Span<UInt8>, most: Int) throws(MalformedJSON) -> [UInt8]? {
        guard position < text.count, text[position] == UInt8(ascii: "\"") else { throw malformed("a string") }
        position += 1
        var bytes: [UInt8] = []
        while true {
            let start = position
            skipPlain(in: text)
            while position < text.count, text[position] >= 0x80 {
                try skipSequence(in: text)
                skipPlain(in: text)
            }
            let run = text.extracting(start..<position)
            if bytes.count + run.count > most { return nil }
            unsafe run.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
            guard position < text.count else { throw malformed("the end of a string") }
            switch text[position] {
            case UInt8(ascii: "\""):
                position += 1
                return bytes
            case UInt8(ascii: "\\"):
                let scalar = try scanEscape(in: text)
                if scalar.isASCII {
                    bytes.append(UInt8(scalar.value))
                } else {
                    bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
                }
            default: throw malformed("no control character in a string")
            }
        }
    }

    /// Moves to the next byte that is a quote, a backslash, a control character or beyond ASCII, or to the end.
    @inline(__always)
    private mutating func skipPlain(in text: Span<UInt8>) {
        while position + 8 <= text.count {
            let plain = Self.plainBytes(Self.word(in: text, at: position))
            position += plain
            if plain < 8 { return }
        }
        while position < text.count, Self.isPlain(text[position]) { position += 1 }
    }

    /// Reads an escape sequence.
    @inline(__always)
    private mutating func scanEscape(in text: Span<UInt8>) throws(MalformedJSON) -> Unicode.Scalar {
        guard position + 1 < text.count else { throw malformed("an escaped character") }
        let escaped = text[position + 1]
        position += 2
        switch escaped {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(escaped)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return try scanScalar(in: text)
        default: throw malformed("a known escape")
        }
    }

    /// Skips the bytes of one character beyond ASCII (RFC 3629).
    @inline(__always)
    private mutating func skipSequence(in text: Span<UInt8>) throws(MalformedJSON) {
        func isContinuation(_ offset: Int, _ least: UInt8 = 0x80, _ most: UInt8 = 0xBF) -> Bool {
            position + offset < text.count && text[position + offset] >= least && text[position + offset] <= most
        }
        switch text[position] {
        case 0xC2...0xDF where isContinuation(1): position += 2
        case 0xE0 where isContinuation(1, 0xA0) && isContinuation(2): position += 3
        case 0xED where isContinuation(1, 0x80, 0x9F) && isContinuation(2): position += 3
        case 0xE1...0xEC where isContinuation(1) && isContinuation(2): position += 3
        case 0xEE...0xEF where isContinuation(1) && isContinuation(2): position += 3
        case 0xF0 where isContinuation(1, 0x90) && isContinuation(2) && isContinuation(3): position += 4
        case 0xF1...0xF3 where isContinuation(1) && isContinuation(2) && isContinuation(3): position += 4
        case 0xF4 where isContinuation(1, 0x80, 0x8F) && isContinuation(2) && isContinuation(3): position += 4
        default: throw malformed("UTF-8")
        }
    }

    /// Reads the scalar after `\u`, two surrogates joined (RFC 8259, section 7).
    private mutating func scanScalar(in text: Span<UInt8>) throws(MalformedJSON) -> Unicode.Scalar {
        let first = try scanHex(in: text)
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard (0xD800..<0xDC00).contains(first), position + 1 < text.count,
            text[position] == UInt8(ascii: "\\"), text[position + 1] == UInt8(ascii: "u")
        else { throw malformed("a pair of surrogates") }
        position += 2
        let second = try scanHex(in: text)
        guard (0xDC00..<0xE000).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw malformed("a pair of surrogates") }
        return scalar
    }

    private mutating func scanHex(in text: Span<UInt8>) throws(MalformedJSON) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard position < text.count else { throw malformed("four hexadecimal digits") }
            let digit: UInt8
            switch text[position] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = text[position] - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = text[position] - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = text[position] - UInt8(ascii: "A") + 10
            default: throw malformed("four hexadecimal digits")
            }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    // MARK: Eight bytes at a time

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let tops: UInt64 = 0x8080_8080_8080_8080

    @inline(__always)
    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }

    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x80 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// The eight bytes at `position`, the first lowest.
    @inline(__always)
    private static func word(in text: Span<UInt8>, at position: Int) -> UInt64 {
        UInt64(littleEndian: unsafe text.bytes.unsafeLoadUnaligned(fromByteOffset: position, as: UInt64.self))
    }

    /// The number of bytes before the first that is a quote, a backslash, a control character or beyond ASCII.
    @inline(__always)
    private static func plainBytes(_ word: UInt64) -> Int {
        let quotes = word ^ ones &* UInt64(UInt8(ascii: "\""))
        let backslashes = word ^ ones &* UInt64(UInt8(ascii: "\\"))
        // A subtraction borrows from the next byte only above a byte that is found itself.
        let found =
            (word | (quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes
                | (word &- ones &* 0x20) & ~word) & tops
        return found.trailingZeroBitCount / 8
    }

    /// Whether all eight bytes are white space.
    @inline(__always)
    private static func allAreSpace(_ word: UInt64) -> Bool {
        let spaces = zeroBytes(word ^ ones &* 0x20) | zeroBytes(word ^ ones &* 0x0A)
        return spaces | zeroBytes(word ^ ones &* 0x0D) | zeroBytes(word ^ ones &* 0x09) == tops
    }

    /// The top bit of each byte that is zero, exactly.
    @inline(__always)
    private static func zeroBytes(_ word: UInt64) -> UInt64 {
        ~(((word & ~tops) &+ ~tops) | word | ~tops)
    }
}

/// A SHA-256 digest, stored as a value of 32 bytes.
package struct ContentDigest: Hashable, Sendable {
    // Two vectors of 16 bytes, because one of 32 bytes would be aligned to 32.
    private let high: SIMD2<UInt64>
    private let low: SIMD2<UInt64>

    /// The digest as four words, the first bytes first.
    package var words: SIMD4<UInt64> { SIMD4(lowHalf: high, highHalf: low) }

    /// Creates a digest of its `words`.
    package init(words: SIMD4<UInt64>) {
        (high, low) = (words.lowHalf, words.highHalf)
    }

    /// The digest as 64 hexadecimal digits in lower case.
    package var hexadecimal: String {
        unsafe String(unsafeUninitializedCapacity: Self.length) { text in
            for place in 0..<Self.length {
                let value = UInt8(truncatingIfNeeded: words[place / 16] >> UInt64(60 - 4 * (place % 16))) & 15
                unsafe text[place] = value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
            }
            return Self.length
        }
    }

    private static let length = 64

    /// Parses 64 hexadecimal digits; nil for any other text.
    package init?(hexadecimal: String) {
        guard hexadecimal.utf8.count == Self.length else { return nil }
        var (text, words) = (hexadecimal, SIMD4<UInt64>())
        let isValid = text.withUTF8 { digits in
            for place in 0..<Self.length {
                let value: UInt8
                let digit = unsafe digits[place]
                switch digit {
                case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
                case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
                case UInt8(ascii: "A")...UInt8(ascii: "F"): value = digit - UInt8(ascii: "A") + 10
                default: return false
                }
                words[place / 16] = words[place / 16] << 4 | UInt64(value)
            }
            return true
        }
        if !isValid { return nil }
        self.init(words: words)
    }
}

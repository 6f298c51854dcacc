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
        [high[0], high[1], low[0], low[1]].map { word in
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    /// Parses 64 hexadecimal digits; nil for any other text.
    package init?(hexadecimal: String) {
        guard hexadecimal.utf8.count == 64 else { return nil }
        var words = SIMD4<UInt64>()
        var rest = hexadecimal[...]
        for index in 0..<4 {
            guard let word = UInt64(rest.prefix(16), radix: 16) else { return nil }
            words[index] = word
            rest = rest.dropFirst(16)
        }
        (high, low) = (words.lowHalf, words.highHalf)
    }
}

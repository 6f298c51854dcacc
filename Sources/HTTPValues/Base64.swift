/// Base64 (RFC 4648).
package enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    // Not generic: other modules would get code that allocates for each byte.

    /// Encodes bytes, with padding.
    package static func encode(_ bytes: Span<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            var word = 0
            for place in 0..<count { word |= Int(bytes[start + place]) << (16 - 8 * place) }
            for place in 0..<4 {
                text.append(place <= count ? digits[word >> (18 - 6 * place) & 63] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes digits without padding and white space: of the alphabet for URLs (section 5), or the other one (section
    /// 4). Nil for other text.
    package static func decoded(_ digits: Span<UInt8>, forURLs: Bool) -> [UInt8]? {
        guard digits.count % 4 != 1 else { return nil }
        var (bytes, bits) = ([UInt8](), UInt32(0))
        bytes.reserveCapacity(digits.count / 4 * 3 + 2)
        for index in digits.indices {
            guard let value = value(of: digits[index], forURLs) else { return nil }
            bits = bits << 6 | value
            if index % 4 > 0 { bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(6 - 2 * (index % 4)))) }
        }
        return bytes
    }

    private static func value(of digit: UInt8, _ isForURLs: Bool) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
        case UInt8(ascii: isForURLs ? "-" : "+"): 62
        case UInt8(ascii: isForURLs ? "_" : "/"): 63
        default: nil
        }
    }
}

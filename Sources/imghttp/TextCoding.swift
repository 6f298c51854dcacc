import HTTPValues

/// The encodings of text within URLs.
enum TextCoding {
    /// Decodes percent-encoding; nil for a malformed escape, and for bytes that are not UTF-8. In a query, `+` is a
    /// space.
    static func percentDecoded(_ text: some StringProtocol, isQuery: Bool = false) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            } else {
                bytes.append(isQuery && byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Decodes hexadecimal digits; nil for other text, and for an odd number of them.
    static func bytes(ofHexadecimal text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.compactMap(digit)
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    /// Decodes Base64 in the alphabet for URLs (RFC 4648, section 5), with or without padding; nil for other text.
    static func bytes(ofBase64 text: some StringProtocol) -> [UInt8]? {
        var digits = Array(text.utf8)
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        return Base64.decoded(digits.span, forURLs: true)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

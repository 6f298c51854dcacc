/// `data:` URLs (RFC 2397), which carry their bytes.
package enum DataURL {
    private static let scheme = "data:"

    /// Whether a URL has this scheme.
    package static func isSpelled(_ text: String) -> Bool {
        text.utf8.prefix(scheme.utf8.count).map { $0 | 0x20 }.elementsEqual(scheme.utf8.map { $0 | 0x20 })
    }

    /// Returns the bytes of a URL of this scheme. The media type is ignored.
    ///
    /// - Throws: `InvalidURL` without data, or for damaged base64 text.
    package static func bytes(of text: String) throws(InvalidURL) -> [UInt8] {
        let rest = Array(text.utf8.dropFirst(scheme.utf8.count))
        guard let comma = rest.firstIndex(of: UInt8(ascii: ",")) else {
            throw InvalidURL(.malformed, "a data: URL needs a comma before its data")
        }
        let end = rest.firstIndex(of: UInt8(ascii: "#")) ?? rest.endIndex
        let data = HostName.percentDecoded(rest[min(comma + 1, end)..<end])
        guard isBase64(rest[..<comma]) else { return data }
        // White space and padding may be there or not (the forgiving decoding of the WHATWG Infra Standard).
        var digits = data.filter { ![0x09, 0x0A, 0x0C, 0x0D, 0x20].contains($0) }
        if digits.count % 4 == 0 {
            for _ in 0..<2 where digits.last == UInt8(ascii: "=") { digits.removeLast() }
        }
        guard let bytes = Base64.decoded(digits.span, forURLs: false) else {
            throw InvalidURL(.malformed, "the base64 text of a data: URL is damaged")
        }
        return bytes
    }

    /// Whether a media type ends in "; base64".
    private static func isBase64(_ type: ArraySlice<UInt8>) -> Bool {
        let word = Array("base64".utf8)
        var type = type
        func dropSpaces() { while type.last == 0x20 { type.removeLast() } }
        dropSpaces()
        guard type.suffix(word.count).map({ $0 | 0x20 }) == word.map({ $0 | 0x20 }) else { return false }
        type.removeLast(word.count)
        dropSpaces()
        return type.last == UInt8(ascii: ";")
    }
}

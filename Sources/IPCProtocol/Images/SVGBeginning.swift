/// The beginning of an XML file up to its first element, which is `svg` in an SVG.
enum SVGBeginning {
    /// Returns whether the first element that begins in `bytes` is `svg`, with or without a prefix. A byte order mark,
    /// the XML declaration, other processing instructions, comments and a document type may precede it. The encoding is
    /// UTF-16, or one in which markup is ASCII.
    static func matches(_ bytes: some Collection<UInt8>) -> Bool {
        guard begins(bytes) else { return false }
        var rest = text(Array(bytes))[...]
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        while true {
            rest = rest.drop(while: isSpace)
            guard rest.first == UInt8(ascii: "<") else { return false }
            let after: ArraySlice<UInt8>?
            if rest.starts(with: "<!--".utf8) {
                after = end("-->", in: rest.dropFirst(4))
            } else if rest.starts(with: "<?".utf8) {
                after = end("?>", in: rest.dropFirst(2))
            } else if rest.starts(with: "<!DOCTYPE".utf8) {
                after = endOfDocumentType(rest)
            } else {
                return isSVGElement(rest.dropFirst())
            }
            guard let after else { return false }
            rest = after
        }
    }

    /// Whether a byte order mark, white space or `<` come first, so that no other file is searched.
    private static func begins(_ bytes: some Collection<UInt8>) -> Bool {
        guard let first = bytes.first(where: { $0 != 0 && !isSpace($0) }) else { return false }
        return [UInt8(ascii: "<"), 0xEF, 0xFE, 0xFF].contains(first)
    }

    /// Returns the text; that of UTF-16 with one byte for each word, of which those beyond ASCII become 0xFF.
    private static func text(_ bytes: [UInt8]) -> [UInt8] {
        let isBig = bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0, UInt8(ascii: "<"), 0])
        let hasMark = bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE])
        guard isBig || hasMark || bytes.starts(with: [UInt8(ascii: "<"), 0]) else { return bytes }
        return stride(from: hasMark ? 2 : 0, to: bytes.count - 1, by: 2).map { index in
            let (high, low) = (bytes[index + (isBig ? 0 : 1)], bytes[index + (isBig ? 1 : 0)])
            return high == 0 && low < 0x80 ? low : 0xFF
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

    private static func end(_ text: String, in bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let sought = Array(text.utf8)
        let start = bytes.indices.first { bytes[$0] == sought[0] && bytes[$0...].starts(with: sought) }
        return start.map { bytes[($0 + sought.count)...] }
    }

    /// Skips a document type, whose declarations may be in brackets, with comments and texts in quotation marks.
    private static func endOfDocumentType(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        var rest = bytes
        var depth = 0
        while let byte = rest.first {
            if rest.starts(with: "<!--".utf8) {
                guard let after = end("-->", in: rest.dropFirst(4)) else { return nil }
                rest = after
                continue
            }
            rest = rest.dropFirst()
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                guard let close = rest.firstIndex(of: byte) else { return nil }
                rest = rest[(close + 1)...]
            case UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where depth <= 0: return rest
            default: break
            }
        }
        return nil
    }

    private static func isSVGElement(_ bytes: ArraySlice<UInt8>) -> Bool {
        let name = bytes.prefix { !isSpace($0) && $0 != UInt8(ascii: ">") && $0 != UInt8(ascii: "/") }
        // The end of the bytes may cut a name off.
        guard name.endIndex < bytes.endIndex else { return false }
        return name.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).last?
            .elementsEqual("svg".utf8) ?? false
    }
}

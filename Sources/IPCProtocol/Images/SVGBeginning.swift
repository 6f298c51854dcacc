/// The beginning of an XML file up to its first element, which is `svg` in an SVG.
enum SVGBeginning {
    /// Returns whether the first element that begins in `bytes`, in UTF-8, is `svg`, with or without a prefix. A byte order mark, the XML declaration, other processing instructions, comments and a document type may precede it.
    static func matches(_ bytes: some Collection<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        while true {
            rest = rest.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
            guard rest.first == UInt8(ascii: "<") else { return false }
            if rest.starts(with: "<!--".utf8) {
                guard let after = end("-->", in: rest.dropFirst(4)) else { return false }
                rest = after
            } else if rest.starts(with: "<?".utf8) {
                guard let after = end("?>", in: rest.dropFirst(2)) else { return false }
                rest = after
            } else if rest.starts(with: "<!DOCTYPE".utf8) {
                guard let after = endOfDocumentType(rest) else { return false }
                rest = after
            } else {
                return isSVGElement(rest.dropFirst())
            }
        }
    }

    private static func end(_ text: String, in bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let start = bytes.indices.first { bytes[$0...].starts(with: text.utf8) }
        return start.map { bytes[($0 + text.utf8.count)...] }
    }

    /// Skips a document type, whose declarations may be in brackets.
    private static func endOfDocumentType(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        var depth = 0
        for index in bytes.indices {
            switch bytes[index] {
            case UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where depth <= 0: return bytes[(index + 1)...]
            default: break
            }
        }
        return nil
    }

    private static func isSVGElement(_ bytes: ArraySlice<UInt8>) -> Bool {
        let name = bytes.prefix { ![0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: ">"), UInt8(ascii: "/")].contains($0) }
        // The end of the bytes may cut a name off.
        guard name.endIndex < bytes.endIndex else { return false }
        return name.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).last?
            .elementsEqual("svg".utf8) ?? false
    }
}

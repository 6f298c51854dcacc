/// The text of a `get` in two parts: its id and the rest. Clients request the same image repeatedly; two requests with
/// the same rest differ only in their id, so the second need not be read as JSON.
///
/// Only the usual beginnings are recognised. Any other text is left to the JSON reader.
package struct RepeatableText {
    /// The maximum length of a text to be remembered, in bytes.
    package static let longestRest = 1024

    /// The request's id.
    package let id: Int
    /// The text after the id.
    package let rest: ArraySlice<UInt8>

    /// Divides the text of a frame; nil when it has another beginning. Does not check whether the text is well-formed.
    package init?(_ text: ArraySlice<UInt8>) {
        guard text.count <= Self.longestRest,
            let (id, rest) = Self.number(in: text, behind: Self.compactGet)
                ?? Self.number(in: text, behind: Self.spacedGet),
            text[rest] == UInt8(ascii: ",")
        else { return nil }
        self.id = id
        self.rest = text[rest...]
    }

    /// Whether the rest may be remembered: it has no further member of the envelope, so it means the same with another
    /// id, and it has no credentials. Valid only for a text that the JSON reader has accepted.
    package var isPlain: Bool {
        // Without escapes, a name has only one spelling.
        !rest.contains(UInt8(ascii: "\\"))
            && ["\"id\"", "\"type\"", "\"fds\"", "\"payload\"", "\"headers\"", "\"credentials\""].allSatisfy {
                !rest.contains(bytesOf: $0)
            }
    }

    /// Returns the buffer of a `release` of a single buffer; nil for any other text, or another spelling of it.
    package static func releasedBuffer(_ text: ArraySlice<UInt8>) -> Int? {
        for (beginning, end) in releases {
            guard let (number, rest) = number(in: text, behind: beginning) else { continue }
            return number > 0 && text[rest...].elementsEqual(end) ? number : nil
        }
        return nil
    }

    private static let compactGet = Array(#"{"type":"get","id":"#.utf8)
    private static let spacedGet = Array(#"{"type": "get", "id": "#.utf8)
    /// The spellings of the client library and of JSON writers with and without spaces.
    private static let releases = [
        (Array(#"{"type":"release","buffers":["#.utf8), Array("]}".utf8)),
        (Array(#"{"type":"release","buffer":"#.utf8), Array("}".utf8)),
        (Array(#"{"type": "release", "buffer": "#.utf8), Array("}".utf8)),
    ]

    /// Returns the number of up to 15 digits after `beginning`, and the index after it, which is not the end of the
    /// text.
    private static func number(
        in text: ArraySlice<UInt8>, behind beginning: [UInt8]
    ) -> (number: Int, end: Int)? {
        guard text.starts(with: beginning) else { return nil }
        let start = text.startIndex + beginning.count
        var (number, end) = (0, start)
        while end < text.endIndex, case let digit = text[end] &- UInt8(ascii: "0"), digit < 10 {
            number = number * 10 + Int(digit)
            end += 1
            if end - start > 15 { return nil }
        }
        // JSON has no leading zeros.
        guard end > start, end < text.endIndex, end - start == 1 || text[start] != UInt8(ascii: "0") else { return nil }
        return (number, end)
    }
}

extension ArraySlice<UInt8> {
    fileprivate func contains(bytesOf text: StaticString) -> Bool {
        let wanted = Array(text.description.utf8)
        return indices.contains { self[$0...].starts(with: wanted) }
    }
}

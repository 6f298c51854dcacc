/// The text of a `get` in two parts: its id, and the rest. Clients ask for the same picture again and again; two requests
/// with the same rest differ in nothing but their name, so that the second need not be read as JSON.
///
/// Only the usual beginnings are known. Any other text is JSON all the same, and for the general reader.
package struct RepeatableText {
    /// The longest rest that is worth remembering, in bytes.
    package static let longestRest = 1024

    /// The request's id.
    package let id: Int
    /// Everything behind the id.
    package let rest: ArraySlice<UInt8>

    /// Divides the text of a frame; nil when it does not begin as most do. That it is well-formed is not said.
    package init?(_ text: ArraySlice<UInt8>) {
        guard text.count <= Self.longestRest,
            let (id, rest) = Self.number(in: text, behind: Self.compactGet)
                ?? Self.number(in: text, behind: Self.spacedGet),
            text[rest] == UInt8(ascii: ",")
        else { return nil }
        self.id = id
        self.rest = text[rest...]
    }

    /// Whether the rest may be remembered: it says nothing more of what an envelope has, so that with another id it means
    /// the same, and nothing that is better forgotten. It can only be asked of a text that was read without complaint.
    package var isPlain: Bool {
        // No escapes, and so no other spelling of a name.
        !rest.contains(UInt8(ascii: "\\"))
            && ["\"id\"", "\"type\"", "\"fds\"", "\"payload\"", "\"headers\"", "\"credentials\""].allSatisfy {
                !rest.contains(bytesOf: $0)
            }
    }

    /// The buffer of a `release` of a single one; nil when the text is anything else, or another spelling of it.
    package static func releasedBuffer(_ text: ArraySlice<UInt8>) -> Int? {
        guard let (number, rest) = number(in: text, behind: compactRelease) ?? number(in: text, behind: spacedRelease),
            number > 0, rest == text.endIndex - 1, text[rest] == UInt8(ascii: "}")
        else { return nil }
        return number
    }

    private static let compactGet = Array(#"{"type":"get","id":"#.utf8)
    private static let spacedGet = Array(#"{"type": "get", "id": "#.utf8)
    private static let compactRelease = Array(#"{"type":"release","buffer":"#.utf8)
    private static let spacedRelease = Array(#"{"type": "release", "buffer": "#.utf8)

    /// The number of up to 15 digits behind `beginning`, and where it ends; something must follow it.
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
        // Leading zeros are no JSON.
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

import IPCProtocol

/// The two messages of a hit in the shared tier as their texts: read and written without JSON, which would be a third of the time that
/// `imgtier` takes for the hit.
package enum TierTexts {
    // MARK: find

    private static let find: StaticString = "{\"type\":\"find\",\"job\":"
    private static let key: StaticString = ",\"key\":\""
    private static let token: StaticString = "\",\"token\":\""
    private static let end: StaticString = "\"}"

    /// Reads `find` as it is always written; nil for any other frame.
    package static func readFind(_ text: ArraySlice<UInt8>) -> (job: Int, key: String, token: String?)? {
        let text = text.span
        var reader = TextReader()
        guard reader.take(find, of: text), let job = reader.takeNumber(of: text), reader.take(key, of: text),
            let key = reader.takeString(of: text, isDigest: true)
        else { return nil }
        var token: String?
        if reader.take(Self.token, of: text) {
            token = reader.takeString(of: text)
            if token == nil { return nil }
        }
        guard reader.take(end, of: text), reader.isAtEnd(of: text) else { return nil }
        return (job, key, token)
    }

    // MARK: found-small

    private static let found: StaticString = "{\"type\":\"found-small\",\"job\":"
    private static let metadata: StaticString = ",\"metadata\":"

    /// Appends `foundSmall` as a frame to other frames. `content` is the metadata, of a length, and the contents.
    package static func appendFound(
        job: Int, metadata length: Int, content: UnsafeRawBufferPointer, to frames: inout [UInt8]
    ) {
        let start = frames.count
        frames.append(contentsOf: [0, 0, 0, 0])
        frames.append(found)
        frames.append(decimal: job)
        frames.append(metadata)
        frames.append(decimal: length)
        frames.append(UInt8(ascii: "}"))
        frames.append(0)
        unsafe frames.append(contentsOf: content)
        let count = UInt32(frames.count - start - Frame.headerLength)
        for place in 0..<4 { frames[start + place] = UInt8(truncatingIfNeeded: count >> (24 - 8 * place)) }
    }
}

/// Reads a text whose form is known.
private struct TextReader {
    private var position = 0

    func isAtEnd(of text: Span<UInt8>) -> Bool { position == text.count }

    /// Takes these characters if they come next.
    mutating func take(_ wanted: StaticString, of text: Span<UInt8>) -> Bool {
        let wanted = unsafe Span(_unsafeStart: wanted.utf8Start, count: wanted.utf8CodeUnitCount)
        guard position + wanted.count <= text.count else { return false }
        for index in wanted.indices where text[position + index] != wanted[index] { return false }
        position += wanted.count
        return true
    }

    /// Takes a number of at most 18 digits.
    mutating func takeNumber(of text: Span<UInt8>) -> Int? {
        let first = position
        var value = 0
        while position < text.count, text[position] &- UInt8(ascii: "0") < 10 {
            value = value * 10 + Int(text[position] - UInt8(ascii: "0"))
            position += 1
            if position - first > 18 { return nil }
        }
        let hasLeadingZero = position - first > 1 && text[first] == UInt8(ascii: "0")
        return position == first || hasLeadingZero ? nil : value
    }

    /// Takes the characters of a string up to its end; nil for a string that is not ASCII without escapes, or that is no digest
    /// although it must be.
    mutating func takeString(of text: Span<UInt8>, isDigest: Bool = false) -> String? {
        let first = position
        while position < text.count, text[position] != UInt8(ascii: "\"") {
            guard isDigest ? Self.isDigit(text[position]) : Self.isPlain(text[position]) else { return nil }
            position += 1
        }
        if isDigest, position - first != 64 { return nil }
        guard let characters = try? UTF8Span(validating: text.extracting(first..<position)) else { return nil }
        return String(copying: characters)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte &- UInt8(ascii: "0") < 10 || byte &- UInt8(ascii: "a") < 6
    }

    private static func isPlain(_ byte: UInt8) -> Bool { byte >= 0x20 && byte < 0x80 && byte != UInt8(ascii: "\\") }
}

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) {
        unsafe append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Appends the digits of a number that is not negative.
    fileprivate mutating func append(decimal value: Int) {
        if value >= 10 { append(decimal: value / 10) }
        append(UInt8(ascii: "0") + UInt8(value % 10))
    }
}

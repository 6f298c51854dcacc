/// A box of an ISO base media file (ISO/IEC 14496-12, section 4.2).
package struct Box: Equatable {
    /// The position of its type, four letters.
    package let type: Int
    package let content: Range<Int>

    package init(type: Int, content: Range<Int>) { (self.type, self.content) = (type, content) }

    /// Returns the range of a full box's content, without version and flags; nil if it has none.
    package var fields: Range<Int>? { content.count < 4 ? nil : content.lowerBound + 4..<content.upperBound }

    package func named(_ name: StaticString, in bytes: Span<UInt8>) -> Bool { bytes.hasText(name, at: type) }

    package func version(in bytes: Span<UInt8>) -> Int? {
        content.count < 4 ? nil : bytes.integer(at: content.lowerBound, bytes: 1, .big)
    }
}

/// Walks the boxes that follow one another in a range of a file.
package struct BoxCursor {
    private var rest: Range<Int>
    /// Whether the walk ended at bytes that are no complete box.
    package private(set) var isCut = false

    /// Creates a cursor at the beginning of `range`, which lies in the file.
    package init(_ range: Range<Int>) { rest = range }

    /// Returns the next box that lies in the range as a whole; nil after the last one.
    package mutating func next(_ bytes: Span<UInt8>) -> Box? {
        if rest.isEmpty { return nil }
        isCut = true
        guard rest.count >= 8, var size = bytes.integer(at: rest.lowerBound, bytes: 4, .big) else { return nil }
        var header = 8
        if size == 1 {
            // The size has 64 bits; larger ones than 56 bits exceed every file.
            guard rest.count >= 16, bytes[rest.lowerBound + 8] == 0,
                let long = bytes.integer(at: rest.lowerBound + 9, bytes: 7, .big)
            else { return nil }
            (size, header) = (long, 16)
        }
        guard size >= header, size <= rest.count else { return nil }
        isCut = false
        let end = rest.lowerBound + size
        defer { rest = end..<rest.upperBound }
        return Box(type: rest.lowerBound + 4, content: rest.lowerBound + header..<end)
    }

    package static func first(_ name: StaticString, in range: Range<Int>, of bytes: Span<UInt8>) -> Box? {
        var cursor = BoxCursor(range)
        while let box = cursor.next(bytes) { if box.named(name, in: bytes) { return box } }
        return nil
    }

    /// Returns the only box named `name` in `range`; nil unless exactly one exists.
    package static func only(_ name: StaticString, in range: Range<Int>, of bytes: Span<UInt8>) -> Box? {
        var cursor = BoxCursor(range)
        var found: Box?
        while let box = cursor.next(bytes) {
            guard box.named(name, in: bytes) else { continue }
            if found != nil { return nil }
            found = box
        }
        return found
    }
}

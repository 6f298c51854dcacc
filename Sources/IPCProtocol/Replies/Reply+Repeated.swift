internal import JSONCoding

// A repeated image reply: only the id is written again.
extension Reply {
    private static let beginning = Array(#"{"type":"image","id":"#.utf8)

    /// Returns the text after the id in the frame of an `image` with this description.
    package static func restOfImage(_ image: ImageReply) -> [UInt8] {
        let frame = Reply.image(id: 0, image).encoded()
        return Array(frame[(Frame.headerLength + beginning.count + 1)...])
    }

    /// Returns the frame of an `image` with `rest` after its id, in the memory of `storage`. Its bytes equal those of
    /// `encoded`.
    package static func imageFrame(id: Int, rest: [UInt8], reusing storage: consuming [UInt8] = []) -> [UInt8] {
        var writer = JSONWriter(prefix: [0, 0, 0, 0], reusing: consume storage)
        writer.append(beginning)
        writer.append(decimal: id)
        writer.append(rest)
        writer.overwrite(at: 0, with: UInt32(writer.bytes.count - Frame.headerLength))
        return writer.bytes
    }
}

internal import JSONCoding

// The same picture again: what was written once is not written anew, but for the id.
extension Reply {
    private static let beginning = Array(#"{"type":"image","id":"#.utf8)

    /// What the frame of an `image` with this description says behind its id.
    package static func restOfImage(_ image: ImageReply) -> [UInt8] {
        let frame = Reply.image(id: 0, image).encoded()
        return Array(frame[(Frame.headerLength + beginning.count + 1)...])
    }

    /// The frame of an `image` that says `rest` behind its id, in the memory of `storage`: byte for byte what `encoded`
    /// makes of it.
    package static func imageFrame(id: Int, rest: [UInt8], reusing storage: consuming [UInt8] = []) -> [UInt8] {
        var writer = JSONWriter(prefix: [0, 0, 0, 0], reusing: consume storage)
        writer.append(beginning)
        writer.append(decimal: id)
        writer.append(rest)
        writer.overwrite(at: 0, with: UInt32(writer.bytes.count - Frame.headerLength))
        return writer.bytes
    }
}

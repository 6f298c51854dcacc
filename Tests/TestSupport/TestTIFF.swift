/// TIFF structures of the lowest byte first, also of EXIF.
package enum TestTIFF {
    package typealias Entry = (tag: Int, type: Int, count: Int, value: Int)

    /// Returns a directory; `next` is the place of the one after it.
    package static func directory(_ entries: [Entry], next: Int = 0) -> [UInt8] {
        little(entries.count, 2)
            + entries.flatMap { little($0.tag, 2) + little($0.type, 2) + little($0.count, 4) + little($0.value, 4) }
            + little(next, 4)
    }

    /// Returns a header and the first directory.
    package static func file(_ entries: [Entry], next: Int = 0) -> [UInt8] {
        [0x49, 0x49, 42, 0] + little(8, 4) + directory(entries, next: next)
    }
}

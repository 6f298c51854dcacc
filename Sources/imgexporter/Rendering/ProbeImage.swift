internal import CZlib

/// A small image of one colour, and the pixels that decoding it gives.
struct ProbeImage: Equatable {
    static let side = 4

    let red: UInt8
    let green: UInt8
    let blue: UInt8

    /// The pixels as `rgba8`.
    var pixels: [UInt8] {
        Self.repeated([red, green, blue, 255], Self.side * Self.side)
    }

    var png: [UInt8] {
        let side = Self.bigEndian(UInt32(Self.side))
        // Each row begins with the filter "none".
        let row: [UInt8] = [0] + Self.repeated([red, green, blue], Self.side)
        let rows = Self.repeated(row, Self.side)
        let header: [UInt8] = side + side + [8, 2, 0, 0, 0]
        return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + Self.chunk("IHDR", header)
            + Self.chunk("IDAT", Self.stored(rows)) + Self.chunk("IEND", [])
    }

    private static func repeated(_ bytes: [UInt8], _ count: Int) -> [UInt8] {
        Array(repeatElement(bytes, count: count).joined())
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let content = Array(type.utf8) + data
        let checksum = unsafe content.withUnsafeBufferPointer { unsafe crc32(0, $0.baseAddress, uInt($0.count)) }
        return bigEndian(UInt32(data.count)) + content + bigEndian(UInt32(truncatingIfNeeded: checksum))
    }

    /// A zlib stream of one stored block.
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        let (low, high) = (UInt8(bytes.count & 0xFF), UInt8(bytes.count >> 8))
        let checksum = unsafe bytes.withUnsafeBufferPointer { unsafe adler32(1, $0.baseAddress, uInt($0.count)) }
        return [0x78, 0x01, 0x01, low, high, ~low, ~high] + bytes + bigEndian(UInt32(truncatingIfNeeded: checksum))
    }

    private static func bigEndian(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }
    }
}

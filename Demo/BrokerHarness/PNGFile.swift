/// PNG files without compression, written without a codec (PNG, third edition).
public struct PNGFile {
    /// The type and data of each chunk, in order, without IEND.
    package var chunks: [(type: String, data: [UInt8])]

    /// A file whose pixels are `rows`: for each row a filter byte 0, then its samples.
    package init(width: Int, height: Int, depth: UInt8, colorType: UInt8, rows: [UInt8]) {
        let header = Self.number(width, bytes: 4) + Self.number(height, bytes: 4) + [depth, colorType, 0, 0, 0]
        chunks = [("IHDR", header), ("IDAT", Self.zlibStream(rows))]
    }

    /// A file of pixels of four bytes: red, green, blue and straight alpha.
    package init(rgba bytes: [UInt8], width: Int, height: Int) {
        var rows: [UInt8] = []
        rows.reserveCapacity(height * (width * 4 + 1))
        for row in 0..<height {
            rows.append(0)
            rows += bytes[row * width * 4..<(row + 1) * width * 4]
        }
        self.init(width: width, height: height, depth: 8, colorType: 6, rows: rows)
    }

    /// A checkerboard of one bit a pixel: a small file that decodes to many bytes.
    public static func checkers(width: Int, height: Int) -> [UInt8] {
        let rowBytes = (width + 7) / 8
        let rows = (0..<height).flatMap { row in
            [0] + [UInt8](repeating: row % 16 < 8 ? 0xF0 : 0x0F, count: rowBytes)
        }
        return PNGFile(width: width, height: height, depth: 1, colorType: 0, rows: rows).bytes
    }

    /// The bytes of the file.
    package var bytes: [UInt8] {
        let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        return (chunks + [("IEND", [])]).reduce(into: signature) { $0 += Self.chunk($1.type, $1.data) }
    }

    /// A chunk with its length and checksum.
    package static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let body = Array(type.utf8) + data
        return number(data.count, bytes: 4) + body + number(Int(crc(body)), bytes: 4)
    }

    /// `bytes` as stored blocks (RFC 1951, section 3.2.4) in a zlib stream (RFC 1950).
    package static func zlibStream(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = [0x78, 0x01]
        stream.reserveCapacity(bytes.count + bytes.count / 8192 + 16)
        var start = 0
        repeat {
            let count = min(65_535, bytes.count - start)
            let (low, high) = (UInt8(count & 255), UInt8(count >> 8))
            stream += [start + count == bytes.count ? 1 : 0, low, high, ~low, ~high]
            stream += bytes[start..<start + count]
            start += count
        } while start < bytes.count
        // Adler-32.
        var (a, b): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            a = (a + UInt32(byte)) % 65_521
            b = (b + a) % 65_521
        }
        return stream + number(Int(b << 16 | a), bytes: 4)
    }

    /// The lowest `count` bytes of `value` in network byte order.
    package static func number(_ value: Int, bytes count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
    }

    private static let crcTable: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ value >> 1 : value >> 1 }
    }

    private static func crc(_ bytes: [UInt8]) -> UInt32 {
        let table = crcTable
        return ~bytes.reduce(~UInt32(0)) { table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] ^ $0 >> 8 }
    }
}

extension PNGFile {
    /// An animation of frames of one size, each shown for its number of milliseconds, that loops forever.
    package static func animation(_ frames: [(file: PNGFile, delayMs: Int)]) -> PNGFile {
        var animation = frames[0].file
        let size = animation.chunks[0].data.prefix(8)
        animation.chunks = [animation.chunks[0], ("acTL", number(frames.count, bytes: 4) + number(0, bytes: 4))]
        var sequence = 0
        for (index, frame) in frames.enumerated() {
            // At the origin; the delay as a fraction; neither disposal nor blending.
            let timing = number(frame.delayMs, bytes: 2) + number(1000, bytes: 2) + [0, 0]
            animation.chunks.append(
                ("fcTL", number(sequence, bytes: 4) + size + number(0, bytes: 8) + timing))
            let pixels = frame.file.chunks[1].data
            animation.chunks.append(index == 0 ? ("IDAT", pixels) : ("fdAT", number(sequence + 1, bytes: 4) + pixels))
            sequence += index == 0 ? 1 : 2
        }
        return animation
    }
}

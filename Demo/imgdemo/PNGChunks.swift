import CZlib

/// A PNG file as its chunks (PNG, third edition, section 5), so that the demonstration can put together what encoders do
/// not write.
struct PNGChunks {
    struct Chunk {
        let type: String
        let data: [UInt8]
    }

    var chunks: [Chunk] = []

    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    /// Divides a file that an encoder has just written.
    init(_ file: [UInt8]) {
        var rest = file.dropFirst(Self.signature.count)
        while rest.count >= 12 {
            let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            guard rest.count >= 12 + length else { return }
            let type = String(decoding: rest.dropFirst(4).prefix(4), as: UTF8.self)
            chunks.append(Chunk(type: type, data: Array(rest.dropFirst(8).prefix(length))))
            rest = rest.dropFirst(12 + length)
        }
    }

    /// The file.
    var file: [UInt8] {
        chunks.reduce(into: Self.signature) { file, chunk in
            let body = Array(chunk.type.utf8) + chunk.data
            let checksum = unsafe crc32(0, body, UInt32(body.count))
            file += number(chunk.data.count, bytes: 4) + body + number(Int(checksum), bytes: 4)
        }
    }

    /// The data of all chunks of one type.
    func data(of type: String) -> [UInt8] {
        chunks.filter { $0.type == type }.flatMap(\.data)
    }

    /// Puts a chunk right behind the header.
    mutating func insert(_ type: String, _ data: [UInt8]) {
        chunks.insert(Chunk(type: type, data: data), at: 1)
    }

    /// Puts an ICC profile behind the header.
    mutating func insert(profile: [UInt8], named name: String) {
        var length = compressBound(UInt(profile.count))
        var stream = [UInt8](repeating: 0, count: Int(length))
        _ = unsafe compress(&stream, &length, profile, UInt(profile.count))
        insert("iCCP", Array(name.utf8) + [0, 0] + stream.prefix(Int(length)))
    }

    /// An animation of pictures of one size that is shown for ever, each for so many milliseconds.
    static func animation(_ frames: [(file: [UInt8], delayMs: Int)]) -> [UInt8] {
        var whole = PNGChunks(frames[0].file)
        whole.chunks.removeAll { $0.type == "IDAT" || $0.type == "IEND" }
        let size = Array(whole.data(of: "IHDR").prefix(8))
        whole.insert("acTL", number(frames.count, bytes: 4) + number(0, bytes: 4))
        var sequence = 0
        func next() -> [UInt8] {
            defer { sequence += 1 }
            return number(sequence, bytes: 4)
        }
        for (index, frame) in frames.enumerated() {
            // At the corner; the delay as a fraction; nothing to dispose of, nothing to blend with.
            let place = number(0, bytes: 8) + number(frame.delayMs, bytes: 2) + number(1000, bytes: 2) + [0, 0]
            whole.chunks.append(Chunk(type: "fcTL", data: next() + size + place))
            let pixels = PNGChunks(frame.file).data(of: "IDAT")
            whole.chunks.append(
                index == 0 ? Chunk(type: "IDAT", data: pixels) : Chunk(type: "fdAT", data: next() + pixels))
        }
        whole.chunks.append(Chunk(type: "IEND", data: []))
        return whole.file
    }
}

/// A number as files have it that begin with its highest byte.
func number(_ value: Int, bytes count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
}

/// Changes boxes of an ISO base media file (ISO/IEC 14496-12) whose samples follow its structure.
package enum TestBoxes {
    package static func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
        number(content.count + 8) + Array(type.utf8) + content
    }

    /// Returns a full box of version 0 without flags.
    package static func full(_ type: String, version: UInt8 = 0, flags: UInt8 = 0, _ content: [UInt8]) -> [UInt8] {
        box(type, [version, 0, 0, flags] + content)
    }

    /// Returns a number of four bytes.
    package static func number(_ value: Int) -> [UInt8] { big(value, 4) }

    /// Reads a number of four bytes.
    package static func number(_ bytes: some Collection<UInt8>) -> Int {
        bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    }

    /// Returns `file` with changed boxes: `change` returns the bytes to replace the box of a type, with its content;
    /// nil to keep it. The places of samples are corrected.
    package static func changing(
        _ file: [UInt8], _ change: (_ type: String, _ content: [UInt8]) -> [UInt8]?
    ) -> [UInt8] {
        let changed = walk(file, change)
        let moved = changed.count - file.count
        return walk(changed) { type, content in
            guard type == "stco" else { return nil }
            let places = stride(from: 8, to: content.count, by: 4).flatMap { number(number(content[$0...]) + moved) }
            return box(type, Array(content[..<8]) + places)
        }
    }

    /// Returns `file` with another size in each box of the type ispe.
    package static func declaring(_ width: Int, _ height: Int, in file: [UInt8]) -> [UInt8] {
        var bytes = file
        for place in file.indices.dropLast(16) where file[place..<place + 8].elementsEqual("ispe\0\0\0\0".utf8) {
            bytes.replaceSubrange(place + 8..<place + 16, with: number(width) + number(height))
        }
        return bytes
    }

    private static let containers: Set = ["moov", "trak", "mdia", "minf", "stbl"]

    private static func walk(_ bytes: [UInt8], _ change: (String, [UInt8]) -> [UInt8]?) -> [UInt8] {
        var (result, position) = ([UInt8](), 0)
        while position + 8 <= bytes.count {
            let end = min(bytes.count, position + max(8, number(bytes[position...])))
            let type = String(decoding: bytes[position + 4..<position + 8], as: UTF8.self)
            let content = Array(bytes[position + 8..<end])
            if let replaced = change(type, content) {
                result += replaced
            } else if containers.contains(type) {
                result += box(type, walk(content, change))
            } else {
                result += bytes[position..<end]
            }
            position = end
        }
        return result
    }
}

/// Changes boxes of an ISO base media file (ISO/IEC 14496-12) whose samples follow its structure.
package enum TestBoxes {
    package static func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
        big(content.count + 8, 4) + Array(type.utf8) + content
    }

    /// Returns a full box of version 0 without flags.
    package static func full(_ type: String, version: UInt8 = 0, flags: UInt8 = 0, _ content: [UInt8]) -> [UInt8] {
        box(type, [version, 0, 0, flags] + content)
    }

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
            let places = stride(from: 8, to: content.count, by: 4).flatMap { big(number(content[$0...]) + moved, 4) }
            return box(type, Array(content[..<8]) + places)
        }
    }

    /// Returns `file` with another size in each box of the type ispe.
    package static func declaring(_ width: Int, _ height: Int, in file: [UInt8]) -> [UInt8] {
        var bytes = file
        for place in file.indices.dropLast(16) where file[place..<place + 8].elementsEqual("ispe\0\0\0\0".utf8) {
            bytes.replaceSubrange(place + 8..<place + 16, with: big(width, 4) + big(height, 4))
        }
        return bytes
    }

    /// The boxes that consist of others, with the number of bytes before these.
    private static let containers = ["moov": 0, "trak": 0, "mdia": 0, "minf": 0, "stbl": 0, "meta": 4, "iprp": 0]

    private static func walk(_ bytes: [UInt8], _ change: (String, [UInt8]) -> [UInt8]?) -> [UInt8] {
        var (result, position) = ([UInt8](), 0)
        while position + 8 <= bytes.count {
            let end = min(bytes.count, position + max(8, number(bytes[position...])))
            let type = String(decoding: bytes[position + 4..<position + 8], as: UTF8.self)
            let content = Array(bytes[position + 8..<end])
            if let replaced = change(type, content) {
                result += replaced
            } else if let start = containers[type], start <= content.count {
                result += box(type, content[..<start] + walk(Array(content[start...]), change))
            } else {
                result += bytes[position..<end]
            }
            position = end
        }
        return result
    }
}

/// A file of items (ISO/IEC 14496-12, section 8.11; ISO/IEC 23008-12), of which the first is shown. Items are numbered
/// from 1.
package struct TestItems {
    /// The types of the items, their data and their properties: places in `properties` from 1, with 0x80 if essential.
    package var items: [(type: String, data: [UInt8], properties: [UInt8])]
    package var properties: [[UInt8]]
    package var references: [(type: String, item: Int, targets: [Int])]
    /// The bytes of an item's identifier in references and properties.
    package var idSize = 2
    package var order = ["pitm", "iloc", "iinf", "iref", "iprp"]

    package init(
        _ items: [(type: String, data: [UInt8], properties: [UInt8])], properties: [[UInt8]],
        references: [(type: String, item: Int, targets: [Int])]
    ) { (self.items, self.properties, self.references) = (items, properties, references) }

    /// Returns the data of an item that is a grid of others.
    package static func grid(columns: Int, rows: Int, _ width: Int, _ height: Int) -> [UInt8] {
        [0, 0, UInt8(rows - 1), UInt8(columns - 1)] + big(width, 2) + big(height, 2)
    }

    package static func size(_ width: Int, _ height: Int) -> [UInt8] {
        TestBoxes.full("ispe", big(width, 4) + big(height, 4))
    }

    /// Returns the file, whose type box has the content `brands`.
    package func file(_ brands: String) -> [UInt8] {
        let type = TestBoxes.box("ftyp", Array(brands.utf8))
        let start = type.count + structure(at: 0).count + 8
        return type + structure(at: start) + TestBoxes.box("mdat", items.flatMap(\.data))
    }

    private func structure(at start: Int) -> [UInt8] {
        func id(_ item: Int) -> [UInt8] { big(item, idSize) }
        let version: UInt8 = idSize == 4 ? 1 : 0
        var (position, places, types, links) = (start, big(items.count, 2), big(items.count, 2), big(items.count, 4))
        for (index, item) in items.enumerated() {
            places += big(index + 1, 2) + [0, 0] + big(1, 2) + big(position, 4) + big(item.data.count, 4)
            position += item.data.count
            types += TestBoxes.full("infe", version: 2, big(index + 1, 2) + [0, 0] + Array(item.type.utf8) + [0])
            links += id(index + 1) + [UInt8(item.properties.count)] + item.properties
        }
        let uses = references.flatMap {
            TestBoxes.box($0.type, id($0.item) + big($0.targets.count, 2) + $0.targets.flatMap(id))
        }
        let described =
            TestBoxes.box("ipco", properties.flatMap(\.self)) + TestBoxes.full("ipma", version: version, links)
        let boxes = [
            "pitm": TestBoxes.full("pitm", big(1, 2)), "iloc": TestBoxes.full("iloc", [0x44, 0] + places),
            "iinf": TestBoxes.full("iinf", types), "iref": TestBoxes.full("iref", version: version, uses),
            "iprp": TestBoxes.box("iprp", described),
        ]
        let handler = TestBoxes.full("hdlr", zeros(4) + Array("pict".utf8) + zeros(13))
        return TestBoxes.full("meta", handler + order.flatMap { boxes[$0] ?? [] })
    }
}

/// A codestream of JPEG 2000 (ISO/IEC 15444-1, annex A) whose packets are empty, so that few bytes have any number of
/// samples, all of them in the middle of their range.
package struct TestJ2K {
    package var width, height: Int
    package var components = 1
    /// The byte with depth and sign.
    package var depth = 7
    package var tile: (width: Int, height: Int)?
    package var levels = 0
    package var layers = 1
    /// The exponent of the sides of code-blocks.
    package var block = 6
    /// The exponents of the sides of precincts, for each resolution.
    package var precinct: UInt8?
    /// Bytes between the main header's segments and the tiles.
    package var segments: [UInt8] = []
    /// The number of tiles that are present; nil for all.
    package var tiles: Int?

    package init(_ width: Int, _ height: Int, _ change: (inout TestJ2K) -> Void = { _ in }) {
        (self.width, self.height) = (width, height)
        change(&self)
    }

    package var file: [UInt8] {
        let (across, down) = (tile?.width ?? width, tile?.height ?? height)
        var size = zeros(2) + big(width, 4) + big(height, 4) + zeros(8) + big(across, 4) + big(down, 4) + zeros(8)
        size += big(components, 2)
        for _ in 0..<components { size += [UInt8(depth), 1, 1] }
        var style: [UInt8] = [precinct == nil ? 0 : 1, 0] + big(layers, 2) + [0, UInt8(levels)]
        style += [UInt8(block - 2), UInt8(block - 2), 0, 1]
        if let precinct { style += [UInt8](repeating: precinct, count: levels + 1) }
        let steps = [0x40] + [UInt8](repeating: 0x40, count: 3 * levels + 1)
        var file: [UInt8] = [0xFF, 0x4F] + Self.segment(0x51, size) + Self.segment(0x52, style)
        file += Self.segment(0x5C, steps) + segments
        let packets = zeros(min(100, layers * (levels + 1) * components))
        let count = ((width + across - 1) / across) * ((height + down - 1) / down)
        for index in 0..<min(count, tiles ?? count) {
            file += Self.segment(0x90, big(index, 2) + big(14 + packets.count, 4) + [0, 1]) + [0xFF, 0x93] + packets
        }
        return file + [0xFF, 0xD9]
    }

    package static func segment(_ marker: UInt8, _ content: [UInt8]) -> [UInt8] {
        [0xFF, marker] + big(content.count + 2, 2) + content
    }
}

/// A JP2 file (ISO/IEC 15444-1, annex I).
package struct TestJP2 {
    /// The major brand and the compatible ones.
    package var brands = ["jp2 ", "jp2 "]
    /// Boxes of the header behind the first.
    package var header: [[UInt8]] = []
    package var codestream: [UInt8]

    /// Creates a file with these boxes besides the first of the header.
    package init(_ codestream: [UInt8], _ header: [UInt8]...) { (self.codestream, self.header) = (codestream, header) }

    package var file: [UInt8] {
        // Of the size, only that of the codestream counts.
        let first = TestBoxes.box("ihdr", big(1, 4) + big(1, 4) + [0, 1, 255, 7, 0, 0])
        let type = Array(brands[0].utf8) + zeros(4) + brands.dropFirst().flatMap { Array($0.utf8) }
        return TestBoxes.box("jP  ", [0x0D, 0x0A, 0x87, 0x0A]) + TestBoxes.box("ftyp", type)
            + TestBoxes.box("jp2h", first + header.flatMap(\.self)) + TestBoxes.box("jp2c", codestream)
    }

    /// Returns a box with the number of a colour space.
    package static func colors(_ number: Int) -> [UInt8] {
        TestBoxes.box("colr", [1, 0, 0] + big(number, 4))
    }

    /// Returns a box with a profile.
    package static func profile(_ profile: [UInt8]) -> [UInt8] { TestBoxes.box("colr", [2, 0, 0] + profile) }

    /// Returns a palette of eight bits.
    package static func palette(_ entries: [[UInt8]]) -> [UInt8] {
        let columns = entries[0].count
        return TestBoxes.box(
            "pclr",
            big(entries.count, 2) + [UInt8(columns)] + [UInt8](repeating: 7, count: columns) + entries.flatMap(\.self))
    }

    /// Returns the map of channels: columns of the palette for the first component.
    package static func map(_ columns: [UInt8]) -> [UInt8] {
        TestBoxes.box("cmap", columns.flatMap { [0, 0, 1, $0] })
    }

    /// Returns definitions of channels: kind and association of each.
    package static func definitions(_ channels: [(kind: UInt8, association: UInt8)]) -> [UInt8] {
        let entries = channels.enumerated().flatMap { index, channel -> [UInt8] in
            [0, UInt8(index), 0, channel.kind, 0, channel.association]
        }
        return TestBoxes.box("cdef", [0, UInt8(channels.count)] + entries)
    }
}

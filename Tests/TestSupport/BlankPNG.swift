extension TestPNG {
    /// A black image of any size in a small file, so that decoding takes long and downloading does not.
    package static func blank(width: Int, height: Int) -> [UInt8] {
        var png = TestPNG(width: 1, height: 1, kind: .gray, depth: 1) { _, _ in [0] }
        png.declare(width, height)
        png.data = deflated(0, height * (1 + (width + 7) / 8))
        return png.file
    }

    /// Changes the size in the header alone.
    package mutating func declare(_ width: Int, _ height: Int) {
        header.replaceSubrange(0..<8, with: big(width, 4) + big(height, 4))
    }

    /// Returns `count` times `byte` (below 144) as a zlib stream of a thousandth of that size: deflate's longest
    /// matches (RFC 1951, sections 3.2.5 and 3.2.6).
    package static func deflated(_ byte: Int, _ count: Int) -> [UInt8] {
        var bits = BitWriter()
        bits.put(0b011, 3)
        bits.put(code: 0x30 + byte, 8)
        let (runs, rest) = max(0, count - 1).quotientAndRemainder(dividingBy: 258)
        // A length of 258 and a distance of 1.
        for _ in 0..<runs { bits.put(0b1010_0011, 13) }
        for _ in 0..<rest { bits.put(code: 0x30 + byte, 8) }
        bits.put(code: 0, 7)
        let (a, b) = ((1 + byte * count) % 65_521, (count + byte * (count * (count + 1) / 2 % 65_521)) % 65_521)
        return [0x78, 0x01] + bits.filled + big(b << 16 | a, 4)
    }
}

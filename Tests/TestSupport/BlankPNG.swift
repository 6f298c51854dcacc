extension TestPNG {
    /// A black image of any size in a small file, so that decoding takes long and downloading does not: the rows are
    /// one zero repeated by deflate's longest matches (RFC 1951, section 3.2.5).
    package static func blank(width: Int, height: Int) -> [UInt8] {
        var png = TestPNG(width: 1, height: 1, kind: .gray, depth: 1) { _, _ in [0] }
        png.header.replaceSubrange(0..<8, with: big(width, 4) + big(height, 4))
        png.data = deflatedZeros(height * (1 + (width + 7) / 8))
        return png.file
    }

    private static func deflatedZeros(_ count: Int) -> [UInt8] {
        var writer = BitWriter()
        // Huffman codes are stored with their highest bit first.
        func literalZero() { writer.put(0b0000_1100, 8) }
        writer.put(0b011, 3)
        literalZero()
        var left = count - 1
        while left >= 258 {
            writer.put(0b1010_0011, 8)
            writer.put(0, 5)
            left -= 258
        }
        while left > 0 {
            literalZero()
            left -= 1
        }
        writer.put(0, 7)
        return [0x78, 0x01] + writer.filled + big(count % 65_521, 2) + [0, 1]
    }
}

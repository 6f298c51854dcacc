extension TestPNG {
    /// A black image of any size in a small file, slow to decode and fast to download: the rows are one zero, repeated by
    /// the longest matches of deflate (RFC 1951, section 3.2.5).
    package static func blank(width: Int, height: Int) -> [UInt8] {
        var png = TestPNG(width: 1, height: 1, kind: .gray, depth: 1) { _, _ in [0] }
        let sizes = [width, height].flatMap { side in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: side >> $0) } }
        png.header.replaceSubrange(0..<8, with: sizes)
        png.data = deflatedZeros(height * (1 + (width + 7) / 8))
        return png.file
    }

    private static func deflatedZeros(_ count: Int) -> [UInt8] {
        var stream: [UInt8] = [0x78, 0x01]
        var (bits, bitCount) = (0, 0)
        func put(_ value: Int, _ length: Int) {
            bits |= value << bitCount
            bitCount += length
            while bitCount >= 8 {
                stream.append(UInt8(truncatingIfNeeded: bits))
                bits >>= 8
                bitCount -= 8
            }
        }
        // Huffman codes are written with the most significant bit first.
        func literalZero() { put(0b0000_1100, 8) }
        put(0b011, 3)
        literalZero()
        var left = count - 1
        while left >= 258 {
            put(0b1010_0011, 8)
            put(0, 5)
            left -= 258
        }
        while left > 0 {
            literalZero()
            left -= 1
        }
        put(0, 7)
        if bitCount > 0 { put(0, 8 - bitCount) }
        let sum = count % 65_521
        return stream + [UInt8(sum >> 8), UInt8(sum & 0xFF), 0, 1]
    }
}

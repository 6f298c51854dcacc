import TestSupport
import Testing

struct GIFTests {
    /// An image without any colour table shows its indices as gray levels, as Pillow does.
    @Test(arguments: [false, true]) func withoutColors(isTransparent: Bool) throws {
        let header: [UInt8] = Array("GIF89a".utf8) + [4, 0, 1, 0, 0x70, 0, 0]
        // Index 2 is transparent.
        let control: [UInt8] = isTransparent ? [0x21, 0xF9, 4, 1, 0, 0, 2, 0] : []
        // Codes of three bits: clear, 0, 1, clear, 2, 3, end.
        let image: [UInt8] = [0x2C, 0, 0, 0, 0, 4, 0, 1, 0, 0, 2, 3, 0x44, 0xA8, 0x15, 0, 0x3B]
        let shown = try decode(header + control + image)
        #expect(
            (0..<4).map { shown[$0, 0] }
                == [0, 1, 2, 3].map { level in
                    level == 2 && isTransparent ? SIMD4(0, 0, 0, 0) : SIMD4(level, level, level, 255)
                })
    }
}

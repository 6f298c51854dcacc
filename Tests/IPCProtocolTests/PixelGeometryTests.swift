import IPCProtocol
import Testing

struct PixelGeometryTests {
    @Test(arguments: [(1, 1), (65_535, 1), (1, 65_535), (65_535, 65_535), (1920, 1080)])
    func sidesWithinTheBounds(width: Int, height: Int) throws {
        let geometry = try #require(PixelGeometry(width: width, height: height))
        #expect(geometry.stride == width * 4)
        #expect(geometry.pixels == width * height)
        #expect(geometry.bytes == width * height * 4)
    }

    @Test(arguments: [0, -1, 65_536, Int.max, Int.min])
    func sidesOutsideOfTheBounds(side: Int) {
        #expect(PixelGeometry(width: side, height: 1) == nil)
        #expect(PixelGeometry(width: 1, height: side) == nil)
        #expect(PixelGeometry(width: side, height: side) == nil)
    }

    @Test func formatsAreToldByTheirFirstBytes() {
        let jpeg: [UInt8] = [0xFF, 0xD8, 0xFF, 0xE0]
        let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0]
        let webp = Array("RIFF\u{1}\u{2}\u{3}\u{4}WEBPVP8 ".utf8)
        #expect(ImageFormat(sniffing: jpeg) == .jpeg)
        #expect(ImageFormat(sniffing: png) == .png)
        #expect(ImageFormat(sniffing: webp) == .webp)
        #expect(ImageFormat(sniffing: Array("GIF89a".utf8)) == .gif)
        #expect(ImageFormat(sniffing: Array("GIF87a".utf8)) == .gif)
        #expect(ImageFormat(sniffing: [0, 0, 0, 32] + Array("ftypavif".utf8)) == .avif)
        #expect(ImageFormat(sniffing: [0, 0, 0, 32] + Array("ftypavis".utf8)) == .avif)
        // Brands that name a structure alone leave it to the others, if there are any.
        let open: [UInt8] = [0, 0, 0, 24] + Array("ftypmif1\0\0\0\0".utf8)
        #expect(ImageFormat(sniffing: open + Array("miafavif".utf8)) == .avif)
        #expect(ImageFormat(sniffing: open + Array("miafheic".utf8)) == .heif)
        // Behind the end of the box.
        #expect(ImageFormat(sniffing: [0, 0, 0, 20] + open[4...] + Array("miafavif".utf8)) == .heif)
        #expect(ImageFormat(sniffing: [0, 0, 0, 24] + Array("ftypheic\0\0\0\0mif1avif".utf8)) == .heif)
        #expect(ImageFormat(sniffing: Array("BM".utf8)) == nil)
        for bytes in [[], Array(jpeg.prefix(2)), Array(png.prefix(7)), Array(webp.prefix(11)), Array("GIF88a".utf8)] {
            #expect(ImageFormat(sniffing: bytes) == nil)
        }
        // A slice counts from its own beginning.
        #expect(ImageFormat(sniffing: ([0, 0, 0] + webp)[3...]) == .webp)
    }
}

import IPCProtocol
import TestSupport
import Testing

@testable import ImageDecoding
@testable import imgworker

/// Compares every pixel, because PNG is lossless.
@Suite struct PNGTests {
    struct Variation: CustomTestStringConvertible {
        let kind: TestPNG.Kind
        let depth: Int
        let interlaced: Bool

        var testDescription: String { "\(kind) \(depth) bits\(interlaced ? " interlaced" : "")" }

        static let all = TestPNG.Kind.allCases.flatMap { kind in
            kind.depths.flatMap { depth in
                [false, true].map { Variation(kind: kind, depth: depth, interlaced: $0) }
            }
        }
    }

    /// Samples that are not multiples of 257, to test the rounding of 16 bits.
    static func sample(_ x: Int, _ y: Int, _ channel: Int, _ depth: Int) -> Int {
        (x * 7919 + y * 104_729 + channel * 1_299_709) % (1 << depth)
    }

    /// Returns a sample rounded to 8 bits.
    static func eightBits(_ value: Int, _ depth: Int) -> UInt8 {
        let most = (1 << depth) - 1
        return UInt8((value * 255 + most / 2) / most)
    }

    @Test(arguments: Variation.all) func everyKindAndDepthIsExact(_ variation: Variation) throws {
        let (width, height, depth) = (37, 21, variation.depth)
        let channels: [TestPNG.Kind: Int] = [.gray: 1, .rgb: 3, .palette: 1, .grayAlpha: 2, .rgba: 4]
        var png = TestPNG(
            width: width, height: height, kind: variation.kind, depth: depth, interlaced: variation.interlaced
        ) { x, y in
            (0..<channels[variation.kind]!).map { Self.sample(x, y, $0, depth) }
        }
        let colors = (0..<(1 << min(depth, 8))).map { (index: Int) -> [UInt8] in
            [UInt8(index), UInt8(255 - index), UInt8(index / 2)]
        }
        if variation.kind == .palette { png.setPalette(colors, alpha: [0, 128]) }
        let expected = TestPicture(width: width, height: height) { (x, y) -> SIMD4<UInt8> in
            let value = { (channel: Int) -> UInt8 in
                Self.eightBits(Self.sample(x, y, channel, depth), depth)
            }
            switch variation.kind {
            case .gray: return SIMD4(value(0), value(0), value(0), 255)
            case .rgb: return SIMD4(value(0), value(1), value(2), 255)
            case .grayAlpha: return SIMD4(value(0), value(0), value(0), value(1))
            case .rgba: return SIMD4(value(0), value(1), value(2), value(3))
            case .palette:
                let index: Int = Self.sample(x, y, 0, depth)
                let color: [UInt8] = colors[index]
                let alpha: [UInt8] = [0, 128, 255]
                return SIMD4(color[0], color[1], color[2], alpha[min(index, 2)])
            }
        }
        #expect(try decode(png.file) == expected)
        #expect(try decode(png.file, .bgra8) == expected.bgra)
        #expect(try decode(png.file, .rgba8, .premultiplied) == expected.premultiplied)
    }

    @Test(arguments: [8, 16]) func transparentColour(depth: Int) throws {
        var gray = TestPNG(width: 4, height: 3, kind: .gray, depth: depth) { x, y in [x + y] }
        gray.before.append(TestPNG.chunk("tRNS", [0, 2]))
        var rgb = TestPNG(width: 4, height: 3, kind: .rgb, depth: depth) { x, y in [x, y, 7] }
        rgb.before.append(TestPNG.chunk("tRNS", [0, 1, 0, 2, 0, 7]))
        let (grayPicture, rgbPicture) = (try decode(gray.file), try decode(rgb.file))
        for y in 0..<3 {
            for x in 0..<4 {
                #expect(grayPicture[x, y].w == (x + y == 2 ? 0 : 255))
                #expect(rgbPicture[x, y].w == (x == 1 && y == 2 ? 0 : 255))
            }
        }
    }

    @Test(arguments: [1, 2, 3, 5, 8, 9]) func smallInterlacedImages(side: Int) throws {
        let picture = TestPicture.gradient(width: side, height: side + 1, transparent: true)
        let png = TestPNG(width: side, height: side + 1, kind: .rgba, depth: 8, interlaced: true) { x, y in
            let pixel = picture[x, y]
            return [Int(pixel.x), Int(pixel.y), Int(pixel.z), Int(pixel.w)]
        }
        #expect(try decode(png.file) == picture)
    }

    @Test func gammaChangesNothing() throws {
        var png = TestPNG(width: 3, height: 3, kind: .gray, depth: 8) { x, y in [x * 90 + y] }
        let plain = try decode(png.file)
        png.before.append(TestPNG.chunk("gAMA", [0, 1, 0x86, 0xA0]))
        #expect(try decode(png.file) == plain)
    }

    @Test func missingEndIsAccepted() throws {
        let picture = TestPicture.gradient(width: 30, height: 20)
        let file = picture.png
        // Without IEND, and without the CRC before it.
        for cut in [1, 12, 13, 16] { #expect(try decode(Array(file.dropLast(cut))) == picture) }
    }

    @Test func completeDataOfFewerRowsAreTruncated() {
        var png = TestPNG(width: 30, height: 20, kind: .gray, depth: 8) { x, _ in [x] }
        let shorter = TestPNG(width: 30, height: 10, kind: .gray, depth: 8) { x, _ in [x] }
        png.data = shorter.data
        #expect(failure(png.file) == .truncated)
        png.data = Array(png.data.prefix(100))
        #expect(failure(png.file) == .truncated)
    }

    @Test func wrongChecksumIsDamage() {
        var file = TestPicture.gradient(width: 30, height: 20).png
        file[file.count - 16] ^= 1
        #expect(failure(file) == .decodeFailed)
    }

    @Test func dimensionsAreCheckedFirst() {
        func forged(_ width: [UInt8], _ height: [UInt8]) -> [UInt8] {
            var png = TestPNG(width: 1, height: 1, kind: .gray, depth: 8) { _, _ in [0] }
            png.header.replaceSubrange(0..<8, with: width + height)
            return png.file
        }
        #expect(failure(forged([0, 0, 0xFF, 0xFF], [0, 0, 0xFF, 0xFF])) == .tooManyPixels)
        #expect(failure(forged([0, 1, 0, 0], [0, 0, 0, 1])) == .tooManyPixels)
        #expect(failure(forged([0x7F, 0xFF, 0xFF, 0xFF], [0x7F, 0xFF, 0xFF, 0xFF])) == .tooManyPixels)
        #expect(failure(forged([0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 1])) == .tooManyPixels)
        #expect(failure(forged([0, 0, 0, 0], [0, 0, 0, 1])) == .emptyImage)
        #expect(failure(TestPicture.gradient(width: 10, height: 10).png, maxPixels: 99) == .tooManyPixels)
        #expect(failure(TestPicture.gradient(width: 10, height: 10).png, maxPixels: 100) == nil)
    }
}

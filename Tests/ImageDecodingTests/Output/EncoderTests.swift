import IPCProtocol
import TestSupport
import Testing

@testable import ImageDecoding
@testable import imgworker

@Suite struct EncoderTests {
    /// Encodes `picture`, whose bytes are stored as `pixelFormat` and `alpha` say.
    private func encode(
        _ picture: TestPicture, _ format: Encoding.Format, _ pixelFormat: PixelFormat, _ alpha: AlphaMode
    ) throws -> [UInt8] {
        try picture.encodedByWorker(Encoding(format, quality: 95), pixelFormat, alpha)
    }

    @Test func pngKeepsEveryPixel() throws {
        // Several bands and several steps of output.
        let picture = TestPicture.gradient(width: 700, height: 300, transparent: true)
        #expect(try decode(encode(picture, .png, .rgba8, .straight)) == picture)
        #expect(try decode(encode(picture.bgra, .png, .bgra8, .straight)) == picture)
        let premultiplied = picture.premultiplied
        let file = try encode(premultiplied, .png, .rgba8, .premultiplied)
        #expect(try decode(file, .rgba8, .premultiplied) == premultiplied)
    }

    @Test func jpegIsBlendedOverWhite() throws {
        let picture = TestPicture(width: 64, height: 32) { x, _ in SIMD4(200, 0, 0, x < 32 ? 0 : 255) }
        for (bytes, format) in [(picture, PixelFormat.rgba8), (picture.bgra, .bgra8)] {
            for alpha in [AlphaMode.premultiplied, .straight] {
                let source = alpha == .straight ? bytes : bytes.premultiplied
                let decoded = try decode(encode(source, .jpeg, format, alpha))
                let (left, right) = (decoded[10, 16], decoded[54, 16])
                #expect(left.x > 245 && left.y > 245 && left.z > 245 && left.w == 255)
                #expect(right.x > 190 && right.y < 12 && right.z < 12)
            }
        }
    }

    @Test func largeJPEGIsWrittenInSteps() throws {
        var random = SplitMix(state: 3)
        let noise = TestPicture(width: 600, height: 500) { _, _ in
            SIMD4(.random(in: 0...255, using: &random), .random(in: 0...255, using: &random), 0, 255)
        }
        let file = try encode(noise, .jpeg, .rgba8, .straight)
        #expect(file.count > 200_000)
        #expect(try decode(file) == decode(noise.jpeg(.baseline)))
    }

    @Test func webpIsNear() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let decoded = try decode(encode(picture.bgra, .webp, .bgra8, .premultiplied))
        #expect(decoded.difference(from: picture, inSquaresOf: 16) <= 12)
    }

    @Test func sidesBeyondTheFormatAreRefused() throws {
        let picture = TestPicture(width: 16_384, height: 1) { _, _ in SIMD4(1, 2, 3, 255) }
        #expect(throws: WireError.self) { try encode(picture, .webp, .rgba8, .straight) }
        let wide = TestPicture(width: 65_535, height: 1) { _, _ in SIMD4(1, 2, 3, 255) }
        #expect(throws: WireError.self) { try encode(wide, .jpeg, .rgba8, .straight) }
        #expect(try decode(encode(wide, .png, .rgba8, .straight)) == wide)
    }
}

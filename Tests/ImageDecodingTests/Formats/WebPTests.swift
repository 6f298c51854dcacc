import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

struct WebPTests {
    @Test func losslessIsExact() throws {
        let picture = TestPicture.gradient(width: 61, height: 33, transparent: true)
        let file = try picture.encoded(.webp)
        #expect(try decode(file) == picture)
        #expect(try decode(file, .bgra8) == picture.bgra)
        #expect(try decode(file, .bgra8, .premultiplied) == picture.premultiplied.bgra)
    }

    @Test func lossyIsNear() throws {
        let picture = TestPicture.squares(columns: 5, rows: 3, side: 16)
        let decoded = try decode(picture.encoded(.webp, lossless: false))
        #expect(decoded.difference(from: picture, inSquaresOf: 16) <= 12)
    }

    @Test func lossyKeepsAlpha() throws {
        let picture = TestPicture(width: 64, height: 64) { x, y in SIMD4(200, 100, 50, UInt8(x * 2 + y * 2)) }
        let decoded = try decode(picture.encoded(.webp, lossless: false))
        for place in stride(from: 3, to: picture.bytes.count, by: 4) {
            #expect(decoded.bytes[place] == picture.bytes[place])
        }
    }

    /// EXIF follows the pixels: without it, the orientation is unknown.
    @Test func missingOrientationIsTruncated() throws {
        let plain = try TestPicture.gradient(width: 61, height: 33).encoded(.webp)
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoWebP: plain, width: 61, height: 33)
        for cut in 1...40 { #expect(failure(Array(file.dropLast(cut))) == .truncated) }
    }

    @Test func firstFrameIsPlacedOnItsCanvas() throws {
        let frame = TestPicture.gradient(width: 10, height: 6, transparent: true)
        let file = try animation(of: frame, canvasWidth: 20, canvasHeight: 12)
        #expect(try plan(file).header.frameCount == 2)
        let expected = TestPicture(width: 20, height: 12) { x, y in
            (4..<14).contains(x) && (2..<8).contains(y) ? frame[x - 4, y - 2] : SIMD4(0, 0, 0, 0)
        }
        #expect(try decode(file) == expected)
        // Without the second frame.
        #expect(try decode(Array(file.dropLast(20))) == expected)
    }

    @Test func dimensionsAreCheckedFirst() throws {
        let frame = TestPicture.gradient(width: 10, height: 6)
        #expect(failure(try animation(of: frame, canvasWidth: 65_535, canvasHeight: 65_535)) == .tooManyPixels)
        #expect(failure(try animation(of: frame, canvasWidth: 1 << 24, canvasHeight: 200)) == .tooManyPixels)
        // A frame that does not fit its canvas.
        #expect(failure(try animation(of: frame, canvasWidth: 12, canvasHeight: 12)) == .decodeFailed)
    }

    /// Returns an animation that shows `frame` twice at (4, 2) on a larger canvas.
    private func animation(of frame: TestPicture, canvasWidth: Int, canvasHeight: Int) throws -> [UInt8] {
        let still = Array(try frame.encoded(.webp).dropFirst(12))
        let place = number(2, 3) + number(1, 3) + number(frame.width - 1, 3) + number(frame.height - 1, 3)
        let chunk = riff("ANMF", place + number(100, 3) + [0] + still)
        let header = riff("VP8X", [0x12, 0, 0, 0] + number(canvasWidth - 1, 3) + number(canvasHeight - 1, 3))
        // The background colour must be ignored.
        let animation = riff("ANIM", [1, 2, 3, 255, 0, 0])
        return riff("RIFF", Array("WEBP".utf8) + header + animation + chunk + chunk)
    }

    private func number(_ value: Int, _ bytes: Int) -> [UInt8] { WebPBomb.littleEndian(value, bytes) }

    private func riff(_ name: String, _ payload: [UInt8]) -> [UInt8] {
        Array(name.utf8) + number(payload.count, 4) + payload
    }
}

import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding

/// Stored pixels as a worker's source, compared with a PNG of the same pixels.
struct PixelsTests {
    private let picture = TestPicture.gradient(width: 37, height: 29, transparent: true)

    /// Returns the rows of `picture` in a layout, with other bytes around them.
    private func rows(_ layout: StoredPixels) -> [UInt8] {
        var stored = layout.pixelFormat == .bgra8 ? picture.bgra : picture
        if layout.alpha == .premultiplied { stored = stored.premultiplied }
        let length = picture.width * 4
        var bytes = [UInt8](repeating: 0xAA, count: layout.offset)
        for row in 0..<picture.height {
            bytes += stored.bytes[row * length..<(row + 1) * length]
            bytes += [UInt8](repeating: 0x55, count: layout.stride - length)
        }
        return bytes + [7, 7, 7]
    }

    private func job(_ layout: StoredPixels, _ transform: Transform, _ encoding: Encoding? = nil) -> DecodeJob {
        var job = DecodeJob(id: 1, transform: transform)
        (job.pixels, job.encoding) = (layout, encoding)
        return job
    }

    private static let transforms: [Transform] = [
        Transform(alpha: .straight), Transform(pixelFormat: .bgra8, alpha: .straight), Transform(),
        Transform(width: 11), Transform(width: 11, height: 40, fit: .cover, alpha: .straight, isLight: true),
        Transform(width: 90, fit: .contain, alpha: .straight),
        Transform(
            width: 9,
            edits: Edits(crop: Crop(x: 3, y: 4, width: 20, height: 21), steps: [.blur(sigma: 1), .rotate(degrees: 90)])),
        Transform(byteLimit: 900),
    ]

    /// Pixels without alpha, compared with an opaque PNG.
    @Test(arguments: [PixelFormat.rgb8, .gray8]) func withoutAlpha(_ format: PixelFormat) throws {
        let size = format.bytesPerPixel
        let opaque = TestPicture(width: 37, height: 29) { x, y in
            let (red, green, blue) = (UInt8(x * 6), UInt8(y * 8), UInt8(x * y % 256))
            return size == 1 ? SIMD4(red, red, red, 255) : SIMD4(red, green, blue, 255)
        }
        let layout = StoredPixels(opaque.geometry, stride: 37 * size + 5, pixelFormat: format)
        let bytes = (0..<29).flatMap { y in
            (0..<37).flatMap { x in (0..<size).map { opaque[x, y][$0] } } + [UInt8](repeating: 9, count: 5)
        }
        let png = ColorTests.png(opaque, .rgb)
        for transform in Self.transforms {
            let stored = try decode(bytes, for: job(layout, transform))
            #expect(stored == (try decode(png, with: transform)), "\(transform)")
        }
    }

    @Test(arguments: [PixelFormat.rgba8, .bgra8], [0, 1]) func likePNG(_ format: PixelFormat, _ padding: Int) throws {
        let layout = StoredPixels(
            picture.geometry, stride: picture.width * 4 + 12 * padding, offset: 77 * padding, pixelFormat: format,
            alpha: .straight)
        for transform in Self.transforms {
            let stored = try decode(rows(layout), for: job(layout, transform))
            #expect(stored == (try decode(picture.png, with: transform)), "\(transform)")
        }
    }

    /// Premultiplied colour loses precision, so its straight form is what a PNG must have.
    @Test func premultiplied() throws {
        let layout = StoredPixels(picture.geometry)
        let straight = try decode(rows(layout), for: job(layout, Transform(alpha: .straight)))
        #expect(try decode(rows(layout), for: job(layout, Transform())) == picture.premultiplied)
        for transform in Self.transforms {
            let stored = try decode(rows(layout), for: job(layout, transform))
            #expect(stored == (try decode(straight.png, with: transform)), "\(transform)")
        }
    }

    @Test func rowsBeyondTheEnd() throws {
        let layout = StoredPixels(picture.geometry)
        let bytes = Array(rows(layout).prefix(layout.rowBytes - 1))
        #expect(failure(bytes, for: job(layout, Transform())) == .truncated)
    }
}

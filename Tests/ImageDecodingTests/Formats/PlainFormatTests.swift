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
        let file = animation(of: frame, canvasWidth: 20, canvasHeight: 12)
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
        #expect(failure(animation(of: frame, canvasWidth: 65_535, canvasHeight: 65_535)) == .tooManyPixels)
        #expect(failure(animation(of: frame, canvasWidth: 1 << 24, canvasHeight: 200)) == .tooManyPixels)
        // A frame that does not fit its canvas.
        #expect(failure(animation(of: frame, canvasWidth: 12, canvasHeight: 12)) == .decodeFailed)
    }

    /// An animation that shows `frame` twice at (4, 2) on a larger canvas.
    private func animation(of frame: TestPicture, canvasWidth: Int, canvasHeight: Int) -> [UInt8] {
        TestAnimation(
            width: canvasWidth, height: canvasHeight,
            frames: [TestAnimation.Frame](repeating: TestAnimation.Frame(4, 2, frame), count: 2)
        ).webp
    }
}

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
        var job = DecodeJob(transform)
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

    @Test func `premultiplied colour loses precision, so its straight form is what a PNG must have`() throws {
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

struct FormatTableTests {
    @Test func `a program decodes the formats of its family, in their order, and no others`() {
        var families = Set<CodecFamily>()
        for codec in allCodecs { families.insert(CodecFamily(codec.format)) }
        #expect(allCodecs.map(\.format) == ImageFormat.files.filter { families.contains(CodecFamily($0)) })
        #expect(DecodeProgram.plain.codecs.map(\.format) == CodecFamily.plain.formats)
    }
}

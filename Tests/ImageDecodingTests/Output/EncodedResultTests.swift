import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Results that are encoded after decoding.
struct EncodedResultTests {
    private func encoded(
        _ file: [UInt8], _ format: Encoding.Format, _ transform: Transform = Transform(alpha: .straight),
        quality: Int = 95
    ) throws -> [UInt8] {
        var job = DecodeJob(id: 1, transform: transform)
        job.encoding = Encoding(format, quality: quality)
        return try Decoded(file, for: job).bytes
    }

    @Test func pngIsExact() throws {
        for transparent in [false, true] {
            let picture = TestPicture.gradient(width: 300, height: 200, transparent: transparent)
            let png = try encoded(picture.png, .png)
            #expect(try decode(png) == picture)
            let webp = try encoded(picture.encoded(.webp), .png)
            #expect(try decode(webp) == picture)
            let small = Transform(width: 50, alpha: .straight)
            #expect(try decode(encoded(picture.png, .png, small)) == decode(picture.png, with: small))
        }
    }

    @Test func opaqueImagesHaveNoAlpha() throws {
        // RGB is colour type 2 (PNG, section 11.2.1), stored after the size and depth.
        let photo = TestPicture.gradient(width: 64, height: 64)
        #expect(try encoded(photo.jpeg(.baseline), .png)[25] == 2)
        #expect(try encoded(TestPicture.gradient(width: 64, height: 64, transparent: true).png, .png)[25] == 6)
    }

    @Test func orientationIsApplied() throws {
        let picture = TestPicture.gradient(width: 40, height: 30)
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoPNG: picture.png)
        for format in Encoding.Format.allCases {
            let again = try decode(encoded(file, format))
            #expect((again.width, again.height) == (30, 40))
            if format == .png { #expect(again == picture.shown(orientation: 6)) }
        }
    }

    @Test func lossyFormatsAreNear() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        for format in [Encoding.Format.jpeg, .webp] {
            let fine = try encoded(picture.png, format, quality: 95)
            #expect(try decode(fine).difference(from: picture, inSquaresOf: 16) <= 12, "\(format)")
            let noise = TestPicture.gradient(width: 300, height: 200)
            #expect(try encoded(noise.png, format, quality: 10).count < encoded(noise.png, format, quality: 95).count)
        }
    }

    /// Squares of opaque colours, and transparent ones, on a canvas of 4 × 4.
    private static let moving: TestAnimation = {
        let large = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let small = TestPicture.squares(columns: 2, rows: 1, side: 16)
        let hole = TestPicture(width: 32, height: 32) { x, _ in x < 16 ? .zero : SIMD4(250, 20, 90, 255) }
        return TestAnimation(
            width: 64, height: 64, loops: 3,
            frames: [
                .init(0, 0, large, .keep, delay: 7), .init(16, 32, small, .clear, delay: 30),
                .init(32, 0, hole, .clear, isBlended: false, delay: 1), .init(0, 48, small, .keep, delay: 120),
            ])
    }()

    private static let files = {
        // WebP restores nothing.
        var restoring = moving
        restoring.frames[2].disposal = .restore
        return ["gif": restoring.gif(), "png": restoring.png(), "webp": moving.webp]
    }()

    @Test(arguments: files.keys.sorted()) func animationsKeepFramesTimesAndLoops(_ format: String) throws {
        let file = try #require(Self.files[format])
        let (expected, timing) = try decodeFrames(file)
        let webp = try encoded(file, .webp, Transform(alpha: .straight, frames: .all))
        let (frames, again) = try decodeFrames(webp)
        #expect(again == timing)
        #expect(frames.count == expected.count)
        for (frame, expected) in zip(frames, expected) {
            #expect(frame.difference(from: expected, inSquaresOf: 16) <= 12)
            // Alpha has no loss.
            #expect(stride(from: 3, to: frame.bytes.count, by: 4).allSatisfy { frame.bytes[$0] == expected.bytes[$0] })
        }
        // Scaled, cropped, and with multiplied alpha.
        let crop = Edits(crop: Crop(x: 16, y: 16, width: 48, height: 48), steps: [])
        for (transform, side) in [(Transform(width: 32, frames: .all), 8), (Transform(frames: .all, edits: crop), 16)] {
            let (frames, _) = try decodeFrames(try encoded(file, .webp, transform))
            var straight = transform
            straight.alpha = .straight
            let (expected, _) = try decodeFrames(file, with: straight)
            #expect(frames.count == expected.count)
            for (frame, expected) in zip(frames, expected) {
                #expect(Self.multiplied(frame).difference(from: Self.multiplied(expected), inSquaresOf: side) <= 16)
            }
        }
    }

    /// An image with its colour multiplied by alpha: what is transparent has any colour.
    private static func multiplied(_ picture: TestPicture) -> TestPicture {
        picture.map { pixel in
            let colors = (0..<3).map { UInt8(Int(pixel[$0]) * Int(pixel.w) / 255) }
            return SIMD4(colors[0], colors[1], colors[2], pixel.w)
        }
    }

    /// The estimate holds for noise at the highest quality.
    @Test(arguments: [(400, 2), (400, 8), (40, 200)]) func memoryOfAnAnimationIsWithinTheEstimate(
        side: Int, count: Int
    ) throws {
        var random = SplitMix64(state: 3)
        let frames = (0..<count).map { _ in
            var words: [UInt64] = (0..<side * side / 2).map { _ in random.next() }
            let bytes = unsafe words.withUnsafeMutableBytes { unsafe Array($0) }
            return TestAnimation.Frame(0, 0, TestPicture(width: side, height: side, bytes: bytes), isBlended: false)
        }
        let bytes = TestAnimation(width: side, height: side, frames: frames).png()
        var job = DecodeJob(id: 1, transform: Transform(alpha: .straight, frames: .all))
        job.encoding = Encoding(.webp, quality: 100)
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        let (plan, result, _) = try worker.run(job, try sealedFile(bytes))
        // No frame was left out.
        #expect(result.bytes > side * side * count)
        let peak = (try worker.kilobytes(of: "VmHWM") - idle) << 10
        #expect(peak <= plan.workingBytes + bytes.count, "\(peak) of \(plan.workingBytes)")
    }

    /// The pages of a TIFF are images of their own: the first is encoded, whatever the others would take.
    @Test func ofSeveralImagesTheFirstIsEncoded() throws {
        let geometry = try #require(PixelGeometry(width: 5000, height: 5000))
        let header = ImageHeader(format: .tiff, geometry: geometry, frameCount: 100)
        let webp = Encoding(.webp)
        let all = Transform(byteLimit: geometry.bytes, frames: .all)
        #expect(header.count(of: .all, as: webp) == 1)
        #expect(header.count(of: .all, as: nil) == 100)
        #expect(all.plan(for: header, as: webp)?.result == geometry)
        #expect(all.plan(for: header)?.result != geometry)
        let plan = DecodePlan(header: header, result: geometry, workingBytes: 0)
        #expect(plan.outputBytes(all, webp) == plan.outputBytes(Transform(), webp))
    }

    @Test func aFrameThatEqualsTheOneBeforeProlongsIt() throws {
        var moving = Self.moving
        moving.frames.insert(moving.frames[0], at: 1)
        let (frames, timing) = try decodeFrames(
            try encoded(moving.webp, .webp, Transform(alpha: .straight, frames: .all)))
        #expect(frames.count == 4)
        let (_, expected) = try decodeFrames(moving.webp)
        let delays = try #require(expected?.delaysMs)
        #expect(timing?.delaysMs == [delays[0] + delays[1]] + delays[2...])
    }

    @Test func delaysThatAreTooLongTogetherAreShortened() throws {
        var moving = Self.moving
        for index in moving.frames.indices { moving.frames[index].delay = 0xFF_FFFF }
        moving.frames = Array(repeating: moving.frames, count: 40).flatMap { $0 }
        let (_, timing) = try decodeFrames(
            try encoded(moving.webp, .webp, Transform(width: 16, alpha: .straight, frames: .all)))
        #expect(timing?.delaysMs.allSatisfy { $0 == Int(Int32.max) / 160 } == true)
    }

    @Test func ofAStillFileAllFramesAreOne() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let all = Transform(alpha: .straight, frames: .all)
        #expect(try encoded(picture.png, .webp, all) == encoded(picture.png, .webp))
    }

    @Test func anAnimationWhoseFileWouldBeTooLargeIsRefused() throws {
        let output = try WritableBuffer(name: "test").descriptor
        let geometry = try #require(PixelGeometry(width: 64, height: 64))
        let raster = try PixelMemory(count: geometry.bytes)
        var number: UInt8 = 0
        let encoder = ImageEncoder(Encoding(.webp), of: geometry, .rgba8, .straight)
        let error = #expect(throws: WireError.self) {
            try encoder.encodeAnimation(
                AnimationTiming(delaysMs: [100, 100, 100], loops: 0), in: raster, to: ResultFile(file: output),
                mostBytes: 100
            ) { () throws(WireError) in
                number += 80
                unsafe raster.bytes.initializeMemory(as: UInt8.self, repeating: number)
            }
        }
        #expect(error?.code == .tooManyPixels)
        #expect(try output.size() == 0)
    }

    /// Noise at the highest quality fits the buffer.
    @Test func noiseFitsIntoItsBuffer() throws {
        var random = SplitMix64(state: 11)
        for (width, height) in [(1, 1), (8, 8), (300, 200)] {
            let noise = TestPicture(width: width, height: height) { _, _ in
                SIMD4(
                    .random(in: 0...255, using: &random), .random(in: 0...255, using: &random),
                    .random(in: 0...255, using: &random), .random(in: 0...255, using: &random))
            }
            let geometry = try #require(PixelGeometry(width: width, height: height))
            for format in Encoding.Format.allCases {
                let file = try encoded(noise.png, format, quality: 100)
                #expect(file.count <= Encoding.mostBytes(of: geometry))
                #expect(try decode(file).width == width)
            }
        }
    }

    /// A narrow image is encoded in blocks of 16 × 16, too.
    @Test func narrowestNoiseFitsToo() throws {
        var random = SplitMix64(state: 12)
        let noise = TestPicture(width: 2, height: 65_500) { _, _ in
            let bits = UInt8.random(in: 0...7, using: &random)
            return SIMD4(bits & 1 == 0 ? 0 : 255, bits & 2 == 0 ? 0 : 255, bits & 4 == 0 ? 0 : 255, 255)
        }
        let file = try encoded(noise.png, .jpeg, quality: 100)
        #expect(file.count > 9 * 2 * 65_500)
        #expect(file.count < 12 * 2 * 65_500)
    }

    @Test func memoryIsCounted() throws {
        let file = TestPicture.gradient(width: 300, height: 200).png
        let plain = try plan(file).workingBytes
        for format in Encoding.Format.allCases {
            var job = DecodeJob(id: 1)
            job.encoding = Encoding(format)
            #expect(try plan(file, for: job).workingBytes >= plain + 300 * 200 * 4)
        }
        var job = DecodeJob(id: 1, maxWorkingBytes: plain)
        job.encoding = Encoding(.webp)
        #expect(throws: WireError.self) { try plan(file, for: job) }
    }
}

struct EncoderTests {
    /// Encodes `picture`, whose bytes are stored as `pixelFormat` and `alpha` say.
    private func encode(
        _ picture: TestPicture, _ format: Encoding.Format, _ pixelFormat: PixelFormat, _ alpha: AlphaMode
    ) throws -> [UInt8] { try picture.encodedByWorker(Encoding(format, quality: 95), pixelFormat, alpha) }

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
        var random = SplitMix64(state: 3)
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

import IPCProtocol
import SharedCache
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Results that are encoded after decoding.
@Suite struct EncodedResultTests {
    private func encoded(
        _ file: [UInt8], _ format: Encoding.Format, _ transform: Transform = Transform(alpha: .straight),
        quality: Int = 95
    ) throws -> [UInt8] {
        var job = DecodeJob(id: 1, transform: transform)
        job.encoding = Encoding(format, quality: quality)
        let image = try EncodedImage(try ImageSource(copying: file), for: job)
        let output = try WritableBuffer(name: "test", size: image.plan.outputBytes(transform, job.encoding))
        let result = try image.decode(into: output.descriptor)
        return Array(try contents(of: output.descriptor).prefix(result.bytes))
    }

    @Test func pngIsExact() throws {
        for transparent in [false, true] {
            let picture = TestPicture.gradient(width: 300, height: 200, transparent: transparent)
            let png = try encoded(picture.png, .png)
            #expect(try decode(png) == picture)
            let webp = try encoded(picture.encoded(.webp), .png)
            #expect(try decode(webp) == picture)
            let small = Transform(width: 50, alpha: .straight)
            #expect(
                try decode(encoded(picture.png, .png, small))
                    == decode(picture.png, for: DecodeJob(id: 1, transform: small)))
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

    /// Noise at the highest quality fits the buffer.
    @Test func noiseFitsIntoItsBuffer() throws {
        var random = SplitMix(state: 11)
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
        var random = SplitMix(state: 12)
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
        let plan = { (encoding: Encoding?) in
            var job = DecodeJob(id: 1)
            job.encoding = encoding
            return try EncodedImage(try ImageSource(copying: file), for: job).plan
        }
        let plain = try plan(nil)
        for format in Encoding.Format.allCases {
            #expect(try plan(Encoding(format)).workingBytes >= plain.workingBytes + 300 * 200 * 4)
        }
        var job = DecodeJob(id: 1, maxWorkingBytes: plain.workingBytes)
        job.encoding = Encoding(.webp)
        #expect(throws: WireError.self) { try EncodedImage(try ImageSource(copying: file), for: job) }
    }
}

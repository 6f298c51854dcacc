import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Limits on pixels, and estimates of working memory.
@Suite struct ScalingLimitTests {
    private static let picture = TestPicture.scene(width: 200, height: 150)

    private func plan(
        _ file: [UInt8], _ transform: Transform, maxPixels: Int = 1000, maxSourcePixels: Int = 30_000,
        maxWorkingBytes: Int = 1 << 30
    ) throws -> DecodePlan {
        let job = DecodeJob(
            id: 1, transform: transform, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels,
            maxWorkingBytes: maxWorkingBytes)
        return try EncodedImage(try ImageSource(copying: file), for: job).plan
    }

    private func code(_ body: () throws -> DecodePlan) -> ErrorCode? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? WireError)?.code ?? .internal
        }
    }

    @Test func formatsDecodedByRowsMayBeLarger() throws {
        let small = Transform(width: 20)
        for file in [
            try Self.picture.encoded(.png), Self.picture.jpeg(.baseline), Self.picture.jpeg(.progressive),
        ] {
            let plan = try plan(file, small)
            #expect((plan.result.width, plan.result.height) == (20, 15))
            #expect((plan.header.geometry.width, plan.header.geometry.height) == (200, 150))
            #expect(code { try self.plan(file, small, maxSourcePixels: 29_999) } == .tooManyPixels)
            // The result has its own limit, which also applies to the full size.
            #expect(code { try self.plan(file, Transform(width: 40)) } == .tooManyPixels)
            #expect(code { try self.plan(file, Transform()) } == .tooManyPixels)
        }
    }

    @Test func formatsDecodedAsAWholeMayNot() throws {
        let interlaced = TestPNG(width: 200, height: 150, kind: .gray, depth: 8, interlaced: true) { x, y in [x ^ y] }
        for file in [
            interlaced.file, try Self.picture.encoded(.webp), try Self.picture.encoded(.webp, lossless: false),
        ] {
            #expect(code { try plan(file, Transform(width: 20)) } == .tooManyPixels)
            #expect(code { try plan(file, Transform(width: 20), maxPixels: 30_000) } == nil)
        }
    }

    @Test func tooLongSidesAreRefused() throws {
        let file = try TestPicture.scene(width: 2, height: 4).encoded(.png)
        #expect(code { try plan(file, Transform(width: 40_000, fit: .contain)) } == .tooManyPixels)
    }

    @Test func workingMemoryIsEstimated() throws {
        // Large enough that the constant part of the estimate does not dominate.
        let (width, height) = (2000, 1500)
        let picture = TestPicture(
            width: width, height: height, bytes: [UInt8](repeating: 255, count: width * height * 4))
        let pixels = width * height
        func bytes(_ file: [UInt8], _ transform: Transform) throws -> Int {
            let job = DecodeJob(id: 1, transform: transform)
            return try EncodedImage(try ImageSource(copying: file), for: job).plan.workingBytes - file.count
        }
        let baseline = picture.jpeg(.baseline)
        let turned = TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: baseline)
        let (full, small) = (Transform(), Transform(width: 100))
        let plain = try bytes(baseline, full)
        #expect(plain < 8 << 20)
        #expect(try bytes(baseline, small) < 8 << 20)
        #expect(try bytes(turned, full) == plain + pixels * 4)
        // Two bytes per coefficient; 4:2:0 has 1.5 coefficients per pixel.
        let progressive = try bytes(picture.jpeg(.progressive), small)
        #expect((pixels * 3...pixels * 3 + 8 << 20).contains(progressive))
        // The pixels of the bitstream and of the result, data per block, and tables.
        let lossless = try bytes(try picture.encoded(.webp), full)
        #expect((pixels * 8...pixels * 8 + 32 << 20).contains(lossless))
        #expect(try bytes(try picture.encoded(.webp), small) < lossless - pixels * 3)
        // A lower limit is refused before anything is allocated.
        let job = DecodeJob(id: 1, transform: full, maxWorkingBytes: lossless - 1)
        let file = try picture.encoded(.webp)
        let error = #expect(throws: WireError.self) { try EncodedImage(try ImageSource(copying: file), for: job) }
        #expect(error?.code == .tooManyPixels)
    }
}

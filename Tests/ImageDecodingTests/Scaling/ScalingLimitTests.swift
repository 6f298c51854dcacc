import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Limits on pixels, and estimates of working memory.
struct ScalingLimitTests {
    private static let picture = TestPicture.scene(width: 200, height: 150)

    private func job(
        _ transform: Transform = Transform(width: 20), maxPixels: Int = 1000, maxSourcePixels: Int = 30_000
    ) -> DecodeJob {
        DecodeJob(
            id: 1, transform: transform, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels,
            maxWorkingBytes: 1 << 30)
    }

    private func code(_ file: [UInt8], _ job: DecodeJob) -> ErrorCode? { failure { try plan(file, for: job) }?.code }

    @Test func formatsDecodedByRowsMayBeLarger() throws {
        for file in [
            try Self.picture.encoded(.png), Self.picture.jpeg(.baseline), Self.picture.jpeg(.progressive),
        ] {
            let plan = try plan(file, for: job())
            #expect((plan.result.width, plan.result.height) == (20, 15))
            #expect((plan.header.geometry.width, plan.header.geometry.height) == (200, 150))
            #expect(code(file, job(maxSourcePixels: 29_999)) == .tooManyPixels)
            // The result has its own limit, which also applies to the full size.
            #expect(code(file, job(Transform(width: 40))) == .tooManyPixels)
            #expect(code(file, job(Transform())) == .tooManyPixels)
        }
    }

    @Test func formatsDecodedAsAWholeMayNot() throws {
        let interlaced = TestPNG(width: 200, height: 150, kind: .gray, depth: 8, interlaced: true) { x, y in [x ^ y] }
        for file in [
            interlaced.file, try Self.picture.encoded(.webp), try Self.picture.encoded(.webp, lossless: false),
        ] {
            #expect(code(file, job()) == .tooManyPixels)
            #expect(code(file, job(maxPixels: 30_000)) == nil)
        }
    }

    @Test func tooLongSidesAreRefused() throws {
        let file = try TestPicture.scene(width: 2, height: 4).encoded(.png)
        #expect(code(file, job(Transform(width: 40_000, fit: .contain))) == .tooManyPixels)
    }

    @Test func workingMemoryIsEstimated() throws {
        // Large enough that the constant part of the estimate does not dominate.
        let (width, height) = (2000, 1500)
        let picture = TestPicture(
            width: width, height: height, bytes: [UInt8](repeating: 255, count: width * height * 4))
        let pixels = width * height
        func bytes(_ file: [UInt8], _ transform: Transform) throws -> Int {
            try plan(file, with: transform).workingBytes - file.count
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
        #expect(failure { try plan(file, for: job) }?.code == .tooManyPixels)
    }
}

/// Scaling down an image that is decoded row by row takes little memory at any size.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ScalingMemoryTests {
    static let side = 10_000
    static let most = 32 << 10

    @Test func jpegOf100Megapixels() throws {
        let writer = try RowEncoder(jpeg: Self.geometry, .rgba8, quality: Encoding.usualQuality)
        let file = try Self.encode(with: writer)
        try measure(file)
        // For a thumbnail, most memory is the window of the file, which is released behind the decoder, and rows.
        try measure(file, side: 256, most: 2048)
    }

    @Test func pngOf100Megapixels() throws {
        let writer = try RowEncoder(png: Self.geometry, .rgba8)
        let file = try Self.encode(with: writer)
        // Exceeds the worker's limit, so it must release the bytes that it has read.
        #expect(try file.size() > Self.most << 10)
        try measure(file)
    }

    @Test func digestOfALargeFile() throws {
        let buffer = try WritableBuffer(name: "test")
        let part = [UInt8](repeating: 7, count: 1 << 20)
        for number in 0..<32 {
            unsafe try part.withUnsafeBytes { unsafe try buffer.descriptor.write($0, at: number << 20) }
        }
        let file = try buffer.seal().descriptor
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        try worker.order(.identify(job: 1), [file])
        guard case .identified(1, _, _, _) = try worker.next() else { throw WireError(.internal, "no digest") }
        // The pages of the file are released behind the digest.
        #expect(try worker.kilobytes(of: "VmHWM") - idle <= 1024)
    }

    private static let geometry = PixelGeometry(width: side, height: side)!

    /// Returns a sealed file of the image: incompressible noise at the top, stripes below.
    private static func encode(with writer: RowEncoder) throws -> FileDescriptor {
        let buffer = try WritableBuffer(name: "test")
        let file = buffer.descriptor
        let rows = 100
        let memory = try PixelMemory(count: rows * side * 4)
        let words = unsafe memory.bytes.bindMemory(to: UInt64.self)
        var (random, length) = (SplitMix64(state: 5), 0)
        for index in words.indices { unsafe words[index] = random.next() }
        for band in 0..<side / rows {
            if band == 12 { unsafe words.update(repeating: 0xFF00_40F0_FF80_FF20) }
            _ = unsafe writer.encode(memory.bytes, count: rows)
            length += try Self.append(writer, to: file, at: length)
        }
        _ = writer.finish()
        _ = try Self.append(writer, to: file, at: length)
        return try buffer.seal().descriptor
    }

    private static func append(_ writer: RowEncoder, to file: FileDescriptor, at offset: Int) throws -> Int {
        let bytes = unsafe writer.takeOutput()
        unsafe try file.write(bytes, at: offset)
        return bytes.count
    }

    /// `most`: the most kilobytes by which the worker may grow.
    private func measure(_ file: FileDescriptor, side: Int = 1024, most: Int = Self.most) throws {
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        let (plan, result, _) = try worker.run(DecodeJob(id: 1, transform: Transform(width: side)), file)
        #expect(plan.result == PixelGeometry(width: side, height: side))
        #expect(result == DecodeResult(bytes: plan.result.bytes))
        // The result is written, not mapped, so it does not count as the worker's memory.
        let peak = try worker.kilobytes(of: "VmHWM") - idle
        #expect(peak <= most)
        #expect(plan.workingBytes <= Self.most << 10)
    }
}

import IPCProtocol
import SharedCache
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Decoding any bytes ends with the complete image or an error code, and never with missing pixels.
struct DamageTests {
    struct Sample: CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]

        init(_ name: String, _ file: [UInt8]) {
            testDescription = name
            self.file = file
        }
    }

    static let samples: [Sample] = {
        let picture = TestPicture.gradient(width: 45, height: 37, transparent: true)
        let interlaced = TestPNG(picture, interlaced: true)
        var samples = [
            Sample("PNG, stored", picture.png), Sample("PNG, interlaced", interlaced.file),
            Sample("JPEG, baseline", picture.jpeg(.baseline, quality: 80)),
            Sample("JPEG, progressive", picture.jpeg(.progressive, quality: 80)),
            Sample("JPEG, CMYK", picture.jpeg(.cmyk, quality: 80)),
        ]
        if let file = try? picture.encoded(.png) { samples.append(Sample("PNG", file)) }
        if let file = try? picture.encoded(.webp) { samples.append(Sample("WebP, lossless", file)) }
        if let file = try? picture.encoded(.webp, lossless: false) {
            samples.append(Sample("WebP, lossy", file))
            let exif = TestExif.block(orientation: 1)
            samples.append(
                Sample("WebP, extended", TestExif.inserted(exif, intoWebP: file, width: 45, height: 37, alpha: true)))
        }
        #if !WITHOUT_AVIF
            var avif = TestAVIF()
            (avif.hasAlpha, avif.orientation) = (true, 6)
            samples.append(Sample("AVIF", avif.file(picture)))
        #endif
        #if !WITHOUT_JP2
            samples.append(Sample("JPEG 2000, codestream", picture.j2k(components: 4, isLossy: true)))
            let tiled = picture.j2k(components: 4, tile: 32, layers: 2)
            samples.append(Sample("JPEG 2000, tiled, in boxes", TestJP2(tiled, TestJP2.colors(16)).file))
        #endif
        let animation = TestAnimation.everything(blends: [true], alphas: [255, 0])
        samples += [
            Sample("GIF", animation.gif()), Sample("GIF, interlaced", animation.gif(interlaced: true)),
            Sample("PNG, animated", animation.png(pieces: 2)),
        ]
        return samples
    }()

    @Test(arguments: samples) func truncatedAnywhere(_ sample: Sample) throws {
        let whole = try decode(sample.file)
        for count in 12..<sample.file.count {
            let cut = Array(sample.file.prefix(count))
            do {
                let picture = try decode(cut)
                #expect(picture == whole, "cut to \(count) of \(sample.file.count) bytes")
            } catch let error as WireError {
                #expect(error.code == .truncated, "cut to \(count) of \(sample.file.count) bytes: \(error.message)")
            }
        }
    }

    @Test(arguments: samples) func flippedBits(_ sample: Sample) {
        var random = SplitMix64(state: 7)
        let expected: [ErrorCode?] = [
            nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .outOfMemory,
        ]
        for _ in 0..<600 {
            var bytes = sample.file
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
            let code = failure(bytes, maxPixels: 1_000_000)
            #expect(expected.contains(code), "\(String(describing: code))")
        }
    }

    @Test func emptyAndUnknownFiles() {
        #expect(failure([]) == .emptyImage)
        #expect(failure(Array("<html></html>".utf8)) == .unsupportedFormat)
        #expect(failure([0xFF]) == .unsupportedFormat)
    }
}

/// Decodes hundreds of damaged files in one worker process: each ends with an image or a suitable error code, within
/// the limits on time and memory, and with the same outcome in any order.
@Suite(.timeLimit(.minutes(10))) struct DamagedFileTests {
    private static let most = (pixels: 4_000_000, bytes: 64 << 20)
    private static let codes: [ErrorCode] = [
        .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .badRequest,
    ]

    /// The outcome for a file: pixels or an error code.
    private enum Outcome: Equatable {
        case picture([UInt8])
        case failure(ErrorCode)
    }

    private static func samples() throws -> [[UInt8]] {
        let picture = TestPicture.gradient(width: 61, height: 43, transparent: true)
        var samples: [[UInt8]] = []
        for (kind, depth, interlaced) in [
            (TestPNG.Kind.gray, 1, false), (.gray, 16, true), (.rgb, 8, false), (.palette, 2, true),
            (.palette, 8, false), (.grayAlpha, 8, false), (.rgba, 8, true), (.rgba, 16, false),
        ] {
            let channels = [TestPNG.Kind.gray: 1, .rgb: 3, .palette: 1, .grayAlpha: 2, .rgba: 4][kind]!
            var png = TestPNG(width: 61, height: 43, kind: kind, depth: depth, interlaced: interlaced) { x, y in
                (0..<channels).map { (x * 5 + y * 3 + $0) % (1 << depth) }
            }
            let colors = (0..<1 << depth).map { [UInt8(truncatingIfNeeded: $0), 7, 200] }
            if kind == .palette { png.setPalette(colors, alpha: [0, 128]) }
            samples.append(png.file)
        }
        samples.append(try picture.encoded(.png))
        samples += [JPEGKind.baseline, .progressive, .cmyk, .ycck].map { picture.jpeg($0, quality: 80) }
        samples.append(TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: samples[9]))
        samples.append(JPEGBomb.oneScan(61, 43, JPEGBomb.sequential(JPEGBomb.blocks(61, 43))))
        samples.append(JPEGBomb.progressive(61, 43, components: 1, scans: 5))
        let opaque = TestPicture.gradient(width: 61, height: 43)
        let lossless = try picture.encoded(.webp)
        samples += [
            lossless, try opaque.encoded(.webp), try picture.encoded(.webp, lossless: false),
            try opaque.encoded(.webp, lossless: false, quality: 60),
            WebPBomb.canvas(80, 80, frame: lossless, frames: 3),
        ]
        #if !WITHOUT_AVIF
            var (alpha, deep, grid, sequence) = (TestAVIF(), TestAVIF(), TestAVIF(), TestAVIF())
            alpha.hasAlpha = true
            (deep.depth, deep.sampling, deep.matrix, deep.quantizer) = (10, 420, 6, 30)
            (grid.columns, grid.rows, grid.quantizer, grid.matrix) = (2, 1, 40, 6)
            sequence.frames = 3
            samples += [alpha, deep, sequence].map { $0.file(picture) }
            samples.append(grid.file(TestPicture.gradient(width: 128, height: 64)))
        #endif
        #if !WITHOUT_JP2
            samples += [
                picture.j2k(components: 4, tile: 32, layers: 2),
                TestJP2(picture.j2k(isLossy: true), TestJP2.colors(16)).file,
            ]
        #endif
        let animation = TestAnimation.everything(blends: [true], alphas: [255, 0])
        samples += [
            animation.gif(), animation.gif(interlaced: true, localPalettes: true), animation.png(pieces: 2),
            animation.png(interlaced: true),
            TestAnimation.everything([.keep, .clear], alphas: [255, 0, 99], grid: 2).webp,
        ]
        return samples
    }

    /// Returns `file` with one of three kinds of damage.
    private static func damaged(_ file: [UInt8], using random: inout SplitMix64) -> [UInt8] {
        var bytes = file
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes.removeLast(.random(in: 1..<bytes.count - 12, using: &random))
        case 1:
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                bytes[.random(in: 8..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
        default:
            // A wrong number in a header, with a correct CRC if it is a PNG.
            let place = Int.random(in: 8..<min(bytes.count, 200), using: &random)
            for index in place..<min(place + .random(in: 1...4, using: &random), bytes.count) {
                bytes[index] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &random)!
            }
            if ImageFormat(sniffing: bytes) == .png, bytes.count > 33 {
                bytes.replaceSubrange(8..<33, with: TestPNG.chunk("IHDR", Array(bytes[16..<29])))
            }
        }
        return bytes
    }

    @Test func damagedFilesInOneWorker() throws {
        let samples = try Self.samples()
        var random = SplitMix64(state: 2024)
        let files = (0..<504).map { Self.damaged(samples[$0 % samples.count], using: &random) }
        let forwards = try outcomes(of: Array(files.enumerated()))
        let backwards = try outcomes(of: files.enumerated().reversed())
        for index in files.indices {
            #expect(forwards[index] == backwards[index], "file \(index) has another outcome in another order")
        }
        // Neither outcome dominates, so the damage is neither ineffective nor excessive.
        let pictures = forwards.values.count { if case .picture = $0 { true } else { false } }
        #expect((50...450).contains(pictures))
    }

    private func outcomes(of files: [(offset: Int, element: [UInt8])]) throws -> [Int: Outcome] {
        var workers: [CodecFamily: (TestWorker, idle: Int)] = [:]
        for family in Set(allCodecs.map { CodecFamily($0.format) }) {
            let worker = try TestWorker(family: family)
            workers[family] = (worker, try worker.kilobytes(of: "VmHWM"))
        }
        var outcomes: [Int: Outcome] = [:]
        for (index, file) in files {
            let family = ImageFormat(sniffing: file).map { CodecFamily($0) } ?? .plain
            let (worker, _) = try #require(workers[family] ?? workers[.plain])
            let frames: FrameSelection = index % 2 == 0 ? .all : .one(index / 2 % 3)
            let transform =
                index % 3 == 0 ? Transform(width: 20, frames: frames) : Transform(pixelFormat: .bgra8, frames: frames)
            let job = DecodeJob(
                id: index, transform: transform, maxPixels: Self.most.pixels, maxWorkingBytes: Self.most.bytes)
            let begin = try worker.processorTime()
            outcomes[index] = try outcome(of: file, job, worker)
            #expect(try worker.processorTime() - begin <= 5_000)
        }
        for (worker, idle) in workers.values {
            #expect((try worker.kilobytes(of: "VmHWM") - idle) << 10 <= Self.most.bytes)
        }
        return outcomes
    }

    private func outcome(of file: [UInt8], _ job: DecodeJob, _ worker: TestWorker) throws -> Outcome {
        try worker.order(.decode(job), [try sealedFile(file)])
        var report = try worker.next()
        if case .header(job.id, let plan) = report {
            let size = plan.outputBytes(job.transform, nil)
            let output = try WritableBuffer(name: "test", size: size).descriptor
            try worker.order(.output(job: job.id), [output])
            report = try worker.next()
            if case .finished(job.id, let result) = report, result.bytes == size {
                return .picture(try contents(of: output))
            }
        }
        guard case .failed(job.id, let error) = report else { throw WireError(.internal, "\(report)") }
        #expect(Self.codes.contains(error.code), "\(error)")
        return .failure(error.code)
    }
}

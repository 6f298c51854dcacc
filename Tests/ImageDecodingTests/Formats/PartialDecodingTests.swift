import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Decoding of files that are still being downloaded.
struct PartialDecodingTests {
    struct Sample: CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]
        /// The number of stages.
        let stages: Int
    }

    static let scene = TestPicture.scene(width: 240, height: 180)
    static let samples: [Sample] = {
        let transparent = TestPicture.scene(width: 240, height: 180, transparent: true)
        let file = { (picture: TestPicture, lossless: Bool) in
            (try? picture.encoded(.webp, lossless: lossless, quality: 90)) ?? []
        }
        return [
            Sample(testDescription: "JPEG", file: scene.jpeg(.progressive, quality: 85), stages: 10),
            Sample(
                testDescription: "JPEG, arithmetic", file: scene.jpeg(.arithmeticProgressive, quality: 85), stages: 10),
            Sample(testDescription: "PNG", file: interlaced(transparent), stages: 7),
            Sample(testDescription: "WebP, lossy", file: file(scene, false), stages: 16),
            Sample(testDescription: "WebP, lossy with alpha", file: file(transparent, false), stages: 16),
            Sample(testDescription: "WebP, lossless", file: file(transparent, true), stages: 16),
        ]
    }()

    static func interlaced(_ picture: TestPicture) -> [UInt8] { TestPNG(picture, interlaced: true).file }

    /// Decodes the first `count` bytes; nil if nothing can be shown yet.
    private func part(
        _ file: [UInt8], _ count: Int, _ transform: Transform = Transform(alpha: .straight)
    ) throws -> (stage: Int, picture: TestPicture)? {
        do {
            let source = try ImageSource(copying: Array(file.prefix(count)), isPart: true)
            let decoded = try Decoded(source, for: DecodeJob(id: 1, transform: transform))
            return (try #require(decoded.plan.stage), decoded.pictures[0])
        } catch let error as WireError where error.code == .truncated {
            return nil
        }
    }

    private func failure(_ file: [UInt8]) -> ErrorCode? {
        do {
            _ = try part(file, file.count)
            return nil
        } catch {
            return (error as? WireError)?.code
        }
    }

    /// Every twentieth of the file brings the image at least as near to the final one.
    @Test(arguments: samples) func imagesImproveWithMoreBytes(_ sample: Sample) throws {
        for transform in [Transform(alpha: .straight), Transform(width: 50, pixelFormat: .bgra8)] {
            let whole = try decode(sample.file, with: transform)
            var seen: [(stage: Int, decibels: Double)] = []
            for twentieth in 1...20 {
                guard let part = try part(sample.file, sample.file.count * twentieth / 20, transform) else {
                    #expect(seen.isEmpty, "an image stays available")
                    continue
                }
                #expect((part.picture.width, part.picture.height) == (whole.width, whole.height))
                let decibels = part.picture.decibels(against: whole)
                if let last = seen.last {
                    #expect(part.stage >= last.stage)
                    #expect(decibels >= last.decibels, "stage \(part.stage)")
                }
                seen.append((part.stage, decibels))
            }
            #expect(seen.last?.decibels == .infinity && seen.last?.stage == sample.stages)
            // The first image is available early, and improves several times.
            #expect(seen.count >= 10 && Set(seen.map(\.stage)).count >= 4, "\(seen.map(\.stage))")
        }
    }

    /// The image depends on its stage only, except for WebP, which is decoded row by row.
    @Test(arguments: samples[..<2]) func everyStageHasOneImage(_ sample: Sample) throws {
        var seen: [Int: TestPicture] = [:]
        for count in stride(from: 100, through: sample.file.count, by: 97) {
            guard let part = try part(sample.file, count) else { continue }
            #expect(seen[part.stage] == nil || seen[part.stage] == part.picture)
            seen[part.stage] = part.picture
        }
        #expect(seen.count >= sample.stages - 1)
    }

    @Test func missingPixelsEqualTheirNeighbours() throws {
        let picture = TestPicture.gradient(width: 45, height: 37)
        let file = Self.interlaced(picture)
        // The horizontal and vertical distance of pixels after each pass.
        let steps = [(8, 8), (4, 8), (4, 4), (2, 4), (2, 2), (1, 2), (1, 1)]
        var seen: Set<Int> = []
        for count in 60...file.count {
            guard let part = try part(file, count), seen.insert(part.stage).inserted else { continue }
            let (across, down) = steps[part.stage - 1]
            let expected = TestPicture(width: 45, height: 37) { x, y in
                picture[x / across * across, y / down * down]
            }
            #expect(part.picture == expected, "stage \(part.stage)")
        }
        #expect(seen == Set(1...7))
    }

    @Test(arguments: [true, false]) func missingRowsAreTransparent(isLossless: Bool) throws {
        let file = try Self.scene.encoded(.webp, lossless: isLossless)
        let picture = try #require(try part(file, file.count * 2 / 3)).picture
        let whole = try decode(file)
        let filled = (0..<180).filter { picture[0, $0].w == 255 }.count
        #expect((60..<170).contains(filled))
        for y in 0..<180 {
            for x in 0..<240 { #expect(picture[x, y] == (y < filled ? whole[x, y] : .zero)) }
        }
    }

    @Test func orientationIsApplied() throws {
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: Self.scene.jpeg(.progressive))
        let picture = try #require(try part(file, file.count / 2)).picture
        #expect(picture.decibels(against: try decode(file)) > 25)
        #expect((picture.width, picture.height) == (180, 240))
    }

    /// Other kinds, which only decode from top to bottom, are refused.
    @Test func otherKindsAreUnsupported() throws {
        let small = TestPicture.gradient(width: 60, height: 40)
        let exif = TestExif.block(orientation: 6)
        let files = [
            small.jpeg(.baseline), small.png, Array("GIF89a".utf8) + [UInt8](repeating: 1, count: 60),
            // EXIF may rotate the image and follows it.
            TestExif.inserted(exif, intoWebP: try small.encoded(.webp), width: 60, height: 40),
        ]
        for file in files {
            #expect(failure(file) == .unsupportedFormat)
            #expect(failure(Array(file.prefix(file.count * 3 / 4))) == .unsupportedFormat)
        }
    }

    @Test func limitsHold() throws {
        for sample in Self.samples {
            let job = DecodeJob(id: 1, maxPixels: 240 * 180 - 1)
            let source = try ImageSource(copying: Array(sample.file.prefix(sample.file.count / 2)), isPart: true)
            let error = #expect(throws: WireError.self) { _ = try EncodedImage(source, for: job) }
            #expect(error?.code == .tooManyPixels)
        }
        let bomb = JPEGBomb.progressive(8, 8, components: 1, scans: 501)
        #expect(failure(bomb) == .tooManyPixels)
    }

    /// Every damaged file ends with an image or an error code.
    @Test(arguments: samples) func damagedParts(_ sample: Sample) throws {
        var random = SplitMix64(state: 7)
        let codes: [ErrorCode?] = [nil, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage]
        for _ in 0..<300 {
            var file = Array(sample.file.prefix(Int.random(in: 1...sample.file.count, using: &random)))
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                file[Int.random(in: 0..<file.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let code = failure(file)
            #expect(codes.contains(code), "\(String(describing: code))")
        }
    }

    /// The worker reads only the given number of bytes, through a read-only descriptor.
    @Test(.timeLimit(.minutes(10))) func workerReadsOnlyTheGivenBytes() throws {
        let file = Self.interlaced(Self.scene)
        let count = file.count * 6 / 10
        let body = try WritableBuffer(name: "test").descriptor
        let written = Array(file.prefix(count)) + [UInt8](repeating: 0xAA, count: 5000)
        unsafe try written.withUnsafeBytes { unsafe try body.write($0, at: 0) }
        let reader = try FileDescriptor.open(readingAt: "/proc/self/fd/\(body.raw)")
        let worker = try TestWorker()
        var job = DecodeJob(id: 1, transform: Transform(alpha: .straight))
        job.partialBytes = count
        let (plan, result, pixels) = try worker.run(job, reader)
        #expect(plan.stage == 6 && result == DecodeResult(bytes: plan.result.bytes))
        #expect(try contents(of: pixels) == part(file, count)?.picture.bytes)
        // A part longer than the file, after the file was truncated.
        try body.truncate(to: count)
        job.partialBytes = 1 << 30
        _ = try worker.plan(job, reader)
        try worker.order(.refuse(job: 1))
    }
}

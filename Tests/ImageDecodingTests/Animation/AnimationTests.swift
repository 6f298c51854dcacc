import Digests
import IPCProtocol
import LinuxSystem
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// The composed pixels of each frame.
struct AnimationTests {
    /// Compares frames with the samples' own computation and with the committed digests.
    @Test(arguments: AnimationSample.all) func composedFrames(_ sample: AnimationSample) throws {
        let frames = try decodeFrames(sample.file).pictures
        #expect(frames.count == sample.shown.count)
        for (index, (frame, shown)) in zip(frames, sample.shown).enumerated() where frame != shown {
            Issue.record("\(sample.testDescription): frame \(index) differs")
        }
        let lines = try Self.committed.get().filter { $0.hasPrefix(sample.testDescription + " ") }
        #expect(lines == frames.enumerated().map { Self.line(sample, $0.offset, $0.element) })
    }

    private static func line(_ sample: AnimationSample, _ index: Int, _ frame: TestPicture) -> String {
        "\(sample.testDescription) \(index) \(frame.width)x\(frame.height) \(SHA256.hexadecimalDigest(of: frame.bytes))"
    }

    /// Lines with a sample's name, a frame's index, its size, and the SHA-256 of its straight RGBA.
    private static let committed = Result<[String], any Error> {
        let folder = #filePath.split(separator: "/").dropLast().joined(separator: "/")
        let file = try FileDescriptor.open(readingAt: "/\(folder)/AnimationDigests.txt")
        return String(decoding: try contents(of: file), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func noOtherDigestsAreCommitted() throws {
        let lines = try Self.committed.get().filter { line in
            !line.hasPrefix("avif") || allCodecs.contains { $0.format == .avif }
        }
        #expect(lines.count == AnimationSample.all.reduce(0) { $0 + $1.shown.count })
    }

    @Test(
        .enabled(if: Pillow.isInstalled, "python3 does not find Pillow (Debian: python3-pil)"),
        arguments: AnimationSample.all.filter(\.isLikePillow))
    func likePillow(_ sample: AnimationSample) throws {
        let frames = try Pillow.frames(sample.file, of: sample.shown[0])
        #expect(frames.count == sample.shown.count)
        for (index, (frame, shown)) in zip(frames, sample.shown).enumerated() where !frame.looksLike(shown) {
            Issue.record("\(sample.testDescription): Pillow decodes frame \(index) differently")
        }
    }

    /// A GIF's first frame that covers the canvas is decoded row by row; an interlaced one is held once.
    @Test(arguments: [false, true]) func stillGIFNeedsNoCanvas(interlaced: Bool) throws {
        let picture = TestAnimation.patch(500, 400, 1, [255, 255, 0])
        let still = TestAnimation(width: 500, height: 400, frames: [TestAnimation.Frame(0, 0, picture)])
        var moving = still
        moving.frames.append(TestAnimation.Frame(3, 4, TestAnimation.patch(9, 9, 2, [255])))
        for file in [still.gif(interlaced: interlaced), moving.gif(interlaced: interlaced)] {
            #expect(try plan(file).workingBytes < (interlaced ? picture.bytes.count : 0) + (4864 << 10))
            #expect(try decode(file) == still.shown[0])
        }
        #expect(try decodeFrames(moving.gif(interlaced: interlaced)).pictures == moving.shown)
    }

    @Test(arguments: AnimationSample.all) func singleFramesEqualThoseOfAll(_ sample: AnimationSample) throws {
        for (index, shown) in sample.shown.enumerated() {
            let (frames, timing) = try decodeFrames(sample.file, .one(index))
            #expect(frames == [shown], "frame \(index)")
            #expect(timing == nil)
        }
        #expect(try decode(sample.file) == sample.shown[0])
        let turned = try decodeFrames(sample.file, with: Transform(pixelFormat: .bgra8, frames: .all)).pictures
        #expect(turned == sample.shown.map(\.premultiplied.bgra))
    }

    @Test(arguments: AnimationSample.all) func rangesEqualPartsOfAll(_ sample: AnimationSample) throws {
        let all = try decodeFrames(sample.file).timing
        for first in sample.shown.indices {
            for count in [1, 2, 10_000] {
                let (frames, timing) = try decodeFrames(sample.file, .range(FrameRange(first: first, count: count)))
                #expect(frames == Array(sample.shown.dropFirst(first).prefix(count)), "\(count) frames from \(first)")
                #expect(timing == all)
            }
        }
        let beyond = FrameRange(first: sample.shown.count, count: 1)
        #expect(failure(sample.file, .range(beyond))?.code == .badRequest)
    }

    /// Every frame is cropped and processed like an image of its own.
    @Test(arguments: AnimationSample.all) func framesAreProcessedSeparately(_ sample: AnimationSample) throws {
        let shown = sample.shown[0]
        let crop = Crop(x: 1, y: 1, width: shown.width - 2, height: shown.height - 1)
        let edits = Edits(crop: crop, steps: [.blur(sigma: 1), .rotate(degrees: 90), .circle])
        let transform = { (frames: FrameSelection) in Transform(width: 5, frames: frames, edits: edits) }
        let all = try decodeFrames(sample.file, with: transform(.all)).pictures
        #expect(all.count == sample.shown.count)
        for (index, frame) in all.enumerated() {
            let alone = DecodeJob(id: 1, transform: transform(.one(index)))
            #expect(try decodeFrames(sample.file, for: alone).pictures == [frame])
            let still = DecodeJob(id: 1, transform: transform(.one(0)))
            #expect(frame.looksLike(try decodeFrames(sample.shown[index].png, for: still).pictures[0]), "\(index)")
        }
    }

    /// Scaling a frame uses no pixels of the frames around it in the buffer.
    @Test(arguments: AnimationSample.all) func framesAreScaledSeparately(_ sample: AnimationSample) throws {
        let all = try decodeFrames(sample.file, width: 6).pictures
        #expect(all.count == sample.shown.count)
        for (index, frame) in all.enumerated() {
            #expect(try decodeFrames(sample.file, .one(index), width: 6).pictures == [frame])
            let alone = try decodeFrames(sample.shown[index].png, width: 6).pictures
            #expect(frame.looksLike(alone[0]), "frame \(index)")
        }
    }

    @Test func orientationAppliesToEachFrame() throws {
        let animation = TestAnimation.everything(alphas: [255, 0])
        let exif = TestPNG.chunk("eXIf", TestExif.block(orientation: 6))
        let frames = try decodeFrames(animation.png(before: [exif])).pictures
        #expect(frames == animation.shown.map { $0.shown(orientation: 6) })
    }

    /// PNG frames share a palette and its transparency.
    @Test func framesShareThePalette() throws {
        let colors: [[UInt8]] = [[10, 20, 30], [200, 100, 50], [0, 255, 0]]
        let picture = { (seed: Int) in
            TestPNG(width: 6, height: 4, kind: .palette, depth: 2) { x, y in [(x + y + seed) % 3] }
        }
        var file = picture(0)
        file.setPalette(colors, alpha: [255, 128])
        let control = { (number: UInt8) -> [UInt8] in
            let place = [0, 0, 0, number] + [0, 0, 0, 6, 0, 0, 0, 4] + [UInt8](repeating: 0, count: 8)
            return TestPNG.chunk("fcTL", place + [0, 1, 0, 4, 0, 0])
        }
        file.before += [TestPNG.chunk("acTL", [0, 0, 0, 2, 0, 0, 0, 3]), control(0)]
        file.after += [control(1), TestPNG.chunk("fdAT", [0, 0, 0, 2] + picture(1).data)]
        let (frames, timing) = try decodeFrames(file.file)
        #expect(timing == AnimationTiming(delaysMs: [250, 250], loops: 3))
        for (seed, frame) in frames.enumerated() {
            let expected = TestPicture(width: 6, height: 4) { x, y in
                let index = (x + y + seed) % 3
                return SIMD4(colors[index][0], colors[index][1], colors[index][2], index == 1 ? 128 : 255)
            }
            #expect(frame == expected)
        }
    }

    @Test(
        .enabled(if: GivenImagesTests.folder != nil && Pillow.isInstalled),
        arguments: [("wuffs-animated-red-blue.gif", 4), ("wuffs-bricks-dither.gif", 1), ("image-anim.webp", 6)])
    func givenAnimations(_ name: String, _ count: Int) throws {
        let file = try GivenImagesTests.read(name)
        let frames = try decodeFrames(file).pictures
        #expect(frames.count == count)
        let pillow = try Pillow.frames(file, of: frames[0])
        #expect(zip(frames, pillow).allSatisfy { $0.looksLike($1) })
    }

    /// The same animation in two formats, one of them with a palette. Pillow ignores the transparency of the PNG.
    @Test(.enabled(if: GivenImagesTests.folder != nil)) func oneAnimationInTwoFormats() throws {
        let (gif, png) = (
            try decodeFrames(try GivenImagesTests.read("wuffs-animated-red-blue.gif")),
            try decodeFrames(try GivenImagesTests.read("wuffs-animated-red-blue.apng"))
        )
        #expect(gif.timing == png.timing)
        for (index, (one, other)) in zip(gif.pictures, png.pictures).enumerated() {
            let differences = zip(one.bytes, other.bytes).map { abs(Int($0) - Int($1)) }
            #expect(differences.reduce(0, +) / differences.count <= 3, "frame \(index)")
        }
    }
}

extension TestPicture {
    /// Returns whether the visible colours are equal apart from rounding.
    func looksLike(_ other: TestPicture) -> Bool {
        guard (width, height) == (other.width, other.height) else { return false }
        return zip(premultiplied.bytes, other.premultiplied.bytes).allSatisfy { abs(Int($0) - Int($1)) <= 1 }
    }
}

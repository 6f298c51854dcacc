import Digests

@testable import ImageDecoding

/// The composed pixels of each frame.
struct AnimationTests {
    /// Compares frames with the samples' own computation and with the committed digests.
    @Test(arguments: AnimationSample.all) func composedFrames(_ sample: AnimationSample) throws {
        let frames = try Decoded(sample.file).pictures
        #expect(frames.count == sample.shown.count)
        for (index, (frame, shown)) in zip(frames, sample.shown).enumerated() where frame != shown {
            Issue.record("\(sample.testDescription): frame \(index) differs")
        }
        let line = "\(sample.testDescription) \(frames.count) \(Self.digest(of: frames))"
        #expect(try Self.committed.get().filter { $0.hasPrefix(sample.testDescription + " ") } == [line])
    }

    /// The SHA-256 of lines with a frame's index, its size, and the SHA-256 of its straight RGBA.
    private static func digest(of frames: [TestPicture]) -> String {
        let lines = frames.enumerated().map { index, frame in
            "\(index) \(frame.width)x\(frame.height) \(SHA256.hexadecimalDigest(of: frame.bytes))"
        }
        return SHA256.hexadecimalDigest(of: lines.joined(separator: "\n").utf8)
    }

    /// Lines with a sample's name, the number of its frames, and their digest.
    private static let committed = Result<[String], any Error> {
        let folder = #filePath.split(separator: "/").dropLast().joined(separator: "/")
        let file = try FileDescriptor.open(readingAt: "/\(folder)/AnimationDigests.txt")
        return try file.readToEnd().split(separator: "\n").map(String.init)
    }

    @Test func noOtherDigestsAreCommitted() throws {
        let lines = try Self.committed.get().filter { line in
            !line.hasPrefix("avif") || allCodecs.contains { $0.format == .avif }
        }
        #expect(lines.count == AnimationSample.all.count)
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
        #expect(try Decoded(moving.gif(interlaced: interlaced)).pictures == moving.shown)
    }

    @Test(arguments: AnimationSample.all) func singleFramesEqualThoseOfAll(_ sample: AnimationSample) throws {
        for (index, shown) in sample.shown.enumerated() {
            let (frames, timing) = try Decoded(sample.file, .one(index)).shown
            #expect(frames == [shown], "frame \(index)")
            #expect(timing == nil)
        }
        #expect(try decode(sample.file) == sample.shown[0])
        let turned = try Decoded(sample.file, with: Transform(pixelFormat: .bgra8, frames: .all)).pictures
        #expect(turned == sample.shown.map(\.premultiplied.bgra))
    }

    @Test(arguments: AnimationSample.all) func rangesEqualPartsOfAll(_ sample: AnimationSample) throws {
        let all = try Decoded(sample.file).timing
        for first in sample.shown.indices {
            for count in [1, 2, 10_000] {
                let (frames, timing) = try Decoded(sample.file, .range(FrameRange(first: first, count: count))).shown
                #expect(frames == Array(sample.shown.dropFirst(first).prefix(count)), "\(count) frames from \(first)")
                #expect(timing == all)
            }
        }
        let beyond = FrameRange(first: sample.shown.count, count: 1)
        #expect(failure(sample.file, .range(beyond))?.code == .badRequest)
    }

    /// Every frame is scaled, cropped and processed like an image of its own, without pixels of the frames around it in
    /// the buffer.
    @Test(arguments: AnimationSample.all) func framesAreProcessedSeparately(_ sample: AnimationSample) throws {
        let shown = sample.shown[0]
        let crop = Crop(x: 1, y: 1, width: shown.width - 2, height: shown.height - 1)
        let edits = Edits(crop: crop, steps: [.blur(sigma: 1), .rotate(degrees: 90), .circle])
        for transform in [Transform(width: 6, alpha: .straight), Transform(width: 5, edits: edits)] {
            let job = { (frames: FrameSelection) in
                var transform = transform
                transform.frames = frames
                return DecodeJob(transform)
            }
            let all = try Decoded(sample.file, for: job(.all)).pictures
            #expect(all.count == sample.shown.count)
            for (index, frame) in all.enumerated() {
                #expect(try Decoded(sample.file, for: job(.one(index))).pictures == [frame])
                let alone = try Decoded(sample.shown[index].png, for: job(.one(0))).pictures[0]
                #expect(frame.looksLike(alone), "frame \(index)")
            }
        }
    }

    @Test func orientationAppliesToEachFrame() throws {
        let animation = TestAnimation.everything(alphas: [255, 0])
        let exif = TestPNG.chunk("eXIf", TestExif.block(orientation: 6))
        let frames = try Decoded(animation.png(before: [exif])).pictures
        #expect(frames == animation.shown.map { $0.shown(orientation: 6) })
    }

    @Test func `PNG frames share a palette and its transparency`() throws {
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
        let (frames, timing) = try Decoded(file.file).shown
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
        let frames = try Decoded(file).pictures
        #expect(frames.count == count)
        #expect(try zip(frames, Pillow.frames(file, of: frames[0])).allSatisfy { $0.looksLike($1) })
    }

    /// The same animation in two formats, one of them with a palette. Pillow ignores the transparency of the PNG.
    @Test(.enabled(if: GivenImagesTests.folder != nil)) func oneAnimationInTwoFormats() throws {
        let (gif, png) = (
            try Decoded(try GivenImagesTests.read("wuffs-animated-red-blue.gif")),
            try Decoded(try GivenImagesTests.read("wuffs-animated-red-blue.apng"))
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

/// The timing, selection and cost limits of frames, and invalid animations.
struct AnimationLimitTests {
    private let small = TestAnimation(
        width: 8, height: 6,
        frames: (0..<4).map {
            TestAnimation.Frame(0, 0, TestAnimation.patch(8, 6, $0, [255, 0]), delay: [0, 1, 2, 50][$0])
        }
    )

    private var files: [[UInt8]] { [small.gif(), small.png(), small.webp] }

    private func timing(_ file: [UInt8]) throws -> AnimationTiming? { try Decoded(file).timing }

    @Test func delays() throws {
        for file in [small.gif(), small.png()] { #expect(try timing(file)?.delaysMs == [100, 100, 20, 500]) }
        var animation = small
        for (index, delay) in [0, 10, 11, 5000].enumerated() { animation.frames[index].delay = delay }
        #expect(try timing(animation.webp)?.delaysMs == [100, 100, 11, 5000])
    }

    @Test(arguments: [(nil, 1, 1, 1), (0, 0, 0, 0), (1, 2, 1, 1), (9, 10, 9, 9)] as [(Int?, Int, Int, Int)])
    func loops(_ number: Int?, _ gif: Int, _ png: Int, _ webp: Int) throws {
        var animation = small
        animation.loops = number
        let loops = try [animation.gif(), animation.png(), animation.webp].map { try timing($0)?.loops }
        #expect(loops == [gif, png, webp])
    }

    @Test func stillImagesHaveOneFrame() throws {
        var one = small
        one.frames.removeLast(3)
        let picture = one.shown[0]
        for file in [picture.png, try picture.encoded(.webp), one.gif(), one.png(), one.webp] {
            let (frames, timing) = try Decoded(file).shown
            #expect(frames == [picture])
            #expect(timing == AnimationTiming(delaysMs: [0], loops: 1))
            #expect(failure(file, .one(1))?.code == .badRequest)
        }
        #expect(try Decoded(picture.jpeg(.baseline)).timing == .still)
    }

    @Test func framesBeyondTheEndAreRefused() throws {
        let message = "The image has 4 frames; there is no frame with the index 7."
        for file in files {
            #expect(failure(file, .one(7)) == WireError(.badRequest, message))
            #expect(try Decoded(file, .one(3)).pictures == [small.shown[3]])
        }
    }

    @Test func pixelsOfAllFramesAreLimited() throws {
        let pixels = 8 * 6
        for file in files {
            #expect(failure(file, .all, maxPixels: 4 * pixels) == nil)
            #expect(failure(file, .all, maxPixels: 4 * pixels - 1)?.code == .tooManyPixels)
            // Includes frames that are only composed.
            #expect(failure(file, .one(3), maxPixels: pixels) == nil)
            #expect(failure(file, .one(3), maxPixels: pixels, maxSourcePixels: 4 * pixels) == nil)
            #expect(failure(file, .one(3), maxPixels: pixels, maxSourcePixels: 4 * pixels - 1)?.code == .tooManyPixels)
            #expect(failure(file, .one(2), maxPixels: pixels, maxSourcePixels: 4 * pixels - 1) == nil)
        }
        // The invisible part of a frame is decoded, too.
        var large = small
        large.frames.append(TestAnimation.Frame(4, 4, TestAnimation.patch(40, 40, 1, [255])))
        #expect(failure(large.gif(), .all, maxSourcePixels: 4 * pixels + 1600) == nil)
        #expect(failure(large.gif(), .all, maxSourcePixels: 4 * pixels + 1599)?.code == .tooManyPixels)
        #expect(failure(large.png(), .all)?.code == .decodeFailed)
        #expect(failure(large.webp, .all)?.code == .decodeFailed)
    }

    @Test func `what an opaque frame hides is not decoded for it`() throws {
        var animation = TestAnimation(
            width: 8, height: 6,
            frames: (0..<4).map { TestAnimation.Frame(0, 0, TestAnimation.patch(8, 6, $0, [255]), isBlended: false) }
        )
        let pixels = 8 * 6
        for (first, count) in [(0, 1), (1, 2), (3, 1)] {
            let range = FrameSelection.range(FrameRange(first: first, count: count))
            #expect(failure(animation.png(), range, maxSourcePixels: count * pixels) == nil)
            #expect(failure(animation.png(), range, maxSourcePixels: count * pixels - 1)?.code == .tooManyPixels)
        }
        let last = FrameSelection.range(FrameRange(first: 3, count: 1))
        animation.frames[3].disposal = .restore
        #expect(failure(animation.png(), last, maxSourcePixels: 2 * pixels)?.code == nil)
        #expect(failure(animation.png(), last, maxSourcePixels: 2 * pixels - 1)?.code == .tooManyPixels)
    }

    @Test func memoryIsCounted() throws {
        var animation = small
        let all = DecodeJob(Transform(frames: .all))
        let without = try plan(animation.png(), for: all).workingBytes
        animation.frames[2].disposal = .restore
        #expect(try plan(animation.png(), for: all).workingBytes == without + 8 * 6 * 4)
    }

    @Test func `the first frame is available as soon as it is complete; all frames only when all are`() throws {
        for file in files {
            let whole = try Decoded(file).pictures
            for count in 12..<file.count {
                let cut = Array(file.prefix(count))
                for selection in [FrameSelection.one(0), .one(2), .all] {
                    do {
                        let frames = try Decoded(cut, selection).pictures
                        switch selection {
                        case .one(let index): #expect(frames == [whole[index]])
                        // A GIF does not declare its number of frames.
                        case .all: #expect(frames == Array(whole.prefix(frames.count)))
                        case .range: break
                        }
                    } catch let error as WireError {
                        let codes: [ErrorCode] = selection == .one(2) ? [.truncated, .badRequest] : [.truncated]
                        #expect(codes.contains(error.code), "\(selection), \(count) bytes: \(error.message)")
                    }
                }
            }
            // Without the last frame, the first one is available.
            #expect(try decode(Array(file.dropLast(30))) == whole[0])
        }
        #expect(try Decoded(small.gif(trailer: false)).pictures == small.shown)
        // A range is one with the times of all frames.
        let range = FrameSelection.range(FrameRange(first: 0, count: 2))
        for file in files {
            #expect(failure(Array(file.prefix(file.count * 3 / 4)), range)?.code == .truncated)
            #expect(failure(Array(file.dropLast(30)), .all)?.code == .truncated)
        }
    }

    /// The orientation follows the frames.
    @Test func missingOrientationIsTruncated() throws {
        var file = small.webp
        file[20] |= 8
        #expect(try decode(file) == small.shown[0])
        #expect(failure(Array(file.dropLast(2))) == .truncated)
    }

    @Test func invalidFrameControls() throws {
        let file = small.png()
        let controls = file.places(of: "fcTL")
        let changed = { (control: Int, offset: Int, value: UInt8) -> [UInt8] in
            var bytes = file
            let start = controls[control]
            bytes[start + 4 + offset] = value
            bytes.replaceSubrange(
                start - 4..<start + 34, with: TestPNG.chunk("fcTL", Array(bytes[start + 4..<start + 30])))
            return bytes
        }
        // The sequence number, a width of zero or beyond the canvas, unknown disposal and blend.
        for (offset, value) in [(3, 9), (7, 0), (7, 9), (15, 1), (24, 3), (25, 2)] as [(Int, UInt8)] {
            let broken = changed(2, offset, value)
            #expect(failure(broken, .all)?.code == .decodeFailed, "\(offset)")
            #expect(failure(broken, .one(3))?.code == .decodeFailed)
            #expect(failure(broken, .one(4))?.code == .badRequest)
            #expect(try Decoded(broken, .one(1)).pictures == [small.shown[1]])
            // Without a first frame, the default image is decoded.
            #expect(try decode(changed(0, offset, value)) == small.shown[0])
            #expect(failure(changed(0, offset, value), .all)?.code == .decodeFailed)
        }
        var unsound = file
        unsound[controls[1] + 30] ^= 1
        #expect(failure(unsound, .all)?.code == .decodeFailed)
        let pixels = try #require(file.places(of: "fdAT").last)
        unsound = file
        unsound[pixels + 20] ^= 1
        #expect(failure(unsound, .one(3))?.code == .decodeFailed)
        #expect(failure(unsound, .one(2)) == nil)
    }

    @Test func declaredFramesThatAreMissing() throws {
        var file = small.png()
        let place = try #require(file.places(of: "acTL").first)
        file.replaceSubrange(place - 4..<place + 16, with: TestPNG.chunk("acTL", [0, 0, 0, 9, 0, 0, 0, 0]))
        #expect(failure(file, .all)?.code == .decodeFailed)
        #expect(try Decoded(file, .one(3)).pictures == [small.shown[3]])
        #expect(failure(file, .one(8))?.code == .decodeFailed)
    }

    @Test func framesWithoutPixels() throws {
        var empty = small
        empty.frames[1].picture = TestPicture(width: 0, height: 0, bytes: [])
        let frames = try Decoded(empty.gif()).pictures
        #expect(frames[1] == frames[0])
        empty.frames = [empty.frames[1]]
        #expect(failure(empty.gif(screen: (0, 0)), .all)?.code == .emptyImage)
        #expect(failure(Array("GIF89a".utf8) + [8, 0, 8, 0, 0, 0, 0, 0x3B], .all)?.code == .emptyImage)
        #expect(failure(Array("GIF89a".utf8) + [8, 0, 8, 0, 0, 0, 0, 0x77], .all)?.code == .decodeFailed)
    }

    @Test func manyFrames() throws {
        let dot = TestAnimation.Frame(0, 0, TestPicture(width: 1, height: 1, bytes: [1, 2, 3, 255]))
        let file = { (count: Int) in
            let one = TestAnimation(width: 1, height: 1, frames: [dot]).gif(localPalettes: false)
            // The frame with its control extension, between the comment and the trailer.
            let start = one.lastIndex(of: 0xF9)! - 1
            return Array(one[..<start]) + [[UInt8]](repeating: Array(one[start..<one.count - 1]), count: count).joined()
        }
        let most = file(65_535)
        #expect(try Decoded(most, .one(65_534)).pictures == [dot.picture])
        #expect(failure(most, .all)?.code == .tooManyPixels)
        #expect(failure(file(65_536), .one(0))?.code == .tooManyPixels)
        #expect(try Decoded(file(10_000)).timing?.delaysMs.count == 10_000)
        #expect(failure(file(10_001), .all)?.code == .tooManyPixels)
    }
}

/// An animated file and its expected frames.
struct AnimationSample: CustomTestStringConvertible {
    let testDescription: String
    let file: [UInt8]
    let shown: [TestPicture]
    /// Whether Pillow decodes it to equal frames. Pillow blends half-transparent pixels differently, uses a default
    /// image as the first frame, does not clip frames, and does not read interlaced frames of an animated PNG.
    let isLikePillow: Bool

    init(_ name: String, _ file: [UInt8], _ animation: TestAnimation, isLikePillow: Bool = true) {
        testDescription = name
        self.file = file
        shown = animation.shown
        self.isLikePillow = isLikePillow
    }

    /// Every disposal and blend of each format, and each format's special cases.
    static let all = gif + png + webp + avif

    private static let alphas: [UInt8] = [255, 0, 128, 77, 255, 1, 254]
    private static func patch(_ width: Int, _ height: Int, _ seed: Int) -> TestPicture {
        TestAnimation.patch(width, height, seed, [255, 255, 0])
    }

    /// Disposing of the first frame leaves an empty canvas.
    private static func first(_ disposal: TestAnimation.Disposal) -> TestAnimation {
        let frames = [TestAnimation.Frame(0, 0, patch(12, 8, 1), disposal), TestAnimation.Frame(4, 2, patch(3, 5, 2))]
        return TestAnimation(width: 12, height: 8, frames: frames)
    }

    private static let gif: [AnimationSample] = {
        let every = TestAnimation.everything(blends: [true], alphas: [255, 255, 0])
        let (restored, cleared) = (first(.restore), first(.clear))
        // Frames beyond the canvas, one of them invisible, are clipped.
        var (outside, cut) = (restored, restored)
        outside.frames += [
            TestAnimation.Frame(9, 5, patch(8, 8, 3)), TestAnimation.Frame(30, 2, patch(4, 4, 4), .clear),
            TestAnimation.Frame(1, 1, patch(2, 2, 5)),
        ]
        cut.frames += [
            TestAnimation.Frame(9, 5, patch(8, 8, 3)), TestAnimation.Frame(0, 0, patch(0, 0, 4)),
            TestAnimation.Frame(1, 1, patch(2, 2, 5)),
        ]
        let large = TestAnimation(width: 90, height: 70, frames: [TestAnimation.Frame(3, 5, noise(80, 60))])
        // Frames that cover the canvas and declare no transparent index.
        let covering = TestAnimation(
            width: 12, height: 8, frames: (1...3).map { TestAnimation.Frame(0, 0, patch(12, 8, $0)) })
        return [
            AnimationSample("gif-every", every.gif(), every),
            AnimationSample("gif-every-interlaced-local", every.gif(interlaced: true, localPalettes: true), every),
            AnimationSample("gif-first-restored", restored.gif(), restored),
            AnimationSample("gif-first-cleared", cleared.gif(localPalettes: true), cleared),
            AnimationSample("gif-no-screen", restored.gif(screen: (0, 0)), restored, isLikePillow: false),
            AnimationSample("gif-small-screen", restored.gif(screen: (5, 20)), restored, isLikePillow: false),
            AnimationSample("gif-outside", outside.gif(), cut, isLikePillow: false),
            AnimationSample("gif-long-codes", large.gif(interlaced: true), large),
            AnimationSample("gif-beyond-palette", covering.gif(beyondPalette: true), covering, isLikePillow: false),
        ]
    }()

    /// A lossless sequence, whose frames are not composed.
    private static let avif: [AnimationSample] = {
        #if WITHOUT_AVIF
            return []
        #else
            let every = TestAnimation.everything(alphas: alphas)
            let avif = TestAVIF { ($0.hasAlpha, $0.keyInterval) = (true, 3) }
            return [AnimationSample("avif-alpha", avif.sequence(every.shown), every, isLikePillow: false)]
        #endif
    }()

    private static let png: [AnimationSample] = {
        let every = TestAnimation.everything(alphas: alphas)
        let plain = TestAnimation.everything(alphas: [255, 0, 255])
        let (restored, cleared) = (first(.restore), first(.clear))
        return [
            AnimationSample("png-every", every.png(), every, isLikePillow: false),
            AnimationSample("png-every-opaque", plain.png(), plain),
            AnimationSample("png-interlaced", plain.png(interlaced: true, pieces: 3), plain, isLikePillow: false),
            AnimationSample("png-first-restored", restored.png(), restored),
            AnimationSample("png-first-cleared", cleared.png(pieces: 2), cleared),
            AnimationSample(
                "png-default-outside", plain.png(outside: patch(14, 10, 99), pieces: 2), plain, isLikePillow: false),
        ]
    }()

    private static let webp: [AnimationSample] = {
        let every = TestAnimation.everything([.keep, .clear], alphas: alphas, grid: 2)
        let plain = TestAnimation.everything([.keep, .clear], alphas: [255, 0, 255], grid: 2)
        return [
            AnimationSample("webp-every", every.webp, every, isLikePillow: false),
            AnimationSample("webp-every-opaque", plain.webp, plain),
            AnimationSample("webp-first-cleared", first(.clear).webp, first(.clear)),
        ]
    }()

    private static func noise(_ width: Int, _ height: Int) -> TestPicture {
        var random = SplitMix64(state: 5)
        return TestPicture(width: width, height: height) { _, _ in
            SIMD4(UInt8.random(in: 0..<200, using: &random), 7, 9, 255)
        }
    }
}

func failure(
    _ file: [UInt8], _ frames: FrameSelection, maxPixels: Int = 50_000_000, maxSourcePixels: Int = 300_000_000
) -> WireError? {
    failure { try Decoded(file, frames, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels) }
}

import IPCProtocol
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding

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
        return [
            AnimationSample("gif-every", every.gif(), every),
            AnimationSample("gif-every-interlaced-local", every.gif(interlaced: true, localPalettes: true), every),
            AnimationSample("gif-first-restored", restored.gif(), restored),
            AnimationSample("gif-first-cleared", cleared.gif(localPalettes: true), cleared),
            AnimationSample("gif-no-screen", restored.gif(screen: (0, 0)), restored, isLikePillow: false),
            AnimationSample("gif-small-screen", restored.gif(screen: (5, 20)), restored, isLikePillow: false),
            AnimationSample("gif-outside", outside.gif(), cut, isLikePillow: false),
            AnimationSample("gif-long-codes", large.gif(interlaced: true), large),
        ]
    }()

    /// A lossless sequence, whose frames are not composed.
    private static let avif: [AnimationSample] = {
        #if WITHOUT_AVIF
            return []
        #else
            let every = TestAnimation.everything(alphas: alphas)
            var avif = TestAVIF()
            (avif.hasAlpha, avif.keyInterval) = (true, 3)
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

/// Decodes the frames of `file` that `job` requests, and their timing.
func decodeFrames(_ file: [UInt8], for job: DecodeJob) throws -> (pictures: [TestPicture], timing: AnimationTiming?) {
    let decoded = try Decoded(file, for: job)
    return (decoded.pictures, decoded.result.timing)
}

/// Decodes the frames of `file` that `transform` requests, and their timing.
func decodeFrames(
    _ file: [UInt8], with transform: Transform
) throws -> (pictures: [TestPicture], timing: AnimationTiming?) {
    try decodeFrames(file, for: DecodeJob(id: 1, transform: transform))
}

/// Decodes the frames of `file` to straight RGBA.
func decodeFrames(
    _ file: [UInt8], _ frames: FrameSelection = .all, width: Int? = nil, maxPixels: Int = 50_000_000,
    maxSourcePixels: Int = 300_000_000
) throws -> (pictures: [TestPicture], timing: AnimationTiming?) {
    let transform = Transform(width: width, alpha: .straight, frames: frames)
    return try decodeFrames(
        file, for: DecodeJob(id: 1, transform: transform, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels))
}

/// Returns the error of decoding frames of `file`; nil if it succeeds.
func failure(
    _ file: [UInt8], _ frames: FrameSelection, maxPixels: Int = 50_000_000, maxSourcePixels: Int = 300_000_000
) -> WireError? {
    failure { try decodeFrames(file, frames, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels) }
}

import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// The timing, selection and cost limits of frames, and invalid animations.
struct AnimationLimitTests {
    private let small = TestAnimation(
        width: 8, height: 6,
        frames: (0..<4).map {
            TestAnimation.Frame(0, 0, TestAnimation.patch(8, 6, $0, [255, 0]), delay: [0, 1, 2, 50][$0])
        }
    )

    private var files: [[UInt8]] { [small.gif(), small.png(), small.webp] }

    private func timing(_ file: [UInt8]) throws -> AnimationTiming? { try decodeFrames(file).timing }

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
            let (frames, timing) = try decodeFrames(file)
            #expect(frames == [picture])
            #expect(timing == AnimationTiming(delaysMs: [0], loops: 1))
            #expect(failure(file, .one(1))?.code == .badRequest)
        }
        #expect(try decodeFrames(picture.jpeg(.baseline)).timing == .still)
    }

    @Test func framesBeyondTheEndAreRefused() throws {
        let message = "The image has 4 frames; there is no frame with the index 7."
        for file in files {
            #expect(failure(file, .one(7)) == WireError(.badRequest, message))
            #expect(try decodeFrames(file, .one(3)).pictures == [small.shown[3]])
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

    /// What an opaque frame hides is not decoded for it.
    @Test func rangesBeginAtTheLastFullFrame() throws {
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
        let all = DecodeJob(id: 1, transform: Transform(frames: .all))
        let without = try plan(animation.png(), for: all).workingBytes
        animation.frames[2].disposal = .restore
        #expect(try plan(animation.png(), for: all).workingBytes == without + 8 * 6 * 4)
    }

    /// The first frame is available as soon as it is complete; all frames only when all are.
    @Test func truncatedFiles() throws {
        for file in files {
            let whole = try decodeFrames(file).pictures
            for count in 12..<file.count {
                let cut = Array(file.prefix(count))
                for selection in [FrameSelection.one(0), .one(2), .all] {
                    do {
                        let frames = try decodeFrames(cut, selection).pictures
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
        #expect(try decodeFrames(small.gif(trailer: false)).pictures == small.shown)
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
        let controls = (0..<file.count - 4).filter { file[$0..<$0 + 4].elementsEqual("fcTL".utf8) }
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
            #expect(try decodeFrames(broken, .one(1)).pictures == [small.shown[1]])
            // Without a first frame, the default image is decoded.
            #expect(try decode(changed(0, offset, value)) == small.shown[0])
            #expect(failure(changed(0, offset, value), .all)?.code == .decodeFailed)
        }
        var unsound = file
        unsound[controls[1] + 30] ^= 1
        #expect(failure(unsound, .all)?.code == .decodeFailed)
        let pixels = try #require((0..<file.count - 4).last { file[$0..<$0 + 4].elementsEqual("fdAT".utf8) })
        unsound = file
        unsound[pixels + 20] ^= 1
        #expect(failure(unsound, .one(3))?.code == .decodeFailed)
        #expect(failure(unsound, .one(2)) == nil)
    }

    @Test func declaredFramesThatAreMissing() throws {
        var file = small.png()
        let place = try #require((0..<file.count).first { file[$0..<$0 + 4].elementsEqual("acTL".utf8) })
        file.replaceSubrange(place - 4..<place + 16, with: TestPNG.chunk("acTL", [0, 0, 0, 9, 0, 0, 0, 0]))
        #expect(failure(file, .all)?.code == .decodeFailed)
        #expect(try decodeFrames(file, .one(3)).pictures == [small.shown[3]])
        #expect(failure(file, .one(8))?.code == .decodeFailed)
    }

    @Test func framesWithoutPixels() throws {
        var empty = small
        empty.frames[1].picture = TestPicture(width: 0, height: 0, bytes: [])
        let frames = try decodeFrames(empty.gif()).pictures
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
        #expect(try decodeFrames(most, .one(65_534)).pictures == [dot.picture])
        #expect(failure(most, .all)?.code == .tooManyPixels)
        #expect(failure(file(65_536), .one(0))?.code == .tooManyPixels)
        #expect(try decodeFrames(file(10_000)).timing?.delaysMs.count == 10_000)
        #expect(failure(file(10_001), .all)?.code == .tooManyPixels)
    }
}

import IPCProtocol
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// The parts of images that `cover` keeps, and the places of images on a canvas.
struct PositionTests {
    private func job(
        _ width: Int, _ height: Int, _ position: Position, steps: [Step] = [], crop: Crop? = nil,
        format: PixelFormat = .rgba8, frames: FrameSelection = .one(0)
    ) -> DecodeJob {
        let edits = Edits(crop: crop, steps: steps, position: position)
        return DecodeJob(
            id: 1,
            transform: Transform(
                width: width, height: height, fit: .cover, pixelFormat: format, alpha: .straight, frames: frames,
                edits: edits))
    }

    private func part(_ x: Int, _ y: Int, _ width: Int, _ height: Int, of picture: TestPicture) -> TestPicture {
        TestPicture(width: width, height: height) { column, row in picture[x + column, y + row] }
    }

    /// Grey noise over part of an even picture.
    private func noise(_ width: Int, _ height: Int, in area: Crop) -> TestPicture {
        var random = SplitMix64(state: 5)
        return TestPicture(width: width, height: height) { x, y in
            let isInside = (area.x..<area.x + area.width).contains(x) && (area.y..<area.y + area.height).contains(y)
            let value: UInt8 = isInside ? .random(in: 0...255, using: &random) : 128
            return SIMD4(value, value, value, 255)
        }
    }

    @Test(arguments: [
        (Position.focus(x: 0, y: 0), 0), (.focus(x: 0.3, y: 1), 5), (.center, 25), (.focus(x: 1, y: 0), 50),
    ]) func focalPoints(_ position: Position, _ start: Int) throws {
        let wide = TestPicture.scene(width: 100, height: 50)
        #expect(try decode(wide.png, for: job(50, 50, position)) == part(start, 0, 50, 50, of: wide))
        let high = TestPicture.scene(width: 50, height: 100)
        let turned = Position.focus(x: position.focus?.y ?? 0, y: position.focus?.x ?? 0)
        #expect(try decode(high.png, for: job(50, 50, turned)) == part(0, start, 50, 50, of: high))
        // Of the crop, not of the source.
        let crop = Crop(x: 10, y: 20, width: 30, height: 10)
        let cropped = part(10, 20, 30, 10, of: high)
        let expected = try decode(cropped.png, for: job(10, 10, position))
        #expect(try decode(high.png, for: job(10, 10, position, crop: crop)) == expected)
    }

    /// The focal point is one of the image as shown.
    @Test(arguments: 1...8) func everyOrientation(_ orientation: Int) throws {
        let picture = TestPicture.scene(width: 61, height: 33, transparent: true)
        let shown = picture.shown(orientation: orientation)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        for position in [Position.focus(x: 0.2, y: 0.1), .focus(x: 0.9, y: 0.7), .entropy, .attention] {
            for (width, height) in [(20, 30), (31, 12), (33, 33)] {
                let job = job(width, height, position)
                let difference = try decode(file, for: job).difference(from: try decode(shown.png, for: job))
                #expect(try #require(difference) <= 1, "\(position) \(width)×\(height)")
            }
        }
    }

    @Test func scaledJPEG() throws {
        let picture = TestPicture(width: 400, height: 200) { x, y in SIMD4(UInt8(x / 2), UInt8(y), 90, 255) }
        let scaled = try decode(picture.jpeg(.baseline), for: job(20, 20, .focus(x: 0.4, y: 0)))
        let expected = try decode(part(60, 0, 200, 200, of: picture).png, for: job(20, 20, .center))
        #expect(try #require(scaled.difference(from: expected)) <= 4)
    }

    @Test(arguments: [0, 17, 40, 70, 80]) func entropyKeepsTheNoise(_ place: Int) throws {
        let wide = noise(120, 40, in: Crop(x: place, y: 0, width: 40, height: 40))
        let result = try decode(wide.png, for: job(40, 40, .entropy))
        // One of eight slices is 10 pixels wide.
        let starts = (0...80).filter { part($0, 0, 40, 40, of: wide) == result }
        #expect(starts.count == 1 && abs(starts[0] - place) <= 10, "\(starts)")
    }

    @Test(arguments: [(0, 0), (100, 20), (150, 10)]) func attentionKeepsTheColour(_ place: (x: Int, y: Int)) throws {
        let picture = TestPicture(width: 180, height: 60) { x, y in
            (place.x..<place.x + 20).contains(x) && (place.y..<place.y + 20).contains(y)
                ? SIMD4(220, 40, 50, 255) : SIMD4(120, 120, 120, 255)
        }
        let result = try decode(picture.png, for: job(60, 60, .attention))
        let red = (0..<60 * 60).count { result[$0 % 60, $0 / 60].x == 220 }
        #expect(red == 400)
        // Without alpha it is not seen.
        let hidden = TestPicture(width: 180, height: 60) { x, y in
            let pixel = picture[x, y]
            return pixel.x == 220 ? SIMD4(220, 40, 50, 0) : (70..<80).contains(x) ? SIMD4(200, 30, 30, 255) : pixel
        }
        let other = try decode(hidden.png, for: job(60, 60, .attention))
        #expect((0..<60 * 60).count { other[$0 % 60, $0 / 60].x == 200 } == 600)
    }

    /// A search has the same result in every order of bytes, in an even image, and in one without a pixel to spare.
    @Test func searchesAreDeterministic() throws {
        for position in [Position.entropy, .attention] {
            let picture = TestPicture.scene(width: 131, height: 93, transparent: true)
            let result = try decode(picture.png, for: job(40, 70, position))
            #expect(try decode(picture.png, for: job(40, 70, position)) == result)
            #expect(try decode(picture.png, for: job(40, 70, position, format: .bgra8)).bgra == result)
            let even = TestPicture(width: 30, height: 90) { _, _ in SIMD4(9, 9, 9, 255) }
            #expect(try decode(even.png, for: job(30, 30, position)) == part(0, 0, 30, 30, of: even))
            for (width, height) in [(1, 1), (1, 9), (9, 1), (2, 1)] {
                let small = TestPicture.scene(width: width, height: height)
                #expect(try decode(small.png, for: job(1, 1, position)).bytes.count == 4)
                #expect(try decode(small.png, for: job(5, 4, position)).bytes.count == 80)
            }
        }
    }

    /// Steps follow the search, which is in the image without them.
    @Test func stepsFollowTheSearch() throws {
        let picture = TestPicture.scene(width: 120, height: 40, transparent: true)
        for position in [Position.entropy, .attention] {
            let found = try decode(picture.png, for: job(40, 40, position))
            for step in [Step.function(.invert, amount: 1), .rotate(degrees: 90), .circle] {
                let processed = try decode(picture.png, for: job(40, 40, position, steps: [step]))
                let alone = Transform(alpha: .straight, edits: Edits(crop: nil, steps: [step]))
                #expect(processed == (try decode(found.png, with: alone)))
            }
        }
    }

    @Test func positionsOnACanvas() throws {
        let picture = TestPicture.scene(width: 10, height: 20)
        let pad = Step.pad(width: 21, height: 23, color: Color(red: 1, green: 2, blue: 3))
        for (position, left, top) in [
            (Position.center, 5, 1), (.focus(x: 0, y: 1), 0, 3), (.focus(x: 1, y: 0), 11, 0),
            (.focus(x: 0.25, y: 0.75), 2, 2),
        ] {
            let transform = Transform(alpha: .straight, edits: Edits(crop: nil, steps: [pad], position: position))
            let padded = try decode(picture.png, with: transform)
            #expect(part(left, top, 10, 20, of: padded) == picture, "\(position)")
        }
    }

    /// The part does not jump from frame to frame.
    @Test func framesHaveThePartOfTheFirst() throws {
        let first = noise(60, 20, in: Crop(x: 40, y: 0, width: 20, height: 20))
        let second = noise(60, 20, in: Crop(x: 0, y: 0, width: 20, height: 20))
        let animation = TestAnimation(
            width: 60, height: 20,
            frames: [first, second].map { TestAnimation.Frame(0, 0, $0) })
        let frames = try decodeFrames(animation.png(), for: job(20, 20, .entropy, frames: .all)).pictures
        #expect(frames == [part(40, 0, 20, 20, of: first), part(40, 0, 20, 20, of: second)])
    }

    /// The image that covers the box counts, not only the box.
    @Test func theSearchedImageIsLimited() throws {
        var wide = job(10, 10, .attention)
        wide.maxPixels = 999
        let file = TestPicture.scene(width: 400, height: 40).png
        wide.maxSourcePixels = 1 << 20
        #expect(failure(file, for: wide) == .tooManyPixels)
        wide.maxPixels = 1000
        #expect(try decode(file, for: wide).bytes.count == 400)
    }
}

import IPCProtocol
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Compares processed images with a plain computation.
struct StepTests {
    private static let color = Color(red: 200, green: 40, blue: 90, alpha: 130)

    /// Lists of several steps, each with another size or memory before the next.
    @Test(arguments: 0..<40) func `random lists of steps make the planned size`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let several = Self.steps.flatMap { $0 }
        for _ in 0..<10 {
            let count = Int.random(in: 2...8, using: &random)
            let list = (0..<count).compactMap { _ in several.randomElement(using: &random) }
            let (width, height) = (Int.random(in: 1...40, using: &random), Int.random(in: 1...40, using: &random))
            let size = try #require(PixelGeometry(width: width, height: height))
            var raster = try Raster(size)
            unsafe raster.memory.bytes.initializeMemory(as: UInt8.self, repeating: 90)
            try StepSequence(Edits(crop: nil, steps: list), nil, .rgba8, isTransparent: true).apply(to: &raster)
            #expect(raster.geometry == list.reduce(size) { $1.result(of: $0) }, "\(list)")
            #expect(unsafe raster.memory.bytes.count == raster.geometry.bytes, "others go by the memory's size")
        }
    }

    static let steps: [[Step]] =
        [
            [.rotate(degrees: 90)], [.rotate(degrees: 180)], [.rotate(degrees: 270)], [.flip(.horizontal)],
            [.flip(.vertical)], [.blur(sigma: 0.1)], [.blur(sigma: 0.7)], [.blur(sigma: 1.9)], [.blur(sigma: 2)],
            [.blur(sigma: 6.5)], [.blur(sigma: 40)], [.sharpen(sigma: 1, amount: 1)], [.sharpen(sigma: 3, amount: 0.5)],
            [.hueRotate(degrees: 77)], [.hueRotate(degrees: -200)], [.tint(color)], [.round(radius: 7.5)],
            [.round(radius: 65_535)], [.round(radius: 1)], [.circle], [.pad(width: 60, height: 60, color: color)],
            [.pad(width: 1, height: 39, color: Color(red: 0, green: 0, blue: 0, alpha: 0))],
            [.background(Color(red: 1, green: 128, blue: 250))],
            // Several, in different orders.
            [.function(.sepia, amount: 0.8), .function(.contrast, amount: 1.5), .function(.opacity, amount: 0.5)],
            [.circle, .background(Color(red: 255, green: 255, blue: 255))],
            [.circle, .sharpen(sigma: 1, amount: 1)], [.circle, .rotate(degrees: 90)], [.circle, .blur(sigma: 3)],
            [.circle, .pad(width: 60, height: 60, color: color)], [.circle, .flip(.vertical)],
            [.flip(.horizontal), .function(.invert, amount: 1), .rotate(degrees: 90), .round(radius: 5)],
            [.pad(width: 50, height: 41, color: color), .blur(sigma: 3), .function(.grayscale, amount: 1)],
        ]
        + Step.Function.allCases.flatMap { function in
            [0.3, 1, function.amounts.upperBound].map { [.function(function, amount: $0)] }
        }

    /// With a transparent and an opaque source of odd size.
    @Test(arguments: steps) func everyStep(_ steps: [Step]) throws {
        for isTransparent in [true, false] {
            let picture = TestPicture.scene(width: 41, height: 29, transparent: isTransparent)
            let reference = StepReference(picture, steps)
            let expected = reference.picture
            let file = try picture.encoded(.png)
            let result = try decode(file, for: job(steps))
            #expect(try #require(result.difference(from: expected)) <= 2, "\(steps) \(isTransparent)")
            // The orders of bytes differ in nothing but the order of additions.
            let turned = try decode(file, for: job(steps, format: .bgra8))
            #expect(try #require(turned.bgra.difference(from: result)) <= 1)
            // Straight alpha is the same image.
            let straight = try decode(file, for: job(steps, alpha: .straight))
            #expect(try #require(StepReference(straight).picture.difference(from: result)) <= 1)
            if case .background = steps.last {
                #expect(result.bytes.enumerated().allSatisfy { $0.offset % 4 != 3 || $0.element == 255 })
            }
        }
    }

    @Test func stepsFollowScaling() throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let file = try picture.encoded(.png)
        for steps in Self.steps.prefix(12) + [[.function(.invert, amount: 1)]] {
            let scaled = Transform(width: 31, height: 17, fit: .fill, alpha: .straight)
            let reference = StepReference(try decode(file, with: scaled), steps)
            let transform = Transform(width: 31, height: 17, fit: .fill, edits: Edits(crop: nil, steps: steps))
            let result = try decode(file, with: transform)
            #expect(try #require(result.difference(from: reference.picture)) <= 2, "\(steps)")
        }
    }

    /// A constant stays constant, also with the largest blur and many of them.
    @Test func blurKeepsAConstant() throws {
        let picture = TestPicture(width: 37, height: 23) { _, _ in SIMD4(201, 3, 77, 255) }
        let file = try picture.encoded(.png)
        for sigma in [0.1, 1, 2, 30, 250] {
            let steps = [Step](repeating: .blur(sigma: sigma), count: Step.most)
            #expect(try decode(file, for: job(steps)) == picture)
        }
    }

    /// Large blurs compute with half the pixels: stripes of one pixel, noise and hard edges at the border, and all parities.
    @Test func largeBlursAreExact() throws {
        var random = SplitMix64(state: 1)
        for (width, height) in [(31, 40), (32, 32), (33, 32), (32, 33), (33, 33), (34, 70), (71, 36)] {
            let pictures = [
                TestPicture(width: width, height: height) { x, y in
                    SIMD4(x % 2 == 0 ? 255 : 0, y % 2 == 0 ? 255 : 0, (x + y) % 2 == 0 ? 0 : 255, 255)
                },
                TestPicture(width: width, height: height) { x, y in
                    SIMD4(x == 0 ? 255 : 0, y == 0 ? 255 : 0, x == width - 1 ? 255 : 0, y == height - 1 ? 255 : 90)
                },
                TestPicture(width: width, height: height) { _, _ in
                    SIMD4(.random(in: 0...255, using: &random), 200, 0, .random(in: 0...255, using: &random))
                },
            ]
            for picture in pictures {
                for sigma in [8, 9.5, 30] {
                    let reference = StepReference(picture, [.blur(sigma: sigma)])
                    let result = try decode(try picture.encoded(.png), for: job([.blur(sigma: sigma)]))
                    let difference = try #require(result.difference(from: reference.picture))
                    #expect(difference <= 2, "\(width)×\(height), sigma \(sigma)")
                }
            }
        }
    }

    @Test func oneRowAndOneColumn() throws {
        for (width, height) in [(1, 1), (1, 50), (50, 1), (2, 3), (5, 4)] {
            let picture = TestPicture.scene(width: width, height: height, transparent: true)
            for steps in Self.steps {
                let reference = StepReference(picture, steps)
                let result = try decode(try picture.encoded(.png), for: job(steps))
                #expect(try #require(result.difference(from: reference.picture)) <= 2, "\(steps) \(width)×\(height)")
            }
        }
    }

    /// An encoded result keeps the alpha that steps make or remove.
    @Test func encodedResultsHaveTheStepsAlpha() throws {
        let file = TestPicture.scene(width: 40, height: 40).jpeg(.baseline)
        for (step, isTransparent) in [(Step.circle, true), (.function(.invert, amount: 1), false)] {
            var job = job([step], alpha: .straight)
            job.encoding = Encoding(.png)
            let written = try Decoded(file, for: job).bytes
            // The colour type: with alpha or without.
            #expect(written[25] == (isTransparent ? 6 : 2))
            let expected = try decode(file, for: self.job([step], alpha: .straight))
            let result = try decode(written)
            #expect(
                result.bytes.enumerated().allSatisfy { offset, value in
                    // A transparent pixel has no colour.
                    expected.bytes[offset / 4 * 4 + 3] == 0 || value == expected.bytes[offset]
                })
        }
    }

    /// Sizes between the steps count, and the error names the step.
    @Test func everySizeIsLimited() throws {
        let file = TestPicture.gradient(width: 100, height: 50).png
        let clear = Color(red: 0, green: 0, blue: 0, alpha: 0)
        let pad = Step.pad(width: 65_535, height: 65_535, color: clear)
        let error = #expect(throws: WireError.self) {
            try decode(file, for: self.job([.function(.invert, amount: 1), pad, .circle]))
        }
        #expect(error?.code == .tooManyPixels)
        #expect(error?.message.hasPrefix("variant.steps[1] (pad) makes 65535 × 65535 pixels") == true)
        // Also with all the memory there is, the working memory is within the job's.
        var small = job([.pad(width: 5000, height: 5000, color: clear), .rotate(degrees: 90)])
        small.maxWorkingBytes = 100 << 20
        #expect(throws: WireError.self) { try decode(file, for: small) }
    }

    private func job(
        _ steps: [Step], format: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied
    ) -> DecodeJob {
        let edits = Edits(crop: nil, steps: steps)
        return DecodeJob(id: 1, transform: Transform(pixelFormat: format, alpha: alpha, edits: edits))
    }
}

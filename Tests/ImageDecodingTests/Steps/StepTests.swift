@testable import ImageDecoding

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
            let expected = StepReference(picture, steps).picture
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
        let file = try TestPicture.scene(width: 100, height: 80, transparent: true).encoded(.png)
        for steps in Self.steps.prefix(12) + [[.function(.invert, amount: 1)]] {
            let scaled = Transform(width: 31, height: 17, fit: .fill, alpha: .straight)
            let reference = StepReference(try decode(file, with: scaled), steps)
            let transform = Transform(width: 31, height: 17, fit: .fill, edits: Edits(crop: nil, steps: steps))
            let result = try decode(file, with: transform)
            #expect(try #require(result.difference(from: reference.picture)) <= 2, "\(steps)")
        }
    }

    @Test func `a constant stays constant, also with the largest blur and many of them`() throws {
        let picture = TestPicture(width: 37, height: 23) { _, _ in SIMD4(201, 3, 77, 255) }
        let file = try picture.encoded(.png)
        for sigma in [0.1, 1, 2, 30, 250] {
            let steps = [Step](repeating: .blur(sigma: sigma), count: Step.most)
            #expect(try decode(file, for: job(steps)) == picture)
        }
    }

    /// Large blurs compute with half the pixels: stripes of one pixel, noise and hard edges at the border, and all
    /// parities.
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

    @Test func `an encoded result keeps the alpha that steps make or remove`() throws {
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

    @Test func `sizes between the steps count, and the error names the step`() throws {
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

    private func job(_ steps: [Step], format: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied) -> DecodeJob {
        let edits = Edits(crop: nil, steps: steps)
        return DecodeJob(Transform(pixelFormat: format, alpha: alpha, edits: edits))
    }
}

/// Compares crops with the same part of the whole image.
struct CropTests {
    static let crops = [
        Crop(x: 0, y: 0, width: 131, height: 93), Crop(x: 0, y: 0, width: 1, height: 1),
        Crop(x: 130, y: 92, width: 1, height: 1), Crop(x: 17, y: 5, width: 60, height: 70),
        Crop(x: 3, y: 50, width: 128, height: 43), Crop(x: 0, y: 40, width: 131, height: 9),
        Crop(x: 100, y: 0, width: 7, height: 93), Crop(x: 64, y: 91, width: 16, height: 2),
    ]

    private func job(_ crop: Crop, _ width: Int? = nil, _ height: Int? = nil) -> DecodeJob {
        let edits = Edits(crop: crop, steps: [])
        return DecodeJob(Transform(width: width, height: height, fit: .fill, alpha: .straight, edits: edits))
    }

    private func part(_ crop: Crop, of picture: TestPicture) -> TestPicture {
        picture.part(crop.x, crop.y, crop.width, crop.height)
    }

    @Test(arguments: crops) func everyFormat(_ crop: Crop) throws {
        let picture = TestPicture.scene(width: 131, height: 93, transparent: true)
        let opaque = TestPicture.scene(width: 131, height: 93)
        let files = [
            try picture.encoded(.png), try picture.encoded(.webp), try opaque.encoded(.webp, lossless: false),
            opaque.jpeg(.baseline), opaque.jpeg(.progressive), opaque.jpeg(.cmyk),
            try opaque.encoded(.jpeg, quality: 80),
        ]
        for (index, file) in files.enumerated() {
            #expect(try decode(file, for: job(crop)) == part(crop, of: try decode(file)), "\(index)")
            // The placeholder, which is that of the whole image, changes no pixel.
            var sampled = job(crop)
            sampled.wantsPlaceholder = true
            #expect(try decode(file, for: sampled) == part(crop, of: try decode(file)), "\(index)")
        }
    }

    @Test(arguments: 1...8) func `the crop is a part of the image as shown`(_ orientation: Int) throws {
        let picture = TestPicture.gradient(width: 61, height: 33, transparent: true)
        let shown = picture.shown(orientation: orientation)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        for (x, y, width, height) in [(2, 3, 20, 25), (0, 0, 1, 33), (10, 5, 23, 7)] {
            let crop = Crop(x: x, y: y, width: width, height: height)
            #expect(try decode(file, for: job(crop)) == part(crop, of: shown))
            // Scaling takes nothing from outside the crop.
            let scaled = try decode(file, for: job(crop, 9, 11))
            let expected = try decode(part(crop, of: shown).png, for: scaledJob(9, 11))
            #expect(try #require(scaled.difference(from: expected)) <= 1)
        }
    }

    private func scaledJob(_ width: Int, _ height: Int) -> DecodeJob {
        DecodeJob(Transform(width: width, height: height, fit: .fill, alpha: .straight))
    }

    @Test func `a JPEG is decoded smaller for a small result of a crop, too`() throws {
        let picture = TestPicture(width: 400, height: 300) { x, y in SIMD4(UInt8(x / 2), UInt8(y / 2), 90, 255) }
        let file = picture.jpeg(.baseline)
        let crop = Crop(x: 33, y: 41, width: 301, height: 211)
        let scaled = try decode(file, for: job(crop, 30, 21))
        let expected = try decode(part(crop, of: try decode(file)).png, for: scaledJob(30, 21))
        #expect(try #require(scaled.difference(from: expected)) <= 3)
    }

    @Test func theMemoryIsThatOfTheCrop() throws {
        let file = TestPicture.scene(width: 1000, height: 2000).png
        let crop = Crop(x: 10, y: 1500, width: 20, height: 10)
        var job = job(crop)
        job.maxPixels = 1000
        let plan = try plan(file, for: job)
        #expect(plan.result == PixelGeometry(width: 20, height: 10))
        #expect(plan.workingBytes < file.count + (5 << 20))
        #expect(try decode(file, for: job).bytes.count == 800)
    }

    @Test func cropsThatLeaveTheImage() throws {
        let file = TestPicture.gradient(width: 20, height: 10).png
        for crop in [
            Crop(x: 20, y: 0, width: 1, height: 1), Crop(x: 0, y: 10, width: 1, height: 1),
            Crop(x: 1, y: 0, width: 20, height: 1), Crop(x: 0, y: 1, width: 1, height: 10),
            Crop(x: 65_535, y: 65_535, width: 65_535, height: 65_535), Crop(x: 0, y: 0, width: 21, height: 10),
        ] {
            let error = #expect(throws: WireError.self) { try decode(file, for: job(crop)) }
            #expect(error?.code == .badRequest)
            #expect(error?.message.hasPrefix("variant.crop leaves the image:") == true)
        }
    }
}

/// The parts of images that `cover` keeps, and the places of images on a canvas.
struct PositionTests {
    private func job(
        _ width: Int, _ height: Int, _ position: Position, steps: [Step] = [], crop: Crop? = nil,
        format: PixelFormat = .rgba8, frames: FrameSelection = .one(0)
    ) -> DecodeJob {
        let edits = Edits(crop: crop, steps: steps, position: position)
        return DecodeJob(
            Transform(
                width: width, height: height, fit: .cover, pixelFormat: format, alpha: .straight, frames: frames,
                edits: edits))
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
        #expect(try decode(wide.png, for: job(50, 50, position)) == wide.part(start, 0, 50, 50))
        let high = TestPicture.scene(width: 50, height: 100)
        let turned = Position.focus(x: position.focus?.y ?? 0, y: position.focus?.x ?? 0)
        #expect(try decode(high.png, for: job(50, 50, turned)) == high.part(0, start, 50, 50))
        // Of the crop, not of the source.
        let crop = Crop(x: 10, y: 20, width: 30, height: 10)
        let expected = try decode(high.part(10, 20, 30, 10).png, for: job(10, 10, position))
        #expect(try decode(high.png, for: job(10, 10, position, crop: crop)) == expected)
    }

    @Test(arguments: 1...8) func `the focal point is one of the image as shown`(_ orientation: Int) throws {
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
        let expected = try decode(picture.part(60, 0, 200, 200).png, for: job(20, 20, .center))
        #expect(try #require(scaled.difference(from: expected)) <= 4)
    }

    @Test(arguments: [0, 17, 40, 70, 80]) func entropyKeepsTheNoise(_ place: Int) throws {
        let wide = noise(120, 40, in: Crop(x: place, y: 0, width: 40, height: 40))
        let result = try decode(wide.png, for: job(40, 40, .entropy))
        // One of eight slices is 10 pixels wide.
        let starts = (0...80).filter { wide.part($0, 0, 40, 40) == result }
        #expect(starts.count == 1 && abs(starts[0] - place) <= 10, "\(starts)")
    }

    @Test(arguments: [(0, 0), (100, 20), (150, 10)]) func attentionKeepsTheColour(_ place: (x: Int, y: Int)) throws {
        let picture = TestPicture(width: 180, height: 60) { x, y in
            (place.x..<place.x + 20).contains(x) && (place.y..<place.y + 20).contains(y)
                ? SIMD4(220, 40, 50, 255) : SIMD4(120, 120, 120, 255)
        }
        let result = try decode(picture.png, for: job(60, 60, .attention))
        #expect((0..<60 * 60).count { result[$0 % 60, $0 / 60].x == 220 } == 400)
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
            #expect(try decode(even.png, for: job(30, 30, position)) == even.part(0, 0, 30, 30))
            for (width, height) in [(1, 1), (1, 9), (9, 1), (2, 1)] {
                let small = TestPicture.scene(width: width, height: height)
                #expect(try decode(small.png, for: job(1, 1, position)).bytes.count == 4)
                #expect(try decode(small.png, for: job(5, 4, position)).bytes.count == 80)
            }
        }
    }

    @Test func `steps follow the search, which is in the image without them`() throws {
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
            #expect(try decode(picture.png, with: transform).part(left, top, 10, 20) == picture, "\(position)")
        }
    }

    @Test func `the part does not jump from frame to frame`() throws {
        let first = noise(60, 20, in: Crop(x: 40, y: 0, width: 20, height: 20))
        let second = noise(60, 20, in: Crop(x: 0, y: 0, width: 20, height: 20))
        let animation = TestAnimation(
            width: 60, height: 20,
            frames: [first, second].map { TestAnimation.Frame(0, 0, $0) })
        let frames = try Decoded(animation.png(), for: job(20, 20, .entropy, frames: .all)).pictures
        #expect(frames == [first.part(40, 0, 20, 20), second.part(40, 0, 20, 20)])
    }

    @Test func `the image that covers the box counts, not only the box`() throws {
        var wide = job(10, 10, .attention)
        wide.maxPixels = 999
        let file = TestPicture.scene(width: 400, height: 40).png
        wide.maxSourcePixels = 1 << 20
        #expect(failure(file, for: wide) == .tooManyPixels)
        wide.maxPixels = 1000
        #expect(try decode(file, for: wide).bytes.count == 400)
    }
}

@testable import ImageDecoding

struct EncodedResultTests {
    private func encoded(
        _ file: [UInt8], _ format: Encoding.Format, _ transform: Transform = Transform(alpha: .straight),
        quality: Int = 95
    ) throws -> [UInt8] {
        return try Decoded(file, for: DecodeJob(transform, encoding: Encoding(format, quality: quality))).bytes
    }

    @Test func pngIsExact() throws {
        for transparent in [false, true] {
            let picture = TestPicture.gradient(width: 300, height: 200, transparent: transparent)
            #expect(try decode(encoded(picture.png, .png)) == picture)
            #expect(try decode(encoded(picture.encoded(.webp), .png)) == picture)
            let small = Transform(width: 50, alpha: .straight)
            #expect(try decode(encoded(picture.png, .png, small)) == decode(picture.png, with: small))
        }
    }

    @Test func opaqueImagesHaveNoAlpha() throws {
        // RGB is colour type 2 (PNG, section 11.2.1), stored after the size and depth.
        #expect(try encoded(TestPicture.gradient(width: 64, height: 64).jpeg(.baseline), .png)[25] == 2)
        #expect(try encoded(TestPicture.gradient(width: 64, height: 64, transparent: true).png, .png)[25] == 6)
    }

    @Test func orientationIsApplied() throws {
        let picture = TestPicture.gradient(width: 40, height: 30)
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoPNG: picture.png)
        for format in Encoding.Format.allCases {
            let again = try decode(encoded(file, format))
            #expect((again.width, again.height) == (30, 40))
            if format == .png { #expect(again == picture.shown(orientation: 6)) }
        }
    }

    @Test func lossyFormatsAreNear() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        for format in [Encoding.Format.jpeg, .webp] {
            let fine = try encoded(picture.png, format, quality: 95)
            #expect(try decode(fine).difference(from: picture, inSquaresOf: 16) <= 12, "\(format)")
            let noise = TestPicture.gradient(width: 300, height: 200)
            #expect(try encoded(noise.png, format, quality: 10).count < encoded(noise.png, format, quality: 95).count)
        }
    }

    /// Squares of opaque colours, and transparent ones, on a canvas of 4 × 4.
    private static let moving: TestAnimation = {
        let large = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let small = TestPicture.squares(columns: 2, rows: 1, side: 16)
        let hole = TestPicture(width: 32, height: 32) { x, _ in x < 16 ? .zero : SIMD4(250, 20, 90, 255) }
        return TestAnimation(
            width: 64, height: 64, loops: 3,
            frames: [
                .init(0, 0, large, .keep, delay: 7), .init(16, 32, small, .clear, delay: 30),
                .init(32, 0, hole, .clear, isBlended: false, delay: 1), .init(0, 48, small, .keep, delay: 120),
            ])
    }()

    private static let files = {
        // WebP restores nothing.
        var restoring = moving
        restoring.frames[2].disposal = .restore
        return ["gif": restoring.gif(), "png": restoring.png(), "webp": moving.webp]
    }()

    @Test(arguments: files.keys.sorted()) func animationsKeepFramesTimesAndLoops(_ format: String) throws {
        let file = try #require(Self.files[format])
        let (expected, timing) = try Decoded(file).shown
        let (frames, again) = try Decoded(encoded(file, .webp, Transform(alpha: .straight, frames: .all))).shown
        #expect(again == timing)
        #expect(frames.count == expected.count)
        for (frame, expected) in zip(frames, expected) {
            #expect(frame.difference(from: expected, inSquaresOf: 16) <= 12)
            // Alpha has no loss.
            #expect(stride(from: 3, to: frame.bytes.count, by: 4).allSatisfy { frame.bytes[$0] == expected.bytes[$0] })
        }
        // Scaled, cropped, and with multiplied alpha.
        let crop = Edits(crop: Crop(x: 16, y: 16, width: 48, height: 48), steps: [])
        for (transform, side) in [(Transform(width: 32, frames: .all), 8), (Transform(frames: .all, edits: crop), 16)] {
            let frames = try Decoded(try encoded(file, .webp, transform)).pictures
            var straight = transform
            straight.alpha = .straight
            let expected = try Decoded(file, with: straight).pictures
            #expect(frames.count == expected.count)
            for (frame, expected) in zip(frames, expected) {
                #expect(Self.multiplied(frame).difference(from: Self.multiplied(expected), inSquaresOf: side) <= 16)
            }
        }
    }

    /// An image with its colour multiplied by alpha: what is transparent has any colour.
    private static func multiplied(_ picture: TestPicture) -> TestPicture {
        picture.map { pixel in
            let colors = (0..<3).map { UInt8(Int(pixel[$0]) * Int(pixel.w) / 255) }
            return SIMD4(colors[0], colors[1], colors[2], pixel.w)
        }
    }

    /// The estimate holds for noise at the highest quality.
    @Test(arguments: [(400, 2), (400, 8), (40, 200)])
    func memoryOfAnAnimationIsWithinTheEstimate(side: Int, count: Int) throws {
        var random = SplitMix64(state: 3)
        let frames = (0..<count).map { _ in
            var words: [UInt64] = (0..<side * side / 2).map { _ in random.next() }
            let bytes = unsafe words.withUnsafeMutableBytes { unsafe Array($0) }
            return TestAnimation.Frame(0, 0, TestPicture(width: side, height: side, bytes: bytes), isBlended: false)
        }
        let bytes = TestAnimation(width: side, height: side, frames: frames).png()
        let job = DecodeJob(Transform(alpha: .straight, frames: .all), encoding: Encoding(.webp, quality: 100))
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        let (plan, result, _) = try worker.run(job, try memoryFile(bytes, isSealed: true))
        // No frame was left out.
        #expect(result.bytes > side * side * count)
        let peak = (try worker.kilobytes(of: "VmHWM") - idle) << 10
        #expect(peak <= plan.workingBytes + bytes.count, "\(peak) of \(plan.workingBytes)")
    }

    /// The pages of a TIFF are images of their own: the first is encoded, whatever the others would take.
    @Test func ofSeveralImagesTheFirstIsEncoded() throws {
        let geometry = try #require(PixelGeometry(width: 5000, height: 5000))
        let header = ImageHeader(format: .tiff, geometry: geometry, frameCount: 100)
        let webp = Encoding(.webp)
        let all = Transform(byteLimit: geometry.bytes, frames: .all)
        #expect(header.count(of: .all, as: webp) == 1)
        #expect(header.count(of: .all, as: nil) == 100)
        #expect(all.plan(for: header, as: webp)?.result == geometry)
        #expect(all.plan(for: header)?.result != geometry)
        let plan = DecodePlan(header: header, result: geometry, workingBytes: 0)
        #expect(plan.outputBytes(all, webp) == plan.outputBytes(Transform(), webp))
    }

    @Test func aFrameThatEqualsTheOneBeforeProlongsIt() throws {
        var moving = Self.moving
        moving.frames.insert(moving.frames[0], at: 1)
        let (frames, timing) = try Decoded(
            try encoded(moving.webp, .webp, Transform(alpha: .straight, frames: .all))
        ).shown
        #expect(frames.count == 4)
        let delays = try #require(Decoded(moving.webp).timing?.delaysMs)
        #expect(timing?.delaysMs == [delays[0] + delays[1]] + delays[2...])
    }

    @Test func delaysThatAreTooLongTogetherAreShortened() throws {
        var moving = Self.moving
        for index in moving.frames.indices { moving.frames[index].delay = 0xFF_FFFF }
        moving.frames = Array(repeating: moving.frames, count: 40).flatMap { $0 }
        let (_, timing) = try Decoded(
            try encoded(moving.webp, .webp, Transform(width: 16, alpha: .straight, frames: .all))
        ).shown
        #expect(timing?.delaysMs.allSatisfy { $0 == Int(Int32.max) / 160 } == true)
    }

    @Test func ofAStillFileAllFramesAreOne() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let all = Transform(alpha: .straight, frames: .all)
        #expect(try encoded(picture.png, .webp, all) == encoded(picture.png, .webp))
    }

    @Test func anAnimationWhoseFileWouldBeTooLargeIsRefused() throws {
        let output = try WritableBuffer(name: "test").descriptor
        let geometry = try #require(PixelGeometry(width: 64, height: 64))
        let raster = try PixelMemory(count: geometry.bytes)
        var number: UInt8 = 0
        let encoder = ImageEncoder(
            encoding: Encoding(.webp), geometry: geometry, pixelFormat: .rgba8, alpha: .straight)
        let error = #expect(throws: WireError.self) {
            try encoder.encodeAnimation(
                AnimationTiming(delaysMs: [100, 100, 100], loops: 0), in: raster, to: ResultFile(file: output),
                mostBytes: 100
            ) { () throws(WireError) in
                number += 80
                unsafe raster.bytes.initializeMemory(as: UInt8.self, repeating: number)
            }
        }
        #expect(error?.code == .tooManyPixels)
        #expect(try output.size() == 0)
    }

    @Test func `noise at the highest quality fits the buffer`() throws {
        var random = SplitMix64(state: 11)
        for (width, height) in [(1, 1), (8, 8), (300, 200)] {
            let noise = TestPicture(width: width, height: height) { _, _ in
                SIMD4(
                    .random(in: 0...255, using: &random), .random(in: 0...255, using: &random),
                    .random(in: 0...255, using: &random), .random(in: 0...255, using: &random))
            }
            let geometry = try #require(PixelGeometry(width: width, height: height))
            for format in Encoding.Format.allCases {
                let file = try encoded(noise.png, format, quality: 100)
                #expect(file.count <= Encoding.mostBytes(of: geometry))
                #expect(try decode(file).width == width)
            }
        }
    }

    /// A narrow image is encoded in blocks of 16 × 16, too.
    @Test func narrowestNoiseFitsToo() throws {
        var random = SplitMix64(state: 12)
        let noise = TestPicture(width: 2, height: 65_500) { _, _ in
            let bits = UInt8.random(in: 0...7, using: &random)
            return SIMD4(bits & 1 == 0 ? 0 : 255, bits & 2 == 0 ? 0 : 255, bits & 4 == 0 ? 0 : 255, 255)
        }
        let file = try encoded(noise.png, .jpeg, quality: 100)
        #expect(file.count > 9 * 2 * 65_500)
        #expect(file.count < 12 * 2 * 65_500)
    }

    @Test func memoryIsCounted() throws {
        let file = TestPicture.gradient(width: 300, height: 200).png
        let plain = try plan(file).workingBytes
        for format in Encoding.Format.allCases {
            let job = DecodeJob(Transform(), encoding: Encoding(format))
            #expect(try plan(file, for: job).workingBytes >= plain + 300 * 200 * 4)
        }
        var job = DecodeJob(id: 1, maxWorkingBytes: plain)
        job.encoding = Encoding(.webp)
        #expect(throws: WireError.self) { try plan(file, for: job) }
    }
}

struct EncoderTests {
    /// Encodes `picture`, whose bytes are stored as `pixelFormat` and `alpha` say.
    private func encode(
        _ picture: TestPicture, _ format: Encoding.Format, _ pixelFormat: PixelFormat, _ alpha: AlphaMode
    ) throws -> [UInt8] { try picture.encodedByWorker(Encoding(format, quality: 95), pixelFormat, alpha) }

    @Test func pngKeepsEveryPixel() throws {
        // Several bands and several steps of output.
        let picture = TestPicture.gradient(width: 700, height: 300, transparent: true)
        #expect(try decode(encode(picture, .png, .rgba8, .straight)) == picture)
        #expect(try decode(encode(picture.bgra, .png, .bgra8, .straight)) == picture)
        let premultiplied = picture.premultiplied
        let file = try encode(premultiplied, .png, .rgba8, .premultiplied)
        #expect(try decode(file, .rgba8, .premultiplied) == premultiplied)
    }

    @Test func jpegIsBlendedOverWhite() throws {
        let picture = TestPicture(width: 64, height: 32) { x, _ in SIMD4(200, 0, 0, x < 32 ? 0 : 255) }
        for (bytes, format) in [(picture, PixelFormat.rgba8), (picture.bgra, .bgra8)] {
            for alpha in [AlphaMode.premultiplied, .straight] {
                let source = alpha == .straight ? bytes : bytes.premultiplied
                let decoded = try decode(encode(source, .jpeg, format, alpha))
                let (left, right) = (decoded[10, 16], decoded[54, 16])
                #expect(left.x > 245 && left.y > 245 && left.z > 245 && left.w == 255)
                #expect(right.x > 190 && right.y < 12 && right.z < 12)
            }
        }
    }

    @Test func largeJPEGIsWrittenInSteps() throws {
        var random = SplitMix64(state: 3)
        let noise = TestPicture(width: 600, height: 500) { _, _ in
            SIMD4(.random(in: 0...255, using: &random), .random(in: 0...255, using: &random), 0, 255)
        }
        let file = try encode(noise, .jpeg, .rgba8, .straight)
        #expect(file.count > 200_000)
        #expect(try decode(file) == decode(noise.jpeg(.baseline)))
    }

    @Test func webpIsNear() throws {
        let picture = TestPicture.squares(columns: 4, rows: 4, side: 16)
        let decoded = try decode(encode(picture.bgra, .webp, .bgra8, .premultiplied))
        #expect(decoded.difference(from: picture, inSquaresOf: 16) <= 12)
    }

    @Test func sidesBeyondTheFormatAreRefused() throws {
        let picture = TestPicture(width: 16_384, height: 1) { _, _ in SIMD4(1, 2, 3, 255) }
        #expect(throws: WireError.self) { try encode(picture, .webp, .rgba8, .straight) }
        let wide = TestPicture(width: 65_535, height: 1) { _, _ in SIMD4(1, 2, 3, 255) }
        #expect(throws: WireError.self) { try encode(wide, .jpeg, .rgba8, .straight) }
        #expect(try decode(encode(wide, .png, .rgba8, .straight)) == wide)
    }
}

/// Pixels without alpha equal those computed from pixels with straight alpha.
struct PackedPixelTests {
    private static let colors = [Color.white, Color(red: 0, green: 0, blue: 0), Color(red: 12, green: 200, blue: 99)]

    /// Returns the bytes of all requested frames, and checks that they take the format's own size.
    private func bytes(
        _ file: [UInt8], _ format: PixelFormat, _ background: Color = .white,
        _ change: (inout Transform) -> Void = { _ in }
    ) throws -> [UInt8] {
        var transform = Transform(pixelFormat: format, alpha: .straight, background: background)
        change(&transform)
        let decoded = try Decoded(file, for: DecodeJob(transform))
        let frames = transform.frames.count(of: decoded.plan.header.frameCount)
        let size = frames * decoded.plan.result.pixels * format.bytesPerPixel
        // No larger than needed, and no smaller.
        #expect(decoded.plan.outputBytes(transform, nil) == size && decoded.result.bytes == size)
        return decoded.bytes
    }

    private func over(_ value: UInt8, _ under: UInt8, _ alpha: UInt8) -> UInt8 {
        let share = Int(alpha)
        let sum = Int(value) * share + Int(under) * (255 - share)
        return UInt8((2 * sum + 255) / 510)
    }

    /// Returns what `format` has of straight RGBA.
    private func packed(_ straight: [UInt8], _ format: PixelFormat, _ background: Color) -> [UInt8] {
        stride(from: 0, to: straight.count, by: 4).flatMap { start -> [UInt8] in
            let alpha = straight[start + 3]
            let (red, green, blue) = (
                over(straight[start], background.red, alpha), over(straight[start + 1], background.green, alpha),
                over(straight[start + 2], background.blue, alpha)
            )
            return format == .rgb8 ? [red, green, blue] : [Self.luma(red, green, blue)]
        }
    }

    private static func luma(_ red: UInt8, _ green: UInt8, _ blue: UInt8) -> UInt8 {
        let sum = 299 * Int(red) + 587 * Int(green) + 114 * Int(blue)
        return UInt8((sum + 500) / 1000)
    }

    private func compare(
        _ file: [UInt8], _ note: String, backgrounds: [Color] = colors, _ change: (inout Transform) -> Void = { _ in }
    ) throws {
        let straight = try bytes(file, .rgba8, .white, change)
        for background in backgrounds {
            for format in [PixelFormat.rgb8, .gray8] {
                let found = try bytes(file, format, background, change)
                #expect(found == packed(straight, format, background), "\(note), \(format.rawValue) over \(background)")
            }
        }
    }

    // MARK: Arithmetic

    /// Lengths around a block, and every value with every alpha.
    @Test func compositing() throws {
        for count in [1, 2, 63, 64, 65, 127, 128, 131] {
            let source = (0..<4 * count).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ $0 / 7) }
            for background in Self.colors { try check(source, background) }
        }
        // Opaque blocks beside one that is not, and a rest that is no block.
        for transparent in [0, 63, 64, 127, 128, 199] {
            let source = (0..<4 * 200).map { index in
                index % 4 < 3
                    ? UInt8(truncatingIfNeeded: index &* 151 &+ index / 7) : index / 4 == transparent ? 9 : 255
            }
            for background in Self.colors { try check(source, background) }
        }
        var every: [UInt8] = []
        for value in 0...255 { for alpha in 0...255 { every += [UInt8(value), 255 - UInt8(value), 77, UInt8(alpha)] } }
        for background in Self.colors { try check(every, background) }
    }

    private func check(_ source: [UInt8], _ background: Color) throws {
        for format in [PixelFormat.rgb8, .gray8] {
            let memory = try PixelMemory(count: source.count)
            unsafe memory.bytes.copyBytes(from: source)
            let packing = try #require(PixelPacking(Transform(pixelFormat: format, background: background)))
            #expect(unsafe Array(packing.pack(memory.bytes)) == packed(source, format, background))
        }
    }

    /// All colours whose luma is close to a half, and a grid of all others.
    @Test func lumaIsRoundedExactly() throws {
        var source: [UInt8] = []
        for red in 0...255 {
            for green in 0...255 {
                for blue in 0...255 {
                    let rest = (299 * red + 587 * green + 114 * blue) % 1000
                    if rest == 499 || rest == 500 || (red + green + blue) % 101 == 0 {
                        source += [UInt8(red), UInt8(green), UInt8(blue), 255]
                    }
                }
            }
        }
        try check(source, .white)
        #expect(PixelPacking(Transform(pixelFormat: .bgra8)) == nil)
    }

    // MARK: Images

    @Test(arguments: [(1, 1), (3, 2), (131, 93), (257, 40)]) func everyCodec(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: width, height: height, transparent: true)
        let opaque = TestPicture.scene(width: width, height: height)
        var files = [
            ("PNG", picture.png), ("lossless WebP", picture.webp()), ("WebP", picture.webp(lossless: false)),
            ("opaque WebP", opaque.webp(lossless: false)), ("JPEG", opaque.jpeg(.baseline)),
            ("progressive JPEG", opaque.jpeg(.progressive)), ("CMYK", opaque.jpeg(.cmyk)),
            (
                "interlaced PNG",
                TestPNG(width: width, height: height, kind: .grayAlpha, depth: 8, interlaced: true) {
                    x, y in [(x * 5 + y) % 256, (x * 3 + y * 7) % 256]
                }.file
            ),
        ]
        #if !WITHOUT_AVIF
            if width > 3 { files.append(("AVIF", TestAVIF().file(picture))) }
        #endif
        for (name, file) in files {
            try compare(file, name)
            try compare(file, "\(name) scaled", backgrounds: [.white]) {
                ($0.width, $0.height, $0.fit) = (29, 31, .fill)
            }
        }
    }

    @Test(arguments: 1...8) func everyOrientation(_ orientation: Int) throws {
        let picture = TestPicture.gradient(width: 1031, height: 151, transparent: true)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        try compare(file, "turned")
        try compare(file, "turned and scaled", backgrounds: [.white]) { $0.width = 77 }
    }

    @Test func cropAndSteps() throws {
        let file = TestPicture.scene(width: 131, height: 93, transparent: true).png
        let crop = Crop(x: 3, y: 5, width: 77, height: 51)
        let lists: [[Step]] = [
            [], [.function(.invert, amount: 1)], [.function(.opacity, amount: 0.5), .rotate(degrees: 90)],
            [.circle], [.pad(width: 101, height: 99, color: Color(red: 9, green: 8, blue: 7, alpha: 100))],
            [.blur(sigma: 3), .tint(Color(red: 255, green: 0, blue: 0, alpha: 128))],
        ]
        for steps in lists {
            try compare(file, "\(steps)", backgrounds: [.white]) { $0.edits = Edits(crop: nil, steps: steps) }
            try compare(file, "cropped \(steps)") { $0.edits = Edits(crop: crop, steps: steps) }
            try compare(file, "scaled \(steps)", backgrounds: [.white]) {
                $0.width = 41
                $0.edits = Edits(crop: crop, steps: steps)
            }
        }
    }

    @Test(arguments: AnimationSample.all) func allFrames(_ sample: AnimationSample) throws {
        try compare(sample.file, sample.testDescription) { $0.frames = .all }
        try compare(sample.file, sample.testDescription, backgrounds: [.white]) {
            ($0.frames, $0.width) = (.all, 5)
        }
    }

    @Test func `partial images have the requested format`() throws {
        let file = Array(TestPicture.scene(width: 131, height: 93).jpeg(.progressive))
        let source = try ImageSource(copying: Array(file.prefix(file.count / 2)), isPart: true)
        var job = DecodeJob(Transform(pixelFormat: .rgb8))
        job.partialBytes = file.count / 2
        #expect(try Decoded(source, for: job).bytes.count == 131 * 93 * 3)
    }

    @Test func `the placeholder is the same whatever the format, and a gray result has that of the colours`() throws {
        let file = TestPicture.scene(width: 131, height: 93, transparent: true).png
        let placeholders = try PixelFormat.allCases.map { format in
            return try Decoded(file, for: DecodeJob(Transform(width: 20, pixelFormat: format), wantsPlaceholder: true))
                .result.placeholder
        }
        #expect(placeholders[0] != nil)
        #expect(Set(placeholders).count == 1)
    }
}

/// Placeholders: average colour and ThumbHash.
struct PlaceholderTests {
    /// The images whose hashes below were computed by another implementation of ThumbHash.
    private static func sample(_ width: Int, _ height: Int, transparent: Bool) -> TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let alpha = transparent && x + y >= 30 ? 90 : 255
            return SIMD4(
                UInt8(x * 8 % 256), UInt8((x * x + y * 8) % 256), UInt8((x * 5 + y * y * 3) % 256), UInt8(alpha))
        }
    }

    private func placeholder(
        _ file: [UInt8], _ transform: Transform = Transform(), isWanted: Bool = true
    ) throws -> Placeholder? {
        return try Decoded(file, for: DecodeJob(transform, wantsPlaceholder: isWanted)).result.placeholder
    }

    @Test(arguments: [
        (32, 20, false, "HggOLJZwdodmd4h3iHZgiAqZiQ=="), (18, 30, true, "WYeFEwwsQCE1VkdQWg3pqnyIX3d1iXk="),
        (24, 24, true, "mqeJHQ4sQIU1h2ZYZ2BqDciKb3hPh3aKeA=="),
    ])
    func thumbHashEqualsTheReference(width: Int, height: Int, transparent: Bool, hash: String) throws {
        let picture = Self.sample(width, height, transparent: transparent)
        let cells = stride(from: 0, to: picture.bytes.count, by: 4).flatMap { place in
            let alpha = Double(picture.bytes[place + 3]) / 255
            return (0..<3).map { Double(picture.bytes[place + $0]) / 255 * alpha } + [alpha]
        }
        let frequencies = ImageFrequencies(
            of: cells, columnFactors: Array(repeating: 1, count: width), rowFactors: Array(repeating: 1, count: height))
        let encoded = ThumbHash.encode(frequencies, width: width, height: height)
        #expect(Placeholder(averageColor: .zero, thumbHash: encoded)?.thumbHash == hash)
        // An image with no more pixels than the grid has cells is hashed without averaging.
        #expect(try placeholder(picture.png)?.thumbHash == hash)
    }

    @Test func averageColourOfAllPixels() throws {
        let half = TestPicture(width: 300, height: 200) { x, _ in
            x < 150 ? SIMD4(200, 100, 0, 255) : SIMD4(0, 100, 50, 255)
        }
        #expect(try placeholder(half.png)?.averageColor == "#646419")
        // Transparent pixels do not contribute.
        let ghost = TestPicture(width: 300, height: 200) { x, _ in
            x < 150 ? SIMD4(200, 100, 0, 255) : SIMD4(0, 0, 255, 0)
        }
        #expect(try placeholder(ghost.png)?.averageColor == "#c8640080")
        let nothing = TestPicture(width: 5, height: 5) { _, _ in SIMD4(1, 2, 3, 0) }
        #expect(try placeholder(nothing.png)?.averageColor == "#00000000")
        // Cells of one and of two columns.
        let columns = TestPicture(width: 48, height: 48) { x, _ in SIMD4(x % 3 == 0 ? 240 : 0, 0, 90, 255) }
        #expect(try placeholder(columns.png)?.averageColor == "#50005a")
    }

    @Test(arguments: [1, 2, 3, 4, 5, 8, 16])
    func `sampling some of many rows does not alias with stripes of any period`(period: Int) throws {
        let stripes = TestPicture(width: 3, height: 4096) { _, y in
            y / period % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        let color = try #require(try placeholder(stripes.png)?.averageColor)
        #expect(try (100...155).contains(#require(Int(color.dropFirst().prefix(2), radix: 16))), "\(color)")
    }

    @Test func placeholderFollowsTheOrientation() throws {
        let picture = Self.sample(32, 20, transparent: false)
        for orientation in 1...8 {
            let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
            let shown = picture.shown(orientation: orientation)
            #expect(try placeholder(file) == placeholder(shown.png), "\(orientation)")
        }
    }

    @Test func placeholderDependsOnTheImageOnly() throws {
        let picture = Self.sample(32, 20, transparent: true)
        let plain = try #require(try placeholder(picture.png))
        #expect(try placeholder(picture.png, Transform(pixelFormat: .bgra8)) == plain)
        #expect(try placeholder(picture.png, Transform(width: 8, alpha: .straight)) == plain)
        #expect(try placeholder(picture.png, Transform(width: 5, height: 20, fit: .cover)) == plain)
        #expect(try placeholder(picture.png, isWanted: false) == nil)
        // A codec that makes it smaller itself rounds otherwise.
        let large = TestPicture.gradient(width: 1600, height: 1200).jpeg(.baseline)
        let (whole, small) = (try placeholder(large), try placeholder(large, Transform(width: 100)))
        let channels = { (color: String?) in
            stride(from: 1, to: 7, by: 2).map { start in
                color.flatMap { Int($0.dropFirst(start).prefix(2), radix: 16) } ?? -100
            }
        }
        for (one, other) in zip(channels(whole?.averageColor), channels(small?.averageColor)) {
            #expect(abs(one - other) <= 1)
        }
    }
}

@testable import ImageDecoding

/// Compares scaled results with the reference computation.
struct ScalingTests {
    static let sizes = [
        (100, 80), (99, 79), (50, 40), (33, 7), (7, 33), (3, 3), (1, 1), (1, 80), (100, 1), (101, 81), (150, 40),
        (40, 130), (250, 200), (300, 2), (2, 300),
    ]

    private func job(
        _ width: Int?, _ height: Int?, _ fit: Transform.Fit = .fill, alpha: AlphaMode = .premultiplied,
        format: PixelFormat = .rgba8
    ) -> DecodeJob {
        DecodeJob(Transform(width: width, height: height, fit: fit, pixelFormat: format, alpha: alpha))
    }

    @Test(arguments: sizes) func everySizeIsExact(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let expected = picture.scaled(to: width, height)
        let file = try picture.encoded(.png)
        let result = try decode(file, for: job(width, height))
        #expect(try #require(result.difference(from: expected)) <= 1)
        #expect(try decode(file, for: job(width, height, format: .bgra8)) == result.bgra)
        // Lossless WebP, scaled only by the filter.
        let webp = try decode(try picture.encoded(.webp), for: job(width, height))
        if width * 2 >= 100 || height * 2 >= 80 { #expect(try #require(webp.difference(from: expected)) <= 1) }
        let opaque = TestPicture.scene(width: 100, height: 80)
        let plain = try decode(try opaque.encoded(.png), for: job(width, height))
        #expect(try #require(plain.difference(from: opaque.scaled(to: width, height))) <= 1)
        #expect(plain.bytes.enumerated().allSatisfy { $0.offset % 4 != 3 || $0.element == 255 })
    }

    @Test(arguments: [(30, 30), (200, 50), (5, 60), (100, 30)])
    func coverCropsTheCentre(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let plan = try #require(Transform(width: width, height: height, fit: .cover).plan(for: picture.geometry))
        let expected = picture.scaled(to: width, height, crop: plan.crop)
        let result = try decode(try picture.encoded(.png), for: job(width, height, .cover))
        #expect(try #require(result.difference(from: expected)) <= 1)
    }

    @Test func coverWithoutScalingKeepsPixels() throws {
        let picture = TestPicture.scene(width: 101, height: 80)
        let result = try decode(try picture.encoded(.png), for: job(41, 80, .cover))
        #expect(result == TestPicture(width: 41, height: 80) { x, y in picture[x + 30, y] })
    }

    @Test func equalSizeKeepsPixels() throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let file = try picture.encoded(.png)
        for fit in Transform.Fit.allCases {
            #expect(try decode(file, for: job(100, 80, fit, alpha: .straight)) == picture)
        }
        #expect(try decode(file, for: job(1000, 800, .inside, alpha: .straight)) == picture)
    }

    @Test(arguments: 1...8) func orientationIsAppliedAfterScaling(_ orientation: Int) throws {
        let picture = TestPicture.scene(width: 90, height: 60, transparent: true)
        let shown = picture.shown(orientation: orientation)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: try picture.encoded(.png))
        for (width, height, fit) in [(31, 17, Transform.Fit.fill), (20, 40, .cover), (25, 25, .inside)] {
            let plan = try #require(Transform(width: width, height: height, fit: fit).plan(for: shown.geometry))
            let expected = shown.scaled(to: plan.result.width, plan.result.height, crop: plan.crop)
            #expect(try #require(decode(file, for: job(width, height, fit)).difference(from: expected)) <= 1)
        }
    }

    @Test func colourBesideTransparencyIsUnchanged() throws {
        // Transparent pixels are black, as most programs write them.
        let disc = TestPicture(width: 120, height: 120) { x, y in
            (x - 60) * (x - 60) + (y - 60) * (y - 60) < 2000 ? SIMD4(255, 120, 0, 255) : SIMD4(0, 0, 0, 0)
        }
        func worst(_ picture: TestPicture) -> Int {
            stride(from: 0, to: picture.bytes.count, by: 4).reduce(0) { worst, start in
                let pixel = picture.bytes[start..<start + 4].map { Int($0) }
                guard pixel[3] > 32 else { return worst }
                // At low alpha, one step of alpha is several steps of colour.
                return max(worst, max(255 - pixel[0], abs(pixel[1] - 120), pixel[2]) - 255 / pixel[3])
            }
        }
        for file in [
            try disc.encoded(.png), try disc.encoded(.webp), try disc.encoded(.webp, lossless: false, quality: 100),
        ] {
            // In lossy files colour has already bled into the disc, and the filter amplifies it.
            let most = 2 * worst(try decode(file)) + 1
            for side in [17, 50, 119, 200] {
                #expect(try worst(decode(file, for: job(side, side, alpha: .straight))) <= most, "\(side)")
            }
        }
    }

    @Test func premultipliedColourNeverExceedsAlpha() throws {
        let noise = TestPicture.gradient(width: 64, height: 64, transparent: true)
        for side in [5, 21, 63, 65, 150] {
            let result = try decode(try noise.encoded(.png), for: job(side, side))
            for start in stride(from: 0, to: result.bytes.count, by: 4) {
                #expect(result.bytes[start..<start + 3].allSatisfy { $0 <= result.bytes[start + 3] })
            }
        }
    }

    @Test(arguments: [
        (65_535, 1, 10, 10), (1, 65_535, 10, 10), (65_535, 1, 1, 300), (1, 65_535, 300, 1), (2, 65_535, 65_535, 2),
        (65_535, 2, 2, 65_535), (1, 1, 65_535, 9), (1, 1, 9, 65_535), (3, 2, 1, 1),
    ]) func extremeRatios(_ width: Int, _ height: Int, _ resultWidth: Int, _ resultHeight: Int) throws {
        // An image of one colour keeps it at every size.
        func plain(_ width: Int, _ height: Int) -> TestPicture {
            TestPicture(width: width, height: height, filledWith: [10, 200, 90, 255])
        }
        let file = try plain(width, height).encoded(.png)
        for fit in [Transform.Fit.fill, .cover] {
            #expect(try decode(file, for: job(resultWidth, resultHeight, fit)) == plain(resultWidth, resultHeight))
        }
    }

    @Test func interlacedEqualsNotInterlaced() throws {
        let picture = TestPicture.scene(width: 61, height: 47, transparent: true)
        let interlaced = TestPNG(picture, interlaced: true)
        #expect(try decode(interlaced.file, for: job(20, 20)) == decode(try picture.encoded(.png), for: job(20, 20)))
    }

    @Test func `scaled decoding detects damage after the last row that it needs`() throws {
        let picture = TestPicture.scene(width: 300, height: 200)
        let files = [
            try picture.encoded(.png), picture.jpeg(.baseline), picture.jpeg(.progressive),
            try picture.encoded(.webp), try picture.encoded(.webp, lossless: false),
        ]
        for file in files {
            for (size, fit) in [((20, 14), Transform.Fit.fill), ((200, 2), .cover)] {
                _ = try decode(file, for: job(size.0, size.1, fit))
                for cut in [file.count / 3, file.count / 2, file.count - file.count / 20] {
                    #expect(failure(Array(file.prefix(cut)), for: job(size.0, size.1, fit)) == .truncated)
                }
            }
        }
    }
}

/// Scaling of linear light instead of sRGB values.
struct LinearLightTests {
    private func scaled(
        _ picture: TestPicture, _ width: Int, _ height: Int, alpha: AlphaMode = .straight, isLight: Bool = true
    ) throws -> TestPicture {
        let transform = Transform(width: width, height: height, fit: .fill, alpha: alpha, isLight: isLight)
        return try decode(picture.png, with: transform)
    }

    /// Returns the light of an sRGB value (IEC 61966-2-1).
    private func light(_ byte: UInt8) -> Double {
        let value = Double(byte) / 255
        return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
    }

    private func meanLight(_ picture: TestPicture) -> Double {
        let bytes = stride(from: 1, to: picture.bytes.count, by: 4).map { picture.bytes[$0] }
        return bytes.reduce(0) { $0 + light($1) } / Double(bytes.count)
    }

    @Test func stripesKeepTheirLight() throws {
        let stripes = TestPicture(width: 64, height: 64) { _, y in
            y % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        // Half of the light is the sRGB value 188, half of the value 128.
        #expect(try abs(Int(scaled(stripes, 32, 32)[16, 16].y) - 188) <= 2)
        #expect(try abs(Int(scaled(stripes, 32, 32, isLight: false)[16, 16].y) - 128) <= 2)
        let scene = TestPicture.scene(width: 400, height: 300)
        for (width, height) in [(200, 150), (97, 61), (20, 15)] {
            let (kept, whole) = (try meanLight(scaled(scene, width, height)), meanLight(scene))
            #expect(abs(kept / whole - 1) < 0.01, "\(width): \(kept) of \(whole)")
        }
    }

    @Test func oneColourIsUnchanged() throws {
        for value in UInt8.min...UInt8.max {
            let color = SIMD4(value, 255 - value, value / 2, 255)
            let flat = TestPicture(width: 8, height: 8) { _, _ in color }
            #expect(try scaled(flat, 3, 5) == TestPicture(width: 3, height: 5) { _, _ in color }, "\(value)")
        }
        for alpha in [UInt8(1), 60, 128, 254] {
            let color = SIMD4(200, 30, 90, alpha)
            let flat = TestPicture(width: 8, height: 8) { _, _ in color }
            let expected = TestPicture(width: 3, height: 5) { _, _ in color }
            #expect(try scaled(flat, 3, 5).difference(from: expected) ?? 255 <= 1, "\(alpha)")
            let premultiplied = try scaled(flat, 3, 5, alpha: .premultiplied)
            #expect(premultiplied.difference(from: expected.premultiplied) ?? 255 <= 1, "\(alpha)")
        }
    }

    @Test func transparentColourDoesNotBleed() throws {
        let half = TestPicture(width: 64, height: 64) { x, _ in
            x < 32 ? SIMD4(255, 0, 0, 255) : SIMD4(0, 255, 0, 0)
        }
        let result = try scaled(half, 16, 16)
        for x in 0..<16 where result[x, 8].w > 0 { #expect(result[x, 8].y == 0, "\(x)") }
    }

    /// Codecs scale sRGB values, so they must not scale here.
    @Test func codecsDoNotScale() throws {
        let stripes = TestPicture(width: 256, height: 256) { x, _ in
            x % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        for file in [stripes.jpeg(.baseline, quality: 100), try stripes.encoded(.webp)] {
            let result = try decode(file, with: Transform(width: 16, alpha: .straight, isLight: true))
            #expect(abs(Int(result[8, 8].y) - 188) <= 4)
        }
    }

    @Test func withoutScalingTheOptionIsIgnored() {
        #expect(Transform(isLight: true) == Transform())
        #expect(Transform(width: 5, isLight: true) != Transform(width: 5))
        #expect(Transform(width: 5, isLight: true).canonical != Transform(width: 5).canonical)
    }
}

/// Limits on pixels, and estimates of working memory.
struct ScalingLimitTests {
    private static let picture = TestPicture.scene(width: 200, height: 150)

    private func job(
        _ transform: Transform = Transform(width: 20), maxPixels: Int = 1000, maxSourcePixels: Int = 30_000
    ) -> DecodeJob {
        DecodeJob(
            id: 1, transform: transform, maxPixels: maxPixels, maxSourcePixels: maxSourcePixels,
            maxWorkingBytes: 1 << 30)
    }

    private func code(_ file: [UInt8], _ job: DecodeJob) -> ErrorCode? { failure { try plan(file, for: job) }?.code }

    @Test func formatsDecodedByRowsMayBeLarger() throws {
        for file in [try Self.picture.encoded(.png), Self.picture.jpeg(.baseline), Self.picture.jpeg(.progressive)] {
            let plan = try plan(file, for: job())
            #expect((plan.result.width, plan.result.height) == (20, 15))
            #expect((plan.header.geometry.width, plan.header.geometry.height) == (200, 150))
            #expect(code(file, job(maxSourcePixels: 29_999)) == .tooManyPixels)
            // The result has its own limit, which also applies to the full size.
            #expect(code(file, job(Transform(width: 40))) == .tooManyPixels)
            #expect(code(file, job(Transform())) == .tooManyPixels)
        }
    }

    @Test func formatsDecodedAsAWholeMayNot() throws {
        let interlaced = TestPNG(width: 200, height: 150, kind: .gray, depth: 8, interlaced: true) { x, y in [x ^ y] }
        for file in [
            interlaced.file, try Self.picture.encoded(.webp), try Self.picture.encoded(.webp, lossless: false),
        ] {
            #expect(code(file, job()) == .tooManyPixels)
            #expect(code(file, job(maxPixels: 30_000)) == nil)
        }
    }

    @Test func tooLongSidesAreRefused() throws {
        let file = try TestPicture.scene(width: 2, height: 4).encoded(.png)
        #expect(code(file, job(Transform(width: 40_000, fit: .contain))) == .tooManyPixels)
    }

    @Test func workingMemoryIsEstimated() throws {
        // Large enough that the constant part of the estimate does not dominate.
        let (width, height) = (2000, 1500)
        let picture = TestPicture(
            width: width, height: height, bytes: [UInt8](repeating: 255, count: width * height * 4))
        let pixels = width * height
        func bytes(_ file: [UInt8], _ transform: Transform) throws -> Int {
            try plan(file, with: transform).workingBytes - file.count
        }
        let baseline = picture.jpeg(.baseline)
        let turned = TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: baseline)
        let (full, small) = (Transform(), Transform(width: 100))
        let plain = try bytes(baseline, full)
        #expect(plain < 8 << 20)
        #expect(try bytes(baseline, small) < 8 << 20)
        #expect(try bytes(turned, full) == plain + pixels * 4)
        // Two bytes per coefficient; 4:2:0 has 1.5 coefficients per pixel.
        #expect(try (pixels * 3...pixels * 3 + 8 << 20).contains(bytes(picture.jpeg(.progressive), small)))
        // The pixels of the bitstream and of the result, data per block, and tables.
        let lossless = try bytes(try picture.encoded(.webp), full)
        #expect((pixels * 8...pixels * 8 + 32 << 20).contains(lossless))
        #expect(try bytes(try picture.encoded(.webp), small) < lossless - pixels * 3)
        // A lower limit is refused before anything is allocated.
        let job = DecodeJob(id: 1, transform: full, maxWorkingBytes: lossless - 1)
        let file = try picture.encoded(.webp)
        #expect(failure { try plan(file, for: job) }?.code == .tooManyPixels)
    }
}

/// Scaling down an image that is decoded row by row takes little memory at any size.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ScalingMemoryTests {
    static let side = 10_000
    static let most = 32 << 10

    @Test func jpegOf100Megapixels() throws {
        let writer = try RowEncoder(jpeg: Self.geometry, .rgba8, quality: Encoding.usualQuality)
        let file = try Self.encode(with: writer)
        try measure(file)
        // For a thumbnail, most memory is the window of the file, which is released behind the decoder, and rows.
        try measure(file, side: 256, most: 2048)
    }

    @Test func pngOf100Megapixels() throws {
        let file = try Self.encode(with: RowEncoder(png: Self.geometry, .rgba8))
        // Exceeds the worker's limit, so it must release the bytes that it has read.
        #expect(try file.size() > Self.most << 10)
        try measure(file)
    }

    @Test func digestOfALargeFile() throws {
        let buffer = try WritableBuffer(name: "test")
        let part = [UInt8](repeating: 7, count: 1 << 20)
        for number in 0..<32 {
            try buffer.descriptor.write(part.span, at: number << 20)
        }
        let file = try buffer.seal().descriptor
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        try worker.order(.identify(job: 1), [file])
        guard case .identified(1, _, _, _) = try worker.next() else { throw WireError(.internal, "no digest") }
        // The pages of the file are released behind the digest. The kernel counts them inexactly.
        #expect(try worker.kilobytes(of: "VmHWM") - idle <= 8192)
    }

    private static let geometry = PixelGeometry(width: side, height: side)!

    /// Returns a sealed file of the image: incompressible noise at the top, stripes below.
    private static func encode(with writer: RowEncoder) throws -> FileDescriptor {
        let buffer = try WritableBuffer(name: "test")
        let file = buffer.descriptor
        let rows = 100
        let memory = try PixelMemory(count: rows * side * 4)
        let words = unsafe memory.bytes.bindMemory(to: UInt64.self)
        var (random, length) = (SplitMix64(state: 5), 0)
        for index in words.indices { unsafe words[index] = random.next() }
        for band in 0..<side / rows {
            if band == 12 { unsafe words.update(repeating: 0xFF00_40F0_FF80_FF20) }
            _ = unsafe writer.encode(memory.bytes, count: rows)
            length += try Self.append(writer, to: file, at: length)
        }
        _ = writer.finish()
        _ = try Self.append(writer, to: file, at: length)
        return try buffer.seal().descriptor
    }

    private static func append(_ writer: RowEncoder, to file: FileDescriptor, at offset: Int) throws -> Int {
        let bytes = unsafe writer.takeOutput()
        unsafe try file.write(bytes, at: offset)
        return bytes.count
    }

    /// `most`: the most kilobytes by which the worker may grow.
    private func measure(_ file: FileDescriptor, side: Int = 1024, most: Int = Self.most) throws {
        let worker = try TestWorker()
        let idle = try worker.kilobytes(of: "VmHWM")
        let (plan, result, _) = try worker.run(DecodeJob(Transform(width: side)), file)
        #expect(plan.result == PixelGeometry(width: side, height: side))
        #expect(result == DecodeResult(bytes: plan.result.bytes))
        // The result is written, not mapped, so it does not count as the worker's memory.
        let peak = try worker.kilobytes(of: "VmHWM") - idle
        #expect(peak <= most)
        #expect(plan.workingBytes <= Self.most << 10)
    }
}

/// Compares scaled results with Pillow, an independent implementation: visually equal to its LANCZOS or BOX filter.
@Suite(.enabled(if: Pillow.isInstalled, "python3 does not find Pillow (Debian: python3-pil)"))
struct PillowTests {
    typealias Sample = NamedFile<(picture: TestPicture, decibels: Double)>

    static let samples: [Sample] = {
        let opaque = TestPicture.scene(width: 400, height: 300)
        let transparent = TestPicture.scene(width: 400, height: 300, transparent: true)
        let file = { (picture: TestPicture, format: Encoding.Format, lossless: Bool) in
            (try? picture.encoded(format, lossless: lossless, quality: 90)) ?? []
        }
        return [
            Sample("PNG", file(opaque, .png, true), (opaque, 40)),
            Sample("PNG with alpha", file(transparent, .png, true), (transparent, 40)),
            Sample("JPEG", opaque.jpeg(.baseline, quality: 90), (opaque, 34)),
            Sample("JPEG, progressive", opaque.jpeg(.progressive, quality: 90), (opaque, 34)),
            Sample("WebP, lossy", file(opaque, .webp, false), (opaque, 34)),
            Sample("WebP, lossy with alpha", file(transparent, .webp, false), (transparent, 34)),
            Sample("WebP, lossless", file(opaque, .webp, true), (opaque, 34)),
            Sample("WebP, lossless with alpha", file(transparent, .webp, true), (transparent, 34)),
        ]
    }()

    /// Sizes from nearly the full one to one pixel, with every scaling factor of the codecs between them.
    static let sizes = [
        (390, 280), (250, 188), (200, 150), (125, 94), (99, 73), (64, 48), (40, 30), (25, 11), (10, 120), (3, 2),
        (1, 1), (500, 400),
    ]

    @Test(arguments: samples) func nearToPillow(_ sample: Sample) throws {
        let transforms = Self.sizes.flatMap { (width, height) in
            [Transform.Fit.fill, .cover].map { Transform(width: width, height: height, fit: $0) }
        }
        let plans = try transforms.map { try #require($0.plan(for: sample.expected.picture.geometry)) }
        let (smooth, plain) = (
            try Pillow.scale(sample.file, plans, filter: "LANCZOS"), try Pillow.scale(sample.file, plans, filter: "BOX")
        )
        for (index, transform) in transforms.enumerated() {
            let result = try decode(sample.file, with: transform)
            let decibels = max(result.decibels(against: smooth[index]), result.decibels(against: plain[index]))
            #expect(decibels >= sample.expected.decibels, "\(transform.canonical): \(decibels) dB")
        }
    }
}

extension TestPicture {
    /// The reference for scaling: for each pixel of the result, the sum of all premultiplied source pixels with their
    /// Lanczos weights, in double precision. Premultiplied.
    func scaled(to width: Int, _ height: Int, crop: Transform.Plan.Crop? = nil) -> TestPicture {
        let crop = crop ?? Transform(width: width, height: height, fit: .fill).plan(for: geometry)!.crop
        let across = Self.weights(of: self.width, crop.x, crop.width, count: width)
        let down = Self.weights(of: self.height, crop.y, crop.height, count: height)
        // Filters rows first; four values per pixel.
        var rows: [[SIMD4<Double>]] = []
        for y in 0..<self.height {
            let source = (0..<self.width).map { x in
                let pixel = SIMD4<Double>(self[x, y])
                let color = pixel * (pixel.w / 255)
                return SIMD4(color.x, color.y, color.z, pixel.w)
            }
            rows.append(across.map { weights in weights.reduce(.zero) { $0 + source[$1.place] * $1.weight } })
        }
        return TestPicture(width: width, height: height) { x, y in
            var sum = SIMD4<Double>.zero
            for (place, weight) in down[y] { sum += rows[place][x] * weight }
            // If alpha overshoots, colour is scaled back with it.
            if sum.w > 255 { sum *= 255 / sum.w }
            sum = sum.clamped(lowerBound: .zero, upperBound: SIMD4(repeating: min(max(sum.w, 0), 255)))
            return SIMD4<UInt8>(sum.rounded(.toNearestOrAwayFromZero))
        }
    }

    var geometry: PixelGeometry { PixelGeometry(width: width, height: height)! }

    private static func weights(
        of source: Int, _ origin: Double, _ extent: Double, count: Int
    ) -> [[(place: Int, weight: Double)]] {
        let step = extent / Double(count)
        let stretch = max(1, step)
        return (0..<count).map { index in
            let center = origin + (Double(index) + 0.5) * step
            let near = (0..<source).compactMap { place -> (place: Int, weight: Double)? in
                let x = (Double(place) + 0.5 - center) / stretch
                guard abs(x) < 3 else { return nil }
                return (place, x == 0 ? 1 : sin(x * .pi) / (x * .pi) * sin(x * .pi / 3) / (x * .pi / 3))
            }
            let sum = near.reduce(0) { $0 + $1.weight }
            return near.map { ($0.place, $0.weight / sum) }
        }
    }
}

import CImageCodecs

@testable import ImageDecoding

/// Embedded profiles: images are converted to sRGB.
struct ColorTests {
    static let colors = TestPicture(width: 64, height: 48) { x, y in
        SIMD4(UInt8(x * 4), UInt8(y * 5), UInt8((x * 7 + y * 3) & 0xFF), 255)
    }
    static let grays = TestPicture(width: 64, height: 48) { x, y in
        let gray = UInt8((x * 4 + y) & 0xFF)
        return SIMD4(gray, gray, gray, 255)
    }
    /// A CMYK image, 255 for no ink.
    static let inks = TestPicture(width: 64, height: 48) { x, y in
        SIMD4(UInt8(x * 4), UInt8(y * 5), UInt8(255 - x * 3), UInt8(255 - y * 4))
    }

    static func png(_ picture: TestPicture, _ kind: TestPNG.Kind) -> [UInt8] { TestPNG(picture, kind).file }

    /// With the largest difference from Pillow, which uses the same colour library but other decoders.
    static let samples: [NamedFile<Int>] = {
        let wide = TestProfile.wide()
        let gray = TestProfile.gray(gamma: 1.8)
        let webp = (try? colors.encoded(.webp)) ?? []
        let parts = TestProfile.inserted(wide, intoJPEG: colors.jpeg(.progressive), step: 100, reversed: true)
        return [
            NamedFile("PNG", TestProfile.inserted(wide, intoPNG: png(colors, .rgb)), 0),
            NamedFile("PNG, gray", TestProfile.inserted(gray, intoPNG: png(grays, .gray)), 0),
            NamedFile("JPEG", TestProfile.inserted(wide, intoJPEG: colors.jpeg(.baseline)), 2),
            NamedFile("JPEG, its profile in parts", parts, 2),
            NamedFile("JPEG, inks", TestProfile.inserted(TestProfile.cmyk, intoJPEG: inks.jpeg(.cmyk)), 2),
            NamedFile(
                "WebP", TestProfile.inserted(wide, intoWebP: webp, width: colors.width, height: colors.height), 0),
        ]
    }()

    @Test(.enabled(if: Pillow.isInstalled, "python3 does not find Pillow (Debian: python3-pil)"), arguments: samples)
    func conversionEqualsPillow(_ sample: NamedFile<Int>) throws {
        let expected = try Pillow.converted(sample.file, width: 64, height: 48)
        let picture = try decode(sample.file)
        #expect(try #require(picture.difference(from: expected)) <= sample.expected)
        #expect(try decode(sample.file, .bgra8) == picture.bgra)
    }

    @Test(arguments: samples) func confinedWorkersConvert(_ sample: NamedFile<Int>) throws {
        let worker = try TestWorker()
        let (plan, result, output) = try worker.run(DecodeJob(id: 1), try memoryFile(sample.file))
        #expect(result == DecodeResult(bytes: plan.result.bytes))
        #expect(try contents(of: output) == decode(sample.file).bytes)
    }

    @Test func `the conversion changes colours, and precedes scaling`() throws {
        let flat = TestPicture(width: 64, height: 64) { _, _ in SIMD4(200, 50, 50, 255) }
        let file = TestProfile.inserted(TestProfile.wide(), intoPNG: Self.png(flat, .rgb))
        let pixel = try decode(file)[5, 5]
        #expect(pixel.x > 205 && pixel.y < 45)
        let small = try decode(file, with: Transform(width: 4))
        #expect(small[1, 1] == pixel)
    }

    @Test func alphaIsUnchanged() throws {
        let picture = TestPicture(width: 32, height: 32) { x, y in SIMD4(200, 50, 50, UInt8(x * 8)) }
        let file = TestProfile.inserted(TestProfile.wide(), intoPNG: picture.png)
        let converted = try decode(file)
        #expect((0..<32).allSatisfy { converted[$0, 3].w == UInt8($0 * 8) })
        #expect(converted[20, 3].x > 205)
    }

    @Test func profileEqualToSRGBNeedsNoConversion() throws {
        let conversions = ColorConversions()
        for order in [CODEC_RGBA, CODEC_BGRA] {
            let conversion = try conversions.conversion(.bytes(TestProfile.srgbInAllButName), CODEC_SPACE_RGB, order)
            #expect(conversion.handle == nil)
            #expect(!conversion.ignoresProfile)
        }
        let file = TestProfile.inserted(TestProfile.srgbInAllButName, intoPNG: Self.png(Self.colors, .rgb))
        #expect(try decode(file) == Self.colors)
    }

    @Test func conversionsAreCached() throws {
        let conversions = ColorConversions()
        let profiles = (0..<ColorConversions.most + 1).map {
            ColorProfile.bytes(TestProfile.wide(gamma: 1.5 + Double($0) / 10))
        }
        func handle(_ index: Int) throws -> CodecHandle {
            try #require(try conversions.conversion(profiles[index], CODEC_SPACE_RGB, CODEC_RGBA).handle)
        }
        let first = try handle(0)
        for _ in 0..<2 { #expect(try handle(0) === first) }
        let others = try (1..<profiles.count).map(handle)
        for (index, other) in others.enumerated() {
            #expect(others[..<index].allSatisfy { $0 !== other } && other !== first)
        }
        // The least recently used one is evicted.
        for (index, other) in others.enumerated().reversed() { #expect(try handle(index + 1) === other) }
        #expect(try handle(0) !== first)
    }

    @Test func `an image with an unusable profile is treated as sRGB`() throws {
        let wide = TestProfile.wide()
        let jpeg = Self.colors.jpeg(.baseline)
        let png = Self.png(Self.colors, .rgb)
        let plain = (png: try decode(png), jpeg: try decode(jpeg))
        // The numbers of BT.2020 and PQ.
        let bright = Array("H.273\0".utf8) + [9, 16]
        let broken: [(name: String, file: [UInt8], picture: TestPicture)] = [
            ("no profile", TestProfile.inserted(Array("no profile".utf8), intoPNG: png), plain.png),
            ("numbers of light", TestProfile.inserted(bright, intoPNG: png), plain.png),
            ("numbers of light", TestProfile.inserted(bright, intoJPEG: jpeg), plain.jpeg),
            ("cut off", TestProfile.inserted(Array(wide.prefix(150)), intoPNG: png), plain.png),
            ("for gray", TestProfile.inserted(TestProfile.gray(gamma: 2), intoPNG: png), plain.png),
            ("for inks", TestProfile.inserted(TestProfile.cmyk, intoJPEG: jpeg), plain.jpeg),
            ("a part is missing", TestProfile.inserted(wide, intoJPEG: jpeg, step: 100, leavingOut: 1), plain.jpeg),
            ("not compressed", Self.withChunk(Array("name".utf8) + [0, 0] + wide, in: png), plain.png),
            ("unknown compression", Self.withChunk(Array("name".utf8) + [0, 1] + wide, in: png), plain.png),
            ("no name", Self.withChunk([0, 0] + wide, in: png), plain.png),
            ("nothing", Self.withChunk([], in: png), plain.png),
        ]
        for (name, file, picture) in broken {
            let image = try EncodedImage(try ImageSource(copying: file), for: DecodeJob(id: 1))
            #expect(image.ignoresProfile, "\(name)")
            #expect(try decode(file) == picture, "\(name)")
        }
        for file in [png, jpeg, TestProfile.inserted(wide, intoPNG: png)] {
            #expect(try !EncodedImage(try ImageSource(copying: file), for: DecodeJob(id: 1)).ignoresProfile)
        }
    }

    private static func withChunk(_ body: [UInt8], in png: [UInt8]) -> [UInt8] {
        png.prefix(33) + TestPNG.chunk("iCCP", body) + png.dropFirst(33)
    }

    @Test func `gAMA and cHRM without a profile are ignored, because viewers disagree about them`() throws {
        let file = Self.png(Self.colors, .rgb)
        let gamma = TestPNG.chunk("gAMA", [0, 0, 0xB1, 0x8F])
        let white = TestPNG.chunk("cHRM", (0..<8).flatMap { _ in [0, 0, 0x40, 0] as [UInt8] })
        #expect(try decode(file.prefix(33) + gamma + white + file.dropFirst(33)) == Self.colors)
    }

    @Test func profileBeyondTheLimitIsIgnored() throws {
        // Six megabytes of stored blocks.
        let long = [UInt8](repeating: 0, count: ColorProfile.longest + (2 << 20))
        let file = TestProfile.inserted(long, intoPNG: Self.png(Self.colors, .rgb))
        #expect(try EncodedImage(try ImageSource(copying: file), for: DecodeJob(id: 1)).ignoresProfile)
        #expect(try decode(file) == Self.colors)
    }
}

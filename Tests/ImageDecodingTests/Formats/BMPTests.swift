#if !WITHOUT_BMP
    struct BMPTests {
        private let picture = TestPicture.gradient(width: 13, height: 5)

        /// Colours of palettes, none of which are equal.
        private static func color(_ index: Int) -> SIMD4<UInt8> {
            SIMD4(UInt8(255 - index), UInt8(index), UInt8(index * 7 % 256), 255)
        }

        private static func palette(_ count: Int, size: Int = 4) -> [UInt8] {
            (0..<count).flatMap { index -> [UInt8] in
                let color = color(index)
                return [color.z, color.y, color.x] + (size == 4 ? [0] : [])
            }
        }

        @Test(arguments: [1, 2, 4, 8], [12, 16, 40, 52, 56, 64, 108, 124])
        func palettes(_ bits: Int, _ size: Int) throws {
            let index = { (x: Int, y: Int) in (x * 5 + y * 3) % (1 << bits) }
            let expected = TestPicture(width: 13, height: 5) { Self.color(index($0, $1)) }
            for isFromTop in size == 12 ? [false] : [false, true] {
                let file = TestBitmap.file(
                    TestBitmap.header(13, isFromTop ? -5 : 5, bits: bits, size: size),
                    palette: Self.palette(1 << bits, size: size == 12 ? 3 : 4),
                    TestBitmap.rows(13, 5, bits: bits, isFromTop: isFromTop, index))
                #expect(try decode(file) == expected)
                #expect(try decode(file, .bgra8) == expected.bgra)
            }
        }

        /// A palette of fewer colours than declared ends where the pixels begin; other indices are black.
        @Test func shortPalette() throws {
            let file = TestBitmap.file(TestBitmap.header(4, 1, bits: 8), palette: Self.palette(3), [0, 2, 3, 255])
            let shown = try decode(file)
            #expect(shown[1, 0] == Self.color(2) && shown[2, 0] == SIMD4(0, 0, 0, 255) && shown[3, 0] == shown[2, 0])
        }

        @Test func colors() throws {
            let bgr = { (x: Int, y: Int) in
                let pixel = picture[x, y]
                return Int(pixel.z) | Int(pixel.y) << 8 | Int(pixel.x) << 16
            }
            for (bits, size) in [(24, 12), (24, 40), (32, 40), (32, 108), (24, 124)] {
                // The fourth byte has no meaning, although it looks like alpha.
                let rows = TestBitmap.rows(13, 5, bits: bits) { bgr($0, $1) | 0x2A00_0000 }
                #expect(try decode(TestBitmap.file(TestBitmap.header(13, 5, bits: bits, size: size), rows)) == picture)
            }
        }

        @Test func sixteenBits() throws {
            let pixels = [0x7FFF, 0x7C00, 0x03E0, 0x001F, 0x8421, 0]
            let rows = TestBitmap.rows(6, 1, bits: 16) { x, _ in pixels[x] }
            let five = try decode(TestBitmap.file(TestBitmap.header(6, 1, bits: 16), rows))
            let channels = (0..<3).map { channel in (0..<6).map { five[$0, 0][channel] } }
            #expect(channels == [[255, 255, 0, 0, 8, 0], [255, 0, 255, 0, 8, 0], [255, 0, 0, 255, 8, 0]])
            let six = try decode(
                TestBitmap.file(
                    TestBitmap.header(6, 1, bits: 16, compression: 3, masks: [0xF800, 0x7E0, 0x1F]), rows))
            #expect((0..<6).map { six[$0, 0].x } == [123, 123, 0, 0, 132, 0])
            #expect((0..<6).map { six[$0, 0].y } == [255, 130, 125, 0, 134, 0])
        }

        /// Alpha counts where a mask says so, even if it is zero everywhere.
        @Test(arguments: [(40, 6), (56, 3), (108, 3), (124, 3)]) func alpha(_ size: Int, _ compression: Int) throws {
            let clear = TestPicture.gradient(width: 13, height: 5, transparent: true)
            // Alpha in the lowest byte.
            let masks = [0xFF00, 0xFF_0000, 0xFF00_0000, 0xFF]
            let header = TestBitmap.header(13, 5, bits: 32, compression: compression, size: size, masks: masks)
            let file = { (opacity: Int) in
                TestBitmap.file(
                    header,
                    TestBitmap.rows(13, 5, bits: 32) { x, y in
                        let pixel = clear[x, y]
                        return Int(pixel.w) & opacity | Int(pixel.x) << 8 | Int(pixel.y) << 16 | Int(pixel.z) << 24
                    })
            }
            #expect(try decode(file(255)) == clear)
            #expect(try decode(file(0)).bytes.allSatisfy { $0 == 0 } == false)
            #expect(try decode(file(0), .rgba8, .premultiplied).bytes.allSatisfy { $0 == 0 })
        }

        @Test func masksInSeveralParts() {
            let header = TestBitmap.header(1, 1, bits: 32, compression: 3, masks: [0xFF00FF, 0xFF00, 0])
            #expect(failure(TestBitmap.file(header, [0, 0, 0, 0])) == .decodeFailed)
        }

        /// Ten bits a channel.
        @Test func wideMasks() throws {
            let header = TestBitmap.header(1, 1, bits: 32, compression: 3, masks: [0x3FF << 20, 0x3FF << 10, 0x3FF])
            let shown = try decode(TestBitmap.file(header, little(1023 << 20 | 512 << 10 | 4, 4)))
            #expect(shown[0, 0] == SIMD4(255, 128, 1, 255))
        }

        /// The example of Microsoft's documentation.
        @Test func runs() throws {
            let steps: [UInt8] = [
                3, 4, 5, 6, 0, 3, 0x45, 0x56, 0x67, 0, 2, 0x78, 0, 2, 5, 1, 2, 0x78, 0, 0, 9, 0x1E, 0, 1,
            ]
            let file = TestBitmap.file(
                TestBitmap.header(20, 3, bits: 8, compression: 1), palette: Self.palette(256), steps)
            let shown = try decode(file)
            let rows: [[Int?]] = [
                [Int?](repeating: 0x1E, count: 9) + [Int?](repeating: nil, count: 11),
                [Int?](repeating: nil, count: 18) + [0x78, 0x78],
                [4, 4, 4, 6, 6, 6, 6, 6, 0x45, 0x56, 0x67, 0x78, 0x78] + [Int?](repeating: nil, count: 7),
            ]
            for (y, row) in rows.enumerated() {
                for (x, index) in row.enumerated() {
                    #expect(shown[x, y] == index.map(Self.color) ?? SIMD4(0, 0, 0, 255), "\(x), \(y)")
                }
            }
        }

        @Test func runsOfFourBits() throws {
            let steps: [UInt8] = [3, 4, 5, 6, 0, 6, 0x45, 0x56, 0x67, 0, 4, 0x78, 0, 1]
            let file = TestBitmap.file(
                TestBitmap.header(20, 1, bits: 4, compression: 2), palette: Self.palette(16), steps)
            let shown = try decode(file)
            let indices = [0, 4, 0, 0, 6, 0, 6, 0, 4, 5, 5, 6, 6, 7, 7, 8, 7, 8]
            for (x, index) in indices.enumerated() { #expect(shown[x, 0] == Self.color(index), "\(x)") }
            #expect(shown[18, 0] == SIMD4(0, 0, 0, 255))
        }

        /// Runs beyond the row are cut, moves beyond the image end it, and steps without pixels take no time.
        @Test func hostileRuns() throws {
            let header = TestBitmap.header(3, 2, bits: 8, compression: 1)
            let file = { (steps: [UInt8]) in TestBitmap.file(header, palette: Self.palette(256), steps) }
            let cut = try decode(file([255, 1, 0, 0, 0, 2, 2, 0, 255, 3, 0, 1]))
            #expect((0..<3).map { cut[$0, 1] } == [Self.color(1), Self.color(1), Self.color(1)])
            let black = SIMD4<UInt8>(0, 0, 0, 255)
            #expect((0..<3).map { cut[$0, 0] } == [black, black, Self.color(3)])
            #expect(try decode(file([0, 2, 255, 255])) == TestPicture(width: 3, height: 2) { _, _ in black })
            let idle = [UInt8](repeating: 0, count: 4 << 20).enumerated().map { UInt8($0.offset % 4 == 1 ? 2 : 0) }
            #expect(failure(file(idle)) == .truncated)
        }

        @Test func `a profile in the file is applied`() throws {
            let pixels = TestBitmap.rows(2, 1, bits: 24) { _, _ in 0x2080E0 }
            var header = TestBitmap.header(2, 1, bits: 24, size: 124)
            let plain = try decode(TestBitmap.file(header, pixels))
            let profile = TestProfile.wide()
            header.replaceSubrange(56..<60, with: Array("DEBM".utf8))
            header.replaceSubrange(112..<120, with: little(124 + 8, 4) + little(profile.count, 4))
            let file = TestBitmap.file(header, pixels) + profile
            #expect(try decode(file) != plain)
            // One that leaves the file is not used.
            #expect(try decode(Array(file.dropLast())) == plain)
        }

        @Test func unsupported() {
            for (bits, compression) in [(24, 4), (0, 5), (0, 4), (8, 2), (4, 1), (3, 0), (24, 3), (64, 0)] {
                let file = TestBitmap.file(TestBitmap.header(2, 2, bits: bits, compression: compression), [0, 0, 0, 0])
                #expect(failure(file) == .unsupportedFormat)
            }
            #expect(failure(TestBitmap.file(TestBitmap.header(0, 2, bits: 24), [])) == .emptyImage)
            #expect(failure(TestBitmap.file(TestBitmap.header(-2, 2, bits: 24), [])) == .decodeFailed)
            #expect(failure(TestBitmap.file(TestBitmap.header(1 << 20, 2, bits: 1), [])) == .tooManyPixels)
        }
    }

    /// Icons and cursors: which of their images is shown, and how.
    struct IconTests {
        /// An image that its size tells from others.
        private static func picture(_ side: Int, transparent: Bool = false) -> TestPicture {
            TestPicture(width: side, height: side) { x, y in
                SIMD4(UInt8(side), UInt8(x * 3), UInt8(y * 3), transparent ? UInt8(255 - x) : 255)
            }
        }

        private func shown(
            _ file: [UInt8], _ width: Int? = nil, height: Int? = nil, fit: Transform.Fit = .inside,
            isLight: Bool = false
        ) throws -> TestPicture {
            let transform = Transform(width: width, height: height, fit: fit, alpha: .straight, isLight: isLight)
            return try decode(file, with: transform)
        }

        /// The image of the requested size is shown unchanged, with its alpha; of others the next larger one is scaled.
        @Test func nearestSize() throws {
            let sides = [32, 16, 64, 48]
            let images = sides.map { side in
                let picture = Self.picture(side, transparent: true)
                return side == 48 ? picture.png : TestBitmap.iconImage(picture)
            }
            for kind in [1, 2] {
                let file = TestBitmap.icon(images, kind: kind)
                for side in sides {
                    let picture = Self.picture(side, transparent: true)
                    #expect(try shown(file, side) == picture)
                    #expect(try shown(file, height: side) == picture)
                    #expect(try shown(file, side, isLight: true) == picture)
                }
                #expect(try shown(file) == Self.picture(64, transparent: true))
                for (side, source) in [(8, 16), (17, 32), (33, 48), (47, 48), (49, 64)] {
                    let picture = try shown(file, side)
                    #expect(picture.width == side && Int(picture[0, 0].x) == source, "\(side)")
                }
                let enlarged = try shown(file, 100, fit: .contain)
                #expect(enlarged.width == 100 && enlarged[50, 50].x == 64)
            }
        }

        /// The size of the icon is that of its largest image, whatever is requested: an area of it is one of the same
        /// image.
        @Test func size() throws {
            let file = TestBitmap.icon([16, 64].map { TestBitmap.iconImage(Self.picture($0)) })
            for width in [nil, 16, 20, 64] {
                let plan = try plan(file, with: Transform(width: width))
                #expect(plan.header.geometry == PixelGeometry(width: 64, height: 64) && plan.header.frameCount == 1)
            }
            let edits = Edits(crop: Crop(x: 32, y: 0, width: 32, height: 32), steps: [])
            let part = try decode(file, with: Transform(width: 8, alpha: .straight, edits: edits))
            #expect((part.width, part.height) == (8, 8))
            #expect(part[0, 0].x == 16 && abs(Int(part[0, 0].y) - 24) <= 3)
        }

        @Test func greatestDepth() throws {
            let (gray, color) = (Self.picture(16), TestPicture.gradient(width: 16, height: 16))
            for images in [
                [TestBitmap.iconImage(gray, bits: 24), TestBitmap.iconImage(color)],
                [TestBitmap.iconImage(color), TestBitmap.iconImage(gray, bits: 24)],
                [color.png, TestBitmap.iconImage(gray, bits: 24)],
            ] { #expect(try shown(TestBitmap.icon(images), 16) == color) }
        }

        @Test func `of another shape, an image is no reduction`() throws {
            let wide = TestPicture.gradient(width: 64, height: 33)
            let file = TestBitmap.icon([
                TestBitmap.iconImage(Self.picture(16)), TestBitmap.iconImage(wide),
                TestBitmap.iconImage(TestPicture.gradient(width: 32, height: 17)),
            ])
            #expect(try shown(file) == wide)
            #expect(try shown(file, 32).height == 17)
            let small = try shown(file, 16)
            #expect((small.width, small.height) == (16, 8))
        }

        @Test(arguments: [1, 4, 8, 16, 24, 32]) func masks(_ bits: Int) throws {
            let isClear = { (x: Int, y: Int) in (x + 2 * y) % 3 == 0 }
            let samples = min(1 << min(bits, 8), 256)
            let sample = { (x: Int, y: Int) in (x * 3 + y) % samples }
            let palette: [UInt8] = bits > 8 ? [] : (0..<samples).flatMap { [UInt8($0), 0, UInt8(255 - $0), 0] }
            // 32 bits without alpha have that of the mask, too.
            let image =
                TestBitmap.header(11, 14, bits: bits) + palette + TestBitmap.rows(11, 7, bits: bits, sample)
                + TestBitmap.rows(11, 7, bits: 1) { isClear($0, $1) ? 1 : 0 }
            let shown = try decode(TestBitmap.icon([image]))
            for y in 0..<7 {
                for x in 0..<11 {
                    let value = sample(x, y)
                    let blue = bits == 16 ? UInt8((value % 32 * 255 + 15) / 31) : UInt8(value)
                    let green = bits == 16 ? UInt8((value / 32 * 255 + 15) / 31) : 0
                    let color = SIMD4(bits > 8 ? 0 : UInt8(255 - value), green, blue, 255)
                    #expect(shown[x, y] == (isClear(x, y) ? SIMD4(0, 0, 0, 0) : color))
                }
            }
        }

        /// Alpha counts as soon as one pixel has some, and the mask no more, which may be missing then.
        @Test func alphaOrMask() throws {
            let picture = TestPicture(width: 2, height: 1) { x, _ in SIMD4(9, 8, 7, x == 0 ? 0 : 1) }
            let image = TestBitmap.iconImage(picture)
            #expect(try decode(TestBitmap.icon([image])) == picture)
            #expect(try decode(TestBitmap.icon([Array(image.dropLast(4))])) == picture)
            let opaque = TestBitmap.iconImage(picture, bits: 24)
            #expect(failure(TestBitmap.icon([Array(opaque.dropLast(4))])) == .truncated)
        }

        @Test func interlacedPNG() throws {
            let png = TestPNG(width: 9, height: 9, kind: .rgba, depth: 8, interlaced: true) { x, y in [x, y, 3, 200] }
            let shown = try decode(TestBitmap.icon([png.file]))
            #expect(shown[8, 7] == SIMD4(8, 7, 3, 200))
        }

        @Test func `images that are none, icons among them, are left out; what the file lacks is missing`() throws {
            let good = TestBitmap.iconImage(Self.picture(16))
            let icon = TestBitmap.icon([good])
            #expect(try shown(TestBitmap.icon([icon, good, Array("nonsense".utf8) + good])) == Self.picture(16))
            #expect(failure(TestBitmap.icon([icon])) == .decodeFailed)
            // 256 entries with the same image, and more than any icon has.
            let entry = Array(icon[6..<18])
            for (count, code) in [(256, nil), (1025, ErrorCode.unsupportedFormat)] {
                let directory: [UInt8] = [0, 0, 1, 0] + little(count, 2)
                let entries = [[UInt8]](repeating: entry + little(6 + 16 * count, 4), count: count).joined()
                #expect(failure(directory + entries + good) == code)
            }
            for place in [icon.count, icon.count - 3, 1 << 30, 1 << 32 - 1] {
                var file = TestBitmap.icon([good, good])
                file.replaceSubrange(34..<38, with: little(place == icon.count ? file.count : place, 4))
                let code = failure(file)
                #expect(code == .truncated || place == icon.count - 3, "\(place): \(String(describing: code))")
                #expect(try decode(file, with: Transform(alpha: .straight, acceptsDamage: true)) == Self.picture(16))
            }
            // A size of four gigapixels, which would be too many, of a file of some bytes.
            let lie = TestBitmap.header(65_535, 131_070, bits: 32) + [0, 0, 0, 0]
            #expect(failure(TestBitmap.icon([lie, good])) == .tooManyPixels)
            let large = TestBitmap.header(7000, 14_000, bits: 32) + [0, 0, 0, 0]
            #expect(failure(TestBitmap.icon([large, good])) == .truncated)
        }
    }

    /// PBM, PGM, PPM and PAM.
    struct PNMTests {
        private func pixels(_ file: String, _ bytes: [UInt8] = []) throws -> [SIMD4<UInt8>] {
            let shown = try decode(Array(file.utf8) + bytes)
            return (0..<shown.height).flatMap { y in (0..<shown.width).map { shown[$0, y] } }
        }

        private func gray(_ values: UInt8...) -> [SIMD4<UInt8>] { values.map { SIMD4($0, $0, $0, 255) } }

        @Test func text() throws {
            #expect(try pixels("P1\n# a bitmap\n3 2\n1 0 1\n#\n01 # 7\n1") == gray(0, 255, 0, 255, 0, 0))
            #expect(try pixels("P1 3 1 101") == gray(0, 255, 0))
            #expect(try pixels("P2\r\n3\t1 # w\n10\n0 5 10 \n") == gray(0, 128, 255))
            #expect(try pixels("P3 1 2 255 1 2 3 255 254 253") == [SIMD4(1, 2, 3, 255), SIMD4(255, 254, 253, 255)])
            #expect(try pixels("P3 1 1 255 0 256 4294967295") == [SIMD4(0, 255, 255, 255)])
        }

        @Test func bytes() throws {
            let bits = try pixels("P4 9 2\n", [0xA0, 0, 1, 0x80])
            #expect(bits.indices.filter { bits[$0] == SIMD4(0, 0, 0, 255) } == [0, 2, 16, 17])
            #expect(bits[1] == SIMD4(255, 255, 255, 255))
            #expect(try pixels("P5 3 1 255\n", [0, 99, 255]) == gray(0, 99, 255))
            #expect(try pixels("P5 3 1 4\n", [0, 2, 9]) == gray(0, 128, 255))
            #expect(try pixels("P5 2 1 65535\n", [0x80, 0x80, 0xFF, 0xFF]) == gray(128, 255))
            #expect(try pixels("P5 2 1 1000\n", [0, 100, 3, 0xE8]) == gray(26, 255))
            // The byte after the white space is a pixel, even if it looks like a comment.
            #expect(try pixels("P6 1 1 255\n#ab") == [SIMD4(35, 97, 98, 255)])
        }

        @Test func arbitraryMaps() throws {
            let file =
                "P7\nWIDTH 1\nHEIGHT 1\n# comment\nDEPTH %\nMAXVAL 255\nTUPLTYPE SOMETHING LONGER THAN 16\nENDHDR\n"
            let depth = { (depth: String) in file.split(separator: "%").joined(separator: depth) }
            #expect(try pixels(depth("1"), [7]) == gray(7))
            #expect(try pixels(depth("2"), [7, 8]) == [SIMD4(7, 7, 7, 8)])
            #expect(try pixels(depth("3"), [7, 8, 9]) == [SIMD4(7, 8, 9, 255)])
            #expect(try pixels(depth("4"), [7, 8, 9, 10]) == [SIMD4(7, 8, 9, 10)])
            #expect(failure(Array(depth("5").utf8) + [1, 2, 3, 4, 5]) == .unsupportedFormat)
            #expect(failure(Array("P7\nWIDTH 1\n".utf8)) == .truncated)
        }

        @Test func invalid() {
            for (file, code) in [
                ("P5 1 1 0\na", ErrorCode.decodeFailed), ("P5 1 1 65536\na", .decodeFailed),
                ("P5 0 1 255\na", .emptyImage), ("P5 99999999999999999999 1 255\na", .tooManyPixels),
                ("P5 1 -1 255\na", .decodeFailed), ("P3 1 1 255\n1 2 x", .decodeFailed),
                ("P1 2 2 1 1 2 a", .decodeFailed), ("P5 2 2 255\nabc", .truncated),
                ("P5 65535 65535 255\nabc", .truncated), ("P2 3 3 255\n1 2 3", .truncated), ("P6 12", .truncated),
            ] { #expect(failure(Array(file.utf8)) == code, "\(file)") }
        }
    }

    struct QOITests {
        private func file(_ width: Int, _ height: Int, channels: UInt8 = 4, space: UInt8 = 0, _ chunks: [UInt8])
            -> [UInt8]
        {
            TestBitmap.qoi(width, height, channels: channels, space: space, chunks + big(1, 8))
        }

        /// All chunks of the specification.
        @Test func chunks() throws {
            let chunks: [UInt8] = [
                // The first pixel again, RGB, RGBA.
                0xC0, 0xFE, 10, 20, 30, 0xFF, 1, 2, 3, 128,
                // Differences of -2, 1 and 0; of green -32 and 0 to it; and of green 31 and 7 and -8 to it.
                0b01_00_11_10, 0x80, 0x88, 0xBF, 0xF0,
                // The pixel of the second chunk, by its hash, three times.
                // (10 · 3 + 20 · 5 + 30 · 7 + 255 · 11) mod 64.
                9, 0xC1,
            ]
            let shown = try decode(file(3, 3, chunks))
            let expected: [SIMD4<UInt8>] = [
                SIMD4(0, 0, 0, 255), SIMD4(10, 20, 30, 255), SIMD4(1, 2, 3, 128), SIMD4(255, 3, 3, 128),
                SIMD4(223, 227, 227, 128), SIMD4(5, 2, 250, 128), SIMD4(10, 20, 30, 255), SIMD4(10, 20, 30, 255),
                SIMD4(10, 20, 30, 255),
            ]
            #expect((0..<9).map { shown[$0 % 3, $0 / 3] } == expected)
            // Alpha of three channels has no meaning.
            let opaque = try decode(file(3, 3, channels: 3, chunks))
            #expect((0..<9).map { opaque[$0 % 3, $0 / 3].w } == [UInt8](repeating: 255, count: 9))
        }

        @Test func `a statement that light is linear has no effect`() throws {
            let shown = try decode(file(1, 1, space: 1, [0xFF, 0, 55, 255, 55]))
            #expect(shown[0, 0] == SIMD4(0, 55, 255, 55))
        }

        @Test func invalid() {
            #expect(failure(file(1, 1, channels: 5, [0xC0])) == .decodeFailed)
            #expect(failure(file(1, 1, space: 2, [0xC0])) == .decodeFailed)
            #expect(failure(file(0, 1, [0xC0])) == .emptyImage)
            #expect(failure(file(255, 255, [0xFD])) == .truncated)
            #expect(failure(TestBitmap.qoi(1 << 32 - 1, 1, [0xFD])) == .tooManyPixels)
            #expect(failure(Array("qoif".utf8)) == .truncated)
        }
    }

    struct TGATests {
        private let picture = TestPicture.gradient(width: 7, height: 5, transparent: true)

        /// A file of `kind` whose rows begin in any corner: bit 5 of the descriptor is set for the top, bit 4 for the
        /// right.
        private func file(
            _ kind: UInt8, bits: UInt8, descriptor: UInt8 = 0x20, palette: [UInt8] = [], colorBits: UInt8 = 0,
            first: UInt8 = 0,
            comment: [UInt8] = [], isPacked: Bool = false, _ pixel: (Int, Int) -> [UInt8]
        ) -> [UInt8] {
            var pixels: [[UInt8]] = []
            for row in 0..<5 {
                for column in 0..<7 {
                    pixels.append(
                        pixel(descriptor & 0x10 == 0 ? column : 6 - column, descriptor & 0x20 == 0 ? 4 - row : row))
                }
            }
            let colors = palette.isEmpty ? 0 : palette.count / ((Int(colorBits) + 7) / 8)
            return [UInt8(comment.count), palette.isEmpty ? 0 : 1, kind, first, 0] + little(colors, 2)
                + [colorBits, 0, 0, 0, 0, 7, 0, 5, 0, bits, descriptor] + comment + palette
                + (isPacked ? Self.packed(pixels) : Array(pixels.joined()))
        }

        /// Runs of equal pixels and packets of up to ten others, which do not end with rows.
        private static func packed(_ pixels: [[UInt8]]) -> [UInt8] {
            var (result, index) = ([UInt8](), 0)
            while index < pixels.count {
                let run = pixels[index...].prefix { $0 == pixels[index] }.prefix(128).count
                let count = run > 1 ? run : min(10, pixels.count - index)
                result += [UInt8(count - 1) | (run > 1 ? 128 : 0)]
                result += run > 1 ? pixels[index] : Array(pixels[index..<index + count].joined())
                index += count
            }
            return result
        }

        private func bgra(_ x: Int, _ y: Int) -> [UInt8] {
            let pixel = picture[x, y]
            return [pixel.z, pixel.y, pixel.x, pixel.w]
        }

        @Test(arguments: [0, 0x10, 0x20, 0x30] as [UInt8], [false, true])
        func colors(_ corner: UInt8, _ isPacked: Bool) throws {
            let kind: UInt8 = isPacked ? 10 : 2
            let opaque = TestPicture.gradient(width: 7, height: 5)
            #expect(try decode(file(kind, bits: 32, descriptor: corner | 8, isPacked: isPacked, bgra)) == picture)
            #expect(
                try decode(file(kind, bits: 32, descriptor: corner, comment: [1, 2], isPacked: isPacked, bgra))
                    == opaque)
            #expect(
                try decode(
                    file(kind, bits: 24, descriptor: corner, isPacked: isPacked) { Array(bgra($0, $1).prefix(3)) })
                    == opaque)
            // Rows that are equal, for runs across them.
            let flat = try decode(
                file(kind, bits: 24, descriptor: corner, isPacked: isPacked) { x, y in [7, 8, UInt8(y / 2)] })
            #expect(flat == TestPicture(width: 7, height: 5) { _, y in SIMD4(UInt8(y / 2), 8, 7, 255) })
        }

        @Test(arguments: [15, 16] as [UInt8], [false, true]) func fiveBits(_ bits: UInt8, _ isPacked: Bool) throws {
            let shown = try decode(
                file(isPacked ? 10 : 2, bits: bits, isPacked: isPacked) { x, _ in
                    little(x | 31 << 10 | 0x8000, 2)
                })
            #expect(shown[6, 4] == SIMD4(255, 0, 49, 255))
        }

        @Test(arguments: [false, true]) func gray(_ isPacked: Bool) throws {
            let kind: UInt8 = isPacked ? 11 : 3
            let shown = try decode(file(kind, bits: 8, isPacked: isPacked) { x, y in [UInt8(x * 10 + y)] })
            #expect(shown[6, 3] == SIMD4(63, 63, 63, 255))
            let clear = try decode(
                file(kind, bits: 16, descriptor: 0x28, isPacked: isPacked) { x, y in [UInt8(x), UInt8(y)] })
            #expect(clear[6, 3] == SIMD4(6, 6, 6, 3))
        }

        @Test(arguments: [16, 24, 32] as [UInt8], [false, true])
        func palettes(_ colorBits: UInt8, _ isPacked: Bool) throws {
            let palette = (UInt8(0)..<7).flatMap { index -> [UInt8] in
                colorBits == 16
                    ? [index, 0] : Array([index, 50, 60, 70].prefix(Int(colorBits) / 8))
            }
            let shown = try decode(
                file(
                    isPacked ? 9 : 1, bits: 8, descriptor: 0x28, palette: palette, colorBits: colorBits, first: 3,
                    isPacked: isPacked
                ) { x, _ in [UInt8(x + 2)] })
            // The first index is below the palette's.
            #expect(shown[0, 0] == SIMD4(0, 0, 0, 255))
            let expected: SIMD4<UInt8> =
                colorBits == 16 ? SIMD4(0, 0, 41, 255) : SIMD4(60, 50, 5, colorBits == 32 ? 70 : 255)
            #expect(shown[6, 4] == expected)
        }

        @Test func `a footer of version 2.0 changes nothing`() throws {
            let footer: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0] + Array("TRUEVISION-XFILE.\0".utf8)
            #expect(try decode(file(2, bits: 32, descriptor: 0x28, bgra) + footer) == picture)
        }
    }

    /// Truncated and damaged files of these formats.
    struct SimpleDamageTests {
        static let samples: [DamageTests.Sample] = {
            let picture = TestPicture.gradient(width: 9, height: 6, transparent: true)
            let colors: [UInt8] = (0..<256).flatMap { [UInt8($0), 1, 2, 0] }
            let runs: [UInt8] = (0..<6).flatMap { [9, UInt8($0), 0, 0] } + [0, 1]
            let bgra = { (x: Int, y: Int) -> [UInt8] in
                let pixel = picture[x, y]
                return [pixel.z, pixel.y, pixel.x, pixel.w]
            }
            let pixels = (0..<54).map { bgra($0 % 9, $0 / 9) }
            let head: [UInt8] = [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 6, 0, 32, 0x28]
            let packets: [UInt8] = (0..<6).flatMap { row -> [UInt8] in [128 + 8] + pixels[9 * row] }
            let chunks = pixels.flatMap { [0xFF, $0[2], $0[1], $0[0], $0[3]] as [UInt8] }
            let tga: [UInt8] = head + pixels.joined()
            let packed: [UInt8] = [0, 0, 10] + head[3...] + packets
            let sample = { (name: String, file: [UInt8]) in DamageTests.Sample(name, file) }
            return [
                sample(
                    "BMP",
                    TestBitmap.file(TestBitmap.header(9, 6, bits: 24), TestBitmap.rows(9, 6, bits: 24) { $0 * $1 })),
                sample(
                    "BMP, runs",
                    TestBitmap.file(TestBitmap.header(9, 6, bits: 8, compression: 1), palette: colors, runs)),
                sample(
                    "ICO",
                    TestBitmap.icon([TestBitmap.iconImage(picture), TestPicture.gradient(width: 3, height: 2).png])),
                sample(
                    "ICO, PNG",
                    TestBitmap.icon([TestBitmap.iconImage(.gradient(width: 3, height: 2), bits: 24), picture.png])),
                sample("P4", Array("P4 9 6\n".utf8) + [UInt8](repeating: 0x99, count: 12)),
                sample("P6", Array("P6 9 6 255\n".utf8) + [UInt8](repeating: 99, count: 162)),
                sample("P3", Array(("P3 9 6 9\n" + String(repeating: "7 8 9\n", count: 54)).utf8)),
                sample("QOI", TestBitmap.qoi(9, 6, chunks + big(1, 8))),
                sample("TGA", tga),
                sample("TGA, runs", packed),
            ]
        }()

        private let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))

        /// A shorter file is `truncated`, or has all pixels. If damage is accepted, the pixels that there are are
        /// right.
        @Test(arguments: samples) func truncatedAnywhere(_ sample: DamageTests.Sample) throws {
            let whole = try decode(sample.file)
            for count in 1..<sample.file.count {
                let cut = Array(sample.file.prefix(count))
                guard ImageFormat(sniffing: cut) != nil else { continue }
                if let code = failure(cut) {
                    #expect(code == .truncated, "cut to \(count) of \(sample.file.count) bytes")
                } else {
                    #expect(try decode(cut) == whole, "cut to \(count) of \(sample.file.count) bytes")
                }
                guard let part = try? decode(cut, for: job), part.geometry == whole.geometry else { continue }
                for pixel in stride(from: 0, to: whole.bytes.count, by: 4) where part.bytes[pixel + 3] != 0 {
                    #expect(
                        part.bytes[pixel..<pixel + 4] == whole.bytes[pixel..<pixel + 4],
                        "\(count) bytes, pixel \(pixel / 4)")
                }
            }
        }

        /// Without its last bytes, a file has the other pixels.
        @Test(arguments: samples) func damageIsAccepted(_ sample: DamageTests.Sample) throws {
            let whole = try decode(sample.file)
            let part = try decode(Array(sample.file.dropLast(11)), for: job)
            let visible = stride(from: 3, to: part.bytes.count, by: 4).count { part.bytes[$0] != 0 }
            #expect(visible > 0)
            if part.geometry == whole.geometry { #expect(visible < 54) }
        }

        @Test(arguments: samples) func flippedBits(_ sample: DamageTests.Sample) { DamageTests().flippedBits(sample) }
    }
#endif

#if !WITHOUT_BMP
    import IPCProtocol
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_bmp

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

        /// The size of the icon is that of its largest image, whatever is requested: an area of it is one of the same image.
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

        /// Of another shape, an image is no reduction.
        @Test func shapes() throws {
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

        /// Images that are none, icons among them, are left out; what the file lacks is missing.
        @Test func hostileDirectories() throws {
            let good = TestBitmap.iconImage(Self.picture(16))
            let icon = TestBitmap.icon([good])
            #expect(try shown(TestBitmap.icon([icon, good, Array("nonsense".utf8) + good])) == Self.picture(16))
            #expect(failure(TestBitmap.icon([icon])) == .decodeFailed)
            // 256 entries with the same image, and more than any icon has.
            let entry = Array(icon[6..<18])
            for (count, code) in [(256, nil), (1025, ErrorCode.unsupportedFormat)] {
                let directory: [UInt8] = [0, 0, 1, 0] + TestBitmap.bytes(count, 2)
                let entries = [[UInt8]](repeating: entry + TestBitmap.bytes(6 + 16 * count, 4), count: count).joined()
                #expect(failure(directory + entries + good) == code)
            }
            for place in [icon.count, icon.count - 3, 1 << 30, 1 << 32 - 1] {
                var file = TestBitmap.icon([good, good])
                file.replaceSubrange(34..<38, with: TestBitmap.bytes(place == icon.count ? file.count : place, 4))
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
#endif

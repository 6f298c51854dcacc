#if !WITHOUT_BMP
    import IPCProtocol
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_bmp

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

        @Test(arguments: [1, 2, 4, 8], [12, 16, 40, 52, 56, 64, 108, 124]) func palettes(_ bits: Int, _ size: Int)
            throws
        {
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
            let shown = try decode(TestBitmap.file(header, TestBitmap.bytes(1023 << 20 | 512 << 10 | 4, 4)))
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

        /// A profile in the file is applied.
        @Test func profile() throws {
            let pixels = TestBitmap.rows(2, 1, bits: 24) { _, _ in 0x2080E0 }
            var header = TestBitmap.header(2, 1, bits: 24, size: 124)
            let plain = try decode(TestBitmap.file(header, pixels))
            let profile = TestProfile.rgb(TestProfile.wide, gamma: 2.2)
            header.replaceSubrange(56..<60, with: Array("DEBM".utf8))
            header.replaceSubrange(112..<120, with: TestBitmap.bytes(124 + 8, 4) + TestBitmap.bytes(profile.count, 4))
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
#endif

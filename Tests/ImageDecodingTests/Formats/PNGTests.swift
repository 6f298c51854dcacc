@testable import ImageDecoding

/// Compares every pixel, because PNG is lossless.
struct PNGTests {
    /// Interlaced or not.
    private static let variations = TestPNG.Kind.allCases.flatMap { kind in
        kind.depths.flatMap { depth in [false, true].map { (kind, depth, $0) } }
    }

    /// Samples that are not multiples of 257, to test the rounding of 16 bits.
    static func sample(_ x: Int, _ y: Int, _ channel: Int, _ depth: Int) -> Int {
        (x * 7919 + y * 104_729 + channel * 1_299_709) % (1 << depth)
    }

    static func eightBits(_ value: Int, _ depth: Int) -> UInt8 {
        let most = (1 << depth) - 1
        return UInt8((value * 255 + most / 2) / most)
    }

    @Test(arguments: variations)
    func everyKindAndDepthIsExact(_ kind: TestPNG.Kind, _ depth: Int, _ interlaced: Bool) throws {
        let (width, height) = (37, 21)
        var png = TestPNG(width: width, height: height, kind: kind, depth: depth, interlaced: interlaced) { x, y in
            (0..<kind.channels).map { Self.sample(x, y, $0, depth) }
        }
        let colors = (0..<(1 << min(depth, 8))).map { (index: Int) -> [UInt8] in
            [UInt8(index), UInt8(255 - index), UInt8(index / 2)]
        }
        if kind == .palette { png.setPalette(colors, alpha: [0, 128]) }
        let expected = TestPicture(width: width, height: height) { (x, y) -> SIMD4<UInt8> in
            let value = { (channel: Int) -> UInt8 in
                Self.eightBits(Self.sample(x, y, channel, depth), depth)
            }
            switch kind {
            case .gray: return SIMD4(value(0), value(0), value(0), 255)
            case .rgb: return SIMD4(value(0), value(1), value(2), 255)
            case .grayAlpha: return SIMD4(value(0), value(0), value(0), value(1))
            case .rgba: return SIMD4(value(0), value(1), value(2), value(3))
            case .palette:
                let index: Int = Self.sample(x, y, 0, depth)
                let color: [UInt8] = colors[index]
                let alpha: [UInt8] = [0, 128, 255]
                return SIMD4(color[0], color[1], color[2], alpha[min(index, 2)])
            }
        }
        #expect(try decode(png.file) == expected)
        #expect(try decode(png.file, .bgra8) == expected.bgra)
        #expect(try decode(png.file, .rgba8, .premultiplied) == expected.premultiplied)
    }

    @Test(arguments: [8, 16]) func transparentColour(depth: Int) throws {
        var gray = TestPNG(width: 4, height: 3, kind: .gray, depth: depth) { x, y in [x + y] }
        gray.before.append(TestPNG.chunk("tRNS", [0, 2]))
        var rgb = TestPNG(width: 4, height: 3, kind: .rgb, depth: depth) { x, y in [x, y, 7] }
        rgb.before.append(TestPNG.chunk("tRNS", [0, 1, 0, 2, 0, 7]))
        let (grayPicture, rgbPicture) = (try decode(gray.file), try decode(rgb.file))
        for y in 0..<3 {
            for x in 0..<4 {
                #expect(grayPicture[x, y].w == (x + y == 2 ? 0 : 255))
                #expect(rgbPicture[x, y].w == (x == 1 && y == 2 ? 0 : 255))
            }
        }
    }

    @Test(arguments: [1, 2, 3, 5, 8, 9]) func smallInterlacedImages(side: Int) throws {
        let picture = TestPicture.gradient(width: side, height: side + 1, transparent: true)
        #expect(try decode(TestPNG(picture, interlaced: true).file) == picture)
    }

    @Test func gammaChangesNothing() throws {
        var png = TestPNG(width: 3, height: 3, kind: .gray, depth: 8) { x, y in [x * 90 + y] }
        let plain = try decode(png.file)
        png.before.append(TestPNG.chunk("gAMA", [0, 1, 0x86, 0xA0]))
        #expect(try decode(png.file) == plain)
    }

    @Test func missingEndIsAccepted() throws {
        let picture = TestPicture.gradient(width: 30, height: 20)
        let file = picture.png
        // Without IEND, and without the CRC before it.
        for cut in [1, 12, 13, 16] { #expect(try decode(Array(file.dropLast(cut))) == picture) }
    }

    @Test func completeDataOfFewerRowsAreTruncated() {
        var png = TestPNG(width: 30, height: 20, kind: .gray, depth: 8) { x, _ in [x] }
        let shorter = TestPNG(width: 30, height: 10, kind: .gray, depth: 8) { x, _ in [x] }
        png.data = shorter.data
        #expect(failure(png.file) == .truncated)
        png.data = Array(png.data.prefix(100))
        #expect(failure(png.file) == .truncated)
    }

    @Test func wrongChecksumIsDamage() {
        var file = TestPicture.gradient(width: 30, height: 20).png
        file[file.count - 16] ^= 1
        #expect(failure(file) == .decodeFailed)
    }

    @Test func dimensionsAreCheckedFirst() {
        func forged(_ width: Int, _ height: Int) -> [UInt8] {
            var png = TestPNG(width: 1, height: 1, kind: .gray, depth: 8) { _, _ in [0] }
            png.declare(width, height)
            return png.file
        }
        for (width, height) in [(65_535, 65_535), (1 << 16, 1), (1 << 31 - 1, 1 << 31 - 1), (1 << 32 - 1, 1)] {
            #expect(failure(forged(width, height)) == .tooManyPixels, "\(width) × \(height)")
        }
        #expect(failure(forged(0, 1)) == .emptyImage)
        #expect(failure(TestPicture.gradient(width: 10, height: 10).png, maxPixels: 99) == .tooManyPixels)
        #expect(failure(TestPicture.gradient(width: 10, height: 10).png, maxPixels: 100) == nil)
    }
}

/// The rows of plain images, which libpng does not decode: filters, chunks and damage.
struct PNGRowsTests {
    /// An image with varying channels, in which each neighbour is the Paeth predictor of some pixel.
    private static func picture(_ width: Int, _ height: Int, _ kind: TestPNG.Kind) -> TestPicture {
        var random = SplitMix64(state: UInt64(width))
        return TestPicture(width: width, height: height) { x, y in
            let pixel = UInt64.random(in: 0 ... .max, using: &random)
            let noise = SIMD4<UInt8>(truncatingIfNeeded: SIMD4(pixel, pixel >> 8, pixel >> 16, pixel >> 24))
            let smooth = SIMD4(UInt8(truncatingIfNeeded: 3 * x + y), UInt8(truncatingIfNeeded: 5 * y), 7, 250)
            var color = x / 4 % 2 == 0 ? noise : smooth &+ (noise & 3)
            if kind == .rgb { color.w = 255 }
            return color
        }
    }

    /// Returns the filtered rows of `picture`, with the filters in `kinds` in turn.
    private static func rows(_ picture: TestPicture, _ kind: TestPNG.Kind, filters kinds: [UInt8]) -> [UInt8] {
        var rows: [UInt8] = []
        for y in 0..<picture.height {
            let filter = kinds[y % kinds.count]
            rows.append(filter)
            for x in 0..<picture.width {
                for channel in 0..<kind.channels {
                    func sample(_ x: Int, _ y: Int) -> Int { x < 0 || y < 0 ? 0 : Int(picture[x, y][channel]) }
                    let (left, up, corner) = (sample(x - 1, y), sample(x, y - 1), sample(x - 1, y - 1))
                    let sum = left + up - corner
                    let nearest = [left, up, corner].min { abs(sum - $0) < abs(sum - $1) }!
                    let guess = [0, left, up, (left + up) / 2, nearest, 0][Int(filter)]
                    rows.append(UInt8(truncatingIfNeeded: sample(x, y) - guess))
                }
            }
        }
        return rows
    }

    private static func file(
        _ picture: TestPicture, _ kind: TestPNG.Kind = .rgba, filters: [UInt8] = [0, 1, 2, 3, 4]
    ) -> TestPNG {
        var png = TestPNG(width: picture.width, height: picture.height, kind: kind, depth: 8) { _, _ in [] }
        png.data = TestPNG.stored(rows(picture, kind, filters: filters))
        return png
    }

    @Test(arguments: [TestPNG.Kind.rgb, .rgba], [1, 2, 3, 8, 61])
    func filtersAreUndone(_ kind: TestPNG.Kind, width: Int) throws {
        let picture = Self.picture(width, 23, kind)
        // Every filter also applies to the first row and follows every other filter.
        for filters: [UInt8] in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1], [2], [3], [4], [4, 2, 0, 3, 1]] {
            let file = Self.file(picture, kind, filters: filters).file
            #expect(try decode(file) == picture)
            #expect(try decode(file, .bgra8) == picture.bgra)
        }
    }

    /// Rows of several bands, where the last row of a band predicts the first of the next. The files exceed several
    /// `releaseStep`s, so that released bytes must not be needed again.
    @Test(arguments: 0..<4) func rowsOfSeveralBands(offset: Int) throws {
        let picture = Self.picture(350 + 7 * offset, 400, .rgb)
        #expect(RowBand.rows(of: PixelGeometry(width: picture.width, height: 400)!) < 100)
        let file = Self.file(picture, .rgb, filters: [0]).file
        #expect(file.count > 3 * ImageSource.releaseStep)
        #expect(try decode(file) == picture)
    }

    @Test func `later stages that modify a band do not affect the rows decoded after it`() throws {
        let picture = Self.picture(200, 200, .rgba)
        let file = Self.file(picture, filters: [4, 2]).file
        #expect(try decode(file, .rgba8, .premultiplied) == picture.premultiplied)
    }

    @Test(arguments: [1, 2, 7, 100, 65_536]) func chunksOfAnyLength(piece: Int) throws {
        let picture = Self.picture(20, 15, .rgba)
        var png = Self.file(picture)
        png.piece = piece
        #expect(try decode(png.file) == picture)
        png.before.append(TestPNG.chunk("IDAT", []))
        png.after.append(TestPNG.chunk("IDAT", []))
        #expect(try decode(png.file) == picture)
    }

    @Test func surplusDataAreIgnored() throws {
        let picture = Self.picture(20, 15, .rgba)
        var png = Self.file(picture)
        png.data = TestPNG.stored(Self.rows(picture, .rgba, filters: [0]) + [1, 2, 3])
        #expect(try decode(png.file) == picture)
        png = Self.file(picture)
        png.data += [1, 2, 3]
        #expect(try decode(png.file) == picture)
        // More than one read.
        png.data += [UInt8](repeating: 4, count: 40_000)
        #expect(try decode(png.file) == picture)
    }

    @Test func unknownFiltersAreDamage() {
        #expect(failure(Self.file(Self.picture(5, 5, .rgba), filters: [0, 0, 5]).file) == .decodeFailed)
    }

    /// With all data in one chunk, and with the Adler-32 in chunks of its own.
    @Test(arguments: [nil, 1, 4]) func wrongChecksums(piece: Int?) throws {
        let picture = Self.picture(9, 7, .rgb)
        var png = Self.file(picture, .rgb)
        png.piece = piece
        let sound = png.file
        png.data[png.data.count - 1] ^= 1
        #expect(failure(png.file) == .decodeFailed)
        // The CRC of each IDAT chunk, whose last byte precedes the length of the next chunk.
        for start in sound.places(of: "IDAT") + [sound.count - 8] where start > 41 {
            var file = sound
            file[start - 5] ^= 1
            #expect(failure(file) == .decodeFailed)
        }
    }

    /// Returns a file with the same image whose rows libpng decodes, because it has a tRNS chunk (of an unused colour).
    private static func forLibrary(_ png: TestPNG) -> TestPNG {
        var png = png
        png.before.append(TestPNG.chunk("tRNS", [0, 1, 0, 2, 0, 3]))
        return png
    }

    /// Flips every bit of IDAT data and checksums, except lengths and names, and truncates the data anywhere, once with
    /// wrong CRCs and once with only the Adler-32 wrong. If the file ends within the Adler-32, libpng reports
    /// truncation although all pixels are present.
    @Test(arguments: [nil, 60]) func damageIsReportedLikeLibpng(piece: Int?) throws {
        var png = Self.file(Self.picture(9, 7, .rgb), .rgb)
        png.piece = piece
        let (ours, theirs) = (png.file, Self.forLibrary(png).file)
        func expectSame(_ ours: [UInt8], _ theirs: [UInt8], _ what: String) {
            #expect(failure(ours) == failure(theirs), "\(what)")
            #expect((try? decode(ours)) == (try? decode(theirs)), "\(what)")
        }
        expectSame(ours, theirs, "undamaged")
        let heads = ours.places(of: "IDAT").map { $0 - 4..<$0 + 4 }
        for place in try #require(heads.first).lowerBound..<ours.count - 12 {
            if heads.contains(where: { $0.contains(place) }) { continue }
            var files = (ours, theirs)
            files.0[place] ^= 1
            files.1[place + theirs.count - ours.count] ^= 1
            expectSame(files.0, files.1, "bit of byte \(place)")
            if (ours.count - 20..<ours.count - 16).contains(place) {
                #expect(failure(Array(ours[..<place])) == nil)
            } else {
                expectSame(Array(ours[..<place]), Array(theirs.dropLast(ours.count - place)), "up to \(place)")
            }
        }
        for index in png.data.indices {
            var damaged = png
            damaged.data[index] ^= 1
            expectSame(damaged.file, Self.forLibrary(damaged).file, "bit of datum \(index)")
            damaged.data.removeSubrange(index...)
            expectSame(damaged.file, Self.forLibrary(damaged).file, "data up to \(index)")
        }
    }

    @Test func missingPixelsAreTruncated() {
        let picture = Self.picture(9, 7, .rgba)
        var png = Self.file(picture)
        // The Adler-32 is missing in a file that continues.
        png.data = png.data.dropLast(4)
        #expect(failure(png.file) == .truncated)
        // The data end properly, but one row too early.
        png.data = TestPNG.stored(Array(Self.rows(picture, .rgba, filters: [0]).dropLast(37)))
        #expect(failure(png.file) == .truncated)
        png.data = []
        #expect(failure(png.file) == .truncated)
    }

    @Test func damagedCompression() {
        var png = Self.file(Self.picture(9, 7, .rgba))
        // The length of the first block and its complement, an unknown method, a window that is too large.
        for (index, byte) in [(3, 0xFF), (2, 7), (0, 0x79), (0, 0x88)] as [(Int, UInt8)] {
            let sound = png.data
            png.data[index] = byte
            #expect(failure(png.file) == .decodeFailed)
            png.data = sound
        }
        // Another method, a window that is too large, a dictionary, all with correct check bits.
        for head: [UInt8] in [[0x77, 0x09], [0x88, 0x1C], [0x78, 0x20]] {
            png.data.replaceSubrange(..<2, with: head)
            #expect(failure(png.file) == .decodeFailed)
        }
    }
}

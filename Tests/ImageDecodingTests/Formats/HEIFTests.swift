#if !WITHOUT_HEIF
    /// Whether libheif has an encoder, which some distributions package separately.
    private let canEncode = !TestPicture.gradient(width: 64, height: 64).heif().isEmpty

    @Suite(.enabled(if: canEncode)) struct HEIFTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        /// The encoder's conversion of colours is one value off, also in 4:4:4 without loss. `make test-families` has
        /// files of which no value is.
        private func expect(_ file: [UInt8], is expected: TestPicture) throws {
            #expect(try decode(file).difference(from: expected, inSquaresOf: 1) <= 1)
            #expect(try decode(file, .bgra8) == decode(file).bgra)
            #expect(try decode(file, .bgra8, .premultiplied) == decode(file).premultiplied.bgra)
        }

        @Test func losslessIsNearlyExact() throws {
            try expect(picture.heif(), is: picture)
            try expect(transparent.heif(hasAlpha: true), is: transparent)
        }

        @Test func lossyIsSimilar() throws {
            let squares = TestPicture.squares(columns: 4, rows: 3, side: 16)
            #expect(try decode(squares.heif(quality: 80)).difference(from: squares, inSquaresOf: 16) <= 4)
        }

        @Test func header() throws {
            let plan = try plan(transparent.heif(hasAlpha: true))
            #expect(
                plan.header == ImageHeader(format: .heif, geometry: try #require(PixelGeometry(width: 46, height: 34))))
        }

        @Test(arguments: ["mif2mif2mif1heic", "MiHBmif1MiHBmiaf", "mif2mif2mif1miaf", "isomisomheicmif1"])
        func `a file is read by any compatible brand`(_ brands: String) throws {
            let bytes = picture.heif()
            #expect(bytes[3] == 28)
            let list = Array(brands.prefix(4).utf8) + [0, 0, 0, 0] + Array(brands.dropFirst(4).utf8)
            try expect(bytes[..<8] + list + bytes[28...], is: picture)
        }

        @Test(arguments: 1...8) func orientation(_ value: Int) throws {
            try expect(picture.heif(orientation: value), is: picture.shown(orientation: value))
        }

        @Test func truncated() throws {
            let bytes = picture.heif()
            expectDamage(bytes, stride(from: 40, to: bytes.count, by: 23))
        }

        /// A frame larger than the container declares is refused before it is allocated, alone or in a grid.
        @Test func frameLargerThanDeclared() throws {
            let bytes = TestPicture.gradient(width: 1600, height: 1200).heif(quality: 30)
            #expect(failure(TestBoxes.declaring(64, 64, in: bytes)) == .tooManyPixels)
        }

        /// Alpha of a grid's cells is shown in all sizes; that it multiplies colour, libheif does not tell.
        @Test func alphaOfEachCell() throws {
            let colors = TestPicture(width: 64, height: 64) { _, _ in SIMD4(200, 100, 50, 255) }
            let alpha = TestPicture(width: 64, height: 64) { x, _ in SIMD4(repeating: x < 32 ? 0 : 255) }
            let file = TestHEIFGrid.file(colors, side: 2, alpha: alpha)
            let shown = try decode(file)
            #expect(shown.width == 128 && shown[5, 5].w < 8 && shown[60, 5].w > 247 && shown[69, 90].w < 8)
            let small = try decode(file, with: Transform(width: 16, alpha: .straight))
            #expect(small[1, 1].w < 8 && small[6, 1].w > 247 && small[9, 9].w < 8)
            #expect(
                failure(TestHEIFGrid.file(colors, side: 2, alpha: alpha, isPremultiplied: true)) == .unsupportedFormat)
        }

        @Test func `only HEVC is decoded, whatever else libheif can decode`() throws {
            var bytes = picture.heif()
            for place in bytes.places(of: "hvc1") { bytes.replaceSubrange(place..<place + 4, with: Array("av01".utf8)) }
            #expect([.unsupportedFormat, .decodeFailed].contains(failure(bytes)))
        }

        @Test func structureIsLimited() throws {
            let bytes = picture.heif()
            let free: [UInt8] =
                [0x00, 0x60, 0x00, 0x00] + Array("free".utf8) + [UInt8](repeating: 0, count: 0x60_0000 - 8)
            #expect(
                failure(Array(bytes.prefix(Int(bytes[3]))) + free + bytes.dropFirst(Int(bytes[3]))) == .tooManyPixels)
        }
    }
#endif

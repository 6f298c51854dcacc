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

        @Test func `a grid that its cells do not cover is refused`() {
            let tile = TestPicture(width: 64, height: 64, filledWith: [200, 100, 50, 255])
            expectFailure(
                TestHEIFGrid.file(tile, side: 1, width: 300, height: 300), .decodeFailed, naming: "fewer pixels")
        }

        /// Beside the cells of a grid that have enough pixels together, and where a slice is missing, which libde265
        /// does not report.
        @Test func `parts without pixels show nothing of the image before`() throws {
            let tile = TestPicture(width: 64, height: 64, filledWith: [200, 100, 50, 255])
            let grid = TestHEIFGrid.file(tile, side: 2, width: 252, height: 65)
            var random = SplitMix64(state: 5)
            let noise = TestPicture(
                width: 256, height: 256, bytes: (0..<262_144).map { _ in UInt8.random(in: 0...255, using: &random) })
            let before = noise.heif(quality: 50)
            var cut = noise.heif(quality: 50, slices: 2)
            // The second unit of the pixels gets a type that decoders pass over.
            let pixels = try #require(cut.places(of: "mdat").first) + 4
            let second = pixels + 4 + TestBoxes.number(cut[pixels...]) + 4
            try #require(second < cut.count)
            cut[second] = 48 << 1
            let worker = try TestWorker(family: .heif)
            func shown(_ file: [UInt8], _ id: Int) throws -> TestPicture {
                let (plan, _, output) = try worker.run(DecodeJob(id: id), try memoryFile(file))
                return TestPicture(
                    width: plan.result.width, height: plan.result.height, bytes: try contents(of: output))
            }
            for id in stride(from: 0, to: 12, by: 4) {
                _ = try shown(before, id)
                let cells = try shown(grid, id + 1)
                #expect(cells[5, 5].x > 150)
                let black = SIMD4<UInt8>(0, 0, 0, 255)
                #expect((0..<65).allSatisfy { y in (128..<252).allSatisfy { cells[$0, y] == black } })
                _ = try shown(before, id + 2)
                let slice = try shown(cut, id + 3)
                #expect(slice[5, 5] != slice[0, 255])
                #expect((160..<256).allSatisfy { y in (0..<256).allSatisfy { slice[$0, y] == slice[0, 255] } })
            }
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

#if !WITHOUT_JP2
    @testable import ImageDecoding
    @testable import imgworker_jp2

    struct JP2Tests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        private func gray(_ picture: TestPicture, alpha: Int? = nil) -> TestPicture {
            picture.map { pixel in SIMD4(pixel.x, pixel.x, pixel.x, alpha.map { pixel[$0] } ?? 255) }
        }

        // MARK: Samples

        @Test(arguments: [8, 9, 12, 16], [false, true]) func depths(_ bits: Int, _ isSigned: Bool) throws {
            let file = picture.j2k(bits: bits, isSigned: isSigned)
            #expect(try decode(file) == picture)
            #expect(try decode(file, .bgra8) == picture.bgra)
            #expect(try decode(TestJP2(file, TestJP2.colors(16)).file) == picture)
        }

        @Test(arguments: [1, 2, 4, 7]) func fewBits(_ bits: Int) throws {
            let most = 1 << bits - 1
            let rounded = picture.map { pixel in
                var result = pixel
                for channel in 0..<3 {
                    let level = (Int(pixel[channel]) * most + 127) / 255
                    result[channel] = UInt8((level * 255 + most / 2) / most)
                }
                return result
            }
            #expect(try decode(picture.j2k(bits: bits)) == rounded)
        }

        @Test func tooManyBits() {
            expectFailure(TestJ2K(8, 8) { $0.depth = 16 }.file, .unsupportedFormat, naming: "17 bits")
        }

        @Test func numbersOfComponents() throws {
            #expect(try decode(picture.j2k(components: 1)) == gray(picture))
            #expect(try decode(transparent.j2k(components: 2)) == gray(transparent, alpha: 1))
            #expect(try decode(transparent.j2k(components: 4)) == transparent)
        }

        @Test func lossy() throws {
            #expect(try decode(picture.j2k(isLossy: true)).difference(from: picture, inSquaresOf: 1) <= 40)
        }

        /// Tiles, and an image that begins anywhere on the grid of its tiles.
        @Test(arguments: [0, 16, 17], [(0, 0), (5, 3), (15, 1)]) func grids(_ tile: Int, _ place: (Int, Int)) throws {
            let file = transparent.j2k(components: 4, tile: tile, layers: 2, left: place.0, top: place.1)
            #expect(try decode(file) == transparent)
        }

        /// Of components with a sample for each two by two pixels, a sample covers the pixels to its right and below.
        @Test(arguments: [2, 3], [0, 16]) func subsampling(_ step: Int, _ tile: Int) throws {
            let shown = try decode(picture.j2k(step: step, tile: tile))
            for (x, y) in [(0, 0), (1, 1), (20, 11), (45, 33)] {
                let near = picture[x / step * step, y / step * step]
                #expect(shown[x, y] == SIMD4(picture[x, y].x, near.y, near.z, 255))
            }
        }

        // MARK: Boxes

        @Test func palette() throws {
            let entries = (0..<200 as Range<UInt8>).map { (number: UInt8) in [number, 255 - number, 7, number / 2] }
            let bytes = picture.j2k(components: 1)
            let file = TestJP2(
                bytes, TestJP2.colors(16), TestJP2.palette(entries), TestJP2.map([2, 0, 1, 3]),
                TestJP2.definitions([(0, 1), (0, 2), (0, 3), (1, 0)]))
            let expected = TestPicture(width: 46, height: 34) { x, y in
                let entry = entries[min(199, Int(picture[x, y].x))]
                return SIMD4(entry[2], entry[0], entry[1], entry[3])
            }
            #expect(try decode(file.file) == expected)
            // Two columns of four.
            let part = TestJP2(bytes, TestJP2.colors(17), TestJP2.palette(entries), TestJP2.map([1]))
            #expect(try decode(part.file)[3, 4].x == entries[min(199, Int(picture[3, 4].x))][1])
        }

        @Test func definitions() throws {
            let bytes = transparent.j2k(components: 4)
            // Blue, green, red.
            let swapped = TestJP2(bytes, TestJP2.colors(16), TestJP2.definitions([(0, 3), (0, 2), (0, 1), (1, 0)]))
            #expect(try decode(swapped.file) == transparent.bgra)
            // The fourth channel has no meaning.
            let opaque = try decode(
                TestJP2(bytes, TestJP2.colors(16), TestJP2.definitions([(0, 1), (0, 2), (0, 3), (255, 255)])).file)
            #expect(opaque[9, 9] == SIMD4(transparent[9, 9].x, transparent[9, 9].y, transparent[9, 9].z, 255))
            let premultiplied = try decode(
                TestJP2(bytes, TestJP2.colors(16), TestJP2.definitions([(0, 1), (0, 2), (0, 3), (2, 0)])).file)
            for (x, y) in [(0, 0), (20, 11), (45, 33)] {
                let pixel = transparent[x, y]
                for channel in 0..<3 {
                    let straight = pixel.w == 0 ? 0 : (Int(pixel[channel]) * 255 + Int(pixel.w) / 2) / Int(pixel.w)
                    #expect(premultiplied[x, y][channel] == UInt8(min(255, straight)))
                }
            }
        }

        @Test func luminanceAndChrominance() throws {
            let colors = [SIMD4<UInt8>(76, 85, 255, 255), SIMD4(150, 44, 21, 255), SIMD4(99, 128, 128, 255)]
            let expected = [SIMD4<UInt8>(254, 0, 0, 255), SIMD4(0, 255, 1, 255), SIMD4(99, 99, 99, 255)]
            let stripes = TestPicture(width: 48, height: 16) { x, _ in colors[x / 16] }
            for step in [1, 2] {
                // Without a transform of its own, which would take them for RGB.
                let shown = try decode(TestJP2(stripes.j2k(step: step), TestJP2.colors(18)).file)
                for (index, color) in expected.enumerated() { #expect(shown[16 * index + 5, 7] == color) }
            }
        }

        @Test func inks() throws {
            let bytes = transparent.j2k(components: 4)
            let shown = try decode(TestJP2(bytes, TestJP2.colors(12)).file)
            for (x, y) in [(0, 0), (20, 11), (45, 33)] {
                let (cyan, black) = (255 - Int(transparent[x, y].x), 255 - Int(transparent[x, y].w))
                #expect(Int(shown[x, y].x) == (cyan * black + 127) / 255)
                #expect(shown[x, y].w == 255)
            }
            #expect(try decode(TestJP2(bytes, TestJP2.colors(12)).file, .bgra8) == shown.bgra)
            #expect(failure(TestJP2(picture.j2k(), TestJP2.colors(12)).file) == .decodeFailed)
        }

        @Test func profiles() throws {
            let wide = TestProfile.wide()
            let shown = try decode(TestJP2(picture.j2k(), TestJP2.profile(wide)).file)
            #expect(shown != picture)
            // As any other format's.
            #expect(shown == (try decode(TestProfile.inserted(wide, intoPNG: try picture.encoded(.png)))))
            let light = TestProfile.gray(gamma: 1)
            let gray = try decode(TestJP2(picture.j2k(components: 1), TestJP2.profile(light)).file)
            #expect(gray[20, 11].x > picture[20, 11].x && gray[20, 11].x == gray[20, 11].z)
        }

        @Test(arguments: [(24, "e-sYCC"), (14, "CIELab"), (99, "number 99")])
        func otherColors(_ number: Int, _ name: String) throws {
            expectFailure(TestJP2(picture.j2k(), TestJP2.colors(number)).file, .unsupportedFormat, naming: name)
            // Readers take the first description that they know.
            let both = TestJP2(picture.j2k(), TestJP2.colors(number), TestJP2.colors(16)).file
            #expect(try decode(both) == picture)
        }

        @Test func brands() throws {
            var file = TestJP2(picture.j2k(), TestJP2.colors(16))
            file.brands = ["jpx ", "jpx ", "jp2 "]
            #expect(try decode(file.file) == picture)
            file.brands = ["mjp2", "mjp2"]
            #expect(failure(file.file) == .unsupportedFormat)
        }

        @Test func invalidBoxes() throws {
            let bytes = picture.j2k(components: 1)
            let palette = TestJP2.palette([[1, 2, 3]])
            for boxes in [
                [palette], [TestJP2.map([0])], [palette, TestJP2.map([0, 1, 3])], [palette, palette, TestJP2.map([0])],
                [TestJP2.definitions([])], [TestBoxes.box("pclr", [4, 1, 1, 7])], [TestBoxes.box("colr", [1, 0])],
                [[0, 0, 0, 9, 0, 0, 0, 0]],
            ] {
                var file = TestJP2(bytes)
                file.header = boxes
                #expect(failure(file.file) == .decodeFailed, "\(boxes)")
            }
            // The codestream before the header.
            let file = TestJP2(bytes).file
            #expect(failure(Array(file[..<32]) + TestBoxes.box("jp2c", bytes)) == .decodeFailed)
        }

        @Test func `the last box may extend to the end of the file, and a length may have eight bytes`() throws {
            let bytes = picture.j2k()
            let file = TestJP2(bytes, TestJP2.colors(16)).file
            let place = file.count - bytes.count - 8
            #expect(try decode(Array(file[..<place]) + [0, 0, 0, 0] + Array(file[(place + 4)...])) == picture)
            let long = [0, 0, 0, 1] + Array("jp2c".utf8) + big(bytes.count + 16, 8)
            #expect(try decode(Array(file[..<place]) + long + bytes) == picture)
            #expect(try decode(file + TestBoxes.box("uuid", [])) == picture)
        }

        // MARK: Scaling

        /// A smaller image is made of a lower resolution, of the size that it has with any number of pixels.
        @Test(arguments: [(400, 300), (401, 299), (333, 257)]) func reduction(_ width: Int, _ height: Int) throws {
            let large = TestPicture(width: width, height: height) { x, y in
                SIMD4(UInt8(x * 255 / width), UInt8(y * 255 / height), 99, 255)
            }
            for tile in [0, 128] {
                let file = large.j2k(tile: tile, resolutions: 6)
                for target in [200, 100, 50, 20] {
                    let job = DecodeJob(Transform(width: target, alpha: .straight))
                    let (small, exact) = (try decode(file, for: job), try decode(try large.encoded(.png), for: job))
                    #expect(small.difference(from: exact, inSquaresOf: 1) <= 8, "\(tile), \(target)")
                }
            }
        }

        /// What is decoded: no fewer than twice the result's pixels, and none of a size that differs from a fraction of
        /// the image.
        @Test func sizes() throws {
            let decoder = { (file: [UInt8]) in try JP2Decoder(try ImageSource(copying: file)) }
            let large = TestPicture.gradient(width: 400, height: 300)
            let plain = try decoder(large.j2k(resolutions: 4))
            for (share, width) in [(1.0, 400), (0.5, 200), (0.3, 200), (0.26, 100), (0.01, 50)] {
                #expect(plain.size(keeping: share).geometry.width == width)
            }
            #expect(
                plain.workingBytes(at: plain.size(keeping: 0.01)) < plain.workingBytes(at: plain.size(keeping: 1)) / 4)
            #expect(try decoder(large.j2k(resolutions: 1)).size(keeping: 0.01).geometry.width == 400)
            #expect(try decoder(large.j2k(resolutions: 4, left: 1)).size(keeping: 0.01).geometry.width == 400)
            #expect(try decoder(large.j2k(tile: 100, resolutions: 4)).size(keeping: 0.01).geometry.width == 100)
        }

        // MARK: Damage

        @Test func truncated() throws {
            let file = TestJP2(picture.j2k(tile: 16), TestJP2.colors(16)).file
            for length in 12..<file.count { #expect(failure(Array(file.prefix(length))) == .truncated, "\(length)") }
        }

        /// A tile part that ends within its own header would be read again and again.
        @Test func partWithoutData() throws {
            var file = picture.j2k(tile: 16)
            let part = try #require(file.indices.first { file[$0...].starts(with: [0xFF, 0x90, 0, 10]) })
            file.replaceSubrange(part + 6..<part + 10, with: [0, 0, 0, 14])
            file.insert(contentsOf: [0xFF, 0x64, 0, 4, 0, 1], at: part + 12)
            #expect(failure(file) == .decodeFailed)
        }

        /// Tiles that are missing are transparent, if damage is accepted; without any that is there, it is the error as
        /// before.
        @Test func damageIsAccepted() throws {
            let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))
            let wide = TestPicture.gradient(width: 64, height: 16)
            let file = wide.j2k(tile: 16)
            let parts = file.indices.filter { file[$0...].starts(with: [0xFF, 0x90, 0, 10]) }
            #expect(parts.count == 4)
            let shown = try decode(Array(file[..<(parts[2] + 3)]), for: job)
            for x in 0..<64 { #expect(shown[x, 5] == (x < 32 ? wide[x, 5] : SIMD4(repeating: 0)), "\(x)") }
            #expect(failure(Array(file[..<(parts[0] + 3)]), for: job) == .truncated)
            // What there is of a tile, here its first layer.
            let layered = picture.j2k(resolutions: 5, layers: 3)
            #expect(failure(Array(layered.dropLast(layered.count / 4))) == .truncated)
            let coarse = try decode(Array(layered.dropLast(layered.count / 4)), for: job)
            #expect(coarse.difference(from: picture, inSquaresOf: 1) <= 100)
            // No resolution of it is left out.
            let smallJob = DecodeJob(Transform(width: picture.width / 4, alpha: .straight, acceptsDamage: true))
            let reduced = try decode(Array(layered.dropLast(layered.count / 4)), for: smallJob)
            #expect(try reduced == decode(try coarse.encoded(.png), for: smallJob))
            #expect(try decode(layered, for: job) == picture)
        }
    }
#endif

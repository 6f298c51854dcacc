#if !WITHOUT_TIFF
    struct TIFFTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        /// None, LZW, Adobe's and the older Deflate, PackBits, LZMA, Zstandard, LERC and lossless WebP.
        @Test(arguments: [1, 5, 8, 32946, 32773, 34925, 50000, 34887, 50001]) func compression(_ value: Int) throws {
            let bytes = picture.tiff(compression: value)
            // Not every build of libtiff has all of them.
            if bytes.isEmpty { return }
            #expect(try decode(bytes) == picture)
            #expect(try decode(bytes, .bgra8) == picture.bgra)
        }

        /// CCITT's one-dimensional coding, groups 3 and 4, and JBIG.
        @Test(arguments: [2, 3, 4, 34661]) func compressionOfBits(_ value: Int) throws {
            let bits = TestPicture(width: 61, height: 34) { x, y in
                let value: UInt8 = (x * x + 7 * y) % 23 < 9 ? 255 : 0
                return SIMD4(value, value, value, 255)
            }
            let bytes = bits.tiff(bits: 1, samples: 1, photometric: 1, compression: value)
            if bytes.isEmpty { return }
            #expect(try decode(bytes) == bits)
            let inverse = try decode(bits.tiff(bits: 1, samples: 1, photometric: 0, compression: value))
            #expect(inverse[3, 4].x == 255 - bits[3, 4].x)
        }

        /// JPEG, and PixarLog, which keeps eight bits in eleven of a logarithm.
        @Test(arguments: [(7, 3), (32909, 1)]) func compressionWithLoss(_ value: Int, _ most: Int) throws {
            let bytes = picture.tiff(compression: value)
            if bytes.isEmpty { return }
            #expect(try decode(bytes).difference(from: picture, inSquaresOf: 1) <= most)
        }

        /// Strips that cannot be decoded are transparent, if damage is accepted; without any that can, it is the error
        /// as before.
        @Test func damageIsAccepted() throws {
            let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))
            // The directory, the places and sizes of three strips of a row each, and their pixels.
            var bytes = file(8, 3, rows: 1)
            let lists = UInt8(bytes.count)
            for (entry, list) in [(5, lists), (7, lists + 12)] {
                bytes[10 + 12 * entry + 4] = 3
                bytes[10 + 12 * entry + 8] = list
            }
            for strip in UInt8(0)..<3 { bytes += [lists + 24 + 8 * strip, 0, 0, 0] }
            for _ in 0..<3 { bytes += [8, 0, 0, 0] }
            bytes += (0..<24).map { UInt8(10 * $0) }
            let whole = try decode(bytes)
            #expect(whole[7, 2] == SIMD4(230, 230, 230, 255))
            let cut = Array(bytes.dropLast(9))
            #expect(failure(cut) == .truncated)
            let shown = try decode(cut, for: job)
            #expect(shown.bytes[..<32].elementsEqual(whole.bytes[..<32]))
            #expect(shown.bytes[32...].allSatisfy { $0 == 0 })
            #expect(failure(Array(bytes.dropLast(20)), for: job) == .truncated)
        }

        @Test(arguments: [8, 16], [false, true]) func layouts(_ bits: Int, _ isSeparate: Bool) throws {
            for tile in [0, 16] {
                #expect(try decode(picture.tiff(bits: bits, isSeparate: isSeparate, tile: tile)) == picture)
                let bytes = transparent.tiff(bits: bits, samples: 4, compression: 5, isSeparate: isSeparate, tile: tile)
                #expect(try decode(bytes) == transparent)
            }
        }

        @Test func grayAndInks() throws {
            let gray = try decode(picture.tiff(samples: 1, photometric: 1))
            let inverse = try decode(picture.tiff(samples: 1, photometric: 0))
            let inks = try decode(transparent.tiff(samples: 4, photometric: 5))
            for (x, y) in [(0, 0), (20, 11), (45, 33)] {
                let (red, alpha) = (picture[x, y].x, 255 - Int(transparent[x, y].w))
                #expect(gray[x, y] == SIMD4(red, red, red, 255))
                #expect(inverse[x, y] == SIMD4(255 - red, 255 - red, 255 - red, 255))
                #expect(Int(inks[x, y].x) == ((255 - Int(red)) * alpha + 127) / 255)
            }
        }

        /// Grays of CIELab are neutral, and white is white, in all its encodings (TIFF 6.0, ICC and ITU-T T.42).
        @Test(arguments: [8, 9, 10], [8, 16]) func graysOfLab(_ photometric: Int, _ bits: Int) throws {
            // Of the ICC's sixteen bits, a repeated byte is not zero.
            if photometric == 9 && bits == 16 { return }
            let zero: SIMD2<UInt8> = [8: SIMD2(0, 0), 9: SIMD2(128, 128), 10: SIMD2(128, 96)][photometric]!
            let grays = TestPicture(width: 256, height: 2) { x, _ in SIMD4(UInt8(x), zero.x, zero.y, UInt8(x)) }
            for samples in photometric == 8 ? [1, 3] : [3] {
                let file = grays.tiff(bits: bits, samples: samples, photometric: photometric)
                let shown = try decode(file)
                for x in 0..<256 {
                    let light = Double(x) * 100 / 255
                    let cubed = light > 8 ? pow((light + 16) / 116, 3) : light / 903.3
                    let signal = cubed <= 0.0031308 ? 12.92 * cubed : 1.055 * pow(cubed, 1 / 2.4) - 0.055
                    let (pixel, expected) = (shown[x, 1], Int((255 * signal).rounded()))
                    let isGray = (0..<3).allSatisfy { abs(Int(pixel[$0]) - expected) <= 1 }
                    #expect(isGray && pixel.w == 255, "L \(light): \(pixel)")
                }
                #expect(shown[255, 0] == SIMD4(repeating: 255) && shown[0, 0] == SIMD4(0, 0, 0, 255))
                #expect(try decode(file, .bgra8) == shown.bgra)
            }
        }

        /// A colour of CIELab, with the values that colorimetry gives (Bradford's adaptation to D65), in all encodings.
        @Test func colorsOfLab() throws {
            // L 53.7, a 78, b 66, and L 60, a -40, b 20.
            let expected: [SIMD4<UInt8>] = [SIMD4(250, 20, 11, 255), SIMD4(64, 163, 107, 255)]
            let encodings: [(Int, [SIMD4<UInt8>])] = [
                (8, [SIMD4(137, 78, 66, 0), SIMD4(153, 216, 20, 0)]),
                (9, [SIMD4(137, 206, 194, 0), SIMD4(153, 88, 148, 0)]),
                (10, [SIMD4(137, 245, 180, 0), SIMD4(153, 68, 122, 0)]),
            ]
            for (photometric, colors) in encodings {
                for planes in [false, true] {
                    let picture = TestPicture(width: 32, height: 16) { x, _ in colors[x / 16] }
                    let shown = try decode(
                        picture.tiff(photometric: photometric, isSeparate: planes, tile: planes ? 16 : 0))
                    for (index, color) in expected.enumerated() {
                        let pixel = shown[16 * index + 3, 9]
                        #expect(
                            (0..<4).allSatisfy { abs(Int(pixel[$0]) - Int(color[$0])) <= 4 }, "\(photometric): \(pixel)"
                        )
                    }
                }
            }
        }

        /// Depths other than 8 and 16; a fourth sample that is no alpha.
        @Test func unusualLab() throws {
            #expect(failure(picture.tiff(bits: 1, samples: 1, photometric: 8)) == .unsupportedFormat)
            let alpha = try decode(transparent.tiff(samples: 4, photometric: 9))
            #expect(alpha == (try decode(transparent.tiff(samples: 3, photometric: 9))))
        }

        /// libtiff would show the sign of integers as brightness.
        @Test(arguments: [8, 16], [2, 3, 5, 6]) func otherThanUnsignedIntegers(_ bits: Int, _ format: Int) {
            let file = { (format: Int) in self.file(1, 2, rows: 2, bits: bits, format: format) }
            expectFailure(file(format), .unsupportedFormat, naming: "no unsigned integers")
            #expect(failure(file(1)) == nil)
        }

        @Test(arguments: 1...8) func orientation(_ value: Int) throws {
            #expect(try decode(picture.tiff(orientation: value)) == picture.shown(orientation: value))
        }

        @Test func truncated() throws {
            // libtiff writes the directory last.
            let bytes = picture.tiff(compression: 5)
            expectDamage(bytes, stride(from: 8, to: bytes.count, by: 31))
        }

        private func file(
            _ width: Int, _ height: Int, rows: Int, compression: Int = 1, next: Int = 0, bits: Int = 8,
            format: Int? = nil
        ) -> [UInt8] {
            let tags = [
                (256, width), (257, height), (258, bits), (259, compression), (262, 1), (273, 8), (278, rows), (279, 4),
            ]
            return TestTIFF.file((tags + (format.map { [(339, $0)] } ?? [])).map { ($0, 4, 1, $1) }, next: next)
        }

        /// Declared sizes are limited before memory is allocated; a directory that is its own successor is read once.
        @Test func bombs() throws {
            #expect(failure(file(65535, 65535, rows: 65535)) == .tooManyPixels)
            #expect(failure(file(1 << 31, 4, rows: 4)) == .tooManyPixels)
            #expect(failure(file(0, 4, rows: 4)) == .decodeFailed)
            #expect(failure(file(7000, 7000, rows: 7000, next: 8)) == .truncated)
        }

        /// The memory of a strip counts. (libtiff itself divides one that is not compressed.)
        @Test func stripsAreLimited() throws {
            let bytes = file(7000, 7000, rows: 7000, compression: 5)
            let job = DecodeJob(id: 1, transform: Transform(width: 10), maxWorkingBytes: 64 << 20)
            #expect(failure(bytes, for: job) == .tooManyPixels)
        }
    }
#endif

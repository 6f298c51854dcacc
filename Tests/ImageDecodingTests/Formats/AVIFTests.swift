import WorkerProtocol

#if !WITHOUT_AVIF
    import Foundation
    import IPCProtocol
    import TestSupport
    import Testing

    @testable import ImageDecoding
    @testable import imgworker_avif

    struct AVIFTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        private func file(_ picture: TestPicture, _ change: (inout TestAVIF) -> Void = { _ in }) throws -> [UInt8] {
            var avif = TestAVIF()
            change(&avif)
            let file = avif.file(picture)
            try #require(!file.isEmpty)
            return file
        }

        @Test func losslessIsExact() throws {
            let opaque = try file(picture)
            #expect(try decode(opaque) == picture)
            #expect(try decode(opaque, .bgra8) == picture.bgra)
            let alpha = try file(transparent) { $0.hasAlpha = true }
            #expect(try decode(alpha) == transparent)
            #expect(try decode(alpha, .bgra8, .premultiplied) == transparent.premultiplied.bgra)
        }

        @Test func header() throws {
            let bytes = try file(transparent) { $0.hasAlpha = true }
            let plan = try plan(bytes)
            #expect(
                plan.header == ImageHeader(format: .avif, geometry: try #require(PixelGeometry(width: 46, height: 34))))
        }

        /// A box that is larger than the one around it says nothing about the image's size.
        @Test func boxLargerThanItsParent() throws {
            var bytes = try file(picture)
            let name = try #require(bytes.firstRange(of: Array("ipco".utf8)))
            bytes[name.lowerBound - 2] = 0xFF
            let error = #expect(throws: WireError.self) { try decode(bytes) }
            #expect(error?.code == .truncated)
        }

        /// Premultiplied files are decoded to straight alpha.
        @Test func premultiplied() throws {
            let shown = try decode(try file(transparent) { ($0.hasAlpha, $0.isPremultiplied) = (true, true) })
            for y in 0..<34 {
                for x in 0..<46 {
                    let (is_, was) = (shown[x, y], transparent[x, y])
                    #expect(is_.w == was.w)
                    // Colour loses precision with low alpha.
                    guard was.w > 0 else { continue }
                    let most = 255 / Int(was.w) + 1
                    for channel in 0..<3 { #expect(abs(Int(is_[channel]) - Int(was[channel])) <= most) }
                }
            }
        }

        @Test(arguments: 1...8) func orientations(_ orientation: Int) throws {
            let bytes = try file(picture) { $0.orientation = orientation }
            #expect(try decode(bytes) == picture.shown(orientation: orientation))
        }

        /// The clean aperture is cropped before the orientation is applied.
        @Test(arguments: [0, 6]) func cleanAperture(_ orientation: Int) throws {
            let bytes = try file(picture) { ($0.crop, $0.orientation) = ([4, 6, 20, 16], orientation) }
            let part = TestPicture(width: 20, height: 16) { x, y in picture[x + 4, y + 6] }
            #expect(try decode(bytes) == part.shown(orientation: max(1, orientation)))
        }

        @Test func gray() throws {
            let gray = TestPicture(width: 46, height: 34) { x, y in
                let value = UInt8(x * 5)
                return SIMD4(value, value, value, 255)
            }
            let bytes = try file(gray) { ($0.sampling, $0.matrix) = (400, 6) }
            #expect(try decode(bytes) == gray)
        }

        /// Converting band by band interpolates chroma as converting the whole image does.
        @Test(arguments: [420, 422, 444], [8, 10]) func bandsAreSeamless(_ sampling: Int, _ depth: Int) throws {
            let (width, height) = (5000, 61)
            var avif = TestAVIF()
            (avif.sampling, avif.depth, avif.matrix, avif.quantizer) = (sampling, depth, 6, 20)
            let samples = (0..<width * height * 4).map { UInt16(($0 * 7 + $0 / width * 13) % (1 << depth)) }
            let bytes = avif.file(width: width, height: height, samples)
            let geometry = try #require(PixelGeometry(width: width, height: height))
            #expect(RowBand.rows(of: geometry) < height / 2)
            #expect(try decode(bytes) == TestAVIF.decoded(bytes, width: width, height: height))
        }

        /// Depth and subsampling are those of the data, also where the container declares others (`av1C`), and memory is that of the
        /// larger ones.
        @Test(arguments: [400, 420, 422, 444], [8, 10, 12])
        func kindOtherThanDeclared(_ sampling: Int, _ depth: Int) throws {
            let (width, height) = (47, 33)
            let samples = (0..<width * height * 4).map { UInt16(($0 * 7 + $0 / width * 13) % (1 << depth)) }
            for frames in [1, 2] {
                var avif = TestAVIF()
                (avif.sampling, avif.depth, avif.matrix, avif.quantizer, avif.frames) = (sampling, depth, 6, 10, frames)
                var bytes = avif.file(width: width, height: height, samples)
                let places = { (name: String) in bytes.indices.filter { bytes[$0...].starts(with: name.utf8) } }
                // The property that repeats the depth, without which a file is valid.
                for place in places("pixi") { bytes.replaceSubrange(place..<place + 4, with: Array("skip".utf8)) }
                let expected = TestAVIF.decoded(bytes, width: width, height: height)
                let honest = try plan(bytes).workingBytes
                let configurations = places("av1C")
                try #require(!configurations.isEmpty)
                // High depth, twelve bits, monochrome, and subsampling in both directions.
                for kind: UInt8 in [0x00, 0x08, 0x0C, 0x1C, 0x40, 0x4C, 0x60, 0x6C] {
                    var file = bytes
                    for place in configurations { file[place + 6] = file[place + 6] & 0x83 | kind }
                    #expect(try decode(file) == expected, "\(frames) frames, declared as \(String(kind, radix: 16))")
                    #expect(try plan(file).workingBytes >= honest)
                }
            }
        }

        /// Deeper samples are rounded to 8 bits, not truncated.
        @Test(arguments: [10, 12]) func deepSamples(_ depth: Int) throws {
            let most = 1 << depth - 1
            let samples = (0...most).flatMap { value in [value, most - value, value / 2, most].map { UInt16($0) } }
            var avif = TestAVIF()
            (avif.depth, avif.hasAlpha) = (depth, true)
            let width = 64
            let bytes = avif.file(width: width, height: samples.count / 4 / width, samples)
            let shown = try decode(bytes)
            let rounded = samples.map { UInt8((Double($0) * 255 / Double(most)).rounded()) }
            // Halves may be rounded up or down.
            #expect(zip(shown.bytes, rounded).allSatisfy { abs(Int($0) - Int($1)) <= ($0 == $1 ? 0 : 1) })
            let differing = zip(shown.bytes, rounded).count { $0 != $1 }
            #expect(differing * 100 <= rounded.count, "\(differing) of \(rounded.count)")
        }

        @Test(arguments: [(6, true), (6, false), (9, true), (9, false), (1, true), (1, false)])
        func matrices(_ matrix: Int, _ isLimited: Bool) throws {
            let bytes = try file(picture) { ($0.matrix, $0.isLimited) = (matrix, isLimited) }
            // Converting to YUV and back in 8 bits loses up to two values.
            #expect(try #require(try decode(bytes).difference(from: picture)) <= 2)
        }

        @Test func grid() throws {
            let bytes = try file(TestPicture.gradient(width: 256, height: 128)) { ($0.columns, $0.rows) = (4, 2) }
            #expect(try decode(bytes) == TestPicture.gradient(width: 256, height: 128))
        }

        @Test func profilesAreConvertedAsInPNG() throws {
            let wide = TestProfile.rgb(TestProfile.wide, gamma: 2.2)
            let colors = ColorTests.colors
            let png = TestProfile.inserted(wide, intoPNG: ColorTests.png(colors, .rgb))
            #expect(try decode(try file(colors) { $0.profile = wide }) == (try decode(png)))
            let gray = TestProfile.gray(gamma: 1.8)
            let grayPNG = TestProfile.inserted(gray, intoPNG: ColorTests.png(ColorTests.grays, .gray))
            let bytes = try file(ColorTests.grays) { ($0.profile, $0.sampling, $0.matrix) = (gray, 400, 6) }
            #expect(try decode(bytes) == (try decode(grayPNG)))
        }

        /// From the primaries of BT.2020, Display P3 and sRGB to those of sRGB.
        private static let matrices: [Int: [[Double]]] = [
            9: [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
            12: [[1.2249, -0.2247, 0], [-0.0420, 1.0419, 0], [-0.0197, -0.0786, 1.0979]],
            1: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        ]

        /// Code points of primaries wider than sRGB's.
        @Test(arguments: [12, 9]) func primaries(_ number: Int) throws {
            let matrix = try #require(Self.matrices[number])
            let shown = try decode(try file(ColorTests.colors) { $0.primaries = number })
            let light = { (value: UInt8) in
                let value = Double(value) / 255
                return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
            }
            for (x, y) in [(0, 0), (20, 30), (40, 10), (63, 47), (30, 30), (10, 40)] {
                let pixel = ColorTests.colors[x, y]
                let linear = [light(pixel.x), light(pixel.y), light(pixel.z)]
                for channel in 0..<3 {
                    let sum = (0..<3).reduce(0) { $0 + matrix[channel][$1] * linear[$1] }
                    let bounded = min(max(sum, 0), 1)
                    let signal = bounded <= 0.0031308 ? bounded * 12.92 : 1.055 * pow(bounded, 1 / 2.4) - 0.055
                    #expect(abs(Int(shown[x, y][channel]) - Int((signal * 255).rounded())) <= 3, "\(x) \(y)")
                }
            }
        }

        /// High dynamic range: a document's white and all brighter values become white, and grays below stay in order.
        @Test(arguments: [(16, 594), (18, 767)]) func highDynamicRange(_ transfer: Int, _ white: Int) throws {
            var avif = TestAVIF()
            (avif.depth, avif.transfer) = (10, transfer)
            let samples = (0..<1024).flatMap { value in [UInt16](repeating: UInt16(value), count: 4) }
            let shown = try decode(avif.file(width: 64, height: 16, samples))
            let gray = (0..<1024).map { Int(shown[$0 % 64, $0 / 64].x) }
            #expect(gray[white] >= 252)
            #expect(gray[1023] == 255)
            #expect(gray[white / 2] < 150)
            #expect(gray[0] == 0)
            #expect(zip(gray, gray.dropFirst()).allSatisfy { $0 <= $1 })
        }

        /// Colours brighter than white keep the ratio of red, green and blue light (the largest of them becomes white), in the primaries of
        /// BT.2020, Display P3 and sRGB. Colours up to white are those of the file.
        @Test(arguments: [16, 18], [9, 12, 1]) func brightColorsKeepTheirHue(_ transfer: Int, _ primaries: Int) throws {
            let matrix = try #require(Self.matrices[primaries])
            let colors = TestPicture(width: 64, height: 64) { x, y in
                SIMD4(UInt8(x % 16 * 17), UInt8(y % 16 * 17), UInt8((x / 16 + y / 16 * 4) * 17), 255)
            }
            let shown = try decode(try file(colors) { ($0.transfer, $0.primaries) = (transfer, primaries) })
            func light(_ sample: UInt8) -> Double {
                let value = Double(sample) / 255
                if transfer == 18 {
                    let light =
                        value <= 0.5 ? value * value / 3 : (exp((value - 0.55991073) / 0.17883277) + 0.28466892) / 12
                    return light / 0.26496256
                }
                let power = pow(value, 1 / 78.84375)
                return pow(max(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power), 1 / 0.1593017578125) * 10000
                    / 203
            }
            for y in 0..<64 {
                for x in 0..<64 {
                    let pixel = colors[x, y]
                    let linear = [light(pixel.x), light(pixel.y), light(pixel.z)]
                    let mixed = matrix.map { row in max(0, row[0] * linear[0] + row[1] * linear[1] + row[2] * linear[2])
                    }
                    let largest = max(1, mixed.max() ?? 1)
                    for channel in 0..<3 {
                        let value = mixed[channel] / largest
                        let signal = value <= 0.0031308 ? value * 12.92 : 1.055 * pow(value, 1 / 2.4) - 0.055
                        // The matrices have four digits, which near black are several values.
                        let most = value < 0.002 ? 8 : 2
                        #expect(
                            abs(Int(shown[x, y][channel]) - Int((signal * 255).rounded())) <= most,
                            "\(pixel): \(shown[x, y])")
                    }
                }
            }
            // A red of 1,000 cd/m² with a tenth of its light in green was yellow.
            if transfer == 16 && primaries == 1 {
                let red = TestPicture(width: 16, height: 16) { _, _ in SIMD4(192, 130, 0, 255) }
                let pixel = try decode(try file(red) { $0.transfer = 16 })[3, 3]
                #expect(pixel.x == 255 && pixel.y < 100 && pixel.z == 0)
            }
        }

        @Test func otherBoxFiles() throws {
            let bytes = try file(picture)
            // The same file with its other brand, and a file of another codec.
            #expect(try decode(Array(bytes[..<8] + Array("mif1".utf8) + bytes[12...])) == picture)
            #expect(failure(Array(bytes[..<8] + Array("heic".utf8) + bytes[12...])) == .unsupportedFormat)
        }

        /// Decodes every kind in a strictly confined worker, which has one thread.
        @Test func confined() throws {
            let worker = try TestWorker(family: .avif)
            var kinds = [TestAVIF(), TestAVIF(), TestAVIF(), TestAVIF(), TestAVIF(), TestAVIF()]
            (kinds[0].hasAlpha, kinds[0].isPremultiplied) = (true, true)
            (kinds[1].depth, kinds[1].sampling, kinds[1].matrix, kinds[1].quantizer) = (10, 420, 6, 30)
            (kinds[2].depth, kinds[2].sampling, kinds[2].matrix, kinds[2].primaries) = (12, 400, 6, 12)
            (kinds[3].columns, kinds[3].rows, kinds[3].transfer) = (2, 2, 16)
            (kinds[4].frames, kinds[4].profile) = (3, TestProfile.rgb(TestProfile.wide, gamma: 2.2))
            kinds[5].orientation = 7
            let picture = TestPicture.gradient(width: 512, height: 512, transparent: true)
            for (id, kind) in kinds.enumerated() {
                _ = try worker.run(DecodeJob(id: id), try sealedFile(kind.file(picture)))
                #expect(try worker.kilobytes(of: "Threads") == 1)
            }
        }
    }
#endif

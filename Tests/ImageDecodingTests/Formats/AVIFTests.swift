#if !WITHOUT_AVIF
    @testable import ImageDecoding
    @testable import imgworker_avif

    struct AVIFTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        private func file(_ picture: TestPicture, _ change: (inout TestAVIF) -> Void = { _ in }) throws -> [UInt8] {
            let file = TestAVIF(change).file(picture)
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
            let plan = try plan(file(transparent) { $0.hasAlpha = true })
            #expect(
                plan.header == ImageHeader(format: .avif, geometry: try #require(PixelGeometry(width: 46, height: 34))))
        }

        @Test func `a box that is larger than the one around it says nothing about the image's size`() throws {
            var bytes = try file(picture)
            let name = try #require(bytes.firstRange(of: Array("ipco".utf8)))
            bytes[name.lowerBound - 2] = 0xFF
            #expect(failure(bytes) == .truncated)
        }

        @Test func `premultiplied files are decoded to straight alpha`() throws {
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
            #expect(try decode(file(gray) { ($0.sampling, $0.matrix) = (400, 6) }) == gray)
        }

        /// Converting band by band interpolates chroma as converting the whole image does.
        @Test(arguments: [420, 422, 444], [8, 10]) func bandsAreSeamless(_ sampling: Int, _ depth: Int) throws {
            let (width, height) = (5000, 61)
            let avif = TestAVIF { ($0.sampling, $0.depth, $0.matrix, $0.quantizer) = (sampling, depth, 6, 20) }
            let samples = (0..<width * height * 4).map { UInt16(($0 * 7 + $0 / width * 13) % (1 << depth)) }
            let bytes = avif.file(width: width, height: height, samples)
            #expect(try RowBand.rows(of: #require(PixelGeometry(width: width, height: height))) < height / 2)
            #expect(try decode(bytes) == TestAVIF.decoded(bytes, width: width, height: height))
        }

        /// Depth and subsampling are those of the data, also where the container declares others (`av1C`), and memory
        /// is that of the larger ones.
        @Test(arguments: [400, 420, 422, 444], [8, 10, 12])
        func kindOtherThanDeclared(_ sampling: Int, _ depth: Int) throws {
            let (width, height) = (47, 33)
            let samples = (0..<width * height * 4).map { UInt16(($0 * 7 + $0 / width * 13) % (1 << depth)) }
            for frames in [1, 2] {
                var avif = TestAVIF()
                (avif.sampling, avif.depth, avif.matrix, avif.quantizer, avif.frames) = (sampling, depth, 6, 10, frames)
                var bytes = avif.file(width: width, height: height, samples)
                // The property that repeats the depth, without which a file is valid.
                for place in bytes.places(of: "pixi") {
                    bytes.replaceSubrange(place..<place + 4, with: Array("skip".utf8))
                }
                let expected = TestAVIF.decoded(bytes, width: width, height: height)
                let honest = try plan(bytes).workingBytes
                let configurations = bytes.places(of: "av1C")
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

        @Test(arguments: [10, 12]) func `deeper samples are rounded to 8 bits, not truncated`(_ depth: Int) throws {
            let most = 1 << depth - 1
            let samples = (0...most).flatMap { value in [value, most - value, value / 2, most].map { UInt16($0) } }
            let avif = TestAVIF { ($0.depth, $0.hasAlpha) = (depth, true) }
            let width = 64
            let shown = try decode(avif.file(width: width, height: samples.count / 4 / width, samples))
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
            let wide = TestProfile.wide()
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
            let avif = TestAVIF { ($0.depth, $0.transfer) = (10, transfer) }
            let samples = (0..<1024).flatMap { value in [UInt16](repeating: UInt16(value), count: 4) }
            let bytes = avif.file(width: 64, height: 16, samples)
            let shown = try decode(bytes)
            let gray = (0..<1024).map { Int(shown[$0 % 64, $0 / 64].x) }
            #expect(gray[white] >= 252)
            #expect(gray[1023] == 255)
            #expect(gray[white / 2] < 150)
            #expect(gray[0] == 0)
            #expect(zip(gray, gray.dropFirst()).allSatisfy { $0 <= $1 })
            // No profile can describe it.
            let job = DecodeJob(id: 1, purpose: .header, transform: Transform(metadata: [.icc]))
            let described = try DescribedImage(try ImageSource(copying: bytes), for: job, allCodecs)
            let facts = try #require(described.plan.header.facts)
            #expect(facts.metadata.icc == nil && described.blocks.isEmpty)
        }

        /// Colours brighter than white keep the ratio of red, green and blue light (the largest of them becomes white),
        /// in the primaries of BT.2020, Display P3 and sRGB. Colours up to white are those of the file.
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

        @Test func `decodes every kind in a strictly confined worker, which has one thread`() throws {
            let worker = try TestWorker(family: .avif)
            let kinds = [
                TestAVIF { ($0.hasAlpha, $0.isPremultiplied) = (true, true) },
                TestAVIF { ($0.depth, $0.sampling, $0.matrix, $0.quantizer) = (10, 420, 6, 30) },
                TestAVIF { ($0.depth, $0.sampling, $0.matrix, $0.primaries) = (12, 400, 6, 12) },
                TestAVIF { ($0.columns, $0.rows, $0.transfer) = (2, 2, 16) },
                TestAVIF { ($0.frames, $0.profile) = (3, TestProfile.wide()) },
                TestAVIF { $0.orientation = 7 },
            ]
            let picture = TestPicture.gradient(width: 512, height: 512, transparent: true)
            for (id, kind) in kinds.enumerated() {
                _ = try worker.run(DecodeJob(id: id), try memoryFile(kind.file(picture), isSealed: true))
                #expect(try worker.kilobytes(of: "Threads") == 1)
            }
        }
    }

    /// Grids whose alpha belongs to each cell, which libavif 0.11 does not see.
    struct AVIFGridTests {
        private let picture = TestPicture.gradient(width: 140, height: 136, transparent: true)

        @Test func alphaOfEachCell() throws {
            var grid = try TestGrid(picture)
            #expect(try decode(grid.file) == picture)
            #expect(try decode(grid.file, .bgra8, .premultiplied) == picture.premultiplied.bgra)
            // Longer identifiers, and the properties before the references.
            grid.boxes.idSize = 4
            #expect(try decode(grid.file) == picture)
            grid.boxes.order = ["pitm", "iinf", "iprp", "iref", "iloc"]
            #expect(try decode(grid.file) == picture)
        }

        @Test func alphaOfDeepCells() throws {
            let samples = (0..<140 * 136 * 4).map { (place: Int) in UInt16(place * 7 % 1024) }
            let grid = try TestGrid(width: 140, height: 136, samples) { $0.depth = 10 }
            let shown = try decode(grid.file)
            #expect(
                zip(shown.bytes, samples).allSatisfy { (byte: UInt8, sample: UInt16) -> Bool in
                    let expected = (Int(sample) * 255 + 511) / 1023
                    return abs(Int(byte) - expected) <= 1
                })
        }

        @Test func `colour that is multiplied by alpha is divided, as for one image`() throws {
            var grid = try TestGrid(picture) { $0.isPremultiplied = true }
            grid.premultiplied = Array(0..<4)
            let shown = try decode(grid.file, .rgba8, .premultiplied)
            #expect(try #require(shown.difference(from: picture.premultiplied)) <= 2)
            grid.premultiplied = [1, 2]
            #expect(failure(grid.file) == .unsupportedFormat)
        }

        @Test func `what libavif would show in another way is refused, with the reason`() throws {
            let plain = try TestGrid(picture)
            func expect(_ reason: String, _ change: (inout TestGrid) -> Void) {
                var grid = plain
                change(&grid)
                expectFailure(grid.file, .unsupportedFormat, naming: reason)
            }
            expect("only some cells of the grid have alpha") { $0.alpha = [0, 1, 3] }
            expect("another order") { $0.cells = [0, 2, 1, 3] }
            expect("another order") { $0.alphaTargets = [0, 2, 1, 3] }
            expect("only some cells") { $0.alphaTargets = [0, 0, 2, 3] }
        }

        @Test func `a grid without alpha, and with depth maps of its cells, is opaque`() throws {
            var grid = try TestGrid(picture)
            grid.auxiliary = "urn:mpeg:mpegB:cicp:systems:auxiliary:depth"
            let opaque = picture.map { SIMD4($0.x, $0.y, $0.z, 255) }
            #expect(try decode(grid.file) == opaque)
            grid.alpha = []
            #expect(try decode(grid.file) == opaque)
        }

        @Test func `the memory of alpha counts`() throws {
            var grid = try TestGrid(picture)
            let both = try plan(grid.file).workingBytes
            grid.alpha = []
            #expect(try both > plan(grid.file).workingBytes + 2 * 140 * 136)
        }

        @Test func `changed boxes are decoded or fail, and none crashes`() throws {
            let file = try TestGrid(picture).file
            let end = try #require(file.firstRange(of: Array("mdat".utf8))).lowerBound
            var random = SplitMix64(state: 7)
            for _ in 0..<500 {
                var changed = file
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    changed[Int.random(in: 28..<end, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                _ = failure(changed)
            }
        }

        @Test func truncated() throws {
            let file = try TestGrid(picture).file
            expectDamage(file, stride(from: 12, to: file.count, by: 37))
        }
    }

    /// A grid of 2 × 2 cells of 70 × 68 pixels, each with its alpha.
    private struct TestGrid {
        /// The cells in the grid, and those that have alpha, by their numbers.
        var cells = Array(0..<4)
        var alpha = Array(0..<4)
        /// The cell that each alpha belongs to.
        var alphaTargets = Array(0..<4)
        /// The cells whose colour is multiplied by alpha.
        var premultiplied: [Int] = []
        /// What the auxiliary images are.
        var auxiliary = "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"
        /// Item 1 is the grid, items 2 to 5 are the cells, and items 6 to 9 their alpha.
        var boxes = TestItems([], properties: [], references: [])

        init(_ picture: TestPicture, _ change: (inout TestAVIF) -> Void = { _ in }) throws {
            try self.init(width: picture.width, height: picture.height, picture.bytes.map { UInt16($0) }, change)
        }

        init(width: Int, height: Int, _ samples: [UInt16], _ change: (inout TestAVIF) -> Void = { _ in }) throws {
            let avif = TestAVIF {
                $0.hasAlpha = true
                change(&$0)
            }
            var (alpha, configurations): ([[UInt8]], [[UInt8]]) = ([], [])
            boxes.items = [("grid", TestItems.grid(columns: 2, rows: 2, width, height), [1, 0x86])]
            for cell in 0..<4 {
                let (left, top) = (cell % 2 * width / 2, cell / 2 * height / 2)
                var part: [UInt16] = []
                for y in top..<top + height / 2 {
                    let start = (y * width + left) * 4
                    part += samples[start..<start + width * 2]
                }
                let file = avif.file(width: width / 2, height: height / 2, part)
                let items = AVIFItems(file.span)?.items ?? []
                try #require(items.count == 2)
                boxes.items.append(("av01", Array(file[items[0][0]]), [2, 0x83, 6]))
                alpha.append(Array(file[items[1][0]]))
                configurations = file.places(of: "av1C").map { Array(file[$0 - 4..<$0 + 8]) }
            }
            boxes.items += alpha.map { ("av01", $0, [2, 0x84, 5]) }
            boxes.properties =
                [TestItems.size(width, height), TestItems.size(width / 2, height / 2)] + configurations.prefix(2)
        }

        var file: [UInt8] {
            var file = boxes
            // sRGB's primaries and curve, the identity matrix, full range.
            let colors = Array("nclx".utf8) + big(1, 2) + big(13, 2) + big(0, 2) + [0x80]
            file.properties += [TestBoxes.full("auxC", Array(auxiliary.utf8) + [0]), TestBoxes.box("colr", colors)]
            file.references = [("dimg", 1, cells.map { $0 + 2 })]
            file.references += alpha.map { ("auxl", $0 + 6, [alphaTargets[$0] + 2]) }
            file.references += premultiplied.map { ("prem", $0 + 2, [$0 + 6]) }
            return file.file("avif\0\0\0\0avifmif1miaf")
        }
    }
#endif

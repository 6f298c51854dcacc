#if !WITHOUT_AVIF
    import IPCProtocol
    import SystemValues
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_avif

    /// Grids whose alpha belongs to each cell, which libavif 0.11 does not see.
    struct AVIFGridTests {
        private let picture = TestPicture.gradient(width: 140, height: 136, transparent: true)

        @Test func alphaOfEachCell() throws {
            var grid = try TestGrid(picture)
            #expect(try decode(grid.file) == picture)
            #expect(try decode(grid.file, .bgra8, .premultiplied) == picture.premultiplied.bgra)
            // Longer identifiers, and the properties before the references.
            grid.idSize = 4
            #expect(try decode(grid.file) == picture)
            grid.order = ["pitm", "iinf", "iprp", "iref", "iloc"]
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

        /// Colour that is multiplied by alpha is divided, as for one image.
        @Test func premultipliedCells() throws {
            var grid = try TestGrid(picture) { $0.isPremultiplied = true }
            grid.premultiplied = Array(0..<4)
            let shown = try decode(grid.file, .rgba8, .premultiplied)
            #expect(try #require(shown.difference(from: picture.premultiplied)) <= 2)
            grid.premultiplied = [1, 2]
            #expect(failure(grid.file) == .unsupportedFormat)
        }

        /// What libavif would show in another way is refused, with the reason.
        @Test func whatWouldBeShownWrongly() throws {
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

        /// A grid without alpha, and with depth maps of its cells, is opaque.
        @Test func otherAuxiliaryImages() throws {
            var grid = try TestGrid(picture)
            grid.auxiliary = "urn:mpeg:mpegB:cicp:systems:auxiliary:depth"
            let opaque = picture.map { SIMD4($0.x, $0.y, $0.z, 255) }
            #expect(try decode(grid.file) == opaque)
            grid.alpha = []
            #expect(try decode(grid.file) == opaque)
        }

        /// The memory of alpha counts.
        @Test func memory() throws {
            var grid = try TestGrid(picture)
            let both = try plan(grid.file).workingBytes
            grid.alpha = []
            #expect(try both > plan(grid.file).workingBytes + 2 * 140 * 136)
        }

        /// Changed boxes are decoded or fail, and none crashes.
        @Test func changedBoxes() throws {
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
        /// The bytes of an item's identifier in references and properties.
        var idSize = 2
        var order = ["pitm", "iloc", "iinf", "iref", "iprp"]

        /// The encoded colour and alpha of each cell, and the properties of both.
        private var pixels: [(color: [UInt8], alpha: [UInt8])] = []
        private var configurations: [[UInt8]] = []

        init(_ picture: TestPicture, _ change: (inout TestAVIF) -> Void = { _ in }) throws {
            try self.init(width: picture.width, height: picture.height, picture.bytes.map { UInt16($0) }, change)
        }

        init(width: Int, height: Int, _ samples: [UInt16], _ change: (inout TestAVIF) -> Void = { _ in }) throws {
            var avif = TestAVIF()
            avif.hasAlpha = true
            change(&avif)
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
                pixels.append((Array(file[items[0][0]]), Array(file[items[1][0]])))
                let places = file.indices.dropLast(4).filter { file[$0..<$0 + 4].elementsEqual("av1C".utf8) }
                configurations = places.map { Array(file[$0 - 4..<$0 + 8]) }
            }
        }

        var file: [UInt8] {
            let type = TestBoxes.box("ftyp", Array("avif\0\0\0\0avifmif1miaf".utf8))
            let shape = [0, 0, 1, 1] + short(140) + short(136)
            let data = [shape] + pixels.map(\.color) + pixels.map(\.alpha)
            let start = type.count + structure(data, at: 0).count + 8
            return type + structure(data, at: start) + TestBoxes.box("mdat", data.flatMap(\.self))
        }

        private func structure(_ data: [[UInt8]], at start: Int) -> [UInt8] {
            // Item 1 is the grid, items 2 to 5 are the cells, and items 6 to 9 their alpha.
            func reference(_ type: String, _ item: Int, _ targets: [Int]) -> [UInt8] {
                TestBoxes.box(type, id(item) + short(targets.count) + targets.flatMap(id))
            }
            var position = start
            let places = data.enumerated().flatMap { index, bytes in
                defer { position += bytes.count }
                return short(index + 1) + [0, 0] + short(1) + TestBoxes.number(position) + TestBoxes.number(bytes.count)
            }
            let types = data.indices.flatMap {
                TestBoxes.full(
                    "infe", version: 2, short($0 + 1) + [0, 0] + Array(($0 == 0 ? "grid" : "av01").utf8) + [0])
            }
            var references = reference("dimg", 1, cells.map { $0 + 2 })
            for cell in alpha { references += reference("auxl", cell + 6, [alphaTargets[cell] + 2]) }
            for cell in premultiplied { references += reference("prem", cell + 2, [cell + 6]) }
            var properties = size(140, 136) + size(70, 68) + configurations[0] + configurations[1]
            properties += TestBoxes.full("auxC", Array(auxiliary.utf8) + [0]) + nclx
            var links = TestBoxes.number(data.count) + id(1) + [2, 1, 0x86]
            for cell in 0..<4 { links += id(cell + 2) + [3, 2, 0x83, 6] }
            for cell in 0..<4 { links += id(cell + 6) + [3, 2, 0x84, 5] }
            let version: UInt8 = idSize == 4 ? 1 : 0
            let described = TestBoxes.box("ipco", properties) + TestBoxes.full("ipma", version: version, links)
            let boxes = [
                "pitm": TestBoxes.full("pitm", short(1)),
                "iloc": TestBoxes.full("iloc", [0x44, 0] + short(data.count) + places),
                "iinf": TestBoxes.full("iinf", short(data.count) + types),
                "iref": TestBoxes.full("iref", version: version, references),
                "iprp": TestBoxes.box("iprp", described),
            ]
            let handler = [0, 0, 0, 0] + Array("pict".utf8) + [UInt8](repeating: 0, count: 13)
            return TestBoxes.full("meta", TestBoxes.full("hdlr", handler) + order.flatMap { boxes[$0] ?? [] })
        }

        /// sRGB's primaries and curve, the identity matrix, full range.
        private var nclx: [UInt8] {
            TestBoxes.box("colr", Array("nclx".utf8) + short(1) + short(13) + short(0) + [0x80])
        }
        private func id(_ item: Int) -> [UInt8] { TestBoxes.number(item).suffix(idSize) }
        private func short(_ value: Int) -> [UInt8] { TestBoxes.number(value).suffix(2) }
        private func size(_ width: Int, _ height: Int) -> [UInt8] {
            TestBoxes.full("ispe", TestBoxes.number(width) + TestBoxes.number(height))
        }
    }
#endif

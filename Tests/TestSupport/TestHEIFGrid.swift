#if !WITHOUT_HEIF
    /// A HEIC whose image is a grid of one tile of 64 × 64 pixels: a small file of any size.
    package enum TestHEIFGrid {
        /// Returns a grid of `side` × `side` tiles that show `tile`, which has 64 × 64 pixels; empty if libheif has no encoder.
        package static func file(_ tile: TestPicture, side: Int) -> [UInt8] {
            let encoded = tile.heif(quality: 50)
            guard let configuration = box("hvcC", in: encoded), let data = box("mdat", in: encoded)?.dropFirst(8) else {
                return []
            }
            let size = 64 * side
            let shape = [0, 0, UInt8(side - 1), UInt8(side - 1)] + short(size) + short(size)
            let properties = spatialExtents(size) + spatialExtents(64) + configuration
            // Property 1 is the size of the grid; the tile has the others.
            let links = [0, 0, 0, 2] + short(1) + [1, 0x81] + short(2) + [2, 0x82, 0x83]
            let types = entry(1, "grid") + entry(2, "hvc1")
            let uses = short(1) + short(side * side) + (0..<side * side).flatMap { _ in short(2) }
            let type = TestBoxes.box("ftyp", Array("heic\0\0\0\0mif1heic".utf8))
            func structure(at start: Int) -> [UInt8] {
                let handler = [0, 0, 0, 0] + Array("pict".utf8) + [UInt8](repeating: 0, count: 13)
                let places =
                    [0x44, 0] + short(2) + place(1, start, shape.count) + place(2, start + shape.count, data.count)
                var content = TestBoxes.full("hdlr", handler) + TestBoxes.full("pitm", short(1))
                content += TestBoxes.full("iloc", places) + TestBoxes.full("iinf", short(2) + types)
                content += TestBoxes.full("iref", TestBoxes.box("dimg", uses))
                content += TestBoxes.box(
                    "iprp", TestBoxes.box("ipco", properties) + TestBoxes.full("ipma", links))
                return TestBoxes.full("meta", content)
            }
            let start = type.count + structure(at: 0).count + 8
            return type + structure(at: start) + TestBoxes.box("mdat", shape + data)
        }

        /// Returns the first box of a type, which is found by its letters.
        private static func box(_ type: String, in file: [UInt8]) -> [UInt8]? {
            guard let place = file.indices.dropFirst(4).first(where: { file[$0...].starts(with: type.utf8) }) else {
                return nil
            }
            return Array(file[(place - 4)...].prefix(TestBoxes.number(file[(place - 4)...])))
        }

        private static func short(_ value: Int) -> [UInt8] { Array(TestBoxes.number(value).suffix(2)) }
        private static func spatialExtents(_ side: Int) -> [UInt8] {
            TestBoxes.full("ispe", TestBoxes.number(side) + TestBoxes.number(side))
        }
        private static func entry(_ item: Int, _ type: String) -> [UInt8] {
            TestBoxes.full("infe", version: 2, short(item) + [0, 0] + Array(type.utf8) + [0])
        }
        private static func place(_ item: Int, _ start: Int, _ length: Int) -> [UInt8] {
            short(item) + [0, 0] + short(1) + TestBoxes.number(start) + TestBoxes.number(length)
        }
    }
#endif

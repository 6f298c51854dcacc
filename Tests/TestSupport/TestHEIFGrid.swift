#if !WITHOUT_HEIF
    /// A HEIC whose image is a grid of one tile of 64 × 64 pixels: a small file of any size.
    package enum TestHEIFGrid {
        /// Returns a grid of `side` × `side` tiles that show `tile`, which has 64 × 64 pixels; empty if libheif has no
        /// encoder. The values of `alpha` are those of each tile; its colour is multiplied by them if
        /// `isPremultiplied`.
        package static func file(
            _ tile: TestPicture, side: Int, alpha: TestPicture? = nil, isPremultiplied: Bool = false
        ) -> [UInt8] {
            let parts = ([tile] + (alpha.map { [$0] } ?? [])).map { $0.heif(quality: alpha == nil ? 50 : 100) }
            let configurations = parts.compactMap { box("hvcC", in: $0) }
            let pixels = parts.compactMap { box("mdat", in: $0)?.dropFirst(8) }
            if pixels.count < parts.count || configurations.count < parts.count { return [] }
            let size = 64 * side
            let shape = [0, 0, UInt8(side - 1), UInt8(side - 1)] + short(size) + short(size)
            var properties = spatialExtents(size) + spatialExtents(64) + configurations[0]
            // Property 1 is the size of the grid; the tile has the others.
            var links = [0, 0, 0, UInt8(1 + parts.count)] + short(1) + [1, 0x81] + short(2) + [2, 0x82, 0x83]
            var types = entry(1, "grid") + entry(2, "hvc1")
            var others: [UInt8] = []
            if alpha != nil {
                properties += configurations[1]
                properties += TestBoxes.full("auxC", Array("urn:mpeg:hevc:2015:auxid:1\0".utf8))
                links += short(3) + [3, 0x82, 0x84, 0x85]
                types += entry(3, "hvc1")
                others += TestBoxes.box("auxl", short(3) + short(1) + short(2))
                if isPremultiplied { others += TestBoxes.box("prem", short(2) + short(1) + short(3)) }
            }
            let uses = short(1) + short(side * side) + (0..<side * side).flatMap { _ in short(2) }
            let type = TestBoxes.box("ftyp", Array("heic\0\0\0\0mif1heic".utf8))
            func structure(at start: Int) -> [UInt8] {
                let handler = [0, 0, 0, 0] + Array("pict".utf8) + [UInt8](repeating: 0, count: 13)
                var places = [0x44, 0] + short(1 + parts.count) + place(1, start, shape.count)
                var position = start + shape.count
                for (index, data) in pixels.enumerated() {
                    places += place(2 + index, position, data.count)
                    position += data.count
                }
                var content = TestBoxes.full("hdlr", handler) + TestBoxes.full("pitm", short(1))
                content += TestBoxes.full("iloc", places) + TestBoxes.full("iinf", short(1 + parts.count) + types)
                content += TestBoxes.full("iref", TestBoxes.box("dimg", uses) + others)
                content += TestBoxes.box(
                    "iprp", TestBoxes.box("ipco", properties) + TestBoxes.full("ipma", links))
                return TestBoxes.full("meta", content)
            }
            let start = type.count + structure(at: 0).count + 8
            return type + structure(at: start) + TestBoxes.box("mdat", shape + pixels.flatMap(\.self))
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

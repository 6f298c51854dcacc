#if !WITHOUT_HEIF
    /// A HEIC whose image is a grid of one tile of 64 × 64 pixels: a small file of any size.
    package enum TestHEIFGrid {
        /// Returns a grid of `side` × `side` tiles that show `tile`, which has 64 × 64 pixels; empty if libheif has no
        /// encoder. Its size is that of the tiles unless stated. The values of `alpha` are those of each tile; its
        /// colour is multiplied by them if `isPremultiplied`.
        package static func file(
            _ tile: TestPicture, side: Int, width: Int? = nil, height: Int? = nil, alpha: TestPicture? = nil,
            isPremultiplied: Bool = false
        ) -> [UInt8] {
            let parts = ([tile] + (alpha.map { [$0] } ?? [])).map { $0.heif(quality: alpha == nil ? 50 : 100) }
            let configurations = parts.compactMap { box("hvcC", in: $0) }
            let pixels = parts.compactMap { box("mdat", in: $0)?.dropFirst(8) }
            if pixels.count < parts.count || configurations.count < parts.count { return [] }
            let (width, height) = (width ?? 64 * side, height ?? 64 * side)
            let grid = TestItems.grid(columns: side, rows: side, width, height)
            var file = TestItems(
                [("grid", grid, [0x81]), ("hvc1", Array(pixels[0]), [0x82, 0x83])],
                properties: [TestItems.size(width, height), TestItems.size(64, 64), configurations[0]],
                references: [("dimg", 1, [Int](repeating: 2, count: side * side))])
            if alpha != nil {
                file.items.append(("hvc1", Array(pixels[1]), [0x82, 0x84, 0x85]))
                let kind = TestBoxes.full("auxC", Array("urn:mpeg:hevc:2015:auxid:1\0".utf8))
                file.properties += [configurations[1], kind]
                file.references.append(("auxl", 3, [2]))
                if isPremultiplied { file.references.append(("prem", 2, [3])) }
            }
            return file.file("heic\0\0\0\0mif1heic")
        }

        /// Returns the first box of a type, which is found by its letters.
        private static func box(_ type: String, in file: [UInt8]) -> [UInt8]? {
            guard let place = file.indices.dropFirst(4).first(where: { file[$0...].starts(with: type.utf8) }) else {
                return nil
            }
            return Array(file[(place - 4)...].prefix(TestBoxes.number(file[(place - 4)...])))
        }
    }
#endif

#if !WITHOUT_AVIF
    import TestSupport

    enum AVIFBomb {
        /// An image of one colour: a few hundred bytes for any size.
        static func flat(_ width: Int, _ height: Int, _ change: (inout TestAVIF) -> Void = { _ in }) -> [UInt8] {
            var avif = TestAVIF()
            (avif.matrix, avif.quantizer) = (6, 60)
            change(&avif)
            return avif.file(width: width, height: height, [UInt16](repeating: 200, count: width * height * 4))
        }

        /// An image of 64 × 64 pixels whose container declares another size (ispe).
        static func claiming(_ width: Int, _ height: Int, _ change: (inout TestAVIF) -> Void = { _ in }) -> [UInt8] {
            replacing("ispe", by: PNGBomb.bigEndian(width) + PNGBomb.bigEndian(height), in: flat(64, 64, change))
        }

        /// A sequence that declares `count` frames of one byte each in one chunk (stsz).
        static func frames(_ count: Int) -> [UInt8] {
            replacing("stsz", by: PNGBomb.bigEndian(1) + PNGBomb.bigEndian(count), in: flat(64, 64) { $0.frames = 2 })
        }

        /// A file with `count` empty properties.
        static func properties(_ count: Int) -> [UInt8] {
            var file = flat(9, 9)
            let more = [[UInt8]](repeating: [0, 0, 0, 8] + Array("free".utf8), count: count).flatMap(\.self)
            var end = 0
            for name in ["meta", "iprp", "ipco"] {
                guard let place = file.indices.first(where: { file[$0...].starts(with: name.utf8) }) else { return [] }
                let size = file[place - 4..<place].reduce(0) { $0 << 8 | Int($1) }
                file.replaceSubrange(place - 4..<place, with: PNGBomb.bigEndian(size + more.count))
                end = place - 4 + size
            }
            file.insert(contentsOf: more, at: end)
            return file
        }

        /// A file whose `count` items have 65,535 extents each, which take no bytes.
        static func extents(_ count: Int) -> [UInt8] {
            var file = flat(9, 9)
            let items = (1...count).flatMap { PNGBomb.bigEndian($0)[2...] + [0, 0, 255, 255] }
            let content: [UInt8] = [0, 0, 0, 0, 0, 0] + PNGBomb.bigEndian(count)[2...] + items
            let places = ["meta", "iloc"].map { name in
                (file.indices.first { file[$0...].starts(with: name.utf8) } ?? 4) - 4
            }
            let sizes = places.map { file[$0..<$0 + 4].reduce(0) { $0 << 8 | Int($1) } }
            file.replaceSubrange(
                places[1]..<places[1] + sizes[1],
                with: PNGBomb.bigEndian(8 + content.count) + Array("iloc".utf8) + content)
            file.replaceSubrange(
                places[0]..<places[0] + 4, with: PNGBomb.bigEndian(sizes[0] - sizes[1] + 8 + content.count))
            return file
        }

        /// Replaces what begins the content of boxes.
        private static func replacing(_ type: String, by start: [UInt8], in file: [UInt8]) -> [UInt8] {
            var bytes = file
            for index in file.indices where file[index...].starts(with: Array("\(type)\0\0\0\0".utf8)) {
                bytes.replaceSubrange(index + 8..<index + 8 + start.count, with: start)
            }
            return bytes
        }
    }
#endif

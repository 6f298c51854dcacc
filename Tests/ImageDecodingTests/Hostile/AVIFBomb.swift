#if !WITHOUT_AVIF
    import TestSupport

    enum AVIFBomb {
        /// An image of one colour: a few hundred bytes for any size.
        static func flat(_ width: Int, _ height: Int, _ change: (inout TestAVIF) -> Void = { _ in }) -> [UInt8] {
            let avif = TestAVIF {
                ($0.matrix, $0.quantizer) = (6, 60)
                change(&$0)
            }
            return avif.file(width: width, height: height, [UInt16](repeating: 200, count: width * height * 4))
        }

        /// An image of 64 × 64 pixels whose container declares another size (ispe).
        static func claiming(_ width: Int, _ height: Int, _ change: (inout TestAVIF) -> Void = { _ in }) -> [UInt8] {
            TestBoxes.declaring(width, height, in: flat(64, 64, change))
        }

        /// A sequence that declares `count` frames of one byte each in one chunk (stsz).
        static func frames(_ count: Int) -> [UInt8] {
            TestBoxes.changing(flat(64, 64) { $0.frames = 2 }) { type, content in
                guard type == "stsz" else { return nil }
                return TestBoxes.full(type, TestBoxes.number(1) + TestBoxes.number(count) + content[12...])
            }
        }

        static func properties(_ count: Int) -> [UInt8] {
            var file = flat(9, 9)
            let more = [[UInt8]](repeating: [0, 0, 0, 8] + Array("free".utf8), count: count).flatMap(\.self)
            var end = 0
            for name in ["meta", "iprp", "ipco"] {
                guard let place = file.places(of: name).first else { return [] }
                let size = TestBoxes.number(file[(place - 4)...])
                file.replaceSubrange(place - 4..<place, with: TestBoxes.number(size + more.count))
                end = place - 4 + size
            }
            file.insert(contentsOf: more, at: end)
            return file
        }

        /// A file whose `count` items have 65,535 extents each, which take no bytes.
        static func extents(_ count: Int) -> [UInt8] {
            var file = flat(9, 9)
            let items = (1...count).flatMap { TestBoxes.number($0)[2...] + [0, 0, 255, 255] }
            let content: [UInt8] = [0, 0, 0, 0, 0, 0] + TestBoxes.number(count)[2...] + items
            let places = ["meta", "iloc"].map { (file.places(of: $0).first ?? 4) - 4 }
            let sizes = places.map { TestBoxes.number(file[$0...]) }
            file.replaceSubrange(places[1]..<places[1] + sizes[1], with: TestBoxes.box("iloc", content))
            file.replaceSubrange(
                places[0]..<places[0] + 4, with: TestBoxes.number(sizes[0] - sizes[1] + 8 + content.count))
            return file
        }
    }
#endif

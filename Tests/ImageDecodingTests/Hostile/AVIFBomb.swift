#if !WITHOUT_AVIF
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
                return TestBoxes.full(type, big(1, 4) + big(count, 4) + content[12...])
            }
        }

        static func properties(_ count: Int) -> [UInt8] {
            let more = repeated(TestBoxes.box("free", []), count)
            return TestBoxes.changing(flat(9, 9)) { $0 == "ipco" ? TestBoxes.box($0, $1 + more) : nil }
        }

        /// A file whose `count` items have 65,535 extents each, which take no bytes.
        static func extents(_ count: Int) -> [UInt8] {
            let items = (1...count).flatMap { number -> [UInt8] in big(number, 2) + [0, 0, 255, 255] }
            return TestBoxes.changing(flat(9, 9)) { type, _ in
                type == "iloc" ? TestBoxes.full(type, [0, 0] + big(count, 2) + items) : nil
            }
        }
    }
#endif

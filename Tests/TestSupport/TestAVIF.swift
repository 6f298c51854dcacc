#if !WITHOUT_AVIF
    internal import CTestSupport
    internal import Glibc

    /// An AVIF file of a picture, encoded by libavif. Without loss unless said otherwise.
    package struct TestAVIF: Sendable {
        /// Its bits: 8, 10 or 12.
        package var depth = 8
        /// 400, 420, 422 or 444.
        package var sampling = 444
        /// 0 for no loss … 63.
        package var quantizer = 0
        /// Whether alpha is written.
        package var hasAlpha = false
        /// Whether colour is multiplied by it in the file.
        package var isPremultiplied = false
        /// Whether black is 16 and white 235.
        package var isLimited = false
        /// Numbers of ITU-T H.273: sRGB's primaries and curve, and red, green and blue as they are.
        package var (primaries, transfer, matrix) = (1, 13, 0)
        /// Written as irot and imir.
        package var orientation = 0
        /// The left and top edge, width and height of what is to be shown.
        package var crop: [Int] = []
        /// Cells of a grid.
        package var (columns, rows) = (1, 1)
        /// More than one for a sequence.
        package var frames = 1
        /// An ICC profile.
        package var profile: [UInt8] = []

        /// A file of a still picture of 8 bits.
        package init() {}

        /// The file of `picture`; empty when the library cannot write such a one.
        package func file(_ picture: TestPicture) -> [UInt8] {
            file(width: picture.width, height: picture.height, picture.bytes.map { UInt16($0) })
        }

        /// The file of samples as deep as `depth` says, four a pixel.
        package func file(width: Int, height: Int, _ samples: [UInt16]) -> [UInt8] {
            var description = ctest_avif()
            (description.width, description.height) = (UInt32(width), UInt32(height))
            (description.depth, description.sampling) = (Int32(depth), Int32(sampling))
            description.quantizer = Int32(quantizer)
            description.has_alpha = hasAlpha ? 1 : 0
            description.is_premultiplied = isPremultiplied ? 1 : 0
            description.is_limited = isLimited ? 1 : 0
            description.primaries = Int32(primaries)
            description.transfer = Int32(transfer)
            description.matrix = Int32(matrix)
            description.orientation = Int32(orientation)
            if crop.count == 4 {
                description.crop = (UInt32(crop[0]), UInt32(crop[1]), UInt32(crop[2]), UInt32(crop[3]))
            }
            (description.columns, description.rows) = (Int32(columns), Int32(rows))
            description.frames = Int32(frames)
            var length = 0
            let bytes = unsafe ctest_avif_encode(&description, samples, profile, profile.count, &length)
            guard let bytes = unsafe bytes else { return [] }
            defer { unsafe free(bytes) }
            return unsafe Array(UnsafeBufferPointer(start: bytes, count: length))
        }

        /// What libavif makes of `file` in one piece; nil when it cannot.
        package static func decoded(_ file: [UInt8], width: Int, height: Int) -> TestPicture? {
            var pixels = [UInt8](repeating: 0, count: width * height * 4)
            guard unsafe ctest_avif_decode(file, file.count, &pixels) != 0 else { return nil }
            return TestPicture(width: width, height: height, bytes: pixels)
        }
    }
#endif

#if !WITHOUT_AVIF
    internal import CTestSupport
    internal import Glibc

    /// An AVIF file of an image, encoded by libavif; lossless by default.
    package struct TestAVIF: Sendable {
        /// The bits per sample: 8, 10 or 12.
        package var depth = 8
        /// The chroma subsampling: 400, 420, 422 or 444.
        package var sampling = 444
        /// The quantizer, from 0 (lossless) to 63.
        package var quantizer = 0
        /// Whether alpha is written.
        package var hasAlpha = false
        /// Whether colour is premultiplied in the file.
        package var isPremultiplied = false
        /// Whether the range is limited: black is 16, white is 235.
        package var isLimited = false
        /// Numbers of ITU-T H.273: by default sRGB's primaries and curve, and the identity matrix.
        package var (primaries, transfer, matrix) = (1, 13, 0)
        /// The values of irot and imir.
        package var orientation = 0
        /// The left and top edge, width and height of the visible part.
        package var crop: [Int] = []
        /// The cells of a grid.
        package var (columns, rows) = (1, 1)
        /// The number of frames; more than one for a sequence.
        package var frames = 1
        /// An ICC profile.
        package var profile: [UInt8] = []

        /// Creates the settings of a still image of 8 bits.
        package init() {}

        /// Encodes `picture`; empty when the library cannot write such a file.
        package func file(_ picture: TestPicture) -> [UInt8] {
            file(width: picture.width, height: picture.height, picture.bytes.map { UInt16($0) })
        }

        /// Encodes samples of `depth` bits, four per pixel.
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

        /// Decodes `file` with libavif; nil when it cannot.
        package static func decoded(_ file: [UInt8], width: Int, height: Int) -> TestPicture? {
            var pixels = [UInt8](repeating: 0, count: width * height * 4)
            guard unsafe ctest_avif_decode(file, file.count, &pixels) != 0 else { return nil }
            return TestPicture(width: width, height: height, bytes: pixels)
        }
    }
#endif

#if !WITHOUT_AVIF
    internal import CTestSupport

    /// An AVIF file encoded by libavif; lossless by default.
    package struct TestAVIF: Sendable {
        /// The bits per channel: 8, 10 or 12.
        package var depth = 8
        /// The chroma sampling: 400, 420, 422 or 444.
        package var sampling = 444
        /// The quantizer, 0 (lossless) … 63.
        package var quantizer = 0
        package var hasAlpha = false
        package var isPremultiplied = false
        /// Whether to use limited range: black is 16 and white 235.
        package var isLimited = false
        /// Code points of ITU-T H.273; by default sRGB's primaries and transfer, and the identity matrix.
        package var (primaries, transfer, matrix) = (1, 13, 0)
        /// The EXIF orientation to write as irot and imir.
        package var orientation = 0
        /// The clean aperture: left, top, width and height.
        package var crop: [Int] = []
        /// The cells of a grid.
        package var (columns, rows) = (1, 1)
        /// The number of frames; more than one makes a sequence.
        package var frames = 1
        /// The units of a second, and the duration of each frame in them; they are repeated.
        package var (timescale, durations) = (1000, [Int]())
        /// The most frames from one key frame to the next; 0 for any number.
        package var keyInterval = 0
        package var profile: [UInt8] = []

        package init() {}

        /// Encodes `picture`; empty if libavif cannot encode such a file.
        package func file(_ picture: TestPicture) -> [UInt8] {
            file(width: picture.width, height: picture.height, picture.bytes.map { UInt16($0) })
        }

        /// Encodes a sequence of pictures of one size.
        package func sequence(_ pictures: [TestPicture]) -> [UInt8] {
            var avif = self
            avif.frames = pictures.count
            guard let first = pictures.first else { return [] }
            return avif.file(
                width: first.width, height: first.height, pictures.flatMap { $0.bytes.map { UInt16($0) } })
        }

        /// Encodes samples of `depth` bits, four a pixel; of one frame, which all have in common, or of all one after
        /// the other.
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
            description.has_frames_pixels = samples.count > width * height * 4 ? 1 : 0
            description.timescale = Int32(timescale)
            description.key_interval = Int32(keyInterval)
            for index in 0..<16 where !durations.isEmpty {
                unsafe withUnsafeMutableBytes(of: &description.durations) {
                    unsafe $0.storeBytes(
                        of: Int32(durations[index % durations.count]), toByteOffset: index * 4, as: Int32.self)
                }
            }
            var length = 0
            return unsafe taken(ctest_avif_encode(&description, samples, profile, profile.count, &length), length)
        }

        /// Decodes `file` with libavif as a whole, of a sequence all images up to the one at `index`; nil if it fails.
        package static func decoded(_ file: [UInt8], width: Int, height: Int, index: Int = 0) -> TestPicture? {
            var pixels = [UInt8](repeating: 0, count: width * height * 4)
            guard unsafe ctest_avif_decode(file, file.count, Int32(index), &pixels) != 0 else { return nil }
            return TestPicture(width: width, height: height, bytes: pixels)
        }
    }
#endif

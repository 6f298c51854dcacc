import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes an icon or a cursor: the image whose size is nearest to the requested one and not smaller, else the largest.
/// The size of the icon is that of its largest image, of which the others are taken for reductions.
struct IconDecoder: ImageDecoder {
    let header: StoredHeader

    /// An image of the file: a PNG, or a bitmap without a file header.
    private struct Image {
        let start: Int
        let geometry: PixelGeometry
        /// The bits of a pixel.
        let depth: Int
        /// Nil for a PNG.
        let bitmap: BitmapHeader?
        var isInterlaced = false

        /// Whether an image with the shape of `other` may have this size, rounded.
        func hasShape(of other: PixelGeometry) -> Bool {
            let (wide, high) = (geometry.width * other.height, geometry.height * other.width)
            return 2 * abs(wide - high) <= max(other.width, other.height)
        }
    }

    /// One image of each size, the largest first.
    private let images: [Image]
    private let source: ImageSource

    /// Reads the directory of `source` and the headers of its images; other entries are left out. Throws
    /// `truncated` if the file ends before a header, `too-many-pixels`, `decode-failed` and the like.
    init(_ source: ImageSource) throws(WireError) {
        let file = unsafe UnsafeBufferPointer(start: source.start, count: source.bytes.count)
        images = try Self.images(in: unsafe file.span, isWhole: !source.toleratesDamage)
        self.source = source
        header = StoredHeader(images[0].geometry, hasAlpha: true)
    }

    var streams: Bool { !images.contains(where: \.isInterlaced) }
    var storesSizes: Bool { true }

    func size(keeping share: Double) -> DecodedSize {
        let stored = header.geometry
        let isEnough = { (image: Image) in
            // A requested side was rounded.
            Double(image.geometry.width) + 0.5 > share * Double(stored.width)
                && Double(image.geometry.height) + 0.5 > share * Double(stored.height)
        }
        let image = images.last(where: isEnough) ?? images[0]
        return DecodedSize(stored, stretchedTo: image.geometry)
    }

    func workingBytes(at size: DecodedSize) -> Int {
        let image = image(of: size)
        guard image.bitmap == nil else { return RowBand.bytes(of: image.geometry) }
        return PNGDecoder.workingBytes(of: image.geometry, isInterlaced: image.isInterlaced)
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let image = image(of: size)
        let full = DecodedSize(full: image.geometry)
        if let bitmap = image.bitmap {
            let decoder = try RowDecoder(source, .ico) { (bytes, isWhole) throws(WireError) in
                try BMPReader(icon: bitmap, bytes, isWhole: isWhole)
            }
            return try decoder.decode(format, at: full, into: &sink)
        }
        let file = unsafe ImageSource(
            image.start..<source.bytes.count, of: source, toleratesDamage: source.toleratesDamage)
        let decoder = try PNGDecoder(file) { _ in ImageMetadata() }
        try decoder.decode(format, at: full, into: &sink)
    }

    private func image(of size: DecodedSize) -> Image { images.first { $0.geometry == size.geometry } ?? images[0] }

    /// Reads the headers of all images. Their own sizes and depths count, because a directory has no room for all
    /// sizes, and that of a cursor has none for depths.
    private static func images(in bytes: Span<UInt8>, isWhole: Bool) throws(WireError) -> [Image] {
        var best: [PixelGeometry: Image] = [:]
        var failure = WireError(CODEC_DAMAGED, format: .ico, message: "it has no image")
        let count = bytes.integer(at: 4, bytes: 2, .little) ?? 0
        guard count <= ImageFormat.mostIcons else {
            throw WireError(CODEC_TOO_LARGE, format: .ico, message: "\(count) images")
        }
        for entry in 0..<count {
            do throws(WireError) {
                guard let start = bytes.integer(at: 6 + 16 * entry + 12, bytes: 4, .little) else {
                    throw WireError(CODEC_TRUNCATED, format: .ico)
                }
                let image = try image(in: bytes, at: start)
                if (best[image.geometry]?.depth ?? 0) < image.depth { best[image.geometry] = image }
            } catch {
                // Another image must not take the place of one that is only incomplete.
                if error.code == .truncated, isWhole { throw error }
                failure = error
            }
        }
        let images = best.values.sorted {
            ($0.geometry.pixels, $0.geometry.width) > ($1.geometry.pixels, $1.geometry.width)
        }
        guard let largest = images.first else { throw failure }
        return images.filter { $0.hasShape(of: largest.geometry) }
    }

    private static func image(in bytes: Span<UInt8>, at start: Int) throws(WireError) -> Image {
        guard bytes.integer(at: start, bytes: 4, .big) == 0x8950_4E47 else {
            let bitmap = try BitmapHeader(bytes, at: start, of: .ico)
            return Image(start: start, geometry: bitmap.geometry, depth: bitmap.bits, bitmap: bitmap)
        }
        // The signature, and the first chunk, which has the size, the depth and the kind of colours.
        guard let width = bytes.integer(at: start + 16, bytes: 4, .big),
            let height = bytes.integer(at: start + 20, bytes: 4, .big),
            let kinds = bytes.integer(at: start + 24, bytes: 2, .big),
            let interlace = bytes.integer(at: start + 28, bytes: 1, .big)
        else { throw WireError(CODEC_TRUNCATED, format: .ico) }
        let samples = [2: 3, 4: 2, 6: 4][kinds & 255] ?? 1
        return Image(
            start: start, geometry: try PixelGeometry(width, height, of: .ico), depth: (kinds >> 8) * samples,
            bitmap: nil, isInterlaced: interlace != 0)
    }
}

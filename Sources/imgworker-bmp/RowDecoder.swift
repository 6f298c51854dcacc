import CImageCodecs
import IPCProtocol
import ImageDecoding

/// An image whose header is read, and whose rows are read one after the other. All offsets are checked against the
/// bytes.
protocol RowReader {
    var geometry: PixelGeometry { get }
    var hasAlpha: Bool { get }
    var heldBytes: Int { get }
    /// The place of an ICC profile in the file; nil for none.
    var profile: Range<Int>? { get }
    /// Why a row has fewer pixels.
    var failure: codec_status { get }
    /// Reads row `row` of `bytes`, counted from the top, into `pixels` (`RGBA`), and returns the number of pixels that
    /// there are; the others stay as they are. Called for each row in order, because some formats have no places of
    /// rows.
    mutating func read(_ row: Int, of bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int
}

extension RowReader {
    var heldBytes: Int { 0 }
    var profile: Range<Int>? { nil }
    var failure: codec_status { CODEC_TRUNCATED }
}

/// Pixels as numbers whose bytes in memory are red, green, blue and alpha.
enum RGBA {
    static let clear: UInt32 = 0
    static let black: UInt32 = 0xFF00_0000

    static func pixel(_ red: UInt8, _ green: UInt8, _ blue: UInt8, _ alpha: UInt8 = 255) -> UInt32 {
        UInt32(red) | UInt32(green) << 8 | UInt32(blue) << 16 | UInt32(alpha) << 24
    }
}

struct RowDecoder<Reader: RowReader>: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let source: ImageSource
    private let reader: Reader
    private let format: ImageFormat

    /// Opens a reader of `source`. `open` is given the bytes and whether all of the image must be there: then it throws
    /// `truncated` if the file is too short for what it declares, before anyone allocates memory for it.
    init(
        _ source: ImageSource, _ format: ImageFormat,
        open: (Span<UInt8>, _ isWhole: Bool) throws(WireError) -> Reader
    ) throws(WireError) {
        let bytes = unsafe UnsafeBufferPointer(start: source.start, count: source.bytes.count)
        reader = try open(unsafe bytes.span, !source.toleratesDamage)
        (self.source, self.format) = (source, format)
        // Missing pixels are transparent.
        header = StoredHeader(
            reader.geometry, hasAlpha: reader.hasAlpha || source.toleratesDamage, heldBytes: reader.heldBytes)
        let profile = reader.profile.map { unsafe ColorProfile(UnsafeBufferPointer(rebasing: bytes[$0])) }
        metadata = ImageMetadata(profile: profile ?? .none)
    }

    var streams: Bool { true }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let width = header.geometry.width
        var (reader, row, found) = (reader, 0, false)
        unsafe try sink.takeBands(of: header.geometry) { (rows, count) throws(WireError) in
            let bytes = unsafe UnsafeBufferPointer(start: source.start, count: source.bytes.count)
            let band = unsafe UnsafeMutableBufferPointer(
                start: rows.baseAddress!.assumingMemoryBound(to: UInt32.self), count: count * width)
            for index in 0..<count {
                var pixels = unsafe UnsafeMutableBufferPointer(
                    rebasing: band[index * width..<(index + 1) * width]
                ).mutableSpan
                let read = reader.read(row, of: unsafe bytes.span, into: &pixels)
                guard read == width || source.toleratesDamage else {
                    throw WireError(reader.failure, format: self.format)
                }
                for x in read..<width { pixels[x] = RGBA.clear }
                found = found || read > 0
                row += 1
            }
            if format.codecOrder == CODEC_BGRA { unsafe swapRedAndBlue(rows) }
        }
        // Only where damage is accepted.
        guard found else { throw WireError(reader.failure, format: self.format) }
    }
}

extension PixelGeometry {
    /// The size of an image of `format`. Throws `empty-image`, `too-many-pixels`.
    init(_ width: Int, _ height: Int, of format: ImageFormat) throws(WireError) {
        guard width > 0, height > 0 else { throw WireError(CODEC_EMPTY, format: format) }
        guard let geometry = PixelGeometry(width: width, height: height) else {
            throw WireError(CODEC_TOO_LARGE, format: format, message: "\(width) × \(height) pixels")
        }
        self = geometry
    }
}

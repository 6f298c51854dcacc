import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes a WebP image, or the bitstream of an animation's frame, with libwebp, which decodes it as a whole.
struct WebPDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let range: Range<Int>

    /// Reads the header of `source`, or of the bitstream at `range` of it.
    init(_ source: ImageSource, at range: Range<Int>? = nil) throws(WireError) {
        self.source = source
        unsafe self.range = range ?? 0..<source.bytes.count
        var header = codec_header()
        let read = source.isPart ? unsafe codec_webp_read_part_header : unsafe codec_webp_read_header
        let status = unsafe read(source.start + self.range.lowerBound, self.range.count, &header)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        // Missing rows are transparent.
        if source.toleratesDamage { header.has_alpha = 1 }
        self.header = try StoredHeader(header)
    }

    var metadata: ImageMetadata { ImageMetadata(source, .webp, frameCount: header.frameCount) }

    /// Returns the available sixteenths of the file, because the number of available rows is only known after decoding.
    func findStage() throws(WireError) -> Int {
        let announced = source.withSpan { $0.integer(at: 4, bytes: 4, .little) } ?? 0
        return unsafe min(16 * source.bytes.count / (announced + 8), 16)
    }

    func size(keeping share: Double) -> DecodedSize {
        guard header.canScale, share < 1 else { return DecodedSize(full: header.geometry) }
        // At least one eighth, as for JPEG, so that the filter has enough pixels to work with.
        return DecodedSize(header.geometry, share: max(share, 1 / 8))
    }

    func workingBytes(at size: DecodedSize) -> Int {
        // Windows of decoded and stored rows, and those of the scaler.
        header.heldBytes + size.geometry.bytes + 256 * header.geometry.width
    }

    /// Returns an upper estimate for a frame of this size, without reading it.
    static func workingBytes(ofFrame size: PixelGeometry) -> Int {
        Int(clamping: codec_webp_most_held_bytes(UInt64(size.pixels))) + size.bytes + 256 * size.width
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let geometry = size.geometry
        let raster = try PixelMemory(count: geometry.bytes)
        let (start, pixels) = unsafe (source.start + range.lowerBound, raster.bytes.start)
        let (width, height) = (UInt32(geometry.width), UInt32(geometry.height))
        let status =
            source.isPart || source.toleratesDamage
            ? unsafe codec_webp_decode_rows(
                start, range.count, format.codecOrder, width, height, pixels, source.toleratesDamage ? 1 : 0)
            : unsafe codec_webp_decode(start, range.count, format.codecOrder, width, height, pixels)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        unsafe try sink.takeWhole(raster.bytes, geometry)
    }
}

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
        let status = unsafe codec_webp_read_header(
            source.start + self.range.lowerBound, self.range.count, Self.state(of: source), &header)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        self.header = try StoredHeader(header)
    }

    private static func state(of source: ImageSource) -> codec_webp_state {
        source.toleratesDamage ? CODEC_WEBP_DAMAGED : source.isPart ? CODEC_WEBP_PART : CODEC_WEBP_WHOLE
    }

    var metadata: ImageMetadata { ImageMetadata(source, .webp) }

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
        let status = unsafe codec_webp_decode(
            source.start + range.lowerBound, range.count, Self.state(of: source), format.codecOrder,
            UInt32(geometry.width), UInt32(geometry.height), raster.bytes.start)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        unsafe try sink.takeWhole(raster.bytes, geometry)
    }
}

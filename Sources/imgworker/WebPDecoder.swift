import CImageCodecs
import IPCProtocol

/// Decodes WebP with libwebp, which holds the picture as a whole; of an animation, the first frame on its canvas.
struct WebPDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let codecHeader: codec_header

    /// Reads the header of `source`.
    ///
    /// - Throws: `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource, maxPixels: Int) throws(WireError) {
        var header = codec_header()
        let status = unsafe codec_webp_read_header(source.start, source.bytes.count, &header)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        self.source = source
        codecHeader = header
        self.header = try StoredHeader(header, maxPixels: maxPixels)
    }

    func decode(_ format: PixelFormat, into sink: inout some RowSink) throws(WireError) {
        let picture = try PixelMemory(count: header.geometry.bytes, zeroed: true)
        let pixels = unsafe picture.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        var codecHeader = codecHeader
        let status = unsafe codec_webp_decode(
            source.start, source.bytes.count, &codecHeader, format.codecOrder, pixels)
        guard status == CODEC_OK else { throw WireError(status, format: .webp) }
        unsafe try sink.takeWhole(picture.bytes, header.geometry)
    }
}

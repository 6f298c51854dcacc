import CImageCodecs
import CTIFFDecoder
import IPCProtocol
import ImageDecoding

/// Decodes the first image of a TIFF, a strip or a row of tiles at a time.
struct TIFFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let reader: CodecHandle
    /// Keeps the bytes that the reader uses.
    private let source: ImageSource

    /// Reads the header of `source`.
    ///
    /// - Throws: `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource) throws(WireError) {
        guard
            let reader = unsafe CodecHandle(
                codec_tiff_reader_create(source.start, source.bytes.count), destroy: codec_tiff_reader_destroy)
        else { throw .outOfMemory }
        (self.source, self.reader) = (source, reader)
        if source.toleratesDamage { unsafe codec_tiff_reader_accept_damage(reader.pointer) }
        var header = codec_header()
        let status = unsafe codec_tiff_reader_read_header(reader.pointer, &header)
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        // Missing strips and tiles are transparent.
        if source.toleratesDamage { header.has_alpha = 1 }
        self.header = try StoredHeader(header)
        var count = 0
        let profile = unsafe codec_tiff_reader_profile(reader.pointer, &count)
        let orientation = unsafe Int(codec_tiff_reader_orientation(reader.pointer))
        metadata = ImageMetadata(
            orientation: Orientation(rawValue: orientation) ?? .upright,
            profile: unsafe ColorProfile(UnsafeBufferPointer(start: profile, count: count)), frameCount: 1)
    }

    var streams: Bool { true }

    func size(keeping share: Double) -> DecodedSize { DecodedSize(full: header.geometry) }

    func workingBytes(at size: DecodedSize) -> Int {
        header.heldBytes + RowBand.rows(of: header.geometry) * header.geometry.stride
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let status = unsafe codec_tiff_reader_start(reader.pointer, format.codecOrder)
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        let geometry = header.geometry
        unsafe try sink.takeBands(of: geometry) { (rows, count) throws(WireError) in
            let start = unsafe rows.baseAddress!.assumingMemoryBound(to: UInt8.self)
            let status = unsafe codec_tiff_reader_read_rows(reader.pointer, start, geometry.stride, UInt32(count))
            guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        }
    }

    private static func failure(_ status: codec_status, of reader: CodecHandle) -> WireError {
        unsafe WireError(status, format: .tiff, message: String(cString: codec_tiff_reader_message(reader.pointer)))
    }
}

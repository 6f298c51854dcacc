import CHEIFDecoder
import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes the primary image of a HEIC, which is held as luma and chroma in its stored depth.
struct HEIFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let reader: CodecHandle
    /// Keeps the bytes that the reader uses.
    private let source: ImageSource

    /// Reads the header of `source`.
    ///
    /// - Throws: `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource) throws(WireError) { try self.init(source, thumbnail: nil) }

    /// Reads the header of the image, or of its thumbnail with this index.
    private init(_ source: ImageSource, thumbnail: UInt32?) throws(WireError) {
        guard
            let reader = unsafe CodecHandle(
                codec_heif_reader_create(source.start, source.bytes.count), destroy: codec_heif_reader_destroy)
        else { throw .outOfMemory }
        (self.source, self.reader) = (source, reader)
        var header = codec_header()
        var status = unsafe codec_heif_reader_read_header(reader.pointer, &header)
        if status == CODEC_OK, let thumbnail {
            status = unsafe codec_heif_reader_show_thumbnail(reader.pointer, thumbnail, &header)
        }
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        self.header = try StoredHeader(header)
        var count = 0
        let profile = unsafe codec_heif_reader_profile(reader.pointer, &count)
        // libheif turns and mirrors the image itself; the standard excludes the orientation of EXIF.
        metadata = ImageMetadata(
            orientation: .upright, profile: unsafe ColorProfile(UnsafeBufferPointer(start: profile, count: count)),
            frameCount: 1)
    }

    /// Opens the smallest thumbnail of a suitable size.
    static func preview(_ source: ImageSource, isSuitable: (PixelGeometry) -> Bool) -> (any ImageDecoder)? {
        var best: HEIFDecoder?
        for index in 0..<UInt32(CODEC_HEIF_MAXIMUM_THUMBNAILS) {
            guard let decoder = try? HEIFDecoder(source, thumbnail: index) else { break }
            guard isSuitable(decoder.header.geometry),
                best.map({ decoder.header.geometry.pixels < $0.header.geometry.pixels }) ?? true
            else { continue }
            best = decoder
        }
        return best
    }

    func size(keeping share: Double) -> DecodedSize { DecodedSize(full: header.geometry) }

    func workingBytes(at size: DecodedSize) -> Int {
        header.heldBytes + RowBand.rows(of: header.geometry) * header.geometry.stride
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let status = unsafe codec_heif_reader_start(reader.pointer, format.codecOrder)
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        let geometry = header.geometry
        unsafe try sink.takeBands(of: geometry) { (rows, count) throws(WireError) in
            let start = unsafe rows.baseAddress!.assumingMemoryBound(to: UInt8.self)
            let status = unsafe codec_heif_reader_read_rows(reader.pointer, start, geometry.stride, UInt32(count))
            guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        }
    }

    private static func failure(_ status: codec_status, of reader: CodecHandle) -> WireError {
        unsafe WireError(status, format: .heif, message: String(cString: codec_heif_reader_message(reader.pointer)))
    }
}

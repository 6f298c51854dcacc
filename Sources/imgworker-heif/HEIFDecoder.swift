import CHEIFDecoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

/// Decodes the primary image of a HEIC, which is held as luma and chroma in its stored depth.
struct HEIFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let reader: CodecReader

    /// Reads the header of the image in `source`, or of its thumbnail with an index.
    init(_ source: ImageSource, thumbnail: UInt32? = nil) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .heif, create: codec_heif_reader_create)
        var header = unsafe try reader.header(codec_heif_reader_read_header)
        if let thumbnail {
            header = unsafe try reader.header { unsafe codec_heif_reader_show_thumbnail($0, thumbnail, $1) }
        }
        self.header = try StoredHeader(header)
        // libheif turns and mirrors the image itself; the standard excludes the orientation of EXIF.
        metadata = reader.metadata
    }

    /// Opens the thumbnails, up to the first that cannot be opened.
    static func previews(_ source: ImageSource, _ offer: (any ImageDecoder) -> Void) {
        for index in 0..<UInt32(CODEC_HEIF_MAXIMUM_THUMBNAILS) {
            guard let decoder = try? HEIFDecoder(source, thumbnail: index) else { return }
            offer(decoder)
        }
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_heif_reader_start(reader.pointer, format.codecOrder))
        unsafe try reader.decodeRows(of: header.geometry, into: &sink, by: codec_heif_reader_read_rows)
    }
}

extension DecodeProgram {
    /// HEIC, of which libheif reads the container and libde265 the pixels.
    static let heif = DecodeProgram(
        .heif,
        unsafe ImageCodec(
            .heif, library: codec_heif_version(), orientation: "irot, imir",
            details: { $0.withSpan { ItemFile($0).details($0) } },
            previews: { source, _, offer in HEIFDecoder.previews(source, offer) }
        ) {
            (source, _) throws(WireError) in
            try HEIFDecoder(source)
        }, samples: [smallHEIF], prepare: { codec_silence() })
}

import CImageCodecs
import CTIFFDecoder
import IPCProtocol
import ImageDecoding

/// Decodes the first image of a TIFF, a strip or a row of tiles at a time.
struct TIFFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let reader: CodecReader

    init(_ source: ImageSource) throws(WireError) {
        reader = unsafe try CodecReader(
            of: source, .tiff, create: codec_tiff_reader_create, destroy: codec_tiff_reader_destroy,
            message: codec_tiff_reader_message)
        if source.toleratesDamage { unsafe codec_tiff_reader_accept_damage(reader.pointer) }
        var header = unsafe try reader.header(codec_tiff_reader_read_header)
        // Missing strips and tiles are transparent.
        if source.toleratesDamage { header.has_alpha = 1 }
        self.header = try StoredHeader(header)
        metadata = ImageMetadata(
            orientation: unsafe reader.orientation(codec_tiff_reader_orientation),
            profile: unsafe reader.profile(codec_tiff_reader_profile))
    }

    var streams: Bool { true }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_tiff_reader_start(reader.pointer, format.codecOrder))
        unsafe try reader.decodeRows(of: header.geometry, into: &sink, by: codec_tiff_reader_read_rows)
    }
}

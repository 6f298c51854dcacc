import CTIFFDecoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

/// Decodes the first image of a TIFF, a strip or a row of tiles at a time.
struct TIFFDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let reader: CodecReader

    init(_ source: ImageSource) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .tiff, create: codec_tiff_reader_create)
        header = try StoredHeader(unsafe reader.header(codec_tiff_reader_read_header))
        metadata = reader.metadata
    }

    var streams: Bool { true }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_tiff_reader_start(reader.pointer, format.codecOrder))
        unsafe try reader.decodeRows(of: header.geometry, into: &sink, by: codec_tiff_reader_read_rows)
    }
}

extension DecodeProgram {
    static let tiff = DecodeProgram(
        .tiff,
        unsafe ImageCodec(.tiff, library: codec_tiff_version(), orientation: "Orientation") {
            (source, _) throws(WireError) in
            try TIFFDecoder(source)
        }, samples: [smallTIFF])

    /// A TIFF of 2 × 2 gray pixels without compression.
    private static let smallTIFF: [UInt8] = {
        let tags: [(UInt8, UInt8)] = [
            // Width, height, bits, no compression, photometric interpretation, offset, rows, bytes.
            (0, 2), (1, 2), (2, 8), (3, 1), (6, 1), (17, 8), (22, 2), (23, 4),
        ]
        var file: [UInt8] = [0x49, 0x49, 42, 0, 12, 0, 0, 0, 0, 85, 170, 255, UInt8(tags.count), 0]
        for (tag, value) in tags { file += [tag, 1, 3, 0, 1, 0, 0, 0, value, 0, 0, 0] }
        return file + [0, 0, 0, 0]
    }()
}

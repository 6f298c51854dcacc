import CImageCodecs
import IPCProtocol

/// Decodes JPEG with libjpeg-turbo.
struct JPEGDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let reader: CodecHandle

    /// Reads the header of `source`.
    ///
    /// - Throws: `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource, maxPixels: Int) throws(WireError) {
        guard
            let reader = unsafe CodecHandle(
                codec_jpeg_reader_create(source.start, source.bytes.count), destroy: codec_jpeg_reader_destroy)
        else { throw .outOfMemory }
        self.source = source
        self.reader = reader
        var header = codec_header()
        let status = unsafe codec_jpeg_reader_read_header(reader.pointer, &header)
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        self.header = try StoredHeader(header, maxPixels: maxPixels)
    }

    func decode(_ format: PixelFormat, into sink: inout some RowSink) throws(WireError) {
        var status = unsafe codec_jpeg_reader_start(reader.pointer, format.codecOrder)
        guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
        let geometry = header.geometry
        let step = RowBand.rows(of: geometry)
        let memory = try PixelMemory(count: step * geometry.stride)
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let rows = unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes.prefix(count * geometry.stride))
            let start = unsafe rows.baseAddress!.assumingMemoryBound(to: UInt8.self)
            status = unsafe codec_jpeg_reader_read_rows(reader.pointer, start, geometry.stride, UInt32(count))
            guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
            try sink.take(unsafe RowBand(bytes: rows, count: count))
        }
        try sink.finish()
    }

    private static func failure(_ status: codec_status, of reader: CodecHandle) -> WireError {
        unsafe WireError(status, format: .jpeg, message: String(cString: codec_jpeg_reader_message(reader.pointer)))
    }
}

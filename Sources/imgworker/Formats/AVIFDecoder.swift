#if !WITHOUT_AVIF
    import CImageCodecs
    import IPCProtocol

    /// Decodes AVIF with libavif, which holds the whole image in its stored depth; of a sequence, the first image.
    struct AVIFDecoder: ImageDecoder {
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
                    codec_avif_reader_create(source.start, source.bytes.count), destroy: codec_avif_reader_destroy)
            else { throw .outOfMemory }
            self.source = source
            self.reader = reader
            var header = codec_header()
            let status = unsafe codec_avif_reader_read_header(reader.pointer, &header)
            guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
            self.header = try StoredHeader(header)
            let orientation = unsafe Int(codec_avif_reader_orientation(reader.pointer))
            var count = 0
            let profile = unsafe codec_avif_reader_profile(reader.pointer, &count)
            metadata = ImageMetadata(
                orientation: Orientation(rawValue: orientation) ?? .upright,
                profile: unsafe ColorProfile(UnsafeBufferPointer(start: profile, count: count)),
                frameCount: self.header.frameCount)
        }

        func size(keeping share: Double) -> DecodedSize { DecodedSize(full: header.geometry) }

        func workingBytes(at size: DecodedSize) -> Int {
            // A band of rows, and the band with the rows around it.
            let geometry = header.geometry
            return header.heldBytes + 2 * (RowBand.rows(of: geometry) + 4) * geometry.stride
        }

        func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
            let status = unsafe codec_avif_reader_start(reader.pointer, format.codecOrder)
            guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
            let geometry = header.geometry
            unsafe try sink.takeBands(of: geometry) { (rows, count) throws(WireError) in
                let start = unsafe rows.baseAddress!.assumingMemoryBound(to: UInt8.self)
                let status = unsafe codec_avif_reader_read_rows(reader.pointer, start, geometry.stride, UInt32(count))
                guard status == CODEC_OK else { throw Self.failure(status, of: reader) }
            }
        }

        private static func failure(_ status: codec_status, of reader: CodecHandle) -> WireError {
            unsafe WireError(
                status, format: .avif, message: String(cString: codec_avif_reader_message(reader.pointer)))
        }
    }
#endif

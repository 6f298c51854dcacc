import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes JPEG with libjpeg-turbo.
struct JPEGDecoder: ImageDecoder {
    let header: StoredHeader

    private let reader: CodecReader

    init(_ source: ImageSource) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .jpeg, create: codec_jpeg_reader_create)
        header = try StoredHeader(unsafe reader.header(codec_jpeg_reader_read_header))
    }

    private var source: ImageSource { reader.source }
    var metadata: ImageMetadata { ImageMetadata(source, .jpeg) }
    var streams: Bool { true }
    var skipsRows: Bool { !source.toleratesDamage }

    func findStage() throws(WireError) -> Int {
        var scans: UInt32 = 0
        try reader.check(unsafe codec_jpeg_reader_keep_complete_scans(reader.pointer, &scans))
        return Int(scans)
    }

    func size(keeping share: Double) -> DecodedSize {
        // libjpeg-turbo also scales to 3, 5, 6 and 7 eighths, but without SIMD code, which takes longer than full size.
        // 5 % less than the share is accepted: 256 pixels are then decoded from one eighth of the 4000 or 4032 pixels
        // of most cameras, in two thirds of the time, with a PSNR of at least 47 dB against one quarter.
        let eighths = [1, 2, 4].first { Double($0) >= 0.95 * share * 8 } ?? 8
        return DecodedSize(header.geometry, numerator: eighths, denominator: 8)
    }

    func workingBytes(at size: DecodedSize) -> Int {
        // libjpeg's rows: about ten groups of up to four rows for each component, and their converted colours.
        let rows = 192 * header.geometry.width
        return header.heldBytes + rows + RowBand.bytes(of: size.geometry)
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_jpeg_reader_start(reader.pointer, format.codecOrder, Int32(size.horizontal * 8)))
        let geometry = size.geometry
        try skip(size.rows.lowerBound, geometry)
        var kept = 0
        var (hasRows, hasEnded) = (false, false)
        unsafe try sink.takeBands(of: size.used, displacedBy: Self.displacement) { (rows, count) throws(WireError) in
            // Releases bytes within a band, because a row of a strongly scaled image consumes many bytes.
            for row in stride(from: 0, to: count, by: Self.step) {
                kept = unsafe source.release(from: kept, to: codec_jpeg_reader_position(reader.pointer))
                let place = unsafe rows.start + row * geometry.stride
                let taken = min(Self.step, count - row)
                if !hasEnded {
                    let status = unsafe codec_jpeg_reader_read_rows(
                        reader.pointer, place, geometry.stride, UInt32(taken))
                    if !source.toleratesDamage || !hasRows { try reader.check(status) }
                    (hasRows, hasEnded) = (true, status != CODEC_OK)
                }
                if hasEnded { unsafe Self.fill(place, pixels: taken * geometry.width) }
            }
        }
    }

    /// libjpeg-turbo stores aligned rows past the processor's caches (`movntdq`), from where the next pass would have
    /// to read them again. Rows that begin with the second pixel of aligned memory stay in the caches.
    private static let displacement = PixelGeometry.bytesPerPixel

    /// Fills rows as libjpeg fills those whose data are missing.
    private static func fill(_ place: UnsafeMutablePointer<UInt8>, pixels: Int) {
        for index in 0..<4 * pixels { unsafe place[index] = index % 4 == 3 ? 255 : 128 }
    }

    /// Skips rows. libjpeg does not convert the first of them; the last ones are decoded, because neighbours affect the
    /// rows that follow.
    private func skip(_ count: Int, _ geometry: PixelGeometry) throws(WireError) {
        if count == 0 { return }
        let unread = max(0, count - 2 * Self.step)
        var status = unsafe codec_jpeg_reader_skip_rows(reader.pointer, UInt32(unread))
        let rows = try PixelMemory(count: geometry.stride)
        for _ in unread..<count where status == CODEC_OK {
            status = unsafe codec_jpeg_reader_read_rows(reader.pointer, rows.bytes.start, geometry.stride, 1)
        }
        try reader.check(status)
    }

    /// The number of rows to read at once: the most that libjpeg decodes in one step.
    private static let step = 16
}

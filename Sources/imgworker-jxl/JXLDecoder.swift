import CJXLDecoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

/// Decodes JPEG XL with libjxl, which composes the frames of an animation itself.
struct JXLDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata
    let animation: Animation?

    private let reader: CodecReader

    /// Reads the headers of `source`, and counts the pixels of all layers up to the last frame of `selection`: there
    /// may be at most `mostPixels`.
    init(_ source: ImageSource, _ selection: FrameSelection = .one(0), mostPixels: Int = .max) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .jxl, create: codec_jxl_reader_create)
        header = try StoredHeader(unsafe reader.header(codec_jxl_reader_read_header))
        animation = Self.animation(header, reader)
        if let animation { try Animation.check(selection, of: animation, .jxl) }
        let wanted = selection.indices(of: header.frameCount)
        let last = max(0, min(wanted.upperBound, header.frameCount) - 1)
        let pixels = unsafe Int(clamping: codec_jxl_reader_pixels(reader.pointer, UInt32(last)))
        guard pixels <= mostPixels else {
            let need = "\(pixels) pixels of all layers to be decoded; \(mostPixels) are allowed"
            throw WireError(.tooManyPixels, "The image takes \(need).")
        }
        metadata = reader.metadata
        try reader.check(unsafe codec_jxl_reader_select(reader.pointer, UInt32(wanted.lowerBound)))
    }

    /// The frames of an animation, all of which cover the canvas.
    private static func animation(_ header: StoredHeader, _ reader: CodecReader) -> Animation? {
        guard unsafe codec_jxl_reader_is_animation(reader.pointer) != 0 else { return nil }
        var animation = Animation()
        let size = header.geometry
        (animation.width, animation.height) = (size.width, size.height)
        animation.loops = unsafe Int(codec_jxl_reader_loops(reader.pointer))
        for index in 0..<header.frameCount {
            let delay = unsafe Int(codec_jxl_reader_delay(reader.pointer, UInt32(index)))
            let frame = Animation.Frame(
                x: 0, y: 0, width: size.width, height: size.height, encodedPixels: size.pixels,
                delayMs: Animation.shown(delay), disposal: .keep, isBlended: false, data: 0..<0)
            guard animation.add(frame) else { break }
        }
        return animation
    }

    func workingBytes(at size: DecodedSize) -> Int {
        header.heldBytes + header.geometry.bytes
            + (animation?.count ?? 0) * 2 * MemoryLayout<Animation.Frame>.stride
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let raster = try PixelMemory(count: header.geometry.bytes, zeroed: reader.source.toleratesDamage)
        try reader.check(unsafe codec_jxl_reader_read_frame(reader.pointer, raster.bytes.start))
        if format.codecOrder == CODEC_BGRA { unsafe swapRedAndBlue(raster.bytes) }
        unsafe try sink.takeWhole(raster.bytes, header.geometry)
    }
}

extension DecodeProgram {
    static let jxl = DecodeProgram(
        .jxl,
        unsafe ImageCodec(.jxl, library: codec_jxl_version(), orientation: "its own", hasFrames: true) {
            (source, job) throws(WireError) in
            try JXLDecoder(source, job.transform.frames, mostPixels: job.maxSourcePixels)
        }, samples: [smallJXL], prepare: { codec_silence() })
}

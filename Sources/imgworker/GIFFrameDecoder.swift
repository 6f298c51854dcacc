import CImageCodecs
import IPCProtocol

/// Decodes one frame of a GIF with giflib, as far as it is seen on the canvas.
struct GIFFrameDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let frame: codec_gif_frame

    /// A decoder of `frame`, of which nothing is read yet.
    ///
    /// - Throws: nothing, for a frame that covers anything.
    init(_ source: ImageSource, _ frame: Animation.Frame) throws(WireError) {
        var header = codec_header()
        (header.width, header.height) = (UInt32(frame.width), UInt32(frame.height))
        (header.has_alpha, header.passes) = (1, 1)
        self.header = try StoredHeader(header)
        self.source = source
        self.frame = codec_gif_frame(
            position: frame.data.lowerBound, width: header.width, height: header.height,
            transparent: frame.transparentIndex.map(Int32.init) ?? -1)
    }

    /// A decoder of the first frame, without the canvas around it.
    ///
    /// - Throws: `empty-image`, `truncated`, `decode-failed`.
    init(_ source: ImageSource) throws(WireError) {
        let animation = source.withSpan { Animation(.gif, $0) }
        guard let frame = animation?.frames.first else {
            throw WireError(animation?.fault ?? CODEC_EMPTY, format: .gif)
        }
        try self.init(source, frame)
    }

    var metadata: PictureMetadata { PictureMetadata(orientation: .upright, profile: .none, frameCount: 1) }

    func size(keeping share: Double) -> DecodedSize { DecodedSize(full: header.geometry) }

    func workingBytes(at size: DecodedSize) -> Int { Self.workingBytes(ofFrame: header.geometry) }

    /// An upper estimate for a frame of this size.
    static func workingBytes(ofFrame size: PixelGeometry) -> Int {
        // The library's tables, palettes, and a row, some of which may be unseen.
        size.bytes + (128 << 10)
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let picture = try PixelMemory(count: header.geometry.bytes)
        let pixels = unsafe picture.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        var frame = frame
        let status = unsafe codec_gif_decode(source.start, source.bytes.count, &frame, format.codecOrder, pixels)
        guard status == CODEC_OK else { throw WireError(status, format: .gif) }
        unsafe try sink.takeWhole(picture.bytes, header.geometry)
    }
}

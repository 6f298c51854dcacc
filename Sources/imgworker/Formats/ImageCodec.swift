import CImageCodecs
import IPCProtocol

/// A format that is decoded: its library in one file of CImageCodecs, its decoder in one file here, and one line in
/// `all`.
struct ImageCodec: Sendable {
    /// What its files begin as.
    let format: ImageFormat
    /// Makes a decoder that has read the header.
    let open: @Sendable (ImageSource) throws(WireError) -> any ImageDecoder
    /// The library's name and version.
    let library: String
    /// Where a file says how it is turned.
    let orientation: String
    /// Whether a file may have several pictures.
    let hasFrames: Bool
    /// Whether there are files that show something before they are complete.
    let hasParts: Bool

    /// All that this program is built with, in the order of `ImageFormat`.
    static let all: [ImageCodec] = {
        var codecs = [
            unsafe ImageCodec(.jpeg, JPEGDecoder.init, codec_jpeg_version(), hasParts: true),
            unsafe ImageCodec(.png, PNGDecoder.init, codec_png_version(), hasFrames: true, hasParts: true),
            unsafe ImageCodec(
                .webp, { (source) throws(WireError) in try WebPDecoder(source) }, codec_webp_version(), hasFrames: true,
                hasParts: true),
            unsafe ImageCodec(
                .gif, { (source) throws(WireError) in try GIFFrameDecoder(source) }, codec_gif_version(),
                orientation: "none", hasFrames: true),
        ]
        #if !WITHOUT_AVIF
            codecs.append(
                unsafe ImageCodec(
                    .avif, AVIFDecoder.init, codec_avif_version(), orientation: "irot, imir", hasFrames: true))
        #endif
        return codecs
    }()

    private init<Decoder: ImageDecoder & SendableMetatype>(
        _ format: ImageFormat, _ open: @escaping @Sendable (ImageSource) throws(WireError) -> Decoder,
        _ library: UnsafePointer<CChar>, orientation: String = "EXIF", hasFrames: Bool = false,
        hasParts: Bool = false
    ) {
        self.format = format
        self.open = { (source) throws(WireError) in try open(source) }
        self.library = unsafe String(cString: library)
        self.orientation = orientation
        self.hasFrames = hasFrames
        self.hasParts = hasParts
    }

    /// Whether pictures are also written in it.
    var isEncoded: Bool { Encoding.Format.allCases.contains { $0.imageFormat == format } }

    /// The codec for what `bytes` begin as.
    ///
    /// - Throws: `unsupported-format`.
    static func sniffing(_ bytes: some Collection<UInt8>) throws(WireError) -> ImageCodec {
        let format = ImageFormat(sniffing: bytes)
        if let codec = all.first(where: { $0.format == format }) { return codec }
        let names = all.map(\.format.name).joined(separator: ", ")
        let what = format.map { "\($0.name) is not among the formats" } ?? "The bytes are of none of the formats"
        throw WireError(.unsupportedFormat, "\(what) that are supported: \(names).")
    }
}

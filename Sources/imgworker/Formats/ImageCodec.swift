import CImageCodecs
import IPCProtocol

/// A supported format: the functions of its library in CImageCodecs, its decoder in a file of this folder (of Animation
/// for GIF), and an entry in `all`.
struct ImageCodec: Sendable {
    /// The format, recognized by the first bytes of a file.
    let format: ImageFormat
    /// Creates a decoder and reads the header.
    let open: @Sendable (ImageSource) throws(WireError) -> any ImageDecoder
    /// The library's name and version.
    let library: String
    /// The metadata that contains a file's orientation.
    let orientation: String
    /// Whether a file may contain several images.
    let hasFrames: Bool
    /// Whether incomplete files of some kinds can be decoded.
    let hasParts: Bool

    /// All codecs of this build, in the order of `ImageFormat`.
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
                    .avif, { (source) throws(WireError) in try AVIFDecoder(source) }, codec_avif_version(),
                    orientation: "irot, imir", hasFrames: true))
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

    /// Whether results can be encoded in this format.
    var isEncoded: Bool { Encoding.Format.allCases.contains { $0.imageFormat == format } }

    /// Returns the codec for the format of a file that begins with `bytes`.
    ///
    /// - Throws: `unsupported-format`.
    static func sniffing(_ bytes: some Collection<UInt8>) throws(WireError) -> ImageCodec {
        let format = ImageFormat(sniffing: bytes)
        if let codec = all.first(where: { $0.format == format }) { return codec }
        let names = all.map(\.format.name).joined(separator: ", ")
        let what = format.map { "\($0.name) is not among the formats" } ?? "The bytes match none of the formats"
        throw WireError(.unsupportedFormat, "\(what) that are supported: \(names).")
    }
}

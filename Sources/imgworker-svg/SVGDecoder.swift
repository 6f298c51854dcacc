import CSVGDecoder
import Glibc
import IPCProtocol
import ImageDecoding
import Sandbox
import WorkerProtocol

/// Renders SVG with librsvg, at the requested size.
struct SVGDecoder: ImageDecoder {
    let header: StoredHeader

    private let reader: CodecReader
    /// The most pixels of all surfaces that a rendering makes.
    private let mostPixels: Int
    /// The most pixels of a whole document that is rendered above its size.
    private static let mostEnlarged = Double(4 << 20)

    init(_ source: ImageSource, mostPixels: Int = 300_000_000) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .svg, create: codec_svg_reader_create)
        self.mostPixels = mostPixels
        header = try StoredHeader(unsafe reader.header(codec_svg_reader_read_header))
    }

    // Only the result is held.
    var streams: Bool { true }
    var renders: Bool { true }

    func size(keeping share: Double) -> DecodedSize {
        let stored = header.geometry
        // Enlarged only because a part is, the whole has a bounded number of pixels.
        return DecodedSize(stored, share: min(share, max(1, (Self.mostEnlarged / Double(stored.pixels)).squareRoot())))
    }

    func workingBytes(at size: DecodedSize) -> Int {
        // The result, and surfaces of its size for groups, masks and filters. More of them count for the process's
        // limit only.
        header.heldBytes + 6 * size.geometry.bytes
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let geometry = size.geometry
        let raster = try PixelMemory(count: geometry.bytes)
        try reader.check(
            unsafe codec_svg_reader_render(
                reader.pointer, size.left, size.top, size.horizontal, size.vertical, UInt32(geometry.width),
                UInt32(geometry.height), UInt64(mostPixels), raster.bytes.start))
        if format.codecOrder == CODEC_RGBA { unsafe swapRedAndBlue(raster.bytes) }
        unsafe unpremultiply(raster.bytes)
        unsafe try sink.takeWhole(raster.bytes, geometry)
    }
}

extension DecodeProgram {
    static let svg = DecodeProgram(
        .svg,
        unsafe ImageCodec(.svg, library: codec_svg_version(), orientation: "none") {
            (source, job) throws(WireError) in
            try SVGDecoder(source, mostPixels: job.maxSourcePixels)
        }, samples: [Array(smallSVG.utf8)], policy: .svg,
        prepare: {
            codec_silence()
            codec_svg_load_encodings()
            // Pango looks for fonts in a thread that ends some time after the document is freed, within two seconds. A
            // sandbox confines only the thread that enters it.
            var tries = 0
            while SandboxPolicy.threads > 1, tries < 2000 {
                usleep(1000)
                tries += 1
            }
        })

    /// Shapes, a gradient and text, for which fonts are found. It has no filter: the first one starts a thread, which
    /// is confined only after the warm-up and does not survive a fork.
    private static let smallSVG = """
        <svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"><linearGradient id="a"><stop stop-color="red"/>\
        <stop offset="1" stop-color="blue"/></linearGradient><path d="M0 0H16L8 16Z" fill="url(#a)"/>\
        <text x="1" y="12" font-family="sans-serif">a</text></svg>
        """
}

import CImageCodecs
import CSVGDecoder
import IPCProtocol
import ImageDecoding
import Sandbox
import WorkerProtocol

extension DecodeProgram {
    /// SVG, rendered by librsvg.
    static let svg = DecodeProgram(
        .svg,
        unsafe ImageCodec(.svg, library: codec_svg_version(), orientation: "none") {
            (source, job) throws(WireError) in
            ImageCodec.Opened(try SVGDecoder(source, mostPixels: job.maxSourcePixels))
        }, samples: [Array(smallSVG.utf8)], policy: .svg,
        prepare: {
            codec_silence()
            codec_svg_load_encodings()
            codec_svg_await_threads()
        })

    /// Shapes, a gradient and text, for which fonts are found. It has no filter: the first one starts a thread, which is confined
    /// only after the warm-up and does not survive a fork.
    private static let smallSVG = """
        <svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"><linearGradient id="a"><stop stop-color="red"/>\
        <stop offset="1" stop-color="blue"/></linearGradient><path d="M0 0H16L8 16Z" fill="url(#a)"/>\
        <text x="1" y="12" font-family="sans-serif">a</text></svg>
        """
}

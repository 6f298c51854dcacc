import CImageCodecs
import CJXLDecoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// JPEG XL, decoded by libjxl.
    static let jxl = DecodeProgram(
        .jxl,
        unsafe ImageCodec(.jxl, library: codec_jxl_version(), orientation: "its own", hasFrames: true) {
            (source, job) throws(WireError) in
            let decoder = try JXLDecoder(source, job.transform.frames, mostPixels: job.maxSourcePixels)
            return ImageCodec.Opened(decoder, decoder.animation)
        }, samples: [smallJXL], prepare: { codec_silence() })
}

import CImageCodecs
import CJP2Decoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// JPEG 2000, decoded by OpenJPEG.
    static let jp2 = DecodeProgram(
        .jp2,
        unsafe ImageCodec(.jp2, library: codec_jp2_version(), orientation: "none") {
            (source, _) throws(WireError) in
            ImageCodec.Opened(try JP2Decoder(source))
        }, samples: [smallJP2], prepare: { codec_silence() })
}

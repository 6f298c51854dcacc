import CHEIFDecoder
import CImageCodecs
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// HEIC, of which libheif reads the container and libde265 the pixels.
    static let heif = DecodeProgram(
        .heif,
        [
            unsafe ImageCodec(.heif, library: codec_heif_version(), orientation: "irot, imir") {
                (source, _) throws(WireError) in
                ImageCodec.Opened(try HEIFDecoder(source))
            }
        ], samples: [smallHEIF], prepare: { codec_silence() })
}

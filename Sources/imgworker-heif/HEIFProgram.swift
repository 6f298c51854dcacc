import CHEIFDecoder
import CImageCodecs
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// HEIC, of which libheif reads the container and libde265 the pixels.
    static let heif = DecodeProgram(
        .heif,
        unsafe ImageCodec(
            .heif, library: codec_heif_version(), orientation: "irot, imir",
            details: { source, _ in source.withSpan { ItemFile($0).details($0) } },
            previews: { source, _, offer in HEIFDecoder.previews(source, offer) }
        ) {
            (source, _) throws(WireError) in
            ImageCodec.Opened(try HEIFDecoder(source))
        }, samples: [smallHEIF], prepare: { codec_silence() })
}

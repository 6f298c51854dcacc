import CAVIFDecoder
import CImageCodecs
import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// AVIF, decoded by libavif with the codec that it was built with.
    static let avif = DecodeProgram(
        .avif,
        unsafe ImageCodec(
            .avif, library: codec_avif_version(), orientation: "irot, imir", hasFrames: true,
            details: { source, _ in source.withSpan { ItemFile($0).details($0) } },
            previews: { AVIFDecoder.previews($0, of: $1, $2) }
        ) {
            (source, job) throws(WireError) in
            // libavif decides whether a file is a sequence.
            let decoder = try AVIFDecoder(source, job.transform.frames, mostPixels: job.maxSourcePixels)
            return ImageCodec.Opened(decoder, decoder.animation)
        }, samples: [smallAVIF], prepare: { codec_silence() })
}

import CImageCodecs
import IPCProtocol
import LinuxSystem
import SharedCache

/// Decodes a tiny picture in every way, so that what the libraries do once (looking at the processor, filling tables,
/// growing the heap) is done before the process is confined, and not on a client's time. Encoders look at nothing that
/// decoders do not, but they sort.
///
/// - Throws: `WireError` or `SystemError` when a codec does not work at all.
func warmUpCodecs(_ conversions: ColorConversions) throws {
    codec_warm_up()
    var samples = WarmUpSamples.all
    #if !WITHOUT_AVIF
        samples.append(smallAVIF)
    #endif
    for sample in samples {
        for transform in [Transform(pixelFormat: .rgba8), Transform(width: 3, pixelFormat: .bgra8)] {
            let job = DecodeJob(id: 0, transform: transform)
            let image = try EncodedImage(try ImageSource(copying: sample), for: job, conversions: conversions)
            let output = try WritableBuffer(name: "warm-up", size: image.plan.result.bytes).descriptor
            _ = try image.decode(into: output)
        }
    }
}

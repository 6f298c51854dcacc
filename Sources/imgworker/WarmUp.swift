import CImageCodecs
import IPCProtocol
import LinuxSystem
import SharedCache

/// Decodes a tiny picture in every way, so that what the libraries do once (looking at the processor, filling tables,
/// growing the heap) is done before the process is confined, and not on a client's time. Encoders look at nothing that
/// decoders do not, but they sort.
///
/// - Parameters:
///   - output: takes what is decoded, when no memfd can be made any more.
///   - isUrgent: whether there is something better to do now.
/// - Throws: `WireError` or `SystemError` when a codec does not work at all.
func warmUpCodecs(
    _ conversions: ColorConversions, into output: FileDescriptor? = nil, unless isUrgent: () -> Bool = { false }
) throws {
    codec_warm_up()
    var samples = WarmUpSamples.all
    #if !WITHOUT_AVIF
        samples.append(smallAVIF)
    #endif
    for sample in samples where !isUrgent() {
        for transform in [Transform(pixelFormat: .rgba8), Transform(width: 3, pixelFormat: .bgra8)] {
            let job = DecodeJob(id: 0, transform: transform)
            let image = try EncodedImage(try ImageSource(copying: sample), for: job, conversions: conversions)
            _ = try image.decode(into: output ?? warmUpOutput(of: image.plan.result.bytes))
        }
    }
}

/// Where what the warm-up decodes can be written, up to so many bytes.
func warmUpOutput(of bytes: Int = 1 << 16) throws(SystemError) -> FileDescriptor {
    try WritableBuffer(name: "warm-up", size: bytes).descriptor
}

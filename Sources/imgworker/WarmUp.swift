import CImageCodecs
import IPCProtocol
import LinuxSystem
import SharedCache

/// Encodes and decodes a tiny picture in every way, so that what the libraries do once (looking at the processor,
/// filling tables, growing the heap) is done before the process is confined, and not on a client's time.
///
/// - Throws: `WireError` or `SystemError` when a codec does not work at all.
func warmUpCodecs(_ conversions: ColorConversions) throws {
    codec_color_warm_up()
    guard let geometry = PixelGeometry(width: 16, height: 16) else { return }
    let picture = (0..<geometry.bytes).map { UInt8(truncatingIfNeeded: $0 * 7) }
    let pixels = try WritableBuffer(name: "warm-up pixels", size: geometry.bytes).descriptor
    unsafe try picture.withUnsafeBytes { unsafe try pixels.write($0, at: 0) }
    for (format, lossless) in [(Encoding.Format.jpeg, false), (.png, false), (.webp, false), (.webp, true)] {
        let job = EncodeJob(
            id: 0, format: format, geometry: geometry, pixelFormat: .rgba8, alpha: .straight, quality: 50)
        let encoded = try WritableBuffer(name: "warm-up").descriptor
        _ = try ImageEncoder(job, lossless: lossless).encode(.file(pixels), to: encoded)
        try warmUp(try ImageSource(reading: encoded), geometry.width, into: pixels, conversions)
    }
    #if !WITHOUT_AVIF
        try warmUp(try ImageSource(copying: smallAVIF), 8, into: pixels, conversions)
    #endif
}

private func warmUp(
    _ source: ImageSource, _ width: Int, into pixels: FileDescriptor, _ conversions: ColorConversions
) throws(WireError) {
    for pixelFormat in PixelFormat.allCases {
        for width in [width, 3] {
            let job = DecodeJob(id: 0, transform: Transform(width: width, pixelFormat: pixelFormat))
            _ = try EncodedImage(source, for: job, conversions: conversions).decode(into: pixels)
        }
    }
}

import IPCProtocol
import ImageDecoding

extension Animation {
    /// Walks `bytes` as a file of `format`; nil for a still image. A GIF always has frames.
    init?(_ format: ImageFormat, _ bytes: Span<UInt8>, toleratesDamage: Bool = false) {
        self.init(toleratesDamage: toleratesDamage)
        switch format {
        case .gif: walkGIF(bytes)
        case .png: guard walkPNG(bytes) else { return nil }
        case .webp: guard walkWebP(bytes) else { return nil }
        default: return nil
        }
        finishWalk()
    }
}

extension ImageSource {
    /// The frames of an animated file; nil for a still image.
    func animation(_ format: ImageFormat) -> Animation? {
        withSpan { Animation(format, $0, toleratesDamage: toleratesDamage) }
    }
}

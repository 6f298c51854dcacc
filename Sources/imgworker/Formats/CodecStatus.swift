import CImageCodecs
import IPCProtocol

extension WireError {
    /// What a codec's `status`, which is not `CODEC_OK`, means to a client. `message` is the codec's own, if it has one.
    init(_ status: codec_status, format: ImageFormat, message: String = "") {
        let name = format.name
        let detail = message.isEmpty ? "" : ": \(message)"
        self =
            switch status {
            case CODEC_TRUNCATED: WireError(.truncated, "The \(name) file ends before all pixels came\(detail).")
            case CODEC_UNSUPPORTED: WireError(.unsupportedFormat, "This kind of \(name) is not supported\(detail).")
            case CODEC_EMPTY: WireError(.emptyImage, "The \(name) has no pixels.")
            case CODEC_TOO_LARGE: WireError(.tooManyPixels, "The \(name) is too large\(detail).")
            case CODEC_NO_MEMORY: WireError.outOfMemory
            default: WireError(.decodeFailed, "The \(name) data is damaged\(detail).")
            }
    }

    /// No memory for a picture.
    static var outOfMemory: WireError { WireError(.outOfMemory, "There is not enough memory for the picture.") }
}

extension PixelFormat {
    /// The same order for the codecs.
    var codecOrder: codec_order {
        switch self {
        case .rgba8: CODEC_RGBA
        case .bgra8: CODEC_BGRA
        }
    }
}

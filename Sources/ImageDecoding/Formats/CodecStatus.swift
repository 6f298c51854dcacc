package import CImageCodecs
package import IPCProtocol

extension WireError {
    /// The error that a client receives for a codec's `status`, which is not `CODEC_OK`. `message` is the codec's own,
    /// or empty.
    package init(_ status: codec_status, format: ImageFormat, message: String = "") {
        let name = format.name
        let detail = message.isEmpty ? "" : ": \(message)"
        self =
            switch status {
            case CODEC_TRUNCATED: WireError(.truncated, "The \(name) file ends before all pixels are decoded\(detail).")
            case CODEC_UNSUPPORTED: WireError(.unsupportedFormat, "This kind of \(name) is not supported\(detail).")
            case CODEC_EMPTY: WireError(.emptyImage, "The \(name) has no pixels.")
            case CODEC_TOO_LARGE: WireError(.tooManyPixels, "The \(name) is too large\(detail).")
            case CODEC_NO_MEMORY: WireError.outOfMemory
            default: WireError(.decodeFailed, "The \(name) data is damaged\(detail).")
            }
    }

    /// Whether rows may be decoded all the same: bytes are missing or violate their format.
    package var isDamage: Bool { code == .truncated || code == .decodeFailed }

    package static var outOfMemory: WireError { WireError(.outOfMemory, "There is not enough memory for the image.") }
}

extension PixelFormat {
    /// The codecs' constant for the byte order in which rows are decoded and processed: four bytes a pixel until they are written.
    package var codecOrder: codec_order { self == .bgra8 ? CODEC_BGRA : CODEC_RGBA }
}

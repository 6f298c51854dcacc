import CImageCodecs
import IPCProtocol

/// The conversion of pixels with straight alpha to a format without alpha, over a background.
struct PixelPacking {
    let format: PixelFormat
    private let background: Color

    /// Creates the conversion to the pixel format of `transform`; nil for a format with alpha.
    init?(_ transform: Transform) {
        if transform.pixelFormat.hasAlpha { return nil }
        (format, background) = (transform.pixelFormat, transform.background)
    }

    /// Converts pixels in place, and returns the bytes that remain.
    func pack(_ pixels: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let count = pixels.count / PixelGeometry.bytesPerPixel
        let bytes = unsafe pixels.bindMemory(to: UInt8.self)
        if let start = bytes.baseAddress {
            let pack = format == .gray8 ? unsafe pixels_pack_gray : unsafe pixels_pack_rgb
            unsafe pack(start, count, background.red, background.green, background.blue)
        }
        return unsafe UnsafeMutableRawBufferPointer(rebasing: pixels.prefix(count * format.bytesPerPixel))
    }
}

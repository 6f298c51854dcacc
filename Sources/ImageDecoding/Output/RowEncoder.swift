import CImageCodecs
import IPCProtocol

/// Encodes an image row by row with a codec's writer, and collects the encoded bytes until they are taken. The
/// initializers throw `out-of-memory`.
@safe
struct RowEncoder {
    private let writer: CodecHandle
    private let stride: Int
    private let write: (OpaquePointer?, UnsafePointer<UInt8>?, Int, UInt32) -> codec_status
    private let writeEnd: (OpaquePointer?) -> codec_status
    private let take: (OpaquePointer?, UnsafeMutablePointer<Int>?) -> UnsafePointer<UInt8>?

    /// Creates an encoder of PNG with 8 bits a channel, by libpng, with an alpha channel if `hasAlpha`.
    init(png geometry: PixelGeometry, _ pixelFormat: PixelFormat, hasAlpha: Bool = true) throws(WireError) {
        let (width, height) = (UInt32(geometry.width), UInt32(geometry.height))
        writer = unsafe try CodecHandle(
            codec_png_writer_create(width, height, pixelFormat.codecOrder, hasAlpha ? 1 : 0))
        stride = geometry.stride
        unsafe (write, writeEnd) = (codec_png_writer_write_rows, codec_png_writer_finish)
        unsafe take = codec_png_writer_take_output
    }

    /// Creates an encoder of baseline JPEG with `quality` 1 … 100, by libjpeg-turbo, which ignores alpha.
    init(jpeg geometry: PixelGeometry, _ pixelFormat: PixelFormat, quality: Int) throws(WireError) {
        let (width, height) = (UInt32(geometry.width), UInt32(geometry.height))
        writer = unsafe try CodecHandle(
            codec_jpeg_writer_create(width, height, pixelFormat.codecOrder, Int32(quality)))
        stride = geometry.stride
        unsafe (write, writeEnd) = (codec_jpeg_writer_write_rows, codec_jpeg_writer_finish)
        unsafe take = codec_jpeg_writer_take_output
    }

    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status {
        unsafe write(writer.pointer, rows.start, stride, UInt32(count))
    }

    func finish() -> codec_status { unsafe writeEnd(writer.pointer) }

    /// Returns the bytes encoded since the last call, valid until the next call of any function.
    func takeOutput() -> UnsafeRawBufferPointer {
        var length = 0
        let bytes = unsafe take(writer.pointer, &length)
        return unsafe UnsafeRawBufferPointer(start: bytes, count: length)
    }

    var message: String { writer.message }
}

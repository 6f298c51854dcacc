import CImageCodecs
import IPCProtocol
import WorkerProtocol

/// Encodes an image row by row and collects the encoded bytes until they are taken.
protocol RowEncoder {
    /// Encodes the next `count` rows.
    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status
    /// Encodes the end of the file.
    func finish() -> codec_status
    /// Returns the bytes encoded since the last call, valid until the next call of any function.
    func takeOutput() -> UnsafeRawBufferPointer
    /// The codec's message about its last error.
    var message: String { get }
}

/// Encodes PNG with libpng: 8 bits a channel.
struct PNGWriter: RowEncoder {
    private let writer: CodecHandle
    private let stride: Int

    /// Creates a writer, with an alpha channel if `hasAlpha`; nil without memory.
    init?(_ geometry: PixelGeometry, _ pixelFormat: PixelFormat, hasAlpha: Bool = true) {
        let (width, height) = (UInt32(geometry.width), UInt32(geometry.height))
        guard
            let writer = unsafe CodecHandle(
                codec_png_writer_create(width, height, pixelFormat.codecOrder, hasAlpha ? 1 : 0),
                destroy: codec_png_writer_destroy)
        else { return nil }
        self.writer = writer
        stride = geometry.stride
    }

    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status {
        unsafe codec_png_writer_write_rows(
            writer.pointer, rows.baseAddress!.assumingMemoryBound(to: UInt8.self), stride, UInt32(count))
    }

    func finish() -> codec_status {
        unsafe codec_png_writer_finish(writer.pointer)
    }

    func takeOutput() -> UnsafeRawBufferPointer {
        var length = 0
        let bytes = unsafe codec_png_writer_take_output(writer.pointer, &length)
        return unsafe UnsafeRawBufferPointer(start: bytes, count: length)
    }

    var message: String { unsafe String(cString: codec_png_writer_message(writer.pointer)) }
}

/// Encodes baseline JPEG with libjpeg-turbo; ignores alpha.
struct JPEGWriter: RowEncoder {
    private let writer: CodecHandle
    private let stride: Int

    /// Creates a writer with `quality` 1 … 100; nil without memory.
    init?(_ geometry: PixelGeometry, _ pixelFormat: PixelFormat, quality: Int) {
        let (width, height) = (UInt32(geometry.width), UInt32(geometry.height))
        guard
            let writer = unsafe CodecHandle(
                codec_jpeg_writer_create(width, height, pixelFormat.codecOrder, Int32(quality)),
                destroy: codec_jpeg_writer_destroy)
        else { return nil }
        self.writer = writer
        stride = geometry.stride
    }

    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status {
        unsafe codec_jpeg_writer_write_rows(
            writer.pointer, rows.baseAddress!.assumingMemoryBound(to: UInt8.self), stride, UInt32(count))
    }

    func finish() -> codec_status {
        unsafe codec_jpeg_writer_finish(writer.pointer)
    }

    func takeOutput() -> UnsafeRawBufferPointer {
        var length = 0
        let bytes = unsafe codec_jpeg_writer_take_output(writer.pointer, &length)
        return unsafe UnsafeRawBufferPointer(start: bytes, count: length)
    }

    var message: String { unsafe String(cString: codec_jpeg_writer_message(writer.pointer)) }
}

import CImageCodecs
import IPCProtocol
import WorkerProtocol

/// Encodes a picture row by row; encoded bytes gather until they are taken.
protocol RowEncoder {
    /// Encodes the next `count` rows.
    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status
    /// Encodes the end of the file.
    func finish() -> codec_status
    /// The bytes encoded since the last call, valid until the next call of anything.
    func takeOutput() -> UnsafeRawBufferPointer
    /// What went wrong.
    var message: String { get }
}

/// Encodes PNG with libpng: 8 bits a channel.
struct PNGWriter: RowEncoder {
    private let writer: CodecHandle
    private let stride: Int

    /// A writer for `job`, with alpha or without; nil without memory.
    init?(_ job: EncodeJob, hasAlpha: Bool = true) {
        let (width, height) = (UInt32(job.geometry.width), UInt32(job.geometry.height))
        guard
            let writer = unsafe CodecHandle(
                codec_png_writer_create(width, height, job.pixelFormat.codecOrder, hasAlpha ? 1 : 0),
                destroy: codec_png_writer_destroy)
        else { return nil }
        self.writer = writer
        stride = job.geometry.stride
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

/// Encodes JPEG with libjpeg-turbo; alpha is ignored.
struct JPEGWriter: RowEncoder {
    /// The kinds of JPEG that can be written.
    enum Kind {
        case baseline, progressive
        /// Four inks, 255 for none, as they are or as YCCK.
        case cmyk, ycck
    }

    private let writer: CodecHandle
    private let stride: Int

    /// A writer for `job`; nil without memory.
    init?(_ job: EncodeJob, kind: Kind = .baseline) {
        let (width, height) = (UInt32(job.geometry.width), UInt32(job.geometry.height))
        guard
            let writer = unsafe CodecHandle(
                codec_jpeg_writer_create(width, height, job.pixelFormat.codecOrder, Int32(job.encoding.quality)),
                destroy: codec_jpeg_writer_destroy)
        else { return nil }
        self.writer = writer
        stride = job.geometry.stride
        switch kind {
        case .baseline: break
        case .progressive: unsafe codec_jpeg_writer_set_progressive(writer.pointer)
        case .cmyk: unsafe codec_jpeg_writer_set_cmyk(writer.pointer, 0)
        case .ycck: unsafe codec_jpeg_writer_set_cmyk(writer.pointer, 1)
        }
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

import CImageCodecs
import IPCProtocol

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

/// Encodes PNG with libpng: 8 bits a channel, with alpha.
@safe
final class PNGWriter: RowEncoder {
    private let writer: OpaquePointer
    private let stride: Int

    /// A writer for `job`; nil without memory.
    init?(_ job: EncodeJob) {
        let (width, height) = (UInt32(job.geometry.width), UInt32(job.geometry.height))
        guard let writer = unsafe codec_png_writer_create(width, height, job.pixelFormat.codecOrder) else { return nil }
        unsafe self.writer = writer
        stride = job.geometry.stride
    }

    deinit {
        unsafe codec_png_writer_destroy(writer)
    }

    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status {
        unsafe codec_png_writer_write_rows(
            writer, rows.baseAddress!.assumingMemoryBound(to: UInt8.self), stride, UInt32(count))
    }

    func finish() -> codec_status {
        unsafe codec_png_writer_finish(writer)
    }

    func takeOutput() -> UnsafeRawBufferPointer {
        var length = 0
        let bytes = unsafe codec_png_writer_take_output(writer, &length)
        return unsafe UnsafeRawBufferPointer(start: bytes, count: length)
    }

    var message: String { unsafe String(cString: codec_png_writer_message(writer)) }
}

/// Encodes JPEG with libjpeg-turbo; alpha is ignored.
@safe
final class JPEGWriter: RowEncoder {
    /// The kinds of JPEG that can be written.
    enum Kind {
        case baseline, progressive
        /// Four inks, 255 for none, as they are or as YCCK.
        case cmyk, ycck
    }

    private let writer: OpaquePointer
    private let stride: Int

    /// A writer for `job`; nil without memory.
    init?(_ job: EncodeJob, kind: Kind = .baseline) {
        let (width, height) = (UInt32(job.geometry.width), UInt32(job.geometry.height))
        guard
            let writer = unsafe codec_jpeg_writer_create(
                width, height, job.pixelFormat.codecOrder, Int32(job.quality))
        else { return nil }
        unsafe self.writer = writer
        stride = job.geometry.stride
        switch kind {
        case .baseline: break
        case .progressive: unsafe codec_jpeg_writer_set_progressive(writer)
        case .cmyk: unsafe codec_jpeg_writer_set_cmyk(writer, 0)
        case .ycck: unsafe codec_jpeg_writer_set_cmyk(writer, 1)
        }
    }

    deinit {
        unsafe codec_jpeg_writer_destroy(writer)
    }

    func encode(_ rows: UnsafeMutableRawBufferPointer, count: Int) -> codec_status {
        unsafe codec_jpeg_writer_write_rows(
            writer, rows.baseAddress!.assumingMemoryBound(to: UInt8.self), stride, UInt32(count))
    }

    func finish() -> codec_status {
        unsafe codec_jpeg_writer_finish(writer)
    }

    func takeOutput() -> UnsafeRawBufferPointer {
        var length = 0
        let bytes = unsafe codec_jpeg_writer_take_output(writer, &length)
        return unsafe UnsafeRawBufferPointer(start: bytes, count: length)
    }

    var message: String { unsafe String(cString: codec_jpeg_writer_message(writer)) }
}

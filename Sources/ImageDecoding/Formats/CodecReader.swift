package import CImageCodecs
package import IPCProtocol

/// Owns an object of a codec. A class of its own, because an initializer that throws does not run its own `deinit` but
/// releases the objects that it has stored.
@safe
package final class CodecHandle {
    /// The object to pass to the codec's functions.
    package let pointer: OpaquePointer

    /// Takes ownership of `pointer`. Throws `out-of-memory` for nil, because the codec had no memory to create it.
    package init(_ pointer: OpaquePointer?) throws(WireError) {
        guard let pointer = unsafe pointer else { throw .outOfMemory }
        unsafe self.pointer = pointer
    }

    deinit { unsafe codec_destroy(UnsafeMutableRawPointer(pointer)) }

    /// What a reader or writer says about its last error; empty without one.
    var message: String {
        unsafe withUnsafeBytes(of: codec_notes(UnsafeRawPointer(pointer))!.pointee.message) {
            unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

/// A codec's reader of a file, with the functions of the codec that all readers have. Keeps the bytes that it uses.
@safe
package struct CodecReader {
    private let handle: CodecHandle
    package let source: ImageSource
    private let format: ImageFormat

    /// Creates a reader of `source`, or of a part of it; throws `out-of-memory`.
    package init(
        of source: ImageSource, in range: Range<Int>? = nil, _ format: ImageFormat,
        create: (UnsafePointer<UInt8>?, Int) -> OpaquePointer?
    ) throws(WireError) {
        let range = unsafe range ?? 0..<source.bytes.count
        handle = unsafe try CodecHandle(create(source.start + range.lowerBound, range.count))
        (self.source, self.format) = (source, format)
        unsafe codec_accept(
            UnsafeMutableRawPointer(handle.pointer), source.isPart ? 1 : 0, source.toleratesDamage ? 1 : 0)
    }

    package var pointer: OpaquePointer { unsafe handle.pointer }

    /// Throws the error for any status but `CODEC_OK`, with the reader's message.
    package func check(_ status: codec_status) throws(WireError) {
        if status == CODEC_OK { return }
        throw WireError(status, format: format, message: handle.message)
    }

    package func header(
        _ read: (OpaquePointer?, UnsafeMutablePointer<codec_header>?) -> codec_status
    ) throws(WireError) -> codec_header {
        var header = codec_header()
        try check(unsafe read(pointer, &header))
        return header
    }

    /// The metadata that the codec has found with the header.
    package var metadata: ImageMetadata {
        let found = unsafe codec_notes(UnsafeRawPointer(pointer))!
        let profile = unsafe UnsafeBufferPointer(start: found.pointee.profile, count: found.pointee.profile_length)
        let light = unsafe found.pointee.light
        return unsafe ImageMetadata(
            orientation: Orientation(rawValue: Int(found.pointee.orientation)) ?? .upright,
            profile: light == 0 ? ColorProfile(profile) : .light(light))
    }

    package func decodeRows(
        of geometry: PixelGeometry, into sink: inout some RowSink,
        by read: (OpaquePointer?, UnsafeMutablePointer<UInt8>?, Int, UInt32) -> codec_status
    ) throws(WireError) {
        unsafe try sink.takeBands(of: geometry) { (rows, count) throws(WireError) in
            try check(unsafe read(pointer, rows.start, geometry.stride, UInt32(count)))
        }
    }
}

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
    /// The codecs' constant for the byte order in which rows are decoded and processed: four bytes a pixel until they
    /// are written.
    package var codecOrder: codec_order { self == .bgra8 ? CODEC_BGRA : CODEC_RGBA }
}

import CImageCodecs
import IPCProtocol
import LinuxSystem
import WorkerProtocol

/// Writes pixels as a file's bytes.
struct ImageEncoder {
    private let job: EncodeJob
    /// WebP only: without loss, `quality` being the effort.
    private let lossless: Bool
    /// Whether any pixel may be transparent.
    private let hasAlpha: Bool

    /// An encoder for `job`.
    init(_ job: EncodeJob, lossless: Bool = false, hasAlpha: Bool = true) {
        self.job = job
        self.lossless = lossless
        self.hasAlpha = hasAlpha
    }

    /// An upper estimate of the bytes that encoding holds, the pixels and what they become aside.
    static func workingBytes(_ encoding: Encoding, _ geometry: PixelGeometry) -> Int {
        switch encoding.format {
        // Rows, and the window of the compressor.
        case .png: 24 * geometry.stride + RowBand.rows(of: geometry) * geometry.stride + (1 << 20)
        case .jpeg: 24 * geometry.stride + RowBand.rows(of: geometry) * geometry.stride
        // The library's own picture, its statistics and its output beside ours.
        case .webp: 4 * geometry.bytes + (1 << 20)
        }
    }

    /// Encodes the picture in `pixels` to `output`, from its beginning on, and returns how many bytes it became.
    ///
    /// - Throws: `too-many-pixels` when the format has no room for the picture; `out-of-memory`; `internal`.
    func encode(_ pixels: PixelStore, to output: FileDescriptor) throws(WireError) -> Int {
        switch job.encoding.format {
        case .png:
            guard let writer = PNGWriter(job, hasAlpha: hasAlpha) else { throw .outOfMemory }
            return try encodeRows(of: pixels, with: writer, to: output)
        case .jpeg:
            guard let writer = JPEGWriter(job) else { throw .outOfMemory }
            return try encodeRows(of: pixels, with: writer, to: output)
        case .webp:
            return try encodeWebP(pixels, to: output)
        }
    }

    private func encodeRows(
        of pixels: PixelStore, with writer: some RowEncoder, to output: FileDescriptor
    ) throws(WireError) -> Int {
        let geometry = job.geometry
        let step = RowBand.rows(of: geometry)
        let memory = try PixelMemory(count: step * geometry.stride)
        var length = 0
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let rows = unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes.prefix(count * geometry.stride))
            unsafe try read(rows, from: pixels, at: row * geometry.stride)
            try check(unsafe writer.encode(rows, count: count), writer.message)
            length += unsafe try write(writer.takeOutput(), to: output, at: length)
        }
        try check(writer.finish(), writer.message)
        length += unsafe try write(writer.takeOutput(), to: output, at: length)
        return length
    }

    private func encodeWebP(_ pixels: PixelStore, to output: FileDescriptor) throws(WireError) -> Int {
        let geometry = job.geometry
        guard max(geometry.width, geometry.height) <= 16383 else {
            throw WireError(.tooManyPixels, "A side of a WebP has 16383 pixels at most.")
        }
        let picture = try PixelMemory(count: geometry.bytes)
        unsafe try read(picture.bytes, from: pixels, at: 0)
        let start = unsafe picture.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        var (encoded, length): (UnsafeMutablePointer<UInt8>?, Int) = (nil, 0)
        let status = unsafe codec_webp_encode(
            start, UInt32(geometry.width), UInt32(geometry.height), job.pixelFormat.codecOrder,
            Int32(job.encoding.quality),
            lossless ? 1 : 0, &encoded, &length)
        defer { unsafe codec_webp_free(encoded) }
        try check(status, "")
        return unsafe try write(UnsafeRawBufferPointer(start: encoded, count: length), to: output, at: 0)
    }

    /// Fills `rows` from the source and brings them to what the format stores.
    private func read(
        _ rows: UnsafeMutableRawBufferPointer, from pixels: PixelStore, at offset: Int
    ) throws(WireError) {
        unsafe try pixels.read(rows, at: offset)
        if !hasAlpha { return }
        switch (job.encoding.format, job.alpha) {
        case (.jpeg, .premultiplied):
            unsafe flattenOverWhite(rows)
        case (.jpeg, .straight):
            unsafe premultiply(rows)
            unsafe flattenOverWhite(rows)
        case (_, .premultiplied):
            unsafe unpremultiply(rows)
        case (_, .straight):
            break
        }
    }

    private func write(
        _ bytes: UnsafeRawBufferPointer, to output: FileDescriptor, at offset: Int
    ) throws(WireError) -> Int {
        do {
            unsafe try output.write(bytes, at: offset)
        } catch {
            if error.isLackOfSpace { throw .outOfMemory }
            throw WireError(.internal, "The encoded bytes cannot be written: \(error).")
        }
        return bytes.count
    }

    private func check(_ status: codec_status, _ message: String) throws(WireError) {
        switch status {
        case CODEC_OK: return
        case CODEC_NO_MEMORY: throw .outOfMemory
        case CODEC_TOO_LARGE:
            throw WireError(
                .tooManyPixels, "The picture is too large for \(job.encoding.format.rawValue.uppercased()).")
        default: throw WireError(.internal, "The picture cannot be encoded: \(message).")
        }
    }
}

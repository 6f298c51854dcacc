import CImageCodecs
import IPCProtocol

/// Encodes a raster.
struct ImageEncoder {
    let encoding: Encoding
    let geometry: PixelGeometry
    let pixelFormat: PixelFormat
    let alpha: AlphaMode
    /// Whether any pixel may be transparent.
    var hasAlpha = true

    /// Returns an upper estimate of the bytes that encoding holds, besides the raster and the encoded bytes.
    static func workingBytes(_ encoding: Encoding, _ geometry: PixelGeometry) -> Int {
        switch encoding.format {
        // Rows, and the compressor's window.
        case .png: 24 * geometry.stride + RowBand.bytes(of: geometry) + (1 << 20)
        case .jpeg: 24 * geometry.stride + RowBand.bytes(of: geometry)
        // libwebp's own raster, its statistics and its output.
        case .webp: 4 * geometry.bytes + (1 << 20)
        }
    }

    /// Encodes `raster` to the beginning of `output` and returns the number of encoded bytes. Converts the raster in
    /// place to the alpha that the format stores. Throws `too-many-pixels` when the format cannot hold an image of this
    /// size; `out-of-memory`; `internal`.
    func encode(_ raster: PixelMemory, to output: ResultFile) throws(WireError) -> Int {
        switch encoding.format {
        case .png:
            try encodeRows(of: raster, with: RowEncoder(png: geometry, pixelFormat, hasAlpha: hasAlpha), to: output)
        case .jpeg:
            try encodeRows(
                of: raster, with: RowEncoder(jpeg: geometry, pixelFormat, quality: encoding.quality), to: output)
        case .webp: try encodeWebP(raster, to: output)
        }
    }

    private func encodeRows(
        of raster: PixelMemory, with writer: RowEncoder, to output: ResultFile
    ) throws(WireError) -> Int {
        let step = RowBand.rows(of: geometry)
        var length = 0
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let range = row * geometry.stride..<(row + count) * geometry.stride
            let rows = unsafe UnsafeMutableRawBufferPointer(rebasing: raster.bytes[range])
            unsafe convertAlpha(rows)
            try check(unsafe writer.encode(rows, count: count), writer.message)
            length += unsafe try output.write(writer.takeOutput(), at: length)
        }
        try check(writer.finish(), writer.message)
        length += unsafe try output.write(writer.takeOutput(), at: length)
        return length
    }

    /// Returns an upper estimate of the bytes that encoding an animation holds: twelve canvases (libwebpmux 1.2), and
    /// the encoded frames twice, of which noise takes 2.2 bytes for each pixel.
    static func workingBytes(ofAnimation geometry: PixelGeometry, frames: Int) -> Int {
        13 * geometry.bytes + frames * (5 * geometry.pixels + (1 << 10)) + (1 << 20)
    }

    /// Encodes the frames of an animation, which `next` makes in `raster` one after the other, to the beginning of
    /// `output`, and returns the number of encoded bytes, of which there are at most `mostBytes`. Throws the error of
    /// `next`; `too-many-pixels` when there are more bytes, or a side has more than 16,383 pixels; `out-of-memory`;
    /// `internal`.
    func encodeAnimation(
        _ timing: AnimationTiming, in raster: PixelMemory, to output: ResultFile, mostBytes: Int,
        next: () throws(WireError) -> Void
    ) throws(WireError) -> Int {
        try checkWebPSides()
        let writer = unsafe try CodecHandle(
            codec_webp_writer_create(
                UInt32(geometry.width), UInt32(geometry.height), pixelFormat.codecOrder, Int32(encoding.quality),
                UInt16(clamping: timing.loops)))
        // Their sum is an Int32.
        let longest = Int(Int32.max) / timing.delaysMs.count
        for delay in timing.delaysMs {
            try next()
            unsafe convertAlpha(raster.bytes)
            let status = unsafe codec_webp_writer_add(
                writer.pointer, raster.bytes.start, Int32(min(delay, longest)))
            try check(status, writer.message)
        }
        var (encoded, length): (UnsafePointer<UInt8>?, Int) = (nil, 0)
        try check(unsafe codec_webp_writer_finish(writer.pointer, &encoded, &length), writer.message)
        guard length <= mostBytes else {
            throw WireError(.tooManyPixels, "The animation takes \(length) bytes as WebP; \(mostBytes) are allowed.")
        }
        return unsafe try output.write(UnsafeRawBufferPointer(start: encoded, count: length), at: 0)
    }

    private func checkWebPSides() throws(WireError) {
        guard max(geometry.width, geometry.height) <= 16383 else {
            throw WireError(.tooManyPixels, "A side of a WebP has 16383 pixels at most.")
        }
    }

    private func encodeWebP(_ raster: PixelMemory, to output: ResultFile) throws(WireError) -> Int {
        try checkWebPSides()
        unsafe convertAlpha(raster.bytes)
        var (encoded, length): (UnsafeMutablePointer<UInt8>?, Int) = (nil, 0)
        let status = unsafe codec_webp_encode(
            raster.bytes.start, UInt32(geometry.width), UInt32(geometry.height), pixelFormat.codecOrder,
            Int32(encoding.quality), &encoded, &length)
        defer { unsafe codec_webp_free(encoded) }
        try check(status, "")
        return unsafe try output.write(UnsafeRawBufferPointer(start: encoded, count: length), at: 0)
    }

    /// Converts rows to what the format stores: straight alpha, or opaque over white for JPEG.
    private func convertAlpha(_ rows: UnsafeMutableRawBufferPointer) {
        if !hasAlpha { return }
        switch (encoding.format, alpha) {
        case (.jpeg, .premultiplied):
            unsafe flattenOverWhite(rows)
        case (.jpeg, .straight):
            unsafe premultiply(rows)
            unsafe flattenOverWhite(rows)
        case (_, .premultiplied):
            unsafe unpremultiply(rows)
        case (_, .straight), (_, .opaque):
            break
        }
    }

    private func check(_ status: codec_status, _ message: String) throws(WireError) {
        switch status {
        case CODEC_OK: return
        case CODEC_NO_MEMORY: throw .outOfMemory
        case CODEC_TOO_LARGE:
            throw WireError(.tooManyPixels, "The image is too large for \(encoding.format.rawValue.uppercased()).")
        default: throw WireError(.internal, "The image cannot be encoded: \(message).")
        }
    }
}

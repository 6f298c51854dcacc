import CImageCodecs
import IPCProtocol

/// Makes rows of one picture.
protocol ImageDecoder {
    /// What the picture is, as stored.
    var header: StoredHeader { get }
    /// Decodes all rows into `sink`, in the order of bytes that `format` names, with straight alpha. Called once.
    ///
    /// - Throws: `truncated`, `decode-failed` and the like; whatever the sink throws.
    func decode(_ format: PixelFormat, into sink: inout some RowSink) throws(WireError)
}

/// A picture's header before its orientation is applied, its size within all bounds.
struct StoredHeader {
    let geometry: PixelGeometry
    let frameCount: Int
    let hasAlpha: Bool
    /// How often all rows are read until they are complete.
    let passes: Int

    /// Checks what a codec read. Nothing proportional to the size has been allocated so far.
    ///
    /// - Throws: `too-many-pixels`.
    init(_ header: codec_header, maxPixels: Int) throws(WireError) {
        let size = "\(header.width) × \(header.height)"
        guard let geometry = PixelGeometry(width: Int(header.width), height: Int(header.height)) else {
            throw WireError(.tooManyPixels, "The picture has \(size) pixels; a side may have 65535.")
        }
        guard geometry.pixels <= maxPixels else {
            throw WireError(.tooManyPixels, "The picture has \(size) pixels; \(maxPixels) are allowed.")
        }
        self.geometry = geometry
        frameCount = max(1, Int(header.frames))
        hasAlpha = header.has_alpha != 0
        passes = Int(header.passes)
    }
}

import CImageCodecs
import IPCProtocol

/// Reads stored pixels, which are no encoded image.
struct PixelsDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let layout: StoredPixels

    /// Reads the rows that `layout` describes in `source`; throws `truncated` if they leave it.
    init(_ source: ImageSource, _ layout: StoredPixels) throws(WireError) {
        let count = unsafe source.bytes.count
        guard layout.refusal(bytes: count) == nil else { throw WireError(CODEC_TRUNCATED, format: .pixels) }
        (self.source, self.layout) = (source, layout)
        header = StoredHeader(layout.geometry, hasAlpha: layout.pixelFormat.hasAlpha)
    }

    var streams: Bool { true }
    var skipsRows: Bool { true }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let (wide, layout) = (header.geometry.stride, layout)
        let length = header.geometry.stride(in: layout.pixelFormat)
        var (row, kept) = (size.rows.lowerBound, 0)
        unsafe try sink.takeBands(of: size.used) { (rows, count) throws(WireError) in
            for index in 0..<count {
                let start = layout.offset + row * layout.stride
                let target = unsafe UnsafeMutableRawBufferPointer(rebasing: rows[index * wide..<(index + 1) * wide])
                let stored = unsafe UnsafeRawBufferPointer(rebasing: source.bytes[start..<start + length])
                if layout.pixelFormat.hasAlpha {
                    unsafe target.copyMemory(from: stored)
                } else {
                    unsafe widen(stored, to: target)
                }
                row += 1
            }
            if layout.pixelFormat.codecOrder != format.codecOrder { unsafe swapRedAndBlue(rows) }
            if layout.alpha == .premultiplied { unsafe unpremultiply(rows) }
            kept = source.pass(from: kept, to: layout.offset + row * layout.stride)
        }
    }

    /// Makes opaque pixels of red, green and blue, or of gray.
    private func widen(_ stored: UnsafeRawBufferPointer, to pixels: UnsafeMutableRawBufferPointer) {
        let size = layout.pixelFormat.bytesPerPixel
        for index in 0..<pixels.count / 4 {
            for channel in 0..<3 {
                unsafe pixels[4 * index + channel] = stored[size * index + (size == 3 ? channel : 0)]
            }
            unsafe pixels[4 * index + 3] = 255
        }
    }
}

import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Reads QOI (https://qoiformat.org/qoi-specification.pdf). The field that says that light is linear is ignored:
/// writers set it for images of sRGB, and other readers ignore it.
struct QOIReader: RowReader {
    let geometry: PixelGeometry
    let hasAlpha: Bool

    private var position = 14
    /// The last pixel and how often it is to be repeated, and the pixels that were seen before.
    private var pixel = SIMD4<UInt8>(0, 0, 0, 255)
    private var run = 0
    private var seen = [SIMD4<UInt8>](repeating: SIMD4(), count: 64)
    /// The most pixels of one byte.
    private static let longestRun = 62

    init(_ bytes: Span<UInt8>, isWhole: Bool) throws(WireError) {
        guard bytes.count >= 14, let width = bytes.integer(at: 4, bytes: 4, .big),
            let height = bytes.integer(at: 8, bytes: 4, .big)
        else { throw WireError(CODEC_TRUNCATED, format: .qoi) }
        geometry = try PixelGeometry(width, height, of: .qoi)
        guard 3...4 ~= bytes[12], bytes[13] <= 1 else { throw WireError(CODEC_DAMAGED, format: .qoi) }
        hasAlpha = bytes[12] == 4
        if isWhole, geometry.pixels > (bytes.count - 14) * Self.longestRun {
            throw WireError(CODEC_TRUNCATED, format: .qoi)
        }
    }

    mutating func read(_: Int, of bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        for x in 0..<pixels.count {
            if run > 0 {
                run -= 1
            } else if !readPixel(bytes) {
                return x
            }
            pixels[x] = RGBA.pixel(pixel.x, pixel.y, pixel.z, hasAlpha ? pixel.w : 255)
        }
        return pixels.count
    }

    /// Reads the next chunk. Returns whether it is complete.
    private mutating func readPixel(_ bytes: Span<UInt8>) -> Bool {
        guard position < bytes.count else { return false }
        let (first, start) = (bytes[position], position + 1)
        let length = first >= 0xFE ? Int(first) - 0xFB : first >> 6 == 2 ? 1 : 0
        guard start + length <= bytes.count else { return false }
        position = start + length
        switch (first, first >> 6) {
        case (0xFE, _): pixel = SIMD4(bytes[start], bytes[start + 1], bytes[start + 2], pixel.w)
        case (0xFF, _): pixel = SIMD4(bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3])
        case (_, 0): pixel = seen[Int(first)]
        case (_, 1): pixel &+= SIMD4(first >> 4 & 3, first >> 2 & 3, first & 3, 2) &- 2
        case (_, 2):
            let (green, others) = (first & 63 &- 32, bytes[start])
            pixel &+= SIMD4(green &+ (others >> 4) &- 8, green, green &+ (others & 15) &- 8, 0)
        default: run = Int(first & 63)
        }
        seen[(Int(pixel.x) * 3 + Int(pixel.y) * 5 + Int(pixel.z) * 7 + Int(pixel.w) * 11) % 64] = pixel
        return true
    }
}

/// The pixels of a preview: 4 bytes each (red, green, blue, alpha; not premultiplied), rows without padding.
struct PreviewPixels {
    let width: Int
    let height: Int
    let bytes: [UInt8]

    /// The colour of a pixel; nil for one that is rather transparent than opaque, or outside.
    subscript(_ x: Int, _ y: Int) -> SIMD3<Int>? {
        guard x < width, y < height else { return nil }
        let start = 4 * (y * width + x)
        guard bytes[start + 3] >= 128 else { return nil }
        return SIMD3(Int(bytes[start]), Int(bytes[start + 1]), Int(bytes[start + 2]))
    }
}

/// The order of the four bytes of a pixel.
public enum PixelFormat: String, CaseIterable, Sendable {
    /// Red, green, blue, alpha.
    case rgba8
    /// Blue, green, red, alpha: 0xAARRGGBB in a little-endian word, as Wayland, Cairo and Win32 take it.
    case bgra8
}

/// How colour is stored beside alpha.
public enum AlphaMode: String, CaseIterable, Sendable {
    /// Colour already multiplied by alpha.
    case premultiplied
    /// Colour as if alpha were full.
    case straight
}

/// The shape of a picture in memory: rows from the top, without padding.
public struct PixelGeometry: Hashable, Sendable {
    /// The most pixels a side may have.
    public static let maximumSide = 65_535
    /// The bytes of a pixel.
    public static let bytesPerPixel = 4

    /// Pixels in a row, 1 … 65,535.
    public let width: Int
    /// Rows, 1 … 65,535.
    public let height: Int

    /// A shape of `width` by `height` pixels; nil when a side is not within 1 … 65,535. With that bound no product
    /// below can overflow.
    public init?(width: Int, height: Int) {
        guard (1...Self.maximumSide).contains(width), (1...Self.maximumSide).contains(height) else { return nil }
        self.width = width
        self.height = height
    }

    /// Bytes from one row to the next.
    public var stride: Int { width * Self.bytesPerPixel }
    /// Pixels in all.
    public var pixels: Int { width * height }
    /// Bytes in all.
    public var bytes: Int { stride * height }
}

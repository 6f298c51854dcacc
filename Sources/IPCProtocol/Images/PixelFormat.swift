package import JSONCoding

/// The bytes of a pixel.
public enum PixelFormat: String, CaseIterable, Sendable {
    /// Red, green, blue, alpha.
    case rgba8
    /// Blue, green, red, alpha: 0xAARRGGBB in a little-endian word, as Wayland, Cairo and Win32 expect it.
    case bgra8
    /// Red, green, blue, composited over a background.
    case rgb8
    /// One byte, the ITU-R BT.601 luma of the sRGB values, composited over a background.
    case gray8

    /// The size of a pixel in bytes.
    public var bytesPerPixel: Int {
        switch self {
        case .rgba8, .bgra8: 4
        case .rgb8: 3
        case .gray8: 1
        }
    }

    /// Whether pixels have alpha.
    public var hasAlpha: Bool { bytesPerPixel == 4 }
}

/// The relation of the colour channels to alpha.
public enum AlphaMode: String, CaseIterable, Sendable {
    /// The colour is multiplied by alpha.
    case premultiplied
    /// The colour is independent of alpha.
    case straight
    /// Pixels have no alpha; the mode of `rgb8` and `gray8` only, and no mode that can be requested.
    case opaque = "none"
}

/// The shape of an image in memory: rows from the top, without padding. Sizes in bytes are those of pixels with alpha,
/// unless a format is stated.
public struct PixelGeometry: Hashable, Sendable {
    /// The maximum width and height in pixels.
    public static let maximumSide = 65_535
    /// The size of a pixel with alpha in bytes.
    public static let bytesPerPixel = 4

    /// The number of pixels in a row, 1 … 65,535.
    public let width: Int
    /// The number of rows, 1 … 65,535.
    public let height: Int

    /// Creates a shape of `width` by `height` pixels; nil when a side is not within 1 … 65,535. Within that range none
    /// of the products below can overflow.
    public init?(width: Int, height: Int) {
        guard (1...Self.maximumSide).contains(width), (1...Self.maximumSide).contains(height) else { return nil }
        self.width = width
        self.height = height
    }

    /// The number of bytes from one row to the next.
    public var stride: Int { width * Self.bytesPerPixel }
    /// The total number of pixels.
    public var pixels: Int { width * height }
    /// The total number of bytes.
    public var bytes: Int { stride * height }

    /// Returns the number of bytes from one row to the next in `format`.
    public func stride(in format: PixelFormat) -> Int { width * format.bytesPerPixel }
    /// Returns the total number of bytes in `format`.
    public func bytes(in format: PixelFormat) -> Int { stride(in: format) * height }

    /// The smallest shape, from which reading starts.
    package static let blank = PixelGeometry(width: 1, height: 1)!
}

extension Fields {
    /// The members `widthName` and `heightName`.
    package mutating func geometry(_ widthName: StaticString, _ heightName: StaticString, _ value: inout PixelGeometry)
    {
        var (width, height) = (value.width, value.height)
        integer(widthName, &width, in: 1...PixelGeometry.maximumSide)
        integer(heightName, &height, in: 1...PixelGeometry.maximumSide)
        value = PixelGeometry(width: width, height: height) ?? value
    }
}

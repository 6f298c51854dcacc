/// The format and quality of an encoded image. Equal encodings of equal pixels give equal bytes.
package struct Encoding: Hashable, Sendable {
    /// The formats that can be written.
    package enum Format: String, CaseIterable, Sendable {
        case png, jpeg, webp

        /// The corresponding format among those that can be read.
        package var imageFormat: ImageFormat { ImageFormat(rawValue: rawValue)! }
    }

    package static let usualQuality = 85

    package let format: Format
    /// 1 … 100, for JPEG and WebP.
    package let quality: Int

    /// Creates an encoding in its canonical form: PNG has no quality.
    package init(_ format: Format, quality: Int = usualQuality) {
        self.format = format
        self.quality = format == .png ? Self.usualQuality : quality
    }

    /// Returns an upper bound for the encoded size of an image, in bytes. The worst case, black and white noise two
    /// pixels wide as JPEG of quality 100, takes 10 bytes per pixel because blocks are 16 × 16 pixels. The rest of the
    /// bound is for headers.
    package static func mostBytes(of geometry: PixelGeometry) -> Int { mostBytes(ofPixels: geometry.pixels) }

    /// Returns the same bound for any image of `pixels` pixels, at most Int.max / 32.
    package static func mostBytes(ofPixels pixels: Int) -> Int { 16 * pixels + (64 << 10) }

    /// Returns the bytes that an encoded animation hardly ever exceeds, half a byte for each pixel.
    package static func likelyBytes(of geometry: PixelGeometry, frames: Int) -> Int {
        geometry.pixels * frames / 2 + (64 << 10)
    }

    /// The encoding as one word, for file names.
    package var canonical: String { "\(format.rawValue)-\(quality)" }
}

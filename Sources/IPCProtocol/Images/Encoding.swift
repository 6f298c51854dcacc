/// How pixels are written as a file's bytes. Equal encodings of equal pixels are equal bytes.
package struct Encoding: Hashable, Sendable {
    /// The formats that are written.
    package enum Format: String, CaseIterable, Sendable {
        case png, jpeg, webp

        /// The same among the formats that are read.
        package var imageFormat: ImageFormat {
            switch self {
            case .png: .png
            case .jpeg: .jpeg
            case .webp: .webp
            }
        }
    }

    /// The quality where none is asked for.
    package static let usualQuality = 85

    /// The format.
    package let format: Format
    /// 1 … 100, for JPEG and WebP.
    package let quality: Int

    /// An encoding in its canonical form: PNG has no quality.
    package init(_ format: Format, quality: Int = usualQuality) {
        self.format = format
        self.quality = format == .png ? Self.usualQuality : quality
    }

    /// More bytes than a picture of this size ever becomes: the most wasteful, black and white noise two pixels wide as JPEG
    /// of full quality, takes ten for a pixel, as blocks are of 16 by 16. What is over is for headers.
    package static func mostBytes(of geometry: PixelGeometry) -> Int { mostBytes(ofPixels: geometry.pixels) }

    /// The same for any picture of so many pixels, Int.max / 32 at most.
    package static func mostBytes(ofPixels pixels: Int) -> Int { 16 * pixels + (64 << 10) }

    /// The encoding as one word, for names of files.
    package var canonical: String { "\(format.rawValue)-\(quality)" }
}

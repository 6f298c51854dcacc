import IPCProtocol
import ImageDecoding

extension ImageDetails {
    static func plain(_ format: ImageFormat) -> @Sendable (ImageSource, any ImageDecoder) -> ImageDetails {
        { source, _ in source.withSpan { ImageDetails(format, $0) } }
    }

    private init(_ format: ImageFormat, _ bytes: Span<UInt8>) {
        self.init()
        let found = ContainerMetadata(format, bytes)
        exif = found.exif.flatMap { MetadataBlock([$0], in: bytes) }
        xmp = found.xmp.flatMap { MetadataBlock([$0], in: bytes) }
        bitDepth = found.bitDepth ?? ([.webp, .gif].contains(format) ? 8 : nil)
        density = found.density.flatMap { Self.density(format, at: $0, in: bytes) }
    }

    /// The resolution in dots per inch; nil if the file states an aspect ratio only.
    private static func density(
        _ format: ImageFormat, at position: Int, in bytes: Span<UInt8>
    ) -> ImageFacts.Density? {
        let isPNG = format == .png
        let width = isPNG ? 4 : 2
        let first = isPNG ? position : position + 1
        guard let unit = bytes.integer(at: isPNG ? position + 8 : position, bytes: 1, .big),
            let x = bytes.integer(at: first, bytes: width, .big),
            let y = bytes.integer(at: first + width, bytes: width, .big)
        else { return nil }
        // Of a PNG, dots per metre; of a JPEG, dots per inch (1) or centimetre (2).
        let factors = isPNG ? [1: 0.0254] : [1: 1, 2: 2.54]
        return factors[unit].flatMap { ImageFacts.Density(x: Double(x) * $0, y: Double(y) * $0) }
    }
}

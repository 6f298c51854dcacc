import CImageCodecs
import Glibc
import IPCProtocol
import ImageDecoding

extension ImageMetadata {
    init(_ source: ImageSource, _ format: ImageFormat) {
        self = source.withSpan { bytes in
            var kept = 0
            let found = ContainerMetadata(format, bytes) { kept = source.pass(from: kept, to: $0) }
            return ImageMetadata(
                orientation: found.orientation(in: bytes), profile: ColorProfile.read(found.profile, in: bytes))
        }
    }
}

extension PNGDecoder {
    init(_ source: ImageSource) throws(WireError) {
        try self.init(source) { ImageMetadata($0, .png) }
    }
}

extension ColorProfile {
    fileprivate static func read(_ place: ContainerMetadata.ProfilePlace?, in bytes: Span<UInt8>) -> ColorProfile {
        guard let place else { return .none }
        let length = place.parts.reduce(0) { $0 + $1.count }
        guard place.isComplete, length > 0, length <= longest else { return .damaged }
        let joined = bytes.joined(place.parts)
        guard place.isDeflated else { return .bytes(joined) }
        return inflated(joined).map { .bytes($0) } ?? .damaged
    }

    private static func inflated(_ stream: [UInt8]) -> [UInt8]? {
        var (output, count): (UnsafeMutablePointer<UInt8>?, Int) = (nil, 0)
        let status = unsafe codec_inflate(stream, stream.count, 0, longest, &output, &count)
        defer { unsafe free(output) }
        guard status == CODEC_OK, let output = unsafe output else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }
}

extension ImageDetails {
    static func plain(_ format: ImageFormat) -> @Sendable (ImageSource) -> ImageDetails {
        { $0.withSpan { ImageDetails(format, $0) } }
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
    private static func density(_ format: ImageFormat, at position: Int, in bytes: Span<UInt8>) -> ImageFacts.Density? {
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

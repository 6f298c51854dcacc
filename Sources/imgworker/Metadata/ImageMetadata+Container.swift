import CImageCodecs
import Glibc
import IPCProtocol
import ImageDecoding

extension ImageMetadata {
    /// Reads the metadata of `source`, a file of `format` with `frameCount` images.
    init(_ source: ImageSource, _ format: ImageFormat, frameCount: Int) {
        self = source.withSpan { bytes in
            var kept = 0
            let found = ContainerMetadata(format, bytes) { kept = source.pass(from: kept, to: $0) }
            return ImageMetadata(
                orientation: found.orientation(in: bytes),
                profile: ColorProfile.read(found.profile, in: bytes),
                frameCount: frameCount)
        }
    }
}

extension PNGDecoder {
    /// Reads the header of `source`, a file with metadata.
    init(_ source: ImageSource) throws(WireError) {
        try self.init(source) { ImageMetadata($0, .png, frameCount: $1) }
    }
}

extension ColorProfile {
    fileprivate static func read(_ place: ContainerMetadata.ProfilePlace?, in bytes: Span<UInt8>) -> ColorProfile {
        guard let place else { return .none }
        let length = place.parts.reduce(0) { $0 + $1.count }
        guard place.isComplete, length > 0, length <= longest else { return .damaged }
        var joined: [UInt8] = []
        joined.reserveCapacity(length)
        for part in place.parts { for index in part { joined.append(bytes[index]) } }
        guard place.isDeflated else { return .bytes(joined) }
        return inflated(joined).map { .bytes($0) } ?? .damaged
    }

    private static func inflated(_ stream: [UInt8]) -> [UInt8]? {
        var (output, count): (UnsafeMutablePointer<UInt8>?, Int) = (nil, 0)
        let status = unsafe codec_inflate(stream, stream.count, longest, &output, &count)
        defer { unsafe free(output) }
        guard status == CODEC_OK, let output = unsafe output else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }
}

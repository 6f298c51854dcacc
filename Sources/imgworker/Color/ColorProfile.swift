import CImageCodecs
import Glibc
import IPCProtocol

/// The ICC profile (ISO 15076-1) of a file.
enum ColorProfile: Equatable {
    /// The file has no profile: it is sRGB, or CMYK without a description.
    case none
    /// The profile's bytes, not validated.
    case bytes([UInt8])
    /// The profile is incomplete, or longer than `longest`.
    case damaged

    /// The maximum length of a profile in bytes. Printers have the longest profiles, of 1 to 2 MB.
    static let longest = 4 << 20

    /// Reads the profile that `metadata` locates in `bytes`.
    init(_ metadata: ContainerMetadata, in bytes: Span<UInt8>) {
        guard let place = metadata.profile else {
            self = .none
            return
        }
        let length = place.parts.reduce(0) { $0 + $1.count }
        guard place.isComplete, length > 0, length <= Self.longest else {
            self = .damaged
            return
        }
        var joined: [UInt8] = []
        joined.reserveCapacity(length)
        for part in place.parts { for index in part { joined.append(bytes[index]) } }
        guard place.isDeflated else {
            self = .bytes(joined)
            return
        }
        self = Self.inflated(joined).map { .bytes($0) } ?? .damaged
    }

    /// Copies the profile that a codec has found; none if it is empty.
    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self = bytes.isEmpty ? .none : bytes.count > Self.longest ? .damaged : unsafe .bytes(Array(bytes))
    }

    private static func inflated(_ stream: [UInt8]) -> [UInt8]? {
        var (output, count): (UnsafeMutablePointer<UInt8>?, Int) = (nil, 0)
        let status = unsafe codec_inflate(stream, stream.count, longest, &output, &count)
        defer { unsafe free(output) }
        guard status == CODEC_OK, let output = unsafe output else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: output, count: count))
    }
}

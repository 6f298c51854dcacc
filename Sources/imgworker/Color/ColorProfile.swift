import CImageCodecs
import Glibc
import IPCProtocol

/// The ICC profile (ISO 15076-1) in a file.
enum ColorProfile: Equatable {
    /// The file has none: it is sRGB, or ink without a description.
    case none
    /// Its bytes, whatever they are worth.
    case bytes([UInt8])
    /// There is one, but not in full, or too long to be looked at.
    case damaged

    /// The longest profile that is looked at, in bytes. Those of printers, the longest there are, have one or two million.
    static let longest = 4 << 20

    /// Reads the profile that `metadata` has found in `bytes`.
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

    /// The profile that a library has found; nil for none.
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

internal import Digests

/// The end of a file of the disk tier. Such a file describes itself:
///
///     body      the stored bytes, from offset 0 on
///     trailer   JSON: the description of the body
///     footer    80 bytes: the SHA-256 of the trailer as 64 hexadecimal digits, the trailer's length and the format's
///               version as 32-bit big-endian numbers, and the 8 characters of `magic`
///
/// The body comes first so that it can be read, sent and mapped from the file's beginning. The footer comes last so
/// that truncation is detected.
package struct DiskFileFooter: Equatable, Sendable {
    /// The file's last bytes.
    package static let magic = "imgcache"
    /// The version of the format. A file of another version is not an entry.
    package static let version: UInt32 = 3
    package static let length = 80
    /// The longest trailer, in bytes. Two of them fit into one frame of the protocol.
    package static let maximumTrailerLength = 1 << 18

    private static let digestLength = 64

    /// The SHA-256 of the trailer, 64 hexadecimal digits.
    package let trailerDigest: String
    package let trailerLength: Int

    /// The footer of `trailer`; nil when that is too long.
    package init?(of trailer: [UInt8]) {
        guard trailer.count <= Self.maximumTrailerLength else { return nil }
        trailerDigest = SHA256.hexadecimalDigest(of: trailer)
        trailerLength = trailer.count
    }

    /// Reads the footer from a file's last bytes; nil when it is invalid, or the file is too short for its trailer.
    package init?(decoding bytes: some Collection<UInt8>, fileSize: Int) {
        let bytes = Array(bytes)
        guard bytes.count == Self.length, fileSize >= Self.length,
            bytes[72...].elementsEqual(Self.magic.utf8),
            Self.number(bytes[68..<72]) == Self.version,
            let digest = String(validating: bytes[..<Self.digestLength], as: UTF8.self)
        else { return nil }
        let length = Int(Self.number(bytes[64..<68]))
        guard length <= Self.maximumTrailerLength, length <= fileSize - Self.length else { return nil }
        trailerDigest = digest
        trailerLength = length
    }

    /// Whether these last bytes of a file are a footer of another version.
    package static func isOfAnotherVersion(_ bytes: some Collection<UInt8>) -> Bool {
        let bytes = Array(bytes)
        return bytes.count == length && bytes[72...].elementsEqual(magic.utf8) && number(bytes[68..<72]) != version
    }

    package var encoded: [UInt8] {
        Array(trailerDigest.utf8) + Self.bytes(UInt32(trailerLength)) + Self.bytes(Self.version)
            + Array(Self.magic.utf8)
    }

    /// Whether `trailer` is the one that the footer was made for.
    package func describes(_ trailer: some Collection<UInt8>) -> Bool {
        trailer.count == trailerLength && SHA256.hexadecimalDigest(of: trailer) == trailerDigest
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
    }
}

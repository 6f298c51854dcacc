/// The ICC profile (ISO 15076-1) of a file.
package enum ColorProfile: Equatable {
    /// The file has no profile: it is sRGB, or CMYK without a description.
    case none
    /// The profile's bytes, not validated.
    case bytes([UInt8])
    /// The file has no profile, and light that may be brighter than white, which `codec_base` describes by a number.
    case light(Int32)
    /// The profile is incomplete, or longer than `longest`.
    case damaged

    /// The maximum length of a profile in bytes. Printers have the longest profiles, of 1 to 2 MB.
    package static let longest = 4 << 20

    /// Copies the profile that a codec has found; none if it is empty.
    package init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self = bytes.isEmpty ? .none : bytes.count > Self.longest ? .damaged : unsafe .bytes(Array(bytes))
    }
}

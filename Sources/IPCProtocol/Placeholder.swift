/// What can be shown of a picture before it is there.
public struct Placeholder: Hashable, Sendable {
    /// The mean of all pixels as CSS writes colours: `#rrggbb`, or `#rrggbbaa` where the picture is not opaque.
    public let averageColor: String
    /// The picture's ThumbHash, in Base64 (RFC 4648).
    public let thumbHash: String

    /// The longest ThumbHash, in bytes; the format has 25 at most.
    public static let longestHash = 25

    /// A placeholder; nil when these are not what they should be.
    public init?(averageColor: String?, thumbHash: String?) {
        guard let averageColor, let thumbHash else { return nil }
        let (color, hash) = (averageColor.utf8, thumbHash.utf8)
        let isHexadecimal = { (byte: UInt8) in
            UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || UInt8(ascii: "a")...UInt8(ascii: "f") ~= byte
        }
        let isBase64 = { (byte: UInt8) in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
                true
            default: false
            }
        }
        guard color.count == 7 || color.count == 9, color.first == UInt8(ascii: "#"),
            color.dropFirst().allSatisfy(isHexadecimal), hash.count % 4 == 0,
            (4...(Self.longestHash + 2) / 3 * 4).contains(hash.count), hash.allSatisfy(isBase64)
        else { return nil }
        self.averageColor = averageColor
        self.thumbHash = thumbHash
    }

    /// Writes both members.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("averageColor", averageColor)
        writer.member("thumbHash", thumbHash)
    }
}

internal import HTTPValues
package import JSONCoding

/// The average colour and ThumbHash of an image, shown before the image.
public struct Placeholder: Hashable, Sendable {
    /// The maximum length of a ThumbHash, in bytes.
    public static let longestHash = 25

    /// The four channels of the colour, the length of the hash, and the hash padded with zeros. They are stored inline
    /// because a cache may have a million placeholders, and strings would be stored elsewhere.
    private var bytes = InlineArray<30, UInt8>(repeating: 0)

    /// A placeholder without a hash, from which reading starts.
    private init() {}

    /// Creates a placeholder; nil when the hash is empty or too long.
    public init?(averageColor: SIMD4<UInt8>, thumbHash: [UInt8]) {
        guard (1...Self.longestHash).contains(thumbHash.count) else { return nil }
        for channel in 0..<4 { bytes[channel] = averageColor[channel] }
        bytes[4] = UInt8(thumbHash.count)
        for (place, byte) in thumbHash.enumerated() { bytes[5 + place] = byte }
    }

    /// Reads both texts; nil when they are not in the spelling of the properties below.
    public init?(averageColor: String?, thumbHash: String?) {
        guard let averageColor, let color = Color(averageColor), color.description == averageColor, let thumbHash
        else { return nil }
        var digits = thumbHash.utf8Span.span
        for _ in 0..<2 where !digits.isEmpty && digits[digits.count - 1] == UInt8(ascii: "=") {
            digits = digits.extracting(droppingLast: 1)
        }
        guard let hash = Base64.decoded(digits, forURLs: false) else { return nil }
        self.init(averageColor: SIMD4(color.red, color.green, color.blue, color.alpha), thumbHash: hash)
        // Padding is complete, and the unused bits of the last digit are 0.
        if self.thumbHash != thumbHash { return nil }
    }

    /// The mean of all pixels as a CSS colour: `#rrggbb`, or `#rrggbbaa` if the image is not opaque.
    public var averageColor: String {
        Color(red: bytes[0], green: bytes[1], blue: bytes[2], alpha: bytes[3]).description
    }

    /// The ThumbHash of the image, in Base64 (RFC 4648, section 4).
    public var thumbHash: String {
        Base64.encode(bytes.span.extracting(5..<5 + Int(bytes[4])))
    }

    public static func == (left: Placeholder, right: Placeholder) -> Bool {
        left.bytes.indices.allSatisfy { left.bytes[$0] == right.bytes[$0] }
    }

    public func hash(into hasher: inout Hasher) {
        for place in bytes.indices { hasher.combine(bytes[place]) }
    }
}

extension Placeholder: FieldList {
    package static var blank: Placeholder { Placeholder() }

    package mutating func list(_ fields: inout Fields) {
        var (averageColor, thumbHash) = ("", "")
        if !fields.isReading { (averageColor, thumbHash) = (self.averageColor, self.thumbHash) }
        fields.string("averageColor", &averageColor)
        fields.string("thumbHash", &thumbHash)
        guard fields.isReading else { return }
        if let read = Placeholder(averageColor: averageColor, thumbHash: thumbHash) {
            self = read
        } else {
            fields.note("thumbHash", expected: "a ThumbHash beside a colour")
        }
    }
}

extension Fields {
    /// The members of a placeholder, absent when it is nil.
    package mutating func placeholder(_ value: inout Placeholder?) {
        group(with: has("thumbHash") ? "thumbHash" : "averageColor", &value)
    }
}

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
        guard let averageColor, let thumbHash, readColor(averageColor), readHash(thumbHash) else { return nil }
    }

    /// The mean of all pixels as a CSS colour: `#rrggbb`, or `#rrggbbaa` if the image is not opaque.
    public var averageColor: String {
        var text = [UInt8(ascii: "#")]
        for channel in 0..<(bytes[3] == .max ? 3 : 4) {
            text += [Self.hexadecimal[Int(bytes[channel] >> 4)], Self.hexadecimal[Int(bytes[channel] & 15)]]
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The ThumbHash of the image, in Base64 (RFC 4648, section 4).
    public var thumbHash: String {
        Base64.encode((0..<Int(bytes[4])).map { bytes[5 + $0] })
    }

    public static func == (left: Placeholder, right: Placeholder) -> Bool {
        left.bytes.indices.allSatisfy { left.bytes[$0] == right.bytes[$0] }
    }

    public func hash(into hasher: inout Hasher) {
        for place in bytes.indices { hasher.combine(bytes[place]) }
    }

    // MARK: Texts

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    /// Reads a colour. Returns whether it has the spelling of `averageColor`.
    private mutating func readColor(_ text: String) -> Bool {
        guard text.utf8.first == UInt8(ascii: "#"), text.utf8.count == 7 || text.utf8.count == 9 else { return false }
        bytes[3] = 0
        for (place, digit) in text.utf8.dropFirst().enumerated() {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return false
            }
            bytes[place / 2] = bytes[place / 2] << 4 | value
        }
        if text.utf8.count == 9 { return bytes[3] != .max }
        bytes[3] = .max
        return true
    }

    /// Reads a ThumbHash. Returns whether it has the spelling of `thumbHash`.
    private mutating func readHash(_ text: String) -> Bool {
        var (word, bits, count, padding) = (0, 0, 0, 0)
        for digit in text.utf8 {
            if digit == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let value = Base64.value(of: digit) else { return false }
            word = (word << 6 | value) & 0xFFFF
            bits += 6
            if bits < 8 { continue }
            guard count < Self.longestHash else { return false }
            bits -= 8
            bytes[5 + count] = UInt8(truncatingIfNeeded: word >> bits)
            count += 1
        }
        bytes[4] = UInt8(count)
        // The last group is padded, and its unused bits are 0.
        return count > 0 && bits < 6 && padding == (3 - count % 3) % 3 && word & (1 << bits - 1) == 0
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

package import JSONCoding

/// A colour of sRGB values with straight alpha.
public struct Color: Hashable, Sendable, CustomStringConvertible {
    /// The channels.
    public var red, green, blue, alpha: UInt8

    /// Creates a colour.
    public init(red: UInt8, green: UInt8, blue: UInt8, alpha: UInt8 = 255) {
        (self.red, self.green, self.blue, self.alpha) = (red, green, blue, alpha)
    }

    /// White, the default background of pixels without alpha.
    public static let white = Color(red: 255, green: 255, blue: 255)

    /// Reads `#rrggbb` or `#rrggbbaa`; nil for any other text.
    public init?(_ text: some StringProtocol) {
        var (value, count) = (UInt32(0), -1)
        for byte in text.utf8 {
            if count >= 0 {
                guard count < 8, let digit = Self.value(of: byte) else { return nil }
                value = value << 4 | digit
            } else if byte != UInt8(ascii: "#") {
                return nil
            }
            count += 1
        }
        guard count == 6 || count == 8 else { return nil }
        if count == 6 { value = value << 8 | 255 }
        self.init(
            red: UInt8(value >> 24), green: UInt8(value >> 16 & 255), blue: UInt8(value >> 8 & 255),
            alpha: UInt8(value & 255))
    }

    private static func value(of digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt32(digit - UInt8(ascii: "a")) + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt32(digit - UInt8(ascii: "A")) + 10
        default: nil
        }
    }

    /// `#rrggbb`, or `#rrggbbaa` if it is not opaque.
    public var description: String {
        var text = [UInt8(ascii: "#")]
        text.reserveCapacity(9)
        let value = UInt32(red) << 24 | UInt32(green) << 16 | UInt32(blue) << 8 | UInt32(alpha)
        for place in 0..<(alpha == 255 ? 6 : 8) { text.append(Self.digits[Int(value >> UInt32(28 - 4 * place) & 15)]) }
        return String(decoding: text, as: UTF8.self)
    }

    private static let digits = Array("0123456789abcdef".utf8)
}

extension Fields {
    /// A colour, `#rrggbb`, or also `#rrggbbaa` unless `isOpaque`.
    package mutating func color(
        _ name: StaticString, _ value: inout Color, isOpaque: Bool = false, _ presence: Presence = .required
    ) {
        guard isReading else { return constant(name, value.description) }
        guard has(name) || presence == .required else { return }
        var text = ""
        string(name, &text)
        if problem != nil { return }
        if let color = Color(text), !isOpaque || text.utf8.count == 7 {
            value = color
        } else {
            note("\(name)", expected: isOpaque ? "a colour #rrggbb" : "a colour #rrggbb or #rrggbbaa")
        }
    }
}

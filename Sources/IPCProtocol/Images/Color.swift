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
        let hexadecimal = text.utf8.dropFirst()
        guard text.utf8.first == UInt8(ascii: "#"), [6, 8].contains(hexadecimal.count),
            hexadecimal.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let digits = UInt32(String(decoding: hexadecimal, as: UTF8.self), radix: 16)
        else { return nil }
        let value = text.utf8.count == 7 ? digits << 8 | 255 : digits
        self.init(
            red: UInt8(value >> 24), green: UInt8(value >> 16 & 255), blue: UInt8(value >> 8 & 255),
            alpha: UInt8(value & 255))
    }

    /// `#rrggbb`, or `#rrggbbaa` if it is not opaque.
    public var description: String {
        var text = [UInt8(ascii: "#")]
        for channel in alpha == 255 ? [red, green, blue] : [red, green, blue, alpha] {
            text += [Self.digits[Int(channel >> 4)], Self.digits[Int(channel & 15)]]
        }
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

// Text from others, which may contain characters that command a terminal or rearrange a line.

extension Unicode.Scalar {
    /// Whether a text with this character may be shown as another text: controls (C0, C1, DEL), separators of lines and
    /// paragraphs, and format characters, among them those of writing direction. Zero-width joiners are format
    /// characters too.
    package var isDeceptive: Bool {
        if value < 0x7F { return value < 0x20 }
        return switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}

extension String {
    /// The text with each deceptive character in JSON's notation (\u202E), so that it is safe on a terminal and in a
    /// JSON string.
    package var escapingDeceptive: String { escapingDeceptive(except: nil) }

    /// The same, with the line feeds left as they are.
    package var escapingDeceptiveInLines: String { escapingDeceptive(except: "\n") }

    private func escapingDeceptive(except kept: Unicode.Scalar?) -> String {
        guard unicodeScalars.contains(where: { $0.isDeceptive && $0 != kept }) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.isDeceptive, scalar != kept {
                for unit in UTF16.encode(scalar)! {
                    let digits = String(unit, radix: 16, uppercase: true)
                    text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension String {
    /// The text without the user info, query and fragment of URLs in it, which may be secret. A URL ends at white
    /// space, a quotation mark or an angle bracket.
    package var withoutURLSecrets: String {
        var text = ""
        var rest = Substring(self)
        while let mark = Self.schemeEnd(in: rest) {
            text += rest[..<mark]
            let url = rest[mark...].prefix { !$0.isWhitespace && $0 != "\"" && $0 != "<" && $0 != ">" }
            let host = url.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
            text += host.lastIndex(of: "@").map { host[$0...].dropFirst() } ?? host
            text += url[host.endIndex...].prefix { $0 != "?" && $0 != "#" }
            rest = rest[url.endIndex...]
        }
        return text + rest
    }

    /// The index after the first "://".
    private static func schemeEnd(in text: Substring) -> Index? {
        var from = text.startIndex
        while let colon = text[from...].firstIndex(of: ":") {
            let after = text[colon...]
            if after.hasPrefix("://") { return text.index(colon, offsetBy: 3) }
            from = text.index(after: colon)
        }
        return nil
    }
}

import SystemValues

/// Characters of bars, with others where the terminal's locale is not UTF-8.
enum TopGlyphs {
    private static let heights: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

    private static let plain: [Character: Character] = [
        "▁": ".", "▂": ":", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "%", "█": "#",
        "▏": ".", "▎": ".", "▍": "-", "▌": "-", "▋": "=", "▊": "=", "▉": "#", "·": ".", "…": "~", "µ": "u", "▾": "v",
    ]

    /// A bar for each count, relative to the largest; a space for zero.
    static func distribution(_ counts: [Int]) -> String {
        let largest = counts.max() ?? 0
        return String(
            counts.map { count in
                if count <= 0 { return " " }
                return heights[min(7, Int(Double(count) / Double(largest) * 8))]
            })
    }

    static func ascii(_ text: String) -> String {
        String(text.map { $0.isASCII ? $0 : plain[$0] ?? "?" })
    }

    /// Text of others in printable ASCII, so that each character takes one cell and none commands the terminal.
    static func printable(_ text: String) -> String {
        String(text.escapingDeceptive.unicodeScalars.map { $0.isASCII ? Character($0) : "?" })
    }

    static func isUTF8(_ environment: (String) -> String?) -> Bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { environment($0) }.first { !$0.isEmpty } ?? ""
        let name = locale.uppercased()
        return name.hasSuffix("UTF-8") || name.hasSuffix("UTF8") || name.contains("UTF-8@") || name.contains("UTF8@")
    }
}

/// Images in sixel: bands of six rows, in which each colour draws its pixels in turn (DEC STD 070, chapter 9).
enum Sixel {
    /// The levels of each channel: 216 colours of the 256 registers that terminals have.
    private static let levels = 6
    /// The thresholds of ordered dithering (Bayer, 1973), in sixteenths of the distance between two levels.
    private static let thresholds = [0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5]

    /// The escape sequence that shows an image at the cursor. Transparent pixels keep the background.
    static func text(of pixels: PreviewPixels) -> String {
        var text = "\u{1B}P0;1q\"1;1;\(pixels.width);\(pixels.height)"
        for color in 0..<levels * levels * levels {
            let channels = [color / (levels * levels), color / levels % levels, color % levels]
            text += "#\(color);2;" + channels.map { String($0 * 100 / (levels - 1)) }.joined(separator: ";")
        }
        for top in stride(from: 0, to: pixels.height, by: 6) {
            for (color, columns) in band(pixels, top).sorted(by: { $0.key < $1.key }) {
                text += "#\(color)" + runs(columns) + "$"
            }
            text += "-"
        }
        return text + "\u{1B}\\"
    }

    /// The six pixels of each column that have a colour, one bit each, by colour.
    private static func band(_ pixels: PreviewPixels, _ top: Int) -> [Int: [UInt8]] {
        var band: [Int: [UInt8]] = [:]
        for row in 0..<min(6, pixels.height - top) {
            for x in 0..<pixels.width {
                guard let color = pixels[x, top + row] else { continue }
                let threshold = thresholds[4 * ((top + row) % 4) + x % 4]
                let dithered = (color &* SIMD3(repeating: 16 * (levels - 1)) &+ threshold &* 255) / (16 * 255)
                let number = (dithered[0] * levels + dithered[1]) * levels + dithered[2]
                band[number, default: Array(repeating: 0, count: pixels.width)][x] |= 1 << row
            }
        }
        return band
    }

    /// The columns as characters, repeated ones with their number.
    private static func runs(_ columns: [UInt8]) -> String {
        var text = ""
        var start = 0
        while start < columns.count {
            let count = columns[start...].prefix { $0 == columns[start] }.count
            let character = String(UnicodeScalar(63 + columns[start]))
            text += count > 3 ? "!\(count)\(character)" : String(repeating: character, count: count)
            start += count
        }
        return text
    }
}

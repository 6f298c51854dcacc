import BrokerHarness

/// A colour with straight alpha; all components are from 0 to 1.
struct Color {
    var (red, green, blue): (Double, Double, Double)
    var alpha: Double

    init(_ red: Double, _ green: Double, _ blue: Double, alpha: Double = 1) {
        (self.red, self.green, self.blue, self.alpha) = (red, green, blue, alpha)
    }

    /// A colour as 0xRRGGBB.
    init(_ hex: Int, alpha: Double = 1) {
        self.init(
            Double(hex >> 16 & 255) / 255, Double(hex >> 8 & 255) / 255, Double(hex & 255) / 255, alpha: alpha)
    }

    /// The colour at `share` of the way to `other`.
    func mixed(with other: Color, _ share: Double) -> Color {
        let share = min(1, max(0, share))
        func mix(_ from: Double, _ to: Double) -> Double { from + (to - from) * share }
        return Color(
            mix(red, other.red), mix(green, other.green), mix(blue, other.blue), alpha: mix(alpha, other.alpha))
    }
}

/// Pixels to draw on: four bytes each, red, green, blue and straight alpha.
struct Canvas {
    let width: Int
    let height: Int
    private(set) var bytes: [UInt8]

    /// A canvas whose pixel at (x, y) is `color(x, y)`.
    init(width: Int, height: Int, _ color: (Int, Int) -> Color) {
        (self.width, self.height) = (width, height)
        bytes = [UInt8](repeating: 0, count: width * height * 4)
        for y in 0..<height {
            for x in 0..<width { set(x, y, color(x, y)) }
        }
    }

    /// The pixels as an uncompressed PNG file.
    var png: PNGFile { PNGFile(rgba: bytes, width: width, height: height) }

    /// Replaces a pixel, if it is on the canvas.
    mutating func set(_ x: Int, _ y: Int, _ color: Color) {
        guard (0..<width).contains(x), (0..<height).contains(y) else { return }
        func byte(_ value: Double) -> UInt8 { UInt8(max(0, min(255, value * 255 + 0.5))) }
        let start = (y * width + x) * 4
        (bytes[start], bytes[start + 1]) = (byte(color.red), byte(color.green))
        (bytes[start + 2], bytes[start + 3]) = (byte(color.blue), byte(color.alpha))
    }

    /// Fills a rectangle.
    mutating func fill(_ left: Int, _ top: Int, _ width: Int, _ height: Int, _ color: Color) {
        for y in top..<top + height {
            for x in left..<left + width { set(x, y, color) }
        }
    }

    /// Draws a line of text; each dot of the font is `scale` pixels wide.
    mutating func write(_ text: String, _ left: Int, _ top: Int, scale: Int, _ color: Color) {
        for (index, character) in text.enumerated() {
            for (row, bits) in Font.rows(of: character).enumerated() {
                for column in 0..<Font.width where bits & (1 << (Font.width - 1 - column)) != 0 {
                    let x = left + (index * Font.advance + column) * scale
                    fill(x, top + row * scale, scale, scale, color)
                }
            }
        }
    }
}

/// A colour with straight alpha.
struct Color {
    var red: Double
    var green: Double
    var blue: Double
    var alpha: Double = 1

    init(_ red: Double, _ green: Double, _ blue: Double, alpha: Double = 1) {
        (self.red, self.green, self.blue, self.alpha) = (red, green, blue, alpha)
    }

    /// An opaque colour as 0xRRGGBB.
    init(_ hex: Int, alpha: Double = 1) {
        self.init(
            Double(hex >> 16 & 255) / 255, Double(hex >> 8 & 255) / 255, Double(hex & 255) / 255, alpha: alpha)
    }

    /// The colour `share` of the way to `other`.
    func mixed(with other: Color, _ share: Double) -> Color {
        let share = min(1, max(0, share))
        return Color(
            red + (other.red - red) * share, green + (other.green - green) * share,
            blue + (other.blue - blue) * share, alpha: alpha + (other.alpha - alpha) * share)
    }
}

/// Pixels to draw on: four bytes each, red, green, blue and straight alpha.
struct Canvas {
    let width: Int
    let height: Int
    private(set) var bytes: [UInt8]

    init(width: Int, height: Int, _ color: Color = Color(0x000000)) {
        (self.width, self.height) = (width, height)
        bytes = [UInt8](repeating: 0, count: width * height * 4)
        fill(0, 0, width, height, color)
    }

    /// A canvas whose pixels are computed from their place.
    init(width: Int, height: Int, _ color: (Int, Int) -> Color) {
        (self.width, self.height) = (width, height)
        bytes = [UInt8](repeating: 0, count: width * height * 4)
        for y in 0..<height {
            for x in 0..<width { set(x, y, color(x, y)) }
        }
    }

    /// Puts a colour in the place of whatever was there.
    mutating func set(_ x: Int, _ y: Int, _ color: Color) {
        func byte(_ value: Double) -> UInt8 { UInt8(max(0, min(255, value * 255 + 0.5))) }
        let start = (y * width + x) * 4
        bytes[start] = byte(color.red)
        bytes[start + 1] = byte(color.green)
        bytes[start + 2] = byte(color.blue)
        bytes[start + 3] = byte(color.alpha)
    }

    /// Lays a colour over the opaque pixel that is there.
    mutating func blend(_ x: Int, _ y: Int, _ color: Color, coverage: Double = 1) {
        guard (0..<width).contains(x), (0..<height).contains(y) else { return }
        let alpha = color.alpha * coverage
        if alpha <= 0 { return }
        let start = (y * width + x) * 4
        let below = Color(
            Double(bytes[start]) / 255, Double(bytes[start + 1]) / 255, Double(bytes[start + 2]) / 255)
        set(x, y, below.mixed(with: Color(color.red, color.green, color.blue), alpha))
    }

    mutating func fill(_ left: Int, _ top: Int, _ width: Int, _ height: Int, _ color: Color) {
        for y in max(0, top)..<max(0, min(self.height, top + height)) {
            for x in max(0, left)..<max(0, min(self.width, left + width)) { set(x, y, color) }
        }
    }

    /// Fills a rectangle with round corners, smoothly.
    mutating func fillRounded(_ left: Int, _ top: Int, _ width: Int, _ height: Int, radius: Double, _ color: Color) {
        for y in 0..<height {
            for x in 0..<width {
                let (px, py) = (Double(x) + 0.5, Double(y) + 0.5)
                let dx = max(radius - px, px - (Double(width) - radius), 0)
                let dy = max(radius - py, py - (Double(height) - radius), 0)
                let distance = (dx * dx + dy * dy).squareRoot()
                blend(left + x, top + y, color, coverage: min(1, max(0, radius - distance + 0.5)))
            }
        }
    }

    /// Writes one line of text, each dot of the font `scale` pixels wide.
    mutating func write(_ text: String, _ left: Int, _ top: Int, scale: Int, _ color: Color) {
        var x = left
        for character in text {
            for (row, bits) in Font.rows(of: character).enumerated() {
                for column in 0..<Font.width where bits & (1 << (Font.width - 1 - column)) != 0 {
                    for dy in 0..<scale {
                        for dx in 0..<scale { blend(x + column * scale + dx, top + row * scale + dy, color) }
                    }
                }
            }
            x += Font.advance * scale
        }
    }

    /// How wide `write` makes a text.
    static func width(of text: String, scale: Int) -> Int {
        max(0, text.count * Font.advance - 1) * scale
    }
}

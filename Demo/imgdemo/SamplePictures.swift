import Foundation
import IPCProtocol

/// Pictures drawn by the demonstration itself, for when nobody brings any.
struct SamplePictures {
    private struct Picture: Sendable {
        let name: String
        let format: Encoding.Format
        let width: Int
        let height: Int
        let color: @Sendable (Double, Double) -> Color
    }

    /// Draws them, and writes their files to `folder`. One is damaged afterwards, to show what becomes of such.
    static func write(to folder: String, with encoder: PictureEncoder) throws {
        for picture in pictures {
            let canvas = Canvas(width: picture.width, height: picture.height) { x, y in
                // The shorter side goes from -1 to 1.
                let unit = Double(min(picture.width, picture.height)) / 2
                return picture.color(
                    (Double(x) + 0.5 - Double(picture.width) / 2) / unit,
                    (Double(y) + 0.5 - Double(picture.height) / 2) / unit)
            }
            try encoder.write(canvas, as: picture.format, to: folder + "/" + picture.name)
        }
        try SpecialPictures(folder: folder, encoder: encoder).write()
        let whole = try Data(contentsOf: URL(filePath: folder + "/rings.png"))
        var damaged = whole
        damaged[damaged.count / 2] ^= 0xFF
        try damaged.write(to: URL(filePath: folder + "/damaged.png"))
        try whole.prefix(whole.count / 2).write(to: URL(filePath: folder + "/cut-short.png"))
    }

    private static let pictures = [
        Picture(name: "dusk.jpg", format: .jpeg, width: 1600, height: 1200, color: dusk),
        Picture(name: "rings.png", format: .png, width: 800, height: 800, color: rings),
        Picture(name: "mandelbrot.webp", format: .webp, width: 1200, height: 900, color: mandelbrot),
        Picture(name: "sphere.png", format: .png, width: 900, height: 900, color: sphere),
        Picture(name: "waves.jpg", format: .jpeg, width: 1920, height: 1080, color: waves),
        Picture(name: "petals.webp", format: .webp, width: 800, height: 800, color: petals),
        Picture(name: "hue-wheel.png", format: .png, width: 700, height: 700, color: hueWheel),
        Picture(name: "tiles.png", format: .png, width: 640, height: 480, color: tiles),
        Picture(name: "column.jpg", format: .jpeg, width: 600, height: 1500, color: column),
        Picture(name: "panorama.webp", format: .webp, width: 2400, height: 600, color: dusk),
        Picture(name: "pixel.png", format: .png, width: 1, height: 1, color: { _, _ in Color(0x2E86DE) }),
        Picture(name: "icon.png", format: .png, width: 32, height: 32, color: petals),
    ]

    @Sendable private static func hue(_ angle: Double, _ lightness: Double = 0.5) -> Color {
        func wave(_ shift: Double) -> Double { lightness + (1 - lightness) * cos(angle + shift) * 0.9 }
        return Color(wave(0), wave(-2.0944), wave(2.0944))
    }

    /// A noise without a generator: the same at each place, always.
    @Sendable private static func grain(_ x: Double, _ y: Double) -> Double {
        let value = sin(x * 127.1 + y * 311.7) * 43758.5453
        return value - value.rounded(.down)
    }

    @Sendable private static func dusk(_ x: Double, _ y: Double) -> Color {
        let sun = (x - 0.25) * (x - 0.25) + (y - 0.1) * (y - 0.1)
        var sky = Color(0x1B1F4B).mixed(with: Color(0xE8743B), (y + 1) / 1.4)
        sky = sky.mixed(with: Color(0xFFE9A8), sun < 0.035 ? 1 : exp(-sun * 6) * 0.8)
        for layer in 0..<4 {
            let depth = Double(layer)
            let ridge =
                0.18 + depth * 0.19 + sin(x * (1.7 + depth) + depth * 9) * 0.12
                + sin(x * (7 + depth * 3) + depth) * 0.03
            if y > ridge { sky = Color(0x5A4A78).mixed(with: Color(0x0B0E1E), (depth + 0.5) / 4) }
        }
        return sky
    }

    @Sendable private static func rings(_ x: Double, _ y: Double) -> Color {
        let radius = (x * x + y * y).squareRoot()
        return hue(radius * 9 + atan2(y, x) * 2).mixed(with: Color(0x101018), 0.5 + 0.5 * cos(radius * 60))
    }

    @Sendable private static func mandelbrot(_ x: Double, _ y: Double) -> Color {
        let (a, b) = (x * 1.25 - 0.6, y * 1.25)
        var (re, im, steps) = (0.0, 0.0, 0)
        while re * re + im * im < 64, steps < 160 {
            (re, im) = (re * re - im * im + a, 2 * re * im + b)
            steps += 1
        }
        if steps == 160 { return Color(0x05060A) }
        let smooth = Double(steps) - log2(log2(re * re + im * im) / 2)
        return hue(3.6 + smooth * 0.16, 0.45).mixed(with: Color(0x0A1030), exp(-smooth * 0.09))
    }

    @Sendable private static func sphere(_ x: Double, _ y: Double) -> Color {
        let radius = (x * x + y * y) / 0.72
        if radius >= 1 {
            let (dx, dy) = (x - 0.08, (y - 0.86) * 4)
            return Color(0x000000, alpha: max(0, 0.45 - (dx * dx + dy * dy) * 0.9))
        }
        let z = (1 - radius).squareRoot()
        let light = max(0, (-x * 0.5 - y * 0.6 + z * 0.75))
        let shine = pow(light, 40)
        return Color(0x0E6B5C).mixed(with: Color(0x5BE7C4), light).mixed(with: Color(0xFFFFFF), shine)
    }

    @Sendable private static func waves(_ x: Double, _ y: Double) -> Color {
        var height = 0.0
        for source in 0..<5 {
            let (cx, cy) = (cos(Double(source) * 2.4) * 1.5, sin(Double(source) * 2.4) * 0.9)
            height += sin(((x - cx) * (x - cx) + (y - cy) * (y - cy)).squareRoot() * 24)
        }
        return Color(0x07203F).mixed(with: Color(0x7FD8FF), height / 10 + 0.5)
    }

    @Sendable private static func petals(_ x: Double, _ y: Double) -> Color {
        let (radius, angle) = ((x * x + y * y).squareRoot(), atan2(y, x))
        let edge = 0.55 + 0.35 * cos(angle * 7)
        let inside = min(1, max(0, (edge - radius) * 60))
        if radius < 0.2 { return Color(0xF7C948).mixed(with: Color(0xB7791F), radius * 4) }
        return Color(0x8E2DE2).mixed(with: Color(0xFF5E99), radius / 0.9).mixed(
            with: Color(0xFF5E99, alpha: 0), 1 - inside)
    }

    @Sendable private static func hueWheel(_ x: Double, _ y: Double) -> Color {
        let radius = (x * x + y * y).squareRoot()
        var color = hue(atan2(y, x)).mixed(with: Color(0xFFFFFF), 1 - radius)
        color.alpha = min(1, max(0, (0.96 - radius) * 40))
        return color
    }

    @Sendable private static func tiles(_ x: Double, _ y: Double) -> Color {
        let (column, row) = ((x * 6).rounded(.down), (y * 6).rounded(.down))
        let (u, v) = (x * 6 - column, y * 6 - row)
        if u < 0.06 || v < 0.06 { return Color(0x2B2118) }
        let shade = 0.75 + grain(column, row) * 0.25 - grain(x * 90, y * 90) * 0.06
        let clay = Color(0xB5532F).mixed(with: Color(0xE0A458), grain(row, column))
        return Color(clay.red * shade, clay.green * shade, clay.blue * shade)
    }

    @Sendable private static func column(_ x: Double, _ y: Double) -> Color {
        let fold = sin(x * 9 + sin(y * 2.2) * 1.6)
        return Color(0x3B0D3A).mixed(with: Color(0xF9A26C), 0.5 + fold * 0.4).mixed(
            with: Color(0x12061A), abs(y) / 4)
    }
}

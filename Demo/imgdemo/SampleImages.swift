import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient

/// Images for a demonstration without `--images`. A broker encodes them.
struct SampleImages {
    let folder: String
    let broker: ImageBroker

    /// Draws the images and writes them to `folder`, two of them damaged.
    func write() throws {
        try write("dusk.jpg", 1600, 1200, Self.dusk)
        try write("panorama.webp", 2400, 600, Self.dusk)
        try write("rings.png", 800, 800, Self.rings)
        try write("narrow.jpg", 600, 1500, Self.rings)
        try write("sphere.png", 900, 900, Self.sphere)
        try write("petals.webp", 800, 800) { Self.petals($0, $1) }
        try write("icon.png", 32, 32) { Self.petals($0, $1) }
        for orientation in 1...8 {
            let jpeg = try broker.encode(Self.turnedSignpost(orientation).png, as: .jpeg)
            let exif = EXIF.block(orientation: orientation, bigEndian: true)
            try save(EXIF.inserted(exif, intoJPEG: jpeg), "orientation-\(orientation).jpg")
        }
        try save(Self.wideGamut, "display-p3.png")
        let frames = (0..<12).map { step in
            (file: Self.canvas(320, 240) { Self.petals($0, $1, turn: Double(step) / 12) }.png, delayMs: 40 + step * 10)
        }
        try save(PNGFile.animation(frames).bytes, "turning.png")
        var rings = [UInt8](try Data(contentsOf: URL(filePath: folder + "/rings.png")))
        try save(Array(rings.prefix(rings.count / 2)), "cut-short.png")
        rings[rings.count / 2] ^= 0xFF
        try save(rings, "damaged.png")
    }

    /// Draws an image and encodes it as its name says.
    private func write(_ name: String, _ width: Int, _ height: Int, _ color: (Double, Double) -> Color) throws {
        let format: GetOptions.Representation =
            name.hasSuffix(".jpg") ? .jpeg : name.hasSuffix(".webp") ? .webp : .png
        try save(try broker.encode(Self.canvas(width, height, color).png, as: format), name)
    }

    private func save(_ bytes: [UInt8], _ name: String) throws {
        try Data(bytes).write(to: URL(filePath: folder + "/" + name))
    }

    /// An image with a colour for each place; the shorter side goes from -1 to 1.
    private static func canvas(_ width: Int, _ height: Int, _ color: (Double, Double) -> Color) -> Canvas {
        let unit = Double(min(width, height)) / 2
        return Canvas(width: width, height: height) { x, y in
            color((Double(x) + 0.5 - Double(width) / 2) / unit, (Double(y) + 0.5 - Double(height) / 2) / unit)
        }
    }

    /// A signpost, stored so that this EXIF orientation shows it upright.
    private static func turnedSignpost(_ orientation: Int) -> Canvas {
        let swaps = orientation > 4
        return Canvas(width: swaps ? 240 : 320, height: swaps ? 320 : 240) { x, y in
            let (column, row) = swaps ? (y, x) : (x, y)
            return signpost(
                [2, 3, 6, 7].contains(orientation) ? 319 - column : column,
                [3, 4, 7, 8].contains(orientation) ? 239 - row : row)
        }
    }

    /// Coloured discs in Display P3, which are purer than the same numbers in sRGB.
    private static var wideGamut: [UInt8] {
        let discs = [0xFF0000, 0x00FF00, 0x0000FF, 0xD98040, 0x40D980, 0x8040D9].map { Color($0) }
        var png = Canvas(width: 480, height: 320) { x, y in
            let radius = hypot(Double(x % 160) - 79.5, Double(y % 160) - 79.5)
            return radius < 72 ? discs[y / 160 * 3 + x / 160] : Color(0x202020)
        }.png
        let profile = ICCProfile.rgb(ICCProfile.displayP3, curve: ICCProfile.power(2.2))
        png.chunks.insert(("iCCP", Array("Display P3\0\0".utf8) + PNGFile.zlibStream(profile)), at: 1)
        return png.bytes
    }

    // MARK: Colours

    private static func dusk(_ x: Double, _ y: Double) -> Color {
        let sun = (x - 0.25) * (x - 0.25) + (y - 0.1) * (y - 0.1)
        var sky = Color(0x1B1F4B).mixed(with: Color(0xE8743B), (y + 1) / 1.4)
        sky = sky.mixed(with: Color(0xFFE9A8), sun < 0.035 ? 1 : exp(-sun * 6) * 0.8)
        for depth in [0.0, 1, 2, 3] {
            let hills = sin(x * (1.7 + depth) + depth * 9) * 0.12 + sin(x * (7 + depth * 3) + depth) * 0.03
            if y > 0.18 + depth * 0.19 + hills { sky = Color(0x5A4A78).mixed(with: Color(0x0B0E1E), (depth + 0.5) / 4) }
        }
        return sky
    }

    private static func rings(_ x: Double, _ y: Double) -> Color {
        let angle = hypot(x, y) * 9 + atan2(y, x) * 2
        func wave(_ shift: Double) -> Double { 0.5 + cos(angle + shift) * 0.45 }
        let hue = Color(wave(0), wave(-2.0944), wave(2.0944))
        return hue.mixed(with: Color(0x101018), 0.5 + 0.5 * cos(hypot(x, y) * 60))
    }

    private static func sphere(_ x: Double, _ y: Double) -> Color {
        let radius = (x * x + y * y) / 0.72
        let (dx, dy) = (x - 0.08, (y - 0.86) * 4)
        if radius >= 1 { return Color(0x000000, alpha: max(0, 0.45 - (dx * dx + dy * dy) * 0.9)) }
        let light = max(0, (-x * 0.5 - y * 0.6 + (1 - radius).squareRoot() * 0.75))
        return Color(0x0E6B5C).mixed(with: Color(0x5BE7C4), light).mixed(with: Color(0xFFFFFF), pow(light, 40))
    }

    /// A flower, turned by a part of the angle between its petals.
    private static func petals(_ x: Double, _ y: Double, turn: Double = 0) -> Color {
        let radius = hypot(x, y)
        if radius < 0.2 { return Color(0xF7C948).mixed(with: Color(0xB7791F), radius * 4) }
        let edge = 0.55 + 0.35 * cos(atan2(y, x) * 7 - turn * 2 * .pi)
        let petal = Color(0x8E2DE2).mixed(with: Color(0xFF5E99), radius / 0.9)
        return petal.mixed(with: Color(0xFF5E99, alpha: 0), 1 - min(1, max(0, (edge - radius) * 60)))
    }

    /// An arrow up with a red disc to its right, so that no orientation looks like another.
    private static func signpost(_ x: Int, _ y: Int) -> Color {
        let (u, v) = (Double(x - 160) / 120, Double(y - 120) / 120)
        if v > 0.72 { return Color(0x5B8C3A).mixed(with: Color(0x2F5A1E), (v - 0.72) * 3) }
        let isHead = v <= -0.25 && v > -0.85 && abs(u) < (v + 0.85) * 0.75
        if isHead || (abs(u) < 0.12 && v > -0.35) { return Color(0x20242C) }
        if hypot(u - 0.75, v + 0.1) < 0.22 { return Color(0xE0453A) }
        return Color(0xBFE3F7).mixed(with: Color(0x4F9BD9), (1 - v) / 2)
    }
}

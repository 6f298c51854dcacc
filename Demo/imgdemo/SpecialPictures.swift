import Foundation
import IPCProtocol

/// Pictures that look wrong unless the decoder knows more of files than their pixels: how they are turned, what their
/// numbers mean, and how they move.
struct SpecialPictures {
    let folder: String
    let encoder: PictureEncoder

    /// Draws all of them.
    func write() throws {
        for orientation in 1...8 { try writeTurned(orientation) }
        try writeWideGamut()
        try writePendulum()
    }

    // MARK: Orientation

    /// One signpost eight times, stored in every way that EXIF knows; shown, they are all alike.
    private func writeTurned(_ orientation: Int) throws {
        let (width, height) = (320, 240)
        let swaps = orientation > 4
        let stored = Canvas(width: swaps ? height : width, height: swaps ? width : height) { x, y in
            let (right, bottom) = ((swaps ? height : width) - 1 - x, (swaps ? width : height) - 1 - y)
            return switch orientation {
            case 1: Self.signpost(x, y)
            case 2: Self.signpost(right, y)
            case 3: Self.signpost(right, bottom)
            case 4: Self.signpost(x, bottom)
            case 5: Self.signpost(y, x)
            case 6: Self.signpost(bottom, x)
            case 7: Self.signpost(bottom, right)
            default: Self.signpost(y, right)
            }
        }
        let path = folder + "/orientation-\(orientation).jpg"
        try encoder.write(stored, as: .jpeg, to: path)
        // A big-endian TIFF structure with the one tag 0x112, a short (CIPA DC-008, section 4.6).
        let tag = number(0x112, bytes: 2) + number(3, bytes: 2) + number(1, bytes: 4)
        let exif =
            Array("Exif\0\0MM\0*".utf8) + number(8, bytes: 4) + number(1, bytes: 2) + tag
            + number(orientation, bytes: 2) + number(0, bytes: 6)
        var file = [UInt8](try Data(contentsOf: URL(filePath: path)))
        file.insert(contentsOf: [0xFF, 0xE1] + number(exif.count + 2, bytes: 2) + exif, at: 2)
        try Data(file).write(to: URL(filePath: path))
    }

    /// An arrow up, with something red to its right: neither turned nor mirrored it looks the same.
    private static func signpost(_ x: Int, _ y: Int) -> Color {
        let (u, v) = (Double(x - 160) / 120, Double(y - 120) / 120)
        let sky = Color(0xBFE3F7).mixed(with: Color(0x4F9BD9), (1 - v) / 2)
        if v > 0.72 { return Color(0x5B8C3A).mixed(with: Color(0x2F5A1E), (v - 0.72) * 3) }
        let isShaft = abs(u) < 0.12 && v > -0.35
        let isHead = v <= -0.25 && v > -0.85 && abs(u) < (v + 0.85) * 0.75
        if isShaft || isHead { return Color(0x20242C) }
        if (u - 0.75) * (u - 0.75) + (v + 0.1) * (v + 0.1) < 0.05 { return Color(0xE0453A) }
        return sky
    }

    // MARK: Colour

    /// Coloured discs in the numbers of Display P3. Within the white rings they are sRGB's purest colours; around them lies
    /// what only a wider display can show, and sRGB shows as much of as it has.
    private func writeWideGamut() throws {
        let canvas = Canvas(width: 480, height: 320) { x, y in
            let (column, row) = (x / 160, y / 160)
            let (dx, dy) = (Double(x % 160) - 79.5, Double(y % 160) - 79.5)
            let radius = (dx * dx + dy * dy).squareRoot()
            let inner = Self.inks[row * 3 + column]
            if abs(radius - 40) < 1.5 { return Color(0xFFFFFF) }
            if radius < 40 { return Self.displayP3(inner) }
            // The same numbers in the wider space are a purer colour.
            return radius < 72 ? inner : Color(0x202020)
        }
        let path = folder + "/display-p3.png"
        try encoder.write(canvas, as: .png, to: path)
        var png = PNGChunks([UInt8](try Data(contentsOf: URL(filePath: path))))
        png.insert(profile: Self.profile, named: "Display P3")
        try Data(png.file).write(to: URL(filePath: path))
    }

    private static let inks = [
        Color(0xFF0000), Color(0x00FF00), Color(0x0000FF), Color(0xFFFF00), Color(0x00FFFF), Color(0xFF00FF),
    ]

    /// What Display P3 has for a colour of sRGB: by way of light, which its primaries are mixed of.
    private static func displayP3(_ color: Color) -> Color {
        func light(_ value: Double) -> Double {
            value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
        }
        func value(_ light: Double) -> Double {
            light <= 0.0031308 ? light * 12.92 : 1.055 * pow(light, 1 / 2.4) - 0.055
        }
        let (r, g, b) = (light(color.red), light(color.green), light(color.blue))
        return Color(
            value(0.8225 * r + 0.1774 * g), value(0.0332 * r + 0.9669 * g),
            value(0.0171 * r + 0.0724 * g + 0.9108 * b))
    }

    /// A profile of Display P3's primaries, adapted to D50, with sRGB's curve as a table (ICC.1:2022).
    private static var profile: [UInt8] {
        func fixed(_ value: Double) -> [UInt8] { number(Int((value * 65536).rounded()), bytes: 4) }
        func xyz(_ x: Double, _ y: Double, _ z: Double) -> [UInt8] {
            Array("XYZ \0\0\0\0".utf8) + fixed(x) + fixed(y) + fixed(z)
        }
        let curve = (0..<1024).map { step in
            let value = Double(step) / 1023
            return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
        }
        let table =
            Array("curv\0\0\0\0".utf8) + number(curve.count, bytes: 4)
            + curve.flatMap { number(Int(($0 * 65535).rounded()), bytes: 2) }
        let tags: [(String, [UInt8])] = [
            (
                "desc",
                Array("desc\0\0\0\0".utf8) + number(11, bytes: 4) + Array("Display P3\0".utf8) + number(0, bytes: 79)
            ),
            ("wtpt", xyz(0.9642, 1, 0.8249)), ("rXYZ", xyz(0.51512, 0.24120, -0.00105)),
            ("gXYZ", xyz(0.29198, 0.69225, 0.04189)), ("bXYZ", xyz(0.15710, 0.06657, 0.78407)), ("rTRC", table),
            ("gTRC", table), ("bTRC", table),
        ]
        var (directory, bodies) = (number(tags.count, bytes: 4), [UInt8]())
        for (name, body) in tags {
            let start = 128 + 4 + 12 * tags.count + bodies.count
            directory += Array(name.utf8) + number(start, bytes: 4) + number(body.count, bytes: 4)
            bodies += body + [UInt8](repeating: 0, count: (4 - body.count % 4) % 4)
        }
        let header =
            number(128 + directory.count + bodies.count, bytes: 4) + number(0, bytes: 4) + number(0x0210_0000, bytes: 4)
            + Array("mntrRGB XYZ ".utf8) + number(0, bytes: 12) + Array("acsp".utf8) + number(0, bytes: 28)
            + fixed(0.9642) + fixed(1) + fixed(0.8249) + number(0, bytes: 48)
        return header + directory + bodies
    }

    // MARK: Animation

    /// A pendulum, half a swing of it, faster in the middle; without what it moves in.
    private func writePendulum() throws {
        let frames = try (0..<12).map { step -> (file: [UInt8], delayMs: Int) in
            let angle = -0.9 * cos(Double(step) / 11 * .pi)
            let (bobX, bobY) = (sin(angle) * 170, cos(angle) * 170)
            let canvas = Canvas(width: 320, height: 240) { x, y in
                let (u, v) = (Double(x) - 159.5, Double(y) - 20)
                let along = min(1, max(0, (u * bobX + v * bobY) / (170 * 170)))
                let rod = hypot(u - bobX * along, v - bobY * along)
                let bob = hypot(u - bobX, v - bobY)
                if bob < 30 { return Color(0xF7C948).mixed(with: Color(0x9A4D0A), bob / 34 + (v - bobY) / 120) }
                return Color(0x3B4252, alpha: max(0, min(1, 3 - rod)))
            }
            let path = folder + "/frame"
            try encoder.write(canvas, as: .png, to: path)
            defer { try? FileManager.default.removeItem(atPath: path) }
            return ([UInt8](try Data(contentsOf: URL(filePath: path))), 40 + Int(abs(angle) * 100))
        }
        try Data(PNGChunks.animation(frames)).write(to: URL(filePath: folder + "/pendulum.png"))
    }
}

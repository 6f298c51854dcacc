internal import Foundation

/// ICC profiles written without a library (ICC.1:2001), and files that contain one.
package enum TestProfile {
    /// The chromaticities of red, green, blue and white (CIE 1931); the white point is D50, as in all profiles.
    package struct Primaries: Sendable {
        let red, green, blue: (x: Double, y: Double, z: Double)
    }

    /// Display P3 adapted to D50, which exceeds sRGB's gamut.
    package static let wide = Primaries(
        red: (0.51512, 0.24120, -0.00105), green: (0.29198, 0.69225, 0.04189), blue: (0.15710, 0.06657, 0.78407))
    /// sRGB's primaries adapted to D50.
    package static let standard = Primaries(
        red: (0.43607, 0.22249, 0.01392), green: (0.38515, 0.71687, 0.09708), blue: (0.14307, 0.06061, 0.71410))

    /// Returns a profile of three primaries and a gamma curve.
    package static func rgb(_ primaries: Primaries, gamma: Double) -> [UInt8] {
        let curve = power(gamma)
        return profile(
            "mntr", "RGB ", "XYZ ",
            [
                ("wtpt", xyz((0.9642, 1, 0.8249))), ("rXYZ", xyz(primaries.red)), ("gXYZ", xyz(primaries.green)),
                ("bXYZ", xyz(primaries.blue)), ("rTRC", curve), ("gTRC", curve), ("bTRC", curve),
            ])
    }

    /// A profile equal to sRGB, with its curve as a table.
    package static var srgbInAllButName: [UInt8] {
        let table = (0..<1024).map { index in
            let value = Double(index) / 1023
            let light = value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
            return UInt16((light * 65535).rounded())
        }
        let curve = Array("curv".utf8) + [0, 0, 0, 0] + number(1024, 4) + table.flatMap { number(Int($0), 2) }
        return profile(
            "mntr", "RGB ", "XYZ ",
            [
                ("wtpt", xyz((0.9642, 1, 0.8249))), ("rXYZ", xyz(standard.red)), ("gXYZ", xyz(standard.green)),
                ("bXYZ", xyz(standard.blue)), ("rTRC", curve), ("gTRC", curve), ("bTRC", curve),
            ])
    }

    /// Returns a gray profile with a gamma curve.
    package static func gray(gamma: Double) -> [UInt8] {
        profile("mntr", "GRAY", "XYZ ", [("wtpt", xyz((0.9642, 1, 0.8249))), ("kTRC", power(gamma))])
    }

    /// A CMYK printer profile with a table of the sixteen combinations of inks.
    package static var cmyk: [UInt8] {
        let straight = (0..<256).map { UInt8($0) }
        var table: [UInt8] = []
        for combination in 0..<16 {
            let (c, m, y, k) = (combination >> 3 & 1, combination >> 2 & 1, combination >> 1 & 1, combination & 1)
            let lightness = max(0, 240 - 60 * c - 70 * m - 20 * y) / (k == 1 ? 8 : 1)
            table += [UInt8(lightness), UInt8(128 - 40 * c + 60 * m), UInt8(128 - 35 * c + 70 * y)]
        }
        let identity = [1, 0, 0, 0, 1, 0, 0, 0, 1].flatMap { number($0 << 16, 4) }
        let lut =
            Array("mft1".utf8) + [0, 0, 0, 0, 4, 3, 2, 0] + identity + (0..<4).flatMap { _ in straight } + table
            + (0..<3).flatMap { _ in straight }
        return profile("prtr", "CMYK", "Lab ", [("wtpt", xyz((0.9642, 1, 0.8249))), ("A2B0", lut)])
    }

    // MARK: Files

    /// Inserts `profile` into a JPEG as APP2 segments of at most `step` bytes each, in reverse order if `reversed`.
    package static func inserted(
        _ profile: [UInt8], intoJPEG file: [UInt8], step: Int = 65_519, reversed: Bool = false, leavingOut: Int? = nil
    ) -> [UInt8] {
        let count = (profile.count + step - 1) / step
        var segments = (0..<count).map { index in
            let part = profile[index * step..<min((index + 1) * step, profile.count)]
            return [0xFF, 0xE2] + number(part.count + 16, 2) + Array("ICC_PROFILE\0".utf8)
                + [UInt8(index + 1), UInt8(count)] + part
        }
        if let leavingOut { segments.remove(at: leavingOut) }
        if reversed { segments.reverse() }
        return file.prefix(2) + segments.flatMap { $0 } + file.dropFirst(2)
    }

    /// Inserts `profile` into a PNG as an iCCP chunk.
    package static func inserted(_ profile: [UInt8], intoPNG file: [UInt8]) -> [UInt8] {
        let chunk = TestPNG.chunk("iCCP", Array("a name".utf8) + [0, 0] + TestPNG.stored(profile))
        return file.prefix(33) + chunk + file.dropFirst(33)
    }

    /// Converts a simple WebP to an extended one with `profile` before the image.
    package static func inserted(_ profile: [UInt8], intoWebP file: [UInt8], width: Int, height: Int) -> [UInt8] {
        let size = [width - 1, height - 1].flatMap { side in [0, 8, 16].map { UInt8(truncatingIfNeeded: side >> $0) } }
        let extended = TestExif.riffChunk("VP8X", [0x20, 0, 0, 0] + size)
        let body = Array("WEBP".utf8) + extended + TestExif.riffChunk("ICCP", profile) + file.dropFirst(12)
        return TestExif.riffChunk("RIFF", body)
    }

    // MARK: Parts

    private static func profile(
        _ kind: String, _ space: String, _ connection: String, _ tags: [(name: String, body: [UInt8])]
    ) -> [UInt8] {
        var (table, bodies): ([UInt8], [UInt8]) = (number(tags.count, 4), [])
        let start = 128 + 4 + 12 * tags.count
        for tag in tags {
            table += Array(tag.name.utf8) + number(start + bodies.count, 4) + number(tag.body.count, 4)
            bodies += tag.body + [UInt8](repeating: 0, count: (4 - tag.body.count % 4) % 4)
        }
        var header = number(start + bodies.count, 4) + [0, 0, 0, 0, 2, 0x40, 0, 0]
        header += Array((kind + space + connection).utf8) + [0x07, 0xD0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]
        header += Array("acsp".utf8) + [UInt8](repeating: 0, count: 28)
        header += number(0xF6D6, 4) + number(0x10000, 4) + number(0xD32D, 4)
        header += [UInt8](repeating: 0, count: 128 - header.count)
        return header + table + bodies
    }

    private static func power(_ gamma: Double) -> [UInt8] {
        Array("curv".utf8) + [0, 0, 0, 0] + number(1, 4) + number(Int(gamma * 256), 2)
    }

    private static func xyz(_ color: (x: Double, y: Double, z: Double)) -> [UInt8] {
        Array("XYZ ".utf8) + [0, 0, 0, 0]
            + [color.x, color.y, color.z].flatMap { number(Int(($0 * 65536).rounded()), 4) }
    }

    /// Returns the lower bytes of `value`, the most significant first.
    private static func number(_ value: Int, _ bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}

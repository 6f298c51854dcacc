internal import Foundation

/// EXIF blocks and files that carry one (CIPA DC-008, section 4.6).
package enum EXIF {
    /// A TIFF structure whose only entry is the orientation.
    package static func block(orientation: Int, bigEndian: Bool = false) -> [UInt8] {
        let value = UInt8(orientation)
        return bigEndian
            ? [0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0]
            : [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0]
    }

    /// A JPEG file with `exif` in an APP1 segment behind its first marker.
    package static func inserted(_ exif: [UInt8], intoJPEG file: [UInt8]) -> [UInt8] {
        let payload = Array("Exif\0\0".utf8) + exif
        let segment = [0xFF, 0xE1] + PNGFile.number(payload.count + 2, bytes: 2) + payload
        return file.prefix(2) + segment + file.dropFirst(2)
    }
}

/// ICC profiles (ICC.1:2001).
package enum ICCProfile {
    /// Red, green and blue as X, Y and Z, adapted to D50.
    package struct Primaries: Sendable {
        let red, green, blue: (x: Double, y: Double, z: Double)
    }

    /// Display P3: some of its colours are outside sRGB.
    package static let displayP3 = Primaries(
        red: (0.51512, 0.24120, -0.00105), green: (0.29198, 0.69225, 0.04189), blue: (0.15710, 0.06657, 0.78407))
    /// The primaries of sRGB.
    package static let standard = Primaries(
        red: (0.43607, 0.22249, 0.01392), green: (0.38515, 0.71687, 0.09708), blue: (0.14307, 0.06061, 0.71410))

    /// A profile of three primaries and one curve.
    package static func rgb(_ primaries: Primaries, curve: [UInt8]) -> [UInt8] {
        profile(
            "mntr", "RGB ", "XYZ ",
            [
                ("wtpt", white), ("rXYZ", xyz(primaries.red)), ("gXYZ", xyz(primaries.green)),
                ("bXYZ", xyz(primaries.blue)), ("rTRC", curve), ("gTRC", curve), ("bTRC", curve),
            ])
    }

    /// A curve that is a power of `gamma`.
    package static func power(_ gamma: Double) -> [UInt8] {
        Array("curv".utf8) + [0, 0, 0, 0] + PNGFile.number(1, bytes: 4) + PNGFile.number(Int(gamma * 256), bytes: 2)
    }

    /// The white point of the profile connection space, D50.
    package static var white: [UInt8] { xyz((0.9642, 1, 0.8249)) }

    private static func xyz(_ color: (x: Double, y: Double, z: Double)) -> [UInt8] {
        Array("XYZ ".utf8) + [0, 0, 0, 0]
            + [color.x, color.y, color.z].flatMap { PNGFile.number(Int(($0 * 65536).rounded()), bytes: 4) }
    }

    /// A profile with these signatures of its class, its colour space and its connection space, and these tags.
    package static func profile(
        _ kind: String, _ space: String, _ connection: String, _ tags: [(name: String, body: [UInt8])]
    ) -> [UInt8] {
        func number(_ value: Int) -> [UInt8] { PNGFile.number(value, bytes: 4) }
        var (table, bodies): ([UInt8], [UInt8]) = (number(tags.count), [])
        let start = 128 + 4 + 12 * tags.count
        for tag in tags {
            table += Array(tag.name.utf8) + number(start + bodies.count) + number(tag.body.count)
            bodies += tag.body + [UInt8](repeating: 0, count: (4 - tag.body.count % 4) % 4)
        }
        var header = number(start + bodies.count) + [0, 0, 0, 0, 2, 0x40, 0, 0]
        header += Array((kind + space + connection).utf8) + [0x07, 0xD0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]
        header += Array("acsp".utf8) + [UInt8](repeating: 0, count: 28)
        header += number(0xF6D6) + number(0x10000) + number(0xD32D)
        header += [UInt8](repeating: 0, count: 128 - header.count)
        return header + table + bodies
    }
}

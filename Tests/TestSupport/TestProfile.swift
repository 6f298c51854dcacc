internal import BrokerHarness
internal import Foundation

/// ICC profiles written without a library (ICC.1:2001), and files that contain one.
package enum TestProfile {
    /// Returns a profile of Display P3's primaries, with colours outside sRGB, and a gamma curve.
    package static func wide(gamma: Double = 2.2) -> [UInt8] {
        ICCProfile.rgb(ICCProfile.displayP3, curve: ICCProfile.power(gamma))
    }

    /// A profile equal to sRGB, with its curve as a table.
    package static var srgbInAllButName: [UInt8] {
        let table = (0..<1024).map { index in
            let value = Double(index) / 1023
            let light = value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
            return UInt16((light * 65535).rounded())
        }
        let curve = Array("curv".utf8) + [0, 0, 0, 0] + big(1024, 4) + table.flatMap { big(Int($0), 2) }
        return ICCProfile.rgb(ICCProfile.standard, curve: curve)
    }

    /// Returns a gray profile with a gamma curve.
    package static func gray(gamma: Double) -> [UInt8] {
        ICCProfile.profile("mntr", "GRAY", "XYZ ", [("wtpt", ICCProfile.white), ("kTRC", ICCProfile.power(gamma))])
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
        let identity = [1, 0, 0, 0, 1, 0, 0, 0, 1].flatMap { big($0 << 16, 4) }
        let lut =
            Array("mft1".utf8) + [0, 0, 0, 0, 4, 3, 2, 0] + identity + (0..<4).flatMap { _ in straight } + table
            + (0..<3).flatMap { _ in straight }
        return ICCProfile.profile("prtr", "CMYK", "Lab ", [("wtpt", ICCProfile.white), ("A2B0", lut)])
    }

    // MARK: Files

    /// Inserts `profile` into a JPEG as APP2 segments of at most `step` bytes each, in reverse order if `reversed`.
    package static func inserted(
        _ profile: [UInt8], intoJPEG file: [UInt8], step: Int = 65_519, reversed: Bool = false, leavingOut: Int? = nil
    ) -> [UInt8] {
        let count = (profile.count + step - 1) / step
        var segments = (0..<count).map { index in
            let part = profile[index * step..<min((index + 1) * step, profile.count)]
            return TestJ2K.segment(0xE2, Array("ICC_PROFILE\0".utf8) + [UInt8(index + 1), UInt8(count)] + part)
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
        TestWebP.extended(0x20, width, height, TestWebP.chunk("ICCP", profile) + file.dropFirst(12))
    }
}

import Glibc

/// A picture as some 25 bytes: its lowest frequencies, in the format of Evan Wallace's ThumbHash.
///
/// Colour is divided into luminance (mean of red, green, blue), yellow against blue, red against green, and alpha. Of each,
/// the coefficients of a cosine transform that lie in the triangle of low frequencies are kept, four bits each, relative to
/// the largest; the constant term and that largest are in the header.
enum ThumbHash {
    /// The hash of a picture of `width` × `height` pixels, four numbers each: red, green and blue multiplied by alpha, and
    /// alpha, from 0 to 1.
    static func encode(_ pixels: [SIMD4<Double>], width: Int, height: Int) -> [UInt8] {
        let sum = pixels.reduce(SIMD4<Double>()) { $0 + $1 }
        let hasAlpha = sum.w < Double(pixels.count) * (1 - 1e-9)
        let mean = sum.w > 0 ? sum / sum.w : sum
        let longest = Double(max(width, height))
        let limit = hasAlpha ? 5.0 : 7.0
        let across = max(1, Int((limit * Double(width) / longest).rounded()))
        let down = max(1, Int((limit * Double(height) / longest).rounded()))

        // What is transparent shows the mean of the rest.
        let channels = pixels.map { pixel in
            let color = pixel + mean * (1 - pixel.w)
            let (yellow, red) = ((color.x + color.y) / 2 - color.z, color.x - color.y)
            return SIMD4((color.x + color.y + color.z) / 3, yellow, red, pixel.w)
        }
        let frequencies = frequencies(of: channels, width: width, height: height)
        let luminance = Spectrum(frequencies, channel: 0, across: max(3, across), down: max(3, down))
        let yellow = Spectrum(frequencies, channel: 1, across: 3, down: 3)
        let red = Spectrum(frequencies, channel: 2, across: 3, down: 3)
        let alpha = hasAlpha ? Spectrum(frequencies, channel: 3, across: 5, down: 5) : nil

        var bits = BitWriter()
        bits.append(luminance.constant, count: 6)
        bits.append(0.5 + 0.5 * yellow.constant, count: 6)
        bits.append(0.5 + 0.5 * red.constant, count: 6)
        bits.append(luminance.largest, count: 5)
        bits.append(hasAlpha ? 1 : 0, count: 1)
        let isLandscape = width > height
        // The other of the two follows from whether there is alpha.
        bits.append(whole: isLandscape ? down : across, count: 3)
        bits.append(yellow.largest, count: 6)
        bits.append(red.largest, count: 6)
        bits.append(isLandscape ? 1 : 0, count: 1)
        if let alpha {
            bits.append(alpha.constant, count: 4)
            bits.append(alpha.largest, count: 4)
        }
        for spectrum in [luminance, yellow, red] + (alpha.map { [$0] } ?? []) {
            for coefficient in spectrum.relative { bits.append(coefficient, count: 4) }
        }
        return bits.bytes
    }

    /// As many half waves as any channel has in a direction, with the constant term.
    private static let most = 7

    /// The coefficients of all channels at once: seven rows of seven, the lowest frequencies first. A row of pixels after the
    /// other is reduced to seven numbers, and these then column by column.
    private static func frequencies(of pixels: [SIMD4<Double>], width: Int, height: Int) -> [SIMD4<Double>] {
        let waves = { (length: Int) in
            (0..<most).map { frequency in
                (0..<length).map { cos(.pi / Double(length) * Double(frequency) * (Double($0) + 0.5)) }
            }
        }
        let (horizontal, vertical) = (waves(width), waves(height))
        var result = Array(repeating: SIMD4<Double>(), count: most * most)
        for row in 0..<height {
            for (x, wave) in horizontal.enumerated() {
                var sum = SIMD4<Double>()
                for column in 0..<width { sum += pixels[row * width + column] * wave[column] }
                for y in 0..<most { result[y * most + x] += sum * vertical[y][row] }
            }
        }
        return result.map { $0 / Double(width * height) }
    }

    /// The low frequencies of one channel.
    private struct Spectrum {
        /// The channel's mean.
        let constant: Double
        /// The largest of the other coefficients, by its amount.
        let largest: Double
        /// The others, from 0 to 1: 0.5 is none, 1 the largest.
        let relative: [Double]

        /// The triangle of `frequencies` below the line from `across` to `down`.
        init(_ frequencies: [SIMD4<Double>], channel: Int, across: Int, down: Int) {
            var others: [Double] = []
            for y in 0..<down {
                for x in 0..<across where x * down < across * (down - y) && x + y > 0 {
                    others.append(frequencies[y * most + x][channel])
                }
            }
            constant = frequencies[0][channel]
            let largest = others.reduce(0) { max($0, abs($1)) }
            self.largest = largest
            relative = others.map { largest > 0 ? 0.5 + 0.5 * $0 / largest : 0.5 }
        }
    }

    /// Packs numbers into bytes, the first into the lowest bits.
    private struct BitWriter {
        private(set) var bytes: [UInt8] = []
        private var used = 0

        /// Appends a number from 0 to 1 as one of 2^count steps.
        mutating func append(_ value: Double, count: Int) {
            let most = Double(1 << count - 1)
            append(whole: Int((min(max(value, 0), 1) * most).rounded()), count: count)
        }

        mutating func append(whole value: Int, count: Int) {
            for bit in 0..<count {
                if used % 8 == 0 { bytes.append(0) }
                if value >> bit & 1 == 1 { bytes[used / 8] |= 1 << UInt8(used % 8) }
                used += 1
            }
        }
    }
}

/// Evan Wallace's ThumbHash: the lowest frequencies of an image in about 25 bytes.
///
/// Colour is converted to luminance (the mean of red, green and blue), yellow-blue, red-green, and alpha. For each
/// channel, the hash contains the cosine transform's coefficients in the triangle of low frequencies, four bits each,
/// relative to the largest; the constant term and the largest coefficient are in the header.
enum ThumbHash {
    /// Returns the hash of an image of `width` × `height` premultiplied RGBA pixels, channels from 0 to 1.
    static func encode(_ frequencies: ImageFrequencies, width: Int, height: Int) -> [UInt8] {
        let hasAlpha = frequencies.mean.w < 1 - 1e-9
        let mean = frequencies.mean.straight
        let longest = Double(max(width, height))
        let limit = hasAlpha ? 5.0 : 7.0
        let across = max(1, Int((limit * Double(width) / longest).rounded()))
        let down = max(1, Int((limit * Double(height) / longest).rounded()))

        let channels = frequencies.mapped { pixel, constant in
            // Transparent pixels show the mean colour.
            let color = pixel + mean * (constant - pixel.w)
            let (yellow, red) = ((color.x + color.y) / 2 - color.z, color.x - color.y)
            return SIMD4((color.x + color.y + color.z) / 3, yellow, red, pixel.w)
        }
        let luminance = Spectrum(channels, channel: 0, across: max(3, across), down: max(3, down))
        let yellow = Spectrum(channels, channel: 1, across: 3, down: 3)
        let red = Spectrum(channels, channel: 2, across: 3, down: 3)
        let alpha = hasAlpha ? Spectrum(channels, channel: 3, across: 5, down: 5) : nil

        var bits = BitWriter()
        bits.append(luminance.constant, count: 6)
        bits.append(0.5 + 0.5 * yellow.constant, count: 6)
        bits.append(0.5 + 0.5 * red.constant, count: 6)
        bits.append(luminance.largest, count: 5)
        bits.append(hasAlpha ? 1 : 0, count: 1)
        let isLandscape = width > height
        // The decoder derives the other side from the alpha flag.
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

    /// The low frequencies of one channel.
    private struct Spectrum {
        let constant: Double
        /// The largest absolute value of the other coefficients.
        let largest: Double
        /// The other coefficients scaled to 0 … 1: 0.5 is zero, 1 is `largest`.
        let relative: [Double]

        /// Selects the coefficients in the triangle of `frequencies` below the line from `across` to `down`.
        init(_ frequencies: ImageFrequencies, channel: Int, across: Int, down: Int) {
            var others: [Double] = []
            for y in 0..<down {
                for x in 0..<across where x * down < across * (down - y) && x + y > 0 {
                    others.append(frequencies[x, y][channel])
                }
            }
            constant = frequencies.mean[channel]
            let largest = others.reduce(0) { max($0, abs($1)) }
            self.largest = largest
            relative = others.map { largest > 0 ? 0.5 + 0.5 * $0 / largest : 0.5 }
        }
    }

    /// Packs numbers into bytes, from the lowest bit.
    private struct BitWriter {
        private(set) var bytes: [UInt8] = []
        private var used = 0

        /// Appends a number from 0 to 1, quantized to `count` bits.
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

extension SIMD4<Double> {
    /// The colour of premultiplied channels whose last is alpha; its own alpha is 1, or 0 for a transparent pixel.
    var straight: SIMD4<Double> { w > 0 ? self / w : self }
}

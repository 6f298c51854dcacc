import Glibc
import IPCProtocol
import SystemValues
import TestSupport

@testable import ImageDecoding

extension TestPicture {
    /// The reference for scaling: for each pixel of the result, the sum of all premultiplied source pixels with their
    /// Lanczos weights, in double precision. Premultiplied.
    func scaled(to width: Int, _ height: Int, crop: Transform.Plan.Crop? = nil) -> TestPicture {
        let crop = crop ?? Transform(width: width, height: height, fit: .fill).plan(for: geometry)!.crop
        let across = Self.weights(of: self.width, crop.x, crop.width, count: width)
        let down = Self.weights(of: self.height, crop.y, crop.height, count: height)
        // Filters rows first; four values per pixel.
        var rows: [[SIMD4<Double>]] = []
        for y in 0..<self.height {
            let source = (0..<self.width).map { x in
                let pixel = SIMD4<Double>(self[x, y])
                let color = pixel * (pixel.w / 255)
                return SIMD4(color.x, color.y, color.z, pixel.w)
            }
            rows.append(across.map { weights in weights.reduce(.zero) { $0 + source[$1.place] * $1.weight } })
        }
        return TestPicture(width: width, height: height) { x, y in
            var sum = SIMD4<Double>.zero
            for (place, weight) in down[y] { sum += rows[place][x] * weight }
            // If alpha overshoots, colour is scaled back with it.
            if sum.w > 255 { sum *= 255 / sum.w }
            sum = sum.clamped(lowerBound: .zero, upperBound: SIMD4(repeating: min(max(sum.w, 0), 255)))
            return SIMD4<UInt8>(sum.rounded(.toNearestOrAwayFromZero))
        }
    }

    var geometry: PixelGeometry { PixelGeometry(width: width, height: height)! }

    private static func weights(
        of source: Int, _ origin: Double, _ extent: Double, count: Int
    ) -> [[(place: Int, weight: Double)]] {
        let step = extent / Double(count)
        let stretch = max(1, step)
        return (0..<count).map { index in
            let center = origin + (Double(index) + 0.5) * step
            let near = (0..<source).compactMap { place -> (place: Int, weight: Double)? in
                let x = (Double(place) + 0.5 - center) / stretch
                guard abs(x) < 3 else { return nil }
                return (place, x == 0 ? 1 : sin(x * .pi) / (x * .pi) * sin(x * .pi / 3) / (x * .pi / 3))
            }
            let sum = near.reduce(0) { $0 + $1.weight }
            return near.map { ($0.place, $0.weight / sum) }
        }
    }

    /// An image like a photograph: smooth gradients, hard and soft edges, a little noise. `transparent`: also an edge
    /// and a gradient of alpha.
    static func scene(width: Int, height: Int, transparent: Bool = false) -> TestPicture {
        var grain = SplitMix64(state: 3)
        return TestPicture(width: width, height: height) { x, y in
            let (u, v) = (Double(x) / Double(width), Double(y) / Double(height))
            let noise = Double(grain.next() >> 56) / 32 - 4
            var color = SIMD4<Double>(60 + 150 * u, 90 + 100 * sin(v * 5), 200 - 140 * u * v, 255)
            let (dx, dy) = (u - 0.6, v - 0.4)
            let distance = (dx * dx + dy * dy).squareRoot()
            if distance < 0.2 { color = SIMD4(230, 180 - 500 * distance, 40, 255) }
            if v > 0.7 + 0.1 * sin(u * 12) { color = SIMD4(30, 60 + 40 * u, 35, 255) }
            if u > 0.08 && u < 0.12 { color = SIMD4(250, 250, 245, 255) }
            color += SIMD4(noise, noise, noise, 0)
            if transparent { color.w = distance > 0.45 ? 0 : min(255, 900 * (0.45 - distance)) }
            return SIMD4<UInt8>(color.clamped(lowerBound: .zero, upperBound: SIMD4(repeating: 255)))
        }
    }

    /// Returns the peak signal-to-noise ratio against `other` in decibels, over all four channels.
    func decibels(against other: TestPicture) -> Double {
        guard (width, height) == (other.width, other.height) else { return 0 }
        var sum = 0
        for index in 0..<bytes.count {
            let difference = Int(bytes[index]) - Int(other.bytes[index])
            sum += difference * difference
        }
        return sum == 0 ? .infinity : 10 * log10(255 * 255 * Double(bytes.count) / Double(sum))
    }
}

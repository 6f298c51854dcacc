import Glibc
import IPCProtocol
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
}

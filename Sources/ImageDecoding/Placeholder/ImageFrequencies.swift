import CImageCodecs
import Glibc

/// The lowest frequencies of an image: the coefficients of its cosine transform (DCT-II), for four channels at once.
struct ImageFrequencies {
    /// The number of frequencies in each direction, with the constant term.
    static let count = Int(FILTER_FREQUENCIES)
    /// The maximum number of cells along a side.
    static let longestSide = 32

    /// Rows of `count`, the lowest frequencies first.
    private var coefficients: [SIMD4<Double>]

    /// Transforms an image of cells, four numbers each. The numbers of a cell are multiplied by its column's and its
    /// row's factor.
    init(of cells: [Double], columnFactors: [Double], rowFactors: [Double]) {
        let (width, height) = (columnFactors.count, rowFactors.count)
        precondition(cells.count == width * height * 4)
        var numbers = Array(repeating: 0.0, count: Self.count * Self.count * 4)
        unsafe filter_frequencies(cells, width, height, Self.waves(columnFactors), Self.waves(rowFactors), &numbers)
        coefficients = stride(from: 0, to: numbers.count, by: 4).map {
            SIMD4(numbers[$0], numbers[$0 + 1], numbers[$0 + 2], numbers[$0 + 3])
        }
    }

    var mean: SIMD4<Double> { coefficients[0] }

    /// The coefficient of a horizontal and a vertical frequency.
    subscript(x: Int, y: Int) -> SIMD4<Double> { coefficients[y * Self.count + x] }

    /// The frequencies with other channels. `change` is linear but for a constant, which `constant` multiplies: 1 in
    /// the mean, else 0.
    func mapped(_ change: (_ channels: SIMD4<Double>, _ constant: Double) -> SIMD4<Double>) -> ImageFrequencies {
        var result = self
        for place in coefficients.indices {
            result.coefficients[place] = change(coefficients[place], place == 0 ? 1 : 0)
        }
        return result
    }

    /// The frequencies of the image as shown: sides may be swapped, and a mirrored side changes the sign of its odd
    /// frequencies.
    func shown(_ orientation: Orientation) -> ImageFrequencies {
        if orientation == .upright { return self }
        let (mirrorsX, mirrorsY) = orientation.isMirrored
        var result = self
        for place in coefficients.indices {
            let (x, y) = (place % Self.count, place / Self.count)
            let isNegative = (mirrorsX && x % 2 == 1) != (mirrorsY && y % 2 == 1)
            let stored = orientation.swapsSides ? self[y, x] : self[x, y]
            result.coefficients[place] = isNegative ? -stored : stored
        }
        return result
    }

    /// For each of as many places as there are factors, its factor times the cosines of the lowest frequencies, divided
    /// by the number of places.
    private static func waves(_ factors: [Double]) -> [Double] {
        let cosines = cosines[factors.count]
        return cosines.indices.map { cosines[$0] * factors[$0 / count] / Double(factors.count) }
    }

    /// For each length up to `longestSide`, the cosines of the lowest frequencies at each place.
    private static let cosines: [[Double]] = (0...longestSide).map { length in
        (0..<length * count).map {
            cos(Double.pi / Double(length) * Double($0 % count) * (Double($0 / count) + 0.5))
        }
    }
}

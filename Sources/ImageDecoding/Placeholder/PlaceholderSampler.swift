import CImageCodecs
import IPCProtocol

/// The input of a placeholder: a grid of cells with the sum of the pixels in each.
final class PlaceholderGrid {
    /// The number of cells along the longer side, enough for the seven half waves of a ThumbHash.
    private static let longestSide = ImageFrequencies.longestSide
    /// The maximum number of rows to sample, because sampling all rows would take a tenth of the time of decoding.
    fileprivate static let mostRows = 64

    fileprivate let width, height: Int
    /// The first column of each cell, and the end of the last one.
    fileprivate let bounds: [UInt32]
    /// Red, green and blue multiplied by alpha, and alpha, 0 … 255 each.
    fileprivate var sums: [Double]
    /// The number of rows added to each row of cells.
    fileprivate var rows: [Int]
    private let order: PixelFormat

    init(_ geometry: PixelGeometry, order: PixelFormat) {
        let longest = max(geometry.width, geometry.height)
        let cells = min(Self.longestSide, longest)
        let side = { (pixels: Int) in max(1, (pixels * cells + longest / 2) / longest) }
        let (width, height) = (side(geometry.width), side(geometry.height))
        (self.width, self.height) = (width, height)
        bounds = (0...width).map { UInt32($0 * geometry.width / width) }
        sums = Array(repeating: 0, count: width * height * 4)
        rows = Array(repeating: 0, count: height)
        self.order = order
    }

    /// Returns the placeholder of the image as shown; nil if a row of cells has no samples.
    func placeholder(_ orientation: Orientation) -> Placeholder? {
        guard rows.allSatisfy({ $0 > 0 }) else { return nil }
        let frequencies = ImageFrequencies(
            of: sums, columnFactors: (0..<width).map { 1 / Double(255 * (bounds[$0 + 1] - bounds[$0])) },
            rowFactors: rows.map { 1 / Double($0) }
        ).mapped { channels, _ in
            order == .bgra8 ? SIMD4(channels.z, channels.y, channels.x, channels.w) : channels
        }
        let (shownWidth, shownHeight) = orientation.swapsSides ? (height, width) : (width, height)
        let mean = mean
        var color = mean.straight
        color.w = mean.w
        return Placeholder(
            averageColor: SIMD4<UInt8>(
                (color.clamped(lowerBound: .zero, upperBound: .one) * 255).rounded(.toNearestOrAwayFromZero)),
            thumbHash: ThumbHash.encode(frequencies.shown(orientation), width: shownWidth, height: shownHeight))
    }

    /// The mean of all samples. That of the cells is another, because some have a column or a row more than others.
    private var mean: SIMD4<Double> {
        let sums = sums
        var total = SIMD4<Double>.zero
        for place in stride(from: 0, to: sums.count, by: 4) {
            total += SIMD4(sums[place], sums[place + 1], sums[place + 2], sums[place + 3])
        }
        if order == .bgra8 { total = SIMD4(total.z, total.y, total.x, total.w) }
        return total / Double(255 * Int(bounds[width]) * rows.reduce(0, +))
    }
}

struct PlaceholderSampler: RowSink {
    let grid: PlaceholderGrid
    let geometry: PixelGeometry
    let hasAlpha: Bool
    var row = 0
    var next: any RowSink

    mutating func take(_ band: RowBand) throws(WireError) {
        for index in 0..<band.count {
            if isSampled(row) {
                let line = row * grid.height / geometry.height
                let first = line * grid.width * 4
                unsafe grid.sums.withUnsafeMutableBufferPointer { sums in
                    unsafe filter_sum(
                        band.bytes.start + index * geometry.stride, sums.baseAddress! + first, grid.bounds,
                        grid.width, hasAlpha ? 1 : 0)
                }
                grid.rows[line] += 1
            }
            row += 1
        }
        try next.take(band)
    }

    mutating func finish() throws(WireError) { try next.finish() }

    /// Returns whether to sample a row: one of each of 64 stretches of a large image, at varying positions, so that
    /// periodic rows do not alias.
    private func isSampled(_ row: Int) -> Bool {
        let most = PlaceholderGrid.mostRows
        guard geometry.height > most else { return true }
        let stretch = row * most / geometry.height
        let (start, end) = (
            (stretch * geometry.height + most - 1) / most, ((stretch + 1) * geometry.height + most - 1) / most
        )
        // Positions by the golden ratio, so that consecutive ones are far apart.
        let fraction = stretch &* 0x9E37_79B9 & 0xFFFF_FFFF
        return row == start + (fraction * (end - start)) >> 32
    }
}

import Glibc
import IPCProtocol

/// The search for the part of an image that its contents decide, by the algorithms of libvips 8 (`vips_smartcrop`;
/// `attention` is adapted there from smartcrop.js). All frames of an animation have the part of the first.
struct PartSearch {
    let size: PixelGeometry

    private let position: Position
    private let found = Found()

    /// Holds the place that the first frame has decided.
    private final class Found {
        var place: (left: Int, top: Int)?
    }

    init(_ search: Transform.Plan.Search) { (size, position) = (search.size, search.position) }

    /// Returns the bytes that a search takes in an image of this size.
    static func workingBytes(from geometry: PixelGeometry) -> Int {
        (scaling(of: geometry)?.workingBytes ?? 0) + 16 * gridSide * gridSide * MemoryLayout<Double>.stride
    }

    /// Crops an image with straight alpha to the part; throws `out-of-memory`.
    func apply(to raster: inout Raster, _ order: PixelFormat) throws(WireError) {
        let place =
            if let known = found.place { known } else if position == .entropy { Self.richest(size, in: raster) } else {
                try Self.mostStriking(size, in: raster, order)
            }
        found.place = place
        try raster.crop(to: size, left: place.left, top: place.top)
    }

    // MARK: Entropy

    /// Removes slices from the side with less entropy until the size is reached, in eight steps on the side that loses
    /// most.
    private static func richest(_ size: PixelGeometry, in raster: Raster) -> (left: Int, top: Int) {
        var (left, top) = (0, 0)
        var (width, height) = (raster.geometry.width, raster.geometry.height)
        let slice = max((width - size.width + 7) / 8, (height - size.height + 7) / 8)
        while width > size.width || height > size.height {
            let (across, down) = (min(width - size.width, slice), min(height - size.height, slice))
            if across > 0 {
                let first = entropy(of: raster, left..<left + across, top..<top + height)
                let last = entropy(of: raster, left + width - across..<left + width, top..<top + height)
                width -= across
                if first < last { left += across }
            }
            if down > 0 {
                let first = entropy(of: raster, left..<left + width, top..<top + down)
                let last = entropy(of: raster, left..<left + width, top + height - down..<top + height)
                height -= down
                if first < last { top += down }
            }
        }
        return (left, top)
    }

    /// Returns a number that grows with the entropy of the channels' values, for parts with equal numbers of pixels.
    /// Colour is premultiplied.
    private static func entropy(of raster: Raster, _ columns: Range<Int>, _ rows: Range<Int>) -> Double {
        var counts = [Int](repeating: 0, count: 4 * 256)
        let stride = raster.geometry.stride
        unsafe counts.withUnsafeMutableBufferPointer { counts in
            for row in rows {
                let start = row * stride + columns.lowerBound * PixelGeometry.bytesPerPixel
                for column in 0..<columns.count {
                    let pixel = start + column * PixelGeometry.bytesPerPixel
                    let alpha = unsafe Int(raster.memory.bytes[pixel + 3])
                    for channel in 0..<3 {
                        let value = unsafe (Int(raster.memory.bytes[pixel + channel]) * alpha + 127) / 255
                        unsafe counts[channel * 256 + value] += 1
                    }
                    unsafe counts[3 * 256 + alpha] += 1
                }
            }
        }
        return counts.reduce(0) { $1 > 0 ? $0 - Double($1) * log2(Double($1)) : $0 }
    }

    // MARK: Attention

    /// The side of the grid on which the scores are computed.
    private static let gridSide = 32

    private static func scaling(of geometry: PixelGeometry) -> Scaling? {
        guard let grid = PixelGeometry(width: gridSide, height: gridSide) else { return nil }
        let whole = Transform.Plan.Crop(x: 0, y: 0, width: Double(geometry.width), height: Double(geometry.height))
        return Scaling(source: geometry, result: grid, crop: whole, isLight: false)
    }

    /// Centres the part over the highest score: edges, skin colours and saturated colours, blurred in proportion to the
    /// part.
    private static func mostStriking(
        _ size: PixelGeometry, in raster: Raster, _ order: PixelFormat
    ) throws(WireError) -> (left: Int, top: Int) {
        guard let scaling = scaling(of: raster.geometry) else { return (0, 0) }
        let memory = try PixelMemory(count: scaling.result.bytes)
        let writer = try RowWriter(scaling.result, orientation: .upright, premultiplies: false, output: .memory(memory))
        var sink = try scaling.sink(for: writer, hasAlpha: true, alpha: .premultiplied)
        unsafe try sink.takeWhole(raster.memory.bytes, raster.geometry)
        let red = order == .bgra8 ? 2 : 0
        let colors = (0..<gridSide * gridSide).map { index in
            let channels = [red, 1, 2 - red].map { unsafe memory.bytes[index * PixelGeometry.bytesPerPixel + $0] }
            return XYZ(red: channels[0], green: channels[1], blue: channels[2])
        }
        let (width, height) = (Double(raster.geometry.width), Double(raster.geometry.height))
        let share = (Double(size.width) / width, Double(size.height) / height)
        let sigma = max(1, Double(gridSide) * (share.0 * share.0 + share.1 * share.1).squareRoot() / 10)
        let scores = blurred(scores(of: colors), sigma: sigma)
        let best = scores.indices.reduce(0) { scores[$1] > scores[$0] ? $1 : $0 }
        let place = { (cell: Int, whole: Double, part: Int) in
            Int(min(max(0, Double(cell) * whole / Double(gridSide) - Double(part / 2)), whole - Double(part)))
        }
        return (place(best % gridSide, width, size.width), place(best / gridSide, height, size.height))
    }

    private static func scores(of colors: [XYZ]) -> [Double] {
        colors.indices.map { index in
            let color = colors[index]
            let (x, y) = (index % gridSide, index / gridSide)
            let luminance = { (x: Int, y: Int) in
                colors[min(max(y, 0), gridSide - 1) * gridSide + min(max(x, 0), gridSide - 1)].y
            }
            let edge =
                4 * color.y - luminance(x - 1, y) - luminance(x + 1, y) - luminance(x, y - 1) - luminance(x, y + 1)
            // Dark cells count by their edges only.
            return 5 * abs(edge) + (color.y > 5 ? color.skin + color.greenToRed : 0)
        }
    }

    /// Returns the scores, blurred by a Gaussian whose weights are whole twentieths of the largest and end below a
    /// fifth of it.
    private static func blurred(_ scores: [Double], sigma: Double) -> [Double] {
        let weight = { (distance: Int) in exp(-Double(distance * distance) / (2 * sigma * sigma)) }
        let reach = (0..<Int(8 * sigma)).last { weight($0) >= 0.2 } ?? 0
        let weights = (-reach...reach).map { (20 * weight(abs($0))).rounded() }
        let sum = weights.reduce(0, +)
        let filtered = { (scores: [Double], isAcross: Bool) in
            scores.indices.map { index in
                let (x, y) = (index % gridSide, index / gridSide)
                var total = 0.0
                for (tap, weight) in weights.enumerated() {
                    let place = min(max((isAcross ? x : y) + tap - reach, 0), gridSide - 1)
                    total += weight * scores[isAcross ? y * gridSide + place : place * gridSide + x]
                }
                return total / sum
            }
        }
        return filtered(filtered(scores, true), false)
    }
}

/// A colour in CIE XYZ under D65, of which Y is 0 … 100.
private struct XYZ {
    let x, y, z: Double

    init(red: UInt8, green: UInt8, blue: UInt8) {
        let (red, green, blue) = (Self.light(red), Self.light(green), Self.light(blue))
        x = 41.24 * red + 35.76 * green + 18.05 * blue
        y = 21.26 * red + 71.52 * green + 7.22 * blue
        z = 1.93 * red + 11.92 * green + 95.05 * blue
    }

    /// Returns the linear light of an sRGB value (IEC 61966-2-1), 0 … 1.
    private static func light(_ value: UInt8) -> Double {
        let value = Double(value) / 255
        return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
    }

    /// How near its direction is to that of skin: 100 for the same, less for others.
    var skin: Double {
        let length = (x * x + y * y + z * z).squareRoot()
        let unit = length > 0 ? (x / length, y / length, z / length) : (0, 0, 0)
        let (dx, dy, dz) = (unit.0 - 0.78, unit.1 - 0.57, unit.2 - 0.44)
        return 100 - 100 * (dx * dx + dy * dy + dz * dz).squareRoot()
    }

    /// The coordinate a of CIELAB, which libvips takes for the saturation.
    var greenToRed: Double {
        let scale = { (share: Double) in share > 0.008856 ? cbrt(share) : 7.787 * share + 16.0 / 116 }
        return 500 * (scale(x / 95.047) - scale(y / 100))
    }
}

import CImageCodecs
import IPCProtocol

/// A whole image with straight alpha, and the steps that need all of it. They throw `out-of-memory`.
struct Raster {
    private(set) var geometry: PixelGeometry
    /// The rows, without padding.
    private(set) var memory: PixelMemory

    init(_ geometry: PixelGeometry) throws(WireError) {
        self.geometry = geometry
        memory = try PixelMemory(count: geometry.bytes)
    }

    mutating func turn(_ orientation: Orientation) throws(WireError) {
        let result = try Raster(orientation.turned(geometry))
        var writer = try RowWriter(
            geometry, orientation: orientation, premultiplies: false, output: .memory(result.memory))
        unsafe try writer.takeWhole(memory.bytes, geometry)
        self = result
    }

    // MARK: Blur

    static func blurBytes(_ geometry: PixelGeometry) -> Int {
        steps_blur_scratch(geometry.width, geometry.height) * MemoryLayout<Float>.stride
    }

    func blur(_ sigma: Double) throws(WireError) {
        let scratch = try PixelMemory(count: Self.blurBytes(geometry))
        unsafe steps_blur(
            memory.bytes.start, geometry.width, geometry.height, sigma,
            scratch.bytes.baseAddress!.assumingMemoryBound(to: Float.self))
    }

    func sharpen(_ sigma: Double, _ amount: Double) throws(WireError) {
        let blurred = try Raster(geometry)
        unsafe blurred.memory.bytes.copyMemory(from: UnsafeRawBufferPointer(memory.bytes))
        try blurred.blur(sigma)
        unsafe steps_sharpen(memory.bytes.start, blurred.memory.bytes.start, geometry.pixels, Float(amount))
    }

    // MARK: Shape

    static func coverageBytes(_ geometry: PixelGeometry) -> Int { 2 * geometry.width * MemoryLayout<Float>.stride }

    /// Makes the corners transparent outside quarters of circles; the radius is at most half a side, as in CSS.
    func round(_ radius: Double) throws(WireError) {
        let (width, height) = (geometry.width, geometry.height)
        let corners = RoundedCorners(width: width, height: height, radius: radius)
        let coverages = try FloatRows(1, pixels: (width + 3) / 4)
        let row = unsafe UnsafeMutableBufferPointer(start: coverages[0], count: width)
        for y in 0..<height where corners.touches(row: y) {
            unsafe corners.fill(row, row: y)
            unsafe steps_cover(memory.bytes.start + y * geometry.stride, coverages[0], width)
        }
    }

    /// Crops to the centred square of the shorter side, and inscribes a circle, transparent outside.
    mutating func roundToCircle() throws(WireError) {
        let square = Step.circle.result(of: geometry)
        let (left, top) = ((geometry.width - square.width) / 2, (geometry.height - square.height) / 2)
        try crop(to: square, left: left, top: top)
        try round(Double(square.width) / 2)
    }

    mutating func crop(to size: PixelGeometry, left: Int, top: Int) throws(WireError) {
        // Of its own size, because others go by the memory's.
        let result = try Raster(size)
        for y in 0..<size.height {
            let from = (top + y) * geometry.stride + left * PixelGeometry.bytesPerPixel
            unsafe (result.memory.bytes.baseAddress! + y * size.stride)
                .copyMemory(from: memory.bytes.baseAddress! + from, byteCount: size.stride)
        }
        self = result
    }

    /// Places the image over a canvas of at least this size, whose free sides are divided in the ratio `focus`.
    mutating func pad(
        _ width: Int, _ height: Int, _ color: Color, _ order: PixelFormat, dividedAt focus: (x: Double, y: Double)
    ) throws(WireError) {
        let size = Step.pad(width: width, height: height, color: color).result(of: geometry)
        let result = try Raster(size)
        let (first, third) = order == .bgra8 ? (color.blue, color.red) : (color.red, color.blue)
        let bytes = [first, color.green, third, color.alpha]
        let pixel = bytes.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        unsafe result.memory.bytes.bindMemory(to: UInt32.self).update(repeating: pixel.littleEndian)
        let left = Int(focus.x * Double(size.width - geometry.width))
        let top = Int(focus.y * Double(size.height - geometry.height))
        if color.alpha > 0 { unsafe steps_blend_over(memory.bytes.start, geometry.pixels, bytes) }
        for y in 0..<geometry.height {
            let place = (top + y) * size.stride + left * PixelGeometry.bytesPerPixel
            unsafe (result.memory.bytes.baseAddress! + place)
                .copyMemory(from: memory.bytes.baseAddress! + y * geometry.stride, byteCount: geometry.stride)
        }
        self = result
    }

    /// Passes the image on, and then has undefined content.
    func write(to sink: inout some RowSink) throws(WireError) { unsafe try sink.takeWhole(memory.bytes, geometry) }
}

/// The share of each pixel that is inside a rectangle with round corners: exact along a row, and the mean of several
/// lines of a row.
private struct RoundedCorners {
    private let width, height: Int
    private let radius: Double

    private static let lines = 32

    init(width: Int, height: Int, radius: Double) {
        (self.width, self.height) = (width, height)
        self.radius = min(radius, Double(width) / 2, Double(height) / 2)
    }

    /// Whether a row is not all inside.
    func touches(row: Int) -> Bool { Double(row) < radius || Double(row + 1) > Double(height) - radius }

    func fill(_ shares: UnsafeMutableBufferPointer<Float>, row: Int) {
        unsafe shares.update(repeating: 1)
        let lefts = (0..<Self.lines).map { line in
            left(at: Double(row) + (Double(line) + 0.5) / Double(Self.lines))
        }
        // All lines leave these pixels out.
        let outside = Int(lefts.min() ?? 0)
        for x in 0..<outside { unsafe take(1, from: x, shares) }
        let share = 1 / Float(Self.lines)
        for left in lefts {
            let last = Int(left)
            for x in outside..<max(last, outside) { unsafe take(share, from: x, shares) }
            if last < width { unsafe take(share * Float(left - Double(last)), from: last, shares) }
        }
        for x in 0..<min(width, Int(radius) + 1) {
            unsafe shares[x] = min(1, max(0, shares[x]))
            unsafe shares[width - 1 - x] = min(1, max(0, shares[width - 1 - x]))
        }
    }

    /// Returns where the inside begins on a horizontal line.
    private func left(at y: Double) -> Double {
        let distance = max(radius - y, y - (Double(height) - radius), 0)
        return radius - max(0, radius * radius - distance * distance).squareRoot()
    }

    /// Reduces the share of a pixel and of its mirror image.
    private func take(_ share: Float, from x: Int, _ shares: UnsafeMutableBufferPointer<Float>) {
        unsafe shares[x] -= share
        unsafe shares[width - 1 - x] -= share
    }
}

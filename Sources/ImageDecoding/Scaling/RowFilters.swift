import CImageCodecs
import IPCProtocol

// The stages of scaling, each a sink that passes rows on to the next. Between them a row consists of floats, four per
// pixel, premultiplied: single precision cannot overflow here and is as fast as 16-bit integers. The initializers
// throw `out-of-memory`.

/// Takes filtered rows, from the top.
protocol FilteredRowSink {
    /// Takes the next row, which is valid only during the call.
    mutating func take(_ row: UnsafePointer<Float>) throws(WireError)
    /// Called once, after the last row.
    mutating func finish() throws(WireError)
}

struct HorizontalFilter<Next: FilteredRowSink>: FilteredRowSink {
    private let taps: FilterTaps
    private let result: FloatRows
    private var next: Next

    init(_ taps: FilterTaps, next: Next) throws(WireError) {
        self.taps = taps
        result = try FloatRows(1, pixels: taps.count)
        self.next = next
    }

    mutating func take(_ row: UnsafePointer<Float>) throws(WireError) {
        unsafe filter_across(row, result[0], taps.count, taps.starts, taps.counts, taps.weights, taps.stride)
        try unsafe next.take(result[0])
    }

    mutating func finish() throws(WireError) { try next.finish() }
}

/// Scales columns vertically.
///
/// A result row is a weighted sum over a run of source rows. The filter keeps either the unfinished sums, and adds each
/// source row to them, or the last source rows, until a run is complete. The first needs few rows for any reduction,
/// the second for any enlargement.
struct VerticalFilter<Next: FilteredRowSink>: FilteredRowSink {
    private let taps: FilterTaps
    private let pixels: Int
    private let keepsSums: Bool
    private let rows: FloatRows
    private var next: Next
    /// The number of source rows taken, and of result rows passed on.
    private var (taken, done) = (0, 0)
    /// The number of result rows whose sums were started.
    private var begun = 0

    init(_ taps: FilterTaps, pixels: Int, next: Next) throws(WireError) {
        (self.taps, self.pixels) = (taps, pixels)
        let (sums, run) = (taps.mostOverlapping, taps.longestRun)
        keepsSums = sums <= run
        // If source rows are kept, one more row for the sum.
        rows = try FloatRows(keepsSums ? sums : run + 1, pixels: pixels)
        self.next = next
    }

    mutating func take(_ row: UnsafePointer<Float>) throws(WireError) {
        if keepsSums { unsafe try addToSums(row) } else { unsafe try keep(row) }
    }

    mutating func finish() throws(WireError) { try next.finish() }

    private mutating func addToSums(_ row: UnsafePointer<Float>) throws(WireError) {
        while begun < taps.count, taps.starts[begun] <= taken {
            rows.clear(begun % rows.count)
            begun += 1
        }
        for index in done..<begun where taken < taps.starts[index] + taps.counts[index] {
            let weight = taps.weights[index * taps.stride + taken - Int(taps.starts[index])]
            unsafe filter_add(rows[index % rows.count], row, weight, pixels)
        }
        taken += 1
        while done < begun, taps.starts[done] + taps.counts[done] <= taken {
            try unsafe next.take(rows[done % rows.count])
            done += 1
        }
    }

    private mutating func keep(_ row: UnsafePointer<Float>) throws(WireError) {
        let (run, sum) = (rows.count - 1, rows.count - 1)
        unsafe rows[taken % run].update(from: row, count: pixels * 4)
        taken += 1
        while done < taps.count, taps.starts[done] + taps.counts[done] <= taken {
            rows.clear(sum)
            for tap in 0..<Int(taps.counts[done]) {
                let weight = taps.weights[done * taps.stride + tap]
                unsafe filter_add(rows[sum], rows[(Int(taps.starts[done]) + tap) % run], weight, pixels)
            }
            try unsafe next.take(rows[sum])
            done += 1
        }
    }
}

/// Rounds filtered rows to bytes and collects them into bands.
struct RowRounder<Next: RowSink>: FilteredRowSink {
    private let geometry: PixelGeometry
    private let alpha: filter_alpha
    private let isLight: Bool
    private let band: PixelMemory
    private let bandRows: Int
    private var filled = 0
    private var next: Next

    /// Creates a rounder for a result of `geometry`, to which linear light comes if `isLight`, else sRGB values.
    init(_ geometry: PixelGeometry, alpha: filter_alpha, isLight: Bool, next: Next) throws(WireError) {
        (self.geometry, self.alpha, self.isLight, self.next) = (geometry, alpha, isLight, next)
        bandRows = RowBand.rows(of: geometry)
        band = try PixelMemory(count: bandRows * geometry.stride)
    }

    mutating func take(_ row: UnsafePointer<Float>) throws(WireError) {
        let store = isLight ? unsafe filter_store_light : unsafe filter_store
        unsafe store(row, band.bytes.start + filled * geometry.stride, geometry.width, alpha)
        filled += 1
        if filled == bandRows { try flush() }
    }

    mutating func finish() throws(WireError) {
        if filled > 0 { try flush() }
        try next.finish()
    }

    private mutating func flush() throws(WireError) {
        let bytes = unsafe UnsafeMutableRawBufferPointer(rebasing: band.bytes.prefix(filled * geometry.stride))
        let count = filled
        filled = 0
        try next.take(unsafe RowBand(bytes: bytes, count: count))
    }
}

/// Memory for rows of floats, four per pixel.
@safe
struct FloatRows {
    let count: Int
    private let pixels: Int
    private let memory: PixelMemory

    /// Allocates `count` rows of `pixels` pixels, and three more pixels that `filter_across` may read, all zero.
    init(_ count: Int, pixels: Int) throws(WireError) {
        self.count = count
        self.pixels = pixels
        memory = try PixelMemory(count: (count * pixels + 3) * Self.bytesPerPixel, zeroed: true)
    }

    static let bytesPerPixel = 4 * MemoryLayout<Float>.stride

    subscript(index: Int) -> UnsafeMutablePointer<Float> {
        precondition(index >= 0 && index < count)
        return unsafe (memory.bytes.baseAddress! + index * pixels * Self.bytesPerPixel)
            .assumingMemoryBound(to: Float.self)
    }

    func clear(_ index: Int) { unsafe self[index].update(repeating: 0, count: pixels * 4) }
}

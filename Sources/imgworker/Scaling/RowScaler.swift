import CImageCodecs
import IPCProtocol

/// How decoded rows become the result, both as stored: orientation comes afterwards.
struct Scaling {
    /// The size of the decoded picture.
    let source: PixelGeometry
    /// The part of it that is used.
    let crop: Transform.Plan.Crop
    /// The size that it is brought to.
    let result: PixelGeometry
    /// Whether light is filtered, not sRGB's values.
    let isLight: Bool

    /// An upper estimate of the bytes that the filters hold.
    var workingBytes: Int {
        let taps =
            FilterTaps.bytes(count: result.width, from: source.width, extent: crop.width)
            + FilterTaps.bytes(count: result.height, from: source.height, extent: crop.height)
        // A source row as numbers, seven or eight rows of the vertical filter, a row of the horizontal one.
        let rows = (source.width + 9 * max(source.width, result.width)) * FloatRows.bytesPerPixel
        return taps + rows + RowBand.rows(of: result) * result.stride
    }

    /// The sink that scales rows for `writer`. `hasAlpha`: pixels may be transparent. `alpha`: how the result wants its
    /// colour.
    ///
    /// - Throws: `out-of-memory`.
    func sink(for writer: RowWriter, hasAlpha: Bool, alpha: AlphaMode) throws(WireError) -> any RowSink {
        let across = FilterTaps(count: result.width, from: source.width, origin: crop.x, extent: crop.width)
        let down = FilterTaps(count: result.height, from: source.height, origin: crop.y, extent: crop.height)
        let stored = !hasAlpha ? FILTER_OPAQUE : alpha == .premultiplied ? FILTER_PREMULTIPLIED : FILTER_STRAIGHT
        let rounder = try RowRounder(result, alpha: stored, isLight: isLight, next: writer)
        // Along rows first keeps the rows in work short. But where few rows come of many, and many columns of few, that
        // would filter what the other order never makes. The products stay below 2^44.
        let alongRowsFirst = down.used.count * across.work + result.width * down.work
        let alongColumnsFirst = across.used.count * down.work + result.height * across.work
        if alongRowsFirst <= 2 * alongColumnsFirst {
            let vertical = try VerticalFilter(down, pixels: result.width, next: rounder)
            let filter = try HorizontalFilter(across, next: vertical)
            return try RowScaler(
                source, across.used, down.used, premultiplies: hasAlpha, isLight: isLight, next: filter)
        }
        let horizontal = try HorizontalFilter(across, next: rounder)
        let filter = try VerticalFilter(down, pixels: across.used.count, next: horizontal)
        return try RowScaler(source, across.used, down.used, premultiplies: hasAlpha, isLight: isLight, next: filter)
    }
}

/// The first stage of scaling: makes numbers of the rows and columns that the filters use, and passes over the others.
struct RowScaler<Next: FilteredRowSink>: RowSink {
    private let source: PixelGeometry
    private let columns: Range<Int>
    private let rows: Range<Int>
    private let premultiplies: Bool
    private let isLight: Bool
    private let numbers: FloatRows
    private var row = 0
    private var next: Next

    /// A scaler of a picture of `source`'s size. `premultiplies`: pixels may be transparent. `isLight`: what is filtered is
    /// light.
    ///
    /// - Throws: `out-of-memory`.
    init(
        _ source: PixelGeometry, _ columns: Range<Int>, _ rows: Range<Int>, premultiplies: Bool, isLight: Bool,
        next: Next
    ) throws(WireError) {
        self.source = source
        self.columns = columns
        self.rows = rows
        self.premultiplies = premultiplies
        self.isLight = isLight
        numbers = try FloatRows(1, pixels: columns.count)
        self.next = next
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        for index in 0..<band.count {
            if rows.contains(row) {
                let place = index * source.stride + columns.lowerBound * PixelGeometry.bytesPerPixel
                let bytes = unsafe (band.bytes.baseAddress! + place).assumingMemoryBound(to: UInt8.self)
                if isLight {
                    unsafe filter_load_light(bytes, numbers[0], columns.count, premultiplies ? 1 : 0)
                } else {
                    unsafe filter_load(bytes, numbers[0], columns.count, premultiplies ? 1 : 0)
                }
                try unsafe next.take(numbers[0])
            }
            row += 1
        }
    }

    mutating func finish() throws(WireError) { try next.finish() }
}

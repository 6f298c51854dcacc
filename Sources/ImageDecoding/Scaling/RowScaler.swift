import CImageCodecs
import IPCProtocol

/// The scaling of decoded rows to the result, before orientation is applied.
struct Scaling {
    let source, result: PixelGeometry
    let crop: Transform.Plan.Crop
    /// Whether to filter linear light instead of sRGB values.
    let isLight: Bool

    var workingBytes: Int {
        let taps =
            FilterTaps.bytes(count: result.width, from: source.width, extent: crop.width)
            + FilterTaps.bytes(count: result.height, from: source.height, extent: crop.height)
        // A source row as floats, seven or eight rows of the vertical filter, a row of the horizontal one.
        let rows = (source.width + 9 * max(source.width, result.width)) * FloatRows.bytesPerPixel
        return taps + rows + RowBand.bytes(of: result)
    }

    /// Returns the sink that scales rows for `writer`. `hasAlpha`: whether pixels may be transparent. `alpha`: the
    /// result's alpha mode.
    func sink(for writer: RowWriter, hasAlpha: Bool, alpha: AlphaMode) throws(WireError) -> any RowSink {
        let across = FilterTaps(count: result.width, from: source.width, origin: crop.x, extent: crop.width)
        let down = FilterTaps(count: result.height, from: source.height, origin: crop.y, extent: crop.height)
        let stored = !hasAlpha ? FILTER_OPAQUE : alpha == .premultiplied ? FILTER_PREMULTIPLIED : FILTER_STRAIGHT
        let rounder = try RowRounder(result, alpha: stored, isLight: isLight, next: writer)
        // Filtering rows first keeps the rows of the vertical filter short, unless it takes more than twice the
        // multiplications of the other order. The products stay below 2^44.
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

/// The first stage of scaling: converts the rows and columns that the filters use to floats, and skips the others.
struct RowScaler<Next: FilteredRowSink>: RowSink {
    private let source: PixelGeometry
    private let columns, rows: Range<Int>
    private let premultiplies, isLight: Bool
    private let numbers: FloatRows
    private var row = 0
    private var next: Next

    /// Creates a scaler of an image of size `source`. `premultiplies`: whether to multiply colour by alpha. `isLight`:
    /// whether to filter linear light.
    init(
        _ source: PixelGeometry, _ columns: Range<Int>, _ rows: Range<Int>, premultiplies: Bool, isLight: Bool,
        next: Next
    ) throws(WireError) {
        (self.source, self.columns, self.rows, self.next) = (source, columns, rows, next)
        (self.premultiplies, self.isLight) = (premultiplies, isLight)
        numbers = try FloatRows(1, pixels: columns.count)
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        let load = isLight ? unsafe filter_load_light : unsafe filter_load
        for index in 0..<band.count {
            if rows.contains(row) {
                let place = index * source.stride + columns.lowerBound * PixelGeometry.bytesPerPixel
                unsafe load(band.bytes.start + place, numbers[0], columns.count, premultiplies ? 1 : 0)
                try unsafe next.take(numbers[0])
            }
            row += 1
        }
    }

    mutating func finish() throws(WireError) { try next.finish() }
}

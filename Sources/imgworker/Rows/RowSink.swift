import IPCProtocol

/// Rows on their way from a decoder to the result: straight alpha, from the top, one behind the other.
@safe
struct RowBand {
    /// The rows' bytes, without padding. Whoever gets the band may change them.
    let bytes: UnsafeMutableRawBufferPointer
    /// The rows in it.
    let count: Int

    /// How many rows of a picture go into one band: few enough to stay in the processor's cache, and not fewer than a
    /// JPEG decoder makes at once.
    static func rows(of geometry: PixelGeometry) -> Int {
        min(geometry.height, max(16, (64 << 10) / geometry.stride))
    }
}

/// Takes the rows of a picture, from the top. Rows move in one direction: a filter is a sink with a sink behind it.
protocol RowSink {
    /// Takes the next rows; they are the caller's again afterwards.
    mutating func take(_ band: RowBand) throws(WireError)
    /// Called once, after the last row.
    mutating func finish() throws(WireError)
}

extension RowSink {
    /// Takes all rows of a picture, band by band in memory that is used again for each: `fill` makes the next so many rows.
    ///
    /// - Throws: `out-of-memory`; whatever `fill` and the sink throw.
    mutating func takeBands(
        of geometry: PixelGeometry,
        _ fill: (_ rows: UnsafeMutableRawBufferPointer, _ count: Int) throws(WireError) -> Void
    ) throws(WireError) {
        let step = RowBand.rows(of: geometry)
        let memory = try PixelMemory(count: step * geometry.stride)
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let rows = unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes.prefix(count * geometry.stride))
            unsafe try fill(rows, count)
            try take(unsafe RowBand(bytes: rows, count: count))
        }
        try finish()
    }

    /// Takes all rows of a picture that had to be decoded as a whole, band by band.
    mutating func takeWhole(_ pixels: UnsafeMutableRawBufferPointer, _ geometry: PixelGeometry) throws(WireError) {
        let step = RowBand.rows(of: geometry)
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let range = row * geometry.stride..<(row + count) * geometry.stride
            try take(unsafe RowBand(bytes: UnsafeMutableRawBufferPointer(rebasing: pixels[range]), count: count))
        }
        try finish()
    }
}

package import IPCProtocol

/// A band of consecutive rows that a decoder passes to a sink, with straight alpha.
@safe
package struct RowBand {
    /// The rows' bytes, without padding. A sink may modify them.
    package let bytes: UnsafeMutableRawBufferPointer
    package let count: Int

    /// Returns the number of rows in a band: about 64 KiB, to fit the processor's cache, and at least 16, which a JPEG
    /// decoder makes at once.
    package static func rows(of geometry: PixelGeometry) -> Int {
        min(geometry.height, max(16, (64 << 10) / geometry.stride))
    }

    package static func bytes(of geometry: PixelGeometry) -> Int { rows(of: geometry) * geometry.stride }
}

/// Takes the rows of an image, from the top. A filter is a sink that passes rows on to the next sink.
package protocol RowSink {
    /// Takes the next rows, which are valid only during the call.
    mutating func take(_ band: RowBand) throws(WireError)
    /// Called once, after the last row.
    mutating func finish() throws(WireError)
}

extension RowSink {
    /// Takes all rows of an image, band by band in reused memory that `fill` fills with the next `count` rows. The
    /// first row begins `displacement` bytes after aligned memory. Throws `out-of-memory`; the errors of `fill` and the
    /// sink.
    package mutating func takeBands(
        of geometry: PixelGeometry, displacedBy displacement: Int = 0,
        _ fill: (_ rows: UnsafeMutableRawBufferPointer, _ count: Int) throws(WireError) -> Void
    ) throws(WireError) {
        let step = RowBand.rows(of: geometry)
        let memory = try PixelMemory(count: displacement + step * geometry.stride)
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let rows = unsafe UnsafeMutableRawBufferPointer(
                rebasing: memory.bytes[displacement..<displacement + count * geometry.stride])
            unsafe try fill(rows, count)
            try take(unsafe RowBand(bytes: rows, count: count))
        }
        try finish()
    }

    /// Takes all rows of an image that was decoded as a whole, band by band.
    package mutating func takeWhole(_ pixels: UnsafeMutableRawBufferPointer, _ geometry: PixelGeometry)
        throws(WireError)
    {
        let step = RowBand.rows(of: geometry)
        for row in stride(from: 0, to: geometry.height, by: step) {
            let count = min(step, geometry.height - row)
            let range = row * geometry.stride..<(row + count) * geometry.stride
            try take(unsafe RowBand(bytes: UnsafeMutableRawBufferPointer(rebasing: pixels[range]), count: count))
        }
        try finish()
    }
}

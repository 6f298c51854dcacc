import IPCProtocol

/// Passes on the part of each row that a crop uses, of the rows that it uses.
struct RowCropper: RowSink {
    private let area: Crop
    private let stride: Int
    private var row: Int
    private var next: any RowSink

    /// Creates a filter for images of size `source`, of which `first` is the first row that comes.
    init(_ area: Crop, of source: PixelGeometry, from first: Int, next: any RowSink) {
        (self.area, stride, row, self.next) = (area, source.stride, first, next)
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        let used = max(row, area.y)..<max(row, area.y, min(row + band.count, area.y + area.height))
        let (first, start) = (row, area.x * PixelGeometry.bytesPerPixel)
        row += band.count
        if used.isEmpty { return }
        let length = area.width * PixelGeometry.bytesPerPixel
        for (index, source) in used.enumerated() where length < stride || used.lowerBound > first {
            let from = (source - first) * stride + start
            // A row moves towards the beginning, so it overwrites none that is still needed.
            unsafe (band.bytes.baseAddress! + index * length)
                .copyMemory(from: band.bytes.baseAddress! + from, byteCount: length)
        }
        let bytes = unsafe UnsafeMutableRawBufferPointer(rebasing: band.bytes.prefix(used.count * length))
        try next.take(unsafe RowBand(bytes: bytes, count: used.count))
    }

    mutating func finish() throws(WireError) { try next.finish() }
}

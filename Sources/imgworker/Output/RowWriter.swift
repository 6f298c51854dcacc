import IPCProtocol

/// The last sink: brings rows into the order in which the picture is shown and writes them where they belong.
///
/// To a memfd by `pwrite` instead of a mapping: it allocates pages faster, running out of them is an error instead of a SIGBUS, and no
/// writable mapping can be in the way of sealing.
struct RowWriter: RowSink {
    private let stored: PixelGeometry
    private let orientation: Orientation
    private let premultiplies: Bool
    private let output: PixelStore
    private let offset: Int
    /// The whole result, where rows become columns: each band then touches all of it.
    private let columns: PixelMemory?
    private var row = 0
    /// Whether the output was found to have room: it is looked at when there are rows for it.
    private var hasRoom = false

    /// A writer of a picture that is stored as `stored`, from `offset` in `output` on. `premultiplies`: rows have alpha, and
    /// the result wants colour multiplied by it.
    ///
    /// - Throws: `out-of-memory`.
    init(
        _ stored: PixelGeometry, orientation: Orientation, premultiplies: Bool, output: PixelStore, at offset: Int = 0
    ) throws(WireError) {
        self.stored = stored
        self.orientation = orientation
        self.premultiplies = premultiplies
        self.output = output
        self.offset = offset
        columns = orientation.swapsSides ? try PixelMemory(count: stored.bytes) : nil
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        if premultiplies { unsafe premultiply(band.bytes) }
        var words = unsafe band.bytes.bindMemory(to: UInt32.self)
        let rowsBelow = stored.height - row - band.count
        switch orientation {
        case .upright:
            unsafe try write(band.bytes, atRow: row)
        case .mirrored:
            for start in stride(from: 0, to: words.count, by: stored.width) {
                var line = unsafe UnsafeMutableBufferPointer(rebasing: words[start..<start + stored.width])
                unsafe line.reverse()
            }
            unsafe try write(band.bytes, atRow: row)
        case .rotatedHalf:
            unsafe words.reverse()
            unsafe try write(band.bytes, atRow: rowsBelow)
        case .flipped:
            unsafe reverseRows(words, count: band.count)
            unsafe try write(band.bytes, atRow: rowsBelow)
        case .transposed, .rotatedRight, .transversed, .rotatedLeft:
            unsafe turn(words, count: band.count)
        }
        row += band.count
    }

    mutating func finish() throws(WireError) {
        if let columns { unsafe try write(columns.bytes, atRow: 0) }
    }

    private mutating func write(_ bytes: UnsafeMutableRawBufferPointer, atRow row: Int) throws(WireError) {
        if !hasRoom {
            guard let size = output.size, size - offset >= stored.bytes else {
                throw WireError(.internal, "The buffer is smaller than the picture.")
            }
            hasRoom = true
        }
        unsafe try output.write(bytes, at: offset + row * stored.stride)
    }

    private func reverseRows(_ words: UnsafeMutableBufferPointer<UInt32>, count: Int) {
        for upper in 0..<count / 2 {
            let lower = count - 1 - upper
            for column in 0..<stored.width {
                unsafe words.swapAt(upper * stored.width + column, lower * stored.width + column)
            }
        }
    }

    /// Puts rows as columns into the result, a square tile after the other so that lines of the processor's cache are
    /// used while they are there.
    private func turn(_ words: UnsafeMutableBufferPointer<UInt32>, count: Int) {
        guard let columns else { return }
        let result = unsafe columns.bytes.bindMemory(to: UInt32.self)
        let (width, height) = (stored.width, stored.height)
        // Stored rows run from the right as shown, stored columns from the bottom.
        let fromRight = orientation == .rotatedRight || orientation == .transversed
        let fromBottom = orientation == .transversed || orientation == .rotatedLeft
        let tile = 32
        for top in stride(from: 0, to: count, by: tile) {
            for left in stride(from: 0, to: width, by: tile) {
                for x in left..<min(left + tile, width) {
                    let target = (fromBottom ? width - 1 - x : x) * height
                    for y in top..<min(top + tile, count) {
                        let column = fromRight ? height - 1 - (row + y) : row + y
                        unsafe result[target + column] = words[y * width + x]
                    }
                }
            }
        }
    }
}

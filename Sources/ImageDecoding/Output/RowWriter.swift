import CImageCodecs
import IPCProtocol

/// The last sink: applies the orientation, packs rows to the result's pixel format, and writes them to their place.
///
/// Writes to a memfd with `pwrite` instead of a mapping because that allocates pages faster, reports a lack of memory
/// as an error instead of a SIGBUS, and leaves no writable mapping that would prevent sealing.
struct RowWriter: RowSink {
    /// The size before the orientation is applied.
    private let stored: PixelGeometry
    private let orientation: Orientation
    /// Whether to multiply colour by alpha, and the functions to apply before.
    private let premultiplies: Bool
    private let colors: ColorFunctions?
    /// The conversion of opaque pixels at the end; nil for four bytes a pixel.
    private let packing: PixelPacking?
    /// The destination, and the result's first byte in it.
    private let output: PixelStore
    private let offset: Int
    /// The whole result, for orientations that turn rows into columns, where each band touches all of it.
    private let columns: PixelMemory?
    private var row = 0
    /// Whether the output is known to be large enough. Checked when the first rows arrive.
    private var hasRoom = false

    /// Creates a writer to `output`, from `offset`; throws `out-of-memory`.
    init(
        _ stored: PixelGeometry, orientation: Orientation, premultiplies: Bool, colors: ColorFunctions? = nil,
        packing: PixelPacking? = nil, output: PixelStore, at offset: Int = 0
    ) throws(WireError) {
        (self.stored, self.orientation, self.premultiplies) = (stored, orientation, premultiplies)
        (self.colors, self.packing, self.output, self.offset) = (colors, packing, output, offset)
        columns = orientation.swapsSides ? try PixelMemory(count: stored.bytes) : nil
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        if let colors { unsafe colors.apply(to: band.bytes) }
        if premultiplies { unsafe premultiply(band.bytes) }
        var words = unsafe band.bytes.bindMemory(to: UInt32.self)
        if orientation.swapsSides {
            unsafe turn(words, count: band.count)
        } else {
            let mirrored = orientation.isMirrored
            // This turns the band by 180°, which mirrors both.
            if mirrored.rows { unsafe words.reverse() }
            if mirrored.columns != mirrored.rows { unsafe reverseLines(words) }
            unsafe try write(band.bytes, atRow: mirrored.rows ? stored.height - row - band.count : row)
        }
        row += band.count
    }

    mutating func finish() throws(WireError) {
        if let columns { unsafe try write(columns.bytes, atRow: 0) }
    }

    private mutating func write(_ bytes: UnsafeMutableRawBufferPointer, atRow row: Int) throws(WireError) {
        let format = packing?.format ?? .rgba8
        if !hasRoom {
            guard let size = output.size, size - offset >= stored.bytes(in: format) else {
                throw WireError(.internal, "The buffer is smaller than the image.")
            }
            hasRoom = true
        }
        let packed = unsafe packing?.pack(bytes) ?? bytes
        unsafe try output.write(packed, at: offset + row * stored.stride(in: format))
    }

    private func reverseLines(_ words: UnsafeMutableBufferPointer<UInt32>) {
        for start in stride(from: 0, to: words.count, by: stored.width) {
            var line = unsafe UnsafeMutableBufferPointer(rebasing: words[start..<start + stored.width])
            unsafe line.reverse()
        }
    }

    /// Copies rows into columns of the result, tile by tile so that cache lines are reused while they are cached.
    private func turn(_ words: UnsafeMutableBufferPointer<UInt32>, count: Int) {
        guard let columns else { return }
        let result = unsafe columns.bytes.bindMemory(to: UInt32.self)
        let (width, height) = (stored.width, stored.height)
        // Whether the first stored row becomes the rightmost column, and the first stored column the bottom row.
        let (fromRight, fromBottom) = orientation.isMirrored
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

/// The conversion of pixels with straight alpha to a format without alpha, over a background.
struct PixelPacking {
    let format: PixelFormat
    private let background: Color

    /// Creates the conversion to the pixel format of `transform`; nil for a format with alpha.
    init?(_ transform: Transform) {
        if transform.pixelFormat.hasAlpha { return nil }
        (format, background) = (transform.pixelFormat, transform.background)
    }

    /// Converts pixels in place, and returns the bytes that remain.
    func pack(_ pixels: UnsafeMutableRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let count = pixels.count / PixelGeometry.bytesPerPixel
        let bytes = unsafe pixels.bindMemory(to: UInt8.self)
        if let start = bytes.baseAddress {
            let pack = format == .gray8 ? unsafe pixels_pack_gray : unsafe pixels_pack_rgb
            unsafe pack(start, count, background.red, background.green, background.blue)
        }
        return unsafe UnsafeMutableRawBufferPointer(rebasing: pixels.prefix(count * format.bytesPerPixel))
    }
}

/// The destination of a raster: rows from the top, without padding.
enum PixelStore {
    /// A file, from its beginning.
    case file(any ResultOutput)
    /// Memory of this process, to be encoded from.
    case memory(PixelMemory)

    /// The capacity in bytes; nil when it cannot be determined.
    var size: Int? {
        switch self {
        case .file(let output): try? output.destination().room
        case .memory(let memory): unsafe memory.bytes.count
        }
    }

    /// Writes rows at `offset`, with the errors of `ResultFile`.
    func write(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(WireError) {
        switch self {
        case .file(let output):
            unsafe try output.destination().write(UnsafeRawBufferPointer(bytes), at: offset)
        case .memory(let memory):
            unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes[offset..<offset + bytes.count])
                .copyMemory(from: UnsafeRawBufferPointer(bytes))
        }
    }
}

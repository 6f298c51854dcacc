import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Reads TGA (Truevision's specification of version 2.0): colours, gray and palettes, also in runs, from any corner.
struct TGAReader: RowReader {
    let geometry: PixelGeometry
    let hasAlpha: Bool

    private let bits: Int
    private let isFromTop, isFromRight: Bool
    /// The colours and the index of the first one; nil without a palette.
    private let palette: (colors: [UInt32], first: Int)?
    private let pixelStart: Int
    /// Where each stored row begins; nil without runs. Rows that the file does not reach are missing.
    private var rows: [RowStart]?

    /// A place within a packet, because packets may continue in the next row.
    private struct RowStart {
        var packet: Int
        var skipped = 0
    }

    var heldBytes: Int { (rows?.count ?? 0) * MemoryLayout<RowStart>.stride }

    init(_ bytes: Span<UInt8>, isWhole: Bool) throws(WireError) {
        let truncated = WireError(CODEC_TRUNCATED, format: .tga)
        guard bytes.count >= 18, let width = bytes.integer(at: 12, bytes: 2, .little),
            let height = bytes.integer(at: 14, bytes: 2, .little), let first = bytes.integer(at: 3, bytes: 2, .little),
            let colors = bytes.integer(at: 5, bytes: 2, .little)
        else { throw truncated }
        geometry = try PixelGeometry(width, height, of: .tga)
        bits = Int(bytes[16])
        // The other bits were checked when the format was recognised.
        let (kind, hasAttribute) = (bytes[2] & 7, bytes[17] & 15 == 8)
        (isFromTop, isFromRight) = (bytes[17] & 0x20 != 0, bytes[17] & 0x10 != 0)
        let colorBytes = (Int(bytes[7]) + 7) / 8
        let start = 18 + Int(bytes[0])
        pixelStart = start + colors * colorBytes
        if kind == 1 {
            guard pixelStart <= bytes.count else { throw truncated }
            let isTransparent = hasAttribute && colorBytes == 4
            let palette = (0..<colors).map { Self.color(bytes, at: start + $0 * colorBytes, colorBytes, isTransparent) }
            (self.palette, hasAlpha) = ((palette, first), isTransparent)
        } else {
            (palette, hasAlpha) = (nil, hasAttribute && (bits == 32 || kind == 3 && bits == 16))
        }
        isGray = kind == 3
        if bytes[2] >= 9 { rows = findRows(bytes) }
        let isMissing = rows.map { $0.count <= height } ?? (pixelStart + geometry.pixels * pixelBytes > bytes.count)
        if isWhole, isMissing { throw truncated }
    }

    private let isGray: Bool
    private var pixelBytes: Int { (bits + 7) / 8 }

    mutating func read(_ row: Int, of bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        let (width, size) = (geometry.width, pixelBytes)
        let stored = isFromTop ? row : geometry.height - 1 - row
        var (position, packet, repeats) = (pixelStart + stored * width * size, width, false)
        var x = 0
        if let rows {
            guard stored < rows.count else { return 0 }
            (position, packet) = (rows[stored].packet, 0)
        }
        var skipped = rows?[stored].skipped ?? 0
        while x < width {
            if packet == 0 {
                guard position < bytes.count else { break }
                (packet, repeats) = (Int(bytes[position] & 127) + 1, bytes[position] >= 128)
                position += 1 + (repeats ? 0 : skipped * size)
                packet -= skipped
                skipped = 0
            }
            guard position + size <= bytes.count else { break }
            let color = color(bytes, at: position)
            let count = repeats ? min(packet, width - x) : 1
            for place in x..<x + count { pixels[isFromRight ? width - 1 - place : place] = color }
            x += count
            packet -= count
            if !repeats || packet == 0 { position += size }
        }
        guard isFromRight, x < width else { return x }
        // What there is is on the right.
        for place in 0..<width - x { pixels[place] = RGBA.clear }
        return x == 0 ? 0 : width
    }

    /// Finds the places of rows, and one for the end of the last row.
    private func findRows(_ bytes: Span<UInt8>) -> [RowStart] {
        var (rows, position, x) = ([RowStart(packet: pixelStart)], pixelStart, 0)
        rows.reserveCapacity(geometry.height + 1)
        while rows.count <= geometry.height, position < bytes.count {
            let (count, repeats) = (Int(bytes[position] & 127) + 1, bytes[position] >= 128)
            let end = position + 1 + (repeats ? 1 : count) * pixelBytes
            guard end <= bytes.count else { break }
            var used = 0
            while rows.count <= geometry.height, x + count - used >= geometry.width {
                used += geometry.width - x
                x = 0
                rows.append(used < count ? RowStart(packet: position, skipped: used) : RowStart(packet: end))
            }
            x += count - used
            position = end
        }
        return rows
    }

    private func color(_ bytes: Span<UInt8>, at place: Int) -> UInt32 {
        if let palette {
            let index = Int(bytes[place]) - palette.first
            return palette.colors.indices.contains(index) ? palette.colors[index] : RGBA.black
        }
        guard isGray else { return Self.color(bytes, at: place, pixelBytes, hasAlpha) }
        return RGBA.pixel(bytes[place], bytes[place], bytes[place], hasAlpha ? bytes[place + 1] : 255)
    }

    /// Returns a colour of 2 to 4 bytes. The highest bit of two bytes has no meaning that writers agree on.
    private static func color(_ bytes: Span<UInt8>, at place: Int, _ size: Int, _ hasAlpha: Bool) -> UInt32 {
        guard size == 2 else {
            return RGBA.pixel(bytes[place + 2], bytes[place + 1], bytes[place], hasAlpha ? bytes[place + 3] : 255)
        }
        let value = Int(bytes[place]) | Int(bytes[place + 1]) << 8
        let channel = { (shift: Int) in UInt8(((value >> shift & 31) * 255 + 15) / 31) }
        return RGBA.pixel(channel(10), channel(5), channel(0))
    }
}

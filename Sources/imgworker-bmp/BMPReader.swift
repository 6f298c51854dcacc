import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Reads a BMP, or a bitmap of an icon with its mask.
struct BMPReader: RowReader {
    let profile: Range<Int>?

    private let header: BitmapHeader
    private let palette: [UInt32]
    private let channels: [BitmapChannel]
    /// The first byte of the pixels, and of an icon's mask; nil if no mask is used.
    private let pixelStart: Int
    private var maskStart: Int?
    private var usesAlpha = false
    /// Where each stored row begins; nil without runs, and for a row without pixels.
    private var rows: [RowStart?]?
    private var isComplete = true

    private struct RowStart {
        var position: Int
        var x = 0
    }

    var geometry: PixelGeometry { header.geometry }
    var hasAlpha: Bool { usesAlpha || maskStart != nil }
    var heldBytes: Int { (rows?.count ?? 0) * MemoryLayout<RowStart?>.stride }

    init(_ bytes: Span<UInt8>, isWhole: Bool) throws(WireError) {
        guard let place = bytes.integer(at: 10, bytes: 4, .little) else {
            throw WireError(CODEC_TRUNCATED, format: .bmp)
        }
        let header = try BitmapHeader(bytes, at: 14, of: .bmp)
        // Some files have fewer colours than declared.
        let colors = min(header.palette.count, max(0, place - header.palette.start) / header.palette.size)
        try self.init(
            bytes, header, colors: place == 0 ? header.palette.count : colors, at: place == 0 ? header.end : place,
            profileBase: 14, .bmp, isWhole: isWhole)
    }

    /// Reads the palette of an icon's bitmap, whose pixels and mask follow.
    init(icon header: BitmapHeader, _ bytes: Span<UInt8>, isWhole: Bool) throws(WireError) {
        try self.init(
            bytes, header, colors: header.palette.count, at: header.end, profileBase: nil, .ico, isWhole: isWhole)
        // Writers that know no alpha leave zeros.
        usesAlpha = usesAlpha && hasOpacity(bytes)
        if usesAlpha { return }
        let start = pixelStart + header.stride * geometry.height
        guard !isWhole || start + (geometry.width + 31) / 32 * 4 * geometry.height <= bytes.count else {
            throw WireError(CODEC_TRUNCATED, format: .ico)
        }
        maskStart = start
    }

    private init(
        _ bytes: Span<UInt8>, _ header: BitmapHeader, colors: Int, at pixelStart: Int, profileBase: Int?,
        _ format: ImageFormat, isWhole: Bool
    ) throws(WireError) {
        (self.header, self.pixelStart) = (header, pixelStart)
        let (first, size) = (header.palette.start, header.palette.size)
        guard first + colors * size <= bytes.count else { throw WireError(CODEC_TRUNCATED, format: format) }
        palette = (0..<colors).map { index in
            let place = first + index * size
            return RGBA.pixel(bytes[place + 2], bytes[place + 1], bytes[place])
        }
        var channels: [BitmapChannel] = []
        for mask in header.masks {
            guard let channel = BitmapChannel(mask) else {
                throw WireError(CODEC_DAMAGED, format: format, message: "a channel in several parts")
            }
            channels.append(channel)
        }
        self.channels = channels
        profile = header.profile.flatMap { range in
            guard let profileBase, profileBase + range.upperBound <= bytes.count else { return nil }
            return profileBase + range.lowerBound..<profileBase + range.upperBound
        }
        let size32 = header.stride * (geometry.height - 1) + (geometry.width * header.bits + 7) / 8
        if header.coding == .runs {
            findRows(bytes)
        } else {
            isComplete = pixelStart + size32 <= bytes.count
        }
        if isWhole, !isComplete { throw WireError(CODEC_TRUNCATED, format: format) }
        usesAlpha = header.masks.last.map { $0 != 0 } == true
    }

    private func hasOpacity(_ bytes: Span<UInt8>) -> Bool {
        let size = header.bits / 8
        for row in 0..<geometry.height {
            let start = pixelStart + row * header.stride
            for place in stride(from: start, to: start + geometry.width * size, by: size) {
                guard place + size <= bytes.count else { return false }
                if pixel(bytes, at: place, size) & header.masks[3] != 0 { return true }
            }
        }
        return false
    }

    mutating func read(_ row: Int, of bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        let stored = header.isFromTop ? row : geometry.height - 1 - row
        if let rows { return readRuns(rows[stored], bytes, into: &pixels) }
        let (start, bits) = (pixelStart + stored * header.stride, header.bits)
        let available = max(0, min((geometry.width * bits + 7) / 8, bytes.count - start))
        let count = min(geometry.width, available * 8 / bits)
        switch bits {
        case 24:
            for x in 0..<count {
                let place = start + 3 * x
                pixels[x] = RGBA.pixel(bytes[place + 2], bytes[place + 1], bytes[place])
            }
        case 16, 32:
            for x in 0..<count {
                let value = pixel(bytes, at: start + x * bits / 8, bits / 8)
                pixels[x] = RGBA.pixel(
                    channels[0].value(value), channels[1].value(value), channels[2].value(value),
                    usesAlpha ? channels[3].value(value) : 255)
            }
        default:
            for x in 0..<count {
                let (place, shift) = ((x * bits) / 8, 8 - bits - x * bits % 8)
                pixels[x] = color(Int(bytes[start + place]) >> shift & (1 << bits - 1))
            }
        }
        guard let maskStart else { return count }
        let maskRow = maskStart + stored * ((geometry.width + 31) / 32 * 4)
        for x in 0..<count where maskRow + x / 8 < bytes.count {
            if bytes[maskRow + x / 8] << UInt8(x % 8) & 128 != 0 { pixels[x] = RGBA.clear }
        }
        return count
    }

    private func pixel(_ bytes: Span<UInt8>, at place: Int, _ size: Int) -> UInt32 {
        let low = UInt32(bytes[place]) | UInt32(bytes[place + 1]) << 8
        return size == 2 ? low : low | UInt32(bytes[place + 2]) << 16 | UInt32(bytes[place + 3]) << 24
    }

    private func color(_ index: Int) -> UInt32 { index < palette.count ? palette[index] : RGBA.black }

    // MARK: Runs

    /// Returns the colour in a byte for the pixel `index` of a run: with four bits a pixel, the byte has two.
    private func color(_ index: Int, in byte: UInt8) -> UInt32 {
        color(header.bits == 8 ? Int(byte) : Int(byte) >> (index % 2 == 0 ? 4 : 0) & 15)
    }

    /// A step of run-length coding (RLE8, RLE4).
    private enum Step {
        /// `count` pixels of two alternating colours.
        case run(count: Int, value: UInt8)
        /// `count` colours, from the position on.
        case colors(count: Int, at: Int)
        case move(right: Int, down: Int)
        case end
    }

    /// Reads the step at `position`; nil if it is incomplete.
    private func step(_ bytes: Span<UInt8>, _ position: inout Int) -> Step? {
        guard position + 2 <= bytes.count else { return nil }
        let (count, value) = (Int(bytes[position]), bytes[position + 1])
        position += 2
        switch (count, value) {
        case (1..., _): return .run(count: count, value: value)
        case (_, 0): return .move(right: -Self.lineEnd, down: 1)
        case (_, 1): return .end
        case (_, 2):
            guard position + 2 <= bytes.count else { return nil }
            defer { position += 2 }
            return .move(right: Int(bytes[position]), down: Int(bytes[position + 1]))
        default:
            defer { position += (Int(value) * header.bits + 15) / 16 * 2 }
            return .colors(count: Int(value), at: position)
        }
    }

    /// More than a row has pixels.
    private static let lineEnd = 1 << 40

    /// Finds the beginnings of rows. Each row is then read from its own, in any order.
    private mutating func findRows(_ bytes: Span<UInt8>) {
        var rows = [RowStart?](repeating: nil, count: geometry.height)
        var (position, x, y) = (pixelStart, 0, 0)
        rows[0] = RowStart(position: position)
        defer { self.rows = rows }
        while y < geometry.height {
            // The byte after an odd number of colours may be missing.
            guard let step = step(bytes, &position), position <= bytes.count + 1 else {
                isComplete = y == geometry.height - 1 && x >= geometry.width
                return
            }
            switch step {
            case .run(let count, _), .colors(let count, _): x = min(x + count, geometry.width)
            case .move(let right, let down):
                x = max(0, min(x + right, geometry.width))
                y += down
                if down > 0, y < geometry.height { rows[y] = RowStart(position: position, x: x) }
            case .end: return
            }
        }
    }

    /// Reads a row of runs. Pixels that it leaves out are black, as in Chromium.
    private func readRuns(_ start: RowStart?, _ bytes: Span<UInt8>, into pixels: inout MutableSpan<UInt32>) -> Int {
        for x in 0..<pixels.count { pixels[x] = RGBA.black }
        guard let start else { return isComplete ? pixels.count : 0 }
        var (position, x) = (start.position, start.x)
        while let step = step(bytes, &position) {
            switch step {
            case .run(let count, let value):
                for index in 0..<min(count, pixels.count - x) { pixels[x + index] = color(index, in: value) }
                x = min(x + count, pixels.count)
            case .colors(let count, let place):
                for index in 0..<min(count, pixels.count - x) {
                    guard place + index * header.bits / 8 < bytes.count else { return x + index }
                    pixels[x + index] = color(index, in: bytes[place + index * header.bits / 8])
                }
                x = min(x + count, pixels.count)
            case .move(let right, let down):
                if down > 0 { return pixels.count }
                x = min(x + right, pixels.count)
            case .end: return pixels.count
            }
        }
        return isComplete ? pixels.count : x
    }
}

/// The bits of a channel in a pixel.
private struct BitmapChannel {
    private let shift: UInt32
    private let values: [UInt8]

    /// Finds the bits of `mask`, of which the highest eight count; nil if they are not adjacent.
    init?(_ mask: UInt32) {
        let count = mask.nonzeroBitCount
        guard count == 0 || mask >> UInt32(mask.trailingZeroBitCount) == UInt32.max >> UInt32(32 - count) else {
            return nil
        }
        let used = min(count, 8)
        shift = count == 0 ? 0 : UInt32(mask.trailingZeroBitCount + count - used)
        let most = 1 << used - 1
        values = (0...most).map { UInt8(most == 0 ? 0 : ($0 * 255 + most / 2) / most) }
    }

    func value(_ pixel: UInt32) -> UInt8 { values[Int(pixel >> shift) & (values.count - 1)] }
}

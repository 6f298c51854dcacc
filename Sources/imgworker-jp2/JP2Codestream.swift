import CImageCodecs
import IPCProtocol
import ImageDecoding

/// The headers of a JPEG 2000 codestream (ISO/IEC 15444-1, annex A): its size, and upper estimates of what OpenJPEG
/// allocates for it, which are known before OpenJPEG sees the file.
struct JP2Codestream {
    /// The samples of one kind.
    struct Component: Equatable {
        let depth: Int
        let isSigned: Bool
        /// The distance of samples, in pixels.
        let columns, rows: Int
    }

    /// A range of the reference grid in one direction, and its tiles.
    struct Side: Equatable {
        /// The image: its first pixel, and the one after its last.
        let start, end: Int
        /// The first tile, and the size of all.
        let first, step: Int

        var length: Int { end - start }
        var tiles: Int { (end - first + step - 1) / step }
        var longestTile: Int { min(step, length) }

        /// Returns the pixels of a tile, from the image's first on.
        func tile(_ index: Int) -> Range<Int> {
            let left = first + index * step
            return max(left, start) - start..<min(left + step, end) - start
        }
    }

    let horizontal, vertical: Side
    let components: [Component]
    /// The number of resolutions that can be left out without an image that is smaller than it should be.
    private(set) var mostReduction = 32
    /// The part of the codestream up to the end of the last header that is complete, with the data that follow.
    private(set) var usable: Range<Int>
    /// Where a tile part begins that states more bytes than there are.
    private(set) var cutPart: Int?
    /// The tiles without any data.
    private(set) var missing: [Bool] = []
    /// The first irregularity; nil if the codestream is complete, up to its end marker.
    private(set) var damage: codec_status?

    private let length: Int
    /// The maxima of all coding styles: layers, resolutions, precincts of a resolution, and bytes of a component's
    /// structures.
    private var layers = 1, resolutions = 1, precincts = 1, structureBytes = 0
    /// The bytes of the transforms that are copied for each tile.
    private var transformBytes = 0
    /// The bytes of the lists of marker segments and tile parts.
    private var markerBytes = 0

    /// Reads the headers of the codestream in `range`, without those of packets. Throws `truncated`, `decode-failed`,
    /// `unsupported-format`, `too-many-pixels`, `empty-image`.
    init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(WireError) {
        var reader = NumberReader(range)
        guard let beginning = reader.next(bytes, 4), let size = reader.next(bytes, 2), reader.next(bytes, 2) != nil
        else { throw Self.error(CODEC_TRUNCATED) }
        guard beginning == 0xFF4F_FF51 else { throw Self.error(CODEC_DAMAGED, "it does not begin with its size") }
        var numbers: [Int] = []
        for _ in 0..<8 {
            guard let number = reader.next(bytes, 4) else { throw Self.error(CODEC_TRUNCATED) }
            numbers.append(number)
        }
        guard let count = reader.next(bytes, 2) else { throw Self.error(CODEC_TRUNCATED) }
        guard count > 0, size == 38 + 3 * count else { throw Self.error(CODEC_DAMAGED, "its size is invalid") }
        guard count <= Self.mostComponents else {
            throw Self.error(CODEC_UNSUPPORTED, "it has \(count) components; \(Self.mostComponents) are supported")
        }
        horizontal = Side(start: numbers[2], end: numbers[0], first: numbers[6], step: numbers[4])
        vertical = Side(start: numbers[3], end: numbers[1], first: numbers[7], step: numbers[5])
        (length, usable) = (range.count, range)
        for side in [horizontal, vertical] {
            guard side.length > 0 else { throw Self.error(CODEC_EMPTY) }
            // OpenJPEG computes with 31 bits.
            guard side.end < 1 << 31, side.length <= Int(CODEC_MAXIMUM_SIDE) else { throw Self.error(CODEC_TOO_LARGE) }
            guard side.step > 0, side.first <= side.start, side.first + side.step > side.start else {
                throw Self.error(CODEC_DAMAGED, "its tiles are invalid")
            }
            // Reduced sizes are the image's divided by a power of two and rounded up, with pixels in each tile.
            if side.start > 0 { mostReduction = 0 }
            if side.tiles > 1 { mostReduction = min(mostReduction, side.step.trailingZeroBitCount) }
        }
        guard horizontal.tiles * vertical.tiles < 1 << 16 else {
            throw Self.error(CODEC_DAMAGED, "it has \(horizontal.tiles * vertical.tiles) tiles")
        }
        var components: [Component] = []
        for _ in 0..<count {
            guard let depth = reader.next(bytes, 1), let columns = reader.next(bytes, 1),
                let rows = reader.next(bytes, 1)
            else { throw Self.error(CODEC_TRUNCATED) }
            guard columns > 0, rows > 0 else { throw Self.error(CODEC_DAMAGED, "a component has no samples") }
            components.append(Component(depth: depth & 127 + 1, isSigned: depth > 127, columns: columns, rows: rows))
        }
        self.components = components
        missing = [Bool](repeating: true, count: horizontal.tiles * vertical.tiles)
        damage = walk(bytes, from: reader.rest.lowerBound, to: range.upperBound)
        if damage == nil, missing.contains(true) { damage = CODEC_DAMAGED }
    }

    /// The most components: the colours, alpha, and those of no use.
    private static let mostComponents = 16

    static func error(_ status: codec_status, _ message: String = "") -> WireError {
        WireError(status, format: .jp2, message: message)
    }

    // MARK: Markers

    /// Walks the segments from `start` on. Returns the reason for which the end marker was not reached.
    private mutating func walk(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> codec_status? {
        var position = start
        // The tile part whose header is read, where it begins, and its end.
        var part: (tile: Int, start: Int, end: Int)?
        while true {
            if part == nil { usable = usable.lowerBound..<position }
            guard position + 2 <= end, let marker = bytes.integer(at: position, bytes: 2, .big) else {
                return CODEC_TRUNCATED
            }
            if marker == 0xFFD9 {
                usable = usable.lowerBound..<end
                return nil
            }
            if marker == 0xFF93, let (tile, start, next) = part {
                // Otherwise the header would be read again and again.
                guard next >= position + 2 else { return CODEC_DAMAGED }
                missing[tile] = false
                guard next <= end else {
                    usable = usable.lowerBound..<end
                    cutPart = start
                    return CODEC_TRUNCATED
                }
                (position, part) = (next, nil)
                continue
            }
            guard marker >= 0xFF01 else { return CODEC_DAMAGED }
            guard position + 4 <= end, let length = bytes.integer(at: position + 2, bytes: 2, .big) else {
                return CODEC_TRUNCATED
            }
            guard length >= 2 else { return CODEC_DAMAGED }
            let content = position + 4..<position + 2 + length
            guard content.upperBound <= end else { return CODEC_TRUNCATED }
            markerBytes += Self.markerBytes
            switch marker {
            case 0xFF90:
                guard part == nil, content.count == 8, let tile = bytes.integer(at: content.lowerBound, bytes: 2, .big),
                    let size = bytes.integer(at: content.lowerBound + 2, bytes: 4, .big), tile < missing.count,
                    size == 0 || size >= 14
                else { return CODEC_DAMAGED }
                markerBytes += Self.partBytes * max(10, bytes.integer(at: content.lowerBound + 7, bytes: 1, .big) ?? 0)
                // Without a size, it is the last one.
                part = (tile, position, size == 0 ? Self.endMarker(bytes, position..<end) ?? end : position + size)
            case 0xFF52: if !readStyle(bytes, content) { return CODEC_DAMAGED }
            case 0xFF53: if !readComponentStyle(bytes, content) { return CODEC_DAMAGED }
            case 0xFF60, 0xFF61: markerBytes += Self.headersBytes + content.count
            case 0xFF74, 0xFF75, 0xFF77: transformBytes += content.count
            default: break
            }
            position = content.upperBound
        }
    }

    /// Returns the position of the marker at the end of `range`, which zeros may follow; nil without it.
    private static func endMarker(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var end = range.upperBound
        while end > range.lowerBound, bytes[end - 1] == 0 { end -= 1 }
        guard end - 2 >= range.lowerBound, bytes.integer(at: end - 2, bytes: 2, .big) == 0xFFD9 else { return nil }
        return end - 2
    }

    /// Reads the default coding style (COD).
    private mutating func readStyle(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        var reader = NumberReader(content)
        guard let style = reader.next(bytes, 1), reader.next(bytes, 1) != nil, let layers = reader.next(bytes, 2),
            reader.next(bytes, 1) != nil
        else { return false }
        self.layers = max(self.layers, layers)
        return readBlocks(bytes, &reader, hasPrecincts: style & 1 == 1)
    }

    /// Reads the coding style of a component (COC).
    private mutating func readComponentStyle(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        var reader = NumberReader(content)
        guard reader.next(bytes, components.count < 257 ? 1 : 2) != nil, let style = reader.next(bytes, 1) else {
            return false
        }
        return readBlocks(bytes, &reader, hasPrecincts: style & 1 == 1)
    }

    /// Reads the resolutions, and the sizes of code-blocks and precincts.
    private mutating func readBlocks(_ bytes: Span<UInt8>, _ reader: inout NumberReader, hasPrecincts: Bool) -> Bool {
        guard let levels = reader.next(bytes, 1), let width = reader.next(bytes, 1), let height = reader.next(bytes, 1),
            let style = reader.next(bytes, 1), reader.next(bytes, 1) != nil, levels <= 32, width <= 8, height <= 8
        else { return false }
        mostReduction = min(mostReduction, levels)
        resolutions = max(resolutions, levels + 1)
        var (blocks, parts) = (0, 0)
        for resolution in 0...levels {
            var size = 0xFF
            if hasPrecincts {
                guard let next = reader.next(bytes, 1) else { return false }
                size = next
            }
            let columns = Self.cells(horizontal, levels - resolution, resolution > 0, width + 2, size & 15)
            let rows = Self.cells(vertical, levels - resolution, resolution > 0, height + 2, size >> 4)
            let bands = resolution > 0 ? 3 : 1
            blocks += bands * columns.blocks * rows.blocks
            parts += bands * columns.precincts * rows.precincts
            precincts = max(precincts, columns.precincts * rows.precincts)
        }
        // Where some passes end a segment (LAZY, TERMALL), each may be one. A segment takes at least three bits of the
        // file.
        let isSplit = style & 5 != 0
        let segments = min(blocks * layers * (isSplit ? Self.mostPasses : 1), 3 * length)
        structureBytes = max(
            structureBytes,
            blocks * Self.blockBytes + segments * (isSplit ? Self.segmentBytes : Self.chunkBytes)
                + parts * Self.precinctBytes)
        return true
    }

    /// Returns upper estimates of the code-blocks and precincts in one direction of a tile's band, at a resolution
    /// `level` below the full one. Sizes are exponents of two.
    private static func cells(
        _ side: Side, _ level: Int, _ isHalf: Bool, _ block: Int, _ precinct: Int
    ) -> (blocks: Int, precincts: Int) {
        let resolution = side.longestTile >> level + 2
        let (band, part) = isHalf ? (resolution / 2 + 1, max(0, precinct - 1)) : (resolution, precinct)
        return (band >> min(block, part) + 2, resolution >> precinct + 2)
    }

    // MARK: Memory

    /// What OpenJPEG 2.5 allocates for a tile that a header declares, and for each of its components.
    private static let tileBytes = 9500, tileComponentBytes = 1100
    /// For a code-block, for each of its parts in another layer, for one that ends a segment, and for a precinct of a
    /// band.
    private static let blockBytes = 512, chunkBytes = 24, segmentBytes = 64, precinctBytes = 256
    /// The number of passes of a code-block in a layer.
    private static let mostPasses = 164
    /// For a marker segment, for a part that a tile declares, and for the table of packet headers (PPM, PPT).
    private static let markerBytes = 32, partBytes = 24, headersBytes = 4096

    /// Returns an upper estimate of the bytes that OpenJPEG holds while it decodes without the `reduction` highest
    /// resolutions.
    func heldBytes(reduction: Int) -> Int {
        let tiles = missing.count
        var bytes = length + tiles * (Self.tileBytes + components.count * Self.tileComponentBytes + transformBytes)
        bytes += markerBytes + components.count * structureBytes
        // Whether each packet was read.
        bytes += 2 * (layers + 1) * resolutions * components.count * precincts
        // Tiles are decoded apart from the image, unless it is one.
        let isOne = tiles == 1 && horizontal.start == 0 && vertical.start == 0
        let samples = { (side: Int, step: Int) in ((side + step - 1) / step) >> reduction + 1 }
        for component in components {
            bytes += 4 * samples(horizontal.length, component.columns) * samples(vertical.length, component.rows)
            if isOne { continue }
            bytes +=
                4 * samples(horizontal.longestTile, component.columns)
                * samples(vertical.longestTile, component.rows)
        }
        // Eight columns or rows at once.
        return bytes + 64 * max(horizontal.longestTile, vertical.longestTile)
    }
}

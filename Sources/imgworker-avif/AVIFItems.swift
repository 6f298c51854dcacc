import ImageDecoding

/// The data of a file's AV1 items (ISO/IEC 14496-12, section 8.11): a still image, its alpha, the cells of a grid.
struct AVIFItems: Equatable {
    /// The pieces of each item's data, in order and within the file. An item that is incomplete ends before its first
    /// missing piece.
    private(set) var items: [[Range<Int>]] = []
    /// The alpha of a grid's cells.
    private(set) var cellAlpha = AVIFCellAlpha.none

    /// Reads the items of the `meta` box in `bytes`; nil if its structure is invalid.
    init?(_ bytes: Span<UInt8>) {
        guard let meta = BoxCursor.first("meta", in: 0..<bytes.count, of: bytes), let children = meta.fields,
            let info = BoxCursor.only("iinf", in: children, of: bytes),
            let places = BoxCursor.only("iloc", in: children, of: bytes),
            let entries = Self.entries(bytes, info)
        else { return nil }
        let data = BoxCursor.only("idat", in: children, of: bytes)?.content ?? 0..<0
        let pixels = Set(entries.filter { bytes.hasText("av01", at: $0.type) }.map(\.identifier))
        guard let placed = readPlaces(bytes, places, of: pixels, data) else { return nil }
        let order = places.type < info.type ? placed : entries.map(\.identifier)
        let grids = Set(entries.filter { bytes.hasText("grid", at: $0.type) }.map(\.identifier))
        cellAlpha = AVIFCellAlpha(bytes, meta: meta, grids: grids, order: order)
    }

    /// Reads the identifiers of the items, and the positions of their types.
    private static func entries(_ bytes: Span<UInt8>, _ info: Box) -> [(identifier: Int, type: Int)]? {
        guard let version = info.version(in: bytes), let fields = info.fields else { return nil }
        let counted = fields.lowerBound + (version == 0 ? 2 : 4)
        guard counted <= fields.upperBound else { return nil }
        var cursor = BoxCursor(counted..<fields.upperBound)
        var entries: [(identifier: Int, type: Int)] = []
        while let entry = cursor.next(bytes) {
            guard entry.named("infe", in: bytes) else { continue }
            guard let version = entry.version(in: bytes), version == 2 || version == 3, let fields = entry.fields,
                let identifier = bytes.integer(at: fields.lowerBound, bytes: version == 2 ? 2 : 4, .big)
            else { return nil }
            let type = fields.lowerBound + (version == 2 ? 2 : 4) + 2
            if type + 4 <= fields.upperBound { entries.append((identifier, type)) }
        }
        return entries
    }

    /// Reads the places of the items with these `identifiers`, and returns those of all items, in order. An item may
    /// lie in the `idat` box's content, `data`.
    private mutating func readPlaces(
        _ bytes: Span<UInt8>, _ box: Box, of identifiers: Set<Int>, _ data: Range<Int>
    ) -> [Int]? {
        guard let version = box.version(in: bytes), version <= 2, let fields = box.fields else { return nil }
        var reader = NumberReader(fields)
        guard let sizes = reader.next(bytes, 2), version == 0 || sizes & 15 == 0,
            let count = reader.next(bytes, version < 2 ? 2 : 4)
        else { return nil }
        let (offsetSize, lengthSize, baseSize) = (sizes >> 12 & 15, sizes >> 8 & 15, sizes >> 4 & 15)
        var order: [Int] = []
        for _ in 0..<count {
            guard let identifier = reader.next(bytes, version < 2 ? 2 : 4),
                let method = version == 0 ? 0 : reader.next(bytes, 2).map({ $0 & 15 }), method <= 1,
                reader.next(bytes, 2) != nil, let base = reader.next(bytes, baseSize),
                let extents = reader.next(bytes, 2),
                extents <= ItemFile.mostExtents || !identifiers.contains(identifier)
            else { return nil }
            var pieces: [Range<Int>] = []
            var isComplete = true
            let room = method == 0 ? 0..<bytes.count : data
            for _ in 0..<extents {
                guard let offset = reader.next(bytes, offsetSize), let length = reader.next(bytes, lengthSize) else {
                    return nil
                }
                let (start, isFar) = base.addingReportingOverflow(offset)
                isComplete = isComplete && !isFar && start <= room.count && length <= room.count - start
                if isComplete { pieces.append(room.lowerBound + start..<room.lowerBound + start + length) }
            }
            order.append(identifier)
            if identifiers.contains(identifier) { items.append(pieces) }
        }
        return order
    }
}

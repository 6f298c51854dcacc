import ImageDecoding

/// Alpha that belongs to each cell of a grid, which is a file's primary image (ISO/IEC 23008-12, sections 6.5.8 and
/// 6.6.2.3).
///
/// libavif 0.11 finds only alpha of the whole grid, and places cells in the order in which the file mentions items
/// first.
enum AVIFCellAlpha: Equatable {
    /// Only alpha of the whole image, or none.
    case none
    /// Each cell has alpha. With this content of the `meta` box, which begins at `start`, the image is its alpha.
    case each(start: Int, meta: [UInt8], isPremultiplied: Bool)
    /// libavif would show another image, for a reason.
    case unsupported(String)

    /// Reads the properties of items and their references to others in `meta`. `order` is that of the identifiers of
    /// all items.
    init(_ bytes: Span<UInt8>, meta: Box, grids: Set<Int>, order: [Int]) {
        guard let boxes = meta.fields, let primary = ItemFile.primary(bytes, boxes)?.identifier,
            let references = Self.references(bytes, boxes), let properties = Self.properties(bytes, boxes)
        else {
            self = .none
            return
        }
        var (alpha, isShared, isWhole) = ([Int: Int](), false, false)
        for reference in references where reference.type == .auxiliary && properties.alpha.contains(reference.item) {
            isWhole = isWhole || reference.targets.last == primary
            for target in reference.targets {
                // libavif takes the last item that shares alpha.
                isShared = isShared || alpha[target] != nil || target == primary && reference.targets.last != primary
                alpha[target] = reference.item
            }
        }
        let parts = references.filter { $0.type == .derived && $0.item == primary }
        let cells = grids.contains(primary) ? parts.flatMap(\.targets) : []
        let others = references.filter { $0.type == .derived && $0.item == alpha[primary] && grids.contains($0.item) }
        let ranks = Dictionary(zip(order, order.indices), uniquingKeysWith: min)
        let found = cells.compactMap { alpha[$0] }
        if alpha[primary] != nil && (isShared || !isWhole) {
            self = .unsupported("several items share alpha")
        } else if !Self.isAscending(cells, by: ranks) || !Self.isAscending(others.flatMap(\.targets), by: ranks) {
            self = .unsupported("the cells of the grid are in another order than the items")
        } else if isWhole || found.isEmpty {
            self = .none
        } else if found.count < cells.count {
            self = .unsupported("only some cells of the grid have alpha")
        } else if isShared || parts.count > 1 || !Self.isAscending(found, by: ranks) {
            self = .unsupported("cells of the grid share alpha, or it is in another order than the items")
        } else {
            let multiplied = references.filter { $0.type == .multiplied && $0.targets.count == 1 }
            let count = multiplied.count { alpha[$0.item] == $0.targets[0] && cells.contains($0.item) }
            if count > 0 && count < cells.count {
                self = .unsupported("only some cells of the grid are multiplied by alpha")
                return
            }
            var content = meta.content.map { bytes[$0] }
            for (index, item) in found.enumerated() {
                let (place, size) = (parts[0].place + index * parts[0].size - meta.content.lowerBound, parts[0].size)
                for byte in 0..<size {
                    content[place + byte] = UInt8(truncatingIfNeeded: item >> (8 * (size - 1 - byte)))
                }
            }
            // The range of values is that of the data, not that of the colours.
            for place in properties.colors {
                let start = place - meta.content.lowerBound
                content.replaceSubrange(start..<start + 4, with: "none".utf8)
            }
            self = .each(start: meta.content.lowerBound, meta: content, isPremultiplied: count > 0)
        }
    }

    private static func isAscending(_ items: [Int], by ranks: [Int: Int]) -> Bool {
        zip(items, items.dropFirst()).allSatisfy { ranks[$0] ?? 0 < ranks[$1] ?? 0 }
    }

    private struct Reference {
        enum Kind { case auxiliary, derived, multiplied }

        static let kinds: [(name: StaticString, kind: Kind)] = [
            ("auxl", .auxiliary), ("dimg", .derived), ("prem", .multiplied),
        ]

        let type: Kind
        let item: Int
        let targets: [Int]
        /// The position of the first target's identifier, and the bytes of each.
        let place: Int
        let size: Int
    }

    private static func references(_ bytes: Span<UInt8>, _ meta: Range<Int>) -> [Reference]? {
        guard let box = BoxCursor.only("iref", in: meta, of: bytes), let fields = box.fields else { return nil }
        let size = box.version(in: bytes) == 0 ? 2 : 4
        var references: [Reference] = []
        var cursor = BoxCursor(fields)
        while let box = cursor.next(bytes) {
            guard let type = Reference.kinds.first(where: { box.named($0.name, in: bytes) })?.kind else { continue }
            var reader = NumberReader(box.content)
            guard let item = reader.next(bytes, size), let count = reader.next(bytes, 2) else { return nil }
            var targets: [Int] = []
            for _ in 0..<count {
                guard let target = reader.next(bytes, size) else { return nil }
                targets.append(target)
            }
            let place = box.content.lowerBound + size + 2
            references.append(Reference(type: type, item: item, targets: targets, place: place, size: size))
        }
        return references
    }

    private static func properties(_ bytes: Span<UInt8>, _ meta: Range<Int>) -> (alpha: Set<Int>, colors: [Int])? {
        guard let box = BoxCursor.only("iprp", in: meta, of: bytes),
            let container = BoxCursor.only("ipco", in: box.content, of: bytes)
        else { return nil }
        var (kinds, colors) = (Set<Int>(), [Int]())
        var (cursor, index) = (BoxCursor(container.content), 0)
        while let property = cursor.next(bytes) {
            index += 1
            if property.named("colr", in: bytes), property.content.count >= 4 {
                colors.append(property.content.lowerBound)
            }
            guard property.named("auxC", in: bytes), let name = property.fields else { continue }
            let isAlpha = names.contains {
                bytes.hasText($0, at: name.lowerBound) && name.count >= $0.utf8CodeUnitCount
            }
            if isAlpha { kinds.insert(index) }
        }
        var alpha: Set<Int> = []
        cursor = BoxCursor(box.content)
        while let box = cursor.next(bytes) {
            guard box.named("ipma", in: bytes), let version = box.version(in: bytes), let fields = box.fields else {
                continue
            }
            let size = bytes[fields.lowerBound - 1] & 1 == 1 ? 2 : 1
            var reader = NumberReader(fields)
            guard let entries = reader.next(bytes, 4) else { return nil }
            for _ in 0..<entries {
                guard let item = reader.next(bytes, version == 0 ? 2 : 4), let count = reader.next(bytes, 1) else {
                    return nil
                }
                for _ in 0..<count {
                    guard let link = reader.next(bytes, size) else { return nil }
                    // The highest bit says whether the property is essential.
                    if kinds.contains(link & (1 << (8 * size - 1) - 1)) { alpha.insert(item) }
                }
            }
        }
        return (alpha, colors)
    }

    /// The names of alpha, with the zero at their end.
    private static let names: [StaticString] = [
        "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", "urn:mpeg:hevc:2015:auxid:1\0",
    ]
}

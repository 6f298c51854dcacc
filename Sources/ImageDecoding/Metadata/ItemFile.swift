/// The items of a HEIC or AVIF (ISO/IEC 14496-12, section 8.11; ISO/IEC 23008-12) besides its pixels: metadata blocks
/// and thumbnails. Invalid parts are left out.
package struct ItemFile {
    private var primary: (identifier: Int, place: Int, width: Int)?
    private var exif: [Range<Int>] = []
    private var xmp: [Range<Int>] = []
    /// The thumbnails of the primary item, and the place of the type of each reference.
    package private(set) var thumbnails: [(identifier: Int, reference: Int)] = []
    /// The bits of a channel of the primary item.
    private var bitDepth: Int?

    /// The most items, references or properties to look at.
    private static let most = 4096
    /// The most extents of an item to look at, which may take no bytes in the file. Decoders accept 32.
    package static let mostExtents = 256

    package init(_ bytes: Span<UInt8>) {
        guard let children = BoxCursor.first("meta", in: 0..<bytes.count, of: bytes)?.fields else { return }
        primary = Self.primary(bytes, children)
        let (ofExif, ofXMP) = Self.metadataItems(bytes, children)
        if let box = BoxCursor.only("iloc", in: children, of: bytes) {
            let data = BoxCursor.only("idat", in: children, of: bytes)?.content ?? 0..<0
            let places = Self.places(bytes, box, of: [ofExif, ofXMP].compactMap(\.self), data)
            exif = ofExif.flatMap { places[$0] } ?? []
            xmp = ofXMP.flatMap { places[$0] } ?? []
        }
        if let box = BoxCursor.only("iref", in: children, of: bytes) { readThumbnails(bytes, box) }
        if let box = BoxCursor.only("iprp", in: children, of: bytes) { readDepth(bytes, box) }
    }

    package func details(_ bytes: Span<UInt8>) -> ImageDetails {
        var details = ImageDetails()
        details.bitDepth = bitDepth
        details.xmp = MetadataBlock(xmp, in: bytes)
        // The item begins with the offset of the TIFF structure after these four bytes.
        if let block = MetadataBlock(exif, in: bytes) {
            if let item = block.bytes, let skipped = item.span.integer(at: 0, bytes: 4, .big), skipped < item.count - 4
            {
                details.exif = MetadataBlock(Array(item[(4 + skipped)...]))
            } else if block.bytes == nil {
                details.exif = block
            }
        }
        return details
    }

    /// Returns a copy of the file whose primary item is a thumbnail of the one that it has; nil for a longer file than
    /// `most` bytes.
    package func copy(of source: ImageSource, showing thumbnail: Int, most: Int) -> [UInt8]? {
        guard let primary, let found = thumbnails.first(where: { $0.identifier == thumbnail }),
            unsafe source.bytes.count <= most, primary.width == 4 || thumbnail < 1 << 16
        else { return nil }
        var bytes = unsafe Array(source.bytes)
        for index in 0..<primary.width {
            bytes[primary.place + index] = UInt8(truncatingIfNeeded: thumbnail >> (8 * (primary.width - 1 - index)))
        }
        // Decoders refuse an item that is a thumbnail of another one, and ignore references of unknown types.
        for (index, letter) in "free".utf8.enumerated() { bytes[found.reference + index] = letter }
        return bytes
    }

    /// Reads the identifier of the primary item in a `meta` box, the place of that number, and its bytes.
    package static func primary(
        _ bytes: Span<UInt8>, _ meta: Range<Int>
    ) -> (identifier: Int, place: Int, width: Int)? {
        guard let box = BoxCursor.only("pitm", in: meta, of: bytes), let fields = box.fields else { return nil }
        let width = box.version(in: bytes) == 0 ? 2 : 4
        return bytes.integer(at: fields.lowerBound, bytes: width, .big).map { ($0, fields.lowerBound, width) }
    }

    private static func metadataItems(_ bytes: Span<UInt8>, _ meta: Range<Int>) -> (exif: Int?, xmp: Int?) {
        guard let info = BoxCursor.only("iinf", in: meta, of: bytes), let version = info.version(in: bytes),
            let fields = info.fields, fields.count >= (version == 0 ? 2 : 4)
        else { return (nil, nil) }
        var cursor = BoxCursor(fields.lowerBound + (version == 0 ? 2 : 4)..<fields.upperBound)
        var (exif, xmp): (Int?, Int?)
        for _ in 0..<most {
            guard let entry = cursor.next(bytes) else { break }
            guard entry.named("infe", in: bytes), let version = entry.version(in: bytes), version == 2 || version == 3,
                let fields = entry.fields,
                let identifier = bytes.integer(at: fields.lowerBound, bytes: version == 2 ? 2 : 4, .big)
            else { continue }
            let type = fields.lowerBound + (version == 2 ? 2 : 4) + 2
            guard type + 4 <= fields.upperBound else { continue }
            if bytes.hasText("Exif", at: type), exif == nil { exif = identifier }
            guard bytes.hasText("mime", at: type), xmp == nil else { continue }
            // A name that ends with a zero byte, and the type.
            var position = type + 4
            while position < fields.upperBound, bytes[position] != 0 { position += 1 }
            if bytes.hasText("application/rdf+xml\0", at: position + 1) { xmp = identifier }
        }
        return (exif, xmp)
    }

    /// Reads the places of some items. One that does not lie in the file has none.
    private static func places(
        _ bytes: Span<UInt8>, _ box: Box, of identifiers: [Int], _ data: Range<Int>
    ) -> [Int: [Range<Int>]] {
        var found: [Int: [Range<Int>]] = [:]
        guard let version = box.version(in: bytes), version <= 2, let fields = box.fields else { return found }
        var reader = NumberReader(fields)
        guard let sizes = reader.next(bytes, 2), let count = reader.next(bytes, version < 2 ? 2 : 4) else {
            return found
        }
        let (offsetSize, lengthSize, baseSize) = (sizes >> 12 & 15, sizes >> 8 & 15, sizes >> 4 & 15)
        let indexSize = version == 0 ? 0 : sizes & 15
        for _ in 0..<count {
            guard let identifier = reader.next(bytes, version < 2 ? 2 : 4),
                let method = version == 0 ? 0 : reader.next(bytes, 2).map({ $0 & 15 }),
                reader.next(bytes, 2) != nil, let base = reader.next(bytes, baseSize),
                let extents = reader.next(bytes, 2), extents <= ItemFile.mostExtents
            else { return found }
            let room = method == 0 ? 0..<bytes.count : method == 1 ? data : 0..<0
            var pieces: [Range<Int>]? = []
            for _ in 0..<extents {
                guard reader.next(bytes, indexSize) != nil, let offset = reader.next(bytes, offsetSize),
                    let length = reader.next(bytes, lengthSize)
                else { return found }
                let (start, isFar) = base.addingReportingOverflow(offset)
                if isFar || start > room.count || length > room.count - start { pieces = nil }
                pieces?.append(room.lowerBound + start..<room.lowerBound + start + length)
            }
            if identifiers.contains(identifier), let pieces { found[identifier] = pieces }
        }
        return found
    }

    private mutating func readThumbnails(_ bytes: Span<UInt8>, _ box: Box) {
        guard let version = box.version(in: bytes), version <= 1, let fields = box.fields, let primary else { return }
        let width = version == 0 ? 2 : 4
        var cursor = BoxCursor(fields)
        for _ in 0..<Self.most {
            guard let reference = cursor.next(bytes), thumbnails.count < 16 else { return }
            guard reference.named("thmb", in: bytes) else { continue }
            var reader = NumberReader(reference.content)
            guard let from = reader.next(bytes, width), let count = reader.next(bytes, 2) else { continue }
            for _ in 0..<count {
                guard let to = reader.next(bytes, width) else { break }
                if to == primary.identifier, from != to { thumbnails.append((from, reference.type)) }
            }
        }
    }

    /// Reads the bits of a channel: the property `pixi` that is associated with the primary item.
    private mutating func readDepth(_ bytes: Span<UInt8>, _ box: Box) {
        guard let primary, let container = BoxCursor.only("ipco", in: box.content, of: bytes),
            let links = BoxCursor.only("ipma", in: box.content, of: bytes), let fields = links.fields,
            let flags = bytes.integer(at: links.content.lowerBound, bytes: 4, .big)
        else { return }
        var depths: [Int: Int] = [:]
        var cursor = BoxCursor(container.content)
        for index in 1...Self.most {
            guard let property = cursor.next(bytes) else { break }
            if property.named("pixi", in: bytes), let values = property.fields, values.count >= 2 {
                depths[index] = Int(bytes[values.lowerBound + 1])
            }
        }
        var reader = NumberReader(fields)
        guard let count = reader.next(bytes, 4) else { return }
        for _ in 0..<min(count, Self.most) {
            guard let item = reader.next(bytes, flags >> 24 == 0 ? 2 : 4), let links = reader.next(bytes, 1) else {
                return
            }
            for _ in 0..<links {
                guard let link = reader.next(bytes, flags & 1 == 0 ? 1 : 2) else { return }
                let index = link & (flags & 1 == 0 ? 0x7F : 0x7FFF)
                if item == primary.identifier, let depth = depths[index], depth > 0, depth <= 64 { bitDepth = depth }
            }
        }
    }
}

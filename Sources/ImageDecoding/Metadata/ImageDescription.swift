import IPCProtocol
import WorkerProtocol

/// The facts of an image, and its metadata blocks.
struct ImageDescription {
    private(set) var facts: ImageFacts
    private var blocks: [MetadataKind: MetadataBlock] = [:]

    /// Gathers the facts of an image whose header is read.
    init(_ source: ImageSource, _ opened: OpenedImage) {
        let (metadata, details) = (opened.decoder.metadata, opened.codec?.details(source) ?? ImageDetails())
        blocks[.exif] = details.exif
        blocks[.xmp] = details.xmp
        if case .bytes(let profile) = metadata.profile { blocks[.icc] = MetadataBlock(profile) }
        facts = ImageFacts()
        facts.orientation = metadata.orientation.rawValue
        facts.bitDepth = opened.codec == nil ? 8 : details.bitDepth
        facts.density = details.density ?? details.exif?.bytes.flatMap { ExifDirectory($0.span)?.density(in: $0.span) }
        facts.hasAlpha = opened.decoder.header.hasAlpha
        if let animation = opened.decoder.animation, animation.count > 1 { facts.loops = animation.loops }
        if case .bytes(let profile) = metadata.profile { facts.profile = ColorProfile.name(of: profile) }
        for (kind, block) in blocks { facts.metadata[kind] = block.length }
    }

    func bytes(of kinds: MetadataKinds) -> [UInt8] {
        kinds.kinds.reduce(into: []) { $0 += blocks[$1]?.bytes ?? [] }
    }
}

extension ColorProfile {
    /// Returns the name in an ICC profile (`desc`, ICC.1:2022, section 9.2.41); nil without one.
    static func name(of profile: [UInt8]) -> String? {
        let bytes = profile.span
        guard let count = bytes.integer(at: 128, bytes: 4, .big) else { return nil }
        for index in 0..<min(count, 256) {
            let entry = 132 + 12 * index
            guard let start = bytes.integer(at: entry + 4, bytes: 4, .big) else { return nil }
            if bytes.hasText("desc", at: entry) { return name(at: start, in: bytes) }
        }
        return nil
    }

    private static func name(at start: Int, in bytes: Span<UInt8>) -> String? {
        if bytes.hasText("desc", at: start), let count = bytes.integer(at: start + 8, bytes: 4, .big) {
            return text(start + 12, count: count, width: 1, in: bytes)
        }
        // The first of the names in several languages.
        guard bytes.hasText("mluc", at: start), let records = bytes.integer(at: start + 8, bytes: 4, .big), records > 0,
            let count = bytes.integer(at: start + 20, bytes: 4, .big),
            let place = bytes.integer(at: start + 24, bytes: 4, .big)
        else { return nil }
        return text(start + place, count: count / 2, width: 2, in: bytes)
    }

    /// Reads up to `count` characters, of one byte or as UTF-16; nil if none is visible.
    private static func text(_ start: Int, count: Int, width: Int, in bytes: Span<UInt8>) -> String? {
        var units: [UInt16] = []
        for index in 0..<min(count, 80) {
            guard let unit = bytes.integer(at: start + index * width, bytes: width, .big), unit != 0 else { break }
            if unit >= 0x20, unit != 0x7F { units.append(UInt16(unit)) }
        }
        // At most 3 bytes of UTF-8 for each.
        let name = String(decoding: units, as: UTF16.self)
        return name.isEmpty ? nil : name
    }
}

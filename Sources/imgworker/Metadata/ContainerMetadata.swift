import IPCProtocol
import ImageDecoding

/// The positions of a file's metadata, found by walking its segments or chunks. Lengths are validated against the
/// available bytes, and a walk that finds an invalid structure ends with the results so far.
struct ContainerMetadata: Equatable {
    /// The range of the EXIF block, a TIFF structure without a prefix.
    var exif: Range<Int>?
    var profile: ProfilePlace?
    /// The range of the XMP packet; nil if it is compressed.
    var xmp: Range<Int>?
    /// The place of the resolution: in a JFIF segment or a `pHYs` chunk.
    var density: Int?
    /// The range of the index of a JPEG's further images, a TIFF structure (CIPA DC-007).
    var pictures: Range<Int>?
    var bitDepth: Int?

    /// The parts of an ICC profile in a file, in order.
    struct ProfilePlace: Equatable {
        var parts: [Range<Int>]
        /// Whether the parts form a zlib stream.
        var isDeflated = false
        var isComplete = true
    }

    /// Walks `bytes` as a file of `format`. Calls `passed` with the position reached after each chunk of a PNG.
    init(_ format: ImageFormat, _ bytes: Span<UInt8>, passed: (Int) -> Void = { _ in }) {
        switch format {
        case .jpeg: walkJPEG(bytes)
        case .png: walkPNG(bytes, passed)
        case .webp: walkWebP(bytes)
        // GIF has no such metadata, and other programs decode the other formats.
        default: break
        }
    }

    func orientation(in bytes: Span<UInt8>) -> Orientation {
        guard let exif else { return .upright }
        return Orientation(exif: bytes.extracting(exif))
    }

    /// Walks a JPEG's marker segments up to the first scan; EXIF is in APP1, after its name.
    private mutating func walkJPEG(_ bytes: Span<UInt8>) {
        var position = 2
        var parts = JPEGProfileParts()
        defer { profile = parts.place }
        while true {
            // Skips surplus bytes before a marker, as libjpeg does.
            while position < bytes.count, bytes[position] != 0xFF { position += 1 }
            while position < bytes.count, bytes[position] == 0xFF { position += 1 }
            guard position < bytes.count else { return }
            let marker = bytes[position]
            position += 1
            switch marker {
            case 0x00, 0x01, 0xD0...0xD8: continue
            case 0xD9, 0xDA: return
            default: break
            }
            // A start of frame; the others of these are tables.
            if (0xC0...0xCF).contains(marker), ![0xC4, 0xC8, 0xCC].contains(marker), position + 2 < bytes.count {
                bitDepth = Int(bytes[position + 2])
            }
            guard let length = bytes.integer(at: position, bytes: 2, .big), length >= 2,
                position + length <= bytes.count
            else { return }
            if marker == 0xE1, length >= 8, exif == nil, bytes.hasText("Exif\0", at: position + 2) {
                // The second byte after the name is padding of any value.
                exif = position + 8..<position + length
            } else if marker == 0xE1, xmp == nil, bytes.hasText("http://ns.adobe.com/xap/1.0/\0", at: position + 2) {
                xmp = min(position + 31, position + length)..<position + length
            } else if marker == 0xE0, length >= 14, density == nil, bytes.hasText("JFIF\0", at: position + 2) {
                density = position + 9
            } else if marker == 0xE2, length >= 14, pictures == nil, bytes.hasText("MPF\0", at: position + 2) {
                // Its offsets are counted from here, to the end of the file.
                pictures = position + 6..<bytes.count
            } else if marker == 0xE2, length >= 16, bytes.hasText("ICC_PROFILE\0", at: position + 2) {
                parts.add(number: bytes[position + 14], of: bytes[position + 15], position + 16..<position + length)
            }
            position += length
        }
    }

    /// Walks a PNG's chunks up to IEND, because eXIf may follow the pixels.
    private mutating func walkPNG(_ bytes: Span<UInt8>, _ passed: (Int) -> Void) {
        var position = 8
        var pixelsBegan = false
        while let length = bytes.integer(at: position, bytes: 4, .big) {
            let (name, start) = (position + 4, position + 8)
            guard start + length <= bytes.count else { return }
            if bytes.hasText("IHDR", at: name), length >= 13 {
                bitDepth = Int(bytes[start + 8])
            } else if bytes.hasText("pHYs", at: name), length >= 9, density == nil {
                density = start
            } else if bytes.hasText("iTXt", at: name), xmp == nil {
                xmp = Self.packet(bytes, start..<start + length)
            } else if bytes.hasText("IDAT", at: name) {
                pixelsBegan = true
            } else if bytes.hasText("eXIf", at: name), exif == nil {
                exif = start..<start + length
            } else if bytes.hasText("iCCP", at: name), !pixelsBegan, profile == nil {
                // A name of 1 to 79 bytes, a zero byte, and the compression method, which must be 0.
                let end = start + length
                let zero = (start..<min(end, start + 80)).first { bytes[$0] == 0 }
                profile = ProfilePlace(parts: [], isDeflated: true, isComplete: false)
                if let zero, zero > start, zero + 2 < end, bytes[zero + 1] == 0 {
                    profile = ProfilePlace(parts: [zero + 2..<end], isDeflated: true)
                }
            } else if bytes.hasText("IEND", at: name) {
                return
            }
            position = start + length + 4
            passed(position)
        }
    }

    /// The range of the XMP packet in a chunk of text; nil for other texts, and for one that is compressed.
    private static func packet(_ bytes: Span<UInt8>, _ chunk: Range<Int>) -> Range<Int>? {
        guard chunk.count > 22, bytes.hasText("XML:com.adobe.xmp\0\0", at: chunk.lowerBound) else { return nil }
        // A language and a translated keyword, each with a zero byte.
        var position = chunk.lowerBound + 20
        for _ in 0..<2 {
            while position < chunk.upperBound, bytes[position] != 0 { position += 1 }
            position += 1
        }
        return position < chunk.upperBound ? position..<chunk.upperBound : nil
    }

    private mutating func walkWebP(_ bytes: Span<UInt8>) {
        guard let size = bytes.integer(at: 4, bytes: 4, .little) else { return }
        let end = min(bytes.count, size + 8)
        var position = 12
        while let length = bytes.integer(at: position + 4, bytes: 4, .little) {
            let start = position + 8
            guard start + length <= end else { return }
            if bytes.hasText("EXIF", at: position), exif == nil {
                // Some writers keep the prefix that JPEG requires.
                let prefix = bytes.hasText("Exif\0\0", at: start) && length >= 6 ? 6 : 0
                exif = start + prefix..<start + length
            } else if bytes.hasText("XMP ", at: position), xmp == nil, length > 0 {
                xmp = start..<start + length
            } else if bytes.hasText("ICCP", at: position), profile == nil {
                profile = ProfilePlace(parts: [start..<start + length])
            }
            position = start + length + length % 2
        }
    }
}

/// The parts of a JPEG's profile: segments of up to 64 KiB, numbered from 1 (ICC.1:2022, annex B.4).
private struct JPEGProfileParts {
    private var parts: [UInt8: Range<Int>] = [:]
    private var count: UInt8?
    private var isContradictory = false

    mutating func add(number: UInt8, of count: UInt8, _ part: Range<Int>) {
        if number == 0 || number > count || parts[number] != nil || self.count.map({ $0 != count }) ?? false {
            isContradictory = true
        }
        self.count = count
        parts[number] = part
    }

    var place: ContainerMetadata.ProfilePlace? {
        guard let count else { return nil }
        let isComplete = !isContradictory && parts.count == Int(count)
        return ContainerMetadata.ProfilePlace(
            parts: isComplete ? (1...count).compactMap { parts[$0] } : [], isComplete: isComplete)
    }
}

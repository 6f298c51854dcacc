import CImageCodecs
import IPCProtocol
import ImageDecoding

/// The boxes of a JP2 file (ISO/IEC 15444-1, annex I), or a codestream without any.
struct JP2Container: Equatable {
    enum Space: Equatable {
        /// Gray or RGB, by the number of channels.
        case unknown
        case gray, rgb, ycc, cmyk
    }

    /// Colours that samples select.
    struct Palette: Equatable {
        /// The bits of each column.
        let depths: [Int]
        let isSigned: [Bool]
        /// The entries one after the other, with a value for each column.
        var values: [Int] = []

        var count: Int { values.count / depths.count }

        func column(_ index: Int) -> [Int] { (0..<count).map { values[$0 * depths.count + index] } }
    }

    /// A channel: a component, or the colours of a column of the palette that it selects.
    struct Channel: Equatable {
        let component: Int
        let column: Int?
    }

    struct Definition: Equatable {
        let channel, kind, association: Int
    }

    private(set) var codestream: Range<Int>
    private(set) var space = Space.unknown
    private(set) var profile: Range<Int>?
    private(set) var palette: Palette?
    /// Nil for one channel of each component.
    private(set) var channels: [Channel]?
    /// Nil if the channels are the colours in their order.
    private(set) var definitions: [Definition]?

    /// Reads the boxes of a file up to its first codestream. Throws `truncated`, `decode-failed`, `unsupported-format`.
    init(_ bytes: Span<UInt8>) throws(WireError) {
        codestream = 0..<bytes.count
        if bytes.integer(at: 0, bytes: 2, .big) == 0xFF4F { return }
        var rest = 0..<bytes.count
        var hasHeader = false
        while true {
            guard let (box, isCut) = Self.next(bytes, in: &rest) else { throw JP2Codestream.error(CODEC_TRUNCATED) }
            if box.named("jp2c", in: bytes) {
                guard hasHeader else { throw JP2Codestream.error(CODEC_DAMAGED, "it has no header box") }
                codestream = box.content
                return
            }
            guard !isCut else { throw JP2Codestream.error(CODEC_TRUNCATED) }
            if box.named("ftyp", in: bytes), !Self.isStill(bytes, box.content) {
                throw JP2Codestream.error(CODEC_UNSUPPORTED, "its brands are none of still images")
            }
            if box.named("jp2h", in: bytes), !hasHeader {
                hasHeader = true
                try readHeader(bytes, box.content)
            }
        }
    }

    /// Returns the next box, and whether the file ends within it; nil if it ends before its content. The last box may
    /// have no size.
    private static func next(_ bytes: Span<UInt8>, in rest: inout Range<Int>) -> (Box, isCut: Bool)? {
        let start = rest.lowerBound
        guard var size = bytes.integer(at: start, bytes: 4, .big), rest.count >= 8 else { return nil }
        var header = 8
        if size == 1 {
            guard rest.count >= 16, let long = bytes.integer(at: start + 9, bytes: 7, .big) else { return nil }
            (size, header) = (bytes[start + 8] == 0 ? long : .max, 16)
        }
        if size == 0 { size = rest.count }
        guard size >= header else { return nil }
        let end = start + min(size, rest.count)
        rest = end..<rest.upperBound
        return (Box(type: start + 4, content: start + header..<end), size > end - start)
    }

    /// Returns whether any brand is that of a still image of JPEG 2000: Part 1, Part 15, or Part 2, whose readers know
    /// more.
    private static func isStill(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        // The major brand is followed by its version.
        let places = stride(from: content.lowerBound, to: content.upperBound, by: 4).filter {
            $0 != content.lowerBound + 4
        }
        return places.contains { place in
            bytes.hasText("jp2 ", at: place) || bytes.hasText("jph ", at: place) || bytes.hasText("jpx ", at: place)
        }
    }

    // MARK: The header box

    private mutating func readHeader(_ bytes: Span<UInt8>, _ content: Range<Int>) throws(WireError) {
        var cursor = BoxCursor(content)
        var refused: Int?
        var hasColors = false
        while let box = cursor.next(bytes) {
            let isValid: Bool
            if box.named("colr", in: bytes) {
                // The first description that can be used.
                isValid = hasColors || readColors(bytes, box.content, &hasColors, &refused)
            } else if box.named("pclr", in: bytes) {
                isValid = readPalette(bytes, box.content)
            } else if box.named("cmap", in: bytes) {
                isValid = readChannels(bytes, box.content)
            } else if box.named("cdef", in: bytes) {
                isValid = readDefinitions(bytes, box.content)
            } else {
                isValid = true
            }
            guard isValid else { throw JP2Codestream.error(CODEC_DAMAGED, "a box of its header is invalid") }
        }
        guard !cursor.isCut, (palette == nil) == (channels == nil) else {
            throw JP2Codestream.error(CODEC_DAMAGED, "its header is incomplete")
        }
        if let refused, !hasColors {
            let name = Self.names[refused] ?? "number \(refused)"
            throw JP2Codestream.error(CODEC_UNSUPPORTED, "its colour space is \(name)")
        }
    }

    /// Enumerated colour spaces that are refused (ISO/IEC 15444-2, table M.25).
    private static let names = [
        0: "bilevel", 1: "YCbCr of BT.709", 3: "YCbCr of BT.601", 4: "YCbCr of BT.601", 9: "PhotoYCC", 11: "CMY",
        13: "YCCK", 14: "CIELab", 15: "bilevel", 19: "CIEJab", 20: "e-sRGB", 21: "ROMM RGB", 24: "e-sYCC",
    ]

    private mutating func readColors(
        _ bytes: Span<UInt8>, _ content: Range<Int>, _ isKnown: inout Bool, _ refused: inout Int?
    ) -> Bool {
        var reader = NumberReader(content)
        guard let method = reader.next(bytes, 1), reader.next(bytes, 2) != nil else { return false }
        if method == 2 || method == 3 {
            (profile, isKnown) = (reader.rest, true)
            let signature = reader.rest.lowerBound + 16
            if bytes.hasText("GRAY", at: signature) { space = .gray }
            if bytes.hasText("RGB ", at: signature) { space = .rgb }
            if bytes.hasText("CMYK", at: signature) { space = .cmyk }
        } else if method == 1 {
            guard let number = reader.next(bytes, 4) else { return false }
            let spaces = [12: Space.cmyk, 16: .rgb, 17: .gray, 18: .ycc]
            if let known = spaces[number] { (space, isKnown) = (known, true) } else { refused = refused ?? number }
        }
        return true
    }

    private mutating func readPalette(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        var reader = NumberReader(content)
        guard palette == nil, let count = reader.next(bytes, 2), (1...1024).contains(count),
            let columns = reader.next(bytes, 1), columns > 0
        else { return false }
        var (depths, isSigned) = ([Int](), [Bool]())
        for _ in 0..<columns {
            guard let depth = reader.next(bytes, 1), depth & 127 < 16 else { return false }
            depths.append(depth & 127 + 1)
            isSigned.append(depth > 127)
        }
        var palette = Palette(depths: depths, isSigned: isSigned)
        for _ in 0..<count {
            for depth in depths {
                guard let value = reader.next(bytes, depth > 8 ? 2 : 1) else { return false }
                palette.values.append(value)
            }
        }
        self.palette = palette
        return true
    }

    private mutating func readChannels(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        var reader = NumberReader(content)
        guard channels == nil, !content.isEmpty, content.count % 4 == 0, content.count <= 4 << 8 else { return false }
        var channels: [Channel] = []
        while let component = reader.next(bytes, 2), let kind = reader.next(bytes, 1),
            let column = reader.next(bytes, 1)
        {
            guard kind <= 1 else { return false }
            channels.append(Channel(component: component, column: kind == 1 ? column : nil))
        }
        self.channels = channels
        return true
    }

    private mutating func readDefinitions(_ bytes: Span<UInt8>, _ content: Range<Int>) -> Bool {
        var reader = NumberReader(content)
        guard definitions == nil, let count = reader.next(bytes, 2), count > 0, reader.rest.count >= 6 * count else {
            return false
        }
        var definitions: [Definition] = []
        while definitions.count < count, let channel = reader.next(bytes, 2), let kind = reader.next(bytes, 2),
            let association = reader.next(bytes, 2)
        {
            definitions.append(Definition(channel: channel, kind: kind, association: association))
        }
        self.definitions = definitions
        return true
    }
}

import CJP2Decoder
import IPCProtocol
import ImageDecoding
import WorkerProtocol

/// Decodes JPEG 2000, which OpenJPEG holds as samples of 32 bits, in a resolution that suffices.
struct JP2Decoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let codestream: JP2Codestream
    private let channels: JP2Channels
    private let reader: CodecReader

    init(_ source: ImageSource) throws(WireError) {
        let bytes = unsafe UnsafeBufferPointer(start: source.start, count: source.bytes.count)
        let container = unsafe try JP2Container(bytes.span)
        codestream = unsafe try JP2Codestream(bytes.span, in: container.codestream)
        if let damage = codestream.damage {
            // A second attempt needs a tile.
            guard source.toleratesDamage, codestream.missing.contains(false) else { throw JP2Codestream.error(damage) }
        }
        channels = try JP2Channels(container, codestream.components)
        reader = unsafe try CodecReader(of: source, in: codestream.usable, .jp2, create: codec_jp2_reader_create)
        if source.toleratesDamage, let part = codestream.cutPart {
            unsafe codec_jp2_reader_cut_part(reader.pointer, part - codestream.usable.lowerBound)
        }
        var header = codec_header()
        header.width = UInt32(codestream.horizontal.length)
        header.height = UInt32(codestream.vertical.length)
        let profile = unsafe container.profile.map { unsafe UnsafeBufferPointer(rebasing: bytes[$0]) }
        // Missing tiles are transparent.
        let isComplete = !codestream.missing.contains(true)
        header.has_alpha = channels.alpha != nil || (!isComplete && channels.space != .cmyk) ? 1 : 0
        if channels.space == .cmyk { header.space = CODEC_SPACE_CMYK }
        if container.space == .gray, container.profile != nil { header.space = CODEC_SPACE_GRAY }
        self.header = try StoredHeader(header)
        metadata = ImageMetadata(profile: unsafe profile.map { unsafe ColorProfile($0) } ?? .none)
    }

    /// It is decoded at once, but may have more pixels than are decoded.
    var streams: Bool { true }

    func size(keeping share: Double) -> DecodedSize {
        // OpenJPEG 2.5.0 reads beyond the data of an incomplete packet in a resolution that it leaves out.
        if reader.source.toleratesDamage { return DecodedSize(header.geometry, numerator: 1, denominator: 1) }
        var reduction = 0
        // As of a JPEG, 5 % less are accepted.
        while reduction < codestream.mostReduction, 1 / Double(2 << reduction) >= 0.95 * share { reduction += 1 }
        return DecodedSize(header.geometry, numerator: 1, denominator: 1 << reduction)
    }

    /// The number of resolutions that are left out of an image of `size`.
    private static func reduction(of size: DecodedSize) -> Int {
        Int((1 / size.horizontal).rounded()).trailingZeroBitCount
    }

    func workingBytes(at size: DecodedSize) -> Int {
        codestream.heldBytes(reduction: Self.reduction(of: size)) + RowBand.bytes(of: size.geometry)
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        let sources = channels.colors + (channels.alpha.map { [$0] } ?? [])
        for (place, source) in sources.enumerated() {
            try reader.check(
                unsafe codec_jp2_reader_set_channel(
                    reader.pointer, Int32(place), UInt32(source.component), Int32(source.offset), source.values,
                    UInt32(source.values.count)))
        }
        let geometry = size.geometry
        try reader.check(
            unsafe codec_jp2_reader_start(
                reader.pointer, format.codecOrder, colors, UInt32(Self.reduction(of: size)), UInt32(geometry.width),
                UInt32(geometry.height)))
        var row = 0
        unsafe try sink.takeBands(of: geometry) { (rows, count) throws(WireError) in
            try reader.check(
                unsafe codec_jp2_reader_read_rows(reader.pointer, rows.start, geometry.stride, UInt32(count)))
            if channels.isPremultiplied { unsafe unpremultiply(rows) }
            unsafe blank(rows, row..<row + count, size)
            row += count
        }
    }

    private var colors: codec_jp2_colors {
        [.ycc: CODEC_JP2_YCC, .cmyk: CODEC_JP2_INKS][channels.space] ?? CODEC_JP2_RGB
    }

    /// Makes the pixels of missing tiles transparent, or without ink.
    private func blank(_ rows: UnsafeMutableRawBufferPointer, _ range: Range<Int>, _ size: DecodedSize) {
        guard codestream.missing.contains(true) else { return }
        let reduced = { (pixels: Range<Int>) in
            let scale = 1 << Self.reduction(of: size)
            return (pixels.lowerBound + scale - 1) / scale..<(pixels.upperBound + scale - 1) / scale
        }
        let blank: UInt8 = channels.space == .cmyk ? 255 : 0
        let columns = codestream.horizontal.tiles
        for line in 0..<codestream.vertical.tiles {
            let tileRows = reduced(codestream.vertical.tile(line)).clamped(to: range)
            for column in 0..<columns where !tileRows.isEmpty && codestream.missing[line * columns + column] {
                let tileColumns = reduced(codestream.horizontal.tile(column))
                for row in tileRows {
                    let place = (row - range.lowerBound) * size.geometry.stride + 4 * tileColumns.lowerBound
                    for index in place..<place + 4 * tileColumns.count { unsafe rows[index] = blank }
                }
            }
        }
    }
}

extension DecodeProgram {
    static let jp2 = DecodeProgram(
        .jp2,
        unsafe ImageCodec(.jp2, library: codec_jp2_version(), orientation: "none") {
            (source, _) throws(WireError) in
            try JP2Decoder(source)
        }, samples: [smallJP2], prepare: { codec_silence() })
}

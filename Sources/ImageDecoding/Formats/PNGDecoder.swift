import CImageCodecs
package import IPCProtocol

/// Decodes still PNG: plain images with zlib, all others with libpng. Icons contain such files, too.
package struct PNGDecoder: ImageDecoder {
    package let header: StoredHeader
    /// The frames that follow the image and cannot be decoded.
    package var animation: Animation?

    private let reader: CodecReader
    private let readMetadata: (ImageSource) -> ImageMetadata
    /// The number of complete passes of an incomplete file.
    private var passes: Int?

    /// Reads the header of `source`, whose metadata `readMetadata` reads.
    package init(_ source: ImageSource, readMetadata: @escaping (ImageSource) -> ImageMetadata) throws(WireError) {
        reader = unsafe try CodecReader(of: source, .png, create: codec_png_reader_create)
        self.readMetadata = readMetadata
        header = try StoredHeader(unsafe reader.header(codec_png_reader_read_header))
    }

    private var source: ImageSource { reader.source }
    package var metadata: ImageMetadata { readMetadata(source) }
    // A pass adds pixels between those of the passes before.
    package var streams: Bool { header.passes == 1 }
    package var skipsRows: Bool { header.passes == 1 && !source.toleratesDamage }

    package mutating func findStage() throws(WireError) -> Int {
        guard header.passes > 1 else {
            throw WireError(.unsupportedFormat, "A PNG that is not interlaced cannot be decoded in parts.")
        }
        // Counts with a second reader, because a reader cannot go back.
        let other = try PNGDecoder(source, readMetadata: readMetadata)
        try other.reader.check(unsafe codec_png_reader_start(other.reader.pointer, CODEC_RGBA))
        let row = try PixelMemory(count: header.geometry.stride)
        var complete = 0
        do throws(WireError) {
            while complete < header.passes {
                for _ in 0..<header.geometry.height { unsafe try other.read(1, into: row.bytes) }
                complete += 1
            }
        } catch {
            guard error.code == .truncated, complete > 0 else { throw error }
        }
        passes = complete
        return complete
    }

    package func workingBytes(at size: DecodedSize) -> Int {
        Self.workingBytes(of: header.geometry, isInterlaced: header.passes > 1)
    }

    /// Returns an upper estimate for an image of this size, without reading it.
    package static func workingBytes(of size: PixelGeometry, isInterlaced: Bool) -> Int {
        // libpng's rows, with up to eight bytes a pixel.
        let rows = 4 * 8 * size.width
        return rows + (isInterlaced ? size.bytes : RowBand.bytes(of: size))
    }

    package func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try reader.check(unsafe codec_png_reader_start(reader.pointer, format.codecOrder))
        let geometry = header.geometry
        var kept = 0
        if header.passes > 1 {
            let raster = try PixelMemory(count: geometry.bytes, zeroed: source.toleratesDamage)
            // The pixels of passes that may be missing are filled.
            let spreads = source.toleratesDamage || passes != nil
            for _ in 0..<(passes ?? header.passes) {
                unsafe try read(geometry.height, into: raster.bytes, spreads: spreads)
            }
            unsafe try sink.takeWhole(raster.bytes, geometry)
            return
        }
        if size.rows.lowerBound > 0 {
            let row = try PixelMemory(count: geometry.stride)
            for _ in 0..<size.rows.lowerBound { unsafe try read(1, into: row.bytes) }
        }
        unsafe try sink.takeBands(of: size.used) { (rows, count) throws(WireError) in
            kept = unsafe source.release(from: kept, to: codec_png_reader_position(reader.pointer))
            unsafe try read(count, into: rows)
        }
    }

    private func read(
        _ count: Int, into rows: UnsafeMutableRawBufferPointer, spreads: Bool = false
    ) throws(WireError) {
        try reader.check(
            unsafe codec_png_reader_read_rows(
                reader.pointer, rows.start, header.geometry.stride, UInt32(count), spreads ? 1 : 0))
    }
}

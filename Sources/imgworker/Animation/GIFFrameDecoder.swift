import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes the visible part of one frame of a GIF with giflib.
struct GIFFrameDecoder: ImageDecoder {
    let header: StoredHeader
    let animation: Animation?

    private let source: ImageSource
    private let frame: codec_gif_frame

    /// Creates a decoder of `frame`, which stands for `animation` unless that is nil, without reading its pixels.
    /// Throws `too-many-pixels` if the frame's area is empty.
    init(_ source: ImageSource, _ frame: Animation.Frame, of animation: Animation? = nil) throws(WireError) {
        var header = codec_header()
        (header.width, header.height) = (UInt32(frame.width), UInt32(frame.height))
        let flags = source.withSpan { $0.integer(at: frame.data.lowerBound + 9, bytes: 1, .little) } ?? 0
        (header.has_alpha, header.passes) = (1, flags & 0x40 == 0 ? 1 : 4)
        self.header = try StoredHeader(header)
        (self.source, self.animation) = (source, animation)
        self.frame = codec_gif_frame(
            position: frame.data.lowerBound, width: header.width, height: header.height,
            transparent: frame.transparentIndex.map(Int32.init) ?? -1)
    }

    // The rows of an interlaced frame are stored in another order.
    var streams: Bool { header.passes == 1 }

    func workingBytes(at size: DecodedSize) -> Int {
        let size = header.geometry
        return streams ? RowBand.bytes(of: size) + Self.tableBytes : Self.workingBytes(ofFrame: size)
    }

    /// Returns an upper estimate for a frame of this size.
    static func workingBytes(ofFrame size: PixelGeometry) -> Int { size.bytes + tableBytes }

    /// The bytes of giflib's tables, palettes, and a row, which may extend beyond the canvas.
    private static let tableBytes = 128 << 10

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        var frame = frame
        let reader = unsafe try CodecReader(
            of: source, .gif, create: { unsafe codec_gif_reader_create($0, $1, &frame) })
        try reader.check(unsafe codec_gif_reader_start(reader.pointer, format.codecOrder))
        let read = { (rows: UnsafeMutableRawBufferPointer, count: Int) throws(WireError) in
            try reader.check(unsafe codec_gif_reader_read_rows(reader.pointer, rows.start, UInt32(count)))
        }
        guard unsafe codec_gif_reader_is_interlaced(reader.pointer) != 0 else {
            return unsafe try sink.takeBands(of: header.geometry, read)
        }
        let raster = try PixelMemory(count: header.geometry.bytes, zeroed: source.toleratesDamage)
        unsafe try read(raster.bytes, header.geometry.height)
        unsafe try sink.takeWhole(raster.bytes, header.geometry)
    }
}

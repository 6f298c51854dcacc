import IPCProtocol
import ImageDecoding
import WorkerProtocol

extension DecodeProgram {
    /// BMP, icons, PNM, QOI and TGA, decoded by code of this program; PNG in icons by libpng.
    static let bmp = DecodeProgram(
        .bmp,
        codec(.bmp, BMPReader.init(_:isWhole:)),
        unsafe ImageCodec(.ico, library: library, orientation: "none") { (source, _) throws(WireError) in
            try IconDecoder(source)
        },
        codec(.pnm, PNMReader.init(_:isWhole:)), codec(.qoi, QOIReader.init(_:isWhole:)),
        codec(.tga, TGAReader.init(_:isWhole:)), samples: samples)

    private static let library = "imgbroker \(ProductVersion.current)"

    private static func codec<Reader: RowReader & SendableMetatype>(
        _ format: ImageFormat, _ open: @escaping @Sendable (Span<UInt8>, Bool) throws(WireError) -> Reader
    ) -> ImageCodec {
        unsafe ImageCodec(format, library: library, orientation: "none") { (source, _) throws(WireError) in
            try RowDecoder(source, format, open: open)
        }
    }

    /// A small file of each format: 2 × 1 pixels, of the icon one pixel.
    private static let samples: [[UInt8]] = {
        let header: [UInt8] = [40, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 32, 0] + [UInt8](repeating: 0, count: 24)
        let icon: [UInt8] = [0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 32, 0, 48, 0, 0, 0, 22, 0, 0, 0]
        var bitmap = header
        (bitmap[4], bitmap[8], bitmap[14]) = (2, 1, 24)
        return [
            Array("BM".utf8) + [62, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0] + bitmap + [0, 0, 255, 255, 0, 0, 0, 0],
            icon + header + [0, 0, 255, 255, 0, 0, 0, 0], Array("P5 2 1 255 ab".utf8),
            Array("qoif".utf8) + [0, 0, 0, 2, 0, 0, 0, 1, 3, 0, 0xC1, 0, 0, 0, 0, 0, 0, 0, 1],
            [0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 24, 0, 0x81, 0, 0, 255],
        ]
    }()
}

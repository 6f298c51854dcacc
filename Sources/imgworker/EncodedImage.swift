import IPCProtocol
import LinuxSystem

/// A picture whose header has been read and found within its bounds: ready to be decoded, once.
struct EncodedImage {
    /// What a client is told: the size is the one shown.
    let header: ImageHeader

    private let orientation: Orientation
    private let decoder: any ImageDecoder

    /// Reads the header of `source`. No memory that grows with the picture is allocated.
    ///
    /// - Throws: `unsupported-format`, `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource, maxPixels: Int) throws(WireError) {
        guard let format = unsafe ImageFormat(sniffing: source.bytes.prefix(16)) else {
            throw WireError(.unsupportedFormat, "The bytes are no JPEG, PNG or WebP.")
        }
        decoder =
            switch format {
            case .jpeg: try JPEGDecoder(source, maxPixels: maxPixels)
            case .png: try PNGDecoder(source, maxPixels: maxPixels)
            case .webp: try WebPDecoder(source, maxPixels: maxPixels)
            }
        let (metadata, orientation) = source.withSpan { bytes in
            let metadata = ContainerMetadata(format, bytes)
            return (metadata, metadata.orientation(in: bytes))
        }
        self.orientation = orientation
        let stored = decoder.header.geometry
        let shown = orientation.swapsSides ? PixelGeometry(width: stored.height, height: stored.width) : stored
        header = ImageHeader(
            format: format, geometry: shown ?? stored,
            frameCount: max(1, metadata.animationFrames ?? decoder.header.frameCount))
    }

    /// Decodes the picture as shown into `output`, which has room for its bytes.
    ///
    /// - Throws: `truncated`, `decode-failed`, `out-of-memory` and the like.
    func decode(_ format: PixelFormat, _ alpha: AlphaMode, into output: FileDescriptor) throws(WireError) {
        var writer = try RowWriter(
            decoder.header.geometry, orientation: orientation,
            premultiplies: alpha == .premultiplied && decoder.header.hasAlpha, output: output)
        try decoder.decode(format, into: &writer)
    }
}

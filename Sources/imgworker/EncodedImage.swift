import IPCProtocol
import LinuxSystem

/// A picture whose header has been read and found within its bounds: ready to be decoded, once.
struct EncodedImage {
    /// What will be done; the sizes are the ones shown.
    let plan: DecodePlan

    private let transform: Transform
    private let orientation: Orientation
    private let decoder: any ImageDecoder

    /// Reads the header of `source` and plans what `job` asks for. No memory that grows with the picture is allocated.
    ///
    /// - Throws: `unsupported-format`, `too-many-pixels`, `truncated`, `decode-failed` and the like.
    init(_ source: ImageSource, for job: DecodeJob) throws(WireError) {
        guard let format = unsafe ImageFormat(sniffing: source.bytes.prefix(16)) else {
            throw WireError(.unsupportedFormat, "The bytes are no JPEG, PNG or WebP.")
        }
        decoder =
            switch format {
            case .jpeg: try JPEGDecoder(source, maxPixels: job.maxPixels)
            case .png: try PNGDecoder(source, maxPixels: job.maxPixels)
            case .webp: try WebPDecoder(source, maxPixels: job.maxPixels)
            }
        let (metadata, orientation) = source.withSpan { bytes in
            let metadata = ContainerMetadata(format, bytes)
            return (metadata, metadata.orientation(in: bytes))
        }
        self.orientation = orientation
        let stored = decoder.header.geometry
        let shown = orientation.swapsSides ? PixelGeometry(width: stored.height, height: stored.width) : stored
        let header = ImageHeader(
            format: format, geometry: shown ?? stored,
            frameCount: max(1, metadata.animationFrames ?? decoder.header.frameCount))
        transform = job.transform
        plan = DecodePlan(header: header, result: header.geometry, workingBytes: 0)
    }

    /// Decodes the picture as shown into `output`, which has room for its bytes.
    ///
    /// - Throws: `truncated`, `decode-failed`, `out-of-memory` and the like.
    func decode(into output: FileDescriptor) throws(WireError) {
        var writer = try RowWriter(
            decoder.header.geometry, orientation: orientation,
            premultiplies: transform.alpha == .premultiplied && decoder.header.hasAlpha, output: output)
        try decoder.decode(transform.pixelFormat, into: &writer)
    }
}

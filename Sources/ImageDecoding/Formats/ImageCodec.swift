package import IPCProtocol
package import WorkerProtocol

/// A supported format: an entry in the table of the program that decodes it.
package struct ImageCodec: Sendable {
    /// The format, recognized by the first bytes of a file.
    package let format: ImageFormat
    /// Opens a decoder of the frames that a job requests, and reads the header.
    let open: @Sendable (ImageSource, DecodeJob) throws(WireError) -> any ImageDecoder
    /// Reads properties of a file that decoding does not need.
    let details: @Sendable (ImageSource) -> ImageDetails
    /// Opens the previews in a file, one after the other.
    let previews: @Sendable (ImageSource, any ImageDecoder, _ offer: (any ImageDecoder) -> Void) -> Void
    /// The library's name and version.
    let library: String
    /// The metadata that contains a file's orientation.
    let orientation: String
    /// Whether a file may contain several images.
    let hasFrames: Bool
    /// Whether incomplete files of some kinds can be decoded.
    package let hasParts: Bool

    /// Creates an entry for `format`, which `library` (a constant text with name and version) decodes.
    package init(
        _ format: ImageFormat, library: UnsafePointer<CChar>, orientation: String = "EXIF", hasFrames: Bool = false,
        hasParts: Bool = false,
        details: @escaping @Sendable (ImageSource) -> ImageDetails = { _ in ImageDetails() },
        previews: @escaping @Sendable (ImageSource, any ImageDecoder, (any ImageDecoder) -> Void) -> Void = {
            _, _, _ in
        },
        open: @escaping @Sendable (ImageSource, DecodeJob) throws(WireError) -> any ImageDecoder
    ) {
        (self.format, self.open, self.details, self.previews) = (format, open, details, previews)
        self.library = unsafe String(cString: library)
        (self.orientation, self.hasFrames, self.hasParts) = (orientation, hasFrames, hasParts)
    }

    var row: FormatRow {
        FormatRow(
            format, hasFrames: hasFrames, isEncoded: Encoding.Format.allCases.contains { $0.imageFormat == format },
            orientation: orientation, library: library)
    }
}

extension [ImageCodec] {
    /// Returns the codec for the format of a file that begins with `bytes`; throws `unsupported-format`.
    func sniffing(_ bytes: some Collection<UInt8>) throws(WireError) -> ImageCodec {
        guard let format = ImageFormat(sniffing: bytes) else {
            let names = ImageFormat.files.map(\.name).joined(separator: ", ")
            throw WireError(.unsupportedFormat, "The bytes match none of the formats that are supported: \(names).")
        }
        if let codec = first(where: { $0.format == format }) { return codec }
        throw WireError(.unsupportedFormat, "\(format.name) is not among the formats of this decoder.")
    }
}

/// A decoder that has read its image's header.
struct OpenedImage {
    /// Nil for stored pixels.
    let codec: ImageCodec?
    let decoder: any ImageDecoder

    func goesOn(with job: DecodeJob) -> Bool {
        decoder.goesOn(with: job.transform.frames, mostPixels: job.maxSourcePixels)
    }
}

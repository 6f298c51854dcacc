import IPCProtocol

/// Decodes a preview in a file as if it were a stored size of the image.
struct PreviewDecoder: ImageDecoder {
    let header: StoredHeader
    let metadata: ImageMetadata

    private let preview: any ImageDecoder

    /// Takes the place of `image`; nil unless `preview` shows the same image in a smaller size.
    init?(_ preview: any ImageDecoder, of image: any ImageDecoder) {
        let (size, full) = (preview.header.geometry, image.header.geometry)
        guard Self.isSmaller(size, than: full), preview.header.space == image.header.space,
            preview.header.hasAlpha == image.header.hasAlpha
        else { return nil }
        // The image's orientation applies to the preview; the profile is the preview's own, if it has one.
        var metadata = image.metadata
        let own = preview.metadata.profile
        if own != .none { metadata.profile = own }
        (self.preview, header, self.metadata) = (preview, image.header, metadata)
    }

    /// Whether a size is smaller than that of the image, with its aspect ratio: a side may be rounded by a pixel either
    /// way.
    static func isSmaller(_ size: PixelGeometry, than full: PixelGeometry) -> Bool {
        guard size.width < full.width, size.height < full.height else { return false }
        let height = Double(full.height) * Double(size.width) / Double(full.width)
        let width = Double(full.width) * Double(size.height) / Double(full.height)
        return abs(height - Double(size.height)) <= 1 || abs(width - Double(size.width)) <= 1
    }

    var streams: Bool { true }
    var storesSizes: Bool { true }

    var size: PixelGeometry { preview.header.geometry }

    func size(keeping share: Double) -> DecodedSize { DecodedSize(header.geometry, stretchedTo: size) }

    func workingBytes(at _: DecodedSize) -> Int { preview.workingBytes(at: DecodedSize(full: size)) }

    func decode(_ format: PixelFormat, at _: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        try preview.decode(format, at: DecodedSize(full: size), into: &sink)
    }
}

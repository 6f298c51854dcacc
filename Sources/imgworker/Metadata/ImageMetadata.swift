import IPCProtocol

/// The metadata of an image that decoding uses.
struct ImageMetadata {
    var orientation: Orientation
    var profile: ColorProfile
    /// The number of images that the file declares.
    var frameCount: Int

    /// Creates metadata from known values.
    init(orientation: Orientation, profile: ColorProfile, frameCount: Int) {
        self.orientation = orientation
        self.profile = profile
        self.frameCount = frameCount
    }

    /// Reads the metadata of `source`, a file of `format` with `frameCount` images.
    init(_ source: ImageSource, _ format: ImageFormat, frameCount: Int) {
        self = source.withSpan { bytes in
            var kept = 0
            let found = ContainerMetadata(format, bytes) { kept = source.pass(from: kept, to: $0) }
            return ImageMetadata(
                orientation: found.orientation(in: bytes), profile: ColorProfile(found, in: bytes),
                frameCount: frameCount)
        }
    }
}

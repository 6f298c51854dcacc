import IPCProtocol

/// How a picture is to be shown, and what its colours are.
struct PictureMetadata {
    var orientation: Orientation
    var profile: ColorProfile
    /// How many pictures the file says to have.
    var frameCount: Int

    /// What is known already.
    init(orientation: Orientation, profile: ColorProfile, frameCount: Int) {
        self.orientation = orientation
        self.profile = profile
        self.frameCount = frameCount
    }

    /// What a walk through `source`, a file of `format` with so many pictures, finds.
    init(_ source: ImageSource, _ format: ImageFormat, frameCount: Int) {
        self = source.withSpan { bytes in
            var kept = 0
            let found = ContainerMetadata(format, bytes) { kept = source.pass(from: kept, to: $0) }
            return PictureMetadata(
                orientation: found.orientation(in: bytes), profile: ColorProfile(found, in: bytes),
                frameCount: frameCount)
        }
    }
}

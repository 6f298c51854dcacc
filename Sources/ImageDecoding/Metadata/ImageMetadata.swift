/// The metadata of an image that decoding uses.
package struct ImageMetadata {
    package var orientation: Orientation
    package var profile: ColorProfile
    package var frameCount: Int

    /// Creates metadata from known values, by default those of a file without any.
    package init(orientation: Orientation = .upright, profile: ColorProfile = .none, frameCount: Int = 1) {
        (self.orientation, self.profile, self.frameCount) = (orientation, profile, frameCount)
    }
}

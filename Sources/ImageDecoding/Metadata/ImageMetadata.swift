/// The metadata of an image that decoding uses.
package struct ImageMetadata {
    package var orientation: Orientation
    package var profile: ColorProfile
    /// The number of images that the file declares.
    package var frameCount: Int

    /// Creates metadata from known values.
    package init(orientation: Orientation, profile: ColorProfile, frameCount: Int) {
        self.orientation = orientation
        self.profile = profile
        self.frameCount = frameCount
    }
}

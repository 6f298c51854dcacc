/// The metadata of an image that decoding uses.
package struct ImageMetadata {
    package var orientation: Orientation
    package var profile: ColorProfile

    /// Creates metadata from known values, by default those of a file without any.
    package init(orientation: Orientation = .upright, profile: ColorProfile = .none) {
        (self.orientation, self.profile) = (orientation, profile)
    }
}

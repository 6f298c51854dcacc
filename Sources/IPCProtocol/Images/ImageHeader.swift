/// What a picture's header says, and what decoding it has shown.
package struct ImageHeader: Hashable, Sendable {
    /// The most frames that a picture may have.
    package static let maximumFrames = 65_535

    /// What its bytes are.
    package var format: ImageFormat
    /// Its size as shown, orientation applied.
    package var geometry: PixelGeometry
    /// Frames of an animation, else 1; 65,535 at most.
    package var frameCount: Int
    /// When its frames are shown; nil until all were decoded.
    package var timing: AnimationTiming?
    /// What can be shown before it; nil until it was decoded.
    package var placeholder: Placeholder?

    /// A header with what it says.
    package init(format: ImageFormat, geometry: PixelGeometry, frameCount: Int = 1) {
        self.format = format
        self.geometry = geometry
        self.frameCount = frameCount
    }
}

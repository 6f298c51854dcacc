/// The properties of an image from its header and from decoding.
package struct ImageHeader: Hashable, Sendable {
    package static let maximumFrames = 65_535

    /// The format of the original.
    package var format: ImageFormat
    /// The size with the orientation applied.
    package var geometry: PixelGeometry
    /// The number of frames, 1 … 65,535; 1 for a still image.
    package var frameCount: Int
    /// The timing of the animation; nil until all frames were decoded.
    package var timing: AnimationTiming?
    /// The placeholder; nil until the image was decoded.
    package var placeholder: Placeholder?
    /// The further properties; nil until they were asked for.
    package var facts: ImageFacts? {
        get { if case .facts(let facts) = details { facts } else { nil } }
        set { details = newValue.map(Details.facts) }
    }
    private var details: Details?

    /// Few headers have facts, so these have memory of their own.
    private indirect enum Details: Hashable, Sendable {
        case facts(ImageFacts)
    }

    /// Creates a header without timing and placeholder.
    package init(format: ImageFormat, geometry: PixelGeometry, frameCount: Int = 1) {
        self.format = format
        self.geometry = geometry
        self.frameCount = frameCount
    }

    /// Returns the number of frames of a result. All that can be encoded of several images that are no animation are
    /// the first.
    package func count(of frames: FrameSelection, as encoding: Encoding?) -> Int {
        encoding != nil && !format.hasAnimations ? 1 : frames.count(of: frameCount)
    }

    /// A header from which reading starts.
    package static var blank: ImageHeader { ImageHeader(format: .png, geometry: .blank) }
}

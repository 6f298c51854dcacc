/// What is made of a picture's pixels: their size and their form. Equal transforms of equal bytes are equal results, so
/// everything that changes a byte of the result is in here, and nothing else.
public struct Transform: Hashable, Sendable {
    /// How a picture is brought into a box, named as in CSS.
    public enum Fit: String, CaseIterable, Sendable {
        /// Within the box, aspect kept, never enlarged.
        case inside
        /// As large as fits into the box, aspect kept; no padding.
        case contain
        /// Exactly the box, aspect kept: what sticks out is cropped on both sides alike.
        case cover
        /// Exactly the box, distorted.
        case fill
    }

    /// The box's width in pixels; nil: as the height demands.
    package var width: Int?
    /// The box's height in pixels; nil: as the width demands.
    package var height: Int?
    /// How the picture is brought into the box.
    package var fit: Fit
    /// The most bytes of pixels that the result may have, with all its frames: a larger one is made smaller, aspect kept.
    /// Nil: no limit of this kind.
    package var byteLimit: Int?
    /// The order of a pixel's bytes.
    package var pixelFormat: PixelFormat
    /// How colour is stored beside alpha.
    package var alpha: AlphaMode
    /// The frames of an animation that are wanted.
    package var frames: FrameSelection
    /// Whether light is what is filtered, instead of sRGB's values: fine bright detail keeps its brightness. Takes longer.
    package var isLight: Bool

    /// A transform in its canonical form: without a box there is no fit, and without scaling nothing is filtered.
    package init(
        width: Int? = nil, height: Int? = nil, fit: Fit = .inside, byteLimit: Int? = nil,
        pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied, frames: FrameSelection = .one(0),
        isLight: Bool = false
    ) {
        self.width = width
        self.height = height
        self.fit = width == nil && height == nil ? .inside : fit
        self.byteLimit = byteLimit
        self.pixelFormat = pixelFormat
        self.alpha = alpha
        self.frames = frames
        self.isLight = isLight && (width != nil || height != nil || byteLimit != nil)
    }

    /// Where the result comes from and how large it is.
    package struct Plan: Equatable, Sendable {
        /// The part of the source that is used, in pixels as shown: all of it but for `cover`.
        package struct Crop: Equatable, Sendable {
            package var x, y, width, height: Double
        }

        /// The result's size.
        package let result: PixelGeometry
        /// The part of the source that becomes the result.
        package let crop: Crop
        /// Whether the result is the source, pixel by pixel.
        package let isIdentity: Bool
    }

    /// The plan for a source of this size, as shown, and so many frames. Sizes are rounded to whole pixels, one at least;
    /// nil when a side would have more than 65,535.
    package func plan(for source: PixelGeometry, frameCount: Int = 1) -> Plan? {
        var (resultWidth, resultHeight) = boxed(source)
        if let byteLimit {
            // All frames that are wanted share it.
            let limit = byteLimit / max(frames.count(of: frameCount), 1)
            (resultWidth, resultHeight) = Self.limited((resultWidth, resultHeight), to: limit)
        }
        let sides = 1...Double(PixelGeometry.maximumSide)
        guard sides.contains(resultWidth), sides.contains(resultHeight),
            let result = PixelGeometry(width: Int(resultWidth), height: Int(resultHeight))
        else { return nil }
        var crop = Plan.Crop(x: 0, y: 0, width: Double(source.width), height: Double(source.height))
        // With one side missing the result follows the source's aspect, and only rounding is left between them.
        if fit == .cover, width != nil, height != nil { crop = Self.middle(of: source, withAspectOf: result) }
        let isWhole = crop.width == Double(source.width) && crop.height == Double(source.height)
        return Plan(result: result, crop: crop, isIdentity: isWhole && result == source)
    }

    /// Whether the size may change at all.
    package var isScaling: Bool { width != nil || height != nil || byteLimit != nil }

    /// The size that the box gives to `source`, in whole pixels.
    private func boxed(_ source: PixelGeometry) -> (width: Double, height: Double) {
        let (sourceWidth, sourceHeight) = (Double(source.width), Double(source.height))
        var scale = min(
            width.map { Double($0) / sourceWidth } ?? .infinity, height.map { Double($0) / sourceHeight } ?? .infinity)
        if scale == .infinity || fit == .inside { scale = min(scale, 1) }
        let scaled = { (side: Double) in max(1, (side * scale).rounded()) }
        switch fit {
        case .inside, .contain: return (scaled(sourceWidth), scaled(sourceHeight))
        case .cover, .fill:
            return (width.map(Double.init) ?? scaled(sourceWidth), height.map(Double.init) ?? scaled(sourceHeight))
        }
    }

    /// A size that is over `byteLimit` made smaller by the rule of SDWebImage (`SDImageCoderHelper`): the width is the
    /// root of the pixels by the ratio of height to width, the height is that times the ratio, both rounded down. A side
    /// of one pixel cannot give way, so the other does.
    private static func limited(
        _ size: (width: Double, height: Double), to byteLimit: Int
    ) -> (width: Double, height: Double) {
        let pixels = Double(max(byteLimit / PixelGeometry.bytesPerPixel, 1))
        guard size.width * size.height > pixels else { return size }
        let ratio = size.height / size.width
        let width = (pixels / ratio).squareRoot()
        let (whole, wholeHeight) = (max(1, width.rounded(.down)), max(1, (width * ratio).rounded(.down)))
        return (
            min(whole, max(1, (pixels / wholeHeight).rounded(.down))),
            min(wholeHeight, max(1, (pixels / whole).rounded(.down)))
        )
    }

    /// The largest part of `source` with the aspect of `shape`, from the middle.
    private static func middle(of source: PixelGeometry, withAspectOf shape: PixelGeometry) -> Plan.Crop {
        // Whole numbers tell which side sticks out; below 2^32 they are exact.
        let (wide, high) = (source.width * shape.height, source.height * shape.width)
        let width = wide > high ? Double(high) / Double(shape.height) : Double(source.width)
        let height = high > wide ? Double(wide) / Double(shape.width) : Double(source.height)
        return Plan.Crop(
            x: (Double(source.width) - width) / 2, y: (Double(source.height) - height) / 2, width: width,
            height: height)
    }

    /// The transform as one word, for names of files and digests. Equal transforms have equal words.
    package var canonical: String {
        let box = width == nil && height == nil ? "full" : "\(width ?? 0)x\(height ?? 0)-\(fit.rawValue)"
        let frame = frames == .one(0) ? "" : "-frame-\(frames)"
        return "\(box)-\(byteLimit ?? 0)-\(pixelFormat.rawValue)-\(alpha.rawValue)\(frame)\(isLight ? "-light" : "")"
    }
}

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
    public var width: Int?
    /// The box's height in pixels; nil: as the width demands.
    public var height: Int?
    /// How the picture is brought into the box.
    public var fit: Fit
    /// The most bytes of pixels that the result may have: a larger one is made smaller, aspect kept. Nil: no limit of
    /// this kind.
    public var byteLimit: Int?
    /// The order of a pixel's bytes.
    public var pixelFormat: PixelFormat
    /// How colour is stored beside alpha.
    public var alpha: AlphaMode

    /// A transform in its canonical form: without a box there is no fit.
    public init(
        width: Int? = nil, height: Int? = nil, fit: Fit = .inside, byteLimit: Int? = nil,
        pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied
    ) {
        self.width = width
        self.height = height
        self.fit = width == nil && height == nil ? .inside : fit
        self.byteLimit = byteLimit
        self.pixelFormat = pixelFormat
        self.alpha = alpha
    }

    /// Where the result comes from and how large it is.
    public struct Plan: Equatable, Sendable {
        /// The part of the source that is used, in pixels as shown: all of it but for `cover`.
        public struct Crop: Equatable, Sendable {
            public var x, y, width, height: Double
        }

        /// The result's size.
        public let result: PixelGeometry
        /// The part of the source that becomes the result.
        public let crop: Crop
        /// Whether the result is the source, pixel by pixel.
        public let isIdentity: Bool
    }

    /// The plan for a source of this size, as shown. Sizes are rounded to whole pixels, one at least; nil when a side
    /// would have more than 65,535.
    public func plan(for source: PixelGeometry) -> Plan? {
        let (sourceWidth, sourceHeight) = (Double(source.width), Double(source.height))
        var (resultWidth, resultHeight) = (sourceWidth, sourceHeight)
        var crop = Plan.Crop(x: 0, y: 0, width: sourceWidth, height: sourceHeight)
        if width != nil || height != nil {
            let horizontal = width.map { Double($0) / sourceWidth }
            let vertical = height.map { Double($0) / sourceHeight }
            let scale = min(horizontal ?? .infinity, vertical ?? .infinity)
            switch fit {
            case .inside, .contain:
                let scale = fit == .inside ? min(scale, 1) : scale
                (resultWidth, resultHeight) = (sourceWidth * scale, sourceHeight * scale)
            case .cover, .fill:
                resultWidth = width.map(Double.init) ?? (sourceWidth * scale).rounded()
                resultHeight = height.map(Double.init) ?? (sourceHeight * scale).rounded()
            }
        }
        (resultWidth, resultHeight) = (max(1, resultWidth.rounded()), max(1, resultHeight.rounded()))
        if let byteLimit, resultWidth * resultHeight * Double(PixelGeometry.bytesPerPixel) > Double(byteLimit) {
            let pixels = Double(max(byteLimit / PixelGeometry.bytesPerPixel, 1))
            let factor = (pixels / (resultWidth * resultHeight)).squareRoot()
            (resultWidth, resultHeight) = (
                max(1, (resultWidth * factor).rounded(.down)), max(1, (resultHeight * factor).rounded(.down))
            )
        }
        if fit == .cover, width != nil || height != nil {
            // The largest part of the source with the result's aspect, from the middle.
            let aspect = resultWidth / resultHeight
            let (cropWidth, cropHeight) =
                sourceWidth > sourceHeight * aspect
                ? (sourceHeight * aspect, sourceHeight) : (sourceWidth, sourceWidth / aspect)
            crop = Plan.Crop(
                x: (sourceWidth - cropWidth) / 2, y: (sourceHeight - cropHeight) / 2, width: cropWidth,
                height: cropHeight)
        }
        guard resultWidth <= Double(PixelGeometry.maximumSide), resultHeight <= Double(PixelGeometry.maximumSide),
            let result = PixelGeometry(width: Int(resultWidth), height: Int(resultHeight))
        else { return nil }
        let isWhole = crop == Plan.Crop(x: 0, y: 0, width: sourceWidth, height: sourceHeight)
        return Plan(result: result, crop: crop, isIdentity: isWhole && result == source)
    }

    /// Whether the size may change at all.
    public var isScaling: Bool { width != nil || height != nil || byteLimit != nil }

    /// The transform as one word, for names of files and digests. Equal transforms have equal words.
    public var canonical: String {
        let box = width == nil && height == nil ? "full" : "\(width ?? 0)x\(height ?? 0)-\(fit.rawValue)"
        return "\(box)-\(byteLimit ?? 0)-\(pixelFormat.rawValue)-\(alpha.rawValue)"
    }
}

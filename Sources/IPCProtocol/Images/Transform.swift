package import JSONCoding

/// The size and form of the pixels of a variant. Equal transforms of equal bytes give equal results, so this type has
/// exactly the parameters that affect the bytes of the result.
public struct Transform: Hashable, Sendable {
    /// The ways to fit an image into a box, named as in CSS.
    public enum Fit: String, CaseIterable, Sendable {
        /// Within the box, aspect ratio kept; a vector image fills it, any other is never enlarged.
        case inside
        /// As large as fits into the box, aspect ratio kept, no padding.
        case contain
        /// Exactly the box, aspect ratio kept; the excess is cropped, equally on both sides unless a position is given.
        case cover
        /// Exactly the box, distorted.
        case fill
    }

    /// The box's width in pixels; nil: follows from the height.
    package var width: Int?
    /// The box's height in pixels; nil: follows from the width.
    package var height: Int?
    /// The way to fit the image into the box.
    package var fit: Fit
    /// The maximum number of bytes of pixels of the scaled result, all frames included; a larger one is scaled down,
    /// aspect ratio kept. Nil: no limit.
    package var byteLimit: Int?
    /// The bytes of a pixel.
    package var pixelFormat: PixelFormat
    /// The relation of the colour channels to alpha.
    package var alpha: AlphaMode
    /// The colour under pixels without alpha; white for other formats.
    package var background: Color
    /// The requested frames of an animation.
    package var frames: FrameSelection
    /// Whether scaling filters linear light instead of sRGB values. It keeps the brightness of fine bright detail, and
    /// is slower.
    package var isLight: Bool
    /// The crop before scaling, the position and the steps after it; nil for none.
    package var edits: Edits?

    /// Whether as much as possible of a damaged image is decoded. The pixels of a sound image do not depend on it.
    package var acceptsDamage: Bool
    /// Whether a preview in the file that is at least as large as the result is decoded instead of the image.
    package var prefersPreview: Bool
    /// The metadata blocks that follow the pixels.
    package var metadata: MetadataKinds

    /// Creates a transform in its canonical form: without a box there is no fit, without scaling there is no filter,
    /// without alpha there is no mode of it, with alpha there is no background, and no step and no position is without
    /// effect.
    package init(
        width: Int? = nil, height: Int? = nil, fit: Fit = .inside, byteLimit: Int? = nil,
        pixelFormat: PixelFormat = .rgba8, alpha: AlphaMode = .premultiplied, background: Color = .white,
        frames: FrameSelection = .one(0), isLight: Bool = false, edits: Edits? = nil, acceptsDamage: Bool = false,
        prefersPreview: Bool = false, metadata: MetadataKinds = []
    ) {
        self.width = width
        self.height = height
        self.fit = width == nil && height == nil ? .inside : fit
        self.byteLimit = byteLimit
        self.pixelFormat = pixelFormat
        self.alpha = pixelFormat.hasAlpha ? alpha == .opaque ? .premultiplied : alpha : .opaque
        self.background = pixelFormat.hasAlpha ? .white : background
        self.frames = frames
        self.isLight = isLight && (width != nil || height != nil || byteLimit != nil)
        self.edits = edits?.canonical(covers: fit == .cover && width != nil && height != nil)
        self.acceptsDamage = acceptsDamage
        // Set below.
        (self.prefersPreview, self.metadata) = (false, [])
        if prefersPreview || !metadata.isEmpty { self = Transform(self, preview: prefersPreview, metadata: metadata) }
    }

    /// Creates a transform that is otherwise like `other`.
    package init(_ other: Transform, preview: Bool, metadata: MetadataKinds) {
        self = other
        // Without a box the result is as large as the image; the preview shows the first frame.
        prefersPreview = preview && (width != nil || height != nil || byteLimit != nil) && frames == .one(0)
        self.metadata = metadata
    }

    /// The source area and the size of a result.
    package struct Plan: Equatable, Sendable {
        /// The part of the area that is scaled, in pixels with the orientation applied: all of it except for `cover`.
        package struct Crop: Equatable, Sendable {
            package var x, y, width, height: Double

            package init(x: Double, y: Double, width: Double, height: Double) {
                (self.x, self.y, self.width, self.height) = (x, y, width, height)
            }
        }

        package let result: PixelGeometry
        /// The size after scaling, before the part that the contents decide is cropped, and before the steps.
        package let scaled: PixelGeometry
        /// The part of the scaled image that its contents decide; nil for all of it.
        package var search: Search?
        /// The used area of the source as shown; nil for all of it.
        package let area: IPCProtocol.Crop?
        /// The part of that area that is scaled.
        package let crop: Crop
        /// Whether scaling changes no pixel of the area.
        package let isIdentity: Bool

        /// A part of the scaled image that its contents decide.
        package struct Search: Equatable, Sendable {
            package let size: PixelGeometry
            /// `entropy` or `attention`.
            package let position: Position
        }

        package var beforeSteps: PixelGeometry { search?.size ?? scaled }
    }

    /// Returns the plan for a source of this size, orientation applied, with `frameCount` frames. A vector image has no
    /// pixels to enlarge: it is rendered in any size. Sizes are rounded to whole pixels, at least 1.
    ///
    /// - Throws: `too-many-pixels` when a side would exceed 65,535 pixels; `bad-request` when the crop leaves the
    ///   source.
    package func checkedPlan(
        for source: PixelGeometry, frameCount: Int = 1, isVector: Bool = false
    ) throws(WireError) -> Plan {
        guard let crop = edits?.crop else {
            return try plan(ofArea: source, nil, frameCount: frameCount, isVector: isVector)
        }
        guard let area = crop.geometry(in: source) else {
            let size = "\(crop.width) × \(crop.height) pixels from \(crop.x), \(crop.y)"
            throw WireError(
                .badRequest, "variant.crop leaves the image: \(size) of \(source.width) × \(source.height).")
        }
        return try plan(ofArea: area, area == source ? nil : crop, frameCount: frameCount, isVector: isVector)
    }

    /// Returns the plan for a source of this size; nil if it has no plan.
    package func plan(for source: PixelGeometry, frameCount: Int = 1) -> Plan? {
        try? checkedPlan(for: source, frameCount: frameCount)
    }

    /// Returns the plan for an image; nil if it has no plan.
    package func plan(for image: ImageHeader, as encoding: Encoding? = nil) -> Plan? {
        try? checkedPlan(for: image, as: encoding)
    }

    /// Returns the plan for an image.
    ///
    /// - Throws: as that for a size.
    package func checkedPlan(for image: ImageHeader, as encoding: Encoding?) throws(WireError) -> Plan {
        try checkedPlan(
            for: image.geometry, frameCount: image.count(of: .all, as: encoding), isVector: image.format.isVector)
    }

    private func plan(
        ofArea source: PixelGeometry, _ area: IPCProtocol.Crop?, frameCount: Int, isVector: Bool
    ) throws(WireError) -> Plan {
        var (resultWidth, resultHeight) = boxed(source, isVector: isVector)
        if let byteLimit {
            // The requested frames share the limit.
            let limit = byteLimit / max(frames.count(of: frameCount), 1)
            (resultWidth, resultHeight) = Self.limited(
                (resultWidth, resultHeight), toPixels: limit / pixelFormat.bytesPerPixel)
        }
        let sides = 1...Double(PixelGeometry.maximumSide)
        guard sides.contains(resultWidth), sides.contains(resultHeight),
            let boxed = PixelGeometry(width: Int(resultWidth), height: Int(resultHeight))
        else {
            throw WireError(.tooManyPixels, "A side of the result would have more than 65535 pixels.")
        }
        var (scaled, search) = (boxed, Plan.Search?.none)
        var crop = Plan.Crop(x: 0, y: 0, width: Double(source.width), height: Double(source.height))
        // With only one side given, the result has the source's aspect ratio except for rounding, so no crop is needed.
        if fit == .cover, width != nil, height != nil {
            if let position = edits?.position, position.focus == nil {
                scaled = try Self.covering(boxed, with: source)
                if scaled != boxed { search = Plan.Search(size: boxed, position: position) }
            } else {
                crop = Self.part(of: source, withAspectOf: boxed, around: edits?.position?.focus ?? (0.5, 0.5))
            }
        }
        let isWhole = crop.width == Double(source.width) && crop.height == Double(source.height)
        let result = edits?.steps.reduce(boxed) { $1.result(of: $0) } ?? boxed
        return Plan(
            result: result, scaled: scaled, search: search, area: area, crop: crop,
            isIdentity: isWhole && scaled == source)
    }

    /// Returns the least size with the aspect ratio of `source`, in whole pixels, that covers `box`.
    ///
    /// - Throws: `too-many-pixels` when a side would exceed 65,535 pixels.
    private static func covering(_ box: PixelGeometry, with source: PixelGeometry) throws(WireError) -> PixelGeometry {
        let scale = max(
            Double(box.width) / Double(source.width), Double(box.height) / Double(source.height))
        let (width, height) = (Double(source.width) * scale, Double(source.height) * scale)
        let size = PixelGeometry(
            width: max(box.width, Int(width.rounded())), height: max(box.height, Int(height.rounded())))
        guard let size else {
            let message = "A side of the scaled image, of which a part is searched, would have more than 65535 pixels."
            throw WireError(.tooManyPixels, message)
        }
        return size
    }

    /// Whether the result may be more than the source in another form: scaled, cropped or processed.
    package var isDerived: Bool { width != nil || height != nil || byteLimit != nil || edits != nil }

    /// Returns the size of `source` fitted into the box, in whole pixels.
    private func boxed(_ source: PixelGeometry, isVector: Bool) -> (width: Double, height: Double) {
        let (sourceWidth, sourceHeight) = (Double(source.width), Double(source.height))
        var scale = min(
            width.map { Double($0) / sourceWidth } ?? .infinity, height.map { Double($0) / sourceHeight } ?? .infinity)
        if scale == .infinity || fit == .inside && !isVector { scale = min(scale, 1) }
        let scaled = { (side: Double) in max(1, (side * scale).rounded()) }
        switch fit {
        case .inside, .contain: return (scaled(sourceWidth), scaled(sourceHeight))
        case .cover, .fill:
            return (width.map(Double.init) ?? scaled(sourceWidth), height.map(Double.init) ?? scaled(sourceHeight))
        }
    }

    /// Scales a size above `pixels` down by the rule of SDWebImage (`SDImageCoderHelper`): the width is the square
    /// root of (pixels / ratio), where ratio is height / width; the height is that width times the ratio; both are
    /// rounded down. A side of one pixel cannot shrink, so the other side shrinks further.
    private static func limited(
        _ size: (width: Double, height: Double), toPixels pixels: Int
    ) -> (width: Double, height: Double) {
        let pixels = Double(max(pixels, 1))
        guard size.width * size.height > pixels else { return size }
        let ratio = size.height / size.width
        let width = (pixels / ratio).squareRoot()
        let (whole, wholeHeight) = (max(1, width.rounded(.down)), max(1, (width * ratio).rounded(.down)))
        return (
            min(whole, max(1, (pixels / wholeHeight).rounded(.down))),
            min(wholeHeight, max(1, (pixels / whole).rounded(.down)))
        )
    }

    /// Returns the largest part of `source` with the aspect ratio of `shape`, in which the focal point is as near to
    /// the middle as the source reaches.
    private static func part(
        of source: PixelGeometry, withAspectOf shape: PixelGeometry, around focus: (x: Double, y: Double)
    ) -> Plan.Crop {
        // Compare the aspect ratios as integer products, which are exact below 2^32.
        let (wide, high) = (source.width * shape.height, source.height * shape.width)
        let width = wide > high ? Double(high) / Double(shape.height) : Double(source.width)
        let height = high > wide ? Double(wide) / Double(shape.width) : Double(source.height)
        let start = { (focus: Double, side: Int, part: Double) in
            min(max(0, (2 * focus * Double(side) - part) / 2), Double(side) - part)
        }
        return Plan.Crop(
            x: start(focus.x, source.width, width), y: start(focus.y, source.height, height), width: width,
            height: height)
    }

    /// The transform as one word, for file names and digests. Equal transforms have equal words, and so have those that
    /// differ in `acceptsDamage`, `prefersPreview` and `metadata` only, because no file has a damaged image, a preview
    /// or metadata.
    package var canonical: String {
        let box = width == nil && height == nil ? "full" : "\(width ?? 0)x\(height ?? 0)-\(fit.rawValue)"
        let frame = frames == .one(0) ? "" : "-frame-\(frames)"
        let under = pixelFormat.hasAlpha ? alpha.rawValue : String(background.description.dropFirst())
        let form = "\(pixelFormat.rawValue)-\(under)"
        return "\(box)-\(byteLimit ?? 0)-\(form)\(frame)\(isLight ? "-light" : "")\(edits?.word ?? "")"
    }
}

extension Transform: FieldList {
    package static var blank: Transform { Transform() }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("width", &width, in: 1...PixelGeometry.maximumSide)
        fields.integer("height", &height, in: 1...PixelGeometry.maximumSide)
        fields.choice("fit", &fit)
        fields.integer("byteLimit", &byteLimit, in: 1...Int.max)
        fields.choice("pixelFormat", &pixelFormat)
        fields.choice("alpha", &alpha)
        if !pixelFormat.hasAlpha { fields.color("background", &background, isOpaque: true) }
        fields.frames("frame", &frames)
        fields.boolean("linear", &isLight)
        fields.edits(&edits)
        fields.flag("acceptsDamage", &acceptsDamage)
        fields.flag("prefersPreview", &prefersPreview)
        fields.metadataKinds("metadata", &metadata)
        if fields.isReading {
            // In its canonical form.
            self = Transform(
                width: width, height: height, fit: fit, byteLimit: byteLimit, pixelFormat: pixelFormat, alpha: alpha,
                background: background, frames: frames, isLight: isLight, edits: edits,
                acceptsDamage: acceptsDamage, prefersPreview: prefersPreview, metadata: metadata)
        }
    }
}

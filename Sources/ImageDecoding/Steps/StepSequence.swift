import IPCProtocol

/// The steps of a transform in the order of their execution: functions of single pixels that are applied to rows as
/// they come, and then those that need the whole image.
struct StepSequence {
    let colors: ColorFunctions?
    /// Whether the image may be transparent after those, and after all steps.
    let isTransparentAfterColors, isTransparent: Bool
    /// Whether the whole image is needed.
    var needsRaster: Bool { search != nil || !rest.isEmpty }

    /// Whether the image is to have straight alpha when it comes.
    let takesStraightAlpha: Bool

    private let rest: ArraySlice<Step>
    private let order: PixelFormat
    private let search: PartSearch?
    /// The ratio in which a canvas is divided.
    private let focus: (x: Double, y: Double)

    init(_ edits: Edits?, _ search: Transform.Plan.Search?, _ order: PixelFormat, isTransparent: Bool) {
        let steps = edits?.steps ?? []
        self.search = search.map(PartSearch.init)
        takesStraightAlpha = search != nil || !steps.isEmpty
        focus = edits?.position?.focus ?? (0.5, 0.5)
        var rest = steps[...]
        // The search is in the image without steps.
        colors = search == nil ? ColorFunctions(takenFrom: &rest, order) : nil
        self.rest = rest
        self.order = order
        let transparency = { (isTransparent: Bool, step: Step) in step.mayBeTransparent(isTransparent) }
        isTransparentAfterColors = steps[..<rest.startIndex].reduce(isTransparent, transparency)
        self.isTransparent = rest.reduce(isTransparentAfterColors, transparency)
    }

    /// Checks that no size between the steps is above `most` pixels a frame. Throws `too-many-pixels`, with the step's
    /// index.
    static func check(_ steps: [Step], from scaled: PixelGeometry, frames: Int, atMost most: Int) throws(WireError) {
        var size = scaled
        for (index, step) in steps.enumerated() {
            size = step.result(of: size)
            try size.check(frames: frames, atMost: most, "variant.steps[\(index)] (\(step.operation.rawValue)) makes")
        }
    }

    /// Returns the bytes that the steps hold besides their result, for an image of size `scaled`.
    func workingBytes(from scaled: PixelGeometry) -> Int {
        guard needsRaster else { return 0 }
        var (size, most) = (scaled, scaled.bytes)
        if let search {
            most += search.size.bytes + PartSearch.workingBytes(from: scaled)
            size = search.size
        }
        for step in rest {
            let result = step.result(of: size)
            most = max(most, size.bytes + Self.extraBytes(step, from: size, to: result))
            size = result
        }
        return most
    }

    private static func extraBytes(_ step: Step, from size: PixelGeometry, to result: PixelGeometry) -> Int {
        switch step {
        case .rotate(let degrees): degrees == 180 ? result.bytes : 2 * result.bytes
        case .flip, .pad: result.bytes
        case .blur: Raster.blurBytes(size)
        case .sharpen: size.bytes + Raster.blurBytes(size)
        case .round: Raster.coverageBytes(size)
        case .circle: result.bytes + Raster.coverageBytes(result)
        case .function, .hueRotate, .tint, .background: 0
        }
    }

    /// Crops to the part that is searched, and applies the steps that need the whole image; throws `out-of-memory`.
    func apply(to raster: inout Raster) throws(WireError) {
        try search?.apply(to: &raster, order)
        var left = rest
        while let step = left.first {
            if let colors = ColorFunctions(takenFrom: &left, order) {
                unsafe colors.apply(to: raster.memory.bytes)
                continue
            }
            left.removeFirst()
            switch step {
            case .rotate(90): try raster.turn(.rotatedRight)
            case .rotate(180): try raster.turn(.rotatedHalf)
            case .rotate: try raster.turn(.rotatedLeft)
            case .flip(.horizontal): try raster.turn(.mirrored)
            case .flip(.vertical): try raster.turn(.flipped)
            case .blur(let sigma): try raster.blur(sigma)
            case .sharpen(let sigma, let amount): try raster.sharpen(sigma, amount)
            case .round(let radius): try raster.round(radius)
            case .circle: try raster.roundToCircle()
            case .pad(let width, let height, let color): try raster.pad(width, height, color, order, dividedAt: focus)
            case .function, .hueRotate, .tint, .background: break
            }
        }
    }
}

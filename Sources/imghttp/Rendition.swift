import IPCProtocol
import ImageBrokerClient

/// An image to be made of another: its size, the steps and the format.
struct Rendition: Equatable {
    enum Format: Equatable {
        case fixed(GetOptions.Representation)
        /// That of the source, where it can be written.
        case source
        /// The best one that the client accepts.
        case accepted
    }

    /// The ways to bring an image into a box.
    enum Method: Equatable {
        /// Within the box, aspect ratio kept.
        case fit
        /// The box, aspect ratio kept; the excess is cropped.
        case fill
        /// The box, distorted.
        case force
    }

    /// Whether an image that is smaller than its box is enlarged.
    enum Enlargement: Equatable {
        /// No side is.
        case never
        /// An image of which both sides are smaller keeps its size; another one is.
        case unlessSmaller
        case always
    }

    /// The quality unless one is given: that of Imaginary and imgproxy.
    static let usualQuality = 80

    var format = Format.source
    var quality = Rendition.usualQuality
    /// The box; nil for a side that follows from the other.
    var width: Int?
    var height: Int?
    /// The factor of the box, or of the source without a box.
    var ratio = 1.0
    var method = Method.fit
    var enlargement = Enlargement.never
    /// The part that `fill` keeps; nil for the middle.
    var position: Position?
    /// The steps after scaling.
    var steps: [Step] = []

    /// An image of which another is made.
    struct Source {
        var width: Int
        var height: Int
        /// Whether it has no pixels to enlarge.
        var isVector = false
    }

    /// Whether the size of the result is by other rules than the broker's, for which the source must be known.
    var dependsOnSource: Bool {
        switch (width, height) {
        case (nil, nil): ratio != 1
        case (nil, _), (_, nil): method == .force
        default: method != .fit
        }
    }

    /// The options of the request; `source` is nil where the result does not depend on it.
    func options(as format: GetOptions.Representation, of source: Source?) -> GetOptions {
        guard let source else { return options(as: format, scaled(width), scaled(height)) }
        if enlargement == .unlessSmaller {
            let isSmaller = source.width < width ?? 0 && source.height < height ?? 0
            return isSmaller && !source.isVector
                ? options(as: format, nil, nil) : options(as: format, scaled(width), scaled(height))
        }
        let size = size(of: source)
        var options = options(as: format, size.width, size.height)
        if method == .fit { options.variant.fit = .fill }
        return options
    }

    /// The options of another request when the first one failed: the middle, where the whole image, scaled to cover the
    /// box, has too many pixels to be searched. Nil for other failures.
    static func options(_ first: GetOptions, after failure: ClientError) -> GetOptions? {
        guard first.variant.position == .attention, case .refused(let error) = failure,
            (error.cause ?? error.code) == .tooManyPixels
        else { return nil }
        var options = first
        options.variant.position = nil
        return options
    }

    /// The size of the result by the rules of imgproxy: without enlargement, the source limits the ratio.
    private func size(of source: Source) -> (width: Int, height: Int) {
        var horizontal = width.map { Double($0) / Double(source.width) } ?? 1
        var vertical = height.map { Double($0) / Double(source.height) } ?? 1
        if method != .force { (horizontal, vertical) = (max(horizontal, vertical), max(horizontal, vertical)) }
        var ratio = ratio
        if enlargement != .always, !source.isVector {
            let excess = max(horizontal, vertical, 1)
            (horizontal, vertical) = (horizontal / excess, vertical / excess)
            ratio = min(ratio * excess, 1 / max(horizontal, vertical))
        }
        func side(_ source: Int, _ scale: Double, _ box: Int?) -> Int {
            let scaled = Double(source) * scale * ratio
            return max(1, Int(min(scaled, box.map { Double($0) * ratio } ?? scaled).rounded()))
        }
        return (side(source.width, horizontal, width), side(source.height, vertical, height))
    }

    /// A side of the box, multiplied by the ratio.
    private func scaled(_ side: Int?) -> Int? {
        side.map { max(1, Int((Double($0) * ratio).rounded())) }
    }

    private func options(as format: GetOptions.Representation, _ width: Int?, _ height: Int?) -> GetOptions {
        var options = GetOptions()
        options.representation = format
        options.quality = quality
        options.variant.width = width
        options.variant.height = height
        options.variant.steps = steps
        switch method {
        case .fill where width != nil && height != nil:
            options.variant.fit = .cover
            options.variant.position = position
        case .force where width != nil && height != nil: options.variant.fit = .fill
        default: options.variant.fit = enlargement == .always ? .contain : .inside
        }
        return options
    }
}

/// The formats that a client accepts (RFC 9110, section 12.5.1).
struct AcceptedFormats: Equatable {
    private(set) var webp = false
    private(set) var png = true
    private(set) var jpeg = true

    /// Reads an Accept field. WebP must be named in it, as by browsers that decode it.
    init(_ field: String?) {
        guard let field else { return }
        var isAny = false
        (png, jpeg) = (false, false)
        for range in field.split(separator: ",") {
            let parts = range.split(separator: ";").map { $0.trimming() }
            let quality = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) }
            if quality == 0 { continue }
            switch parts.first?.lowercased() {
            case "image/webp": webp = true
            case "image/png": png = true
            case "image/jpeg": jpeg = true
            case "image/*", "*/*": isAny = true
            default: break
            }
        }
        if isAny || !png && !jpeg { (png, jpeg) = (true, true) }
    }

    /// The format for a source, of which is asked only where it matters.
    func format<E>(hasAlpha: () throws(E) -> Bool) throws(E) -> GetOptions.Representation {
        if webp { return .webp }
        guard png, jpeg else { return png ? .png : .jpeg }
        return try hasAlpha() ? .png : .jpeg
    }
}

extension ImageReply.Description {
    /// The format of the result for a source in this one.
    var representation: GetOptions.Representation {
        switch format {
        case .jpeg: .jpeg
        case .webp: .webp
        case .png, .gif: .png
        default: facts.hasAlpha ? .png : .jpeg
        }
    }
}

extension StringProtocol {
    func trimming() -> String {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isSpace)
        return String(start.prefix(start.count - start.reversed().prefix(while: isSpace).count))
    }
}

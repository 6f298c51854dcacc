import IPCProtocol

/// An image to be made of another: its size, the steps and the format.
struct Rendition: Equatable {
    /// The format of the result.
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
    var method = Method.fit
    var enlargement = Enlargement.never
    /// The part that `fill` keeps; nil for the middle.
    var position: Position?
    /// The steps after scaling.
    var steps: [Step] = []

    /// The options of a first request, which supposes that the source is larger than the box.
    func options(as format: GetOptions.Representation) -> GetOptions {
        var options = options(as: format, width, height)
        switch method {
        case .fill where width != nil && height != nil:
            options.variant.fit = .cover
            options.variant.position = position
        case .force where width != nil && height != nil: options.variant.fit = .fill
        default: options.variant.fit = enlargement == .always ? .contain : .inside
        }
        return options
    }

    /// The options of another request when the source turns out to be smaller than the box; nil when the first result is right.
    func corrected(_ first: GetOptions, forSource source: (width: Int, height: Int)) -> GetOptions? {
        guard let width, let height, method != .fit, source.width > 0, source.height > 0 else { return nil }
        var options = first
        switch enlargement {
        case .always: return nil
        case .unlessSmaller:
            guard source.width < width, source.height < height else { return nil }
            options = self.options(as: first.representation, nil, nil)
        case .never where method == .fill:
            options.variant.width = min(width, source.width)
            options.variant.height = min(height, source.height)
        case .never:
            // Both sides shrink in the same proportion to each other, and none grows.
            let most = max(Double(width) / Double(source.width), Double(height) / Double(source.height), 1)
            options.variant.width = max(1, Int((Double(width) / most).rounded()))
            options.variant.height = max(1, Int((Double(height) / most).rounded()))
        }
        return options == first ? nil : options
    }

    private func options(as format: GetOptions.Representation, _ width: Int?, _ height: Int?) -> GetOptions {
        var options = GetOptions()
        options.representation = format
        options.quality = quality
        options.variant.width = width
        options.variant.height = height
        options.variant.steps = steps
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
    /// The text without white space around it.
    func trimming() -> String {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isSpace)
        return String(start.prefix(start.count - start.reversed().prefix(while: isSpace).count))
    }
}

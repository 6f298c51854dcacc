package import JSONCoding

/// One step of the processing that follows scaling.
public enum Step: Hashable, Sendable {
    /// The ways to mirror an image.
    public enum Axis: String, CaseIterable, Sendable {
        /// Left and right are exchanged.
        case horizontal
        /// Top and bottom are exchanged.
        case vertical
    }

    /// The functions of one amount, named as in the W3C's Filter Effects Module Level 1.
    public enum Function: String, CaseIterable, Sendable {
        case grayscale, sepia, invert, brightness, contrast, saturate, opacity

        /// The permitted amounts.
        public var amounts: ClosedRange<Double> {
            switch self {
            case .grayscale, .sepia, .invert, .opacity: 0...1
            case .brightness, .contrast, .saturate: 0...10
            }
        }

        /// The amount that is meant if none is given; nil if one must be.
        public var usualAmount: Double? { [.grayscale, .sepia, .invert].contains(self) ? 1 : nil }

        /// The amount that changes nothing.
        var neutralAmount: Double { [.grayscale, .sepia, .invert].contains(self) ? 0 : 1 }
    }

    /// Turns clockwise by 90, 180 or 270 degrees.
    case rotate(degrees: Int)
    /// Mirrors.
    case flip(Axis)
    /// Blurs with a Gaussian of this standard deviation in pixels, 0.1 … 250.
    case blur(sigma: Double)
    /// Adds `amount` (0 … 10) times the difference from the image blurred with `sigma` (0.1 … 20).
    case sharpen(sigma: Double, amount: Double)
    /// Applies a function.
    case function(Function, amount: Double)
    /// Turns all hues, by -360 … 360 degrees.
    case hueRotate(degrees: Double)
    /// Composites a colour source-atop.
    case tint(Color)
    /// Rounds the corners, with a radius of 0 … 65,535 pixels.
    case round(radius: Double)
    /// Crops to the centred square and inscribes a circle, transparent outside.
    case circle
    /// Centres the image over a canvas of at least this size.
    case pad(width: Int, height: Int, color: Color)
    /// Composites over an opaque colour.
    case background(Color)

    /// The maximum number of steps in a request.
    public static let most = 16

    /// The steps' names on the wire.
    package enum Operation: String, CaseIterable {
        case rotate, flip, blur, sharpen, grayscale, sepia, invert, brightness, contrast, saturate
        case hueRotate = "hue-rotate"
        case opacity, tint, round, pad, background

        package var fields: [String] {
            switch self {
            case .rotate, .hueRotate: ["degrees"]
            case .flip: ["axis"]
            case .blur: ["sigma"]
            case .sharpen: ["sigma", "amount"]
            case .grayscale, .sepia, .invert, .brightness, .contrast, .saturate, .opacity: ["amount"]
            case .tint, .background: ["color"]
            case .round: ["radius", "circle"]
            case .pad: ["width", "height", "color"]
            }
        }
    }

    /// Its name on the wire.
    package var operation: Operation {
        switch self {
        case .rotate: .rotate
        case .flip: .flip
        case .blur: .blur
        case .sharpen: .sharpen
        case .function(let function, _): Operation(rawValue: function.rawValue)!
        case .hueRotate: .hueRotate
        case .tint: .tint
        case .round, .circle: .round
        case .pad: .pad
        case .background: .background
        }
    }

    /// Whether it changes some image. A step that does not is no part of a canonical list.
    package var hasEffect: Bool {
        switch self {
        case .rotate, .flip, .blur, .circle, .background: true
        case .sharpen(_, let amount): amount != 0
        case .function(let function, let amount): amount != function.neutralAmount
        case .hueRotate(let degrees): ![-360, 0, 360].contains(degrees)
        case .tint(let color): color.alpha != 0
        case .round(let radius): radius != 0
        case .pad(let width, let height, let color): width > 1 || height > 1 || color.alpha != 0
        }
    }

    package func result(of size: PixelGeometry) -> PixelGeometry {
        let (width, height) =
            switch self {
            case .rotate(let degrees) where degrees != 180: (size.height, size.width)
            case .circle: (min(size.width, size.height), min(size.width, size.height))
            case .pad(let width, let height, _): (max(width, size.width), max(height, size.height))
            default: (size.width, size.height)
            }
        // Within the bounds of the fields, no side is too long.
        return PixelGeometry(width: width, height: height) ?? size
    }

    /// Whether the result may be transparent, if the image may be or not.
    package func mayBeTransparent(_ before: Bool) -> Bool {
        switch self {
        case .background: false
        case .function(.opacity, _), .round, .circle: true
        // Uncovered canvas shows its colour.
        case .pad(_, _, let color): color.alpha < 255
        default: before
        }
    }

    /// The step as one word. Equal steps have equal words.
    package var canonical: String {
        let name = operation.rawValue
        return switch self {
        case .rotate(let degrees): "\(name):\(degrees)"
        case .flip(let axis): "\(name):\(axis.rawValue)"
        case .blur(let sigma): "\(name):\(sigma)"
        case .sharpen(let sigma, let amount): "\(name):\(sigma):\(amount)"
        case .function(_, let amount): "\(name):\(amount)"
        case .hueRotate(let degrees): "\(name):\(degrees)"
        case .tint(let color), .background(let color): "\(name):\(color)"
        case .round(let radius): "\(name):\(radius)"
        case .circle: "\(name):circle"
        case .pad(let width, let height, let color): "\(name):\(width)x\(height):\(color)"
        }
    }
}

extension Step: FieldList {
    package static var blank: Step { .circle }

    package mutating func list(_ fields: inout Fields) {
        var operation = operation
        fields.choice("op", &operation)
        if fields.problem != nil { return }
        // First, so that a misspelt name is not reported as the absence of the field that it stands for.
        fields.noteUnknownNames(besides: ["op"] + operation.fields)
        if fields.isReading { self = Self.first(operation) }
        switch self {
        case .rotate(var degrees):
            fields.integer("degrees", &degrees, in: 90...270)
            if ![90, 180, 270].contains(degrees) { fields.note("degrees", expected: "90, 180 or 270") }
            self = .rotate(degrees: degrees)
        case .flip(let axis): self = .flip(fields.value(axis) { $0.choice("axis", &$1) })
        case .blur(let sigma):
            self = .blur(sigma: fields.value(sigma) { $0.number("sigma", &$1, in: 0.1...250) })
        case .sharpen(var sigma, var amount):
            fields.number("sigma", &sigma, in: 0.1...20)
            fields.number("amount", &amount, in: 0...10, .optional)
            self = .sharpen(sigma: sigma, amount: amount)
        case .function(let function, var amount):
            fields.number(
                "amount", &amount, in: function.amounts, function.usualAmount == nil ? .required : .optional)
            self = .function(function, amount: amount)
        case .hueRotate(let degrees):
            self = .hueRotate(degrees: fields.value(degrees) { $0.number("degrees", &$1, in: -360...360) })
        case .tint(let color): self = .tint(fields.value(color) { $0.color("color", &$1) })
        case .round, .circle: listRound(&fields)
        case .pad(var width, var height, var color):
            fields.integer("width", &width, in: 1...PixelGeometry.maximumSide)
            fields.integer("height", &height, in: 1...PixelGeometry.maximumSide)
            fields.color("color", &color, .optional)
            self = .pad(width: width, height: height, color: color)
        case .background(let color):
            self = .background(fields.value(color) { $0.color("color", &$1, isOpaque: true) })
        }
    }

    private mutating func listRound(_ fields: inout Fields) {
        var isCircle = self == .circle
        fields.flag("circle", &isCircle)
        if isCircle {
            self = .circle
            if fields.isReading, fields.has("radius") { fields.note("radius", expected: "absent with a circle") }
        } else {
            var radius = if case .round(let radius) = self { radius } else { 0.0 }
            fields.number("radius", &radius, in: 0...Double(PixelGeometry.maximumSide))
            self = .round(radius: radius)
        }
    }

    /// Returns the step that the reading of an operation starts from, with the defaults of its fields.
    private static func first(_ operation: Operation) -> Step {
        switch operation {
        case .rotate: .rotate(degrees: 90)
        case .flip: .flip(.horizontal)
        case .blur: .blur(sigma: 1)
        case .sharpen: .sharpen(sigma: 1, amount: 1)
        case .grayscale, .sepia, .invert, .brightness, .contrast, .saturate, .opacity:
            .function(Function(rawValue: operation.rawValue)!, amount: 1)
        case .hueRotate: .hueRotate(degrees: 0)
        case .tint: .tint(Color(red: 0, green: 0, blue: 0))
        case .round: .round(radius: 0)
        case .pad: .pad(width: 1, height: 1, color: Color(red: 0, green: 0, blue: 0, alpha: 0))
        case .background: .background(Color(red: 0, green: 0, blue: 0))
        }
    }
}

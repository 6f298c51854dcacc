import JSONCoding

/// The part of an image that `cover` keeps, and the place of an image on the canvas of a `pad` step.
public enum Position: Hashable, Sendable {
    /// A focal point in shares of the width and the height, 0 … 1 each. `cover` keeps it as near to the middle of the
    /// result as the image reaches; `pad` divides the free canvas in this ratio.
    case focus(x: Double, y: Double)
    /// The part with the most entropy, as libvips finds it.
    case entropy
    /// The part with the most edges, skin colours and saturated colours, as libvips finds it.
    case attention

    /// The middle.
    public static let center = Position.focus(x: 0.5, y: 0.5)

    /// The names of focal points on the wire.
    package enum Name: String, CaseIterable {
        case center, top, bottom, left, right
        case topLeft = "top-left"
        case topRight = "top-right"
        case bottomLeft = "bottom-left"
        case bottomRight = "bottom-right"
        case entropy, attention

        package var position: Position {
            switch self {
            case .center: .center
            case .top: .focus(x: 0.5, y: 0)
            case .bottom: .focus(x: 0.5, y: 1)
            case .left: .focus(x: 0, y: 0.5)
            case .right: .focus(x: 1, y: 0.5)
            case .topLeft: .focus(x: 0, y: 0)
            case .topRight: .focus(x: 1, y: 0)
            case .bottomLeft: .focus(x: 0, y: 1)
            case .bottomRight: .focus(x: 1, y: 1)
            case .entropy: .entropy
            case .attention: .attention
            }
        }
    }

    /// Creates the position with this name on the wire; nil for an unknown name.
    public init?(named name: String) {
        guard let name = Name(rawValue: name) else { return nil }
        self = name.position
    }

    /// The focal point; nil if the contents of the image decide.
    package var focus: (x: Double, y: Double)? {
        if case .focus(let x, let y) = self { (x, y) } else { nil }
    }

    /// The position as one word. Equal positions have equal words.
    var word: String {
        switch self {
        case .focus(let x, let y): "\(x):\(y)"
        case .entropy: "entropy"
        case .attention: "attention"
        }
    }
}

extension Fields {
    /// A position: a name, or an object with the members `x` and `y`. Absent for the middle.
    mutating func position(_ value: inout Position?) {
        if isReading {
            guard has("position") else { return }
            if hasString("position") {
                var name = Position.Name.center
                choice("position", &name)
                value = name.position
            } else {
                var (x, y) = (0.5, 0.5)
                object("position") { Self.point(&$0, &x, &y) }
                value = .focus(x: x, y: y)
            }
        } else if let value {
            if let name = Position.Name.allCases.first(where: { $0.position == value }) {
                return constant("position", name.rawValue)
            }
            guard var (x, y) = value.focus else { return }
            object("position") { Self.point(&$0, &x, &y) }
        }
    }

    private static func point(_ fields: inout Fields, _ x: inout Double, _ y: inout Double) {
        fields.number("x", &x, in: 0...1)
        fields.number("y", &y, in: 0...1)
        fields.noteUnknownNames(besides: ["x", "y"])
    }
}

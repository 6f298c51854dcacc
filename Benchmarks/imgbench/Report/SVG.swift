/// A drawing, built element by element. Its colours follow the reader's light or dark mode.
struct SVG {
    /// A colour by its meaning.
    enum Color: String, CaseIterable {
        case back, ink, faint, line, good, bad, first, second, third

        /// Its shades in light and in dark mode.
        fileprivate var shades: (light: String, dark: String) {
            switch self {
            case .back: ("#ffffff", "#0d1117")
            case .ink: ("#1f2328", "#e6edf3")
            case .faint: ("#6e7781", "#8b949e")
            case .line: ("#d0d7de", "#30363d")
            case .good: ("#2da44e", "#3fb950")
            case .bad: ("#cf222e", "#f85149")
            case .first: ("#0969da", "#58a6ff")
            case .second: ("#bf5700", "#f0883e")
            case .third: ("#8250df", "#bc8cff")
            }
        }
    }

    private var elements: [String] = []
    let width: Double
    let height: Double

    init(width: Double, height: Double) {
        self.width = width
        self.height = height
    }

    /// The whole file.
    var text: String {
        let size = "viewBox=\"0 0 \(Self.number(width)) \(Self.number(height))\" width=\"\(Self.number(width))\""
        return """
            <svg xmlns="http://www.w3.org/2000/svg" \(size) font-family="system-ui, sans-serif" font-size="12">
            <style>
            \(Self.rules(\.shades.light))
            @media (prefers-color-scheme: dark) {
            \(Self.rules(\.shades.dark))
            }
            .bold { font-weight: 600; }
            </style>
            <rect width="100%" height="100%" class="fill-back"/>
            \(elements.joined(separator: "\n"))
            </svg>

            """
    }

    mutating func text(
        _ text: String, x: Double, y: Double, anchor: String = "start", color: Color = .ink, isBold: Bool = false
    ) {
        let escaped = text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
        elements.append(
            "<text x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" text-anchor=\"\(anchor)\" "
                + "class=\"fill-\(color)\(isBold ? " bold" : "")\">\(escaped)</text>")
    }

    mutating func bar(x: Double, y: Double, width: Double, height: Double, color: Color) {
        elements.append(
            "<rect x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" width=\"\(Self.number(width))\" "
                + "height=\"\(Self.number(height))\" class=\"fill-\(color)\"/>")
    }

    mutating func line(_ points: [(x: Double, y: Double)], color: Color, thickness: Double = 1, isDashed: Bool = false)
    {
        let list = points.map { "\(Self.number($0.x)),\(Self.number($0.y))" }.joined(separator: " ")
        elements.append(
            "<polyline points=\"\(list)\" fill=\"none\" stroke-width=\"\(Self.number(thickness))\" "
                + "\(isDashed ? "stroke-dasharray=\"4 4\" " : "")class=\"stroke-\(color)\"/>")
    }

    mutating func dot(x: Double, y: Double, color: Color) {
        elements.append("<circle cx=\"\(Self.number(x))\" cy=\"\(Self.number(y))\" r=\"3\" class=\"fill-\(color)\"/>")
    }

    private static func rules(_ shade: (Color) -> String) -> String {
        Color.allCases.map { ".fill-\($0) { fill: \(shade($0)); } .stroke-\($0) { stroke: \(shade($0)); }" }
            .joined(separator: "\n")
    }

    /// With one digit: more would only enlarge the file.
    private static func number(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }
}

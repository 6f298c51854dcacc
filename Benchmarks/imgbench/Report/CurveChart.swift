import Foundation

/// Panels side by side, each with curves over the number of processes; both scales are logarithmic.
struct CurveChart {
    struct Curve {
        let name: String
        let points: [(x: Double, y: Double)]
    }
    struct Panel {
        let title: String
        let curves: [Curve]
    }

    let panels: [Panel]
    private static let (panelWidth, panelHeight, margin) = (330.0, 250.0, 60.0)
    private static let colors = [SVG.Color.first, .second, .third, .faint]

    var svg: String {
        var drawing = SVG(
            width: Double(panels.count) * (Self.panelWidth + Self.margin) + 24, height: Self.panelHeight + 120)
        for (index, panel) in panels.enumerated() {
            Self.draw(panel, at: Self.margin + Double(index) * (Self.panelWidth + Self.margin), in: &drawing)
        }
        return drawing.text
    }

    private static func draw(_ panel: Panel, at left: Double, in drawing: inout SVG) {
        let points = panel.curves.flatMap(\.points)
        let bottom = 56 + panelHeight
        let lowest = log2(points.map(\.y).min() ?? 1).rounded(.down)
        let highest = max(log2(points.map(\.y).max() ?? 2).rounded(.up), lowest + 1)
        let widest = max(log2(points.map(\.x).max() ?? 2), 1)
        func place(_ point: (x: Double, y: Double)) -> (x: Double, y: Double) {
            (
                left + panelWidth * log2(point.x) / widest,
                bottom - panelHeight * (log2(point.y) - lowest) / (highest - lowest)
            )
        }
        drawing.text(panel.title, x: left, y: 24, isBold: true)
        for power in stride(from: lowest, through: highest, by: max(1, ((highest - lowest) / 6).rounded(.up))) {
            let y = place((1, exp2(power))).y
            drawing.line([(left, y), (left + panelWidth, y)], color: .line)
            drawing.text(rounded(exp2(power)), x: left - 6, y: y + 4, anchor: "end", color: .faint)
        }
        for x in Set(points.map(\.x)).sorted() {
            drawing.text("\(Int(x))", x: place((x, 1)).x, y: bottom + 18, anchor: "middle", color: .faint)
        }
        drawing.text("processes", x: left + panelWidth, y: bottom + 34, anchor: "end", color: .faint)
        for (curve, color) in zip(panel.curves, colors) {
            // The goal is not a measurement, so it has no points.
            drawing.line(curve.points.map(place), color: color, thickness: 2, isDashed: color == .faint)
            for point in curve.points.map(place) { drawing.dot(x: point.x, y: point.y, color: color) }
        }
        var x = left
        for (curve, color) in zip(panel.curves, colors) {
            drawing.bar(x: x, y: 36, width: 10, height: 10, color: color)
            drawing.text(curve.name, x: x + 14, y: 45)
            x += 30 + Double(curve.name.count) * 6.5
        }
    }
}

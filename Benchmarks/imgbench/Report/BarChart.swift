import Foundation

/// Rows with a goal, each as a bar from the goal (left: within it, right: above it), on a logarithmic scale, with a
/// line for the range.
struct BarChart {
    let title: String
    let sections: [(name: String, rows: [Row])]

    private static let (left, right, scaleWidth) = (470.0, 150.0, 380.0)
    private static let (lineHeight, top) = (20.0, 64.0)
    /// The ratios to the goal at the ends of the scale.
    private static let (least, most) = (1.0 / 64, 8.0)

    var svg: String {
        let shown = sections.map { ($0.name, $0.rows.filter { $0.goal != nil }) }.filter { !$0.1.isEmpty }
        let lines = shown.reduce(0) { $0 + $1.1.count + 1 }
        let height = Self.top + Double(lines) * Self.lineHeight + 16
        var drawing = SVG(width: Self.left + Self.scaleWidth + Self.right, height: height)
        drawing.text(title, x: 16, y: 24, isBold: true)
        for factor in [1.0 / 64, 1.0 / 16, 1.0 / 4, 1, 2, 4, 8] {
            let x = Self.position(factor)
            drawing.text(Self.name(factor), x: x, y: 48, anchor: "middle", color: .faint)
            drawing.line([(x, Self.top - 8), (x, height - 12)], color: factor == 1 ? .ink : .line)
        }
        drawing.text("ratio, goal", x: Self.left + Self.scaleWidth + 16, y: 48, color: .faint)
        var y = Self.top
        for (name, rows) in shown {
            drawing.text(name, x: 16, y: y + 14, isBold: true)
            y += Self.lineHeight
            for row in rows {
                Self.draw(row, at: y, in: &drawing)
                y += Self.lineHeight
            }
        }
        return drawing.text
    }

    private static func draw(_ row: Row, at y: Double, in drawing: inout SVG) {
        guard let goal = row.goal else { return }
        let peer = row.figures.count == 2 && row.figures[1].name != Row.reference ? ", " + row.figures[1].name : ""
        drawing.text(shortened(row.what + peer), x: left - 12, y: y + 14, anchor: "end")
        let (line, end) = (position(1), position(row.ratio.median / goal))
        drawing.bar(
            x: min(line, end), y: y + 4, width: max(1, abs(end - line)), height: lineHeight - 7,
            color: row.isWithinGoal ? .good : .bad)
        let middle = y + 0.5 + lineHeight / 2
        if row.ratio.count != 1 {
            drawing.line(
                [(position(row.ratio.low / goal), middle), (position(row.ratio.high / goal), middle)], color: .ink)
        }
        drawing.text("\(rounded(row.ratio.median))  \(row.goalText)", x: left + scaleWidth + 16, y: y + 14)
    }

    private static func position(_ factor: Double) -> Double {
        let bounded = min(max(factor, least), most)
        return left + scaleWidth * log(bounded / least) / log(most / least)
    }

    private static func name(_ factor: Double) -> String {
        factor < 1 ? "1/\(Int(1 / factor))" : factor == 1 ? "goal" : "\(Int(factor)) ×"
    }

    private static func shortened(_ text: String) -> String { text.count > 72 ? text.prefix(70) + " …" : text }
}

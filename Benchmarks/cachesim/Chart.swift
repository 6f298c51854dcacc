import Foundation

/// A bar chart of the decode time saved by a cache of a twentieth of all bytes: a group for each trace, a line at the
/// bound.
struct Chart {
    private let rows: [Simulation.Row]
    private let colors = ["#9aa5b1", "#4e79a7", "#76b7b2", "#edc948", "#f28e2b", "#c0392b"]

    init() { rows = Simulation.run([0.05]) }

    var svg: String {
        let (barWidth, height, left, top) = (13, 260, 46, 58)
        let group = barWidth * colors.count + 18
        let width = left + rows.count * group + 10
        var parts = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(width)" height="\(top + height + 34)" \
            font-family="sans-serif" font-size="11">
            """,
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
            "<text x=\"\(left)\" y=\"18\" font-size=\"14\">Decode time saved by a cache of 5 % of all bytes</text>",
        ]
        for (number, color) in colors.enumerated() {
            let x = left + number * 84
            parts.append("<rect x=\"\(x)\" y=\"30\" width=\"10\" height=\"10\" fill=\"\(color)\"/>")
            parts.append("<text x=\"\(x + 14)\" y=\"39\">\(Simulation.columns[number])</text>")
        }
        parts.append(
            "<text x=\"\(left + colors.count * 84)\" y=\"39\">— bound for any policy</text>")
        for percent in stride(from: 0, through: 100, by: 20) {
            let y = top + height - height * percent / 100
            parts.append("<line x1=\"\(left)\" x2=\"\(width)\" y1=\"\(y)\" y2=\"\(y)\" stroke=\"#ddd\"/>")
            parts.append("<text x=\"\(left - 6)\" y=\"\(y + 4)\" text-anchor=\"end\">\(percent) %</text>")
        }
        for (place, row) in rows.enumerated() {
            let x = left + 9 + place * group
            for (number, color) in colors.enumerated() {
                let bar = Int(row.results[number].time * Double(height))
                parts.append(
                    """
                    <rect x="\(x + number * barWidth)" y="\(top + height - bar)" width="\(barWidth - 1)" \
                    height="\(bar)" fill="\(color)"/>
                    """)
            }
            let bound = top + height - Int((row.results.last?.time ?? 0) * Double(height))
            let end = x + colors.count * barWidth
            parts.append("<line x1=\"\(x)\" x2=\"\(end)\" y1=\"\(bound)\" y2=\"\(bound)\" stroke=\"black\"/>")
            parts.append(
                "<text x=\"\((x + end) / 2)\" y=\"\(top + height + 18)\" text-anchor=\"middle\">\(row.trace)</text>")
        }
        return (parts + ["</svg>"]).joined(separator: "\n") + "\n"
    }
}

/// A table of rows, for a terminal or a page.
enum RowTable {
    static func terminal(_ rows: [Row], title: String, isJudged: Bool) -> String {
        let cells = rows.map { row in
            let verdict = !isJudged || row.goal == nil ? "" : row.isWithinGoal ? "ok" : "ABOVE"
            return [
                row.what, row.measured, row.references, row.ratioText, row.countText, row.goalText, verdict, row.note,
            ]
        }
        let all = [["what", "imgbroker", "against", "ratio (low – high)", "n", "goal", "", ""]] + cells
        let widths = (0..<8).map { column in all.map { $0[column].count }.max() ?? 0 }
        let lines = all.map { line in
            zip(line, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ")
        }
        return (["== \(title)"] + lines).joined(separator: "\n")
    }

    static func markdown(_ rows: [Row]) -> String {
        let header = [
            "| what | measured against | imgbroker | the other | ratio (low – high) | n | goal | |",
            "|---|---|---|---|---|---|---|---|",
        ]
        let lines = rows.map { row in
            let ratio = row.isWithinGoal ? row.ratioText : "**\(row.ratioText)**"
            let cells = [
                row.what, row.against, row.measured, row.references, ratio, row.countText, row.goalText, row.note,
            ]
            return "| " + cells.joined(separator: " | ") + " |"
        }
        return (header + lines).joined(separator: "\n")
    }
}

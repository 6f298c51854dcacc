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

    /// The comparisons with other programs, then the figures with a budget, as two tables.
    static func markdown(_ rows: [Row]) -> String {
        let (budgets, comparisons) = (rows.filter(\.isBudget), rows.filter { !$0.isBudget })
        let tables = [
            table(
                comparisons,
                ["what", "measured against", "imgbroker", "the other", "ratio (low – high)", "n", "goal", ""]
            ) { [$0.what, $0.against, $0.measured, $0.references, ratio($0), $0.countText, $0.goalText, $0.note] },
            table(budgets, ["what", "budget", "imgbroker", "share of it (low – high)", "n", "goal", ""]) {
                [$0.what, $0.against, $0.measured, ratio($0), $0.countText, $0.goalText, $0.note]
            },
        ]
        return tables.compactMap(\.self).joined(separator: "\n\n")
    }

    /// The ratio, in bold if it is not within the goal.
    private static func ratio(_ row: Row) -> String { row.isWithinGoal ? row.ratioText : "**\(row.ratioText)**" }

    private static func table(_ rows: [Row], _ titles: [String], cells: (Row) -> [String]) -> String? {
        if rows.isEmpty { return nil }
        let lines = [titles, titles.map { _ in "---" }] + rows.map(cells)
        return lines.map { "| " + $0.joined(separator: " | ") + " |" }.joined(separator: "\n")
    }
}

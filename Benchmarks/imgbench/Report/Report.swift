import Foundation

/// The rows of the last runs, in a file beside the page that shows them. A run of some benchmarks replaces only their
/// rows.
struct Report {
    /// The rows of one benchmark, with the date and the machine.
    private struct Section: Codable {
        let benchmark: String
        let date: String
        let machine: String
        let rows: [Row]
    }

    private let folder: URL
    private var sections: [Section]

    init(folder: String) {
        self.folder = URL(filePath: folder, directoryHint: .isDirectory)
        let kept = try? Data(contentsOf: self.folder.appending(path: "performance.json"))
        sections = kept.flatMap { try? JSONDecoder().decode([Section].self, from: $0) } ?? []
    }

    mutating func replace(_ benchmark: String, with rows: [Row]) {
        sections.removeAll { $0.benchmark == benchmark }
        let date = Date().formatted(.iso8601.year().month().day())
        sections.append(Section(benchmark: benchmark, date: date, machine: Machine.description, rows: rows))
    }

    /// Writes the rows, the table in the page and the charts.
    func write(order: [String], _ peers: Peers) throws {
        let sections: [Section] = order.compactMap { name in self.sections.first { $0.benchmark == name } }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(sections) + Data("\n".utf8)).write(to: folder.appending(path: "performance.json"))
        try replaceMarked(
            in: folder.appending(path: "performance.md"),
            with: sections.map { "### \($0.benchmark)\n\n\($0.date), \($0.machine)\n\n\(RowTable.markdown($0.rows))" }
                + ["Versions: \(peers.versions.joined(separator: ", "))."])
        for (file, title, isBudget) in [
            ("performance.svg", "Against other programs, ratio to the goal: left of the line is within it", false),
            ("performance-budgets.svg", "Against budgets of our own: left of the line is within it", true),
        ] {
            let chart = BarChart(
                title: title,
                sections: sections.map { ($0.benchmark, $0.rows.filter { $0.isBudget == isBudget }) })
            try Data(chart.svg.utf8).write(to: folder.appending(path: file))
        }
        if let headline = sections.first(where: { $0.benchmark == "headline" }) {
            let curves = CurveChart(panels: HeadlineBenchmark.curves(headline.rows))
            try Data(curves.svg.utf8).write(to: folder.appending(path: "performance-headline.svg"))
        }
    }

    /// Inserts `blocks` between the two marks of the page.
    private func replaceMarked(in page: URL, with blocks: [String]) throws {
        let text = try String(contentsOf: page, encoding: .utf8)
        guard let begin = text.range(of: "<!-- figures -->\n"), let end = text.range(of: "<!-- end of figures -->"),
            begin.upperBound <= end.lowerBound
        else { throw Failure("\(page.path) has no marks between which the figures go") }
        let figures = "\n" + blocks.joined(separator: "\n\n") + "\n\n"
        try Data((text[..<begin.upperBound] + figures + text[end.lowerBound...]).utf8).write(to: page)
    }
}

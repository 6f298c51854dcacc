import Foundation

/// The rows of the last runs, in a file beside the pages that show them. A run of some benchmarks replaces only their
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

    /// Writes the rows, the tables in their pages and the charts.
    func write(order: [String], _ peers: Peers) throws {
        let sections: [Section] = order.compactMap { name in self.sections.first { $0.benchmark == name } }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(sections) + Data("\n".utf8)).write(to: folder.appending(path: "performance.json"))
        var blocks = ["versions": peers.versions.map { "- \($0)" }.joined(separator: "\n")]
        for section in sections {
            blocks[section.benchmark] = "\(section.date), \(section.machine)\n\n\(RowTable.markdown(section.rows))"
        }
        try insert(blocks)
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

    /// Inserts each block into the page that has the marks of its name.
    private func insert(_ blocks: [String: String]) throws {
        let marked = /(?s)(<!-- figures: ([a-z-]+) -->\n)(?:(?!<!-- figures).)*?(<!-- end of figures -->)/
        let subjects = folder.appending(path: "performance")
        let pages = try FileManager.default.contentsOfDirectory(at: subjects, includingPropertiesForKeys: nil)
        var missing = Set(blocks.keys)
        for page in [folder.appending(path: "performance.md")] + pages where page.pathExtension == "md" {
            let text = try String(contentsOf: page, encoding: .utf8)
            let written = text.replacing(marked) { match in
                guard let block = blocks[String(match.output.2)] else { return String(match.output.0) }
                missing.remove(String(match.output.2))
                return "\(match.output.1)\n\(block)\n\n\(match.output.3)"
            }
            try Data(written.utf8).write(to: page)
        }
        guard missing.isEmpty else {
            throw Failure("no page in \(subjects.path) has the marks of \(missing.sorted().joined(separator: ", "))")
        }
    }
}

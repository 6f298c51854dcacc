/// A table with one line for each image: the work of the first run, and of the run after the restart.
struct ResultTable {
    private let outcome: Outcome
    private let nameWidth: Int

    init(_ outcome: Outcome) {
        self.outcome = outcome
        nameWidth = min(40, max(8, outcome.names.map(\.count).max() ?? 0))
    }

    var text: String {
        let group =
            pad("", nameWidth + 27) + pad("─ first run, nothing cached ─", 44, right: true)
            + pad("─ after the restart, from disk ─", 38, right: true)
        let head = line([
            "image", "format", "size", "requests", "downloads", "decodes", "pages shared", "downloads",
            "decoded: full", "as pixels: scaled",
        ])
        let lines = [group, head, String(repeating: "─", count: head.count)]
        return (lines + outcome.names.indices.map(row)).map { $0 + "\n" }.joined()
    }

    private func row(_ index: Int) -> String {
        let (first, second) = (outcome.first, outcome.second)
        let failure = outcome.failure(index)
        let name = outcome.names[index]
        var cells = [String](repeating: "-", count: 10)
        cells[0] = name.count > nameWidth ? name.prefix(nameWidth - 1) + "…" : name
        (cells[1], cells[2]) = ("", failure ?? "")
        cells[3] = "\(first.requests / outcome.names.count)"
        (cells[4], cells[7]) = ("\(first.originRequests[index])", "\(second.originRequests[index])")
        if let example = outcome.example(index) {
            cells[1] = example.format
            if failure == nil { cells[2] = "\(example.originalWidth) × \(example.originalHeight)" }
            cells[5] = "\(first.buffers(ImageSize.allCases, of: index).count)"
            cells[6] = "\(first.sharers(index)) of \(first.processes)"
            cells[8] = "\(second.buffers([.full], of: index).count)"
            cells[9] = "\(second.buffers([.small, .medium], of: index).count)"
        }
        return line(cells)
    }

    private func line(_ cells: [String]) -> String {
        let widths = [17, 10, 11, 11, 14, 12, 15, 19]
        let start = pad(cells[0], nameWidth) + "  " + pad(cells[1], 6)
        return start + zip(cells.dropFirst(2), widths).map { pad($0, $1, right: true) }.joined()
    }

    private func pad(_ text: String, _ width: Int, right: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - text.count))
        return right ? space + text : text + space
    }
}

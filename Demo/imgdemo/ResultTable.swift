import Glibc

/// One line for each picture: what it took in the first run, and after the restart.
struct ResultTable {
    private let tally: Tally
    private let nameWidth: Int
    private let isTerminal = isatty(1) == 1

    init(_ tally: Tally) {
        self.tally = tally
        nameWidth = min(40, max(8, tally.names.map(\.count).max() ?? 0))
    }

    var text: String {
        let early = "─ first run, nothing cached ─"
        let late = "─ after the restart, from disk ─"
        let group =
            String(repeating: " ", count: nameWidth + 27) + pad(early, 44, right: true) + pad(late, 38, right: true)
        let head = line([
            "image", "format", "size", "requests", "downloads", "decodings", "pages shared", "downloads",
            "decoded: full", "as pixels: scaled",
        ])
        var lines = [colored(group, "2"), colored(head, "1"), String(repeating: "─", count: head.count)]
        for (index, name) in tally.names.enumerated() { lines.append(row(index, name)) }
        return lines.map { $0 + "\n" }.joined()
    }

    private func row(_ index: Int, _ name: String) -> String {
        let (first, second) = (tally.first, tally.second)
        let name = name.count > nameWidth ? name.prefix(nameWidth - 1) + "…" : name
        let failure = tally.failure(index)
        var (format, size, decodings, sharing, decoded, asPixels) = ("", failure ?? "", "-", "-", "-", "-")
        if let example = tally.example(index) {
            format = example.contentType.split(separator: "/").last.map { $0.uppercased() } ?? ""
            if failure == nil { size = "\(example.originalWidth) × \(example.originalHeight)" }
            decodings = "\(first.buffers(PictureSize.allCases, of: index).count)"
            let sharers = PictureSize.allCases.compactMap {
                first.wishes[index][$0]!.picture == nil ? nil : first.wishes[index][$0]!.sharers
            }
            sharing = "\(sharers.min() ?? 0) of \(first.processes)"
            decoded = "\(second.buffers([.full], of: index).count)"
            asPixels = "\(second.buffers([.small, .medium], of: index).count)"
        }
        let requests = first.wishes[index].values.reduce(0) { $0 + $1.results.count }
        let text = line([
            name, format, size, "\(requests)", "\(first.requestsToOrigin[index])", decodings, sharing,
            "\(second.requestsToOrigin[index])", decoded, asPixels,
        ])
        return failure == nil ? text : colored(text, "31")
    }

    private func line(_ cells: [String]) -> String {
        let widths = [17, 10, 11, 11, 14, 12, 15, 19]
        var line = pad(cells[0], nameWidth) + "  " + pad(cells[1], 6)
        for (cell, width) in zip(cells.dropFirst(2), widths) { line += pad(cell, width, right: true) }
        return line
    }

    private func colored(_ text: String, _ code: String) -> String {
        isTerminal ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }

    private func pad(_ text: String, _ width: Int, right: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - text.count))
        return right ? space + text : text + space
    }
}

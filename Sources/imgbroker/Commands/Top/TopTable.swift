/// Rows under headings, as wide as the screen allows.
struct TopTable {
    struct Column {
        let title: String
        /// Its width at least, so that it keeps its place while figures grow.
        var width = 0
        /// Columns with the highest rank are left out first where the screen is too narrow; 0 for those that stay.
        var rank = 0
        /// Whether its texts begin at its left.
        var isText = false
        /// Whether it gets the space that remains, and is cut where it is too narrow.
        var isFlexible = false
    }

    let columns: [Column]
    let rows: [[String]]
    /// The line in place of rows where there are none.
    var none = ""

    private static let gap = 2

    var text: String { lines(width: .max).map { $0 + "\n" }.joined() }

    /// The lines in at most `width` characters; the first has the headings.
    func lines(width: Int) -> [String] {
        var widths = columns.indices.map { column in
            if columns[column].isFlexible { return columns[column].width }
            return rows.reduce(max(columns[column].width, columns[column].title.count)) { max($0, $1[column].count) }
        }
        var shown = Array(columns.indices)
        while total(of: shown, widths) > width, let least = shown.max(by: { columns[$0].rank < columns[$1].rank }),
            columns[least].rank > 0
        {
            shown.removeAll { $0 == least }
        }
        if let flexible = shown.first(where: { columns[$0].isFlexible }) {
            let widest = (rows.map { $0[flexible].count } + [columns[flexible].title.count]).max() ?? 0
            let room = width - (total(of: shown, widths) - widths[flexible])
            widths[flexible] = max(4, min(room, max(widths[flexible], widest)))
        }
        let headings = line(columns.map(\.title), shown, widths)
        if rows.isEmpty { return [headings, none].map { $0.cut(to: width) } }
        return ([headings] + rows.map { line($0, shown, widths) }).map { $0.cut(to: width) }
    }

    private func total(of shown: [Int], _ widths: [Int]) -> Int {
        shown.reduce(0) { $0 + widths[$1] } + Self.gap * (shown.count - 1)
    }

    private func line(_ texts: [String], _ shown: [Int], _ widths: [Int]) -> String {
        let cells = shown.map { column in
            let text = texts[column].cut(to: widths[column])
            return columns[column].isText ? text.padded(to: widths[column]) : text.leftPadded(to: widths[column])
        }
        var line = cells.joined(separator: String(repeating: " ", count: Self.gap))
        while line.last == " " { line.removeLast() }
        return line
    }
}

extension String {
    /// The text, or its beginning and an ellipsis where it has more than `width` characters.
    func cut(to width: Int) -> String { count <= width ? self : prefix(max(0, width - 1)) + (width > 0 ? "…" : "") }
}

import IPCProtocol
import SystemValues

/// The spans of a traced request as lines with bars, one below the other.
struct Waterfall {
    var columns = 80
    /// Whether the bars are of ASCII characters.
    var isASCII = false

    private static let narrowestBar = 8

    /// The lines, each with a line feed. `title` stands above them.
    func text(of spans: [TraceSpan], title: String) -> String {
        let ordered = Self.ordered(spans)
        let first = min(0, ordered.map(\.span.start).min() ?? 0)
        let last = max(ordered.map(\.span.end).max() ?? 0, first + 1)
        let names = ordered.map { String(repeating: "  ", count: $0.depth) + $0.span.name }
        let times = ordered.map { Self.milliseconds($0.span.microseconds) }
        let (nameWidth, timeWidth) = (names.map(\.count).max() ?? 0, times.map(\.count).max() ?? 0)
        let width = max(columns - nameWidth - timeWidth - 8, Self.narrowestBar)
        var text = title + "\n"
        for (index, (span, _)) in ordered.enumerated() {
            let (name, time) = (names[index].padded(to: nameWidth), times[index].leftPadded(to: timeWidth))
            text += "  \(name)  \(time) ms  \(bar(span, from: first, to: last, width))\n"
        }
        return text
    }

    private func bar(_ span: TraceSpan, from first: Int, to last: Int, _ width: Int) -> String {
        let scale = Double(width) / Double(last - first)
        let begin = min(Int(Double(span.start - first) * scale), width - 1)
        let end = min(max(Int((Double(span.end - first) * scale).rounded(.up)), begin + 1), width)
        // Less than half a column is a thin bar.
        let isThin = Double(span.microseconds) * scale < 0.5
        let block = isASCII ? (isThin ? "|" : "#") : (isThin ? "▏" : "█")
        return String(repeating: " ", count: begin) + String(repeating: block, count: isThin ? 1 : end - begin)
    }

    /// The spans by their start, each with the number of spans that it lies in.
    static func ordered(_ spans: [TraceSpan]) -> [(span: TraceSpan, depth: Int)] {
        // Of two with the same start, the longer one contains the other; the order in the reply decides the rest.
        let sorted = spans.enumerated().sorted {
            ($0.element.start, -$0.element.microseconds, $0.offset)
                < ($1.element.start, -$1.element.microseconds, $1.offset)
        }.map(\.element)
        var (open, result): ([TraceSpan], [(TraceSpan, Int)]) = ([], [])
        for span in sorted {
            while let outer = open.last, span.start >= outer.end || span.end > outer.end { open.removeLast() }
            result.append((span, open.count))
            if span.microseconds > 0 { open.append(span) }
        }
        return result
    }

    /// "12.345".
    private static func milliseconds(_ microseconds: Int) -> String {
        "\(microseconds / 1000)." + CalendarTime.padded(microseconds % 1000, 3)
    }
}

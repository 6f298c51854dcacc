import IPCProtocol
import JSONCoding
import SystemValues

/// Traces in OpenTelemetry's format for files: a `TracesData` object in JSON for each request, one in a line.
struct TraceExport {
    /// The trace that a parent process has begun (W3C Trace Context).
    struct Parent: Equatable {
        let trace: String
        let span: String

        /// Reads a `traceparent`; nil for one that is malformed or of version ff.
        init?(_ text: String) {
            let parts = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
            guard parts.count >= 4, parts[0] != "ff", parts.count == 4 || parts[0] != "00",
                parts.prefix(4).map(\.utf8.count) == [2, 32, 16, 2],
                parts.prefix(4).joined().utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }),
                parts[1...2].allSatisfy({ $0.contains { $0 != "0" } })
            else { return nil }
            (trace, span) = (parts[1], parts[2])
        }
    }

    var parent: Parent?
    var version = ProductVersion.current
    /// Makes the numbers of traces and spans.
    var random: () -> UInt64 = { UInt64.random(in: 1 ... .max) }

    struct Load {
        /// The URL without its query and user info, or the file's name.
        var source: String
        /// The arrival of the request, in nanoseconds since 1970.
        var arrival: Int
        /// The time from the request to the reply as the client has seen it.
        var microseconds: Int
        var reply: ImageReply
    }

    /// One line with a request's spans: that of the whole request, and below it those of the reply, each below the one
    /// that it lies in.
    func line(_ load: Load) -> String {
        let trace = parent?.trace ?? identifier() + identifier()
        let root = identifier()
        var spans: [(id: String, parent: String?, name: String, start: Int, end: Int)] = []
        let whole = load.microseconds
        spans.append((root, parent?.span, "imgbroker get", 0, whole))
        var open: [String] = [root]
        for (span, depth) in Waterfall.ordered(load.reply.spans) {
            while open.count > depth + 1 { open.removeLast() }
            let id = identifier()
            spans.append((id, open.last, span.name, span.start, span.end))
            open.append(id)
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.array("resourceSpans", of: [0]) { writer, _ in
                writer.object("resource") { writer in
                    let texts = [("service.name", "imgbroker"), ("service.version", version)]
                    Self.attributes(texts.map { ($0.0, "stringValue", $0.1) }, to: &writer)
                }
                writer.array("scopeSpans", of: [0]) { writer, _ in
                    writer.object("scope") { $0.member("name", "imgbroker") }
                    writer.array("spans", of: spans) { writer, span in
                        writer.member("traceId", trace)
                        writer.member("spanId", span.id)
                        writer.member("parentSpanId", span.parent)
                        writer.member("name", span.name)
                        // SPAN_KIND_CLIENT for the request, SPAN_KIND_INTERNAL for its parts.
                        writer.member("kind", span.id == root ? 3 : 1)
                        writer.member("startTimeUnixNano", Self.time(load.arrival, span.start))
                        writer.member("endTimeUnixNano", Self.time(load.arrival, span.end))
                        if span.id == root {
                            let reply = load.reply
                            Self.attributes(
                                [
                                    ("imgbroker.source", "stringValue", load.source),
                                    ("imgbroker.from", "stringValue", reply.source.rawValue),
                                    ("imgbroker.width", "intValue", "\(reply.width)"),
                                    ("imgbroker.height", "intValue", "\(reply.height)"),
                                    ("imgbroker.bytes", "intValue", "\(reply.bytes)"),
                                ], to: &writer)
                        }
                    }
                }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self) + "\n"
    }

    /// 16 hexadecimal digits, not all zero.
    private func identifier() -> String {
        let digits = String(max(random(), 1), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// 64-bit numbers are strings in the JSON of Protocol Buffers.
    private static func time(_ arrival: Int, _ microseconds: Int) -> String {
        let (nanoseconds, isLong) = microseconds.multipliedReportingOverflow(by: 1000)
        let (time, isLate) = arrival.addingReportingOverflow(nanoseconds)
        return "\(isLong || isLate ? arrival : max(0, time))"
    }

    private static func attributes(_ all: [(key: String, kind: String, value: String)], to writer: inout JSONWriter) {
        writer.array("attributes", of: all) { writer, attribute in
            writer.member("key", attribute.key)
            writer.object("value") { $0.member(attribute.kind, attribute.value) }
        }
    }

    /// A source without what may be secret: of a URL, its user info, query and fragment.
    static func shortened(_ source: String) -> String {
        let parts = source.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return source }
        let rest = parts[1].prefix { $0 != "?" && $0 != "#" }
        let host = rest.prefix { $0 != "/" }
        return parts[0] + "://" + (host.split(separator: "@").last ?? "") + rest.dropFirst(host.count)
    }
}

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
        let durations = ordered.map(\.span.microseconds)
        let times = durations.map { "\($0 / 1000)." + CalendarTime.padded($0 % 1000, 3) }
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
}

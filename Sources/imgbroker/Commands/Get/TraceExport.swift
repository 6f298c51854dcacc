import IPCProtocol
import JSONCoding

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
    /// The version that the resource has.
    var version = ProductVersion.current
    /// Makes the numbers of traces and spans.
    var random: () -> UInt64 = { UInt64.random(in: 1 ... .max) }

    /// A request as it is exported.
    struct Load {
        /// The URL without its query and user info, or the file's name.
        var source: String
        /// The arrival of the request, in nanoseconds since 1970.
        var arrival: Int
        /// The time from the request to the reply as the client has seen it.
        var microseconds: Int
        var reply: ImageReply
    }

    /// One line with a request's spans: that of the whole request, and below it those of the reply, each below the one that it
    /// lies in.
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

import CodingTestSupport

@testable import imgbroker

/// How a trace is shown and exported.
struct WaterfallTests {
    private static let spans = [
        TraceSpan("queue", start: 0, microseconds: 1000), TraceSpan("download", start: 1000, microseconds: 8000),
        TraceSpan("connect", start: 1000, microseconds: 2000), TraceSpan("first-byte", start: 3000, microseconds: 6000),
        TraceSpan("decode", start: 9000, microseconds: 1000), TraceSpan("reply", start: 10000, microseconds: 20),
    ]

    @Test func barsAreScaledAndNamesIndented() {
        let text = Waterfall(columns: 50, isASCII: true).text(of: Self.spans, title: "a")
        #expect(
            text == """
                a
                  queue         1.000 ms  ###
                  download      8.000 ms    #####################
                    connect     2.000 ms    ######
                    first-byte  6.000 ms         ################
                  decode        1.000 ms                        ###
                  reply         0.020 ms                          |

                """, "\(text)")
    }

    @Test func earlierWorkOfAnotherRequestBeginsTheScale() {
        let spans = [
            TraceSpan("download", start: -5000, microseconds: 10000), TraceSpan("reply", start: 5000, microseconds: 0),
        ]
        let text = Waterfall(columns: 40).text(of: spans, title: "a")
        #expect(text.contains("download  10.000 ms  ████") && text.contains("▏"), "\(text)")
    }

    @Test func noSpansAndHugeOnesAreShown() {
        #expect(Waterfall().text(of: [], title: "a") == "a\n")
        let huge = [TraceSpan("x", start: -TraceSpan.longest, microseconds: TraceSpan.longest)]
        #expect(Waterfall(columns: 1).text(of: huge, title: "a").contains("x"))
    }

    @Test func secretsOfSourcesAreLeftOut() {
        #expect(TraceExport.shortened("https://u:p@h.test:8/a/b.png?token=1#f") == "https://h.test:8/a/b.png")
        #expect(TraceExport.shortened("http://h") == "http://h")
        #expect(TraceExport.shortened("/a/b?c.png") == "/a/b?c.png")
    }

    @Test func parentsAreChecked() {
        let trace = "0af7651916cd43dd8448eb211c80319c"
        #expect(TraceExport.Parent("00-\(trace)-b7ad6b7169203331-01")?.trace == trace)
        #expect(TraceExport.Parent("cc-\(trace)-b7ad6b7169203331-01-more")?.span == "b7ad6b7169203331")
        for bad in [
            "", "00-\(trace)-b7ad6b7169203331", "ff-\(trace)-b7ad6b7169203331-01",
            "00-\(trace.uppercased())-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-\(trace)-0000000000000000-01",
            "00-\(trace)-b7ad6b7169203331-01-x",
        ] { #expect(TraceExport.Parent(bad) == nil, "\(bad)") }
    }

    /// The sample is as OTLP/JSON has it (opentelemetry-proto, "JSON Protobuf Encoding"): names in lowerCamelCase, ids
    /// in hexadecimal, 64-bit numbers as strings, kinds as numbers, an object for the resource and the scope.
    @Test func otlpIsTheSample() throws {
        var reply = ImageReply.blank
        reply.spans = Self.spans
        let load = TraceExport.Load(
            source: "https://h/\"quoted\"\nline", arrival: 1_700_000_000_000_000_000, microseconds: 10_100, reply: reply
        )
        let parent = try #require(TraceExport.Parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
        var number: UInt64 = 0
        let export = TraceExport(
            parent: parent, version: "0.0.0",
            random: {
                number += 1
                return number
            })
        let line = export.line(load)
        #expect(line.utf8.count { $0 == 10 } == 1 && line.hasSuffix("\n"))
        let sample = try Golden(of: "imgbrokerTests").text("trace", of: line.utf8.dropLast())
        let object = try #require(try JSONSerialization.jsonObject(with: Data(sample)) as? [String: Any])
        let resources = try #require(object["resourceSpans"] as? [[String: Any]])
        let scopes = try #require(resources.first?["scopeSpans"] as? [[String: Any]])
        let spans = try #require(scopes.first?["spans"] as? [[String: Any]])
        #expect(
            spans.map { $0["name"] as? String }
                == ["imgbroker get", "queue", "download", "connect", "first-byte", "decode", "reply"])
        let ids = spans.map { $0["spanId"] as? String }
        #expect(
            spans.map { $0["parentSpanId"] as? String }
                == [parent.span, ids[0], ids[0], ids[2], ids[2], ids[0], ids[0]])
        for span in spans {
            let times = ["startTimeUnixNano", "endTimeUnixNano"].map { (span[$0] as? String).flatMap(Int.init) ?? 0 }
            #expect(load.arrival <= times[0] && times[0] <= times[1])
        }
    }

    @Test func idsAreNew() {
        let (first, second) = (TraceExport(), TraceExport())
        let load = TraceExport.Load(source: "a", arrival: 0, microseconds: 1, reply: .blank)
        #expect(Set([first.line(load), first.line(load), second.line(load)]).count == 3)
        #expect(!first.line(load).contains("parentSpanId"))
    }
}

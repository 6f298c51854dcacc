/// Where the time of a request went.
@Suite(.blocking, .timeLimit(.minutes(10))) struct TraceTests {
    private func get(_ setting: Setting, _ paths: [String], _ words: String...) throws -> ProgramResult {
        try setting.broker.run(["get"] + paths.map(setting.url) + words)
    }

    @Test func `a request that joins a running download has its spans`() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let (first, second) = (try setting.client(), try setting.client())
        let loading = try first.get(setting.url("/a"))
        setting.origin.expectHeld("/a")
        let joining = try second.get(setting.url("/a"), #""trace":true"#)
        try setting.broker.wait(for: "both requests are pending") { $0[.requests] == 2 }
        setting.origin.gate("/a").open()
        _ = try first.answer(to: loading)
        let spans = try second.answer(to: joining).image().spans
        let download = try #require(spans.first { $0.name == "download" })
        // The download has begun before the request came.
        #expect(download.start < 0 && download.end > 0, "\(spans)")
        #expect(spans.contains { $0.name == "first-byte" } && spans.last?.name == "reply", "\(spans)")
    }

    @Test func `a hit has nearly no spans, and is not remembered with them`() throws {
        let setting = try Setting { _ in png(tile(1)) }
        _ = try get(setting, ["/a"])
        let client = try setting.client()
        for id in 1...3 {
            try client.send(#"{"type":"get","id":\#(id),"url":"\#(setting.url("/a"))","trace":true}"#)
            let text = try client.next().text
            #expect(text.contains(#""spans":[{"name":"reply","startMicroseconds":0"#), "\(text)")
        }
        try client.send(#"{"type":"get","id":9,"url":"\#(setting.url("/a"))"}"#)
        #expect(try !client.next().text.contains("spans"))
        // Images are counted, traced or not: that of the command, and four here.
        #expect(try setting.broker.stats().histograms[.reply]?.count == 5)
    }

    @Test func `several waterfalls and lines for OpenTelemetry are printed`() throws {
        let setting = try Setting { _ in png(tile(1)) }
        let shown = try get(setting, ["/a", "/b?secret=1"], "--trace")
        #expect(shown.exit == .status(0) && shown.output.contains("download"), "\(shown)")
        #expect(shown.output.contains("/b: ") && shown.output.split(separator: "\n").count > 8)
        let exported = try get(setting, ["/c", "/d?secret=1"], "--trace-otlp")
        let lines = exported.output.split(separator: "\n")
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix(#"{"resourceSpans":[{"resource""#) })
        #expect(!exported.output.contains("secret"))
    }
}

/// The spans of a request whose origin pauses: a fetch worker that gets no processor counts a pause as another part.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct TraceTimingTests {
    /// The spans of one request by name; of several with the same name, the longest.
    private func spans(_ setting: Setting, _ path: String, _ words: String...) throws -> [String: TraceSpan] {
        let result = try setting.broker.run(["get", setting.url(path), "--json", "--trace"] + words)
        let list = try #require(jsonObject(result.output)["spans"] as? [[String: Any]])
        var spans: [String: TraceSpan] = [:]
        for entry in list {
            let name = try #require(entry["name"] as? String)
            let span = TraceSpan(
                name, start: try #require(entry["startMicroseconds"] as? Int),
                microseconds: try #require(entry["microseconds"] as? Int))
            if span.microseconds >= spans[name]?.microseconds ?? 0 { spans[name] = span }
        }
        return spans
    }

    /// A picture too large to be decoded while it is identified.
    private static let picture = noise(width: 400, height: 300)

    @Test func `slow parts of a transfer are found, and parts lie within their whole`() throws {
        let body = Self.picture.png
        // A small result in a segment is not sealed.
        let setting = try Setting(["--segments", "off"]) { _ in
            var response = LocalOrigin.Response.ok(body, contentType: "image/png")
            (response.delayMs, response.pieceBytes, response.pauseMs) = (300, body.count / 2 + 1, 200)
            return response
        }
        let spans = try spans(setting, "/a", "--width", "200", "--step", "blur:sigma=8")
        let first = try #require(spans["first-byte"])
        let rest = try #require(spans["body"])
        #expect(first.microseconds >= 200_000 && rest.microseconds >= 100_000, "\(spans)")
        for (outer, inner) in [
            ("download", "connect"), ("download", "first-byte"), ("download", "body"), ("decode", "codec"),
            ("decode", "scale"), ("decode", "steps"), ("decode", "seal"),
        ] {
            guard let whole = spans[outer], let part = spans[inner] else {
                Issue.record("\(outer) or \(inner) is missing in \(spans)")
                continue
            }
            #expect(part.start >= whole.start && part.end <= whole.end, "\(inner) in \(outer): \(spans)")
        }
        let reply = try #require(spans["reply"])
        #expect(spans.values.allSatisfy { $0.start >= 0 && $0.end <= reply.start || $0.name == "reply" }, "\(spans)")
        let figures = try setting.broker.stats()
        let counted: [StatsReport.Distribution] = [
            .firstByte, .body, .identify, .codec, .scale, .steps, .seal, .queue, .reply,
        ]
        for name in counted { #expect(figures.histograms[name]?.count ?? 0 > 0, "\(name)") }
        #expect(figures.histograms[.firstByte]?.sumMicroseconds ?? 0 >= 200_000)
    }
}

import IPCProtocol
import JSONCoding
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// Where the time of a request went.
@Suite(.blocking, .timeLimit(.minutes(10))) struct TraceTests {

    private func get(_ setting: Setting, _ paths: [String], _ words: String...) throws -> ProgramResult {
        try imgbroker(["get"] + paths.map(setting.url) + ["--socket", setting.broker.socketPath] + words)
    }

    @Test func `a request that joins a running download has its spans`() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let (first, second) = (try setting.client(), try setting.client())
        let loading = try first.get(setting.url("/a"))
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 1 })
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

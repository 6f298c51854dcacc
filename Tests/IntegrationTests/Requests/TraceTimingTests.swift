import Foundation
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// The spans of a request whose origin pauses: a fetch worker that gets no processor counts a pause as another part.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct TraceTimingTests {

    /// The spans of one request by name; of several with the same name, the longest.
    private func spans(_ setting: Setting, _ path: String, _ words: String...) throws -> [String: TraceSpan] {
        let result = try imgbroker(
            ["get", setting.url(path), "--json", "--trace", "--socket", setting.broker.socketPath] + words)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [String: Any])
        let list = try #require(object["spans"] as? [[String: Any]])
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
    private static let picture = TestPicture(width: 400, height: 300) { x, y in
        SIMD4(
            UInt8(truncatingIfNeeded: x &* y), UInt8(truncatingIfNeeded: x ^ y), UInt8(truncatingIfNeeded: x &* 7), 255)
    }

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
        #expect(first.microseconds >= 290_000 && rest.microseconds >= 190_000, "\(spans)")
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
        for name in counted {
            #expect(figures.histograms[name]?.count ?? 0 > 0, "\(name)")
        }
        #expect(figures.histograms[.firstByte]?.sumMicroseconds ?? 0 >= 290_000)
    }
}

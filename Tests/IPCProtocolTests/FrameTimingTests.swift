import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

/// No frame occupies the broker's event loop for more than 2 ms: the time of reading the worst ones. The figures of
/// release builds are in docs/performance/frames.md.
@Suite(.serialized) struct FrameTimingTests {
    #if DEBUG
        /// Code that is not optimised takes many times as long.
        private static let most = Duration.milliseconds(200)
    #else
        private static let most = Duration.milliseconds(4)
    #endif

    private static let length = 1 << 20 - 200

    private static func repeated(_ text: String, to count: Int) -> String {
        String(repeating: text, count: count / text.utf8.count)
    }

    /// A text of random pieces, which no processor predicts.
    private static func random(_ pieces: [String], to count: Int) -> String {
        var source = SplitMix64(state: 1)
        var text = ""
        while text.utf8.count < count { text += source.pick(pieces) }
        return text
    }

    private static func get(_ fields: String) -> String {
        "{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\(fields)}"
    }

    private static func prefetch(_ path: String, _ last: String = "http://a/") -> String {
        let urls = (0..<999).map { "\"HTTP://A:80/\($0)/\(path)\"," }.joined()
        return "{\"type\":\"prefetch\",\"id\":1,\"urls\":[\(urls)\"\(last)\"]}"
    }

    private static func prefetch(hosts: [String]) -> String {
        let urls = hosts.map { "\"http://\($0)/\"" }.joined(separator: ",")
        return "{\"type\":\"prefetch\",\"id\":1,\"urls\":[\(urls)]}"
    }

    /// Values just below the limit of their number, as random as possible.
    private static let values = (0..<2000).map { _ in #"1,"",[],{},22,"a",true,"\n", 3 "# }.joined(separator: ",")

    static let frames: [(String, String)] = [
        ("arrays", get("\"x\":[" + repeated("[],", to: length - 60) + "1]")),
        ("numbers", get("\"x\":[" + repeated("1e9,", to: length - 60) + "1]")),
        ("digits", get("\"quality\":1." + repeated("0", to: length - 60))),
        ("escapes", get("\"x\":\"" + repeated("\\u0041", to: length - 60) + "\"")),
        ("random characters", get("\"x\":\"" + random(["a", "é", "漢", "\\n"], to: length - 60) + "\"")),
        ("a string", get("\"x\":\"" + repeated("a", to: length - 60) + "\"")),
        ("white space", get("\"variant\":" + repeated(" \n", to: length - 90) + "{}")),
        ("values and white space", get("\"x\":[" + values + repeated(" \n", to: 900_000) + "]")),
        ("nested values", get("\"variant\":{\"x\":[" + values + "," + repeated("1", to: 900_000) + "]}")),
        (
            "escaped names",
            get((0..<1000).map { "\"\($0)" + repeated("\\u0061", to: 1000) + "\":1" }.joined(separator: ","))
        ),
        ("a header of spaces", get("\"headers\":{\"a\":\"" + repeated(" ", to: length - 90) + "\"}")),
        ("a header's name", get("\"headers\":{\"" + repeated("A", to: length - 90) + "\":\"b\"}")),
        (
            "a password",
            get("\"credentials\":{\"username\":\"\",\"password\":\"" + repeated("a", to: length - 120) + "\"}")
        ),
        (
            "events",
            "{\"type\":\"subscribe\",\"id\":1,\"events\":[" + repeated("\"failed\",", to: length - 90) + "\"failed\"]}"
        ),
        ("buffers", "{\"type\":\"release\",\"buffers\":[" + repeated("900719925474099,", to: 16 * 16_383) + "1]}"),
        ("many buffers", "{\"type\":\"touch\",\"buffers\":[" + repeated("1,", to: length - 90) + "1]}"),
        ("URLs", prefetch(repeated("a b", to: 120))),
        ("URLs, the last invalid", prefetch(repeated("a b", to: 120), "http:")),
        ("long URLs", prefetch(repeated("a", to: 1000))),
        ("escaped URLs", prefetch(random(["a", "\\\"", "bcd", "\\/", "<", "   "], to: 110))),
        ("URLs of hosts in escapes", prefetch(hosts: (0..<999).map { _ in repeated("%61", to: 180) })),
        (
            "URLs of international hosts",
            prefetch(hosts: (0..<999).map { "ü\($0)" + repeated(".éa漢bcdefüx漢", to: 160) })
        ),
        (
            "URLs of an international host",
            prefetch(hosts: Array(repeating: repeated(".éa漢bcdefüx漢", to: 160), count: 999))
        ),
        ("URLs beyond ASCII", prefetch(random(["ab", "é", "bcdef", "漢", " gh "], to: 90))),
    ]

    @Test(arguments: frames) func aFrameIsReadInTime(name: String, text: String) throws {
        let bytes = Array(text.utf8)
        #expect(bytes.count <= Frame.maximumLength)
        // The machine may be busy, but not each time.
        let fastest = (0..<5).map { _ in
            ContinuousClock().measure { _ = try? ClientMessage.decode(bytes[...]) }
        }.min()
        #expect(try #require(fastest) < Self.most, "\(name)")
    }
}

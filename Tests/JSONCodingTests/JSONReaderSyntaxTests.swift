import CodingTestSupport
import Testing

@testable import JSONCoding

/// What RFC 8259 says is JSON, and what is not.
struct JSONReaderSyntaxTests {
    @Test(arguments: [
        "{}", " \t\r\n{ } \t\r\n", "{\"a\":0}", "{\"a\":-0}", "{\"a\":-0.0e-0}", "{\"a\":1E+2}", "{\"a\":0.1}",
        "{\"a\":1e999}",
        "{\"a\":123456789012345678901234567890}", "{\"a\":[]}", "{\"a\":[[],{}]}", "{\"\":null}", "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"}", "{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\u{7F}\"}",
        "{\"a\":\"\u{2028}\"}",
        "{\"a\":\"\u{10FFFF}\"}", "{\"a\":\"\\uFFFE\"}",
    ])
    func accepts(text: String) {
        #expect(throws: Never.self) { try JSONValue(reading: Array(text.utf8)) }
    }

    @Test(arguments: [
        "", " ", "[]", "null", "1", "\"a\"", "{", "}", "{]", "{\"a\"}", "{\"a\":}", "{\"a\" 1}", "{\"a\":1",
        "{\"a\":1]",
        "{a:1}", "{'a':1}", "{1:1}", "{\"a\":1,}", "{,}", "{\"a\":1,,\"b\":2}", "{\"a\":1 \"b\":2}", "{\"a\":[1,]}",
        "{\"a\":[,]}",
        "{\"a\":[1 2]}", "{\"a\":[1}", "{\"a\":+1}", "{\"a\":01}", "{\"a\":-01}", "{\"a\":00}", "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1.e2}", "{\"a\":1e}", "{\"a\":1e+}", "{\"a\":-}", "{\"a\":--1}", "{\"a\":0x10}", "{\"a\":1_000}",
        "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":True}", "{\"a\":tru}", "{\"a\":truex}", "{\"a\":nul}",
        "{\"a\":undefined}",
        "{\"a\":\"}", "{\"a\":\"\\\"}", "{\"a\":\"\\x41\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u12G4\"}",
        "{\"a\":\"\\u+123\"}",
        "{\"a\":\"\\ud800\"}", "{\"a\":\"\\ud800x\"}", "{\"a\":\"\\ud800\\n\"}", "{\"a\":\"\\ud800\\ud800\"}",
        "{\"a\":\"\\udc00\"}", "{\"a\":\"\\udc00\\ud800\"}", "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":\"\\",
        "{\"a\":\"\\u", "{\"a\":\"\t\"}",
        "{\"a\":\"\n\"}", "{\"a\":\"\u{0}\"}", "{\"a\":\"\u{1F}\"}", "{}{}", "{} x", "{}\u{0}", "\u{FEFF}{}",
        "{\"a\":1}//",
        "/**/{}", "{\u{A0}}", "{\u{0B}}", "{\"a\":\u{0}1}",
    ])
    func refuses(text: String) {
        #expect(throws: JSONReader.MalformedJSON.self) { try JSONValue(reading: Array(text.utf8)) }
    }

    /// RFC 3629: no stray or missing continuation bytes, no overlong forms, no surrogates, nothing past U+10FFFF.
    @Test(
        arguments: [
            [0x80], [0xC3], [0xC3, 0x28], [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x9F, 0xBF], [0xE6, 0xBC],
            [0xED, 0xA0, 0x80],
            [0xF0, 0x8F, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF],
        ] as [[UInt8]])
    func refusesWhatIsNotUTF8(bytes: [UInt8]) {
        let plain = Array("{\"a\":\"".utf8) + bytes + Array("\"}".utf8)
        let afterAnEscape = Array("{\"a\":\"\\n".utf8) + bytes + Array("\"}".utf8)
        let inAName = Array("{\"".utf8) + bytes + Array("\":1}".utf8)
        for text in [plain, afterAnEscape, inAName] {
            #expect(throws: JSONReader.MalformedJSON.self) { try JSONValue(reading: text) }
        }
    }

    @Test func nestingIsLimitedWhetherReadOrSteppedOver() throws {
        func nested(_ levels: Int, _ open: String, _ close: String) -> [UInt8] {
            let inner = String(repeating: open, count: levels - 1) + "0" + String(repeating: close, count: levels - 1)
            return Array("{\"a\":\(inner)}".utf8)
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let (deepest, tooDeep) = (
                nested(JSONReader.maximumDepth, open, close), nested(JSONReader.maximumDepth + 1, open, close)
            )
            #expect(throws: Never.self) { try JSONValue(reading: deepest) }
            #expect(throws: Never.self) { try skip(deepest[...]) }
            #expect(throws: JSONReader.MalformedJSON.self) { try JSONValue(reading: tooDeep) }
            #expect(throws: JSONReader.MalformedJSON.self) { try skip(tooDeep[...]) }
        }
        let endless = Array("{\"a\":".utf8) + Array(repeating: UInt8(ascii: "["), count: 1_000_000)
        #expect(throws: JSONReader.MalformedJSON.self) { try skip(endless[...]) }
        // Many values beside one another are not deep.
        let wide = Array(("{\"a\":[" + Array(repeating: "[{}]", count: 1000).joined(separator: ",") + "]}").utf8)
        #expect(throws: Never.self) { try skip(wide[...]) }
    }

    @Test func theOffsetIsThatOfTheTextAlsoInASlice() {
        let text = Array("????{\"a\" 1}".utf8)
        let problem = JSONReader.MalformedJSON(expected: "a colon", offset: 5)
        #expect(throws: problem) { try skip(text[4...]) }
    }

    /// Reads an object of which no value is wanted.
    private func skip(_ text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) {
        var reader = JSONReader(text)
        try reader.readObject { (reader, _) throws(JSONReader.MalformedJSON) in try reader.skip() }
        try reader.expectEnd()
    }
}

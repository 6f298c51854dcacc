import CodingTestSupport
import SystemValues
import Testing

@testable import JSONCoding

/// Values read as the type that a message wants.
struct JSONReaderValueTests {
    /// Reads `{"field": text}` with `body` and returns what was noted.
    private func read(_ text: String, _ body: (inout Fields) -> Void) throws -> String? {
        var fields = try Fields(reading: Array("{\"field\": \(text) }".utf8)[...])
        body(&fields)
        #expect(fields.problem == nil || fields.problem?.field == "field")
        return fields.problem?.expected
    }

    @Test(arguments: [
        ("0", 0), ("-0", 0), ("7", 7), ("-7", -7), ("1.0", 1), ("1e3", 1000), ("1.5e1", 15), ("10e-1", 1),
        ("9007199254740991", 9_007_199_254_740_991), ("9223372036854775807", Int.max),
        ("-9223372036854775807", -Int.max),
    ])
    func integers(text: String, expected: Int) throws {
        var value: Int?
        #expect(try read(text) { $0.integer("field", &value, in: Int.min...Int.max) } == nil)
        #expect(value == expected)
    }

    @Test(arguments: [
        "-1", "101", "1.5", "1e2000", "-1e2000", "1e-1", "9223372036854775808", "99999999999999999999999999",
        "\"5\"", "true", "null", "[5]", "{\"a\":5}",
    ])
    func whatIsNoIntegerInTheRangeIsNoted(text: String) throws {
        var value: Int?
        #expect(try read(text) { $0.integer("field", &value, in: 0...100) } == "an integer from 0 to 100")
        #expect(value == nil)
    }

    @Test func theBoundsBelongToTheRange() throws {
        for text in ["1", "65535"] {
            var value: Int?
            #expect(try read(text) { $0.integer("field", &value, in: 1...65535) } == nil)
            #expect(value == Int(text))
        }
    }

    @Test(arguments: [("0.5", 0.5), ("-2", -2), ("1e3", 1000), ("12.25", 12.25)])
    func numbers(text: String, expected: Double) throws {
        var value = 0.0
        #expect(try read(text) { $0.number("field", &value) } == nil)
        #expect(value == expected)
    }

    @Test func wrongTypesAreNoted() throws {
        for text in ["1", "null", "[\"a\"]", "{}", "true"] {
            var value: String?
            #expect(try read(text) { $0.string("field", &value) } == "a string")
            #expect(value == nil)
        }
        for text in ["1", "null", "\"true\"", "0", "[]"] {
            var value = true
            #expect(try read(text) { $0.boolean("field", &value) } == "true or false")
            #expect(value)
        }
    }

    @Test func choices() throws {
        enum PixelFormat: String, CaseIterable { case rgba8, bgra8 }
        func choice(_ text: String) throws -> (value: PixelFormat?, problem: String?) {
            var value: PixelFormat?
            let problem = try read(text) { $0.choice("field", &value) }
            return (value, problem)
        }
        #expect(try choice("\"bgra8\"").value == .bgra8)
        #expect(try choice("\"\\u0062gra8\"").value == .bgra8)
        for text in ["\"BGRA8\"", "\"\"", "\"rgba8 \"", "8", "null", "[\"rgba8\"]", "{\"rgba8\":\"rgba8\"}"] {
            let (value, problem) = try choice(text)
            #expect(value == nil, "\(text)")
            #expect(problem == "one of \"rgba8\", \"bgra8\"")
        }
    }

    @Test func theRestIsReadAfterAProblemAndTheFirstProblemStays() throws {
        var fields = try Fields(reading: Array("{\"a\":[{\"x\":1}],\"b\":\"no\",\"c\":3}".utf8)[...])
        var values = [0, 0, 0]
        fields.integer("a", &values[0], in: 0...9)
        fields.integer("b", &values[1], in: 0...9)
        fields.integer("c", &values[2], in: 0...9)
        #expect(values == [0, 0, 3])
        #expect(fields.problem == Fields.Problem(field: "a", expected: "an integer from 0 to 9"))
    }

    @Test func stringsKeepTheirScalars() throws {
        var value = ""
        #expect(try read("\"e\\u0301\\u0000\\ud83d\\ude00/\\/\"") { $0.string("field", &value) } == nil)
        #expect(Array(value.utf8) == Array("e\u{301}\u{0}😀//".utf8))
    }
}

/// What RFC 8259 says is JSON, and what is not.
struct JSONReaderSyntaxTests {
    @Test(arguments: [
        "{}", " \t\r\n{ } \t\r\n", "{\"a\":0}", "{\"a\":-0}", "{\"a\":-0.0e-0}", "{\"a\":1E+2}", "{\"a\":0.1}",
        "{\"a\":1e999}", "{\"a\":123456789012345678901234567890}", "{\"a\":[]}", "{\"a\":[[],{}]}", "{\"\":null}",
        "{\"a\":1,\"a\":2}", "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"}", "{\"a\":\"\\ud83d\\ude00\"}",
        "{\"a\":\"\u{7F}\"}", "{\"a\":\"\u{2028}\"}", "{\"a\":\"\u{10FFFF}\"}", "{\"a\":\"\\uFFFE\"}",
    ])
    func accepts(text: String) {
        #expect(throws: Never.self) { try JSONValue(reading: Array(text.utf8)) }
    }

    @Test(arguments: [
        "", " ", "[]", "null", "1", "\"a\"", "{", "}", "{]", "{\"a\"}", "{\"a\":}", "{\"a\" 1}", "{\"a\":1",
        "{\"a\":1]", "{a:1}", "{'a':1}", "{1:1}", "{\"a\":1,}", "{,}", "{\"a\":1,,\"b\":2}", "{\"a\":1 \"b\":2}",
        "{\"a\":[1,]}", "{\"a\":[,]}", "{\"a\":[1 2]}", "{\"a\":[1}", "{\"a\":+1}", "{\"a\":01}", "{\"a\":-01}",
        "{\"a\":00}", "{\"a\":.5}", "{\"a\":1.}", "{\"a\":1.e2}", "{\"a\":1e}", "{\"a\":1e+}", "{\"a\":-}",
        "{\"a\":--1}", "{\"a\":0x10}", "{\"a\":1_000}", "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":True}",
        "{\"a\":tru}", "{\"a\":truex}", "{\"a\":nul}", "{\"a\":undefined}", "{\"a\":\"}", "{\"a\":\"\\\"}",
        "{\"a\":\"\\x41\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u12G4\"}", "{\"a\":\"\\u+123\"}", "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\ud800x\"}", "{\"a\":\"\\ud800\\n\"}", "{\"a\":\"\\ud800\\ud800\"}", "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\udc00\\ud800\"}", "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":\"\\", "{\"a\":\"\\u", "{\"a\":\"\t\"}",
        "{\"a\":\"\n\"}", "{\"a\":\"\u{0}\"}", "{\"a\":\"\u{1F}\"}", "{}{}", "{} x", "{}\u{0}", "\u{FEFF}{}",
        "{\"a\":1}//", "/**/{}", "{\u{A0}}", "{\u{0B}}", "{\"a\":\u{0}1}",
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

/// The reader against an independent one, Foundation's, on texts nobody thought of.
struct JSONReaderAgreementTests {
    @Test(arguments: 0..<8)
    func wellFormedTextsHaveFoundationsValues(seed: UInt64) throws {
        var source = RandomJSON(seed: seed)
        for _ in 0..<2000 {
            let text = source.message()
            let expected = try #require(JSONValue(foundation: text), "\(String(decoding: text, as: UTF8.self))")
            #expect(try JSONValue(reading: text).agrees(with: expected), "\(String(decoding: text, as: UTF8.self))")
        }
    }

    @Test(arguments: 100..<108)
    func damagedTextsAreAcceptedWhereFoundationAcceptsThem(seed: UInt64) {
        var source = RandomJSON(seed: seed)
        var accepted = 0
        for _ in 0..<1500 {
            let text = source.damagedMessage()
            let found = try? JSONValue(reading: text)
            if found != nil { accepted += 1 }
            let expected = JSONValue(foundation: text)
            let areSame = expected.map { found?.agrees(with: $0) == true } ?? (found == nil)
            if !areSame, !Self.isFoundationsOwn(text) {
                Issue.record("\(String(decoding: text, as: UTF8.self)) \(text)")
            }
        }
        // Otherwise the test would say little about one of the two.
        #expect((100...1400).contains(accepted))
    }

    /// Where Foundation is known not to follow RFC 8259: it takes a comma before the end of an object, and refuses
    /// numbers too large for it.
    private static func isFoundationsOwn(_ text: [UInt8]) -> Bool {
        let text = String(decoding: text, as: UTF8.self)
        return text.contains(/,[ \t\r\n]*\}/) || text.contains(/[eE][+\-]?[0-9]{3}/)
    }

    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        for text in randomTexts(seed: seed, behind: "{\"a\":") { _ = try? JSONValue(reading: text) }
    }
}

/// Stepping over text eight bytes at a time, and the limit of tokens.
struct JSONScannerTests {
    private static let quote = UInt8(ascii: "\"")

    private func skip(_ text: [UInt8], tokens: Int = .max) throws -> JSONScanner {
        var scanner = JSONScanner(at: 0, tokens: tokens)
        try scanner.skipValue(in: text.span)
        return scanner
    }

    /// Each byte at each offset of a string, alone and next to another one that ends a run.
    @Test func `a string ends at its first quote, wherever it is`() throws {
        for length in 0...20 {
            let text = [Self.quote] + [UInt8](repeating: 0x61, count: length) + [Self.quote]
            #expect(try skip(text + [0x2C]).position == text.count)
            #expect(throws: JSONReader.MalformedJSON.self) { try skip(text.dropLast()) }
            for offset in 0..<length {
                for byte in UInt8.min ... .max {
                    var changed = text
                    changed[1 + offset] = byte
                    let end = try? skip(changed).position
                    switch byte {
                    case Self.quote: #expect(end == offset + 2)
                    // The byte after it is no escaped character, except the quote at the end.
                    case UInt8(ascii: "\\"): #expect(end == nil)
                    case 0..<0x20, 0x80...: #expect(end == nil)
                    default: #expect(end == text.count)
                    }
                }
            }
        }
    }

    @Test func `white space ends at its first other byte, wherever it is`() {
        for length in 0...20 {
            for byte in UInt8.min ... .max {
                let text = (0..<length).map { [0x20, 0x0A, 0x0D, 0x09][$0 % 4] } + [byte]
                var scanner = JSONScanner(at: 0)
                scanner.skipSpace(in: text.span)
                #expect(scanner.position == ([0x20, 0x0A, 0x0D, 0x09].contains(byte) ? length + 1 : length))
            }
        }
    }

    /// All sequences of two bytes, and the bounds of longer ones, against the standard library.
    @Test func `the same bytes are UTF-8 as for the standard library`() {
        func check(_ bytes: [UInt8]) {
            let isValid = (try? UTF8Span(validating: bytes.span)) != nil
            #expect(((try? skip([Self.quote] + bytes + [Self.quote])) != nil) == isValid, "\(bytes)")
        }
        for first in UInt8(0x80) ... .max {
            for second in UInt8(0x80) ... .max {
                check([first, second])
                for third in [0x7F, 0x80, 0xBF, 0xC0] as [UInt8] {
                    check([first, second, third])
                    check([first, second, third, 0x80])
                    check([first, second, third, 0xC0])
                }
            }
        }
    }

    @Test(arguments: [
        ("1", 1), ("[]", 1), ("[1,2]", 3), ("{}", 1), ("{\"a\":1}", 3), ("{\"a\":{\"b\":[null]}}", 6),
        ("\"\\n\\u0041\"", 3), ("\"éa漢\"", 3), ("[\"\\\"\",{\"é\":true}]", 7),
    ])
    func `values, names, escapes and characters beyond ASCII are tokens`(text: String, tokens: Int) throws {
        #expect(try skip(Array(text.utf8), tokens: tokens).tokens == 0)
        #expect(throws: JSONReader.MalformedJSON.self) { try skip(Array(text.utf8), tokens: tokens - 1) }
    }

    @Test func `a name with escapes is found only if it is meant`() throws {
        var value = 0
        for (name, isFound) in [("\\u0061b", true), ("a\\u0062", true), ("\\u0061c", false), ("éb", false)] {
            var fields = try Fields(reading: Array("{\"\(name)\":7}".utf8)[...])
            value = 0
            fields.integer("ab", &value, in: 0...9, .optional)
            #expect(value == (isFound ? 7 : 0), "\(name)")
        }
        let long = String(repeating: "\\u0061", count: 2000)
        #expect(try Fields(reading: Array("{\"\(long)\":7}".utf8)[...]).has("a") == false)
    }

    @Test func `a string has a maximum number of bytes`() throws {
        for text in ["abcd", "ab\\u0063d", "éé", "\\u00e9\\u00e9"] {
            for (most, isRead) in [(3, false), (4, true), (5, true)] {
                var value: String?
                var fields = try Fields(reading: Array("{\"a\":\"\(text)\"}".utf8)[...])
                fields.string("a", &value, most: most)
                #expect((value != nil) == isRead)
                #expect(fields.problem?.expected == (isRead ? nil : "a string of at most 3 bytes"))
            }
        }
    }

    @Test func `strings have a maximum number of bytes together`() throws {
        for (bytes, isRead) in [(4, false), (5, true)] {
            var values = ["before"]
            var fields = try Fields(reading: Array("{\"a\":[\"ab\",\"\",\"\\u0063de\"]}".utf8)[...])
            fields.strings("a", &values, bytes: bytes)
            #expect(values == (isRead ? ["ab", "", "cde"] : ["before"]))
            #expect(fields.problem?.expected == (isRead ? nil : "strings of together at most 4 bytes"))
        }
    }
}

/// What is written is JSON with the values that went in.
struct JSONWriterTests {
    private func written(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(members)
        return writer.bytes
    }

    private func text(_ members: (inout JSONWriter) -> Void) -> String {
        String(decoding: written(members), as: UTF8.self)
    }

    @Test func membersAreSeparatedAndNested() {
        #expect(text { _ in } == "{}")
        let all = text {
            $0.member("a", 1)
            $0.object("o") { _ in }
            $0.object("p") {
                $0.member("x", true)
                $0.member("y", false)
            }
            $0.array("n", of: [1, -2, 0])
            $0.array("s", of: ["x", ""])
            $0.array("e", of: [String]())
            $0.array("t", of: [7, 8]) { $0.member("v", $1) }
            $0.member("z", "end")
        }
        let expected =
            "{\"a\":1,\"o\":{},\"p\":{\"x\":true,\"y\":false},\"n\":[1,-2,0],\"s\":[\"x\",\"\"],\"e\":[],"
            + "\"t\":[{\"v\":7},{\"v\":8}],\"z\":\"end\"}"
        #expect(all == expected)
    }

    @Test func whatIsNilIsLeftOut() {
        let nothing = text {
            $0.member("a", String?.none)
            $0.member("b", Int?.none)
            $0.member("c", Double?.none)
            $0.member("d", Bool?.none)
        }
        #expect(nothing == "{}")
    }

    @Test(arguments: [0, 1, -1, 9, 10, -10, 65_535, 9_007_199_254_740_991, Int.max, Int.min])
    func integers(value: Int) {
        #expect(text { $0.member("a", value) } == "{\"a\":\(value)}")
    }

    @Test(arguments: [
        (0.0, "0.0"), (1.5, "1.5"), (-2.25, "-2.25"), (0.12345, "0.123"), (1e15, "1000000000000000.0"),
        (1e300, "1e+300"), (.infinity, "0"), (.nan, "0"),
    ])
    func numbersHaveThreePlacesAndAreAlwaysJSON(value: Double, expected: String) {
        let bytes = written { $0.member("a", value) }
        if value != 1e300 { #expect(String(decoding: bytes, as: UTF8.self) == "{\"a\":\(expected)}") }
        #expect(JSONValue(foundation: bytes) != nil)
        #expect(throws: Never.self) { try JSONValue(reading: bytes) }
    }

    @Test func everyScalarOfTheBasicPlanesComesBack() throws {
        var random = SplitMix64(state: 1)
        var scalars = (0..<0x300).compactMap { Unicode.Scalar($0) }
        scalars += (0..<3000).compactMap { _ in Unicode.Scalar(UInt32.random(in: 0...0x10FFFF, using: &random)) }
        for scalar in scalars {
            let string = "<\(scalar)>"
            let bytes = written { $0.member(string, string) }
            let expected = JSONValue.object([string: .string(string)])
            #expect(try JSONValue(reading: bytes).agrees(with: expected))
            #expect(JSONValue(foundation: bytes)?.agrees(with: expected) == true)
        }
    }

    @Test func thePrefixStays() {
        var writer = JSONWriter(prefix: [1, 2, 3])
        writer.object { $0.member("a", 1) }
        #expect(writer.bytes == [1, 2, 3] + Array("{\"a\":1}".utf8))
    }
}

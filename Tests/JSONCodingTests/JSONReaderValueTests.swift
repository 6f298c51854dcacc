import JSONCoding
import Testing

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

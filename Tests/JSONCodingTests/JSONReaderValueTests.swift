import Testing

@testable import JSONCoding

/// Values read as the type that a message wants.
@Suite struct JSONReaderValueTests {
    /// Reads `{"field": text}` with `body` and returns its value and what was noted.
    private func read<Value>(
        _ text: String, _ body: (inout JSONReader, String) throws(JSONReader.MalformedJSON) -> Value?
    ) throws -> (value: Value?, problem: String?) {
        var value: Value?
        var reader = JSONReader(Array("{\"field\": \(text) }".utf8)[...])
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in value = try body(&reader, name) }
        #expect(reader.problem == nil || reader.problem?.field == "field")
        return (value, reader.problem?.expected)
    }

    @Test(arguments: [
        ("0", 0), ("-0", 0), ("7", 7), ("-7", -7), ("1.0", 1), ("1e3", 1000), ("1.5e1", 15), ("10e-1", 1),
        ("9007199254740991", 9_007_199_254_740_991), ("9223372036854775807", Int.max),
        ("-9223372036854775807", -Int.max),
    ])
    func integers(text: String, expected: Int) throws {
        let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
            try reader.integer(name, in: Int.min...Int.max)
        }
        #expect(value == expected)
        #expect(problem == nil)
    }

    @Test(arguments: [
        "-1", "101", "1.5", "1e2000", "-1e2000", "1e-1", "9223372036854775808", "99999999999999999999999999",
        "\"5\"", "true", "null", "[5]", "{\"a\":5}",
    ])
    func whatIsNoIntegerInTheRangeIsNotedAndSteppedOver(text: String) throws {
        let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
            try reader.integer(name, in: 0...100)
        }
        #expect(value == nil)
        #expect(problem == "an integer from 0 to 100")
    }

    @Test func theBoundsBelongToTheRange() throws {
        for text in ["1", "65535"] {
            let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
                try reader.integer(name, in: 1...65535)
            }
            #expect(value == Int(text))
            #expect(problem == nil)
        }
    }

    @Test(arguments: [("0.5", 0.5), ("-2", -2), ("1e3", 1000), ("12.25", 12.25)])
    func numbers(text: String, expected: Double) throws {
        let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
            try reader.number(name)
        }
        #expect(value == expected)
        #expect(problem == nil)
    }

    @Test func wrongTypesAreNoted() throws {
        for text in ["1", "null", "[\"a\"]", "{}", "true"] {
            let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
                try reader.string(name)
            }
            #expect(value == nil)
            #expect(problem == "a string")
        }
        for text in ["1", "null", "\"true\"", "0", "[]"] {
            let (value, problem) = try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in
                try reader.boolean(name)
            }
            #expect(value == nil)
            #expect(problem == "true or false")
        }
    }

    @Test func choices() throws {
        enum PixelFormat: String, CaseIterable { case rgba8, bgra8 }
        func choice(_ text: String) throws -> (value: PixelFormat?, problem: String?) {
            try read(text) { (reader, name) throws(JSONReader.MalformedJSON) in try reader.choice(name) }
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
        var reader = JSONReader(Array("{\"a\":[{\"x\":1}],\"b\":\"no\",\"c\":3}".utf8)[...])
        var last: Int?
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            last = try reader.integer(name, in: 0...9)
        }
        #expect(last == 3)
        #expect(reader.problem == JSONReader.FieldProblem(field: "a", expected: "an integer from 0 to 9"))
    }

    @Test func stringsKeepTheirScalars() throws {
        let (value, _) = try read("\"e\\u0301\\u0000\\ud83d\\ude00/\\/\"") {
            (reader, name) throws(JSONReader.MalformedJSON) in
            try reader.string(name)
        }
        #expect(value.map { Array($0.utf8) } == Array("e\u{301}\u{0}😀//".utf8))
    }
}

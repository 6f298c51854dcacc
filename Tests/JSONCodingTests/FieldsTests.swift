import CodingTestSupport
import JSONCoding
import Testing

struct FieldsTests {
    enum Colour: String, CaseIterable { case red, green }

    struct Part: FieldList, Equatable {
        static var blank: Part { Part() }
        var name = ""
        var size: Int?

        mutating func list(_ fields: inout Fields) {
            fields.string("name", &name)
            fields.integer("size", &size, in: 0...99)
        }
    }

    /// A field of every kind.
    struct Whole: FieldList, Equatable {
        static var blank: Whole { Whole() }
        var count = 1
        var quality = 85
        var width: Int?
        var expires: Int?
        var title = ""
        var note: String?
        var isFinal = true
        var isStale = false
        var ratio = 0.5
        var colour = Colour.red
        var border = Colour.red
        var tint: Colour?
        var words: [String] = []
        var tags: [String] = []
        var lines: [String]?
        var numbers: [Int] = []
        var part = Part()
        var spare: Part?
        var parts: [Part] = []
        var inline: Part?

        mutating func list(_ fields: inout Fields) {
            fields.integer("count", &count, in: 1...9)
            fields.integer("quality", &quality, in: 1...100, omitting: 85)
            fields.integer("width", &width, in: 1...65535)
            fields.nullableInteger("expires", &expires, in: 0...1000)
            fields.string("title", &title)
            fields.string("note", &note)
            fields.boolean("final", &isFinal, .optional)
            fields.flag("stale", &isStale)
            fields.number("ratio", &ratio)
            fields.choice("colour", &colour)
            fields.choice("border", &border, omitting: .red)
            fields.choice("tint", &tint)
            fields.strings("words", &words, most: 3)
            fields.strings("tags", orNone: &tags)
            fields.strings("lines", &lines)
            fields.integers("numbers", &numbers, in: 0...9, most: 3)
            fields.object("part", &part)
            fields.object("spare", &spare)
            fields.objects("parts", &parts)
            fields.group(with: "name", &inline)
        }
    }

    private static let full: Whole = {
        var whole = Whole()
        (whole.count, whole.quality, whole.width, whole.expires) = (2, 90, 640, 7)
        (whole.title, whole.note, whole.isFinal, whole.isStale) = ("a\"b", "ü", false, true)
        (whole.ratio, whole.colour, whole.border, whole.tint) = (0.25, .green, .green, .green)
        (whole.words, whole.tags, whole.lines, whole.numbers) = (["x", ""], ["t"], [], [3, 4])
        (whole.part, whole.spare) = (Part(name: "p", size: 1), Part(name: "s"))
        (whole.parts, whole.inline) = ([Part(name: "1"), Part(name: "2", size: 2)], Part(name: "i", size: 5))
        return whole
    }()

    private static let members = [
        ("count", "2"), ("quality", "90"), ("width", "640"), ("expires", "7"), ("title", #""a\"b""#), ("note", "\"ü\""),
        ("final", "false"), ("stale", "true"), ("ratio", "0.25"), ("colour", "\"green\""), ("border", "\"green\""),
        ("tint", "\"green\""), ("words", #"["x",""]"#), ("tags", #"["t"]"#), ("lines", "[]"), ("numbers", "[3,4]"),
        ("part", #"{"name":"p","size":1}"#), ("spare", #"{"name":"s"}"#),
        ("parts", #"[{"name":"1"},{"name":"2","size":2}]"#), ("name", "\"i\""), ("size", "5"),
    ]

    private static func text(_ members: [(String, String)]) -> String {
        "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }

    @Test func `all kinds of fields are written in their order and read again`() {
        let text = Self.text(Self.members)
        #expect(String(decoding: Self.full.encoded, as: UTF8.self) == text)
        #expect(Whole(decoding: Array(text.utf8)[...]) == Self.full)
    }

    @Test func `usual, absent and empty values are not written`() {
        let text = """
            {"count":1,"expires":null,"title":"","final":true,"ratio":0.5,"colour":"red","words":[],"numbers":[],\
            "part":{"name":""},"parts":[]}
            """
        #expect(String(decoding: Whole().encoded, as: UTF8.self) == text)
        #expect(Whole(decoding: Array(text.utf8)[...]) == Whole())
    }

    /// A list of fields in the packed form.
    private static func packed(_ list: (inout Fields) -> Void) -> [UInt8] {
        var writer = JSONWriter(after: [9], form: .packed)
        Fields.write(&writer, list)
        return Array(writer.finish().dropFirst())
    }

    @Test(arguments: [full, Whole()])
    func `packed fields are read again, and cut ones are refused`(whole: Whole) throws {
        let bytes = Self.packed { fields in
            var copy = whole
            copy.list(&fields)
        }
        var rest: ArraySlice<UInt8> = []
        var fields = try Fields(packed: ([1] + bytes + [7, 8])[1...], rest: &rest)
        var read = Whole.blank
        read.list(&fields)
        #expect(fields.problem == nil && read == whole)
        #expect(rest == [7, 8])
        for count in bytes.indices {
            #expect(throws: JSONReader.MalformedJSON.self) { try Fields(packed: bytes[..<count], rest: &rest) }
        }
    }

    @Test func `a packed value of another type is a problem`() throws {
        let bytes = Self.packed { fields in
            for (name, _) in Self.members { fields.write(name, "\u{1}") }
        }
        var rest: ArraySlice<UInt8> = []
        var fields = try Fields(packed: bytes[...], rest: &rest)
        var whole = Whole.blank
        whole.list(&fields)
        #expect(fields.problem.map { "\($0.field) \($0.expected)" } == "count an integer from 1 to 9")
        // An integer is a number, and a number without a fraction an integer.
        let numbers = Self.packed { fields in
            fields.constant("ratio", 3)
            var two = 2.0
            fields.number("count", &two)
        }
        fields = try Fields(packed: numbers[...], rest: &rest)
        fields.number("ratio", &whole.ratio)
        fields.integer("count", &whole.count, in: 1...9)
        #expect(fields.problem == nil && whole.ratio == 3 && whole.count == 2)
    }

    @Test(
        arguments: [
            [], Array("{".utf8), Array("[]".utf8), Array("{]".utf8), Array("{\"\u{1}\0\0\0a[}}".utf8),
            Array("{\"\u{1}\0\0\0a[{}}}".utf8), Array("{\"".utf8), Array("{#".utf8),
            Array("{\"\u{1}\0\0\0a".utf8), Array("{\"\u{1}\0\0\0a}".utf8), Array("{\"\u{1}\0\0\0a?}".utf8),
            [UInt8](repeating: 0xFF, count: 9), Array("{\"".utf8) + [0xFF, 0xFF, 0xFF, 0xFF],
            Array("{\"\u{1}\0\0\0a".utf8) + [UInt8](repeating: UInt8(ascii: "["), count: 65)
                + [UInt8](repeating: UInt8(ascii: "]"), count: 65) + Array("}".utf8),
        ] as [[UInt8]])
    func `malformed packed fields are refused`(bytes: [UInt8]) {
        var rest: ArraySlice<UInt8> = []
        #expect(throws: JSONReader.MalformedJSON.self) { try Fields(packed: bytes[...], rest: &rest) }
    }

    /// Reads the text of all fields with the member `name` replaced, or removed if `value` is nil.
    private func problem(_ name: String, _ value: String?) throws -> String? {
        var members = Self.members.filter { $0.0 != name }
        if let value { members.append((name, value)) }
        var fields = try Fields(reading: Array(Self.text(members).utf8)[...])
        var whole = Whole.blank
        whole.list(&fields)
        return fields.problem.map { "\($0.field) \($0.expected)" }
    }

    @Test(arguments: ["count", "title", "ratio", "colour", "words", "numbers", "part", "parts"])
    func `a required field that is absent is a problem`(name: String) throws {
        #expect(try problem(name, nil) == "\(name) present")
    }

    @Test(arguments: [
        "quality", "width", "expires", "note", "final", "stale", "border", "tint", "tags", "lines", "spare",
    ])
    func `another field may be absent`(name: String) throws {
        #expect(try problem(name, nil) == nil)
    }

    @Test(arguments: [
        ("count", "10", "an integer from 1 to 9"), ("count", "\"1\"", "an integer from 1 to 9"),
        ("width", "null", "an integer from 1 to 65535"), ("expires", "-1", "an integer from 0 to 1000"),
        ("note", "null", "a string"), ("final", "1", "true or false"), ("ratio", "\"1\"", "a number"),
        ("colour", "\"blue\"", "one of \"red\", \"green\""), ("words", "\"x\"", "an array"),
        ("words", "[\"a\",1]", "a string"), ("words", "[\"a\",\"b\",\"c\",\"d\"]", "an array of at most 3 elements"),
        ("numbers", "[1,10]", "an integer from 0 to 9"), ("part", "[]", "an object"), ("parts", "[{},{}]", nil),
        ("parts", "[7]", "an object"),
    ])
    func `a field of another type or range is a problem`(name: String, value: String, expected: String?) throws {
        let found = try problem(name, value)
        #expect(found == "\(name) \(expected ?? "")" || expected == nil && found == "\(name).name present")
    }

    @Test func `the problem in an object names the object`() throws {
        #expect(try problem("part", #"{"name":7}"#) == "part.name a string")
        #expect(try problem("spare", #"{"name":"a","size":100}"#) == "spare.size an integer from 0 to 99")
    }

    @Test func `of members with one name the last counts, in any spelling`() throws {
        let text = #"{"name":"a","size":1,"n\u0061me":"b","size":2}"#
        #expect(Part(decoding: Array(text.utf8)[...]) == Part(name: "b", size: 2))
        // Also among many, and beside an object with such names.
        let others = (0..<40).map { "\"x\($0)\":{\"name\":\"c\",\"name\":\"d\"}," }.joined()
        #expect(
            Part(decoding: Array(#"{"name":"a","size":1,\#(others)"name":"b"}"#.utf8)[...]) == Part(name: "b", size: 1))
    }

    @Test func `members in any order, unknown members and white space are read`() {
        let text = " { \"x\" : [ {} ] , \"size\" : 3 , \"sizes\" : 4 , \"name\" : \"a\" } "
        #expect(Part(decoding: Array(text.utf8)[...]) == Part(name: "a", size: 3))
    }

    @Test func `malformed JSON anywhere is found before a field is read`() {
        let text = Array(#"{"name":"a","later":[{"x":tru}]}"#.utf8)
        #expect(throws: JSONReader.MalformedJSON.self) { try Fields(reading: text[...]) }
    }

    @Test func `an object has a largest number of members`() throws {
        func text(_ count: Int) -> ArraySlice<UInt8> {
            Array(("{" + (0..<count).map { "\"m\($0)\":0" }.joined(separator: ",") + "}").utf8)[...]
        }
        #expect(try Fields(reading: text(JSONReader.maximumMembers)).names.count == JSONReader.maximumMembers)
        #expect(throws: JSONReader.MalformedJSON.self) { try Fields(reading: text(JSONReader.maximumMembers + 1)) }
        let nested = Array(#"{"name":"a","part":"#.utf8) + text(JSONReader.maximumMembers + 1) + Array("}".utf8)
        var fields = try Fields(reading: nested[...])
        var part = Part()
        fields.object("part", &part)
        #expect(fields.problem?.expected == "at most \(JSONReader.maximumMembers) members")
    }

    /// A value of each type in a random message: reading never crashes, and what is written is read as the same value.
    @Test(arguments: 0..<4)
    func `random objects crash no list`(seed: UInt64) throws {
        var source = RandomJSON(seed: seed)
        for _ in 0..<500 { _ = Whole(decoding: source.message()[...]) }
    }
}

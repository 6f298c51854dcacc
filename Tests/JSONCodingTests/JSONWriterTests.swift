import CodingTestSupport
import JSONCoding
import SystemValues
import Testing

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
        (1e300, "1e+300"),
        (.infinity, "0"), (.nan, "0"),
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

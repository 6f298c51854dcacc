import CodingTestSupport
import Testing

@testable import JSONCoding

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

    @Test func `a string is read as it is skipped`() throws {
        var source = RandomJSON(seed: 5)
        for _ in 0..<2000 {
            let text = source.message()
            guard let value = JSONValue(foundation: text) else { continue }
            #expect(try JSONValue(reading: text).agrees(with: value))
            #expect(try skip(text).position <= text.count)
        }
    }

    @Test(arguments: [
        ("1", 1), ("[]", 1), ("[1,2]", 3), ("{}", 1), ("{\"a\":1}", 3), ("{\"a\":{\"b\":[null]}}", 6),
        ("\"\\n\\u0041\"", 3),
        ("\"éa漢\"", 3), ("[\"\\\"\",{\"é\":true}]", 7),
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

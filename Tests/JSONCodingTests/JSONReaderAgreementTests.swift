import CodingTestSupport
import Testing

/// The reader against an independent one, Foundation's, on texts nobody thought of.
struct JSONReaderAgreementTests {
    @Test(arguments: 0..<8)
    func wellFormedTextsHaveFoundationsValues(seed: UInt64) throws {
        var source = RandomJSON(seed: seed)
        for _ in 0..<500 {
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
        for text in randomTexts(seed: seed, behind: "{\"a\":") {
            _ = try? JSONValue(reading: text)
        }
    }
}

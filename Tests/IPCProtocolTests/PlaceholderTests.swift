import IPCProtocol
import Testing

/// A placeholder's texts, which are made of its bytes.
struct PlaceholderTests {
    @Test(arguments: [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")])
    func `base64 is that of the standard`(text: String, encoded: String) {
        // RFC 4648, section 10.
        let placeholder = Placeholder(averageColor: .zero, thumbHash: Array(text.utf8))
        #expect(placeholder?.thumbHash == encoded)
        #expect(Placeholder(averageColor: "#00000000", thumbHash: encoded) == placeholder)
    }

    @Test func `every byte is read as it was written`() {
        for count in 1...Placeholder.longestHash {
            for start in stride(from: 0, to: 256, by: 5) {
                let hash = (0..<count).map { UInt8(truncatingIfNeeded: start + $0 * 37) }
                let color = SIMD4<UInt8>(UInt8(start), 0x0F, 0xF0, start % 2 == 0 ? .max : UInt8(start))
                let placeholder = Placeholder(averageColor: color, thumbHash: hash)
                #expect(placeholder != nil)
                #expect(
                    Placeholder(averageColor: placeholder?.averageColor, thumbHash: placeholder?.thumbHash)
                        == placeholder)
            }
        }
    }

    @Test func `colours are those of CSS`() {
        #expect(Placeholder(averageColor: SIMD4(10, 128, 255, 255), thumbHash: [1])?.averageColor == "#0a80ff")
        #expect(Placeholder(averageColor: SIMD4(10, 128, 255, 1), thumbHash: [1])?.averageColor == "#0a80ff01")
        #expect(
            Placeholder(averageColor: "#0a80ff", thumbHash: "AQ==")
                != Placeholder(
                    averageColor: "#0a80fe", thumbHash: "AQ=="))
    }

    @Test(arguments: [
        "", "#", "0a80ff", "#0a80f", "#0A80FF", "#0a80ff8", "#0a80ffff", "#0a80ff800", "#+a80ff", "#0a80fg", "#é80ff",
    ])
    func `another spelling of a colour is none`(color: String) {
        #expect(Placeholder(averageColor: color, thumbHash: "AAAA") == nil)
    }

    @Test(arguments: ["", "A", "AA", "AAA", "AB==", "AAE", "A===", "AA=A", "AAAA====", "AA-_", "AAAAé", "AAAA\n"])
    func `another spelling of a hash is none`(hash: String) {
        #expect(Placeholder(averageColor: "#000000", thumbHash: hash) == nil)
    }

    @Test func `a hash may have 25 bytes`() {
        func placeholder(_ count: Int) -> Placeholder? {
            Placeholder(averageColor: .zero, thumbHash: Array(repeating: 255, count: count))
        }
        #expect(placeholder(0) == nil && placeholder(25) != nil && placeholder(26) == nil)
        let text = String(repeating: "/", count: 36)
        #expect(Placeholder(averageColor: "#000000", thumbHash: text) == nil)
    }
}

import SystemValues
import Testing

/// Characters that a terminal obeys, or that make a line look like another.
struct PrintableTextTests {
    @Test(arguments: [
        ("\u{1B}[2J", "\\u001B[2J"), ("a\u{9B}31mb", "a\\u009B31mb"), ("\u{7F}", "\\u007F"), ("\u{85}", "\\u0085"),
        ("\u{202E}gpj", "\\u202Egpj"), ("\u{2066}\u{2069}", "\\u2066\\u2069"), ("\u{61C}", "\\u061C"),
        ("a\u{2028}b\u{2029}", "a\\u2028b\\u2029"), ("\u{200B}\u{FEFF}", "\\u200B\\uFEFF"),
        ("\u{E0041}", "\\uDB40\\uDC41"), ("a\nb", "a\\u000Ab"), ("a\r\nb\t", "a\\u000D\\u000Ab\\u0009"),
    ]) func `deceptive characters are escaped`(text: String, escaped: String) {
        #expect(text.escapingDeceptive == escaped)
    }

    @Test(arguments: ["", "plain", "ä é 漢字 ́x", "http://a/?b=%E2%80%AE", "█▏·", "🙂", "\\u202E"])
    func `other text stays as it is`(text: String) {
        #expect(text.escapingDeceptive == text)
    }

    @Test func `lines stay lines`() {
        #expect("a\nb\u{1B}\n".escapingDeceptiveInLines == "a\nb\\u001B\n")
    }
}

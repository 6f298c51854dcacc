import Testing

@testable import HTTPValues

/// Texts that only Unicode considers equivalent are different keys.
struct ExactTextTests {
    private static let composed = "\u{E9}"
    private static let decomposed = "e\u{301}"

    @Test func equivalentTextsAreDifferent() throws {
        #expect(Self.composed == Self.decomposed)
        #expect(ExactText(Self.composed) != ExactText(Self.decomposed))
        #expect(Set([ExactText(Self.composed), ExactText(Self.decomposed), ExactText(Self.composed)]).count == 2)
        #expect(ExactText("") == ExactText(""))
        let (none, some): (String?, String?) = (nil, Self.composed)
        #expect(none.hasSameBytes(as: nil) && !none.hasSameBytes(as: some) && !some.hasSameBytes(as: none))
    }

    @Test func equivalentURLsHeadersAndCredentialsAreDifferent() throws {
        let hosts = try [Self.composed, Self.decomposed].map { try SourceURL("http://\($0).test/") }
        // A host has one spelling in ASCII.
        #expect(hosts[0] == hosts[1])
        #expect(try SourceURL("http://a.test/\(Self.composed)") != SourceURL("http://a.test/\(Self.decomposed)"))
        #expect(HeaderField(name: "a", value: Self.composed) != HeaderField(name: "a", value: Self.decomposed))
        #expect(HeaderField(name: "a", value: Self.composed) == HeaderField(name: "a", value: Self.composed))
        #expect(
            Credentials(username: "a", password: Self.composed) != Credentials(username: "a", password: Self.decomposed)
        )
        #expect(
            Credentials(username: Self.composed, password: "") != Credentials(username: Self.decomposed, password: ""))
    }
}

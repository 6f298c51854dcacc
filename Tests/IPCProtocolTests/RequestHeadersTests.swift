import HTTPValues
import IPCProtocol
import Testing

struct RequestHeadersTests {
    private func headers(_ members: String) throws -> [HeaderField] {
        try options("\"headers\":{\(members)}").headers
    }

    private func expectRefused(_ members: String, naming field: String) throws {
        try expectBadRequest("\"headers\":{\(members)}", naming: field)
    }

    @Test func namesAreLoweredAndSorted() throws {
        let found = try headers("\"X-B\":\"2\",\"Accept\":\"image/*\",\"x-a\":\"1\"")
        #expect(
            found == [
                HeaderField(name: "accept", value: "image/*"), HeaderField(name: "x-a", value: "1"),
                HeaderField(name: "x-b", value: "2"),
            ])
        #expect(try headers("").isEmpty)
    }

    @Test(arguments: [
        "Accept", "Accept-Language", "User-Agent", "Referer", "Cookie", "Authorization", "X-Any", "a!#$%&'*+-.^_`|~9",
    ])
    func allowedNames(name: String) throws {
        #expect(try headers("\"\(name)\":\"v\"") == [HeaderField(name: name.lowercased(), value: "v")])
    }

    @Test(arguments: [
        "Host", "Connection", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Expect", "Range",
        "If-Range", "If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since", "Keep-Alive",
        "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "HTTP2-Settings", "Via", "hOsT",
    ])
    func reservedNames(name: String) throws {
        try expectRefused("\"\(name)\":\"v\"", naming: "headers.\(name)")
    }

    @Test(arguments: [
        "", " ", "a b", "a:", ":path", "a\\r\\nb", "a\\u0000", "ä", "(a)", "a/b", "a,b", "[a]", "{a}", "a\\t",
    ])
    func namesThatAreNoTokens(name: String) throws {
        let unescaped = name.replacing("\\r", with: "\r").replacing("\\n", with: "\n").replacing("\\t", with: "\t")
            .replacing("\\u0000", with: "\u{0}")
        try expectRefused("\"\(name)\":\"v\"", naming: "headers.\(unescaped)")
    }

    @Test(arguments: ["a\\r\\nHost: b", "a\\nb", "a\\rb", "\\u0000", "a\\u001fb", "\\u007f", "\\r\\n", "x\\n\\u0301"])
    func valuesWithControlCharacters(value: String) throws {
        try expectRefused("\"X-A\":\"\(value)\"", naming: "headers.X-A")
    }

    @Test func whiteSpaceRoundAValueIsDroppedAndWithinItKept() throws {
        #expect(try headers("\"a\":\" \\t v \\t w \"") == [HeaderField(name: "a", value: "v \t w")])
        #expect(try headers("\"a\":\"\"") == [HeaderField(name: "a", value: "")])
        #expect(try headers("\"a\":\"ä\"") == [HeaderField(name: "a", value: "ä")])
    }

    @Test func noNameStandsTwiceInWhateverCase() throws {
        try expectRefused("\"Accept\":\"a\",\"accept\":\"b\"", naming: "headers.accept")
        try expectRefused("\"accept\":\"a\",\"accept\":\"a\"", naming: "headers.accept")
    }

    /// A complaint fits a frame, whatever it complains about.
    @Test func aLongNameIsNotRepeatedWhole() throws {
        let name = String(repeating: "(", count: 1_000_000)
        guard
            case .rejected(_, let error) = try decoded(
                "{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\"headers\":{\"\(name)\":\"v\"}}")
        else {
            Issue.record("accepted")
            return
        }
        #expect(error.message.utf8.count < 300)
    }

    @Test func valuesAreStrings() throws {
        try expectRefused("\"a\":1", naming: "headers.a")
        try expectRefused("\"a\":[\"b\"]", naming: "headers.a")
        try expectRefused("\"a\":null", naming: "headers.a")
    }

    @Test func countAndSizeAreLimited() throws {
        func many(_ count: Int) -> String { (0..<count).map { "\"x-\($0)\":\"v\"" }.joined(separator: ",") }
        #expect(try headers(many(RequestHeaders.maximumCount)).count == RequestHeaders.maximumCount)
        try expectRefused(many(RequestHeaders.maximumCount + 1), naming: "headers")
        let longest = String(repeating: "v", count: RequestHeaders.maximumBytes - 1)
        #expect(try headers("\"a\":\"\(longest)\"").count == 1)
        try expectRefused("\"a\":\"\(longest)v\"", naming: "headers")
    }
}

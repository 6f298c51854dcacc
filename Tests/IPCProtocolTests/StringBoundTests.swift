import HTTPValues
import IPCProtocol
import JSONCoding
import Testing

/// The maximum lengths of a client's strings and lists.
struct StringBoundTests {
    private func text(_ type: String, _ fields: String) -> String { "{\"type\":\"\(type)\",\"id\":1,\(fields)}" }

    private func rejection(_ text: String) throws -> WireError? {
        guard case .rejected(_, let error) = try decoded(text) else { return nil }
        return error
    }

    @Test(
        arguments: [
            ("hello", #""protocol":1,"client":"#, "client", 255),
            ("store", #""url":"http://a/","fds":1,"contentType":"#, "contentType", 255),
            ("get", #""url":"http://a/","cacheKey":"#, "cacheKey", 1024),
            ("query", #""url":"http://a/","cacheKey":"#, "cacheKey", 1024),
        ])
    func stringsHaveAMaximumLength(type: String, fields: String, name: String, most: Int) throws {
        let longest = String(repeating: "x", count: most)
        #expect(try rejection(text(type, fields + "\"\(longest)\"")) == nil)
        let found = try #require(try rejection(text(type, fields + "\"\(longest)x\"")))
        #expect(found.code == .badRequest)
        #expect(found.message.hasPrefix(name + " "))
        // Bytes, not characters.
        #expect(try rejection(text(type, fields + "\"\(longest.dropLast())é\"")) != nil)
    }

    @Test(arguments: ["username", "password"]) func credentialsHaveAMaximumLength(name: String) throws {
        let longest = String(repeating: "x", count: 1024)
        let other = name == "username" ? "password" : "username"
        func credentials(_ value: String) -> String {
            text("get", "\"url\":\"http://a/\",\"credentials\":{\"\(other)\":\"\",\"\(name)\":\"\(value)\"}")
        }
        #expect(try rejection(credentials(longest)) == nil)
        let found = try #require(try rejection(credentials(longest + "x")))
        #expect(found.message == "credentials.\(name) must be a string of at most 1024 bytes.")
    }

    @Test(arguments: ["\\u0000", "a\\nb", "\\u001f", "\\u007f", "a\\tb"])
    func aCacheKeyHasNoControlCharacters(key: String) throws {
        try expectBadRequest("\"cacheKey\":\"\(key)\"", naming: "cacheKey")
    }

    @Test func aTypeHasAMaximumLength() throws {
        let found = try #require(try rejection(text(String(repeating: "x", count: 256), "\"a\":1")))
        #expect(found.message == "type must be a string of at most 255 bytes.")
        // One character of many scalars is not repeated whole.
        let combined = "e" + String(repeating: "\u{301}", count: 120)
        #expect(try #require(try rejection(text(combined, "\"a\":1"))).message.utf8.count < 200)
        let name = "e" + String(repeating: "\u{301}", count: 10_000)
        try #expect(
            #require(try rejection(text("get", "\"url\":\"http://a/\",\"headers\":{\"\(name)\":1}"))).message.utf8.count
                < 300)
    }

    @Test func listsHaveAMaximumLength() throws {
        func buffers(_ count: Int) -> String {
            "\"buffers\":[" + Array(repeating: "1", count: count).joined(separator: ",") + "]"
        }
        for type in ["release", "touch"] {
            #expect(try rejection(text(type, buffers(ClientMessage.mostBuffers))) == nil)
            #expect(try rejection(text(type, buffers(ClientMessage.mostBuffers + 1)))?.code == .badRequest)
        }
        let events = Array(repeating: "\"failed\"", count: 6).joined(separator: ",")
        #expect(try rejection(text("subscribe", "\"events\":[\(events)]")) == nil)
        #expect(try rejection(text("subscribe", "\"events\":[\(events),\"failed\"]"))?.code == .badRequest)
    }

    @Test func internationalHostsOfAPrefetchHaveAMaximumLengthTogether() throws {
        func prefetch(_ hosts: [String]) -> String {
            let urls = hosts.map { "\"http://\($0)/\"" }.joined(separator: ",")
            return text("prefetch", "\"urls\":[\(urls)]")
        }
        // 16 bytes each.
        let hosts = (100..<613).map { "ü\($0).example.or" }
        #expect(hosts.allSatisfy { $0.utf8.count == 16 })
        #expect(try rejection(prefetch(Array(hosts.dropLast()))) == nil)
        #expect(try rejection(prefetch(hosts))?.message.contains("international") == true)
        #expect(try rejection(prefetch(Array(repeating: "ü.example", count: 1000))) == nil)
    }

    @Test func urlsOfAPrefetchHaveAMaximumLengthTogether() throws {
        func prefetch(_ path: String, _ count: Int) -> String {
            text(
                "prefetch",
                "\"urls\":[" + Array(repeating: "\"http://a/\(path)\"", count: count).joined(separator: ",") + "]")
        }
        // 192 bytes each.
        let path = String(repeating: "x", count: 183)
        #expect(try rejection(prefetch(path, 1000)) == nil)
        #expect(try rejection(prefetch(path + "123456", 1000))?.message.hasPrefix("urls ") == true)
        // In canonical spelling.
        #expect(try rejection(prefetch(String(repeating: "<", count: 90), 1000))?.message.hasPrefix("urls ") == true)
    }

    /// More is no message at all, because reading it would take too long.
    @Test func aMessageHasAMaximumNumberOfTokens() throws {
        func values(_ count: Int) -> String {
            text("stats", "\"x\":[" + Array(repeating: "1", count: count).joined(separator: ",") + "]")
        }
        #expect(try decoded(values(24_000)) == .message(.stats(id: 1)))
        #expect(throws: JSONReader.MalformedJSON.self) { try decoded(values(25_000)) }
    }
}

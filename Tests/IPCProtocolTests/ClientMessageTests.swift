import HTTPValues
import IPCProtocol
import JSONCoding
import Testing

/// Messages that are none, and which complaint each gets.
struct ClientMessageTests {
    private func rejection(_ text: String) throws -> (id: Int?, code: ErrorCode, message: String)? {
        guard case .rejected(let id, let error) = try decoded(text) else { return nil }
        return (id, error.code, error.message)
    }

    @Test(arguments: [
        "\"id\":-1", "\"id\":9007199254740992", "\"id\":1.5", "\"id\":\"1\"", "\"id\":null", "\"id\":[1]", "\"x\":1",
    ])
    func anIdThatIsMissingOrWrongIsBadRequestWithoutId(member: String) throws {
        for type in ["hello", "get", "query", "cancel", "remove", "stats", "no such type"] {
            let found = try #require(try rejection("{\"type\":\"\(type)\",\(member)}"))
            #expect(found.id == nil)
            #expect(found.code == .badRequest)
            #expect(found.message.hasPrefix("id "))
        }
    }

    @Test(arguments: ["", "\"type\":null,", "\"type\":5,", "\"type\":[\"get\"],"])
    func aTypeThatIsMissingOrWrongIsBadRequest(member: String) throws {
        let found = try #require(try rejection("{\(member)\"id\":9}"))
        #expect(found.id == 9)
        #expect(found.code == .badRequest)
        #expect(found.message.hasPrefix("type "))
    }

    @Test(arguments: ["", "GET", "get ", "image", "ok", "Store", "cancel-all"])
    func anUnknownTypeIsBadRequestNamingIt(type: String) throws {
        let found = try #require(try rejection("{\"type\":\"\(type)\",\"id\":9}"))
        #expect(found.id == 9)
        #expect(found.code == .badRequest)
        #expect(found.message.contains("\"\(type)\""))
    }

    @Test func aLongUnknownTypeIsNotRepeatedWhole() throws {
        let found = try #require(try rejection("{\"type\":\"\(String(repeating: "x", count: 5000))\",\"id\":9}"))
        #expect(found.message.utf8.count < 100)
    }

    @Test func hello() throws {
        #expect(try decoded("{\"type\":\"hello\",\"id\":0,\"protocol\":1}") == .message(.hello(id: 0, client: nil)))
        #expect(try rejection("{\"type\":\"hello\",\"id\":0,\"protocol\":2}")?.code == .unsupportedVersion)
        #expect(try rejection("{\"type\":\"hello\",\"id\":0,\"protocol\":0}")?.code == .unsupportedVersion)
        for member in ["", ",\"protocol\":\"1\"", ",\"protocol\":null", ",\"protocol\":-1"] {
            let found = try #require(try rejection("{\"type\":\"hello\",\"id\":0\(member)}"))
            #expect(found.code == .badRequest)
            #expect(found.message.hasPrefix("protocol "))
        }
        let client = try #require(try rejection("{\"type\":\"hello\",\"id\":0,\"protocol\":1,\"client\":7}"))
        #expect(client.message.hasPrefix("client "))
    }

    @Test func update() throws {
        let text = { (members: String) in #"{"type":"update","id":1,"request":2\#(members)}"# }
        #expect(
            try decoded(text(#","priority":"low""#))
                == .message(.update(id: 1, request: 2, priority: .low, detach: false)))
        #expect(
            try decoded(text(#","detach":true"#)) == .message(.update(id: 1, request: 2, priority: nil, detach: true)))
        for (members, field) in [
            ("", "priority"), (#","detach":false"#, "priority"), (#","priority":"urgent""#, "priority"),
            (#","priority":1"#, "priority"), (#","detach":1"#, "detach"),
        ] {
            let found = try #require(try rejection(text(members)))
            #expect(found.code == .badRequest && found.message.hasPrefix("\(field) must be"), "\(members)")
        }
        #expect(try rejection(#"{"type":"update","id":1,"detach":true}"#)?.message.hasPrefix("request must") == true)
    }

    /// A get or prefetch with terms, which are for URLs.
    @Test func terms() throws {
        let get = { (members: String) in #"{"type":"get","id":1,"url":"http://a/"\#(members)}"# }
        guard
            case .message(.get(let request)) = try decoded(
                get(#","maxAgeSeconds":0,"retries":100,"alternatives":["HTTP://B","https://c/"]"#))
        else {
            Issue.record("not a get")
            return
        }
        #expect((request.options.maxAgeSeconds, request.options.retries) == (0, 100))
        #expect(request.options.alternatives.map(\.text) == ["http://b/", "https://c/"])
        #expect(try decoded(get(#","alternatives":[]"#)) == (try decoded(get(""))))
        for (members, field) in [
            (#","maxAgeSeconds":-1"#, "maxAgeSeconds"), (#","maxAgeSeconds":2147483648"#, "maxAgeSeconds"),
            (#","maxAgeSeconds":1.5"#, "maxAgeSeconds"), (#","retries":-1"#, "retries"),
            (#","retries":101"#, "retries"),
            (#","alternatives":"http://b/""#, "alternatives"), (#","alternatives":[1]"#, "alternatives"),
            (#","alternatives":["http://b/","http://b/","http://b/","http://b/","http://b/"]"#, "alternatives"),
            (#","alternatives":["http://b/"],"cacheKey":"k""#, "alternatives"),
        ] {
            let found = try #require(try rejection(get(members)), "\(members)")
            #expect(found.code == .badRequest && found.message.hasPrefix("\(field) must be"), "\(members)")
        }
        #expect(try rejection(get(#","alternatives":["ftp://b/"]"#))?.code == .unsupportedScheme)
        #expect(try rejection(get(#","alternatives":["b"]"#))?.code == .badRequest)
        for member in [#""maxAgeSeconds":1"#, #""retries":1"#, #""alternatives":["http://b/"]"#] {
            let found = try #require(try rejection(#"{"type":"get","id":1,"fds":1,\#(member)}"#))
            #expect(found.code == .badRequest)
        }
        let list = try rejection(#"{"type":"prefetch","id":1,"urls":[],"alternatives":["http://b/"]}"#)
        #expect(list?.message.hasPrefix("alternatives must be absent") == true)
    }

    @Test func cancel() throws {
        #expect(try decoded("{\"type\":\"cancel\",\"id\":1,\"request\":1}") == .message(.cancel(id: 1, request: 1)))
        for member in ["", ",\"request\":-1", ",\"request\":\"1\"", ",\"request\":null"] {
            let found = try #require(try rejection("{\"type\":\"cancel\",\"id\":1\(member)}"))
            #expect(found.code == .badRequest)
            #expect(found.message.hasPrefix("request "))
        }
    }

    @Test func releaseTakesOneBufferOrAListAndNoId() throws {
        func buffers(_ members: String) throws -> ClientMessage.Decoded {
            try decoded("{\"type\":\"release\",\(members)}")
        }
        #expect(try buffers("\"buffer\":5") == .message(.release(buffers: [5])))
        #expect(try buffers("\"buffers\":[5,6,5]") == .message(.release(buffers: [5, 6, 5])))
        #expect(try buffers("\"buffers\":[]") == .message(.release(buffers: [])))
        #expect(try buffers("\"id\":\"any\",\"buffers\":[1]") == .message(.release(buffers: [1])))
        for members in ["\"buffer\":0", "\"buffer\":\"5\"", "\"buffer\":9007199254740992"] {
            let found = try #require(try rejection("{\"type\":\"release\",\(members)}"))
            #expect(found.id == nil)
            #expect(found.message.hasPrefix("buffer "))
        }
        for members in ["\"buffers\":5", "\"buffers\":[1,-1]", "\"buffers\":[null]", "\"buffers\":{\"a\":1}"] {
            #expect(try #require(try rejection("{\"type\":\"release\",\(members)}")).message.hasPrefix("buffers "))
        }
    }

    @Test(arguments: ["get", "query", "remove"])
    func aUrlIsNeeded(type: String) throws {
        for member in ["", ",\"url\":null", ",\"url\":5", ",\"url\":\"\"", ",\"url\":\"http://\""] {
            let found = try #require(try rejection("{\"type\":\"\(type)\",\"id\":1\(member)}"))
            #expect(found.code == .badRequest)
            #expect(found.message.hasPrefix("url "))
        }
        let scheme = try #require(try rejection("{\"type\":\"\(type)\",\"id\":1,\"url\":\"file:///etc/passwd\"}"))
        #expect(scheme.code == .unsupportedScheme)
    }

    @Test func theEnvelopeSaysWhatFollows() throws {
        let text = Array("{\"payload\":12,\"id\":3,\"fds\":2,\"type\":\"stats\"}".utf8)
        let (message, envelope) = try ClientMessage.decode(text[...])
        #expect(message == .message(.stats(id: 3)))
        #expect(envelope.descriptors == 2)
        #expect(envelope.payload == 12)
    }

    @Test(arguments: [
        "[]", "7", "\"get\"", "null", "", "{", "{\"type\":\"get\",\"id\":1}}", "{\"type\":\"stats\",\"id\":1,}",
    ])
    func whatIsNoObjectIsNoMessage(text: String) {
        #expect(throws: JSONReader.MalformedJSON.self) { try decoded(text) }
    }
}

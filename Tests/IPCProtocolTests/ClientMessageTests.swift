@testable import IPCProtocol

/// Messages that are none, and which complaint each gets.
struct ClientMessageTests {
    @Test(arguments: [
        "\"id\":-1", "\"id\":9007199254740992", "\"id\":1.5", "\"id\":\"1\"", "\"id\":null", "\"id\":[1]", "\"x\":1",
    ])
    func anIdThatIsMissingOrWrongIsBadRequestWithoutId(member: String) throws {
        for type in ["hello", "get", "query", "cancel", "remove", "stats", "no such type"] {
            try expectBadRequest(of: "{\"type\":\"\(type)\",\(member)}", id: nil, naming: "id")
        }
    }

    @Test(arguments: ["", "\"type\":null,", "\"type\":5,", "\"type\":[\"get\"],"])
    func aTypeThatIsMissingOrWrongIsBadRequest(member: String) throws {
        try expectBadRequest(of: "{\(member)\"id\":9}", id: 9, naming: "type")
    }

    @Test(arguments: ["", "GET", "get ", "image", "ok", "Store", "cancel-all"])
    func anUnknownTypeIsBadRequestNamingIt(type: String) throws {
        let found = try #require(try rejection("{\"type\":\"\(type)\",\"id\":9}"))
        #expect((found.id, found.code) == (9, .badRequest))
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
            try expectBadRequest(of: "{\"type\":\"hello\",\"id\":0\(member)}", id: 0, naming: "protocol")
        }
        try expectBadRequest(of: #"{"type":"hello","id":0,"protocol":1,"client":7}"#, id: 0, naming: "client")
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
        ] { try expectBadRequest(of: text(members), naming: "\(field) must be") }
        try expectBadRequest(of: #"{"type":"update","id":1,"detach":true}"#, naming: "request must")
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
        ] { try expectBadRequest(of: get(members), naming: "\(field) must be") }
        #expect(try rejection(get(#","alternatives":["ftp://b/"]"#))?.code == .unsupportedScheme)
        #expect(try rejection(get(#","alternatives":["b"]"#))?.code == .badRequest)
        for member in [#""maxAgeSeconds":1"#, #""retries":1"#, #""alternatives":["http://b/"]"#] {
            #expect(try rejection(#"{"type":"get","id":1,"fds":1,\#(member)}"#)?.code == .badRequest)
        }
        let list = try rejection(#"{"type":"prefetch","id":1,"urls":[],"alternatives":["http://b/"]}"#)
        #expect(list?.message.hasPrefix("alternatives must be absent") == true)
    }

    @Test func cancel() throws {
        #expect(try decoded("{\"type\":\"cancel\",\"id\":1,\"request\":1}") == .message(.cancel(id: 1, request: 1)))
        for member in ["", ",\"request\":-1", ",\"request\":\"1\"", ",\"request\":null"] {
            try expectBadRequest(of: "{\"type\":\"cancel\",\"id\":1\(member)}", naming: "request")
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
            try expectBadRequest(of: "{\"type\":\"release\",\(members)}", id: nil, naming: "buffer")
        }
        for members in ["\"buffers\":5", "\"buffers\":[1,-1]", "\"buffers\":[null]", "\"buffers\":{\"a\":1}"] {
            try expectBadRequest(of: "{\"type\":\"release\",\(members)}", id: nil, naming: "buffers")
        }
    }

    @Test(arguments: ["get", "query", "remove"])
    func aUrlIsNeeded(type: String) throws {
        for member in ["", ",\"url\":null", ",\"url\":5", ",\"url\":\"\"", ",\"url\":\"http://\""] {
            try expectBadRequest(of: "{\"type\":\"\(type)\",\"id\":1\(member)}", naming: "url")
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

/// The maximum lengths of a client's strings and lists.
struct StringBoundTests {
    private func text(_ type: String, _ fields: String) -> String { "{\"type\":\"\(type)\",\"id\":1,\(fields)}" }

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
        try expectBadRequest(of: text(type, fields + "\"\(longest)x\""), naming: name)
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

/// Figures of a period.
struct StatsChangeTests {
    private func report(_ uptime: Int, _ requests: Int, hits: Int = 0, buckets: [Int] = []) -> StatsReport {
        var report = StatsReport()
        (report[.uptimeSeconds], report[.requests], report[.memoryHits]) = (uptime, requests, hits)
        report[.networkLoads] = requests - hits
        report.histograms[.load] = StatsReport.Histogram()
        report.histograms[.load]?.buckets = buckets
        return report
    }

    @Test func `a period is between two reports`() {
        let change = StatsChange(to: report(20, 300, hits: 250), from: report(10, 100, hits: 100), seconds: 10)
        #expect(!change.isSinceStart)
        #expect(change.count([.requests]) == 200)
        #expect(change.perSecond(.requests) == 20)
        #expect(change.hitRatio == 0.75)
        #expect(change.now.hitRatio == 250.0 / 300)
    }

    @Test func `without an earlier report the period is the broker's life`() {
        let change = StatsChange(to: report(20, 300))
        #expect(change.isSinceStart)
        #expect(change.perSecond(.requests) == 15)
    }

    @Test(arguments: [(5, 500), (30, 50)])
    func `a broker that was restarted has a life of its own`(uptime: Int, requests: Int) {
        let change = StatsChange(to: report(uptime, requests), from: report(20, 300), seconds: 10)
        #expect(change.isSinceStart)
        #expect(change.count([.requests]) == requests)
        #expect(change.seconds == Double(uptime))
    }

    @Test func quantiles() {
        // 100 durations below 2^10 µs, 100 below 2^11.
        let buckets = [Int](repeating: 0, count: 10) + [100, 100]
        let change = StatsChange(
            to: report(20, 1, buckets: buckets), from: report(10, 1, buckets: buckets.dropLast() + [50]), seconds: 10)
        #expect(change.buckets(.load) == [Int](repeating: 0, count: 11) + [50])
        #expect(change.quantile(0.5, .load) == 1536)
        #expect(change.quantile(1, .load) == 2048)
        #expect(change.quantile(0.5, .hit) == nil)
        #expect(StatsChange(to: report(20, 1, buckets: buckets)).quantile(0.5, .load) == 1024)
    }

    @Test func `no number is too large`() {
        var report = StatsReport()
        for figure in StatsReport.Figure.allCases { report[figure] = .max }
        report.histograms[.hit] = StatsReport.Histogram()
        report.histograms[.hit]?.buckets = [Int](repeating: .max, count: 28)
        let change = StatsChange(to: report)
        #expect(change.count(StatsReport.hits) == .max)
        #expect(change.hitRatio == 1)
        #expect(change.quantile(0.99, .hit)?.isFinite == true)
    }
}

/// A placeholder's texts, which are made of its bytes.
struct PlaceholderTests {
    @Test(arguments: [
        ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
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
        #expect(Placeholder(averageColor: "#000000", thumbHash: String(repeating: "/", count: 36)) == nil)
    }
}

import HTTPValues
import IPCProtocol
import Testing

/// Every field of a `get`: its values, its refusals, and what comes in later versions.
struct GetRequestTests {
    @Test func withoutFieldsTheDefaultsHold() throws {
        let options = try options("\"unknown\":[{}]")
        #expect(options == GetOptions())
        #expect(options.representation == .pixels)
        #expect(options.variant == GetOptions.Variant(pixelFormat: .rgba8, alpha: .premultiplied))
        #expect(options.delivery == .fd)
        #expect(options.cache == .default)
        #expect(options.priority == .normal)
        #expect(!options.progress)
        #expect(options.timeoutMs == 15_000)
        #expect(options.totalTimeoutMs == 60_000)
        #expect(options.headers.isEmpty)
        #expect(options.credentials == nil)
    }

    @Test func everyFieldIsRead() throws {
        #expect(try options("\"as\":\"original\"").representation == .original)
        #expect(try options("\"as\":\"pixels\"").representation == .pixels)
        #expect(try options("\"variant\":{}").variant == GetOptions.Variant())
        #expect(try options("\"variant\":{\"pixelFormat\":\"bgra8\"}").variant.pixelFormat == .bgra8)
        #expect(try options("\"variant\":{\"alpha\":\"straight\"}").variant.alpha == .straight)
        #expect(try options("\"delivery\":\"fd\"").delivery == .fd)
        #expect(try options("\"delivery\":\"inline\"").delivery == .inline)
        #expect(try options("\"delivery\":\"none\"").delivery == GetOptions.Delivery.none)
        #expect(try options("\"cache\":\"default\"").cache == .default)
        #expect(try options("\"cache\":\"reload\"").cache == .reload)
        #expect(try options("\"cache\":\"only-if-cached\"").cache == .onlyIfCached)
        for priority in GetOptions.Priority.allCases {
            #expect(try options("\"priority\":\"\(priority.rawValue)\"").priority == priority)
        }
        #expect(try options("\"progress\":true").progress)
        #expect(try !options("\"progress\":false").progress)
        #expect(try options("\"timeoutMs\":1").timeoutMs == 1)
        #expect(try options("\"timeoutMs\":86400000").timeoutMs == 86_400_000)
        #expect(try options("\"totalTimeoutMs\":1").totalTimeoutMs == 1)
        #expect(try options("\"totalTimeoutMs\":2.5e3").totalTimeoutMs == 2500)
        let credentials = try options("\"credentials\":{\"username\":\"u\",\"password\":\"a:b\",\"x\":1}").credentials
        #expect(credentials == Credentials(username: "u", password: "a:b"))
        #expect(try options("\"credentials\":{\"username\":\"\",\"password\":\"\"}").credentials != nil)
    }

    @Test func `a range of frames is for pixels, and in place of a frame`() throws {
        let read = { (fields: String) in try options("\"variant\":{\(fields)}").variant.frames }
        #expect(try read(#""frames":{"first":3,"count":10000}"#) == .range(FrameRange(first: 3, count: 10_000)))
        for (fields, name) in [
            (#""variant":{"frames":{"first":0,"count":0}}"#, "variant.frames.count"),
            (#""variant":{"frames":{"first":0,"count":10001}}"#, "variant.frames.count"),
            (#""variant":{"frames":{"first":-1,"count":1}}"#, "variant.frames.first"),
            (#""variant":{"frames":{"first":65535,"count":1}}"#, "variant.frames.first"),
            (#""variant":{"frames":{"count":1}}"#, "variant.frames.first"),
            (#""variant":{"frames":1}"#, "variant.frames"),
            (#""variant":{"frames":{"first":0,"count":1},"frame":0}"#, "variant.frame"),
            (#""variant":{"frames":{"first":0,"count":1}},"as":"webp""#, "variant.frames"),
            (
                #""variant":{"frames":{"first":0,"count":1},"width":9,"height":9,"fit":"cover","position":"entropy"}"#,
                "variant.position"
            ),
            (#""variant":{"frames":{"first":0,"count":1}},"as":"original""#, "variant.frames"),
        ] { try expectBadRequest(fields, naming: name) }
    }

    @Test(arguments: [
        "as", "delivery", "cache", "priority", "progress", "timeoutMs", "totalTimeoutMs", "headers", "variant",
        "credentials", "retryFailed", "staleFirst", "progressive", "cookies", "allowInvalidCertificates", "storage",
        "quality", "cacheKey",
    ])
    func aFieldOfAWrongTypeIsNamed(field: String) throws {
        for value in ["null", "17", "\"17\"", "[]", "{\"x\":17}", "true", "-1.5"] {
            // What is right for one field or another.
            switch (field, value) {
            case ("progress", "true"), ("retryFailed", "true"), ("timeoutMs", "17"), ("totalTimeoutMs", "17"): continue
            case ("staleFirst", "true"), ("cookies", "true"), ("allowInvalidCertificates", "true"): continue
            case ("cacheKey", "\"17\""), ("progressive", "true"), ("quality", "17"): continue
            case ("variant", "{\"x\":17}"): continue
            default: try expectBadRequest("\"\(field)\":\(value)", naming: field.isEmpty ? "" : prefix(field, value))
            }
        }
    }

    /// The complaint about a member of an object names the member.
    private func prefix(_ field: String, _ value: String) -> String {
        switch field {
        case "headers" where value.hasPrefix("{"): "headers.x"
        case "credentials" where value.hasPrefix("{"): "credentials.username"
        default: field
        }
    }

    @Test(arguments: [
        ("\"as\":\"gif\"", "as"), ("\"as\":\"Pixels\"", "as"), ("\"delivery\":\"\"", "delivery"),
        ("\"cache\":\"never\"", "cache"), ("\"priority\":\"urgent\"", "priority"), ("\"timeoutMs\":0", "timeoutMs"),
        ("\"timeoutMs\":-1", "timeoutMs"), ("\"timeoutMs\":1.5", "timeoutMs"), ("\"timeoutMs\":86400001", "timeoutMs"),
        ("\"totalTimeoutMs\":0", "totalTimeoutMs"), ("\"totalTimeoutMs\":1e300", "totalTimeoutMs"),
        ("\"variant\":{\"pixelFormat\":\"rgb\"}", "variant.pixelFormat"),
        ("\"variant\":{\"alpha\":0}", "variant.alpha"),
        ("\"credentials\":{}", "credentials.username"),
        ("\"credentials\":{\"username\":\"u\"}", "credentials.password"),
        ("\"credentials\":{\"username\":1,\"password\":\"p\"}", "credentials.username"),
        ("\"credentials\":{\"username\":\"a:b\",\"password\":\"p\"}", "credentials.username"),
        ("\"credentials\":{\"username\":\"u\",\"password\":\"a\\r\\nb\"}", "credentials.password"),
        ("\"credentials\":{\"username\":\"u\\u0000\",\"password\":\"p\"}", "credentials.username"),
        ("\"fds\":-1", "fds"), ("\"fds\":\"1\"", "fds"), ("\"fds\":254", "fds"), ("\"payload\":-1", "payload"),
        ("\"payload\":true", "payload"), ("\"payload\":9007199254740992", "payload"),
    ])
    func aValueOutOfItsRangeIsNamed(fields: String, field: String) throws {
        try expectBadRequest(fields, naming: field)
    }

    @Test(arguments: [
        ("progressive", ["false"], ["1"]), ("quality", ["85", "85.0"], ["0", "101", "\"best\""]),
        ("as", ["\"pixels\""], ["\"gif\"", "\"PNG\""]), ("cacheKey", [], ["\"\""]),
        ("storage", ["\"both\""], ["\"all\"", "0"]), ("cache", ["\"default\""], ["\"nocache\""]),
    ])
    func fieldsAreAcceptedWithTheirDefault(field: String, accepted: [String], refused: [String]) throws {
        for value in accepted { #expect(try options("\"\(field)\":\(value)") == GetOptions()) }
        for value in refused { try expectBadRequest("\"\(field)\":\(value)", naming: field) }
    }

    @Test(arguments: [
        ("scaleDown", ["false"], ["0", "\"yes\""]), ("frame", ["0"], ["-1", "65535", "\"first\"", "[0]"]),
        ("fit", ["\"inside\""], ["\"outside\"", "1"]), ("width", [], ["0", "null", "65536", "1.5"]),
        ("height", [], ["0", "-1", "65536"]),
    ])
    func theVariantHasItsRanges(field: String, accepted: [String], refused: [String]) throws {
        for value in accepted { #expect(try options("\"variant\":{\"\(field)\":\(value)}") == GetOptions()) }
        for value in refused { try expectBadRequest("\"variant\":{\"\(field)\":\(value)}", naming: "variant.\(field)") }
    }

    @Test func theVariantSaysWhichFrames() throws {
        #expect(try options(#""variant":{"frame":7}"#).variant.frames == .one(7))
        #expect(try options(#""variant":{"frame":"all"},"as":"webp""#).variant.frames == .all)
        let options = try options(#""variant":{"frame":"all"}"#)
        #expect(options.variant.transform(scaleDownLimit: 1).frames == .all)
        for format in ["png", "jpeg"] {
            try expectBadRequest(#""variant":{"frame":"all"},"as":"\#(format)""#, naming: "variant.frame")
        }
        let request = GetRequest(id: 1, url: try SourceURL("http://a/"), options: options)
        let text = try ClientMessage.get(request).encoded().dropFirst(Frame.headerLength)
        #expect(try ClientMessage.decode(text).0 == .message(.get(request)))
    }

    @Test func theVariantSaysHowToScale() throws {
        let options = try options(#""variant":{"width":65535,"height":1,"fit":"cover","scaleDown":true}"#)
        #expect(options.variant.width == 65_535 && options.variant.height == 1)
        #expect(options.variant.fit == .cover && options.variant.scaleDown)
        #expect(options.variant.transform(scaleDownLimit: 1000).byteLimit == 1000)
        // What is asked for comes back as it was asked.
        let request = GetRequest(id: 1, url: try SourceURL("http://a/"), options: options)
        let text = try ClientMessage.get(request).encoded().dropFirst(Frame.headerLength)
        #expect(try ClientMessage.decode(text).0 == .message(.get(request)))
    }

    @Test func theFirstProblemIsNamedAndTheIdKept() throws {
        try expectBadRequest("\"as\":1,\"delivery\":2", naming: "as")
        let late = try decoded("{\"as\":1,\"url\":\"http://a/\",\"type\":\"get\",\"id\":77}")
        guard case .rejected(id: 77, let error) = late else {
            Issue.record("\(late)")
            return
        }
        #expect(error.message.hasPrefix("as "))
    }

    @Test func membersStandInAnyOrder() throws {
        let expected = try decoded("{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\"delivery\":\"none\"}")
        #expect(try decoded("{\"delivery\":\"none\",\"url\":\"http://a/\",\"id\":1,\"type\":\"get\"}") == expected)
    }

    @Test func queryAndRemoveReadTheSameFields() throws {
        let url = try SourceURL("http://a/")
        let members = "\"id\":1,\"url\":\"http://a\",\"variant\":{\"alpha\":\"straight\"}"
        var request = GetRequest(id: 1, url: url)
        request.options.variant.alpha = .straight
        #expect(try decoded("{\"type\":\"query\",\(members)}") == .message(.query(request)))
        #expect(try decoded("{\"type\":\"remove\",\(members)}") == .message(.remove(id: 1, url: url)))
    }

    @Test func prioritiesAreOrdered() {
        #expect(GetOptions.Priority.low < .normal)
        #expect(GetOptions.Priority.normal < .high)
        #expect(GetOptions.Priority.allCases.sorted() == [.low, .normal, .high])
    }
}

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
        #expect(try options("\"variant\":{}").variant == GetOptions.Variant())
        #expect(try options("\"variant\":{\"pixelFormat\":\"bgra8\"}").variant.pixelFormat == .bgra8)
        #expect(try options("\"variant\":{\"alpha\":\"straight\"}").variant.alpha == .straight)
        #expect(try options("\"delivery\":\"fd\"").delivery == .fd)
        #expect(try options("\"delivery\":\"inline\"").delivery == .inline)
        #expect(try options("\"delivery\":\"none\"").delivery == GetOptions.Delivery.none)
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
        ("\"variant\":{\"alpha\":0}", "variant.alpha"), ("\"credentials\":{}", "credentials.username"),
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
        try expectComesBack(options)
    }

    /// What is asked for comes back as it was asked.
    private func expectComesBack(_ options: GetOptions) throws {
        let request = GetRequest(id: 1, url: try SourceURL("http://a/"), options: options)
        let text = try ClientMessage.get(request).encoded().dropFirst(Frame.headerLength)
        #expect(try ClientMessage.decode(text).0 == .message(.get(request)))
    }

    @Test func theVariantSaysHowToScale() throws {
        let options = try options(#""variant":{"width":65535,"height":1,"fit":"cover","scaleDown":true}"#)
        #expect(options.variant.width == 65_535 && options.variant.height == 1)
        #expect(options.variant.fit == .cover && options.variant.scaleDown)
        #expect(options.variant.transform(scaleDownLimit: 1000).byteLimit == 1000)
        try expectComesBack(options)
    }

    @Test func theFirstProblemIsNamedAndTheIdKept() throws {
        try expectBadRequest("\"as\":1,\"delivery\":2", naming: "as")
        try expectBadRequest(of: #"{"as":1,"url":"http://a/","type":"get","id":77}"#, id: 77, naming: "as")
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

/// Options as they are compared where it must be quick: none of them is left out.
struct PlainOptionsTests {
    /// Something else for each field of fixed size.
    private static let changes: [String: @Sendable (inout GetOptions) -> Void] = [
        "representation": { $0.representation = .original }, "quality": { $0.quality = 3 },
        "variant": { $0.variant.frames = .all }, "delivery": { $0.delivery = .inline }, "cache": { $0.cache = .reload },
        "staleFirst": { $0.staleFirst = true }, "storage": { $0.storage = .disk }, "priority": { $0.priority = .low },
        "retryFailed": { $0.retryFailed = true }, "progress": { $0.progress = true },
        "progressive": { $0.progressive = true }, "damaged": { $0.damaged = .accept },
        "timeoutMs": { $0.timeoutMs = 1 }, "totalTimeoutMs": { $0.totalTimeoutMs = 1 },
        "cookies": { $0.cookies = true }, "allowInvalidCertificates": { $0.allowInvalidCertificates = true },
        "trace": { $0.trace = true }, "embedded": { $0.embedded = .fast },
    ]
    /// And for the others.
    private static let others: [String: @Sendable (inout GetOptions) -> Void] = [
        "headers": { $0.headers = [HeaderField(name: "a", value: "b")] },
        "credentials": { $0.credentials = Credentials(username: "a", password: "b") },
        "cacheKey": { $0.cacheKey = "a" }, "preset": { $0.preset = "a" }, "terms": { $0.retries = 0 },
        "metadata": { $0.metadata = [.xmp] },
    ]

    private func plain(_ change: (inout GetOptions) -> Void) -> GetOptions.Plain? {
        var options = GetOptions()
        change(&options)
        return options.plain
    }

    @Test func eachFieldIsCompared() throws {
        let usual = try #require(GetOptions().plain)
        #expect(usual == GetOptions().plain)
        for (name, change) in Self.others { #expect(plain(change) == nil, "\(name)") }
        // Each has its own bit, and so has each field of the variant.
        let variants: [@Sendable (inout GetOptions) -> Void] = [
            { $0.variant.width = 64 }, { $0.variant.height = 64 }, { $0.variant.fit = .cover },
            { $0.variant.scaleDown = true }, { $0.variant.pixelFormat = .bgra8 },
            { $0.variant.pixelFormat = .rgb8 }, { $0.variant.pixelFormat = .gray8 }, { $0.variant.alpha = .straight },
            { $0.variant.frames = .one(1) }, { $0.variant.linear = true },
        ]
        var seen = [usual]
        for (name, change) in Array(Self.changes) + variants.map({ ("the variant's", $0) }) {
            let found = try #require(plain(change), "\(name)")
            #expect(!seen.contains(found), "\(name)")
            seen.append(found)
        }
        #expect(plain { $0.variant.steps = [.flip(.horizontal)] } == nil)
        #expect(plain { $0.variant.background = Color(red: 1, green: 2, blue: 3) } == nil)
        let fields = Mirror(reflecting: GetOptions().variant).children.compactMap(\.label)
        #expect(
            Set(fields)
                == [
                    "width", "height", "fit", "scaleDown", "pixelFormat", "alpha", "background", "frames", "linear",
                    "edits",
                ])
    }

    @Test(arguments: [-1, 0, 65_536, 1 << 40]) func `numbers that no broker accepts are not plain`(number: Int) {
        #expect(plain { $0.variant.width = number } == nil)
        #expect(plain { $0.variant.height = number } == nil)
        #expect(plain { $0.totalTimeoutMs = 1 << 40 } == nil)
    }

    @Test func noFieldIsForgotten() {
        let fields = Mirror(reflecting: GetOptions()).children.compactMap(\.label)
        #expect(Set(fields) == Set(Self.changes.keys).union(Self.others.keys))
    }
}

struct RequestHeadersTests {
    private func headers(_ members: String) throws -> [HeaderField] { try options("\"headers\":{\(members)}").headers }

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
    func reservedNames(name: String) throws { try expectRefused("\"\(name)\":\"v\"", naming: "headers.\(name)") }

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
        #expect(try #require(try complaint("\"headers\":{\"\(name)\":\"v\"}")).utf8.count < 300)
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

/// The recognition of repeated requests, compared with the JSON reader.
struct RepeatableTextTests {
    private let get = #"{"type":"get","id":17,"url":"http://a.example/p?q","variant":{"width":64}}"#

    @Test func usualSpellings() throws {
        let compact = try #require(RepeatableText(Array(get.utf8)[...]))
        #expect(compact.id == 17)
        #expect(String(decoding: compact.rest, as: UTF8.self) == String(get.dropFirst(#"{"type":"get","id":17"#.count)))
        #expect(compact.isPlain)
        let spaced = #"{"type": "get", "id": 17, "url": "http://a.example/"}"#
        #expect(RepeatableText(Array(spaced.utf8)[...])?.id == 17)
        #expect(RepeatableText.releasedBuffer(Array(#"{"type":"release","buffer":12}"#.utf8)[...]) == 12)
        #expect(RepeatableText.releasedBuffer(Array(#"{"type": "release", "buffer": 12}"#.utf8)[...]) == 12)
        // The client library's.
        let release = try ClientMessage.release(buffers: [12]).encoded().dropFirst(Frame.headerLength)
        #expect(RepeatableText.releasedBuffer(release) == 12)
    }

    @Test(arguments: [
        #"{"type":"get","id":-1,"url":"http://a/"}"#, #"{"type":"get","id":1.0,"url":"http://a/"}"#,
        #"{"type":"get","id":01,"url":"http://a/"}"#, #"{"type":"get","id":,"url":"http://a/"}"#,
        #"{"type":"get","id":1234567890123456,"url":"http://a/"}"#, #"{"type":"get","id":1}"#, #"{"type":"get","id":1"#,
        #"{"type":"query","id":1,"url":"http://a/"}"#, #"{"id":1,"type":"get","url":"http://a/"}"#, "", "{",
    ])
    func othersAreForTheGeneralReader(_ text: String) {
        #expect(RepeatableText(Array(text.utf8)[...]) == nil)
    }

    /// Further members of the envelope, or other spellings of them, mean something else with another id.
    @Test(arguments: [
        #""id":2"#, #""headers":{}"#, #""credentials":{"username":"u","password":"p"}"#, #""type":"query""#,
        #""fds":1"#, #""payload":4"#, #""i\u0064":2"#, #""url":"http://a/\u0062""#,
    ])
    func restsThatAreNotPlain(_ member: String) throws {
        let text = #"{"type":"get","id":1,"url":"http://a/",\#(member)}"#
        #expect(try !#require(RepeatableText(Array(text.utf8)[...])).isPlain)
    }

    @Test(arguments: [
        #"{"type":"release","buffer":0}"#, #"{"type":"release","buffer":1,"id":2}"#, #"{"type":"release","buffer":1 }"#,
        #"{"type":"release","buffer":01}"#, #"{"type":"release","buffers":[1,2]}"#,
        #"{"type":"release","buffers":[]}"#, #"{"type":"release","buffers":[0]}"#, #"{"type":"release","buffers":[1]"#,
        #"{"type":"release","buffers":[1]},"#, #"{"type":"release","buffers":1}"#, #"{"type":"release","buffer":1]}"#,
        #"{"type":"release","buffer":1"#,
    ])
    func releasesOfAnotherKind(_ text: String) {
        #expect(RepeatableText.releasedBuffer(Array(text.utf8)[...]) == nil)
    }

    /// Texts with bytes changed, doubled or removed: each recognised text means the same with another id to the JSON
    /// reader.
    @Test(arguments: 1...20) func agreesWithTheGeneralReader(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let seeds = [
            get, #"{"type":"release","buffer":7}"#, #"{"type":"release","buffers":[7]}"#,
            #"{"type": "get", "id": 3, "url": "http://b/", "as": "original"}"#,
            #"{"type":"get","id":1,"url":"http://a/","id":2,"type":"query","fds":1}"#,
        ]
        var taken = 0
        for _ in 0..<3000 {
            var text = Array(seeds.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = Int.random(in: 0..<text.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: text[place] = Array(#"0123456789"\{}[],: eidtypfs"#.utf8).randomElement(using: &random)!
                case 1: text.insert(text.randomElement(using: &random)!, at: place)
                default: if text.count > 1 { text.remove(at: place) }
                }
            }
            if try Self.check(text[...]) { taken += 1 }
        }
        #expect(taken > 300)
    }

    /// Compares one text with the JSON reader. Returns whether it is recognised.
    private static func check(_ text: ArraySlice<UInt8>) throws -> Bool {
        let general = try? ClientMessage.decode(text).0
        if let buffer = RepeatableText.releasedBuffer(text) {
            #expect(general == .message(.release(buffers: [buffer])))
            return true
        }
        guard let short = RepeatableText(text), case .message(.get(let request))? = general, short.isPlain else {
            return false
        }
        #expect(request.id == short.id)
        let other = Array(#"{"type":"get","id":987"#.utf8) + short.rest
        var expected = request
        expected.id = 987
        #expect(try ClientMessage.decode(other[...]).0 == .message(.get(expected)))
        return true
    }

    @Test func answersAreTheSameBytes() throws {
        for (name, reply) in GoldenReplyTests.replies {
            guard case .image(_, let image) = reply else { continue }
            let rest = Reply.restOfImage(image)
            for id in [0, 7, 4_294_967_296, JSONReader.maximumInteger] {
                #expect(Reply.imageFrame(id: id, rest: rest) == Reply.image(id: id, image).encoded(), "\(name)")
            }
        }
    }
}

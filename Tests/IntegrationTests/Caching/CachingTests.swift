/// HTTP caching: modes, revalidation, stale answers and private entries.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CachingTests {
    private static func tagged(
        _ request: LocalOrigin.Request, _ cacheControl: String, _ picture: TestPicture = tile(7),
        etag: String = "\"1\""
    ) -> LocalOrigin.Response {
        .resource(picture.png, etag: etag, cacheControl: cacheControl, contentType: "image/png", for: request)
    }

    private struct Outcome: Equatable {
        var source: ImageReply.Source?
        var isStale = false
        var error: ErrorCode?
        /// The numbers of conditional and unconditional requests to the origin.
        var conditional = 0
        var plain = 0
    }

    @Test func modes() throws {
        let (setting, client) = try Setting { request in
            Self.tagged(request, request.path.hasSuffix("stale") ? "max-age=0" : "max-age=600")
        }.withClient()
        let kept = Outcome(source: .memory)
        let confirmed = Outcome(source: .memory, conditional: 1)
        let stale = Outcome(source: .memory, isStale: true)
        let loaded = Outcome(source: .network, plain: 1)
        let expected: [(mode: String, fresh: Outcome, stale: Outcome, missing: Outcome)] = [
            ("default", kept, confirmed, loaded),
            ("no-cache", confirmed, confirmed, loaded),
            ("reload", loaded, loaded, loaded),
            ("no-store", loaded, loaded, loaded),
            ("force-cache", kept, stale, loaded),
            ("only-if-cached", kept, stale, Outcome(error: .notCached)),
        ]
        for (mode, fresh, stale, missing) in expected {
            for (name, expected) in [("fresh", fresh), ("stale", stale), ("missing", missing)] {
                let path = "/\(mode)-\(name)"
                if name != "missing" { _ = try client.load(setting.url(path)) }
                let before = setting.origin.requests(path).count
                var outcome = Outcome()
                let answer = try client.answer(to: try client.get(setting.url(path), #""cache":"\#(mode)""#))
                if let image = try? answer.image() {
                    (outcome.source, outcome.isStale) = (image.source, image.stale)
                    #expect(try client.picture(answer) == tile(7))
                }
                outcome.error = answer.error?.code
                for request in setting.origin.requests(path)[before...] {
                    if request["If-None-Match"] == "\"1\"" { outcome.conditional += 1 } else { outcome.plain += 1 }
                }
                #expect(outcome == expected, "\(mode), \(name)")
            }
        }
        #expect(try client.stats()[.decodes] == 1)
        // Loaded with no-store, the image was not cached.
        #expect(try client.failure(setting.url("/no-store-missing"), #""cache":"only-if-cached""#).code == .notCached)
    }

    @Test func revalidationRefreshesWithoutDecoding() throws {
        let setting = try Setting { Self.tagged($0, $0.number == 1 ? "max-age=0" : "max-age=5000") }
        let client = try setting.client()
        let url = setting.url("/a")
        let first = try client.load(url).image()
        let second = try client.load(url).image()
        let third = try client.load(url).image()
        #expect([first.source, second.source, third.source] == [.network, .memory, .memory])
        #expect([first.stale, second.stale, third.stale] == [false, false, false])
        #expect(second.buffer == first.buffer)
        #expect(try #require(second.expires) - #require(first.expires) > 4000)
        #expect(third.expires == second.expires)
        #expect(setting.origin.requests.map { $0["If-None-Match"] } == [nil, "\"1\""])
        #expect(try client.stats()[.revalidated, .decodes, .downloads, .memoryHits] == [1, 1, 1, 2])
    }

    /// By the response's directive, or by the option.
    @Test(arguments: [([String](), ", stale-while-revalidate=600"), (["--stale-while-revalidate", "1h"], "")])
    func staleWhileRevalidateSendsOneRequest(_ arguments: [String], _ directive: String) throws {
        let setting = try Setting(arguments) { request in
            if request.number == 1 { return Self.tagged(request, "max-age=0" + directive) }
            return Self.tagged(request, "max-age=600", tile(8), etag: "\"2\"").with { $0.hold = .beforeHeaders }
        }
        let (client, url) = (try setting.client(), setting.url("/a"))
        _ = try client.load(url)
        for _ in 0..<5 {
            let incoming = try client.load(url)
            #expect(try (incoming.image().stale, client.picture(incoming)) == (true, tile(7)))
        }
        setting.origin.expectHeld("/a")
        setting.origin.gate("/a").open()
        try eventually("the new image is served") { try client.picture(of: url) == tile(8) }
        #expect(try !client.load(url).image().stale)
        #expect(setting.origin.requests.count == 2)
    }

    @Test func staleIfErrorServesWithoutTheOrigin() throws {
        let (setting, client) = try Setting { request in
            if request.number > 1 { return .status(request.path == "/gone" ? 410 : 503) }
            return Self.tagged(request, request.path == "/b" ? "max-age=0" : "max-age=0, stale-if-error=600")
        }.withClient()
        for path in ["/a", "/b", "/gone"] { _ = try client.load(setting.url(path)) }
        #expect(try client.failure(setting.url("/gone")).httpStatus == 410)
        #expect(try client.failure(setting.url("/gone"), #""cache":"only-if-cached""#).code == .notCached)
        let before = try client.stats()[.staleServed]
        for hasStopped in [false, true] {
            if hasStopped { setting.origin.stop() }
            let incoming = try client.load(setting.url("/a"))
            #expect(try (incoming.image().stale, incoming.image().source) == (true, .memory))
            #expect(try client.picture(incoming) == tile(7))
            // Without stale-if-error the failure is the answer.
            #expect(try client.failure(setting.url("/b")).code == (hasStopped ? .connectFailed : .httpStatus))
        }
        #expect(try client.stats()[.staleServed] == before + 2)
    }

    @Test(arguments: [false, true]) func uncacheableIsNotCached(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles) { Self.tagged($0, "no-store") }
        try setting.wait(for: .on)
        for _ in 0..<2 { #expect(try setting.load(1).source == .network) }
        #expect(try Array(setting.client.query(setting.url(1)).prefix(2)) == [false, false])
        try setting.wait(for: .on, entries: 0)
        #expect(setting.files("originals").isEmpty)
        try setting.restart()
        #expect(try setting.load(1).source == .network)
    }

    /// Request headers are part of the key; cookies from the jar are not, so that the entry is not reused.
    @Test func varyHeaders() throws {
        let (setting, client) = try Setting { request in
            let name = request.path == "/any" ? "*" : String(request.path.dropFirst())
            return Self.tagged(request, "max-age=600").with { $0.headers.append(.init("Vary", name)) }
        }.withClient()
        for (path, members, count) in [
            ("/any", "", 2), ("/accept", "", 1), ("/cookie", #""cookies":true"#, 2),
            ("/accept-language", #""headers":{"Accept-Language":"de"}"#, 1),
        ] {
            for _ in 0..<2 { _ = try client.load(setting.url(path), members) }
            #expect(setting.origin.requests(path).count == count, "\(path)")
        }
        #expect(setting.origin.requests("/accept-language").first?["Accept-Language"] == "de")
    }

    @Test func `a response above the age is asked for again`() throws {
        let (setting, client) = try Setting { request in
            png(tile(request.number), maxAge: 3600).with { $0.headers.append(.init("Age", "100")) }
        }.withClient()
        for (members, number) in [("", 1), (#""maxAgeSeconds":3600"#, 1), (#""maxAgeSeconds":99"#, 2), ("", 2)] {
            #expect(try client.picture(of: setting.url("/a"), members) == tile(number), "\(members)")
        }
    }

    @Test func staleFirstSendsTwoFrames() throws {
        let (setting, client) = try Setting { request in
            if request.path == "/gone" && request.number > 1 { return .status(404) }
            let changes = request.path == "/new" && request.number > 1
            return Self.tagged(request, "max-age=600", tile(changes ? 8 : 7), etag: changes ? "\"2\"" : "\"1\"").with {
                $0.hold = request.number > 1 ? .beforeHeaders : .never
            }
        }.withClient()
        let members = #""cache":"no-cache","staleFirst":true"#
        for (path, last) in [("/new", tile(8)), ("/same", tile(7))] {
            #expect(try client.frames(setting.url(path), members).count == 1)
            let id = try client.get(setting.url(path), members)
            let preview = try client.answer(to: id, orProgress: true)
            #expect(try (preview.image().final, preview.image().source) == (false, .memory))
            #expect(try client.picture(preview) == tile(7))
            setting.origin.expectHeld(path)
            setting.origin.gate(path).open()
            let final = try client.answer(to: id, orProgress: true)
            #expect(try (final.image().final, client.picture(final)) == (true, last))
            #expect(try final.image().source == (path == "/new" ? .network : .memory))
            _ = try client.hello()
            #expect(try client.nextIfThere() == nil)
            #expect(setting.origin.requests(path).map { $0["If-None-Match"] } == [nil, "\"1\""])
        }
        #expect(try client.loaded(setting.url("/new")) == (tile(8), .memory))
        // An error may be the second frame.
        _ = try client.load(setting.url("/gone"))
        let frames = try client.frames(setting.url("/gone"), members)
        #expect(try (frames.count, frames[0].image().final, frames[1].error?.httpStatus) == (2, false, 404))
        let report = try client.stats()
        #expect((report.ended, report[.requests]) == (7, 7))
    }
}

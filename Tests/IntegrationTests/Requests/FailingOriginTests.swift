/// Failing origins: retries, recently failed URLs, and hosts that are not contacted for a while.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FailingOriginTests {
    @Test func retryAfterPausesTheOrigin() throws {
        let (setting, client) = try Setting { request in
            if request.path == "/cached" { return png(tile(1)) }
            return .status(503, headers: [.init("Retry-After", "300")])
        }.withClient()
        _ = try client.load(setting.url("/cached"))
        let first = try client.failure(setting.url("/a"))
        #expect((first.code, first.httpStatus, first.retryAfterMs) == (.httpStatus, 503, 300_000))
        #expect(!first.recentlyFailed)
        for path in ["/a", "/b"] {
            let error = try client.failure(setting.url(path))
            #expect((error.code, error.code.isRetryable) == (.hostUnavailable, true))
            #expect((1...300_000).contains(error.retryAfterMs ?? 0))
        }
        #expect(try client.load(setting.url("/cached")).image().source == .memory)
        #expect(setting.origin.requests.count == 2)
    }

    @Test func `a short Retry-After delays requests, and fails none`() throws {
        let (setting, client) = try Setting { request in
            request.path == "/9" && request.number == 1
                ? .status(429, headers: [.init("Retry-After", "1")]) : png(tile(request.path.utf8.count))
        }.withClient()
        let numbers = try (0..<200).map { try client.get(setting.url("/\($0)"), #""delivery":"none","trace":true"#) }
        var waits = 0
        for _ in numbers {
            let spans = try client.next().image().spans
            waits += spans.count { $0.name == "held" && $0.microseconds > 0 }
        }
        // The one that was refused has waited, and others.
        #expect(waits > 1)
        let report = try setting.broker.stats()
        #expect(report[.held] == 0 && report.histograms[.held]?.count ?? 0 == waits)
        #expect(setting.origin.requests.count == 201)
    }

    @Test func recentFailuresAreListed() throws {
        let (setting, client) = try Setting { request in
            switch request.path {
            case "/mended": request.number == 1 ? .status(404) : png(tile(2))
            case "/brief": .status(410, headers: [.init("Cache-Control", "max-age=1")])
            case "/text": .ok(Array("no picture".utf8))
            default: .status(410)
            }
        }.withClient()
        func listed() throws -> [String: String] {
            let entries = try client.ask("failed", #""action":"list""#).fields["entries"] as? [[String: Any]] ?? []
            for entry in entries {
                #expect((entry["expires"] as? Int ?? 0) > WallClock.milliseconds / 1000 - 2)
            }
            return Dictionary(
                uniqueKeysWithValues: entries.map { ($0["url"] as? String ?? "", $0["code"] as? String ?? "") })
        }
        for (path, code) in [("/gone", ErrorCode.httpStatus), ("/text", .unsupportedFormat), ("/mended", .httpStatus)] {
            let first = try client.failure(setting.url(path))
            #expect((first.code, first.recentlyFailed) == (code, true))
            let second = try client.failure(setting.url(path))
            #expect((second.code, second.cause) == (.recentlyFailed, code))
            if path == "/mended" { #expect((1...60_000).contains(second.retryAfterMs ?? 0)) }
            #expect(setting.origin.requests(path).count == 1)
        }
        #expect(
            try listed() == [
                setting.url("/gone"): "http-status", setting.url("/text"): "unsupported-format",
                setting.url("/mended"): "http-status",
            ])
        #expect(try client.stats()[.recentlyFailedURLs] == 3)
        // `retryFailed` succeeds only where the origin has recovered.
        let again = try client.failure(setting.url("/gone"), #""cache":"reload","retryFailed":true"#)
        #expect((again.code, again.recentlyFailed) == (.httpStatus, true))
        #expect(try client.failure(setting.url("/gone")).code == .recentlyFailed)
        for members in [#""retryFailed":true"#, #""cache":"reload""#] {
            #expect(try client.loaded(setting.url("/mended"), members) == (tile(2), .network))
        }
        #expect(try listed().count == 2)
        let cleared = try client.ask("failed", #""action":"clear","url":"\#(setting.url("/gone"))""#)
        #expect(cleared.fields["removed"] as? Int == 1)
        #expect(try client.failure(setting.url("/gone")).code == .httpStatus)
        #expect(try client.ask("failed", #""action":"clear""#).fields["removed"] as? Int == 2)
        #expect(try listed().isEmpty)
        // The origin's max-age limits how long the URL counts as failed: 1 s instead of 600 s.
        #expect(try client.failure(setting.url("/brief")).recentlyFailed)
        try eventually("the download is tried again") {
            _ = try client.failure(setting.url("/brief"))
            return setting.origin.requests("/brief").count > 1
        }
    }

    /// A recently failed URL blocks downloads, not variants of cached bytes.
    @Test func recentFailuresDoNotBlockHits() throws {
        let (setting, client) = try Setting { $0.number == 1 ? png(tile(1)) : .status(404) }.withClient()
        _ = try client.load(setting.url("/a"))
        #expect(try client.failure(setting.url("/a"), #""cache":"no-store""#).recentlyFailed)
        for members in ["", #""as":"original""#, #""variant":{"pixelFormat":"bgra8"}"#, #""variant":{"width":8}"#] {
            #expect(try client.load(setting.url("/a"), members).image().source == .memory)
        }
        #expect(try client.failure(setting.url("/a"), #""cache":"no-store""#).code == .recentlyFailed)
        #expect(setting.origin.requests.count == 2)
    }

    @Test func refusingHostIsPaused() throws {
        let setting = try Setting { _ in png(tile(1)) }
        let closed = try LocalOrigin { _ in .status(200) }
        closed.stop()
        defer { withExtendedLifetime(closed) {} }
        let client = try setting.client()
        var refused = 0
        var error = try client.failure(closed.url("/0"))
        while error.code == .connectFailed, refused < 10 {
            refused += 1
            #expect(!error.recentlyFailed)
            error = try client.failure(closed.url("/\(refused)"))
        }
        // Each request was retried once.
        #expect((2...5).contains(refused))
        #expect(error.code == .hostUnavailable && (1...5000).contains(error.retryAfterMs ?? 0), "\(error)")
        // Other ports of the host are separate origins.
        #expect(try client.load(setting.url("/a")).image().source == .network)
    }
}

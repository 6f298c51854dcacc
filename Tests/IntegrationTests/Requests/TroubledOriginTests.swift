import IPCProtocol
import LinuxSystem
import LocalOrigin
import TestSupport
import Testing

/// Origins in trouble: what is tried again, and what is left alone for a while.
@Suite(.blocking, .serialized, .timeLimit(.minutes(10))) struct TroubledOriginTests {
    @Test func askedForPatienceTheOriginHasIt() throws {
        let setting = try Setting { request in
            if request.path == "/cached" { return png(tile(1)) }
            return .status(503, headers: [.init("Retry-After", "30")])
        }
        let client = try setting.client()
        _ = try client.load(setting.url("/cached"))
        let first = try client.failure(setting.url("/a"))
        #expect(first.code == .httpStatus)
        #expect(first.httpStatus == 503)
        #expect(first.retryAfterMs == 30_000)
        #expect(!first.blacklisted)
        for path in ["/a", "/b"] {
            let error = try client.failure(setting.url(path))
            #expect(error.code == .hostUnavailable)
            #expect(error.code.isRetryable)
            #expect((1...30_000).contains(error.retryAfterMs ?? 0))
        }
        // What is cached is served all the same.
        #expect(try client.load(setting.url("/cached")).image().source == .memory)
        #expect(setting.origin.requests.count == 2)
    }

    @Test func whatHasFailedIsListed() throws {
        let setting = try Setting { request in
            switch request.path {
            case "/mended": request.number == 1 ? .status(404) : png(tile(2))
            case "/brief": .status(404, headers: [.init("Cache-Control", "max-age=1")])
            case "/text": .ok(Array("no picture".utf8))
            default: .status(410)
            }
        }
        let client = try setting.client()
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
            #expect(first.code == code)
            #expect(first.blacklisted)
            let second = try client.failure(setting.url(path))
            #expect(second.code == .blacklisted)
            #expect(second.cause == code)
            #expect(setting.origin.requests(path).count == 1)
        }
        #expect(
            try listed() == [
                setting.url("/gone"): "http-status", setting.url("/text"): "unsupported-format",
                setting.url("/mended"): "http-status",
            ])
        #expect(try client.stats()[.blacklistedUrls] == 3)
        // Trying all the same helps only where it helps.
        #expect(try client.failure(setting.url("/gone"), #""retryFailed":true"#).code == .httpStatus)
        #expect(try client.failure(setting.url("/gone")).code == .blacklisted)
        #expect(try client.load(setting.url("/mended"), #""retryFailed":true"#).image().source == .network)
        #expect(try client.load(setting.url("/mended"), #""cache":"reload""#).image().source == .network)
        #expect(try listed().count == 2)
        let cleared = try client.ask("failed", #""action":"clear","url":"\#(setting.url("/gone"))""#)
        #expect(cleared.fields["removed"] as? Int == 1)
        #expect(try client.failure(setting.url("/gone")).code == .httpStatus)
        #expect(try client.ask("failed", #""action":"clear""#).fields["removed"] as? Int == 2)
        #expect(try listed().isEmpty)
        // The origin knows best for how long.
        #expect(try client.failure(setting.url("/brief")).blacklisted)
        try eventually("it is tried again", within: 10) {
            _ = try client.failure(setting.url("/brief"))
            return setting.origin.requests("/brief").count > 1
        }
    }

    /// In whatever form: what is on the list is the way to the origin, not the bytes that are here.
    @Test func whatIsCachedIsServedThoughListed() throws {
        let setting = try Setting { $0.number == 1 ? png(tile(1)) : .status(404) }
        let client = try setting.client()
        _ = try client.load(setting.url("/a"))
        #expect(try client.failure(setting.url("/a"), #""cache":"no-store""#).blacklisted)
        for members in ["", #""as":"original""#, #""variant":{"pixelFormat":"bgra8"}"#, #""variant":{"width":8}"#] {
            #expect(try client.load(setting.url("/a"), members).image().source == .memory)
        }
        #expect(try client.failure(setting.url("/a"), #""cache":"no-store""#).code == .blacklisted)
        #expect(setting.origin.requests.count == 2)
    }

    @Test func passingFailuresAreTriedAgain() throws {
        let setting = try Setting { request in
            if request.number > 1 { return png(tile(1)) }
            return request.path == "/reset" ? .reset : .status(503)
        }
        let client = try setting.client()
        for path in ["/a", "/reset"] {
            #expect(try client.load(setting.url(path)).image().source == .network)
            #expect(setting.origin.requests(path).count == 2)
        }
        let report = try client.stats()
        #expect(report[.networkLoads] == 2)
        #expect(report.failures.isEmpty)
        #expect(report[.blacklistedUrls] == 0)
    }

    @Test func nothingIsTriedAgainForNobody() throws {
        let setting = try Setting { request in
            if request.number > 1 { return png(tile(1)) }
            return .status(503).with { $0.hold = request.path == "/cancelled" ? .beforeHeaders : .never }
        }
        let client = try setting.client()
        let id = try client.get(setting.url("/cancelled"))
        #expect(setting.origin.wait(for: "/cancelled", seconds: patience) { $0.held == 1 })
        // Suspended, the broker does not begin the second try before the request is cancelled.
        #expect(try client.ask("suspend").error == nil)
        setting.origin.gate("/cancelled").open()
        try setting.broker.wait(for: "the second try waits") { $0[.queued] == 1 }
        _ = try client.ask("cancel", #""request":\#(id)"#)
        #expect(try client.answer(to: id).error?.code == .cancelled)
        #expect(try client.ask("resume").error == nil)
        // Before these have their second try, that one would have had its own.
        for path in ["/1", "/2", "/3", "/4"] { _ = try client.load(setting.url(path)) }
        #expect(setting.origin.requests("/cancelled").count == 1)
        let report = try setting.idle()
        #expect(report[.reservedBytes] == 0)
    }

    @Test func refusedTimeAndAgainAHostIsLeftAlone() throws {
        let setting = try Setting { _ in png(tile(1)) }
        let closed = try LocalOrigin { _ in .status(200) }
        closed.stop()
        defer { withExtendedLifetime(closed) {} }
        let client = try setting.client()
        var refused = 0
        var error = try client.failure(closed.url("/0"))
        while error.code == .connectFailed, refused < 10 {
            refused += 1
            #expect(!error.blacklisted)
            error = try client.failure(closed.url("/\(refused)"))
        }
        // Each was tried twice.
        #expect((2...5).contains(refused))
        #expect(error.code == .hostUnavailable)
        #expect((1...5000).contains(error.retryAfterMs ?? 0))
        // Other ports of the host are other origins.
        #expect(try client.load(setting.url("/a")).image().source == .network)
    }
}

/// Loading from the origin: behaviours 11 to 17.
extension BehaviourTests {
    @Test(arguments: [true, false]) func oversizeBodyIsAborted(_ lengthIsKnown: Bool) throws {
        let limit = 64 << 10
        let file = tile(1).png
        let (setting, client) = try Setting(["--max-download", "64K"]) { request in
            if request.path == "/full" { return .ok(file + [UInt8](repeating: 0, count: limit - file.count)) }
            return .ok([UInt8](repeating: 0, count: limit * 3)).with {
                $0.framing = lengthIsKnown ? .length : .chunked
                $0.hold = .afterBytes(lengthIsKnown ? 0 : limit * 2)
            }
        }.withClient()
        #expect(try client.failure(setting.url("/a")).code == .tooLarge)
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == 1 })
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(try client.picture(of: setting.url("/full")) == tile(1))
    }

    /// A body that is cut off, and the request that must follow.
    private struct Break {
        let path: String
        var etag: String?
        var lastModified: String?
        var acceptRanges: String? = "bytes"
        var ranges = LocalOrigin.RangeConduct.right
        /// `If-Range` of the second request; nil when the whole body is to be requested again.
        var condition: String?

        func answer(_ request: LocalOrigin.Request) -> LocalOrigin.Response {
            let body = tile(path.utf8.count, side: 64).png
            return .resource(body, etag: etag, lastModified: lastModified, ranges: ranges, for: request).with {
                $0.headers.removeAll { $0.name == "Accept-Ranges" }
                if let acceptRanges { $0.headers.append(.init("Accept-Ranges", acceptRanges)) }
                guard request.number == 1 else { return }
                $0.body = Array(body.prefix(5000))
                $0.framing = .wrongLength(body.count)
            }
        }
    }

    private static let breaks = [
        Break(path: "/tag", etag: #""one""#, condition: #""one""#),
        Break(path: "/date", lastModified: "Tue, 01 Jan 2019 00:00:00 GMT", condition: "Tue, 01 Jan 2019 00:00:00 GMT"),
        // Ranges are tried without `Accept-Ranges`.
        Break(path: "/unsaid", etag: #""one""#, acceptRanges: nil, condition: #""one""#),
        Break(path: "/whole-again", etag: #""one""#, ranges: .ignored, condition: #""one""#),
        Break(path: "/elsewhere", etag: #""one""#, ranges: .shifted(100), condition: #""one""#),
        Break(path: "/cannot", etag: #""one""#, acceptRanges: "none"), Break(path: "/weak", etag: #"W/"one""#),
        Break(path: "/nameless"),
    ]

    @Test func interruptedBodyIsResumed() throws {
        let (setting, client) = try Setting { request in
            Self.breaks.first { $0.path == request.path }?.answer(request) ?? .status(404)
        }.withClient()
        let ids = try Self.breaks.map { try client.get(setting.url($0.path)) }
        for (each, id) in zip(Self.breaks, ids) {
            let incoming = try client.answer(to: id)
            #expect(incoming.error == nil, "\(each.path)")
            if incoming.error != nil { continue }
            #expect(try client.picture(incoming) == tile(each.path.utf8.count, side: 64), "\(each.path)")
            let requests = setting.origin.requests(each.path)
            #expect(requests.first?["Range"] == nil)
            let second = requests.dropFirst().first
            #expect(second?["Range"] == (each.condition == nil ? nil : "bytes=5000-"), "\(each.path)")
            #expect(second?["If-Range"] == each.condition, "\(each.path)")
        }
    }

    /// Also when a request in between is cancelled before the origin has answered it.
    @Test func cancelledBodyIsResumedByTheNextRequest() throws {
        let body = tile(1, side: 100).png
        let (setting, client) = try Setting { request in
            .resource(body, etag: #""one""#, for: request).with {
                switch request.number {
                case 1:
                    (($0.pieceBytes, $0.pauseMs), $0.hold) = ((2000, 30), .afterBytes(20_000))
                case 2: $0.hold = .beforeHeaders
                default: break
                }
            }
        }.withClient()
        let first = try client.get(setting.url("/a"), #""progress":true"#)
        while case .progress(_, let received, _) = try client.answer(to: first, orProgress: true).reply {
            if received > 0 { break }
        }
        setting.origin.expectHeld("/a")
        for number in 1...2 {
            let id = number == 1 ? first : try client.get(setting.url("/a"))
            #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.requests == number && $0.held == 1 })
            try client.cancel(id)
            #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == number })
            try setting.broker.wait(for: "its job has ended") { $0[.running] == 0 }
        }
        #expect(try client.picture(of: setting.url("/a")) == tile(1, side: 100))
        let ranges = setting.origin.requests.map { $0["Range"] }
        #expect((ranges.count, ranges.first) == (3, .some(nil)))
        #expect(ranges.last??.hasPrefix("bytes=") == true)
        #expect(ranges.dropFirst().first == ranges.last)
    }

    @Test func completeBodyIsNotResumed() throws {
        let (setting, client) = try Setting { .resource(tile(1).png, etag: #""one""#, for: $0) }.withClient()
        for _ in 0..<2 {
            #expect(try client.picture(of: setting.url("/a")) == tile(1))
            #expect(try client.remove(setting.url("/a")) == 1)
        }
        #expect(setting.origin.requests.map { $0["Range"] } == [nil, nil])
    }

    @Test(arguments: [301, 302, 303, 307, 308]) func redirectsAreFollowed(_ status: Int) throws {
        let (setting, client) = try Setting(routes: [
            "/a": .redirect(to: "b/c", status: status), "/b/c": .redirect(to: "../d", status: status),
            "/d": png(tile(1)),
        ]).withClient()
        let incoming = try client.load(setting.url("/a"))
        #expect(try (client.picture(incoming), incoming.image().url) == (tile(1), setting.url("/a")))
        // The entry is found by the requested URL. A temporary redirect without a lifetime is asked for again.
        let isPermanent = [301, 308].contains(status)
        #expect(try client.load(setting.url("/a")).image().source == (isPermanent ? .memory : .network))
        let way = ["/a", "/b/c", "/d"]
        #expect(setting.origin.requests.map(\.path) == (isPermanent ? way : way + way))
    }

    @Test func largeBodiesArriveConcurrently() throws {
        @Sendable func body(_ number: Int) -> [UInt8] {
            tile(number).png + [UInt8](repeating: UInt8(number), count: 3 << 20)
        }
        let (setting, client) = try Setting { request in
            .ok(body(request.numberInPath)).with { $0.hold = .afterBytes(1 << 20) }
        }.withClient()
        let ids = try (0..<6).map { try client.get(setting.url("/\($0)"), #""as":"original""#) }
        for number in 0..<6 { setting.origin.expectHeld("/\(number)") }
        for number in 0..<6 { setting.origin.gate("/\(number)").open() }
        for (number, id) in ids.enumerated() {
            #expect(try client.bytes(of: try client.answer(to: id)) == body(number))
            #expect(try client.picture(of: setting.url("/\(number)")) == tile(number))
        }
    }

    @Test func failedTransferIsRetriedOnce() throws {
        let (setting, client) = try Setting { request in
            switch request.path {
            case "/bad-gateway": .status(502)
            case "/short": png(tile(1)).with { $0.framing = .wrongLength(5000) }
            case "/mended": request.number == 1 ? .status(503) : png(tile(1))
            case "/reset": request.number == 1 ? .reset : png(tile(2))
            case "/page": .ok(Array("<!DOCTYPE html>".utf8))
            case "/broken": .status(500)
            default: .status(404)
            }
        }.withClient()
        let cases: [(String, requests: Int, ErrorCode?)] = [
            ("/bad-gateway", 2, .httpStatus), ("/short", 2, .transferFailed), ("/mended", 2, nil),
            ("/reset", 2, nil),
            // Final answers are not retried.
            ("/missing", 1, .httpStatus), ("/page", 1, .unsupportedFormat), ("/broken", 1, .httpStatus),
        ]
        let ids = try cases.map { try client.get(setting.url($0.0)) }
        for ((path, requests, code), id) in zip(cases, ids) {
            #expect(try client.answer(to: id).error?.code == code, "\(path)")
            #expect(setting.origin.statistics(path).requests == requests, "\(path)")
        }
        let report = try client.stats()
        #expect(report.failures == [.httpStatus: 3, .transferFailed: 1, .unsupportedFormat: 1])
        #expect(report[.networkLoads] == 2)
    }

    @Test func cancelledRequestIsNotRetried() throws {
        let (setting, client) = try Setting { _ in .status(502).with { $0.hold = .beforeHeaders } }.withClient()
        let paths = (0..<4).map { "/\($0)" }
        let ids = try paths.map { try client.get(setting.url($0)) }
        for path in paths { setting.origin.expectHeld(path) }
        // Suspended, the broker queues the retries.
        #expect(try client.ask("suspend").error == nil)
        for path in paths { setting.origin.gate(path).open() }
        try setting.broker.wait(for: "all retries are queued") { $0[.queued] == 4 }
        for id in ids[..<2] { try client.cancel(id) }
        #expect(try client.ask("resume").error == nil)
        for id in ids[2...] { #expect(try client.answer(to: id).error?.httpStatus == 502) }
        #expect(try setting.idle()[.reservedBytes] == 0)
        #expect(paths.map { setting.origin.statistics($0).requests } == [1, 1, 2, 2])
    }
}

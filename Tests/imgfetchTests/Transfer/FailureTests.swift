import IPCTransport

@Suite(.timeLimit(.minutes(10))) struct FailureTests {
    static let brokenResponses: [(name: String, response: LocalOrigin.Response)] = {
        let goOn = String(repeating: "HTTP/1.1 100 Go on\r\n\r\n", count: 20_000)
        var responses: [(name: String, response: LocalOrigin.Response)] = [
            ("a header without end", .endlessHeader), ("a field without end", .endlessField),
            ("informational responses without end", .raw(Array(goOn.utf8))),
        ]
        for coding in ["gzip", "deflate", "unheard-of"] {
            let response = LocalOrigin.Response.ok(Array("no such thing".utf8)).adding(["Content-Encoding": coding])
            responses.append(("a body that contradicts its coding \(coding)", response))
        }
        for text in [
            "garbage without end of line", "\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\nbody",
            "SSH-2.0-x\r\n", "",
        ] { responses.append(("not HTTP: \(text)", .raw(Array(text.utf8)))) }
        return responses
    }()

    @Test(arguments: brokenResponses)
    func `a broken response is a failed transfer`(name: String, response: LocalOrigin.Response) throws {
        #expect(try fetch(response).error?.code == .transferFailed)
    }

    @Test func `a reset ends a transfer and nothing else`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            case "/early": .reset
            case "/late": .ok(picture).with { $0.resetAfterBytes = 100_000 }
            default: .ok(picture)
            }
        }
        let worker = try FetchWorker()
        for _ in 0..<3 {
            #expect(try worker.run(origin.url("/early")).error?.code == .transferFailed)
            #expect(try worker.run(origin.url("/late")).error?.code == .transferFailed)
        }
        #expect(try worker.run(origin.url("/a")).body == picture)
    }

    /// Each connection answers one request, and is closed or reset by the second one. libcurl repeats a request five
    /// times, maybe on such connections.
    @Test(arguments: [LocalOrigin.Response.raw([]), .reset])
    func `a request on a kept connection that was closed is sent on a new one`(end: LocalOrigin.Response) throws {
        let origin = try TestOrigin { request in
            if request.path == "/kept" { return .ok([1, 2, 3]).with { $0.hold = .beforeHeaders } }
            return request.connection <= 9 ? end : .ok([1, 2, 3])
        }
        let worker = try FetchWorker()
        for _ in 0..<9 { _ = try worker.start(origin.url("/kept")) }
        try eventually("all requests have arrived") { origin.requests("/kept").count == 9 }
        origin.gate("/kept").open()
        for _ in 0..<9 { #expect(try worker.waitForAny().run.result != nil) }
        #expect(try worker.run(origin.url("/next")).result != nil)
        #expect(origin.requests("/next").count > 1)
    }

    @Test func `a new connection that is closed fails the request`() throws {
        let origin = try TestOrigin { _ in .raw([]) }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == .transferFailed)
        #expect(origin.requests("/a").count == 1)
    }

    @Test func `a failure has the responses that it is due to`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            case "/empty": .status(204, headers: [.init("Cache-Control", "private")])
            case "/large": .ok(picture).adding(["Cache-Control": "no-cache"])
            case "/away": .redirect(to: "ftp://a.test/").adding(["Cache-Control": "max-age=5"])
            case "/loop": .redirect(to: "/loop").adding(["Cache-Control": "no-store"])
            case "/gone": .redirect(to: "/404").adding(["Cache-Control": "private"])
            default: .status(404)
            }
        }
        let worker = try FetchWorker()
        func response(_ path: String) throws -> ResponseRecord? {
            try worker.run(origin.url(path), maxBytes: 1000).failure?.response
        }
        #expect(try response("/empty")?.cacheControl == "private")
        #expect(try response("/large")?.cacheControl == "no-cache")
        #expect(try response("/away")?.cacheControl == "max-age=5")
        let loop = try response("/loop")
        #expect(loop?.cacheControl == "no-store" && loop?.redirects.count == Redirect.most)
        let gone = try response("/gone")
        #expect(gone?.status == 404 && gone?.redirects.map(\.response.cacheControl) == ["private"])
    }

    @Test func `a port without a listener is a failed connection`() throws {
        let origin = try LocalOrigin { _ in .status(404) }
        let url = origin.url("/a")
        origin.stop()
        defer { withExtendedLifetime(origin) {} }
        try FetchWorker().run(url).expect(.connectFailed)
    }

    @Test func `a name that does not exist is a failed lookup`() throws {
        try FetchWorker().run("http://nowhere.invalid/a").expect(.dnsFailed, naming: "nowhere.invalid")
    }

    @Test func `a server without TLS is a failed secure connection`() throws {
        let origin = try TestOrigin { _ in .ok(picture) }
        let url = origin.url("/a").replacingOccurrences(of: "http:", with: "https:")
        #expect(try FetchWorker().run(url).error?.code == .tlsFailed)
    }

    @Test(arguments: [
        ("ftp://127.0.0.1/a", ErrorCode.unsupportedScheme), ("file:///etc/passwd", .unsupportedScheme),
        ("gopher://127.0.0.1/", .unsupportedScheme), ("http://", .badRequest), ("", .badRequest), ("/a", .badRequest),
    ])
    func `a URL that is not http or https is rejected`(url: String, code: ErrorCode) throws {
        #expect(try FetchWorker().run(url).error?.code == code)
    }

    @Test func `an invalid header field is rejected`() throws {
        let worker = try FetchWorker()
        for field in [
            HeaderField(name: "x", value: "a\r\nb: c"), HeaderField(name: "x: y", value: "a"),
            HeaderField(name: "", value: "a"),
        ] { #expect(try worker.run("http://127.0.0.1:1/", headers: [field]).error?.code == .badRequest) }
    }

    // MARK: Ending

    @Test func `a stopped transfer ends with one report`() throws {
        let origin = try TestOrigin { request in
            request.path == "/slow" ? .ok(picture).with { $0.hold = .afterBytes(1000) } : .ok(picture)
        }
        let worker = try FetchWorker()
        let stopped = try worker.start(origin.url("/slow"))
        #expect(origin.wait(for: "/slow") { $0.held == 1 })
        try worker.stop(stopped)
        try worker.stop(stopped)
        try worker.stop(999)
        #expect(try worker.wait(for: stopped).end == .stopped(job: stopped, received: 0))
        #expect(origin.wait(for: "/slow") { $0.abandoned == 1 })
        #expect(try worker.run(origin.url("/a")).body == picture)
    }

    @Test func `a transfer that waits for an answer can be stopped`() throws {
        let origin = try TestOrigin { _ in .silent }
        let worker = try FetchWorker()
        let stopped = try worker.start(origin.url("/a"))
        #expect(origin.wait(for: "/a") { $0.requests == 1 })
        try worker.stop(stopped)
        #expect(try worker.wait(for: stopped).end == .stopped(job: stopped, received: 0))
        #expect(origin.wait(for: "/a") { $0.abandoned == 1 })
    }

    @Test func `the worker exits with its broker`() throws {
        let origin = try TestOrigin { _ in .silent }
        let worker = try FetchWorker()
        _ = try worker.start(origin.url("/a"))
        #expect(origin.wait(for: "/a") { $0.requests == 1 })
        shutdown(worker.channel.socket.raw, Int32(SHUT_RDWR))
        #expect(try worker.waitForExit() == .status(0))
    }

    @Test func `an invalid order ends the worker with an error`() throws {
        let worker = try FetchWorker()
        worker.channel.enqueue([0, 0, 0, 2] + Array("{}".utf8))
        try worker.channel.flush()
        #expect(try worker.waitForExit() == .status(1))
    }
}

@Suite(.timeLimit(.minutes(10))) struct DownloadTests {
    // MARK: What goes well

    @Test func `a body arrives complete, with its metadata`() throws {
        let run = try fetch(
            .ok(picture, contentType: "image/png").adding([
                "ETag": "W/\"x-1\"", "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT",
            ]))
        let result = try #require(run.result)
        #expect((result.bytes, result.remoteAddress) == (picture.count, "127.0.0.1"))
        #expect(
            [result.response.contentType, result.response.etag, result.response.lastModified]
                == ["image/png", "W/\"x-1\"", "Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(run.body == picture)
        #expect(try #require(run.progress.first) == (0, picture.count))
    }

    @Test(arguments: [LocalOrigin.Response.Framing.chunked, .untilClose])
    func `a body without a length arrives complete`(framing: LocalOrigin.Response.Framing) throws {
        let run = try fetch(.ok(picture).with { $0.framing = framing })
        #expect(run.body == picture)
        #expect((run.result?.bytes, run.progress.first?.expected) == (picture.count, .some(nil)))
    }

    @Test func `progress is reported with the first byte and at a limited rate`() throws {
        let origin = try TestOrigin { _ in
            .ok([UInt8](repeating: 7, count: 120)).with { ($0.pieceBytes, $0.pauseMs) = (1, 2) }
        }
        let begin = Instant.now
        let run = try FetchWorker().run(origin.url("/a"))
        let milliseconds = Instant.now.microseconds(since: begin) / 1000
        #expect((run.result?.bytes, run.progress.first?.received) == (120, 0))
        #expect((2...(2 + milliseconds / 50)).contains(run.progress.count))
        #expect(run.progress.map(\.received) == run.progress.map(\.received).sorted())
    }

    @Test func `requests have default headers, unless the job has its own`() throws {
        let origin = try TestOrigin { .echo($0) }
        let worker = try FetchWorker()
        let plain = try worker.run(origin.url("/a")).text
        for line in [
            "User-Agent: imgbroker/0.1.0", "Accept: image/webp,image/png,image/jpeg,*/*;q=0.8",
            "Accept-Encoding: identity",
        ] { #expect(plain.contains(line + "\n")) }
        let headers = [
            HeaderField(name: "user-agent", value: "mine"), HeaderField(name: "accept", value: "image/gif"),
            HeaderField(name: "x-empty", value: ""), HeaderField(name: "referer", value: "http://a/b"),
        ]
        let special = try worker.run(origin.url("/a"), headers: headers).text
        for field in headers { #expect(special.contains("\(field.name): \(field.value)\n")) }
        for text in ["imgbroker", "image/webp"] { #expect(!special.contains(text)) }
    }

    @Test func `credentials are sent with the first request`() throws {
        let origin = try TestOrigin { .echo($0) }
        let run = try FetchWorker().run(
            origin.url("/a"), credentials: Credentials(username: "user", password: "pass:word"))
        #expect(run.text.contains("Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n"))
        #expect(origin.requests.count == 1)
    }

    @Test func `one connection serves one request after another, errors and redirects among them`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            case "/missing": .status(404)
            case "/moved": .redirect(to: "/a")
            default: .ok(picture)
            }
        }
        let worker = try FetchWorker()
        for path in ["/a", "/missing", "/a", "/moved", "/a"] { _ = try worker.run(origin.url(path)) }
        #expect((origin.requests.count, origin.connectionsAccepted) == (6, 1))
    }

    @Test func `thirty transfers run concurrently`() throws {
        let origin = try TestOrigin { _ in .ok(picture).with { $0.hold = .afterBytes(1000) } }
        let worker = try FetchWorker()
        for _ in 0..<30 { _ = try worker.start(origin.url("/a")) }
        #expect(origin.wait(for: "/a") { $0.held == 30 })
        origin.gate("/a").open()
        for _ in 0..<30 { #expect(try worker.waitForAny().run.body == picture) }
        #expect(origin.statistics("/a").maxConcurrent == 30)
    }

    // MARK: Content codings

    @Test func `a compressed body is decoded although identity was requested`() throws {
        let origin = try TestOrigin { _ in .ok(Self.zeros).adding(["Content-Encoding": "gzip"]) }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"))
        #expect(run.body == [UInt8](repeating: 0, count: 100_000))
        #expect(run.progress.first?.expected == .some(nil))
        // The limit applies to decoded bytes.
        let limited = try worker.run(origin.url("/a"), maxBytes: 99_999)
        #expect(limited.error?.code == .tooLarge)
        #expect(limited.body.count <= 99_999)
    }

    /// 100,000 zeros as gzip.
    private static let zeros = Array(
        Data(
            base64Encoded: "H4sIAAAAAAACA+3BMQEAAADCoPVPbQ0PoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIBXA32VEdSghgEA"
        )!)

    // MARK: Resources

    @Test func `no descriptor stays open after transfers of every kind`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            case "/reset": .reset
            case "/silent": .silent
            case "/moved": .redirect(to: "/a")
            case "/missing": .status(404)
            case "/short": .ok(picture).with { $0.framing = .wrongLength(400_000) }
            default: .ok(picture)
            }
        }
        let worker = try FetchWorker()
        let descriptors = {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/\(worker.process.pid)/fd").count
        }
        let round = {
            for path in ["/reset", "/moved", "/missing", "/short", "/a"] { _ = try worker.run(origin.url(path)) }
            let stopped = try worker.start(origin.url("/silent"))
            #expect(origin.wait(for: "/silent") { $0.concurrent == 1 })
            try worker.stop(stopped)
            _ = try worker.wait(for: stopped)
            #expect(origin.wait(for: "/silent") { $0.concurrent == 0 })
        }
        try round()
        let before = try descriptors()
        for _ in 0..<20 { try round() }
        #expect(try descriptors() <= before)
    }

    // MARK: Limits

    @Test func `a body announced as too long is rejected before it arrives`() throws {
        let run = try fetch(.ok(picture).with { $0.hold = .afterBytes(0) }, maxBytes: picture.count - 1)
        #expect(run.error?.code == .tooLarge)
        #expect(run.progress.isEmpty)
        #expect(run.body.isEmpty)
    }

    @Test func `a body that turns out too long is cut off`() throws {
        let origin = try TestOrigin { _ in .ok(picture).with { $0.framing = .chunked } }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"), maxBytes: 100_000)
        run.expect(.tooLarge)
        #expect(run.body.count <= 100_000)
        #expect(try worker.run(origin.url("/a"), maxBytes: picture.count).body == picture)
    }

    @Test func `a header just under the limit is accepted`() throws {
        let fields = (0..<250).map { LocalOrigin.Header("X-\($0)", String(repeating: "x", count: 1000)) }
        #expect(try fetch(.ok([1, 2, 3]).with { $0.headers += fields }).body == [1, 2, 3])
    }

    @Test func `a descriptor that takes no bytes is a failure of the disk`() throws {
        let origin = try TestOrigin { _ in .ok(picture) }
        let full = try FileDescriptor.create(at: "/dev/full")
        #expect(try FetchWorker().run(origin.url("/a"), body: full).error?.code == .diskFailed)
    }

    // MARK: Statuses

    @Test(arguments: [200, 203, 209, 250, 299])
    func `an unknown success counts as 200`(status: Int) throws {
        let run = try fetch(.ok([1, 2, 3]).with { $0.status = status })
        #expect(run.body == [1, 2, 3])
        #expect(run.result?.response.status == status)
    }

    @Test(arguments: [201, 202, 207, 208, 226, 300, 305, 400, 401, 403, 404, 410, 418, 429, 500, 503, 599])
    func `another status is reported as such`(status: Int) throws {
        let run = try fetch(.status(status))
        let error = try #require(run.error)
        #expect((error.code, error.httpStatus, error.retryAfterMs) == (.httpStatus, status, nil))
        #expect(run.body.isEmpty && run.progress.isEmpty)
    }

    @Test(arguments: [
        ("7", 7000), ("0", 1000), ("99999", 600_000), ("Sun, 06 Nov 1994 08:49:37 GMT", 1000), ("soon", nil),
    ])
    func `an origin may request a delay`(value: String, milliseconds: Int?) throws {
        let origin = try TestOrigin { _ in .status(503, headers: [.init("Retry-After", value)]) }
        let error = try #require(try FetchWorker().run(origin.url("/a")).error)
        #expect((error.httpStatus, error.retryAfterMs) == (503, milliseconds))
    }

    @Test(arguments: [(204, ErrorCode.emptyImage), (205, .emptyImage), (206, .transferFailed), (304, .transferFailed)])
    func `a success without the whole body is a failure`(status: Int, code: ErrorCode) throws {
        #expect(try fetch(.status(status)).error?.code == code)
    }

    @Test(arguments: ["/a?", "/?", "/a?b", "/a", "/a?#c", "/a??"])
    func `a query is requested even if it is empty`(path: String) throws {
        let origin = try TestOrigin { request in
            request.path == "/moved" ? .redirect(to: path) : .ok(Array(request.target.utf8))
        }
        let target = String(path.prefix { $0 != "#" })
        let worker = try FetchWorker()
        if target == path { #expect(try worker.run(origin.url(path)).text == target) }
        let run = try worker.run(origin.url("/moved"))
        #expect((run.text, run.result?.response.finalURL) == (target, origin.url(target)))
        // The next request of the same transfer's handle is its own.
        #expect(try worker.run(origin.url("/b")).text == "/b")
    }

    @Test(arguments: [LocalOrigin.Response.Framing.length, .chunked, .untilClose])
    func `an empty body is no image`(framing: LocalOrigin.Response.Framing) throws {
        #expect(try fetch(.ok([]).with { $0.framing = framing }).error?.code == .emptyImage)
    }

    @Test func `the body of an error that does not end is not waited for`() throws {
        let origin = try TestOrigin { _ in
            LocalOrigin.Response(status: 500, body: picture).with { $0.hold = .afterBytes(10) }
        }
        #expect(try FetchWorker().run(origin.url("/a")).error?.httpStatus == 500)
        #expect(origin.wait(for: "/a") { $0.abandoned == 1 })
    }
}

private let tag = "W/\"v1\""
private let old = "Sun, 06 Nov 1994 08:49:37 GMT"

@Suite(.timeLimit(.minutes(10))) struct ConditionTests {
    private func job(_ url: String, etag: String? = tag, lastModified: String? = old) -> FetchJob {
        FetchJob(id: 0, url: url, maxBytes: 1 << 20, conditions: .init(etag: etag, lastModified: lastModified))
    }

    // MARK: Records

    @Test func `header fields for caching are reported as the origin wrote them`() throws {
        let origin = try TestOrigin { request in
            guard request.path == "/a" else { return .redirect(to: "/a").adding(["Age": "1"]) }
            return .ok([1, 2, 3], contentType: "image/PNG; x=y").with {
                $0.delayMs = 300
                $0.headers += [
                    .init("Date", "Sun, 6 Nov 1994"), .init("AGE", "17"), .init("Cache-Control", "Max-Age=3"),
                    .init("cache-control", "private"), .init("Expires", "0"), .init("ETag", tag),
                    .init("Last-Modified", old), .init("Vary", "Accept"), .init("Vary", "cookie"), .init("age", "99"),
                ]
            }
        }
        let begin = WallClock.milliseconds
        let run = try FetchWorker().run(origin.url("/moved"))
        let response = try #require(run.result?.response)
        #expect(
            response
                == ResponseRecord(
                    requestedAt: response.requestedAt, receivedAt: response.receivedAt, date: "Sun, 6 Nov 1994",
                    age: "17", cacheControl: "Max-Age=3, private", expires: "0", etag: tag, lastModified: old,
                    vary: "Accept, cookie", contentType: "image/PNG; x=y", redirects: response.redirects,
                    finalURL: origin.url("/a")))
        #expect(response.redirects.map(\.response.age) == ["1"])
        #expect(run.beginnings.map(\.response) == [response])
        #expect(run.beginnings.map(\.report.total) == [3])
        #expect(begin <= response.requestedAt && response.requestedAt + 300 <= response.receivedAt)
        #expect(response.receivedAt <= WallClock.milliseconds)
    }

    @Test func `lists that are not kept count as their strictest value`() throws {
        let long = String(repeating: "x", count: 3000)
        let origin = try TestOrigin { request in
            .ok([1]).with {
                $0.headers += [.init("Cache-Control", long), .init("Vary", request.query.isEmpty ? long + long : long)]
                $0.headers += [.init("Cache-Control", long), .init("Vary", request.query.isEmpty ? "a" : long)]
            }
        }
        let worker = try FetchWorker()
        for url in ["/", "/?a"] {
            let response = try worker.run(origin.url(url)).result?.response
            #expect(response?.cacheControl == "no-store")
            #expect(response?.vary?.hasPrefix("*") == true)
        }
    }

    @Test func `an error status is reported with its caching fields`() throws {
        let run = try fetch(
            .status(404).adding(["Cache-Control": "max-age=7", "Expires": "soon", "Date": old, "Age": "2"]))
        let response = try #require(run.failure?.response)
        #expect(response.status == 404)
        #expect(
            [response.cacheControl, response.expires, response.date, response.age] == ["max-age=7", "soon", old, "2"])
        #expect(run.beginnings.isEmpty)
    }

    @Test func `a failure without a status has no response`() throws {
        let run = try fetch(.ok([1]).with { $0.framing = .wrongLength(10) })
        #expect(run.failure != nil && run.failure?.response == nil)
        #expect(run.beginnings.count == 1)
    }

    // MARK: Conditions

    @Test(arguments: [(tag, old), (tag, nil), (nil, old)] as [(String?, String?)])
    func `an unchanged body is not sent again`(etag: String?, lastModified: String?) throws {
        let origin = try TestOrigin { request in
            .resource([1, 2], etag: tag, lastModified: old, cacheControl: "max-age=9", for: request)
        }
        let worker = try FetchWorker()
        for _ in 1...2 {
            let run = try worker.run(job(origin.url("/a"), etag: etag, lastModified: lastModified))
            let confirmation = try #require(run.confirmation)
            let response = confirmation.response
            #expect((response.status, response.etag, response.cacheControl) == (304, tag, "max-age=9"))
            #expect(response.date != nil && confirmation.remoteAddress == "127.0.0.1")
            #expect(run.body.isEmpty && run.beginnings.isEmpty && run.progress.isEmpty)
        }
        #expect(origin.requests.allSatisfy { $0["If-None-Match"] == etag })
        #expect(origin.requests.allSatisfy { $0["If-Modified-Since"] == lastModified })
        #expect(origin.connectionsAccepted == 1)
    }

    @Test func `a changed body is sent`() throws {
        let origin = try TestOrigin { .resource([1, 2], etag: "\"v2\"", for: $0) }
        let run = try FetchWorker().run(job(origin.url("/a")))
        #expect(run.body == [1, 2])
        #expect(run.result?.response.etag == "\"v2\"")
    }

    @Test func `an unrequested 304 is a failed transfer`() throws {
        let origin = try TestOrigin { _ in .status(304) }
        let worker = try FetchWorker()
        for job in [
            job(origin.url("/a"), etag: nil, lastModified: nil), FetchJob(id: 0, url: origin.url("/a"), maxBytes: 1),
        ] { try worker.run(job).expect(.transferFailed, naming: "not modified") }
    }

    @Test func `an invalid condition is rejected`() throws {
        let worker = try FetchWorker()
        #expect(try worker.run(job("http://127.0.0.1:1/", etag: "a\r\nb: c")).error?.code == .badRequest)
        var job = FetchJob(id: 0, url: "http://127.0.0.1:1/", maxBytes: 1)
        job.resumption = .init(offset: 1, validator: "a\r\nb: c")
        #expect(try worker.run(job, continuing: [1]).error?.code == .badRequest)
    }
}

@testable import imgfetch

/// A line in Netscape's format, for host 127.0.0.1 by default.
private func line(_ name: String, _ value: String, host: String = "127.0.0.1", expires: Int = 0) -> String {
    "\(host)\tFALSE\t/\tFALSE\t\(expires)\t\(name)\t\(value)"
}

@Suite(.timeLimit(.minutes(10))) struct CookieTests {
    private func run(
        _ worker: FetchWorker, _ url: String, cookies: [String]?, headers: [HeaderField] = [],
        conditions: RequestConditions? = nil
    ) throws -> FetchWorker.Run {
        try worker.run(
            FetchJob(
                id: 0, url: url, headers: headers, maxBytes: 1 << 20, conditions: conditions, cookies: cookies))
    }

    @Test func `cookies go to their own host, and changes are reported`() throws {
        let origin = try TestOrigin { request in
            .echo(request).with {
                $0.headers += [
                    .init("Set-Cookie", "new=1"), .init("Set-Cookie", "changed=b; HttpOnly"),
                    .init("Set-Cookie", "foreign=1; Domain=example.org"),
                    .init("Set-Cookie", "lasting=1; Max-Age=3600; Path=/deep"),
                    // The last one, so that it is still listed although it has expired.
                    .init("Set-Cookie", "gone=; Max-Age=0"),
                ]
            }
        }
        let foreign = line("elsewhere", "x", host: "example.org")
        let (changed, gone, same) = (line("changed", "a"), line("gone", "a"), line("same", "a"))
        let run = try run(FetchWorker(), origin.url("/a"), cookies: [foreign, changed, gone, same])
        let sent = try #require(origin.requests.first?["Cookie"])
        #expect(Set(sent.split(separator: "; ")) == ["changed=a", "gone=a", "same=a"])
        let changes = try #require(run.result?.cookies)
        #expect((changes.removed, changes.changed.count) == ([gone], 3))
        #expect(changes.changed.contains(line("new", "1")))
        #expect(changes.changed.contains("#HttpOnly_" + line("changed", "b")))
        #expect(changes.changed.contains { $0.hasSuffix("\tlasting\t1") && $0.contains("\t/deep\t") })
    }

    @Test func `without a jar cookies are neither sent nor kept`() throws {
        let origin = try TestOrigin { request in
            request.path == "/a"
                ? .redirect(to: "/b").adding(["Set-Cookie": "a=1"]) : .echo(request)
        }
        let worker = try FetchWorker()
        #expect(try run(worker, origin.url("/a"), cookies: []).text.contains("Cookie: a=1\n"))
        let without = try run(worker, origin.url("/a"), cookies: nil)
        #expect(!without.text.contains("Cookie"))
        #expect(without.result?.cookies.isEmpty == true)
        // A job does not see the cookies of another.
        let fresh = try run(worker, origin.url("/b"), cookies: [])
        #expect(!fresh.text.contains("Cookie"))
        #expect(fresh.result?.cookies.isEmpty == true)
    }

    @Test func `the client's own cookies are sent with the jar's, to the first server only`() throws {
        let origin = try TestOrigin { request in
            request.path == "/a"
                ? .redirect(to: "http://localhost:\(request["Host"]!.split(separator: ":")[1])/b").adding([
                    "Set-Cookie": "first=1"
                ]) : .echo(request)
        }
        let own = [HeaderField(name: "cookie", value: "own=1")]
        let jar = [line("jar", "1"), line("there", "1", host: "localhost")]
        let run = try run(FetchWorker(), origin.url("/a"), cookies: jar, headers: own)
        let cookies = origin.requests.map { request in
            request.headers.filter { $0.name.lowercased() == "cookie" }.map(\.value)
        }
        #expect(cookies == [["jar=1; own=1"], ["there=1"]])
        #expect(run.result?.cookies == CookieChanges(changed: [line("first", "1")]))
    }

    @Test func `failures and confirmations report cookies too`() throws {
        let origin = try TestOrigin { .status($0.path == "/a" ? 304 : 403, headers: [.init("Set-Cookie", "a=1")]) }
        let worker = try FetchWorker()
        let expected = CookieChanges(changed: [line("a", "1")])
        #expect(
            try run(worker, origin.url("/a"), cookies: [], conditions: .init(etag: "x")).confirmation?.cookies
                == expected)
        #expect(try run(worker, origin.url("/b"), cookies: []).failure?.cookies == expected)
    }

    @Test func `a line that is not a cookie is ignored`() throws {
        let origin = try TestOrigin { .echo($0) }
        let lines = [
            line("good", "1"), "ALL", "SESS", "RELOAD", "", "Set-Cookie: header=1", "Set-Cookie:\t\t\t\t\t\tx",
            line("broken", "1\r\nX: y"), line("long", String(repeating: "x", count: 8 << 10)),
        ]
        let run = try run(FetchWorker(), origin.url("/a"), cookies: lines)
        #expect(run.text.contains("Cookie: good=1\n"))
        #expect(run.result?.cookies.isEmpty == true)
    }

    @Test func `an expired cookie is not sent and is reported as removed`() throws {
        let origin = try TestOrigin { .echo($0) }
        let expired = line("a", "1", expires: 784_111_777)
        let run = try run(FetchWorker(), origin.url("/a"), cookies: [expired])
        #expect(!run.text.contains("Cookie"))
        #expect(run.result?.cookies == CookieChanges(removed: [expired]))
    }

    @Test func `reports are bounded`() throws {
        let many = (0..<400).map { line("c\($0)", "1") }
        let changes = CookieJar.changes(given: [], loaded: [], now: many, seconds: 0)
        #expect(changes.changed == Array(many.prefix(300)))
        let long = (0..<300).map { line("c\($0)", String(repeating: "\"", count: 8000)) }
        let report = FetchReport.failed(
            job: 1,
            FetchFailure(
                WireError(.internal, ""),
                cookies: CookieJar.changes(given: long, loaded: [], now: long + many, seconds: 0)))
        #expect((300_000..<(1 << 20)).contains(try report.encoded().count))
        let tooLong = line("c", String(repeating: "x", count: 8 << 10))
        #expect(CookieJar.changes(given: [], loaded: [], now: [tooLong], seconds: 0).isEmpty)
    }
}

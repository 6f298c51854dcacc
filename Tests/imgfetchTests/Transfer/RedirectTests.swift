@Suite(.timeLimit(.minutes(10))) struct RedirectTests {
    /// Paths "/5" to "/1" redirect to the next lower one, "/0" echoes the request.
    private static func countdown(_ request: LocalOrigin.Request) -> LocalOrigin.Response {
        guard let number = Int(request.path.dropFirst()), number > 0 else { return .echo(request) }
        return .redirect(to: "\(number - 1)", status: [301, 302, 303, 307, 308][number % 5])
    }

    @Test(arguments: 0...5)
    func `up to five redirects are followed`(count: Int) throws {
        let origin = try TestOrigin(Self.countdown)
        let run = try FetchWorker().run(origin.url("/\(count)"))
        #expect(run.text.contains("Host: 127.0.0.1"))
        // The bodies of redirects are neither written nor counted.
        #expect(run.result?.bytes == run.body.count)
        #expect(run.progress.first?.expected == run.body.count)
        #expect(origin.requests.count == count + 1)
    }

    @Test func `a sixth redirect is one too many`() throws {
        let origin = try TestOrigin(Self.countdown)
        let run = try FetchWorker().run(origin.url("/6"))
        #expect(run.error?.code == .tooManyRedirects)
        #expect(run.body.isEmpty)
        #expect(origin.requests.count == 6)
    }

    @Test(arguments: [
        "/target", "target", "./x/../target", "//HOST/target", "http://HOST/target", "HTTP://HOST/target",
        "http://user:secret@HOST/target#fragment", "/target?a b", "/target?\u{E4}",
    ])
    func `a redirect may be relative, absolute or badly formatted`(location: String) throws {
        let origin = try TestOrigin { request in
            request.path == "/a"
                ? .redirect(to: location.replacing("HOST", with: request["Host"] ?? "")) : .echo(request)
        }
        let run = try FetchWorker().run(origin.url("/a"))
        #expect(run.result != nil)
        #expect(!run.text.contains("Authorization"))
        #expect(origin.requests.last?.path == "/target")
    }

    @Test(arguments: [
        "ftp://127.0.0.1/a", "file:///etc/passwd", "gopher://127.0.0.1:70/x", "data:image/png;base64,AAAA",
        "javascript:0",
    ])
    func `a redirect to another scheme is refused`(location: String) throws {
        try fetch(.redirect(to: location)).expect(.unsupportedScheme)
    }

    @Test func `redirects are reported with what they say about caching`() throws {
        let long = String(repeating: "x", count: 1000)
        let origin = try TestOrigin { request in
            switch request.path {
            case "/a": .redirect(to: "/b").adding(["Cache-Control": "private", "Age": "5", "Vary": "Accept"])
            case "/b": .redirect(to: "/c", status: 301).adding(["Cache-Control": long, "Expires": "0"])
            default: .resource([1, 2], etag: "\"c\"", for: request)
            }
        }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"))
        let response = try #require(run.result?.response)
        #expect(response.redirects.map(\.response.status) == [302, 301])
        let fields = response.redirects.map(\.response).map { [$0.cacheControl, $0.age, $0.vary, $0.expires] }
        #expect(fields == [["private", "5", "Accept", nil], ["no-store", nil, nil, "0"]])
        #expect(response.finalURL == origin.url("/c") && response.etag == "\"c\"")
        #expect(run.beginnings.map(\.response) == [response])
        let direct = try worker.run(origin.url("/c")).result?.response
        #expect(direct?.redirects == [] && direct?.finalURL == nil)
    }

    @Test func `validators go only to the URL that they came from`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            // Confirms everything that is asked.
            case "/a": request["If-None-Match"] != nil ? .status(304) : .redirect(to: "/b")
            case "/moved": .redirect(to: "/elsewhere")
            case "/elsewhere": request["If-None-Match"] != nil ? .status(304) : .ok([3])
            default: .resource([1, 2], etag: "\"b\"", for: request)
            }
        }
        let worker = try FetchWorker()
        func run(_ path: String, validatorsOf url: String?) throws -> FetchWorker.Run {
            try worker.run(
                FetchJob(
                    id: 0, url: origin.url(path), maxBytes: 100,
                    conditions: RequestConditions(etag: "\"b\"", url: url.map { origin.url($0) })))
        }
        let confirmation = try #require(run("/a", validatorsOf: "/b").confirmation)
        #expect(confirmation.response.finalURL == origin.url("/b") && confirmation.response.redirects.count == 1)
        #expect(origin.requests.map { $0["If-None-Match"] } == [nil, "\"b\""])
        // The redirect leads elsewhere now.
        #expect(try run("/moved", validatorsOf: "/b").body == [3])
        // What was no redirect is one now.
        #expect(try run("/moved", validatorsOf: nil).body == [3])
        #expect(origin.requests.suffix(2).map { $0["If-None-Match"] } == ["\"b\"", nil])
        #expect(try run("/elsewhere", validatorsOf: nil).confirmation != nil)
    }

    @Test func `the rest of a body is asked of the URL that it came from`() throws {
        let origin = try TestOrigin { request in
            switch request.path {
            case "/a": request["Range"] != nil ? .status(416) : .redirect(to: "/b")
            case "/c": .redirect(to: "/d")
            default: .resource([1, 2, 3, 4], etag: "\"b\"", for: request)
            }
        }
        let worker = try FetchWorker()
        func run(_ path: String) throws -> FetchWorker.Run {
            let resumption = FetchJob.Resumption(offset: 2, validator: "\"b\"", total: 4, url: origin.url("/b"))
            return try worker.run(
                FetchJob(id: 0, url: origin.url(path), maxBytes: 100, resumption: resumption), continuing: [9, 9])
        }
        #expect(try run("/a").body == [9, 9, 3, 4])
        #expect(origin.requests.map { $0["Range"] } == [nil, "bytes=2-"])
        #expect(try run("/c").body == [1, 2, 3, 4])
        #expect(origin.requests.map { $0["If-Range"] } == [nil, "\"b\"", nil, nil])
    }

    @Test func `a redirect without a target is a status`() throws {
        let origin = try TestOrigin { $0.path == "/none" ? .status(302) : .redirect(to: "") }
        let worker = try FetchWorker()
        for path in ["/none", "/empty"] {
            let error = try #require(try worker.run(origin.url(path)).error)
            #expect((error.code, error.httpStatus) == (.httpStatus, 302))
        }
    }

    @Test(arguments: ["http://", "http://:80/", "http://a b/", "http://[::1/"])
    func `a redirect to an invalid URL is a failed transfer`(location: String) throws {
        #expect(try fetch(.redirect(to: location)).error?.code == .transferFailed)
    }

    @Test func `the body of a redirect is not waited for`() throws {
        let origin = try TestOrigin { request in
            guard request.path == "/a" else { return .ok([1, 2, 3]) }
            return LocalOrigin.Response(
                status: 302, headers: [.init("Location", "/b")], body: [UInt8](repeating: 0, count: 1 << 20)
            ).with { $0.hold = .afterBytes(request.query == "long" ? 1 << 20 : 10) }
        }
        let worker = try FetchWorker()
        #expect(try worker.run(origin.url("/a")).body == [1, 2, 3])
        #expect(try worker.run(origin.url("/a?long"), maxBytes: 10).body == [1, 2, 3])
    }

    @Test func `the header limit applies to each hop`() throws {
        let fields = (0..<200).map { LocalOrigin.Header("X-\($0)", String(repeating: "x", count: 1000)) }
        let origin = try TestOrigin { Self.countdown($0).with { $0.headers += fields } }
        #expect(try FetchWorker().run(origin.url("/3")).result != nil)
    }

    @Test func `each move to another origin is reported`() throws {
        let second = try TestOrigin { $0.path == "/1" ? .redirect(to: "/2") : .status(503) }
        let first = try TestOrigin { .redirect(to: $0.path == "/0" ? "/1" : second.url("/1")) }
        let worker = try FetchWorker()
        #expect(try worker.run(first.url("/0")).error?.httpStatus == 503)
        #expect(Array(worker.redirections.values) == [[second.url("/")]])
    }

    // MARK: Secrets

    private static let secrets = [
        HeaderField(name: "cookie", value: "c=secret"), HeaderField(name: "authorization", value: "Bearer secret"),
        HeaderField(name: "x-other", value: "kept"),
    ]

    @Test func `credentials are kept on redirects within one server`() throws {
        let origin = try TestOrigin(Self.countdown)
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/3"), headers: Self.secrets)
        #expect(run.text.contains("cookie: c=secret\nauthorization: Bearer secret\nx-other: kept\n"))
        let credentials = Credentials(username: "u", password: "p")
        #expect(try worker.run(origin.url("/3"), credentials: credentials).text.contains("Authorization: Basic dTpw"))
    }

    @Test(arguments: ["other port", "other name", "other address"])
    func `credentials are dropped on a redirect to another server and back`(_ other: String) throws {
        let second = try TestOrigin(address: other == "other address" ? "127.0.0.2" : "127.0.0.1") { request in
            request.query.isEmpty ? .echo(request) : .redirect(to: "http://\(request.query)/end")
        }
        let first = try TestOrigin { request in
            if request.path == "/end" || other == "other name" && request["Host"]?.hasPrefix("localhost") == true {
                return .echo(request)
            }
            let target = request.path == "/back" ? "/?\(request["Host"] ?? "")" : "/"
            return .redirect(
                to: other == "other name"
                    ? "http://localhost:\(request["Host"]!.split(separator: ":")[1])/"
                    : second.url(target))
        }
        let worker = try FetchWorker()
        for path in ["/", "/back"] {
            for run in [
                try worker.run(first.url(path), headers: Self.secrets),
                try worker.run(first.url(path), credentials: Credentials(username: "u", password: "p")),
            ] {
                #expect(run.result != nil)
                #expect(!run.text.lowercased().contains("authorization"))
                #expect(!run.text.lowercased().contains("cookie"))
            }
        }
        #expect(try worker.run(first.url("/"), headers: Self.secrets).text.contains("x-other: kept"))
        #expect(second.requests.allSatisfy { $0["Authorization"] == nil && $0["Cookie"] == nil })
    }

    // MARK: Addresses

    @Test(arguments: [
        "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0x7f000001", "0x7f.1", "2130706433", "127.1", "0177.0.0.1", "0.0.0.0",
        "10.0.0.1", "169.254.169.254", "192.168.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1", "255.255.255.255",
        "[::]", "[fe80::1]", "[fd00::1]", "[ff02::1]",
    ])
    func `an address that is not globally routable is not connected to`(host: String) throws {
        let origin = try TestOrigin { _ in .ok([1]) }
        let run = try FetchWorker(allowing: []).run(origin.url("/a", host: host))
        #expect((run.error?.code, run.error?.isRetryable) == (.forbiddenAddress, false))
        #expect(origin.connectionsAccepted == 0)
    }

    @Test func `a redirect does not lead to a forbidden address`() throws {
        let hidden = try TestOrigin(address: "127.0.0.2") { _ in .ok([1]) }
        let origin = try TestOrigin { _ in .redirect(to: hidden.url("/a")) }
        try FetchWorker(allowing: ["127.0.0.1"]).run(origin.url("/a")).expect(.forbiddenAddress, naming: "127.0.0.2")
        #expect(hidden.connectionsAccepted == 0)
    }

    @Test func `a name with a forbidden and a permitted address is reached at the latter`() throws {
        let origin = try TestOrigin { _ in .ok([1]) }
        // Where the system has no IPv6 address for the name, only the permitted one remains.
        let run = try FetchWorker(allowing: ["127.0.0.0/8"]).run(origin.url("/a", host: "localhost"))
        #expect(run.result?.remoteAddress == "127.0.0.1")
    }
}

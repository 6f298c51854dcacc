/// Load options of `get`, and the broker's flags that affect them.
@Suite(.blocking, .timeLimit(.minutes(10))) struct LoadCommandTests {
    private func get(_ setting: Setting, _ path: String, _ words: String...) throws -> ProgramResult {
        try setting.broker.run(["get", path.hasPrefix("/") ? setting.url(path) : path] + words)
    }

    private func fields(_ setting: Setting, _ path: String, _ words: String...) throws -> [String: Any] {
        try jsonObject(try setting.broker.run(["get", setting.url(path), "--json"] + words).output)
    }

    /// Mistakes that a first use makes.
    @Test func messages() throws {
        let setting = try Setting(routes: ["/a": png(tile(1)), "/text": .ok(Array("no image".utf8))])
        let directory = try TemporaryDirectory()
        let file = try get(setting, "file:///usr/share/a.png").errors
        #expect(file == #"imgbroker: unsupported-scheme: A local file is named by its path, without "file://"."# + "\n")
        let missing = directory.file("none/a.png")
        let unwritten = try get(setting, "/a", "-o", missing).errors
        #expect(unwritten.hasPrefix("imgbroker: disk-failed: \(missing) could not be written"), "\(unwritten)")
        let text = try get(setting, "/text").errors
        #expect(text.hasPrefix("imgbroker: unsupported-format: "))
        for format in ImageFormat.files { #expect(text.contains(format.name), "\(format)") }
    }

    /// A terminal that reports no size is taken for one of 80 columns and 24 rows.
    @Test func previewInATerminalWithoutSize() throws {
        let setting = try Setting(routes: ["/a": png(tile(1))])
        let command = "\(program) get \(setting.url("/a")) --preview --socket \(setting.broker.socketPath)"
        let result = try run("/usr/bin/script", ["-qec", "stty rows 0 cols 0; \(command)", "/dev/null"])
        #expect(result.exit == .status(0) && result.output.contains("16 × 16"), "\(result.output)")
    }

    @Test func cacheModes() throws {
        let setting = try Setting { request in
            if request["If-None-Match"] == "\"1\"" { return .status(304, headers: [.init("ETag", "\"1\"")]) }
            return png(tile(1)).with { $0.headers += [.init("ETag", "\"1\""), .init("Cache-Control", "max-age=60")] }
        }
        _ = try get(setting, "/a")
        for (number, mode) in ["default", "force-cache", "only-if-cached"].enumerated() {
            #expect(try fields(setting, "/a", "--cache", mode)["source"] as? String == "memory", "\(number)")
        }
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(try get(setting, "/a", "--cache", "no-cache").output.contains("from memory"))
        #expect(try setting.broker.stats()[.revalidated] == 1)
        #expect(try fields(setting, "/a", "--stale-first")["final"] as? Bool == true)
        #expect(try get(setting, "/a", "--stale-first").output.split(separator: "\n").count == 1)
        #expect(setting.origin.statistics("/a").requests == 4)
        for _ in 0..<2 { #expect(try fields(setting, "/b", "--cache", "no-store")["source"] as? String == "network") }
        for _ in 0..<2 { #expect(try fields(setting, "/c", "--storage", "none")["source"] as? String == "network") }
        #expect(try get(setting, "/b", "--cache", "only-if-cached").errors.contains("not-cached"))
    }

    @Test func requestOptions() throws {
        let setting = try Setting { request in
            switch request.path {
            case "/secret" where request["Authorization"] != "Basic dTpw": .status(403)
            case "/jar" where request.number == 2 && request["Cookie"] != "name=value": .status(400)
            case "/named": png(tile(request.query.utf8.count))
            case "/slow": .silent
            default:
                png(tile(1)).with {
                    $0.headers += [.init("Set-Cookie", "name=value"), .init("Cache-Control", "no-cache")]
                }
            }
        }
        #expect(try get(setting, "/secret", "--credentials", "u:p").exit == .status(0))
        #expect(try get(setting, "/secret").exit == .status(1))
        for _ in 0..<2 {
            #expect(try get(setting, "/jar", "--cookies", "--priority", "high").failure == nil)
        }
        #expect(setting.origin.statistics("/jar").requests == 2)
        #expect(try fields(setting, "/named?signature=1", "--cache-key", "k")["source"] as? String == "network")
        #expect(try fields(setting, "/named?signature=22", "--cache-key", "k")["source"] as? String == "memory")
        for flag in ["--timeout-ms", "--total-timeout-ms"] {
            #expect(try fields(setting, "/slow", flag, "200")["code"] as? String == "timeout", "\(flag)")
        }
    }

    @Test func retryFailed() throws {
        let setting = try Setting { _ in .status(404) }
        #expect(try fields(setting, "/a")["blacklisted"] as? Bool == true)
        #expect(try fields(setting, "/a")["code"] as? String == "blacklisted")
        #expect(try fields(setting, "/a", "--retry-failed")["code"] as? String == "http-status")
        #expect(setting.origin.statistics("/a").requests == 2)
    }

    @Test func invalidCertificates() throws {
        let routes = ["/a": png(tile(1))]
        let strict = try Setting(routes: routes)
        #expect(try fields(strict, "/a", "--allow-invalid-certificates")["code"] as? String == "forbidden")
        let lax = try Setting(["--allow-invalid-certificates"], routes: routes)
        #expect(try get(lax, "/a", "--allow-invalid-certificates").exit == .status(0))
    }

    @Test(arguments: [("--min-ttl", "1h", 0, 1), ("--max-ttl", "0", 3600, 2)])
    func lifetimes(_ flag: String, _ time: String, _ maxAge: Int, _ requests: Int) throws {
        let setting = try Setting([flag, time], routes: ["/a": png(tile(1), maxAge: maxAge)])
        for _ in 0..<2 { #expect(try get(setting, "/a").exit == .status(0)) }
        #expect(setting.origin.statistics("/a").requests == requests)
    }

    @Test func staleAnswers() throws {
        let answer = png(tile(1), maxAge: 0)
        let setting = try Setting(["--stale-if-error", "1h"]) { $0.number == 1 ? answer : .status(500) }
        _ = try get(setting, "/a")
        #expect(try fields(setting, "/a")["stale"] as? Bool == true)
        #expect(try get(setting, "/a").output.contains("stale"))
    }

    /// Six downloads from one origin run at once; the order of the queued ones is an option.
    @Test(arguments: [("fifo", "/a"), ("lifo", "/c")]) func queueOrder(_ order: String, _ first: String) throws {
        let setting = try Setting(["--queue-order", order]) { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let client = try setting.client()
        for number in 1...6 { _ = try client.get(setting.url("/\(number)")) }
        for number in 1...6 { setting.origin.expectHeld("/\(number)") }
        for path in ["/a", "/b", "/c"] { _ = try client.get(setting.url(path)) }
        try setting.broker.wait(for: "three requests are queued") { $0[.queued] == 3 }
        setting.origin.gate("/1").open()
        setting.origin.expectHeld(first)
        #expect(setting.origin.requests.count == 7)
    }

    /// The proxy resolves the name, so the broker checks no address.
    @Test func proxy() throws {
        let origin = try TestOrigin { $0.path == "http://pictures.example/a" ? png(tile(1)) : .status(404) }
        let (_, client) = try TestBroker(["--proxy", "http://127.0.0.1:\(origin.port)"], allowed: []).withClient()
        #expect(try client.load("http://pictures.example/a").image().width == 16)
        #expect(origin.requests.first?["Host"] == "pictures.example")
    }

    @Test func extraCacheDirectory() throws {
        let first = try DiskSetting(["--max-age", "-1"])
        _ = try first.load(1)
        try first.wait(for: .on, entries: 1)
        let kept = first.cache
        try first.end()
        let (second, directory) = (try DiskSetting(["--extra-cache-dir", kept]), first)
        // Entries are found by URL: the first origin's.
        #expect(try second.client.load(directory.url(1)).image().source == .disk)
        #expect(directory.downloads(1) == 1)
    }
}

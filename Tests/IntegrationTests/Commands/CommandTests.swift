/// The command line: exit codes, output and files.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CommandTests {
    /// The words of each line are separated by spaces; after one at the end there is an empty word.
    @Test(arguments: [
        "--workers 0", "--workers x", "--workers", "--memory-limit 12Q", "--memory-limit 0", "--allow-address nowhere",
        "--unknown", "serve", "--log-level loud", "get", "get http://a/ http://b/ -o x.png", "get http://a/ -o x.bmp",
        "get a/x.png b/x.jpg -o {name}.webp", "get --what http://a/", "get http://a/ -o", "get http://a/ --cache never",
        "get http://a/ --header x", "ctl", "ctl dance", "ctl stats more", "ctl stats --jsn",
        "--user nobody-by-this-name", "get http://a/ --cache sometimes", "get http://a/ --storage tape",
        "get http://a/ --priority max", "get http://a/ --credentials secret", "get http://a/ --cache-key ",
        "get http://a/ --timeout-ms 0", "get http://a/ --total-timeout-ms x", "get http://a/ --fit tight",
        "get http://a/ --stale-first --cache reload", "get http://a/ --cookies=yes", "get http://a/ --older-than 1d",
        "get http://a/ --progressive -o a.png", "get http://a/ --progressive --json", "ctl failed", "ctl failed dance",
        "ctl failed list http://a/ more", "ctl failed clear a", "ctl remove", "ctl remove nowhere",
        "ctl remove http://a/ http://b/", "ctl clear everything", "ctl clear all --older-than soon",
        "ctl clear all --older-than -1", "ctl suspend now", "ctl stats --older-than 1d", "ctl resume --width 3",
        "ctl prefetch", "ctl prefetch a b", "ctl prefetch a --width 0", "ctl prefetch a --older-than 1d",
        "ctl events all", "ctl cancel-all http://a/", "ctl reload now", "ctl --json", "ctl top now", "ctl top --json",
        "ctl top --interval 0", "ctl top --interval soon", "ctl stats --once", "ctl prefetch a --interval 1",
        "exporter --listen 9464", "exporter --listen localhost:9464", "exporter --listen 127.0.0.1:99999",
        "exporter --listen [::1", "exporter --allow-host a:80", "exporter --allow-host ", "exporter here",
        "exporter --port 1", "exporter --listen", "http --listen 9080", "http --listen localhost:9080",
        "http --listen unix:", "http --listen-mode 9", "http --max-body 257M", "http --max-body 0", "http --key-file ",
        "http here", "http --port 1",
    ]) func wrongUse(_ line: String) throws {
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        let directory = try TemporaryDirectory()
        let result = try imgbroker(words, environment: ["IMGBROKER_SOCKET=" + directory.file("s")])
        #expect((result.exit, result.output.isEmpty) == (.status(2), true), "\(words)")
        #expect(result.errorLines.count == 1 && !result.errors.contains("secret"), "\(words): \(result.errors)")
        // What only the start of a broker finds out is a line of its log.
        let isLogged = words.first != "ctl" && result.errors.contains(" level=error process=imgbroker ")
        #expect(result.errors.hasPrefix("imgbroker: ") || isLogged)
    }

    @Test(arguments: [
        ["--help"], ["--version"], ["--formats"], ["--formats", "--json"], ["get", "--help"], ["info", "--help"],
        ["store", "--help"], ["ctl", "--help"],
        ["doctor", "--help"], ["--check-config"], ["--manual", "imgbroker.8"], ["--completion", "bash"],
    ])
    func help(_ words: [String]) throws {
        let result = try imgbroker(words)
        #expect((result.exit, result.output.isEmpty, result.errors.isEmpty) == (.status(0), false, true))
    }

    /// Whether the machine lacks something is not known here.
    @Test func doctorLooksAtTheBroker() throws {
        let setting = try Setting(routes: [:])
        // It waits for workers, whose confinement is not known before.
        let result = try setting.broker.run(["doctor"])
        #expect([.status(0), .status(1)].contains(result.exit))
        #expect(result.output.contains("serves \(setting.broker.socketPath), sandbox seccomp+landlock"))
        #expect(result.output.split(separator: "\n").count { $0.hasPrefix("ok  ") || $0.hasPrefix("!!  ") } >= 10)
    }

    @Test(arguments: [false, true]) func doctorLooksAtTheServiceOverHTTP(atPath: Bool) throws {
        let broker = try TestBroker()
        let directory = try TemporaryDirectory()
        let socket = directory.file("http")
        func line(_ place: String) throws -> String {
            let unit = "[Service]\nExecStart=/usr/bin/imgbroker http --listen \(place)\n"
            try directory.write(unit, to: "imgbroker-http.service")
            let words = ["doctor", "--socket", broker.socketPath]
            let result = try imgbroker(words, environment: ["SYSTEMD_UNIT_PATH=" + directory.path])
            return String(result.output.split(separator: "\n").first { $0.dropFirst(4).hasPrefix("http ") } ?? "")
        }
        #expect(try line("127.0.0.1:1") == "ok  http           imgbroker-http.service is not enabled")
        try directory.makeDirectory("multi-user.target.wants")
        let wanted = directory.file("multi-user.target.wants/imgbroker-http.service")
        #expect(unsafe symlink("../imgbroker-http.service", wanted) == 0)
        let server = try RunningImageServer(broker, path: atPath ? socket : nil)
        let place = atPath ? "unix:\(socket)" : "127.0.0.1:\(server.port)"
        #expect(try line(place) == "ok  http           \(atPath ? place : "http://\(place)/") answers")
        _ = try broker.stop()
        #expect(try line(place).hasSuffix("gets no answer from the broker"))
        #expect(server.command.exit(after: SIGTERM) == .status(0))
        #expect(try line(place).hasSuffix("does not answer"))
    }

    @Test func doctorLooksAtTheThumbnailService() throws {
        let directory = try TemporaryDirectory()
        try directory.makeDirectory("dbus-1/services")
        let text = "[D-BUS Service]\nName=org.freedesktop.thumbnails.Thumbnailer1\nExec=/none/imgbroker-thumbnailer\n"
        try directory.write(text, to: "dbus-1/services/a.service")
        let result = try imgbroker(
            ["doctor", "--socket", directory.file("s")], environment: ["XDG_DATA_HOME=" + directory.path])
        #expect(result.exit == .status(1))
        #expect(result.output.contains("!!  thumbnails     /none/imgbroker-thumbnailer is missing\n"), "\(result)")
    }

    @Test func doctorLooksAtTheSharedTier() throws {
        let directory = try TemporaryDirectory()
        let server = try Memcached()
        let name = "127.0.0.1:\(server.port)"
        let words = ["doctor", "--socket", directory.file("s"), "--shared-tier"]
        let answered = try imgbroker(words + ["memcached:\(name)"])
        #expect(answered.output.contains("ok  shared tier    1 of 1 servers answer\n"), "\(answered)")
        // Nothing listens at the lowest port.
        let result = try imgbroker(words + ["memcached:\(name),127.0.0.1:1"])
        #expect(result.exit == .status(1))
        #expect(result.output.contains("!!  shared tier    1 of 2 servers answer\n"), "\(result)")
        #expect(result.output.contains("or take it from shared-tier: 127.0.0.1:1\n"), "\(result)")
    }

    @Test(arguments: [
        "get http://127.0.0.1/", "ctl stats", "ctl stats --json", "ctl failed list", "ctl failed clear",
        "ctl remove http://a/", "ctl clear", "ctl suspend", "ctl resume", "ctl cancel-all", "ctl reload",
        "ctl prefetch /dev/null", "ctl events", "ctl top", "ctl top --once",
    ])
    func noBroker(_ line: String) throws {
        let directory = try TemporaryDirectory()
        let result = try imgbroker(line.split(separator: " ").map(String.init) + ["--socket", directory.file("s")])
        #expect((result.exit, result.output.isEmpty, result.errorLines.count) == (.status(3), true, 1))
        #expect(result.errors.contains(directory.file("s")))
        #expect(result.errors.hasSuffix("; imgbroker doctor says what to do\n"))
    }

    /// Large squares, because lossy formats keep their colours.
    @Test(arguments: ["out.png", "out.jpg", "out.jpeg", "out.webp", "out"], ["on", "off"])
    func roundTrip(_ name: String, segments: String) throws {
        let picture = TestPicture.squares(columns: 4, rows: 3, side: 16)
        let directory = try TemporaryDirectory()
        let setting = try Setting(["--segments", segments], routes: ["/a": png(picture)])
        let path = directory.file(name)
        let result = try setting.broker.run(["get", setting.url("/a"), "-o", path])
        #expect(result.exit == .status(0) && result.errors.isEmpty && result.output.contains("64 × 48"), "\(result)")
        #expect(directory.names == [name])

        let origin = try LocalOrigin(folder: directory.path)
        defer { origin.stop() }
        let client = try setting.client()
        let incoming = try client.load(origin.url("/" + name))
        let again = try client.picture(incoming)
        let type = name.contains(".jp") ? "image/jpeg" : name.hasSuffix("webp") ? "image/webp" : "image/png"
        #expect(try incoming.image().contentType == type)
        if type == "image/png" {
            #expect(again == picture)
        } else {
            for x in stride(from: 8, to: 64, by: 16) {
                for y in stride(from: 8, to: 48, by: 16) {
                    for channel in 0..<4 {
                        #expect(abs(Int(again[x, y][channel]) - Int(picture[x, y][channel])) < 14)
                    }
                }
            }
        }
        let whole = try #require(contents(path))
        try directory.write(whole.prefix(whole.count / 2), to: "half")
        #expect(try client.failure(origin.url("/half")).code == .truncated)
    }

    @Test func asJSON() throws {
        let setting = try Setting { request in
            request.path == "/a" && request["Accept-Language"] == "de" ? png(tile(1)) : .status(404)
        }
        let words = ["get", setting.url("/a"), "--json", "--header", "Accept-Language: de"]
        let fields = try jsonObject(try setting.broker.run(words).output)
        #expect((fields["width"] as? Int, fields["source"] as? String) == (16, "network"))
        #expect(fields["url"] as? String == setting.url("/a"))
        #expect(try jsonObject(try setting.broker.run(words).output)["source"] as? String == "memory")

        let failed = try setting.broker.run(["get", setting.url("/b"), "--json"])
        #expect(failed.exit == .status(1))
        #expect(try jsonObject(failed.output)["code"] as? String == "http-status")
        #expect(try jsonObject(failed.output)["httpStatus"] as? Int == 404)
        #expect(failed.errors.isEmpty)
        let plain = try setting.broker.run(["get", setting.url("/b")])
        #expect((plain.exit, plain.errorLines.count, plain.output.isEmpty) == (.status(1), 1, true))
        let absent = try setting.broker.run(["get", setting.url("/c"), "--cache", "only-if-cached"])
        #expect(absent.exit == .status(1) && absent.errors.contains("not-cached"), "\(absent)")
    }

    @Test func stats() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        for _ in 0..<3 { _ = try client.load(setting.url("/a")) }
        let fields = try jsonObject(try setting.broker.run(["ctl", "stats", "--json"]).output)
        #expect((fields["requests"] as? Int, fields["memoryHits"] as? Int, fields["networkLoads"] as? Int) == (3, 2, 1))
        #expect((fields["decodeMilliseconds"] as? [String: Any])?.keys.sorted() == ["max", "p50", "p90", "p99"])
        #expect((fields["failures"] as? [String: Int], fields["diskState"] as? String) == ([:], "off"))
        let table = try setting.broker.run(["ctl", "stats"])
        #expect(table.exit == .status(0) && table.output.contains("Requests"), "\(table)")
        #expect(table.output.split(separator: "\n").allSatisfy { $0.count <= 100 })
        let found = try imgbroker(
            ["ctl", "stats", "--json"], environment: ["IMGBROKER_SOCKET=" + setting.broker.socketPath])
        #expect(found.exit == .status(0))
        let user = try imgbroker(
            ["ctl", "stats", "--json"], environment: ["XDG_RUNTIME_DIR=" + setting.broker.directory.path])
        #expect(user.exit == .status(3) || user.exit == .status(0))
    }
}

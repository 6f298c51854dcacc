import HTTPCaching

@testable import imgbroker

/// Flags: what they mean, and one clear line for those that mean nothing.
struct CommandLineTests {
    private func read(_ words: String...) throws -> Configuration {
        guard case .serve(let settings) = try BrokerCommandLine.read(words) else {
            throw UsageError("no configuration")
        }
        return settings.configuration
    }

    @Test func `the flags of the broker`() throws {
        let configuration = try read(
            "--workers", "3", "--fetchers=2", "--socket", "/x/y.sock", "--memory-limit", "1G", "--max-download=4M",
            "--max-pixels", "20M", "--allow-address", "127.0.0.0/8", "--allow-address", "::1", "--user", "www-data",
            "--log-level", "debug", "--cache-dir", "/var/cache/x", "--disk-limit", "8G")
        #expect(configuration.limits.workers == 3)
        #expect(configuration.limits.fetchers == 2)
        #expect(configuration.socketPath == "/x/y.sock")
        #expect(configuration.limits.memoryBytes == 1 << 30)
        #expect(configuration.limits.maxDownloadBytes == 4 << 20)
        #expect(configuration.limits.maxPixels == 20_000_000)
        #expect(configuration.allowedAddresses.map(\.description) == ["127.0.0.0/8", "::1/128"])
        #expect(configuration.user == "www-data")
        #expect(configuration.logLevel == .debug)
    }

    @Test func `the flags of caching and of who may do what`() throws {
        let configuration = try read(
            "--queue-order", "lifo", "--max-age", "12h", "--extra-cache-dir", "/a", "--extra-cache-dir=/b", "--proxy",
            "socks5h://proxy:1080", "--allow-invalid-certificates", "--socket-mode", "0640", "--socket-group", "root",
            "--admin-group", "0", "--retries", "3", "--min-speed", "2K", "--stale-while-revalidate", "90",
            "--stale-if-error", "1d", "--min-ttl", "5m", "--max-ttl=2h", "--allow-unsandboxed", "--strict-sandbox",
            "--worker-memory", "256M", "--decode-time", "5", "--decode-deadline=1m")
        #expect(configuration.limits.workerMemoryBytes == 256 << 20)
        #expect(configuration.limits.maxWorkingBytes == 192 << 20)
        #expect(configuration.limits.decodeSeconds == 5)
        #expect(configuration.limits.decodeDeadlineMs == 60_000)
        #expect(configuration.limits.allowsUnsandboxed)
        #expect(configuration.hasStrictSandbox)
        #expect(configuration.limits.queueOrder == .lifo)
        #expect(configuration.maxAge == 43_200)
        #expect(configuration.extraCacheDirectories == ["/a", "/b"])
        #expect(configuration.proxy == "socks5h://proxy:1080")
        #expect(configuration.limits.allowsInvalidCertificates)
        #expect(configuration.socketMode == 0o640)
        #expect(configuration.socketGroup == 0)
        #expect(configuration.adminGroup == 0)
        #expect(configuration.limits.retries == 3)
        #expect(configuration.slowestBody == 2000)
        #expect(configuration.limits.caching.staleWhileRevalidate == 90)
        #expect(configuration.limits.caching.staleIfError == 86_400)
        #expect(configuration.limits.caching.minimumLifetime == 300)
        #expect(configuration.limits.caching.maximumLifetime == 7200)
        #expect(try read("--max-age", "-1").maxAge == nil)
        #expect(try read("--proxy", "http://user:word@proxy:3128/").proxy == "http://user:word@proxy:3128/")
    }

    @Test func `defaults`() throws {
        let configuration = try read()
        #expect(configuration.limits.workers >= 1)
        #expect(configuration.limits.fetchers == 1)
        #expect(configuration.limits.memoryBytes == 512 << 20)
        #expect(configuration.limits.maxDownloadBytes == 32 << 20)
        #expect(configuration.limits.maxPixels == 50_000_000)
        #expect(configuration.allowedAddresses.isEmpty)
        #expect(configuration.limits.queueOrder == .fifo)
        #expect(configuration.limits.retries == 1)
        #expect(configuration.maxAge == 604_800)
        #expect(configuration.socketMode == nil)
        #expect(configuration.adminGroup == nil)
        #expect(configuration.proxy == nil)
        #expect(!configuration.limits.allowsInvalidCertificates)
    }

    @Test func `times for people`() {
        for (text, seconds) in [("0", 0), ("45", 45), ("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)] {
            #expect(Seconds(text)?.value == seconds)
        }
        for text in ["", "d", "-1", "+1", "1w", "1.5h", "1 d", "36526d", "9223372036854775807h"] {
            #expect(Seconds(text) == nil, "\(text)")
        }
    }

    @Test func `a list of URLs to prefetch`() {
        let list = CtlPrefetch.List("# one\r\n\r\n  http://A/b c\t\r\nhttp://a/#x\nftp://a/\n \nhttp://b/")
        #expect(list.urls.map(\.text).suffix(2) == ["http://a/", "http://b/"])
        #expect(list.complaints.contains { $0.hasPrefix("line 5: ") })
        #expect(CtlPrefetch.List("").urls.isEmpty)
    }

    @Test func `an event is a line`() {
        #expect(CtlEvents.line(of: BrokerEvent(.started, url: "http://a/")) == "started    http://a/")
        let ended = BrokerEvent(.worker, pid: 7, reason: "killed")
        #expect(CtlEvents.line(of: ended) == "worker     process 7  (killed)")
    }

    @Test(arguments: [
        ["--workers"], ["--workers", "0"], ["--workers", "many"], ["--memory-limit", "0"], ["--memory-limit", "5T"],
        ["--memory-limit", "9223372036854775807G"], ["--allow-address", "10.0.0.0/33"], ["--log-level", "loud"],
        ["--queue-order", "random"], ["--max-age", "soon"], ["--max-age", "99999999999d"], ["--socket-mode", "0999"],
        ["--socket-mode", "7777"], ["--socket-group", "no-such-group"], ["--admin-group", "no-such-group"],
        ["--retries", "6"], ["--min-ttl", "-1"], ["--min-ttl", "60d"], ["--stale-if-error", "x"],
        ["--proxy", "proxy:3128"],
        ["--proxy", "ftp://proxy"], ["--proxy", "http:proxy"], ["--extra-cache-dir", ""],
        ["--extra-cache-dir", "/x", "--disk-limit", "0"], ["--allow-invalid-certificates=yes"],
        ["--frobnicate"], ["serve"], ["--help=yes", "--workers", "1"], ["--max-pixels", "-5"],
    ])
    func `a wrong flag is one line that names it`(words: [String]) throws {
        let error = #expect(throws: UsageError.self) {
            if case .serve = try BrokerCommandLine.read(words) {} else { throw UsageError(words[0]) }
        }
        #expect(error?.description.contains("\n") == false)
        #expect(error?.description.contains(words[0].prefix { $0 != "=" }) == true)
    }

    @Test(arguments: [
        ([], "store needs a URL, and a file"), (["a.png"], "\"a.png\" is not a URL to load"),
        (["http://a/", "b", "c"], "store needs a URL, and a file"),
        (["http://a/", "--pixels", "3"], "--pixels needs WIDTHxHEIGHT"),
        (["http://a/", "--pixels", "3x0"], "--pixels needs WIDTHxHEIGHT"),
        (["http://a/", "--pixels", "3xx4"], "--pixels needs WIDTHxHEIGHT"),
        (["http://a/", "--pixels", "+3x4"], "--pixels needs WIDTHxHEIGHT"),
        (["http://a/", "--stride", "12"], "--stride goes with --pixels only"),
        (["http://a/", "--pixels=3x4", "--stride", "11"], "--stride needs 12 or more for rows of 3 pixels, not 11"),
        (
            ["http://a/", "--pixels=3x4", "--pixel-format", "rgb8", "--alpha", "straight"],
            "--alpha does not go with rgb8"
        ),
        (["http://a/", "--pixels=3x4", "--alpha", "none"], "--alpha needs straight or premultiplied, not \"none\""),
        (["http://a/", "--pixels=3x4", "--storage", "both"], "--storage needs one of memory, disk, not \"both\""),
        (["http://a/", "--pixels=3x4", "--content-type", "a/b"], "--content-type does not go with --pixels"),
        (["http://a/", "--width", "4"], "unknown option --width (see imgbroker store --help)"),
    ]) func `a wrong flag of store is one line that names it`(words: [String], message: String) throws {
        let error = #expect(throws: UsageError.self) { try StoreCommand.Request(words) }
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
    }

    @Test func `the flags of store`() throws {
        let request = try #require(try StoreCommand.Request(["http://A/b", "--content-type", "image/png"]))
        #expect(request.url.text == "http://a/b")
        #expect(request.file == "-")
        #expect(request.contentType == "image/png")
        #expect(request.pixels == nil)
        let pixels = try #require(try StoreCommand.Request(["http://a/", "f", "--pixels=3x4", "--pixel-format=gray8"]))
        #expect(pixels.file == "f")
        #expect(pixels.pixels == StoredPixels(PixelGeometry(width: 3, height: 4)!, pixelFormat: .gray8))
    }

    @Test func `a proxy's password is not repeated`() throws {
        let error = #expect(throws: UsageError.self) { try read("--proxy", "ftp://user:word@proxy") }
        #expect(error?.description.contains("word") == false)
    }

    @Test func `help and version`() throws {
        for words in [["--help"], ["-h"], ["--workers", "2", "--help"]] {
            guard case .help = try BrokerCommandLine.read(words) else {
                Issue.record("no help")
                continue
            }
        }
        guard case .formats(json: true) = try BrokerCommandLine.read(["--formats", "--json"]),
            case .formats(json: false) = try BrokerCommandLine.read(["--formats"])
        else {
            Issue.record("no formats")
            return
        }
        #expect(throws: UsageError.self) { try read("--formats", "--workers") }
        guard case .version = try BrokerCommandLine.read(["--version"]) else {
            Issue.record("no version")
            return
        }
    }

    @Test func `sizes for people`() {
        #expect(ByteCount(0).description == "0 B")
        #expect(ByteCount(1023).description == "1023 B")
        #expect(ByteCount(1434).description == "1.4 KiB")
        #expect(ByteCount(512 << 20).description == "512 MiB")
        #expect(ByteCount(1023 << 20).description == "1.0 GiB")
        #expect(ByteCount("64k")?.value == 65536)
        #expect(ByteCount("7")?.value == 7)
        #expect(ByteCount("K") == nil)
        #expect(ByteCount("-1") == nil)
    }

    @Test func `the table has a line for every outcome and error`() {
        var report = StatsReport()
        report[.requests] = 10
        for outcome in StatsReport.Figure.outcomes { report[outcome] = 1 }
        report.failures[.decodeFailed] = 3
        #expect(!StatsTable.text(of: report, path: "/run/imgbroker.sock").contains("revalidated"))
        for extra in [
            StatsReport.Figure.revalidated, .staleServed, .prefetched, .mappedHits, .recentlyFailedURLs,
            .descriptorEvictions,
        ] { report[extra] = 4 }
        let text = StatsTable.text(of: report, path: "/run/imgbroker.sock")
        for word in [
            "from memory", "from disk", "joined", "downloaded", "failed", "cancelled", "decode-failed", "p99",
            "revalidated", "stale served", "prefetched", "without asking", "on the failed list",
            "evicted by descriptors",
        ] { #expect(text.contains(word)) }
    }

    @Test(arguments: [
        (["--worker", "3"], "unknown option --worker: did you mean --workers? (see imgbroker --help)"),
        (
            ["--memroy-limit", "3"],
            "unknown option --memroy-limit: did you mean --memory-limit? (see imgbroker --help)"
        ),
        (["--nonsense"], "unknown option --nonsense (see imgbroker --help)"),
        (["gte"], "unknown command \"gte\": did you mean get?"),
        (["docter"], "unknown command \"docter\": did you mean doctor?"),
        (
            ["show"],
            "unknown command \"show\": there are get, info, store, ctl, exporter, http and doctor, and options"
        ),
        (
            ["--log-level", "debgu"],
            "--log-level needs one of error, warning, notice, info, debug, not \"debgu\": did you mean debug?"
        ),
    ])
    func `an unknown word names the nearest`(words: [String], message: String) {
        let error = #expect(throws: UsageError.self) { try BrokerCommandLine.read(words) }
        #expect(error?.description == message)
    }

    @Test func `an unknown option of a command names the nearest`() {
        let ctl = #expect(throws: UsageError.self) { try CtlRequest(["stats", "--jason"]) }
        #expect(ctl?.description == "unknown option --jason: did you mean --json? (see imgbroker ctl --help)")
        let command = #expect(throws: UsageError.self) { try CtlRequest(["stat"]) }
        #expect(command?.description == "unknown command \"stat\": did you mean stats?")
        let get = #expect(throws: UsageError.self) { try GetCommand.run(["a.png", "--widht", "3"]) }
        #expect(get?.description == "unknown option --widht: did you mean --width? (see imgbroker get --help)")
        let fit = #expect(throws: UsageError.self) { try GetCommand.run(["a.png", "--fit", "insde"]) }
        #expect(fit?.description.hasSuffix("not \"insde\": did you mean inside?") == true)
        let exporter = #expect(throws: UsageError.self) { try ExporterCommand.run(["--lisen", "x"]) }
        #expect(exporter?.description.contains("did you mean --listen?") == true)
    }

    private func outputs(_ pattern: String, _ sources: String...) throws -> [String] {
        try OutputName.outputs(pattern, for: sources.map { ImageSource($0) })
    }

    @Test func `outputs are named after their sources`() throws {
        #expect(try outputs("{name}.png", "a/x.jpg", "http://h/y.webp?z") == ["x.png", "y.png"])
        #expect(try outputs("{index}-{name}.{extension}", "a/x.jpg", "b/x.jpg", "c") == ["1-x.jpg", "2-x.jpg", "3-c."])
        // What replaces a placeholder is not read again.
        #expect(try outputs("{name}.png", "{index}.jpg") == ["{index}.png"])
        #expect(try outputs("{nme}.png", "a.jpg") == ["{nme}.png"])
        #expect(OutputName.folder(of: "a/b-{index}/{name}.png") == "a/")
        #expect(OutputName.folder(of: "{name}.png") == "")
        #expect(OutputName.folder(of: "a/x.png") == nil)
        let collision = #expect(throws: UsageError.self) { try outputs("{name}.png", "a/x.png", "a/x.jpg") }
        let remedy = "{index} or {extension} in the name tells them apart"
        #expect(collision?.description == "two of the images would be written to \"x.png\": \(remedy)")
        #expect(throws: UsageError.self) { try outputs("x.png", "a.png", "b.png") }
    }

    @Test func `the extension of an output decides the format, and one that is not written is refused`() throws {
        for (name, expected) in [
            ("x.jpg", GetOptions.Representation.jpeg), ("a/x.JPEG", .jpeg), ("x.WebP", .webp), ("x.png", .png),
            ("x", .png),
            ("a.b/x", .png), (".png", .png), ("x.", .png), ("/dev/null", .png),
        ] { #expect(try OutputName.representation(named: name) == expected, "\(name)") }
        for name in ["x.bmp", "x.gif", "a/x.tar", "x.jpg.part"] {
            let error = #expect(throws: UsageError.self) { try OutputName.representation(named: name) }
            #expect(error?.description.contains(".png, .jpg, .jpeg and .webp") == true)
        }
        // An empty file that its maker has named.
        let directory = try TemporaryDirectory()
        try FileDescriptor.create(at: directory.file("tmp.x7Y")).truncate(to: 0)
        #expect(try OutputName.representation(named: directory.file("tmp.x7Y")) == .png)
    }
}

@Suite(.blocking, .timeLimit(.minutes(10))) struct ExporterTests {
    /// The metric of each figure, by the names that `stats` and Prometheus have for it.
    private static let figures = [
        "requests": "imgbroker_requests_received_total", "revalidated": "imgbroker_cache_revalidated_total",
        "staleServed": "imgbroker_cache_stale_total", "prefetched": "imgbroker_prefetched_total",
        "mappedHits": "imgbroker_mapped_hits_total", "workers": #"imgbroker_workers{kind="decode",state="ready"}"#,
        "fetchers": #"imgbroker_workers{kind="fetch",state="ready"}"#,
        "workerRestarts": "imgbroker_worker_restarts_total", "clients": "imgbroker_clients",
        "queued": "imgbroker_queue_depth", "memoryBytes": #"imgbroker_cache_bytes{tier="mem"}"#,
        "memoryLimitBytes": #"imgbroker_cache_limit_bytes{tier="mem"}"#,
        "memoryEntries": #"imgbroker_cache_entries{tier="mem"}"#, "leases": "imgbroker_shm_leases",
        "leasedBytes": #"imgbroker_shm_bytes{state="leased"}"#,
        "evictedLeasedBytes": #"imgbroker_shm_bytes{state="evicted-leased"}"#,
        "reservedBytes": #"imgbroker_shm_bytes{state="reserved"}"#, "diskBytes": #"imgbroker_cache_bytes{tier="disk"}"#,
        "diskLimitBytes": #"imgbroker_cache_limit_bytes{tier="disk"}"#,
        "diskEntries": #"imgbroker_cache_entries{tier="disk"}"#,
        "evictions": #"imgbroker_cache_evictions_total{tier="mem"}"#,
        "remadeAfterEviction": "imgbroker_cache_remade_total",
        "descriptorEvictions": "imgbroker_cache_descriptor_evictions_total",
        "bytesDownloaded": "imgbroker_downloaded_bytes_total", "pixelsDecoded": "imgbroker_decoded_pixels_total",
        "decodes": "imgbroker_decodes_total", "partialDecodes": "imgbroker_partial_decodes_total",
        "ignoredProfiles": "imgbroker_ignored_profiles_total", "downloads": "imgbroker_downloads_total",
        "blacklistedUrls": "imgbroker_recently_failed_urls", "openDescriptors": "imgbroker_open_fds",
        "held": "imgbroker_held_downloads", "segments": "imgbroker_segments", "segmentBytes": "imgbroker_segment_bytes",
        "sharedBuffers": "imgbroker_shared_buffers",
    ].merging(results) { first, _ in first }

    /// Those of requests by their result.
    private static let results = [
        "memoryHits": "memory", "diskHits": "disk", "networkLoads": "network", "sharedHits": "shared",
        "fileLoads": "file", "coalesced": "coalesced", "failed": "failed", "cancelled": "cancelled",
    ].mapValues { #"imgbroker_requests_total{op="get",result="\#($0)"}"# }

    @Test func `after a load with failures the metrics are the statistics`() throws {
        let (setting, client) = try Setting { request in
            switch request.path {
            case "/missing": .status(404)
            case "/broken": .ok([1, 2, 3], contentType: "image/png")
            case "/error": .status(503)
            default: png(tile(request.numberInPath))
            }
        }.withClient()
        for number in 0..<20 { _ = try client.load(setting.url("/\(number % 12)")) }
        for path in ["/missing", "/missing", "/broken", "/error"] { _ = try client.failure(setting.url(path)) }
        _ = try client.failure("http://127.0.0.1:1/")
        // A fork server that is starting has the name of a worker.
        try setting.idle()
        setting.broker.signal(try #require(setting.broker.workers(.decode).first), SIGKILL)
        try setting.broker.wait(for: "the death is counted") { $0.workerDeaths.values.reduce(0, +) == 1 }
        let exporter = try RunningExporter(setting.broker)
        #expect(try exporter.get("/health").status == 200)
        try setting.idle()

        // The exporter gives an answer again for a moment, and the health check's connection ends some time after its
        // answer.
        var (metrics, stats): ([String: Double], StatsReport) = ([:], StatsReport())
        try eventually("the metrics are as new as the statistics") {
            metrics = try exporter.metrics()
            stats = try setting.broker.stats()
            return [StatsReport.Figure.requests, .clients, .openDescriptors].allSatisfy { figure in
                metrics[Self.figures[figure.rawValue] ?? ""] == Double(stats[figure])
            }
        }
        for figure in StatsReport.Figure.allCases where ![.uptimeSeconds, .running].contains(figure) {
            let name = try #require(Self.figures[figure.rawValue], "\(figure)")
            #expect(metrics[name] == Double(stats[figure]), "\(name)")
        }
        for code in ErrorCode.allCases {
            let name = #"imgbroker_failures_total{code="\#(code.rawValue)"}"#
            #expect(metrics[name] == Double(stats.failures[code] ?? 0), "\(name)")
        }
        for cause in DeathCause.allCases {
            let name = #"imgbroker_worker_deaths_total{cause="\#(cause.rawValue)"}"#
            #expect(metrics[name] == Double(stats.workerDeaths[cause] ?? 0), "\(name)")
        }
        for (status, count) in stats.originResponses {
            #expect(metrics[#"imgbroker_origin_responses_total{code="\#(status)"}"#] == Double(count))
        }
        #expect(stats.originResponses[404] == 1 && stats.originResponses[503] ?? 0 >= 1)
        for (distribution, name, label) in [
            (StatsReport.Distribution.load, "imgbroker_request_duration_seconds", #"result="loaded""#),
            (.hit, "imgbroker_request_duration_seconds", #"result="memory""#),
            (.download, "imgbroker_span_seconds", #"span="download""#),
            (.decode, "imgbroker_span_seconds", #"span="decode""#),
        ] {
            let histogram = try #require(stats.histograms[distribution])
            #expect(metrics["\(name)_count{\(label)}"] == Double(histogram.count))
            #expect(metrics["\(name)_sum{\(label)}"] == Double(histogram.sumMicroseconds) / 1e6)
            #expect(histogram.buckets.reduce(0, +) == histogram.count)
            #expect(metrics["\(name)_bucket{\(label),le=\"67.108864\"}"] == Double(histogram.count))
        }
        // The tables: one origin besides the refused one, one user, one death.
        let transfers = stats.hosts.reduce(0) { $0 + $1.transfers }
        #expect(stats.hosts.map(\.origin).contains(setting.url("")))
        #expect(transfers == stats.histograms[.download]?.count)
        #expect(stats.users.map(\.uid) == [Int(geteuid())])
        #expect(stats.users.first?.requests == stats[.requests])
        // On a busy machine it exits later than a second after its socket's end.
        #expect(stats.lastDeaths.count == 1)
        #expect(stats.lastDeaths.allSatisfy { [.outside, .deadline].contains($0.cause) })
        #expect(stats.runningJobs.values.reduce(0, +) == stats[.running])
    }

    @Test func `a broker that ends and returns is reported`() throws {
        let directory = try TemporaryDirectory()
        var broker: TestBroker? = try TestBroker(in: directory)
        let exporter = try RunningExporter(try #require(broker))
        #expect(try exporter.metrics()["imgbroker_up"] == 1)
        broker = nil
        try eventually("the broker is missed") { try exporter.metrics() == ["imgbroker_up": 0] }
        let health = try exporter.get("/health")
        #expect(health.status == 503)
        #expect(health.text.split(separator: "\n").count == 1)
        broker = try TestBroker(in: directory)
        try eventually("the broker is found again") { try exporter.metrics()["imgbroker_up"] == 1 }
        try eventually("it decodes") { try exporter.get("/health").status == 200 }
        #expect(exporter.command.exit(after: SIGTERM) == .status(0))
    }

    /// The first preset does not suit the image: it is smaller.
    @Test(.enabled(if: geteuid() == 0 && CurrentProcess.exists("/usr/bin/setpriv"), "needs root and setpriv"))
    func `a broker that serves presets only is healthy`() throws {
        let directory = try TemporaryDirectory()
        let text = "only-presets = true\n[preset a]\ncrop = 100,100,10,10\n[preset b]\nwidth = 4\n"
        let conf = try directory.write(text, to: "conf")
        let broker = try TestBroker(["--config", conf, "--socket-mode", "0666"], in: directory)
        let answer = try RunningExporter(broker, asNobody: true).get("/health")
        #expect(answer.status == 200, "\(answer.text)")
        #expect(try broker.stats().failures[.forbidden] == 1)
    }

    @Test func `other names, methods and paths are refused`() throws {
        let exporter = try RunningExporter(try TestBroker(), "--allow-host", "metrics.lan")
        #expect(try exporter.get("/").text.contains("<title>imgbroker</title>"))
        #expect(try exporter.get("/", method: "HEAD").body.isEmpty)
        #expect(try exporter.get("/metrics", host: "metrics.lan:80").status == 200)
        #expect(try exporter.get("/metrics", host: "evil.example").status == 421)
        #expect(try exporter.get("/metrics", method: "POST").status == 405)
        #expect(try exporter.get("/../../etc/passwd").status == 404)
        #expect(try exporter.get("/thumbnails/0").status == 404)
        // Of two Host fields none counts.
        for fields in ["localhost\r\nHost: evil.example", "evil.example\r\nHost: localhost"] {
            #expect(try exporter.get("/metrics", host: fields).status == 400)
        }
        #expect(try exporter.get("/metrics", host: "+1.2.3.4").status == 421)
    }

    /// As many connections as there are, and more, each with a request that never ends.
    @Test func `clients that send their requests byte by byte keep no other from an answer`() throws {
        let broker = try TestBroker()
        defer { withExtendedLifetime(broker) {} }
        let exporter = try RunningExporter(broker)
        let dripping = try (0..<120).map { _ in try TricklingRequest(port: exporter.port) }
        for _ in 0..<5 {
            for request in dripping { request.sendByte() }
            #expect(try exporter.get("/health").status == 200)
            #expect(try exporter.get("/metrics").status == 200)
        }
        // Bytes do not prolong them.
        try eventually("all of them have been closed") {
            for request in dripping { request.sendByte() }
            return dripping.allSatisfy(\.isClosed)
        }
    }

    /// A member of the group sees all figures, and has no other right of an administrator. The clients of all users are
    /// connected by this process, so they are in its groups.
    @Test(.enabled(if: geteuid() == 0, "needs root"), arguments: [true, false])
    func `the group for statistics sees all figures and nothing else`(isMember: Bool) throws {
        let group = isMember ? getegid() : 65_534
        let setting = try Setting(["--stats-group", "\(group)"]) { _ in png(tile(1)) }
        _ = try setting.client().load(setting.url("/a"))
        let client = try setting.client(as: 65_534)
        let stats = try client.stats()
        #expect(stats[.requests] == (isMember ? 1 : 0))
        #expect((stats[.openDescriptors] > 0) == isMember)
        #expect(stats.hosts.isEmpty != isMember && stats.users.isEmpty != isMember)
        #expect(try client.ask("suspend").error?.code == .forbidden)
    }

    @Test func `a port that is taken is one line`() throws {
        let broker = try TestBroker()
        let exporter = try RunningExporter(broker)
        let result = try broker.run(["exporter", "--listen", "127.0.0.1:\(exporter.port)"])
        #expect((result.exit, result.errorLines.count) == (.status(1), 1))
        #expect(result.errors.contains("is taken"))
    }
}

@Suite(.blocking, .timeLimit(.minutes(10))) struct LogTests {
    @Test func `normal traffic leaves no line above debug`() throws {
        let setting = try Setting(["--log-level", "info"]) { _ in png(tile(1)) }
        try setting.idleWorkers()
        let before = setting.broker.logLines.count
        let client = try setting.client()
        for number in [1, 1, 2] { #expect(try client.load(setting.url("/\(number)")).image().width > 0) }
        try setting.idle()
        #expect(setting.broker.logLines.count == before, "\(setting.broker.logTail)")
    }

    @Test func `each line is an object, requests have names, and no line has a secret`() throws {
        let (setting, client) = try Setting(["--log-format", "json", "--log-level", "debug"]) {
            $0.path.hasPrefix("/missing") ? .status(404) : png(tile(1))
        }.withClient()
        for path in ["/1?token=secret", "/1?token=secret", "/2?token=secret"] {
            #expect(try client.load(setting.url(path)).image().width > 0)
        }
        #expect(try client.failure(setting.url("/missing?token=secret")).code == .httpStatus)
        #expect(try client.failure(setting.url("/3?token=secret"), #""cache":"only-if-cached""#).code == .notCached)
        let lines = try setting.broker.logLines.map { try jsonObject($0) }
        #expect(!setting.broker.logTail.contains("secret"))
        #expect(Set(lines.compactMap { $0["process"] as? String }) == ["imgbroker", "imgfetch"])
        let names = lines.filter { $0["event"] as? String == "request" && $0["type"] as? String == "get" }
            .compactMap { $0["request"] as? String }
        #expect(Set(names).count >= 4)
        // A request, the job of its download in the broker and in the worker, and its answer.
        let first = try #require(names.first)
        let job = try #require(
            lines.first { $0["request"] as? String == first && $0["kind"] as? String == "download" }?["job"] as? Int)
        #expect(lines.contains { $0["process"] as? String == "imgfetch" && $0["job"] as? Int == job })
        #expect(lines.contains { $0["event"] as? String == "answer" && $0["request"] as? String == first })
        let failure = try #require(lines.first { $0["status"] as? Int == 404 })
        #expect(failure["level"] as? String == "info")
        #expect((failure["url"] as? String)?.hasSuffix("/missing") == true)
    }

    @Test func `URLs are complete when the administrator wants that`() throws {
        let setting = try Setting(["--log-level", "info", "--log-full-urls"]) { _ in .status(404) }
        #expect(try setting.client().failure(setting.url("/a?token=secret")).code == .httpStatus)
        let line = setting.broker.logLines.first { $0.contains("event=request-failed") }
        #expect(line?.contains("/a?token=secret") == true)
    }

    @Test func `a flood of failures is counted`() throws {
        let (setting, client) = try Setting(["--log-level", "info"]) { _ in .status(404) }.withClient()
        for number in 0..<200 {
            #expect(try client.failure(setting.url("/\(number)"), #""cache":"only-if-cached""#).code == .notCached)
        }
        #expect(setting.broker.logLines.count { $0.contains("code=not-cached") } == LogFlood.mostLines)
        #expect(try setting.broker.stop() == .status(0))
        // The count is written at the end of the period, or of the broker.
        let count = try #require(setting.broker.logLines.first { $0.contains("event=repeated") })
        #expect(count.contains("of=request-failed cause=not-cached count=190 "), "\(count)")
    }

    @Test func `a worker that has nothing more to say writes its counts`() throws {
        let setting = try DiskSetting(["--log-level", "info"], hasFiles: true)
        let numbers = 0..<LogFlood.mostLines + 5
        for number in numbers { _ = try setting.load(number) }
        try setting.wait(for: .on, entries: numbers.count)
        try setting.restartUntilReady()
        // Of another size, they would be removed by the comparison with the index, without a line.
        for path in setting.files("originals") {
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.write(contentsOf: Data([0]))
            try file.close()
        }
        for number in numbers { #expect(try setting.load(number).source == .network) }
        #expect(setting.broker.logLines.count { $0.contains("event=entry") } == LogFlood.mostLines)
        try eventually("the other lines are counted") {
            setting.broker.logLines.contains {
                $0.contains("process=imgcache event=repeated") && $0.contains("of=entry count=5 ")
            }
        }
    }

    @Test func `the workers of a broker with the journal write priorities`() throws {
        let directory = try TemporaryDirectory()
        // The file is the journal if the variable names it.
        let log = try directory.write("", to: "log")
        let file = try FileManager.default.attributesOfItem(atPath: log)
        let name = "\(try #require(file[.systemNumber] as? Int)):\(try #require(file[.systemFileNumber] as? Int))"
        let setting = try TestOrigin { _ in png(tile(1)) }
        let broker = try TestBroker(["--log-level", "debug"], environment: ["JOURNAL_STREAM=\(name)"], in: directory)
        #expect(try RawClient(broker.socketPath).load(setting.url("/1")).image().width > 0)
        #expect(broker.logLines.contains { $0.hasPrefix("<5>process=imgbroker event=started") }, "\(broker.logTail)")
        #expect(broker.logLines.contains { $0.hasPrefix("<7>process=imgfetch event=job") }, "\(broker.logTail)")
        #expect(broker.logLines.allSatisfy { $0.hasPrefix("<") })
    }

    @Test func `the page of operations explains each event`() throws {
        let page = try String(contentsOfFile: BuiltProducts.package + "/docs/operations.md", encoding: .utf8)
        for event in LogEvent.allCases { #expect(page.contains("| `\(event.rawValue)` |"), "\(event)") }
    }
}

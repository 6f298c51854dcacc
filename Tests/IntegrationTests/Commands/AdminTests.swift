/// Requests of administrators, prefetching and events.
@Suite(.blocking, .timeLimit(.minutes(10))) struct AdminTests {
    private static func setting(_ arguments: [String] = []) throws -> Setting {
        try Setting(arguments) { $0.path.hasPrefix("/missing") ? .status(404) : numberedImage($0) }
    }

    @Test func cancelAllEndsPendingRequests() throws {
        let setting = try Self.setting()
        let clients = try (0..<3).map { _ in try setting.client() }
        let ids = try clients.map { try $0.get(setting.url("/held/1")) }
        let prefetch = try clients[0].prefetch([setting.url("/held/2")])
        setting.origin.expectHeld("/held/2")
        #expect(try clients[2].ask("cancelAll").isOK)
        for (client, id) in zip(clients, ids) { #expect(try client.answer(to: id).error?.code == .cancelled) }
        #expect(try clients[0].answer(to: prefetch).error?.code == .cancelled)
        #expect(setting.origin.wait(for: "/held/1", seconds: patience) { $0.abandoned == 1 })
        #expect(setting.origin.wait(for: "/held/2", seconds: patience) { $0.abandoned == 1 })
        #expect(try setting.idle()[.cancelled, .reservedBytes] == [3, 0])
        #expect(try clients[1].load(setting.url("/3")).image().source == .network)
    }

    @Test(arguments: [false, true]) func clearEmptiesATier(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles)
        try setting.wait(for: .on)
        let client = setting.client
        func clear(_ members: String) throws -> (removed: Int, bytes: Int) {
            let fields = try client.ask("clear", members).fields
            return (fields["removed"] as? Int ?? -1, fields["bytes"] as? Int ?? -1)
        }
        for number in 1...3 { _ = try setting.load(number) }
        try setting.wait(for: .on, entries: 3)
        #expect(setting.files("originals").count == (hasFiles ? 3 : 0))
        // Entries may be counted before they are kept.
        try setting.broker.wait(for: "memory has the pixels alone") { $0[.memoryEntries] == 3 }
        let memory = try client.stats()[.memoryBytes]
        #expect(try clear(#""tier":"all","olderThanSeconds":3600"#).removed == 0)
        #expect(try client.stats()[.memoryBytes] == memory)
        let fromMemory = try clear(#""tier":"memory""#)
        #expect((fromMemory.removed, fromMemory.bytes) == (3, memory))
        #expect(try client.stats()[.memoryBytes] == 0)
        #expect(try setting.load(1).source == .disk)
        let fromDisk = try clear(#""tier":"disk""#)
        #expect(fromDisk.removed == 3)
        #expect(fromDisk.bytes > 0)
        try setting.wait(for: .on, entries: 0)
        #expect(setting.files("originals").isEmpty)
        #expect(try setting.load(1).source == .memory)
        #expect(try setting.load(2).source == .network)
        try setting.wait(for: .on, entries: 1)
        #expect(try clear(#""tier":"all""#).removed == 3)
        for number in 1...3 { #expect(try setting.load(number).source == .network) }
        #expect(try client.ask("clear", #""tier":"ram""#).error?.code == .badRequest)
    }

    @Test func prefetchFillsMemory() throws {
        let (setting, client) = try Self.setting().withClient()
        let paths = (1...20).map { $0 % 5 == 0 ? "/missing/\($0)" : "/\($0)" }
        let frames = try client.frames(of: try client.prefetch(paths.map(setting.url)))
        #expect(frames.last!.isOK)
        let counts = frames.dropLast().map { frame in
            ["done", "failed", "total"].map { frame.fields[$0] as? Int ?? -1 }
        }
        #expect(counts.last == [16, 4, 20])
        #expect(counts.allSatisfy { $0[2] == 20 && $0[0] + $0[1] <= 20 })
        #expect(counts.map { $0[0] + $0[1] } == counts.map { $0[0] + $0[1] }.sorted())
        #expect(try client.stats()[.prefetched, .requests, .leasedBytes] == [16, 0, 0])
        for number in [1, 19] {
            #expect(try client.loaded(setting.url("/\(number)")) == (tile(number), .memory))
        }
        #expect(try client.stats()[.decodes] == 16)
        let many = try client.prefetch((0...1000).map { setting.url("/\($0)") })
        #expect(try client.answer(to: many).error?.code == .badRequest)
    }

    @Test func prefetchCanBeCancelled() throws {
        let (setting, client) = try Self.setting().withClient()
        let id = try client.prefetch((1...30).map { setting.url("/held/\($0)") })
        setting.origin.expectHeld("/held/1")
        let wanted = try client.get(setting.url("/held/1"))
        try client.cancel(id)
        setting.origin.gate("/held/1").open()
        #expect(try client.picture(answering: wanted) == tile(1))
        #expect(try setting.idle()[.prefetched, .reservedBytes] == [0, 0])
        #expect(setting.origin.requests.count <= 8)
    }

    @Test func downloadEventsAreInOrder() throws {
        let setting = try Self.setting()
        let (client, watcher) = (try setting.client(), try setting.client())
        #expect(try watcher.ask("subscribe", #""events":["started","responded","finished","failed"]"#).isOK)
        _ = try client.load(setting.url("/1"))
        _ = try client.load(setting.url("/1"))
        _ = try client.failure(setting.url("/missing"))
        let events = try watcher.events { $0.name == .failed }
        #expect(events.filter { $0.url == setting.url("/1") }.map(\.name) == [.started, .responded, .finished])
        #expect(events.filter { $0.url == setting.url("/missing") }.map(\.name).first == .started)
        #expect(events.last == BrokerEvent(.failed, url: setting.url("/missing"), reason: "http-status"))
        #expect(try watcher.ask("subscribe", #""events":["stopped"]"#).error?.code == .badRequest)
    }

    @Test func evictionAndWorkerEvents() throws {
        let setting = try Self.setting(["--memory-limit", "64K"])
        let (client, watcher) = (try setting.client(), try setting.client())
        #expect(try watcher.ask("subscribe", #""events":["evicted","worker"]"#).isOK)
        try setting.idleWorkers()
        for number in 1...60 { _ = try client.load(setting.url("/\(number)"), #""delivery":"none""#) }
        let evicted = try watcher.events { $0.name == .evicted }
        #expect(evicted.last?.url?.hasPrefix(setting.url("/")) == true)
        try setting.idleWorkers()
        let worker = try #require(setting.broker.workers(.decode).first)
        setting.broker.signal(worker, SIGKILL)
        let told = try #require(try watcher.events { $0.name == .worker }.last)
        #expect((told.pid, told.reason?.isEmpty) == (Int(worker.pid), false))
        try setting.idleWorkers()
    }
}

/// Settings that change while the broker runs.
@Suite(.blocking, .timeLimit(.minutes(10))) final class ReloadTests {
    private let directory: TemporaryDirectory
    private let origin: TestOrigin
    private var file: String { directory.file("conf") }

    init() throws {
        directory = try TemporaryDirectory()
        origin = try TestOrigin { request in
            png(tile(1)).with { $0.hold = request.path.hasPrefix("/held") ? .afterBytes(100) : .never }
        }
    }

    private func write(_ text: String) throws { try directory.write(text, to: "conf") }

    private func start(_ arguments: [String] = []) throws -> TestBroker {
        try TestBroker(["--config", file] + arguments, allowed: [], in: directory)
    }

    private func reload(_ broker: TestBroker, _ words: String...) throws -> ProgramResult {
        try broker.run(["ctl", "reload"] + words)
    }

    @Test func `addresses, limits and the log's level change, the number of workers does not`() throws {
        try write("memory-limit = 64M\n")
        let (broker, client) = try start().withClient()
        #expect(try client.failure(origin.url("/1")).code == .forbiddenAddress)
        let before = Set(try broker.allWorkers(.fetch).map(\.pid))
        try write("memory-limit = 32M\nallow-address = 127.0.0.0/8\nlog-level = info\nfetchers = 2\n")
        let result = try reload(broker)
        #expect(result.exit == .status(0), "\(result.errors)")
        #expect(
            result.output == """
                memory-limit: 64M → 32M
                allow-address: (none) → 127.0.0.0/8
                log-level: notice → info
                fetchers: 1 → 2, refused: needs a restart

                """)
        #expect(try broker.stats()[.memoryLimitBytes] == 32 << 20)
        #expect(try client.load(origin.url("/1"), #""retryFailed":true"#).image().source == .network)
        #expect(broker.logLines.contains { $0.contains("reload: memory-limit: 64M → 32M") })
        let refusal =
            "level=warning process=imgbroker event=reload message=\"reload: fetchers: 1 → 2, refused: needs a restart"
        #expect(broker.logLines.contains { $0.contains(refusal) })
        try eventually("the former download workers are gone") {
            before.isDisjoint(with: broker.workers(.fetch).map(\.pid)) && broker.hasFullCrew
        }
        try write("memory-limit = 32M\nfetchers = 2\n")
        broker.signal(SIGHUP)
        try eventually("the signal is obeyed") {
            broker.logLines.contains { $0.contains("reload: allow-address: 127.0.0.0/8 → (none)") }
        }
        #expect(try client.failure(origin.url("/2")).code == .forbiddenAddress)
        #expect(try client.load(origin.url("/1")).image().source == .memory)
        #expect(try broker.stats()[.workerRestarts] == 0)
        #expect(try broker.stop() == .status(0))
    }

    @Test func `a file with an error changes nothing, and the answer names the line`() throws {
        try write("memory-limit = 64M\n")
        let broker = try start(["--allow-address", "127.0.0.0/8"])
        try write("memory-limit = 32M\nretries = 9\n")
        let result = try reload(broker)
        #expect((result.exit, result.output.isEmpty) == (.status(1), true))
        #expect(result.errors.contains("\(file):2: retries needs a whole number from 0 to 5"), "\(result.errors)")
        #expect(broker.logLines.contains { $0.contains("reload: nothing was changed: \(file):2: retries needs") })
        #expect(try broker.stats()[.memoryLimitBytes] == 64 << 20)
        try write("memory-limit = 32M\n")
        let changed = try #require(jsonObject(try reload(broker, "--json").output)["changed"] as? [[String: String]])
        #expect(changed == [["key": "memory-limit", "old": "64M", "new": "32M"]])
        #expect(try reload(broker).output == "no setting has changed\n")
    }

    @Test(.enabled(if: SilentFileSystem.isPossible)) func `a file system that does not answer holds up nobody`() throws
    {
        try write("")
        let broker = try start(["--allow-address", "127.0.0.0/8"])
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try write("log-level = info\nca-file = \(silent.path)\n")
        let (first, second) = (try RawClient(broker.socketPath), try RawClient(broker.socketPath))
        try first.send(#"{"type":"reload","id":1}"#)
        try second.send(#"{"type":"reload","id":1}"#)
        broker.signal(SIGHUP)
        let client = try RawClient(broker.socketPath)
        #expect(try client.load(origin.url("/1")).image().source == .network)
        // Both are told, and so is one that comes later.
        for requester in [first, second] { #expect(try requester.next().error?.code == .timeout) }
        #expect(try client.load(origin.url("/1")).image().source == .memory)
        try first.send(#"{"type":"reload","id":2}"#)
        #expect(try first.next().error?.code == .timeout)
        #expect(
            broker.logLines.contains { $0.contains("reload: nothing was changed: The sources of the settings were") })
        // The thread would hold up the program's replacement.
        try first.send(#"{"type":"upgrade","id":3}"#)
        #expect(try first.next().error?.code == .overloaded)
        #expect(try client.load(origin.url("/1")).image().source == .memory)
        silent.end()
        try write("log-level = info\n")
        try eventually("the settings are read again") {
            try reload(broker).output == "log-level: notice → info\n"
        }
        #expect(try broker.stop() == .status(0))
    }

    @Test(.enabled(if: SilentFileSystem.isPossible)) func `an upgrade whose settings cannot be read pauses no client`()
        throws
    {
        try write("")
        let (broker, client) = try start(["--allow-address", "127.0.0.0/8"]).withClient()
        #expect(try client.load(origin.url("/1")).image().source == .network)
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try write("ca-file = \(silent.path)\n")
        let requester = try RawClient(broker.socketPath)
        try requester.send(#"{"type":"upgrade","id":1}"#)
        // Clients that are connected, and new ones, are served until the requester is told.
        var served = 0
        try eventually("the upgrade is refused") {
            let new = try RawClient(broker.socketPath)
            let sources = [try client.load(origin.url("/1")), try new.load(origin.url("/1"))].map {
                try? $0.image().source
            }
            if sources == [.memory, .memory] { served += 1 }
            return broker.logLines.contains { $0.contains("upgrade: this program goes on") }
        }
        #expect(served > 3)
        #expect(!broker.logLines.contains { $0.contains("upgrade: waiting for what is unfinished") })
        #expect(try requester.next().error?.code == .timeout)
        // Until the file system answers, no further process waits for it.
        try requester.send(#"{"type":"upgrade","id":2}"#)
        #expect(try requester.next().error?.code == .overloaded)
        silent.end()
        try write("")
        try eventually("an upgrade succeeds") {
            try requester.send(#"{"type":"upgrade","id":3}"#)
            return try requester.next().isOK
        }
        #expect(try client.load(origin.url("/1")).image().source == .memory)
        #expect(try broker.stop() == .status(0))
    }

    @Test func `a transfer goes on while its worker is replaced`() throws {
        try write("")
        let (broker, client) = try start(["--allow-address", "127.0.0.0/8"]).withClient()
        let id = try client.get(origin.url("/held"))
        origin.expectHeld("/held")
        let busy = try broker.busyWorker(.fetch)
        try write("min-speed = 2K\n")
        #expect(try reload(broker).output == "min-speed: 1K → 2K\n")
        #expect(try client.load(origin.url("/1")).image().source == .network)
        #expect(busy.isAlive)
        origin.gate("/held").open()
        #expect(try client.answer(to: id).image().source == .network)
        #expect(origin.requests.count { $0.path == "/held" } == 1)
        try eventually("the former worker is gone") { !busy.isAlive }
    }

    @Test func `the disk cache shrinks, and stays small after its process was replaced`() throws {
        try write("disk-limit = 1G\n")
        let setting = try DiskSetting(["--config", file], hasFiles: true)
        try setting.wait(for: .on)
        // Each takes a block of 4 KiB.
        for number in 1...10 { _ = try setting.load(number) }
        try setting.wait(for: .on, entries: 10)
        try write("disk-limit = 20K\n")
        #expect(try reload(setting.broker).output == "disk-limit: 1G → 20K\n")
        try eventually("originals are evicted") { setting.files("originals").count <= 5 }
        #expect(try setting.broker.stats()[.diskLimitBytes] == 20 << 10)
        let former = try setting.broker.allWorkers(.cache)[0]
        setting.broker.signal(former, SIGKILL)
        try eventually("another process has the limit") {
            setting.broker.workers(.cache).contains { $0 != former && $0.arguments.contains("\(20 << 10)") }
        }
    }
}

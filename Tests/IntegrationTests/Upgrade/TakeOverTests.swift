import Synchronization

/// `imgbroker ctl upgrade`: another program in the place of the running one, with its clients and images.
@Suite(.blocking, .timeLimit(.minutes(10))) struct TakeOverTests {
    private static func setting(_ arguments: [String] = []) throws -> Setting {
        try Setting(arguments) { numberedImage($0) }
    }

    private func upgrade(_ broker: TestBroker) throws -> ProgramResult {
        try broker.run(["ctl", "upgrade"])
    }

    @Test func `connections, leases, images and numbers outlast it`() throws {
        let (setting, client) = try Self.setting().withClient()
        var numbers: [Int] = []
        for number in 1...5 { numbers.append(try #require(client.load(setting.url("/\(number)")).image().buffer)) }
        try setting.idle()
        let before = try client.stats()
        let pid = setting.broker.status.pid
        let result = try upgrade(setting.broker)
        #expect(result.exit == .status(0) && result.output == "upgraded\n", "\(result) \(setting.broker.logTail)")
        #expect(setting.broker.status.arguments.dropFirst().first == "take-over")
        #expect(setting.broker.status.pid == pid)
        let after = try client.stats()
        #expect(after[.memoryBytes, .memoryEntries] == [before[.memoryBytes], before[.memoryEntries]])
        #expect(after[.leasedBytes] == before[.leasedBytes])
        for number in 1...5 {
            let answer = try client.load(setting.url("/\(number)"))
            let image = try answer.image()
            #expect(image.source == .memory && image.buffer == numbers[number - 1] && image.descriptors == 0)
            #expect(try client.picture(answer) == tile(number))
        }
        let other = try setting.client()
        let shared = try other.load(setting.url("/3"))
        #expect(try shared.image().buffer == numbers[2] && other.picture(shared) == tile(3))
        #expect(try #require(client.load(setting.url("/6")).image().buffer) > numbers.max()!)
        #expect(setting.origin.requests.count == 6)
        try setting.idle()
        #expect(try setting.broker.stop() == .status(0))
        #expect(!FileManager.default.fileExists(atPath: setting.broker.socketPath))
    }

    @Test func `requests in flight and incomplete messages are answered afterwards`() throws {
        let setting = try Self.setting()
        let (first, second) = (try setting.client(), try setting.client())
        let held = try first.get(setting.url("/held/1"))
        let list = try first.prefetch([setting.url("/2"), setting.url("/held/3")])
        setting.origin.expectHeld("/held/1")
        let id = second.newID()
        let frame = RawClient.frame(RawClient.getText(id, setting.url("/4")))
        try second.send(Array(frame.prefix(20)))
        let third = try setting.client()
        let bytes = tile(5).png
        let store = third.newID()
        let text = RawClient.storeText(store, "http://stored.test/5", #""payload":\#(bytes.count)"#)
        try third.send(RawClient.frame(text) + Array(bytes.prefix(30)))
        // A payload that nobody expects, of which some has come.
        let fourth = try setting.client()
        let unexpected = RawClient.frame(#"{"type":"release","buffers":[],"payload":1000}"#)
        try fourth.send(unexpected + Array(repeating: 1, count: 400))
        // Asked later, and so answered when all of that has arrived.
        _ = try setting.client().stats()

        #expect(try upgrade(setting.broker).exit == .status(0), "\(setting.broker.logTail)")
        try second.send(Array(frame.dropFirst(20)))
        #expect(try second.picture(answering: id) == tile(4))
        try third.send(Array(bytes.dropFirst(30)))
        #expect(try third.answer(to: store).isOK)
        try fourth.send(Array(repeating: 1, count: 600))
        #expect(try fourth.picture(of: setting.url("/6")) == tile(6))
        for name in ["/held/1", "/held/3"] { setting.origin.gate(name).open() }
        #expect(try first.picture(answering: held) == tile(1))
        #expect(try first.answer(to: list).isOK)
        try setting.idle()
    }

    @Test func `under load no request fails and no image in memory is decoded again`() throws {
        let setting = try Self.setting()
        let loader = try setting.client()
        for number in 1...20 { _ = try loader.load(setting.url("/large/\(number)")) }
        try setting.idle()
        let failures = Mutex<[String]>([])
        let isOver = Mutex(false)
        let served = Mutex(0)
        let threads = try (0..<4).map { index in
            let client = try setting.client()
            nonisolated(unsafe) let unsafeClient = client
            let origin = setting.url("")
            let thread = Thread {
                let client = unsafe unsafeClient
                var count = 0
                do {
                    while !isOver.withLock({ $0 }) {
                        // Several at once, among them some that are not in memory.
                        var ids: [(id: Int, number: Int, isKnown: Bool)] = []
                        for step in 0..<8 {
                            let number = (count + step * 3 + index) % 20 + 1
                            let isKnown = step != 7 || count % 20 != 0
                            let path = isKnown ? "/large/\(number)" : "/new/\(index * 100_000 + count)"
                            ids.append((try client.get(origin + path), number, isKnown))
                        }
                        for (id, number, isKnown) in ids {
                            let answer = try client.answer(to: id)
                            if let error = answer.error { failures.withLock { $0.append("\(error)") } }
                            let image = try answer.image()
                            if isKnown, image.source != .memory { failures.withLock { $0.append("loaded \(number)") } }
                            if isKnown, try client.picture(answer) != largeTile(number) {
                                failures.withLock { $0.append("other pixels of \(number)") }
                            }
                            if count % 3 == 0, let buffer = image.buffer { try client.release([buffer]) }
                        }
                        count += 1
                        served.withLock { $0 += ids.count }
                    }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
            thread.start()
            return thread
        }
        for _ in 0..<4 {
            let before = served.withLock { $0 }
            #expect(try upgrade(setting.broker).failure == nil)
            try eventually("clients are served") { served.withLock { $0 } > before + 100 }
        }
        isOver.withLock { $0 = true }
        try eventually("the clients end") { threads.allSatisfy(\.isFinished) }
        #expect(failures.withLock { $0 } == [])
        let large = setting.origin.requests.filter { $0.path.hasPrefix("/large/") }
        #expect(large.count == 20)
        try setting.idle()
    }

    @Test func `several upgrades leave no descriptors and no processes`() throws {
        let directory = try TemporaryDirectory()
        let (setting, client) = try Self.setting(["--cache-dir", directory.file("cache")]).withClient()
        for number in 1...10 { _ = try client.load(setting.url("/large/\(number)")) }
        try setting.idle()
        #expect(try upgrade(setting.broker).exit == .status(0))
        try setting.idle()
        let before = try setting.broker.settledDescriptors()
        for _ in 0..<3 {
            #expect(try upgrade(setting.broker).exit == .status(0))
            try setting.idle()
            try setting.broker.allChildren()
        }
        try setting.broker.waitForSettledDescriptors(before)
        #expect(try client.load(setting.url("/large/4")).image().source == .memory)
        #expect(setting.origin.requests.count == 10)
    }

    @Test func `a program that cannot take over leaves the running one in its place`() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.file("bin")
        let files = FileManager.default
        try directory.makeDirectory("bin")
        try Programs.install(["imgbroker", "imgfetch", "imgworker", "imgcache"], in: folder)
        let origin = try TestOrigin { _ in png(tile(1)) }
        let (broker, client) = try TestBroker(folder: folder, in: directory).withClient()
        let number = try client.load(origin.url("/1")).image().buffer
        // Fails when clients are paused already.
        let second = "#!/bin/sh\n[ -e '\(directory.file("first"))' ] && exit 7\n: >'\(directory.file("first"))'\n"
        for script in ["#!/bin/sh\nexit 7\n", "no program", second, nil] {
            try? files.removeItem(atPath: folder + "/imgbroker")
            if let script { try Programs.write(script, to: folder + "/imgbroker") }
            let result = try upgrade(broker)
            #expect(result.exit == .status(1) && result.errors.contains("internal"), "\(result)")
            #expect(broker.status.arguments.dropFirst().first != "take-over")
            #expect(try client.load(origin.url("/1")).image().buffer == number)
        }
        try Programs.install(["imgbroker"], in: folder)
        #expect(try upgrade(broker).exit == .status(0), "\(broker.logTail)")
        #expect(try client.load(origin.url("/1")).image().buffer == number)
        #expect(origin.requests.count == 1)
    }

    @Test func `settings that the new program refuses leave the running one in its place`() throws {
        let directory = try TemporaryDirectory()
        let folder = directory.file("bin")
        try directory.makeDirectory("bin")
        // Without imgtier, and without families, whose workers would need descriptors.
        try Programs.install(["imgbroker", "imgfetch", "imgworker", "imgcache"], in: folder)
        let origin = try TestOrigin { _ in png(tile(1)) }
        let file = try directory.write("", to: "conf")
        let (broker, client) = try TestBroker(
            ["--config", file], descriptorLimit: 96, folder: folder, in: directory
        ).withClient()
        let number = try client.load(origin.url("/1")).image().buffer
        for (setting, reason) in [
            ("shared-tier = memcached:127.0.0.1", "shared-tier needs imgtier"),
            ("fetchers = 16", "descriptors, and 96 are allowed"),
            ("user = nobody-by-this-name", "there is no user"),
        ] {
            try directory.write(setting + "\n", to: "conf")
            let result = try upgrade(broker)
            #expect(result.exit == .status(1) && result.errors.contains("internal"), "\(result)")
            #expect(broker.logLines.contains { $0.contains("cannot take over: ") && $0.contains(reason) })
            #expect(broker.status.arguments.dropFirst().first != "take-over")
            #expect(try client.load(origin.url("/1")).image().buffer == number)
        }
        try directory.write("", to: "conf")
        #expect(try upgrade(broker).exit == .status(0), "\(broker.logTail)")
        #expect(try client.load(origin.url("/1")).image().buffer == number)
        #expect(origin.requests.count == 1)
    }

    @Test(.enabled(if: getuid() == 0, "only root can become another user"))
    func `a user that is named later needs a restart, and workers stay nobody`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write("", to: "conf")
        let broker = try TestBroker(["--config", file], in: directory)
        for line in ["user = daemon\n", ""] {
            try directory.write(line, to: "conf")
            let result = try upgrade(broker)
            #expect(result.exit == .status(line.isEmpty ? 0 : 1), "\(result)")
            for kind in [TestBroker.Worker.fetch, .decode] {
                try eventually("the workers' user is nobody") {
                    try broker.allWorkers(kind).allSatisfy { $0.user == 65_534 }
                }
            }
        }
        #expect(broker.logLines.contains { $0.contains("cannot take over: --user: another user needs a restart") })
    }

    @Test func `a client that keeps images gets the next page`() async throws {
        let setting = try Self.setting()
        let client = AsyncImageBroker(path: setting.broker.socketPath)
        let url = setting.url("/1")
        func waitForHit() async throws {
            let deadline = Date(timeIntervalSinceNow: patience)
            while client.keptImage(at: url) == nil {
                try #require(Date() < deadline)
                _ = try await client.image(at: url)
            }
        }
        try await waitForHit()
        #expect(try upgrade(setting.broker).exit == .status(0))
        // The page has ended with the process that wrote it.
        #expect(client.keptImage(at: url) == nil)
        try await waitForHit()
        #expect(setting.origin.requests.count == 1)
    }

    @Test func `a blocking client that keeps images gets the next page`() throws {
        let setting = try Self.setting()
        let client = try ImageBroker(path: setting.broker.socketPath, keeping: ImageBroker.Keeping())
        let observer = try ImageBroker(path: setting.broker.socketPath)
        let url = setting.url("/1")
        // Whether a hundred hits take no request.
        func isKept() throws -> Bool {
            let before = try observer.stats()[.requests]
            for _ in 0..<100 { #expect(try client.get(url).reply.width == tile(1).width) }
            return try observer.stats()[.requests] == before
        }
        for _ in 0..<3 {
            try eventually("images are kept") { try isKept() }
            try observer.upgrade()
            // The page has ended with the process that wrote it.
            #expect(try !isKept())
        }
        #expect(setting.origin.requests.count == 1)
    }

    @Test func `packed images and unread replies are handed over, too`() throws {
        // So few descriptors that small images are packed.
        let (setting, client) = try Setting(descriptorLimit: 160) { numberedImage($0, side: 400) }.withClient()
        for number in 1...150 {
            let buffer = try #require(client.load(setting.url("/\(number)")).image().buffer)
            try client.release([buffer])
        }
        let slow = try setting.client()
        let first = try slow.get(setting.url("/large/200"), #""delivery":"inline""#)
        let second = try slow.get(setting.url("/large/201"), #""delivery":"inline""#)
        let third = try slow.get(setting.url("/large/201"))
        // Loads that run at the upgrade may be made again.
        try setting.broker.wait(for: "the requests have arrived") { $0[.requests] == 153 }
        try setting.idle()
        #expect(try upgrade(setting.broker).exit == .status(0), "\(setting.broker.logTail)")
        #expect(try slow.picture(answering: first) == largeTile(200, side: 400))
        #expect(try slow.picture(answering: second) == largeTile(201, side: 400))
        #expect(try slow.picture(answering: third) == largeTile(201, side: 400))
        for number in 1...150 {
            let answer = try client.load(setting.url("/\(number)"))
            #expect(try (answer.image().source, client.picture(answer)) == (.memory, tile(number)))
            try client.release([try #require(answer.image().buffer)])
        }
        #expect(setting.origin.requests.count == 152)
    }
}

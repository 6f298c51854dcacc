/// One user attacks over 40 connections in every way that the page on security lists, all at the same time, while
/// another user loads images. `make test-hostile` runs it with the release build, for IMGBROKER_HOSTILE_SECONDS
/// seconds, and for a third of them while an administrator upgrades the broker every few seconds.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HostileUserTests {
    private static let seconds = ProcessInfo.processInfo.environment["IMGBROKER_HOSTILE_SECONDS"].flatMap(Double.init)
    private static let connections = 40
    private static let hostile: UInt32 = 20_021
    private static let victim: UInt32 = 20_022
    private static let holder: UInt32 = 20_023

    /// The attacks by number, those of one kind at a time.
    private enum Attack: Int, CaseIterable {
        case descriptors, longOrders, silentTransfers, texts, blame, slowFrames, deadConnections, stores, slowVariants,
            floods, trickles, crashes, halves, silentFiles
    }

    @Test(
        .serialized, .enabled(if: seconds != nil && getuid() == 0, "takes minutes, and needs root"),
        arguments: [false, true])
    func anotherUserIsServed(duringUpgrades: Bool) throws {
        let seconds = (Self.seconds ?? 0) / (duringUpgrades ? 3 : 1)
        let setting = try Setting(["--workers", "2"]) { request in
            switch request.path {
            case "/patience": .redirect(to: "/busy")
            case "/busy": .status(503, headers: [.init("Retry-After", "600")])
            case "/large": .ok(Self.large, contentType: "image/png")
            case "/crash": .ok(CrashingImage.svg(request.number), contentType: "image/svg+xml")
            default: png(tile(request.path.hashValue))
            }
        }
        try setting.idle()
        let admin = try setting.client()
        #expect(try admin.ask("upgrade").error == nil, "\(setting.broker.logTail)")
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        let victim = try setting.client(as: Self.victim)
        try victim.mapSegments()
        let good = try TestOrigin(address: "127.0.0.2") {
            $0.path.hasPrefix("/vector")
                ? .ok(CrashingImage.harmlessSVG($0.number), contentType: "image/svg+xml") : png(tile($0.number))
        }
        _ = try victim.load(good.url("/hit"))
        // An origin of its own, so that the attackers' other transfers do not wait for the silent ones.
        let silent = try TestOrigin(address: "127.0.0.3") { _ in .ok([1]).with { $0.hold = .beforeHeaders } }
        let dead = SilentFileSystem.isPossible ? try SilentFileSystem() : nil
        defer { dead?.end() }

        // Serves one user: what the machine itself delays, and the other processes on it.
        let undisturbed = try UndisturbedBroker()

        let exporter = try RunningExporter(setting.broker)
        let port = exporter.port
        let attackers = Attackers()
        // Its address and the path of its socket are all that the threads read.
        nonisolated(unsafe) let shared = setting
        for number in 0..<Self.connections {
            let attack = Attack.allCases[number % Attack.allCases.count]
            attackers.start { try unsafe Self.perform(attack, shared, silent, dead, port, number, until: attackers) }
        }
        // Microseconds of each.
        var (hits, others, loads, vectors, checks): ([Double], [Double], [Double], [Double], [Double]) =
            ([], [], [], [], [])
        let end = Date.now.addingTimeInterval(seconds)
        var next = 0
        var (upgrade, upgrades): (Int?, Int) = (nil, 0)
        // On a slow machine, two upgrades may take longer.
        let latest = end.addingTimeInterval(duringUpgrades ? patience : 0)
        while Date.now < end || upgrades < 2 && Date.now < latest {
            if upgrade != nil, let answer = try admin.nextIfThere() {
                #expect(answer.error == nil)
                (upgrade, upgrades) = (nil, upgrades + 1)
            } else if duringUpgrades, upgrade == nil, next % 20 == 19 {
                upgrade = try admin.request("upgrade")
            }
            for _ in 0..<20 {
                var answer: RawClient.Incoming?
                let took = try microseconds { answer = try victim.load(good.url("/hit"), #""delivery":"none""#) }
                hits.append(took)
                #expect(answer?.error == nil)
                others.append(try microseconds { try undisturbed.load() })
                usleep(2000)
            }
            next += 1
            var status = 0
            checks.append(try microseconds { status = try exporter.get("/health").status })
            #expect(status == 200)
            func load(_ path: String) throws -> Double {
                try microseconds {
                    let answer = try victim.load(good.url(path), within: 60)
                    #expect(answer.error == nil)
                    if let buffer = try? answer.image().buffer { try victim.release([buffer]) }
                }
            }
            loads.append(try load("/load\(next)"))
            vectors.append(try load("/vector\(next)"))
        }
        attackers.stop()
        if let upgrade { #expect(try admin.answer(to: upgrade).error == nil) }
        dead?.end()
        #expect(exporter.command.exit(after: SIGTERM) == .status(0))
        func quantile(_ values: [Double], _ share: Double) -> Double {
            values.sorted()[Int(Double(values.count - 1) * share)] / 1000
        }
        print(
            """
            hostile user: \(hits.count) hits, p50 \(quantile(hits, 0.5)) ms, p99 \(quantile(hits, 0.99)) ms, \
            at most \(quantile(hits, 1)) ms; \(loads.count) loads, p50 \(quantile(loads, 0.5)) ms, \
            at most \(quantile(loads, 1)) ms; as many SVGs, p50 \(quantile(vectors, 0.5)) ms, \
            at most \(quantile(vectors, 1)) ms; \(checks.count) checks of the health, at most \(quantile(checks, 1)) ms; attacks \(attackers.counts); \
            \(upgrades) upgrades; \
            a broker without attackers: p99 \(quantile(others, 0.99)) ms, at most \(quantile(others, 1)) ms; \
            iterations of the loop: \(try setting.broker.stats()[.loopMicroseconds])
            """)
        if duringUpgrades {
            // `UpgradeTimingTests` bounds each hit; here the attackers' processes take the processors, too.
            #expect(upgrades > 1 && quantile(hits, 0.999) < 500 && quantile(hits, 1) < 1000)
        } else {
            // A broker without attackers has 1.5 ms where the machine is fast and has no other work. Where it has more,
            // every process on the machine takes longer by the same factor.
            #expect(quantile(hits, 0.99) < max(5, 5 / 1.5 * quantile(others, 0.99)))
        }
        #expect(attackers.counts.count == Attack.allCases.count)
        // Nothing is left of it.
        try eventually("the attackers are gone", within: 90) {
            let report = try setting.broker.stats()
            return report[.clients] <= 3 && report[.reservedBytes] == 0
        }
        for client in [admin, victim] { client.close() }
        try setting.broker.allChildren()
        let last = try setting.client()
        _ = try last.ask("clear", #""tier":"memory""#)
        last.close()
        try setting.broker.waitForSettledDescriptors(warm - 1)
        let report = try setting.broker.stats()
        #expect(report.workerDeaths.keys.allSatisfy { [.cpu, .deadline, .signal].contains($0) })
        // Images crash decoders of SVG alone, and ever more rarely.
        #expect(report.lastDeaths.allSatisfy { $0.cause != .signal || $0.kind == "decode-svg" })
        #expect(report.workerDeaths[.signal] ?? 0 < 60)
    }

    private func microseconds(_ work: () throws -> Void) rethrows -> Double {
        let start = Instant.now
        try work()
        return Double(Instant.now.microseconds(since: start))
    }

    /// A PNG of 16 megapixels, of which enlarged variants take long.
    private static let large = TestPNG.blank(width: 4000, height: 4000)

    /// The threads of the attack.
    private final class Attackers: @unchecked Sendable {
        private let lock = NSLock()
        private var isOver = false
        private var running = 0
        private var done: [String: Int] = [:]

        /// SCHED_IDLE, which Swift does not import.
        private static let idlePolicy: Int32 = 5

        var goesOn: Bool { lock.withLock { !isOver } }
        var counts: [String: Int] { lock.withLock { done } }
        func count(_ attack: String) { lock.withLock { done[attack, default: 0] += 1 } }

        func start(_ attack: @escaping @Sendable () throws -> Void) {
            lock.withLock { running += 1 }
            Thread.detachNewThread { [self] in
                // What the attackers themselves take of the processors is not the broker's to share out: they run
                // whenever no other process does.
                var parameters = sched_param()
                unsafe sched_setscheduler(0, Self.idlePolicy, &parameters)
                while goesOn {
                    // A connection that the broker has closed is opened again.
                    try? attack()
                    usleep(20_000)
                }
                lock.withLock { running -= 1 }
            }
        }

        func stop() {
            lock.withLock { isOver = true }
            while lock.withLock({ running > 0 }) { usleep(10_000) }
        }
    }

    /// Attacks over one connection until it ends.
    private static func perform(
        _ attack: Attack, _ setting: Setting, _ silent: TestOrigin, _ dead: SilentFileSystem?, _ exporter: Int,
        _ number: Int,
        until attackers: Attackers
    ) throws {
        // Its files hold up all helpers that its user may have.
        let client = try setting.client(as: attack == .silentFiles ? holder : hostile)
        var round = 0
        while attackers.goesOn {
            round += 1
            let id = client.newID()
            switch attack {
            case .descriptors:
                let pair = try UnixSocket.pair()
                let memory = try WritableBuffer(name: "given").descriptor
                try memory.allocate(64 << 20)
                try client.send(
                    RawClient.frame(#"{"type":"hello","id":\#(id),"protocol":1}"#), descriptors: [pair.0, memory])
                _ = try client.answer(to: id)
            case .longOrders:
                let password = String(repeating: "p", count: 900_000)
                try client.send(
                    #"{"type":"get","id":\#(id),"url":"http://a.test/","credentials":{"username":"u","password":"\#(password)"}}"#
                )
                _ = try client.answer(to: id)
            case .silentTransfers:
                for _ in 0..<8 {
                    _ = try client.get(
                        silent.url("/\(number)-\(round)-\(client.newID())"),
                        #""timeoutMs":86400000,"totalTimeoutMs":86400000"#)
                }
                usleep(500_000)
            case .texts:
                let long = String(repeating: "x", count: 7000)
                let header = String(repeating: "h", count: 30_000)
                let answered = try client.get(
                    setting.url("/\(long)\(round)"), #""cache":"only-if-cached","headers":{"X-A":"\#(header)"}"#)
                _ = try client.answer(to: answered)
            case .blame:
                _ = try client.answer(to: try client.get(setting.url("/patience?\(round)")), within: 60)
            case .slowFrames:
                let frames = [
                    #"{"type":"subscribe","id":\#(id),"events":["#
                        + String(repeating: #""failed","#, count: 100_000) + #""failed"]}"#,
                    #"{"type":"touch","buffers":["# + String(repeating: "-1,", count: 200_000) + #"1],"hits":1}"#,
                    #"{"type":"prefetch","id":\#(id),"urls":["#
                        + String(repeating: #""ftp://x/","#, count: 999) + #""ftp://x/"]}"#,
                ]
                try client.send(frames[round % frames.count])
                _ = try client.next()
            case .deadConnections:
                try client.die(afterRequests: 2000)
                usleep(1_000_000)
                attackers.count("\(attack)")
                return
            case .trickles:
                // With the other two of this kind, more connections than the exporter has. One is opened at a time,
                // because each ends the oldest that has sent no request yet.
                var requests: [TricklingRequest] = []
                while attackers.goesOn {
                    requests.removeAll(where: \.isClosed)
                    if requests.count < 11 { requests.append(try TricklingRequest(port: exporter)) }
                    for request in requests { request.sendByte() }
                    usleep(50_000)
                }
            case .halves:
                // They end with an upgrade.
                try client.sendHalf(ofStore: id, setting.url("/s"), with: WritableBuffer(name: "given").descriptor)
                _ = try? client.next(within: 5)
                attackers.count("\(attack)")
                return
            case .silentFiles:
                if let file = try dead?.open() { try client.request("get", of: file) }
                _ = try? client.next(within: 5)
                attackers.count("\(attack)")
                return
            case .stores:
                _ = try client.store(setting.url("/s\(number)-\(round % 50)"), tile(number * 1000 + round % 50).png)
            case .crashes:
                _ = try client.answer(to: try client.get(setting.url("/crash?\(number)-\(round)")), within: 60)
            case .slowVariants:
                let enlarged = try client.get(
                    setting.url("/large"),
                    #""delivery":"none","variant":{"width":65535,"height":\#(700 + round % 60),"fit":"fill"}"#)
                _ = try client.answer(to: enlarged, within: 60)
            case .floods:
                let ids = try (0..<50).map {
                    try client.get(
                        setting.url("/f\(number)-\(round)-\($0)"), #""delivery":"none","priority":"high""#)
                }
                for id in ids { _ = try client.answer(to: id, within: 60) }
                _ = try client.ask("remove", #""url":"\#(setting.url("/f\(number)-\(round)-0"))""#)
            }
            attackers.count("\(attack)")
        }
    }
}

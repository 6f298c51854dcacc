/// A broker whose control group has less memory than it would take.
@Suite(.blocking, .timeLimit(.minutes(10)), .enabled(if: ControlGroup.isPossible)) struct MemoryGroupTests {
    /// Forms of large images, of which 30 fill the memory: not scaled, because that takes long without optimization.
    private static let large = [#""delivery":"none""#, #""delivery":"none","variant":{"pixelFormat":"bgra8"}"#, ""]
    private static let small = [
        #""delivery":"inline""#, #""variant":{"width":64}"#, #""as":"original""#, #""as":"webp","delivery":"none""#,
    ]

    @Test func `a broker in a group of 256 MiB serves 10,000 mixed loads`() throws {
        let group = try ControlGroup(memory: 256 << 20)
        let pictures = [(1200, 900), (120, 90), (90, 120)].map { TestPNG.blank(width: $0.0, height: $0.1) }
        let origin = try TestOrigin { request in
            let number = request.numberInPath
            // Equal pixels in different bytes: what follows an image's end is ignored.
            let bytes = pictures[number % pictures.count] + Array("\(number)".utf8)
            return .ok(bytes, contentType: "image/png")
        }
        let broker = try TestBroker(preparation: group.entering)
        var random = SplitMix64(state: 6)
        var (loads, failures) = (0, [WireError: Int]())
        while loads < 10_000 {
            let client = try RawClient(broker.socketPath)
            var pending: Set<Int> = []
            for _ in 0..<250 {
                // Squared, so that some images are hits.
                let share = Double.random(in: 0..<1, using: &random)
                let number = Int(share * share * 400)
                let forms = number % 3 == 0 ? Self.large : Self.small
                pending.insert(try client.get(origin.url("/\(number)"), forms.randomElement(using: &random)!))
                while pending.count >= 16 { try take(client, &pending, &failures) }
            }
            while !pending.isEmpty { try take(client, &pending, &failures) }
            loads += 250
        }
        #expect(failures.isEmpty, "\(failures)")
        let report = try broker.stats()
        #expect(report[.requests] == loads)
        #expect(report[.evictions] > 100)
        #expect(report[.memoryLimitBytes] <= 128 << 20)
        #expect(try broker.stop() == .status(0))
    }

    /// Another process of the group takes more than the limit of images leaves to the others. A broker that the kernel
    /// tells of pressure may evict before the first kill.
    @Test(arguments: [false, true]) func `a broker in a group that others fill evicts instead of losing loads`(
        isAware: Bool
    ) throws {
        let group = try ControlGroup(memory: 256 << 20)
        let picture = TestPNG.blank(width: 1200, height: 900)
        let origin = try TestOrigin { .ok(picture + Array($0.path.utf8), contentType: "image/png") }
        let broker = try TestBroker(preparation: isAware ? group.entering : group.enteringUnaware)
        // tail keeps a line without an end in memory.
        let hog = try ChildProcess(
            "/bin/sh", ["-c", group.entering + "{ head -c 140M /dev/zero; exec sleep 600; } | exec tail -n 1"])
        defer {
            for process in ProcessStatus(pid: hog.pid).children { kill(process.pid, SIGKILL) }
            hog.kill()
        }
        try eventually("the group is in use") { group.usedBytes > 140 << 20 }
        let client = try RawClient(broker.socketPath)
        for number in 0..<100 { _ = try client.load(origin.url("/\(number)"), #""delivery":"none""#) }
        let report = try broker.stats()
        if !isAware { #expect(group.kills > 0) }
        #expect(report.workerDeaths.keys.contains(.memory) == (group.kills > 0))
        #expect(report[.memoryLimitBytes] < 128 << 20)
        #expect(report[.networkLoads] == 100)
    }

    private func take(_ client: RawClient, _ pending: inout Set<Int>, _ failures: inout [WireError: Int]) throws {
        let incoming = try client.next()
        guard incoming.reply.isTerminal, let id = incoming.reply.id else { return }
        pending.remove(id)
        if let error = incoming.error { failures[error, default: 0] += 1 }
        if case .image(_, let image) = incoming.reply, let buffer = image.buffer { try client.release([buffer]) }
    }
}

/// A broker under memory pressure. It runs with no other tests beside it, because control groups of version 1 have no
/// pressure of their own: brokers of other tests would notice it, too.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: ControlGroup.isPossible))
struct MemoryPressureTimingTests {
    /// Other processes of the group wait for memory all the time: what they read displaces what they read before.
    @Test(.enabled("the kernel reports pressure") { CurrentProcess.exists("/proc/pressure/memory") })
    func `a broker in a group that waits for memory shrinks its budget, and grows again`() throws {
        let group = try ControlGroup(memory: 192 << 20)
        let picture = TestPNG.blank(width: 1200, height: 900)
        let origin = try TestOrigin { .ok(picture + Array($0.path.utf8), contentType: "image/png") }
        let (broker, client) = try TestBroker(preparation: group.entering).withClient()
        // Fills the budget.
        for number in 0..<20 { _ = try client.load(origin.url("/\(number)"), #""delivery":"none""#) }
        // The group may have had to wait already, on a busy machine: from a quarter of the limit, it takes twelve steps
        // of 10 s.
        try eventually("the budget is whole", within: 180) { try broker.stats()[.memoryLimitBytes] == 64 << 20 }
        let before = try broker.stats()
        let file = broker.directory.file("read-all-the-time")
        let reading = "dd if=/dev/zero of=\(file) bs=1M count=600 2>/dev/null; "
        let loop = "while :; do cat \(file) >/dev/null; done"
        let readers = try ChildProcess(
            "/bin/sh", ["-c", group.entering + reading + String(repeating: loop + " & ", count: 11) + loop])
        func endReaders() {
            // The shells, then the programs that they have started.
            let shells = [ProcessStatus(pid: readers.pid)] + ProcessStatus(pid: readers.pid).children
            let all = shells + shells.flatMap(\.children)
            for process in all { kill(process.pid, SIGKILL) }
            _ = readers.waitForExit(milliseconds: 5000)
        }
        do {
            defer { endReaders() }
            // It goes on serving meanwhile, from the origin and from memory.
            var number = 20
            try broker.wait(for: "the budget shrinks twice") {
                number += 1
                _ = try? client.load(origin.url("/\(number)"), #""delivery":"none""#)
                return $0[.memoryLimitBytes] < 52 << 20
            }
            _ = try client.load(origin.url("/\(number)"), #""delivery":"none""#)
            let after = try broker.stats()
            #expect(after[.evictions] > before[.evictions])
            #expect(after[.networkLoads] == number)
            // Not for a kill.
            #expect(group.kills == 0)
            #expect(after.workerDeaths.isEmpty, "\(after.workerDeaths)")
        }
        let least = try broker.stats()[.memoryLimitBytes]
        try eventually("the budget grows", within: 90) { try broker.stats()[.memoryLimitBytes] > least }
        #expect(try broker.stop() == .status(0))
    }
}

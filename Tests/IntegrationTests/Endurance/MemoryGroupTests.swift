import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

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
        let origin = try LocalOrigin { request in
            let number = Int(request.path.dropFirst()) ?? 0
            // Equal pixels in different bytes: what follows an image's end is ignored.
            let bytes = pictures[number % pictures.count] + Array("\(number)".utf8)
            return .ok(bytes, contentType: "image/png")
        }
        defer { origin.stop() }
        let broker = try TestBroker(preparation: group.entering)
        var random = SeededRandom(state: 6)
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

    /// Another process of the group takes more than the limit of images leaves to the others. A broker that the kernel tells of
    /// pressure may evict before the first kill.
    @Test(arguments: [false, true]) func `a broker in a group that others fill evicts instead of losing loads`(
        isAware: Bool
    ) throws {
        let group = try ControlGroup(memory: 256 << 20)
        let picture = TestPNG.blank(width: 1200, height: 900)
        let origin = try LocalOrigin { .ok(picture + Array($0.path.utf8), contentType: "image/png") }
        defer { origin.stop() }
        let broker = try TestBroker(preparation: isAware ? group.entering : group.enteringUnaware)
        let (_, control) = try UnixSocket.pair()
        // tail keeps a line without an end in memory.
        let hog = try ChildProcess(
            path: "/bin/sh",
            arguments: ["-c", group.entering + "{ head -c 140M /dev/zero; exec sleep 600; } | exec tail -n 1"],
            control: control)
        defer {
            for process in ProcessStatus(pid: hog.pid).children { kill(process.pid, SIGKILL) }
            hog.send(SIGKILL)
            _ = hog.waitForExit(milliseconds: 5000)
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

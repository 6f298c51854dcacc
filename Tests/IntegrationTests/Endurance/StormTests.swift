/// All operations and worker deaths at once, in an order that a seed determines.
@Suite(.blocking, .timeLimit(.minutes(10))) struct StormTests {
    private final class Guest {
        let client: RawClient
        var pending: Set<Int> = []
        var terminals: [Int: Int] = [:]
        var pictures: [Int: Int] = [:]
        var leases: [Int] = []

        init(_ client: RawClient, mapsSegments: Bool) throws {
            self.client = client
            if mapsSegments { try client.mapSegments() }
        }

        /// Records a frame; each request may have only one terminal frame.
        func take(_ incoming: RawClient.Incoming) throws {
            guard incoming.reply.isTerminal, let id = incoming.reply.id else { return }
            terminals[id, default: 0] += 1
            pending.remove(id)
            guard case .image(_, let image) = incoming.reply else { return }
            if let buffer = image.buffer { leases.append(buffer) }
            if image.payload > 0 || image.buffer != nil, let number = pictures[id], image.pixels != nil {
                let picture = try client.picture(incoming)
                #expect(picture == tile(number, side: 40) || picture == tile(number, side: 40).bgra)
            }
        }
    }

    @Test(arguments: [1, 2, 3]) func stormLeavesNoResources(_ seed: UInt64) throws {
        let setting = try Setting(["--memory-limit", "256K"], workers: 2) { request in
            let number = request.numberInPath
            if number % 11 == 10 { return .status(500) }
            if number % 13 == 12 { return .ok(Array("no picture".utf8)) }
            return png(tile(number, side: 40)).with { ($0.pieceBytes, $0.pauseMs) = (3000, number % 4) }
        }
        _ = try setting.client().load(setting.url("/0"), #""delivery":"none""#)
        try setting.idle()
        try setting.broker.wait(for: "the client has disconnected") { $0[.clients] == 1 }
        let warm = try setting.broker.settledDescriptorsBesidesImages()

        var random = SplitMix64(state: seed)
        var guests = try (0..<8).map { try Guest(setting.client(), mapsSegments: $0 % 2 == 0) }
        var (sent, kills) = (0, 0)
        let end = Deadline(seconds: 2.5)
        while !end.isPast || sent <= 200 || kills <= 3 {
            let index = Int.random(in: 0..<guests.count, using: &random)
            let guest = guests[index]
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<60:
                let number = Int.random(in: 0..<60, using: &random)
                let members = [
                    "", #""delivery":"inline""#, #""delivery":"none""#, #""variant":{"pixelFormat":"bgra8"}"#,
                    #""as":"original""#, #""progress":true"#, #""cache":"reload""#, #""cache":"only-if-cached""#,
                    #""priority":"high""#, #""timeoutMs":20"#, #""totalTimeoutMs":30"#, #""headers":{"x-a":"b"}"#,
                ].randomElement(using: &random)!
                let id = try guest.client.get(setting.url("/\(number)"), members)
                guest.pending.insert(id)
                guest.pictures[id] = number
                sent += 1
            case 60..<75:
                if let id = guest.pending.randomElement(using: &random) {
                    guest.pending.insert(try guest.client.request("cancel", #""request":\#(id)"#))
                }
            case 75..<85:
                try guest.client.release(guest.leases + [1, 99_999])
                guest.leases = []
            case 85..<88:
                let url = setting.url("/\(Int.random(in: 0..<60, using: &random))")
                guest.pending.insert(try guest.client.request("remove", #""url":"\#(url)""#))
            case 88..<91:
                guest.client.close()
                guests[index] = try Guest(setting.client(), mapsSegments: index % 2 == 0)
            case 91..<93:
                let kind = Bool.random(using: &random) ? TestBroker.Worker.fetch : .decode
                if let worker = setting.broker.workers(kind).randomElement(using: &random) {
                    setting.broker.signal(worker, SIGKILL)
                    kills += 1
                }
            default:
                while guest.pending.count > 20 { try guest.take(try guest.client.next()) }
                while let incoming = try guest.client.nextIfThere() { try guest.take(incoming) }
            }
        }
        #expect(sent > 200)
        #expect(kills > 3)

        for guest in guests {
            while !guest.pending.isEmpty { try guest.take(try guest.client.next(within: 60)) }
            // The answer to this request must be the last frame.
            _ = try guest.client.ask("stats")
            #expect(try guest.client.nextIfThere() == nil)
            #expect(guest.terminals.values.filter { $0 != 1 }.isEmpty)
            guest.client.close()
        }
        guests = []
        try setting.broker.wait(for: "all clients have disconnected") { $0[.clients] == 1 }
        let report = try setting.idle()
        #expect((report.ended, report[.reservedBytes], report[.leasedBytes]) == (report[.requests], 0, 0))
        #expect(report[.evictedLeasedBytes] == 0)
        #expect(report[.memoryBytes] <= report[.memoryLimitBytes])
        // Some workers were killed twice.
        #expect((1...kills).contains(report[.workerRestarts]))
        try setting.broker.waitForSettledDescriptors(warm, images: report[.memoryEntries])
        try setting.broker.allChildren()
        #expect(setting.broker.status.threads == 1)
        #expect(try setting.broker.stop() == .status(0))
        #expect(setting.broker.directory.names == ["log"])
    }
}

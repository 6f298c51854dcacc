/// Many requests of all kinds from many connections; afterwards no resource of them remains.
@Suite(.blocking, .timeLimit(.minutes(10))) struct SoakTests {
    private static let requests = 20_000
    private static let connections = 30
    /// The number of bytes by which the broker may grow: tables at their largest, and the allocator's overhead.
    private static let tolerance = 8 << 20
    private static let users: [UInt32] = getuid() == 0 ? [20_001, 20_002] : [getuid()]

    private final class Guest {
        let client: RawClient
        var gets: [Int: Int] = [:]
        var others: Set<Int> = []
        var leases: [Int] = []
        var wrong = 0

        init(_ client: RawClient) { self.client = client }

        var pending: Int { gets.count + others.count }

        /// Records a frame; each request may have only one terminal frame.
        func take(_ incoming: RawClient.Incoming) {
            if case .image(_, let image) = incoming.reply, let buffer = image.buffer { leases.append(buffer) }
            guard incoming.reply.isTerminal, let id = incoming.reply.id else { return }
            if let number = gets.removeValue(forKey: id) {
                if case .image(_, let image) = incoming.reply, image.pixels != nil, image.payload > 0 {
                    // All pixels of an image have the same blue, in any order and size.
                    let blue = image.pixels?.pixelFormat == .bgra8 ? 0 : 2
                    if incoming.payload[blue] != UInt8(number) { wrong += 1 }
                }
            } else if others.remove(id) == nil {
                wrong += 1
            }
        }
    }

    private static let modes =
        Array(repeating: "default", count: 12)
        + ["no-cache", "reload", "no-store", "force-cache", "force-cache", "only-if-cached", "only-if-cached"]
    private static let variants = [
        "", "", #","variant":{"pixelFormat":"bgra8"}"#, #","variant":{"width":8}"#,
        #","variant":{"width":5,"height":5,"fit":"cover"}"#, #","as":"original""#,
    ]
    private static let deliveries = ["fd", "fd", "inline", "inline", "none"]
    private static let more = [
        "", "", "", #","headers":{"Accept-Language":"de"}"#, #","cookies":true"#, #","priority":"high""#,
        #","storage":"none""#, #","staleFirst":true"#, #","retryFailed":true"#, #","progress":true"#,
    ]

    private func picture(_ number: Int) -> TestPicture {
        TestPicture(width: 12, height: 12) { x, y in SIMD4(UInt8(x), UInt8(y), UInt8(number), 255) }
    }

    /// Sends one random message and returns whether it was a `get`.
    private func ask(_ guest: Guest, _ setting: Setting, _ random: inout SplitMix64) throws -> Bool {
        let client = guest.client
        let number = Int.random(in: 0..<200, using: &random)
        let url = setting.url("/\(number)")
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<82:
            let members = [
                #""cache":"\#(Self.modes.randomElement(using: &random)!)""#,
                #","delivery":"\#(Self.deliveries.randomElement(using: &random)!)""#,
                Self.variants.randomElement(using: &random)!, Self.more.randomElement(using: &random)!,
            ]
            guest.gets[try client.get(url, members.joined())] = number
            return true
        case 82..<87:
            let request = guest.gets.keys.randomElement(using: &random) ?? 0
            guest.others.insert(try client.request("cancel", #""request":\#(request)"#))
        case 87..<90:
            guest.others.insert(try client.request("query", #""url":"\#(url)""#))
        case 90..<92:
            guest.others.insert(try client.request("remove", #""url":"\#(url)""#))
        case 92..<94:
            guest.others.insert(try client.prefetch((0..<8).map { setting.url("/\((number + $0) % 200)") }))
        case 94..<96:
            let id = client.newID()
            guest.others.insert(id)
            let bytes = number % 5 == 0 ? Array("no picture".utf8) : picture(number).png
            try client.send(RawClient.frame(RawClient.storeText(id, url, #""payload":\#(bytes.count)"#)) + bytes)
        default:
            try client.release(guest.leases)
            guest.leases = []
        }
        return false
    }

    @Test func soakLeavesNoResources() throws {
        let setting = try Setting(["--memory-limit", "256K"], workers: 2) { request in
            let number = request.numberInPath
            if number % 23 == 22 { return .status(404) }
            if number % 29 == 28 { return .ok(Array("no picture".utf8)) }
            let control = number % 7 == 0 ? "max-age=0, stale-while-revalidate=600" : "max-age=\(number % 4 * 200)"
            return .resource(
                picture(number).png, etag: "\"\(number)\"",
                cacheControl: number % 17 == 0 ? "no-store" : number % 19 == 0 ? "private, max-age=60" : control,
                contentType: "image/png", for: request)
        }
        var random = SplitMix64(state: 20_000)
        func guest(_ index: Int) throws -> Guest {
            Guest(
                getuid() == 0
                    ? try setting.client(as: Self.users[index % Self.users.count]) : try setting.client())
        }
        // Permanent allocations are made before the measurement.
        var guests = try (0..<Self.connections).map { try guest($0) }
        func run(_ count: Int) throws {
            var sent = 0
            while sent < count {
                let index = Int.random(in: 0..<guests.count, using: &random)
                // Several at once, like a client that shows a page.
                for _ in 0..<16 { if try ask(guests[index], setting, &random) { sent += 1 } }
                while let incoming = try guests[index].client.nextIfThere() { guests[index].take(incoming) }
                while guests[index].pending > 60 { guests[index].take(try guests[index].client.next()) }
                if Int.random(in: 0..<50, using: &random) == 0 {
                    #expect(guests[index].wrong == 0)
                    guests[index].client.close()
                    guests[index] = try guest(index)
                }
            }
            for guest in guests { while guest.pending > 0 { guest.take(try guest.client.next()) } }
        }
        /// Ends all connections and empties the cache.
        func settle() throws -> StatsReport {
            #expect(guests.allSatisfy { $0.wrong == 0 })
            for guest in guests { guest.client.close() }
            guests = []
            try setting.broker.wait(for: "all clients have disconnected") { $0[.clients] == 1 }
            let root = try setting.client()
            _ = try root.ask("clear", #""tier":"all""#)
            root.close()
            try setting.broker.wait(for: "the client has disconnected") { $0[.clients] == 1 }
            return try setting.idle()
        }
        try run(Self.requests / 10)
        _ = try settle()
        let (descriptors, bytes) = (try setting.broker.settledDescriptors(), setting.broker.status.residentBytes)

        guests = try (0..<Self.connections).map { try guest($0) }
        // Messages in flight when a connection closes are lost, so more are sent until the number is reached.
        repeat { try run(Self.requests / 20) } while try setting.broker.stats()[.requests] < Self.requests
        let report = try settle()
        #expect(report[.requests] >= Self.requests)
        #expect(report.ended == report[.requests])
        for outcome in [StatsReport.Figure.memoryHits, .networkLoads, .coalesced, .failed, .cancelled, .evictions] {
            #expect(report[outcome] > 0, "\(outcome)")
        }
        report.expectNone(
            .queued, .running, .reservedBytes, .leasedBytes, .evictedLeasedBytes, .memoryEntries, .memoryBytes)
        #expect(report.restartsBesidesSlow == 0, "\(report.lastDeaths)")
        try setting.broker.waitForSettledDescriptors(descriptors)
        let grown = setting.broker.status.residentBytes - bytes
        #expect(grown < Self.tolerance, "grown by \(grown) bytes")
        try setting.broker.allChildren()
        #expect(setting.broker.status.threads == 1)
        #expect(try setting.broker.stop() == .status(0))
    }
}

/// Upgrades while users hold up what they can: each succeeds, others are served without an error, and requests of the
/// holders go on or end with `shutting-down`. `UpgradeTimingTests` has the tests of the time.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HeldUpgradeTests {
    private let setting: Setting
    private let admin: RawClient
    private let bystander: RawClient
    private let holder: RawClient

    init() throws {
        setting = try Setting { numberedImage($0, side: 800) }
        (admin, bystander) = (try setting.client(), try setting.client(as: 20_041))
        holder = try setting.client(as: 20_042)
        _ = try bystander.load(setting.url("/1"))
    }

    /// Upgrades, and has the bystander served, who is asking already.
    private func upgrade() throws {
        let id = try admin.request("upgrade")
        let (hit, miss) = (try bystander.get(setting.url("/1")), try bystander.get(setting.url("/\(id + 1)")))
        #expect(try admin.answer(to: id).error == nil, "\(setting.broker.logTail)")
        #expect(setting.broker.status.arguments.dropFirst().first == "take-over")
        for (id, number) in [(hit, 1), (miss, id + 1)] {
            let answer = try bystander.answer(to: id)
            #expect(try answer.error == nil && bystander.picture(answer) == tile(number))
        }
        #expect(try bystander.load(setting.url("/1")).image().source == .memory)
    }

    /// Upgrades until connections have ended, because a message may not have arrived before the first upgrade. The
    /// requests with `ids` end with `shutting-down`.
    private func upgrade(untilEndOf clients: [RawClient], ids: Set<Int?> = [nil]) throws {
        for client in clients {
            var answers: [RawClient.Incoming] = []
            var hasEnded = false
            try eventually("the connection has ended") {
                try upgrade()
                do {
                    while let answer = try client.nextIfThere() { answers.append(answer) }
                } catch is RawClient.Closed { hasEnded = true }
                return hasEnded
            }
            #expect(answers.allSatisfy { $0.error?.code == .shuttingDown })
            #expect(Set(answers.map(\.reply.id)) == ids)
        }
    }

    /// It is sent over itself, so that nobody closes it, and its other end reads nothing.
    @Test func `a dead connection is closed after an upgrade, too`() throws {
        #expect(try admin.ask("upgrade").error == nil)
        try setting.idle()
        let before = try setting.broker.settledDescriptors()
        do {
            let dead = try setting.client(as: 20_042)
            try dead.die(afterRequests: 2000)
            dead.close()
        }
        #expect(try admin.ask("upgrade").error == nil)
        try setting.idle()
        try setting.broker.waitForSettledDescriptors(before)
    }

    @Test func `images in a connection of a departed client count until its other end is closed`() throws {
        _ = try holder.get(setting.url("/1"))
        try setting.broker.wait(for: "the image is sent") { $0[.memoryHits] == 1 }
        let clients = try admin.stats()[.clients]
        // No frame is that long.
        try holder.send([255, 255, 255, 255])
        try setting.broker.wait(for: "the client has departed") { $0[.clients] == clients - 1 }
        // The image's memfd is the client's alone afterwards.
        #expect(try admin.ask("upgrade").error == nil)
        try setting.idle()
        let before = try setting.broker.settledDescriptors()
        for _ in 0..<2 {
            #expect(try admin.ask("upgrade").error == nil)
            try setting.idle()
            // The connection is open.
            try setting.broker.waitForSettledDescriptors(before)
        }
        holder.close()
        try setting.broker.waitForSettledDescriptors(before - 1)
    }

    @Test func `half of a message with a descriptor ends with its connection`() throws {
        let directory = try TemporaryDirectory()
        try Data([1]).write(to: URL(filePath: directory.file("file")))
        let other = try setting.client(as: 20_042)
        let second = try setting.client(as: 20_042)
        try holder.sendHalf(ofStore: 1, setting.url("/s"), with: WritableBuffer(name: "given").descriptor)
        let file = try FileDescriptor.open(readingAt: directory.file("file"))
        try second.sendHalf(ofStore: 1, setting.url("/s"), with: file)
        try upgrade(untilEndOf: [holder, second])
        #expect(try other.picture(of: setting.url("/9")) == tile(9))
        try setting.idle()
    }

    @Test func `half of a frame and of a payload go on, and a long payload ends`() throws {
        let (second, third) = (try setting.client(as: 20_042), try setting.client(as: 20_043))
        let id = holder.newID()
        let frame = RawClient.frame(RawClient.getText(id, setting.url("/4")))
        try holder.send(Array(frame.prefix(20)))
        let store = RawClient.frame(RawClient.storeText(7, setting.url("/s"), #""payload":4000000"#))
        try second.send(store + [UInt8](repeating: 1, count: 100_000))
        try third.send(store + [UInt8](repeating: 1, count: 3_000_000))
        try upgrade(untilEndOf: [third])
        try holder.send(Array(frame.dropFirst(20)))
        #expect(try holder.picture(answering: id) == tile(4))
        try second.send([UInt8](repeating: 1, count: 3_900_000))
        #expect(try second.answer(to: 7).error?.code == .unsupportedFormat)
    }

    /// Its calls cannot be interrupted, so helpers are left over. They count for their user after upgrades, too.
    @Test(.needsSilentFileSystem) func `files of a silent file system`() throws {
        let silent = try SilentFileSystem()
        let stopping = try SilentFileSystem(contents: [UInt8](repeating: 1, count: 1_000_000), answering: 400_000)
        defer {
            silent.end()
            stopping.end()
        }
        let reading = try setting.client(as: 20_043)
        let read = try reading.request("get", of: stopping.open())
        try eventually("a part was read") { stopping.isSilent }
        try upgrade(untilEndOf: [reading], ids: [read])
        let opening = try setting.client(as: 20_042)
        try upgrade(untilEndOf: [opening], ids: [opening.request("get", of: silent.open())])
        // Messages beyond the user's share of helpers stay in their connections, which are handed over.
        var clients: [RawClient] = []
        for _ in 0..<4 {
            clients.append(try setting.client(as: 20_042))
            try clients.last!.request("get", of: silent.open())
            try upgrade()
            #expect(setting.broker.status.children.count { $0.state == "D" } <= 2 * 2)
        }
        silent.end()
        stopping.end()
        try setting.broker.allChildren()
        try eventually("no helper is left over") { setting.broker.descriptorHelpers.count <= 2 }
    }

    @Test(.needsSilentFileSystem) func `a reload while clients are paused ends the upgrade`() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        let directory = try TemporaryDirectory()
        let file = try directory.write("", to: "conf")
        let setting = try Setting(["--config", file]) { numberedImage($0) }
        let (admin, bystander, holder) = (try setting.client(), try setting.client(), try setting.client())
        let held = try holder.get(setting.url("/held/1"))
        setting.origin.expectHeld("/held/1")
        let id = try admin.request("upgrade")
        try eventually("the settings are read") {
            setting.broker.logLines.contains { $0.contains("upgrade: waiting for what is unfinished") }
        }
        try directory.write("ca-file = \(silent.path)\n", to: "conf")
        try eventually("a client is not answered because it is paused") {
            try bystander.request("stats")
            usleep(10_000)
            return try bystander.nextIfThere() == nil
        }
        setting.broker.signal(SIGHUP)
        // It is answered before the time to read the settings is over.
        _ = try bystander.next()
        #expect(!setting.broker.logLines.contains { $0.contains("reload: nothing was changed") })
        #expect(try admin.answer(to: id).error != nil)
        silent.end()
        setting.origin.gate("/held/1").open()
        #expect(try holder.picture(answering: held) == tile(1))
        #expect(try setting.broker.stop() == .status(0))
    }

    @Test func `replies that are not read, and very many requests`() throws {
        // More than is handed over of all clients, by several users.
        var holders: [RawClient] = []
        for number in 0..<3 { _ = try bystander.load(setting.url("/large/\(number)"), #""delivery":"none""#) }
        for user in UInt32(0)..<3 {
            for _ in 0..<12 {
                let client = try setting.client(as: 20_050 + user)
                for number in 0..<20 { try client.get(setting.url("/large/\(number % 3)"), #""delivery":"inline""#) }
                let flood = (100..<1000).flatMap { RawClient.frame(RawClient.getText($0, setting.url("/held/\($0)"))) }
                try client.sendWhatIsTaken(flood)
                holders.append(client)
            }
        }
        for _ in 0..<2 { try upgrade() }
        // What was handed over is read in order.
        for (index, client) in holders.enumerated() {
            guard let first = try? client.next() else { continue }
            #expect(try client.picture(first) == largeTile(0, side: 800), "\(index)")
        }
    }

    @Test func `a connection with a socket that lingers is left in the queue of those to be closed`() throws {
        for _ in 0..<3 {
            let hostile = try setting.client(as: 20_042)
            try hostile.sendWhatIsTaken(RawClient.floodOfRequests(6000))
            let (socket, peer) = try lingeringSocket(seconds: 3600)
            try? hostile.send(#"{"type":"hello","id":1,"protocol":1}"#, with: socket)
            hostile.close()
            withExtendedLifetime(peer) {}
            try upgrade()
        }
        try setting.broker.allChildren()
    }

    /// Several of each at once, by several users, while upgrades go on.
    @Test(.needsSilentFileSystem) func `all at once`() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try upgrade()
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        var clients: [RawClient] = []
        for round in 0..<4 {
            for user in UInt32(0)..<4 {
                let others = try (0..<4).map { _ in try setting.client(as: 20_060 + user) }
                let given = try user % 2 == 0 ? silent.open() : WritableBuffer(name: "given").descriptor
                try others[0].sendHalf(ofStore: 1, setting.url("/s"), with: given)
                try others[1].request("get", of: silent.open())
                try others[2].send([0, 0])
                for _ in 0..<4 { try others[3].get(setting.url("/large/\(round)"), #""delivery":"inline""#) }
                clients += others
            }
            try upgrade()
        }
        for client in clients { client.close() }
        silent.end()
        // No client leases an image then.
        bystander.close()
        try setting.broker.wait(for: "the clients are gone") { $0[.clients] == 3 }
        try setting.broker.allChildren()
        try setting.broker.waitForSettledDescriptors(warm - 1, images: try setting.broker.stats()[.memoryEntries])
    }
}

/// The time for which a client waits during an upgrade, while others hold up what they can.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct UpgradeTimingTests {
    private static let most = 500

    private let setting: Setting
    private let admin: RawClient
    private let bystander: RawClient
    private let undisturbed: UndisturbedBroker

    init() throws {
        setting = try Setting { numberedImage($0, side: 800) }
        (admin, bystander) = (try setting.client(), try setting.client(as: 20_041))
        undisturbed = try UndisturbedBroker()
        _ = try bystander.load(setting.url("/a"), #""delivery":"none""#)
        _ = try admin.load(setting.url("/large/1"), #""delivery":"none""#)
        try setting.idle()
    }

    /// Upgrades, and returns the milliseconds of the bystander's slowest request meanwhile.
    private func slowestHitOfUpgrade() throws -> Int {
        let id = try admin.request("upgrade")
        var (slowest, isOver) = (0, false)
        while !isOver {
            // Once more after the answer.
            if let answer = try admin.nextIfThere() {
                #expect(answer.reply.id == id && answer.error == nil, "\(setting.broker.logTail)")
                isOver = true
            }
            slowest = max(
                slowest, try milliseconds { _ = try bystander.load(setting.url("/a"), #""delivery":"none""#) })
            usleep(1000)
        }
        for _ in 0..<50 { try undisturbed.load() }
        return slowest
    }

    /// Connections of four users, each of which attacks.
    private func attackers(_ count: UInt32 = 1, _ attack: (RawClient) throws -> Void) throws -> [RawClient] {
        try (0..<4 * count).map { number in
            let client = try setting.client(as: 20_050 + number / count)
            try attack(client)
            return client
        }
    }

    /// Upgrades during an attack by connections, which has to be made for each upgrade because they end.
    private func expectFast(_ attack: () throws -> [RawClient] = { [] }) throws {
        var clients: [RawClient] = []
        for _ in 0..<3 {
            clients += try attack()
            let slowest = try slowestHitOfUpgrade()
            print("upgrade: the slowest request took \(slowest) ms")
            #expect(slowest < Self.most + 10 * undisturbed.slowest)
        }
    }

    @Test func `without an attack`() throws { try expectFast() }

    @Test func `half a message with a descriptor`() throws {
        try expectFast {
            try attackers {
                try $0.sendHalf(ofStore: 1, setting.url("/s"), with: WritableBuffer(name: "given").descriptor)
            }
        }
    }

    @Test(.needsSilentFileSystem) func `files of a silent file system`() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try expectFast { try attackers { for _ in 1...4 { try $0.request("get", of: silent.open()) } } }
    }

    @Test func `requests that are not answered, and replies that are not read`() throws {
        let flood = (100..<1100).flatMap { RawClient.frame(RawClient.getText($0, setting.url("/held/\($0)"))) }
        try expectFast {
            try attackers(5) { client in
                for _ in 0..<10 { try client.get(setting.url("/large/1"), #""delivery":"inline""#) }
                try client.sendWhatIsTaken(flood)
            }
        }
    }

    @Test func `many connections, and sockets that linger`() throws {
        var peers: [FileDescriptor] = []
        try expectFast {
            var clients = try (0..<200).map { _ in try setting.client(as: 20_050) }
            for isClosed in [false, true] {
                let hostile = try setting.client(as: 20_051)
                try hostile.sendWhatIsTaken(RawClient.floodOfRequests(6000))
                let (socket, peer) = try lingeringSocket(seconds: 20)
                peers.append(peer)
                try? hostile.send(#"{"type":"hello","id":1,"protocol":1}"#, with: socket)
                if isClosed { hostile.close() } else { clients.append(hostile) }
            }
            return clients
        }
        withExtendedLifetime(peers) {}
    }
}

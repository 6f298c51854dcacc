/// Clients that use up a resource: others are still served.
@Suite(.blocking, .timeLimit(.minutes(10))) struct GreedyClientTests {
    private static let isRoot = geteuid() == 0

    /// Images of at least 4,000,000 bytes of pixels, all different.
    private static func large(_ number: Int) -> [UInt8] { TestPNG.blank(width: 1000 + number, height: 1000) }

    /// One client gets its share of leases; other clients of its user and of another are served, and get hits.
    @Test(arguments: isRoot ? [nil, 20_011] : [nil]) func leasingEverything(user: UInt32?) throws {
        let setting = try Setting(["--memory-limit", "16M"]) { request in
            let number = request.numberInPath
            return number < 1000 ? .ok(Self.large(number)) : png(tile(number))
        }
        func client() throws -> RawClient { try user.map { try setting.client(as: $0) } ?? setting.client() }
        let greedy = try client()
        var errors: [ErrorCode] = []
        for number in 0..<24 {
            if let error = try greedy.answer(to: try greedy.get(setting.url("/\(number)"))).error {
                errors.append(error.code)
            }
        }
        #expect((4...18).contains(errors.count))
        #expect(errors.allSatisfy { $0 == .quotaExceeded })
        #expect(try setting.broker.stats()[.evictedLeasedBytes] < 64 << 20)
        for number in 0..<24 { try greedy.get(setting.url("/\(number)"), #""delivery":"inline""#) }
        // Its own decodings would evict the images that others have released.
        try setting.broker.wait(for: "its requests are processed") {
            $0[.requests] == 48 && $0[.running] == 0 && $0[.queued] == 0
        }
        for other in [try client(), try setting.client()] {
            for number in [1000, 1001, 30] {
                let incoming = try other.load(setting.url("/\(number)"))
                if number >= 1000 { #expect(try other.picture(incoming) == tile(number)) }
                try other.release([try #require(try incoming.image().buffer)])
                #expect(try other.load(setting.url("/\(number)"), #""delivery":"none""#).image().source == .memory)
            }
            other.close()
        }
        greedy.close()
        try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 && $0[.evictedLeasedBytes] == 0 }
    }

    @Test(.enabled("other users can be had") { isRoot }) func incompleteUploadsAndFrames() throws {
        let setting = try Setting { _ in .status(404) }
        try setting.idleWorkers()
        let warm = try setting.broker.settledDescriptors()
        // The broker has a buffer for each accepted upload, although none of the bytes has arrived.
        func accepted() -> Int { setting.broker.status.openFiles.count { $0.contains("memfd:imgbroker-store") } }
        var (crowd, refused): ([RawClient], Int) = ([], 0)
        for number in 0..<20 {
            let client = try setting.client(as: 20_011)
            try client.send(RawClient.storeText(1, setting.url("/\(number)"), #""payload":\#(10 << 20)"#))
            crowd.append(client)
            try setting.broker.wait(for: "upload \(number) is accepted or refused") {
                refused = $0.failures[.quotaExceeded] ?? 0
                return refused + accepted() == number + 1
            }
        }
        #expect((5...15).contains(refused))
        var codes: [ErrorCode] = []
        try eventually("each refusal is received") {
            for client in crowd { if let error = try client.nextIfThere()?.error { codes.append(error.code) } }
            return codes.count >= refused
        }
        #expect(codes == Array(repeating: .quotaExceeded, count: refused))
        for _ in 0..<40 {
            let client = try setting.client(as: 20_011)
            try? client.sendWhatIsTaken([0, 16, 0, 0] + [UInt8](repeating: 0x20, count: 300_000))
            crowd.append(client)
        }
        let other = try setting.client(as: 20_012)
        #expect(try other.store(setting.url("/good"), tile(7).png).error == nil)
        #expect(try other.picture(of: setting.url("/good")) == tile(7))
        other.close()
        crowd = []
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 1 }
        let admin = try setting.client()
        _ = try admin.ask("clear", #""tier":"all""#)
        admin.close()
        try setting.idle()
        try setting.broker.waitForSettledDescriptors(warm)
    }

    /// To release buffers that were never received does not release answers that are still unsent: the broker reads no
    /// more from a client that does not receive.
    @Test func releasingUnreceivedBuffers() throws {
        let setting = try Setting { png(tile($0.numberInPath)) }
        let observer = try setting.client()
        for number in 0..<400 { _ = try observer.load(setting.url("/\(number)"), #""delivery":"none""#) }
        let before = try observer.stats()[.requests]
        let deaf = try setting.client()
        for _ in 0..<5 {
            // Buffer numbers are easy to guess.
            for number in 0..<400 {
                try deaf.sendWhatIsTaken(RawClient.frame(RawClient.getText(deaf.newID(), setting.url("/\(number)"))))
            }
            try deaf.sendWhatIsTaken(RawClient.frame(#"{"type":"release","buffers":\#(Array(1...900))}"#))
        }
        let requests = try observer.stats()[.requests]
        #expect(requests < 400 + 400)
        var came = 0
        try eventually("all requests are answered") {
            while try deaf.nextIfThere() != nil { came += 1 }
            return try observer.stats()[.requests] == before + came
        }
        #expect(came > 64)
        #expect(try observer.load(setting.url("/1")).image().source == .memory)
    }

    /// The same over many connections: descriptors that wait to be sent count for their user, also when their leases
    /// were released.
    @Test func releasingUnreceivedBuffersOfManyClients() throws {
        let setting = try Setting(descriptorLimit: 256, routes: ["/a": png(tile(1))])
        let (other, url) = (try setting.client(), setting.url("/a"))
        let buffer = try #require(try other.load(url).image().buffer)
        try other.release([buffer])
        let get = RawClient.frame(RawClient.getText(1, url))
        let pair = get + RawClient.frame(#"{"type":"release","buffers":[\#(buffer)]}"#)
        let deaf = try (0..<20).map { _ in try setting.client() }
        for client in deaf { try client.send((0..<60).flatMap { _ in pair }) }
        // Each reply comes after the turns of the others.
        for _ in 0..<100 { #expect(try other.loaded(url, releasing: true).picture == tile(1)) }
        #expect(setting.broker.status.openFiles.count { $0.contains("memfd:imgbroker-shared") } <= 40)
        withExtendedLifetime(deaf) {}
    }

    /// A client that leaves without receiving its descriptors still counts among its user's connections, so that
    /// reconnecting does not use up the places of other users.
    @Test(.enabled("other users can be had") { isRoot }) func reconnectingWithoutReceiving() throws {
        let setting = try Setting(descriptorLimit: 256, routes: ["/a": png(tile(1))])
        let first = try setting.client()
        _ = try first.load(setting.url("/a"), #""delivery":"none""#)
        first.close()
        try setting.broker.wait(for: "the client has disconnected") { $0[.clients] == 1 }
        /// A new connection; nil when it is refused.
        func comer() throws -> RawClient? {
            let client = try setting.client(as: 20_011)
            try? client.send(#"{"type":"hello","id":1000,"protocol":1}"#)
            guard let error = try client.next().error else { return client }
            #expect(error.code == .quotaExceeded)
            _ = try client.receiveUntilEnd()
            return nil
        }
        func othersAreServed() throws {
            for user: UInt32 in [20_012, 20_013, 0] {
                let other = user == 0 ? try setting.client() : try setting.client(as: user)
                #expect(try other.picture(of: setting.url("/a")) == tile(1))
            }
        }
        var crowd = try (0..<100).compactMap { _ in try comer() }
        #expect((21..<60).contains(crowd.count))
        try othersAreServed()
        // Whoever closes a connection may open another one.
        crowd = []
        try setting.broker.wait(for: "the crowd has disconnected") { $0[.clients] == 1 }
        crowd = try (0..<100).compactMap { _ in try comer() }
        #expect((21..<60).contains(crowd.count))
        try setting.broker.wait(for: "the others have disconnected") { $0[.clients] == 1 + crowd.count }
        for client in crowd { try client.get(setting.url("/a")) }
        try setting.broker.wait(for: "all requests are received") { $0[.requests] == 4 + crowd.count }
        // Their descriptors stay unreceived; the broker considers them gone.
        for client in crowd { client.shutDownSending() }
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 1 }
        var again = try (0..<20).compactMap { _ in try comer() }
        #expect(again.isEmpty)
        try othersAreServed()
        crowd = []
        again = []
        var late: RawClient?
        try eventually("the user can connect again") {
            late = try comer()
            return late != nil
        }
        #expect(try late?.picture(try #require(late).load(setting.url("/a"))) == tile(1))
    }

    @Test func brokerWithoutDescriptors() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        _ = try client.load(setting.url("/a"))
        try setting.idle()
        _ = try setting.broker.settledDescriptors()
        let given = try memoryFile(tile(2).png)
        let limit = try setting.broker.limitDescriptors(setting.broker.status.lowestFreeDescriptor)
        for _ in 0..<5 {
            let error = try client.store(setting.url("/b"), given).error
            #expect((error?.code, error?.isRetryable) == (.overloaded, true))
            #expect(try client.picture(of: setting.url("/a")) == tile(1))
        }
        // A lost descriptor is not replaced by that of the next message.
        let (first, second) = (client.newID(), client.newID())
        try client.send(RawClient.storeText(first, setting.url("/c"), #""fds":1"#), with: given)
        #expect(try client.answer(to: first).error?.code == .overloaded)
        _ = try setting.broker.limitDescriptors(limit)
        try client.send(RawClient.storeText(second, setting.url("/b"), #""fds":1"#), with: given)
        #expect(try client.answer(to: second).error == nil)
        #expect(try client.picture(of: setting.url("/b")) == tile(2))
        #expect(try client.failure(setting.url("/c"), #""cache":"only-if-cached""#).code == .notCached)
    }

    /// The client library reports a lost descriptor, and the connection stays usable.
    @Test func clientWithoutDescriptors() async throws {
        await #expect(processExitsWith: .success) {
            let setting = try Setting(["--segments", "off"], routes: ["/a": png(tile(1)), "/b": png(tile(2))])
            let broker = try ImageBroker(path: setting.broker.socketPath)
            _ = try broker.hello()
            let url = setting.url("/a")
            let spare = try WritableBuffer(name: "test").descriptor
            _ = try RawClient(setting.broker.socketPath).load(url, #""delivery":"none""#)
            for round in 0..<3 {
                var taken = takeAllDescriptors(asCopiesOf: spare)
                // Both answers have the same buffer, and neither has its descriptor.
                let ids = try (0..<2).map { _ in try broker.send(get: SourceURL(url)) }
                for _ in ids {
                    do {
                        _ = try broker.receive()
                        exit(Int32(10 + round))
                    } catch ClientError.descriptorLost {}
                }
                _ = try broker.stats()
                taken.removeAll()
                do {
                    let image = try broker.get(url)
                    let color = image.withBytes { unsafe $0.unsafeLoad(fromByteOffset: 0, as: UInt8.self) }
                    guard color == 1 else { exit(2) }
                }
                try broker.returnLeases()
                _ = try broker.stats()
            }
            _ = try broker.get(setting.url("/b"))
        }
    }

    /// Over many images a client always maps the requested one, and neither its mappings nor the broker's descriptors
    /// grow. In a process of its own, because other tests map images, too.
    @Test func mappingsStayCorrect() async throws {
        await #expect(processExitsWith: .success) {
            let setting = try Setting(["--memory-limit", "256K"]) { _ in
                png(TestPicture.gradient(width: 40, height: 40))
            }
            let broker = try ImageBroker(path: setting.broker.socketPath)
            var window: [(size: Int, image: BrokerImage)] = []
            var random = SplitMix64(state: 1)
            func mappings() -> Int {
                text(ofFile: "/proc/self/maps").split(separator: "\n").count { $0.contains("imgbroker-pixels") }
            }
            func run(_ rounds: Int) throws {
                for _ in 0..<rounds {
                    // The stride identifies the image; the first row shows its content.
                    let size = Int.random(in: 1...199, using: &random)
                    let height = Int.random(in: 1...20, using: &random)
                    let options = GetOptions { options in
                        (options.variant.width, options.variant.height, options.variant.fit) = (size, height, .fill)
                    }
                    window.append((size, try broker.get(setting.url("/a"), options)))
                    if window.count > 20 { window.remove(at: Int.random(in: 0..<window.count, using: &random)) }
                    let (known, held) = window.randomElement(using: &random)!
                    let isRight = held.withBytes { bytes in
                        guard bytes.byteCount == known * held.reply.height * 4 else { return false }
                        // Red grows from left to right.
                        let last = unsafe bytes.unsafeLoad(fromByteOffset: known * 4 - 4, as: UInt8.self)
                        let middle = unsafe bytes.unsafeLoad(fromByteOffset: known / 2 * 4, as: UInt8.self)
                        return known < 3 || last > middle
                    }
                    if held.reply.width != known || !isRight { throw TestFailure("another picture") }
                }
                if mappings() > 21 { throw TestFailure("\(mappings()) mappings") }
            }
            try run(100)
            // The number of cached images varies with the time each took, and each has a descriptor.
            func otherDescriptors() throws -> Int {
                try setting.broker.status.descriptors - setting.broker.stats()[.memoryEntries]
            }
            let others = try otherDescriptors()
            try run(600)
            // Any number of the window's images may be evicted, and keep their descriptors.
            if try otherDescriptors() > others + 20 { throw TestFailure("descriptors are left") }
            window = []
            try broker.returnLeases()
            try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 }
            if mappings() != 0 { throw TestFailure("mappings are left") }
        }
    }
}

/// The time in which a client is served while others hold descriptors in flight.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct GreedyClientTimingTests {
    /// The kernel limits the descriptors in flight to all receivers together: a client that does not receive gets no
    /// more of them, connected or not.
    @Test(.enabled("only others are bound by it") { geteuid() == 0 }) func unreceivedDescriptors() throws {
        let setting = try Setting(["--user", "daemon"], descriptorLimit: 256) {
            png(tile($0.numberInPath))
        }
        let (client, undisturbed) = (try setting.client(), try UndisturbedBroker())
        for number in 0..<20 { _ = try client.load(setting.url("/\(number)"), #""delivery":"none""#) }
        try setting.idle()
        let deaf = try (0..<30).map { _ in try setting.client() }
        var held: [RawClient] = []
        for each in deaf { for number in 0..<20 { try each.get(setting.url("/\(number)")) } }
        // These do not receive either, and shut down their sending side: the broker considers them gone.
        for _ in 0..<20 {
            let leaving = try setting.client()
            for number in 0..<20 { try leaving.get(setting.url("/\(number)")) }
            leaving.shutDownSending()
            held.append(leaving)
        }
        let slowest = try (0..<40).map { number in
            try undisturbed.loadFromOrigin()
            return try milliseconds {
                let picture = try client.loaded(setting.url("/\(number)"), releasing: true).picture
                #expect(picture == tile(number))
            }
        }.max()
        #expect(try #require(slowest) < 5000 + 10 * undisturbed.slowest)
        #expect(try client.picture(of: setting.url("/100")) == tile(100))
        #expect(try setting.broker.stats()[.workerRestarts] == 0)
        for each in deaf.prefix(5) {
            for id in 1...20 { #expect(try each.picture(answering: id) == tile(id - 1)) }
        }
    }
}

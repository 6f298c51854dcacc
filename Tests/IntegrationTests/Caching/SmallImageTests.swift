/// Small images that are in no cache, many at a time.
@Suite(.blocking, .timeLimit(.minutes(10))) struct SmallImageTests {
    private static let release = BuiltProducts.package + "/.build/release"
    private static let pending = 64

    private static func makeOrigin() throws -> TestOrigin {
        try TestOrigin { request in
            guard let number = Int(request.path.dropFirst()) else { return .status(404) }
            return png(tile(number, side: 48))
        }
    }

    /// Loads the images with these numbers, `pending` at a time, each with its answer.
    private func load(
        _ numbers: Range<Int>, from origin: TestOrigin, _ client: RawClient,
        _ take: (Int, RawClient.Incoming) throws -> Void
    ) throws {
        var asked: [Int: Int] = [:]
        var next = numbers.lowerBound
        while next < numbers.upperBound || !asked.isEmpty {
            while next < numbers.upperBound, asked.count < Self.pending {
                asked[try client.get(origin.url("/\(next)"))] = next
                next += 1
            }
            let incoming = try client.next()
            guard incoming.reply.isTerminal, let id = incoming.reply.id, let number = asked.removeValue(forKey: id)
            else { continue }
            try take(number, incoming)
        }
    }

    @Test func killedWorkersLoseNone() throws {
        let origin = try Self.makeOrigin()
        let (broker, client) = try TestBroker().withClient()
        try broker.waitUntilIdle(workers: 2)
        var (killed, loaded) = (0, 0)
        var nextKill = Instant.now.adding(milliseconds: 100)
        var random = SplitMix64(state: 3)
        let end = Deadline(seconds: 4 * patience)
        while killed < 10 || loaded < 1000 {
            #expect(!end.isPast, "\(loaded) images and \(killed) kills")
            if end.isPast { break }
            try load(loaded..<loaded + 200, from: origin, client) { number, incoming in
                #expect(try client.picture(incoming) == tile(number, side: 48))
                if let buffer = try incoming.image().buffer { try client.release([buffer]) }
                loaded += 1
                if Instant.now < nextKill { return }
                nextKill = Instant.now.adding(milliseconds: 100)
                let workers = broker.workers(.fetch) + broker.workers(.decode)
                guard let worker = workers.randomElement(using: &random) else { return }
                broker.signal(worker, SIGKILL)
                killed += 1
            }
        }
        #expect(try broker.waitUntilIdle()[.failed, .reservedBytes] == [0, 0])
        client.close()
        try broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 }
    }

    /// The broker's heap allocations for a load (136; 145 before bodies came in frames), in the release build; a debug
    /// build allocates far more.
    @Test(.enabled("there is a release build") { FileManager.default.isExecutableFile(atPath: release + "/imgbroker") })
    func allocationsOfALoad() throws {
        let counter = try AllocationCounter()
        let origin = try Self.makeOrigin()
        let broker = try TestBroker(
            ["--disk-limit", "0"], environment: counter.environment, folder: Self.release, in: counter.directory)
        let client = try RawClient(broker.socketPath)
        try broker.waitUntilIdle(workers: 2)
        func load(_ numbers: Range<Int>) throws {
            try self.load(numbers, from: origin, client) { _, incoming in
                #expect(incoming.error == nil)
                if let buffer = try incoming.image().buffer { try client.release([buffer]) }
            }
        }
        // The first loads let the tables grow.
        try load(0..<1000)
        let before = try counter.count()
        try load(1000..<3000)
        let allocations = Double(try counter.count() - before) / 2000
        #expect(allocations < 142, "\(allocations)")
    }

    /// Of a hit, in the release build, too.
    @Test(.enabled("there is a release build") { FileManager.default.isExecutableFile(atPath: release + "/imgbroker") })
    func allocationsOfAHit() throws {
        let counter = try AllocationCounter()
        let origin = try TestOrigin(routes: ["/picture-with-a-name-of-some-length.png": png(tile(1))])
        let broker = try TestBroker(environment: counter.environment, folder: Self.release, in: counter.directory)
        let client = try RawClient(broker.socketPath)
        try client.mapSegments()
        let url = origin.url("/picture-with-a-name-of-some-length.png")
        let buffer = try #require(try client.load(url).image().buffer)
        try broker.waitUntilIdle(workers: 2)

        func allocations(_ hit: () throws -> Void) throws -> Double {
            // The first hits let the tables grow.
            for _ in 0..<100 { try hit() }
            let before = try counter.count()
            for _ in 0..<1000 { try hit() }
            return Double(try counter.count() - before) / 1000
        }
        // With a lease held: one allocation, for the URL.
        let held = try allocations { _ = try client.load(url) }
        #expect(held < 1.5)
        #expect(try client.load(url).image().descriptors == 0)
        for _ in 0..<1101 { try client.release([buffer]) }
        // With the lease released each time: also the list of released numbers.
        try client.release([buffer])
        let renewed = try allocations {
            _ = try client.load(url)
            try client.release([buffer])
        }
        #expect(renewed < 2.5)
        #expect(try client.load(url).image().descriptors == 0)
    }
}

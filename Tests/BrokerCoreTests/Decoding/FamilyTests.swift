import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Images of families that have workers of their own.
struct FamilyTests {
    private static let heif = 7, avif = 8

    private static func world(_ families: Set<CodecFamily> = [.avif, .heif], workers: Int = 2) -> StrictWorld {
        var limits = BrokerLimits()
        (limits.families, limits.workers) = (families, workers)
        // Without decodings that go along with the digest.
        limits.earlyBodyBytes = 0
        let world = StrictWorld(limits)
        world.foreign = [heif: .heif, avif: .avif]
        world.readyAll()
        return world
    }

    private func load(_ path: String, _ content: Int, _ world: StrictWorld, _ client: ClientID, _ id: Int) throws {
        world.get(client, id: id, path)
        world.finishFetch(try #require(world.fetches.keys.max()), content: content)
    }

    private func loaders(_ world: StrictWorld) -> [WorkerID] {
        world.workers.filter { $0.value.kind.family ?? .plain != .plain }.keys.sorted()
    }

    /// A family has no process until it is needed, and keeps it after its first image for a minute.
    @Test func workersAreStartedOnDemand() throws {
        let (world, client) = Self.world().connected()
        #expect(loaders(world).isEmpty)
        try load("a", Self.heif, world, client, 1)
        let loader = try #require(loaders(world).first)
        #expect(loaders(world).count == 1 && world.workers[loader]?.kind == .loader(.heif))
        // No worker of the plain family is given the job.
        #expect(world.decodes.isEmpty)
        world.readyAll()
        let job = try #require(world.decodes.keys.first)
        #expect(world.decodes[job]?.worker == loader)
        world.decode(job)
        #expect(world.image(client, 1) != nil)
        // The next one finds it warm.
        world.happen(.timePassed, after: 50_000)
        try load("b?", 9, world, client, 2)
        try world.decode()
        world.get(client, id: 3, "a") { $0.variant.width = 5 }
        try world.decode()
        #expect(loaders(world) == [loader])
        world.happen(.timePassed, after: 50_000)
        #expect(world.workers[loader]?.state == .ready)
        world.happen(.timePassed, after: 10_001)
        #expect(world.workers[loader]?.state == .dying)
        world.endWorker(loader, .ended(.status(0)))
        #expect(loaders(world).isEmpty)
    }

    /// A worker of the plain family that gets another family's image hands it over, once.
    @Test func handedOverByAWorker() throws {
        let world = Self.world()
        world.tellsFormats = false
        let client = world.connect()
        try load("a", Self.heif, world, client, 1)
        let job = try #require(world.decodes.keys.first)
        let plain = try #require(world.decodes[job]?.worker)
        world.readHeader(job)
        #expect(world.decodes.isEmpty && world.workers[plain]?.state == .ready)
        world.readyAll()
        #expect(world.decodes[job]?.worker == loaders(world).first)
        // From now on it is known.
        world.decode(job)
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        let next = try #require(world.decodes.keys.first)
        #expect(world.decodes[next]?.worker == loaders(world).first)
        // A loader cannot hand over.
        world.happen(.decodeForeign(try #require(loaders(world).first), next, .avif))
        #expect(world.workers[try #require(loaders(world).first)]?.state == .dying)
    }

    @Test func handedOverWithoutWaiters() throws {
        let world = Self.world()
        world.tellsFormats = false
        let client = world.connect()
        try load("a", Self.heif, world, client, 1)
        world.disconnect(client)
        world.readHeader(try #require(world.decodes.keys.first))
        #expect(loaders(world).isEmpty && world.state.decoding.count == 0)
    }

    /// A worker cannot claim that an image of its own family is another's, nor a header of another family.
    @Test(arguments: [true, false]) func falseFormat(isHeader: Bool) throws {
        let (world, client) = Self.world().connected()
        try load("a", 1, world, client, 1)
        let job = try #require(world.decodes.keys.first)
        let worker = try #require(world.decodes[job]?.worker)
        if isHeader {
            let geometry = try #require(PixelGeometry(width: 3, height: 3))
            let plan = DecodePlan(
                header: ImageHeader(format: .heif, geometry: geometry), result: geometry, workingBytes: 0)
            world.happen(.headerRead(worker, job, plan))
        } else {
            world.happen(.decodeForeign(worker, job, .png))
        }
        #expect(world.workers[worker]?.state == .dying)
    }

    /// The message names the program and its package.
    @Test func missingFamily() throws {
        let (world, client) = Self.world([.avif]).connected()
        try load("a", Self.heif, world, client, 1)
        guard case .error(_, let error)? = world.answer(client, 1) else { throw WireError(.internal, "no error") }
        #expect(error.code == .unsupportedFormat)
        #expect(error.message.contains("imgbroker-loader-heif") && error.message.contains("imgworker-heif"))
        #expect(loaders(world).isEmpty)
        #expect(!world.state.hello.formats.contains("heif") && world.state.hello.formats.contains("avif"))
    }

    /// After a reload, an installed family is used at once, and a removed one's workers exit.
    @Test func reload() throws {
        let (world, client) = Self.world([.avif]).connected(isAdmin: true)
        try load("a", Self.avif, world, client, 1)
        world.readyAll()
        try world.decode()
        try load("b", Self.heif, world, client, 2)
        #expect(world.error(client, 2) == .unsupportedFormat)
        world.newLimits = world.state.limits
        world.newLimits?.families = [.heif]
        world.happen(.messageReceived(client, .reload(id: 3)))
        #expect(loaders(world).allSatisfy { world.workers[$0]?.state == .dying })
        // A reload replaces the download workers.
        world.readyAll()
        try load("b", Self.heif, world, client, 4)
        world.readyAll()
        try world.decode()
        #expect(world.image(client, 4) != nil)
    }

    /// The family shares the places that the plain one leaves free, and has one in any case.
    @Test func placesOfWorkers() throws {
        let (world, client) = Self.world(workers: 4).connected()
        for id in 1...3 { try load("\(id)", id, world, client, id) }
        #expect(world.decodes.count == 3)
        for id in 4...6 {
            world.foreign[100 + id] = .heif
            try load("\(id)", 100 + id, world, client, id)
        }
        world.readyAll()
        #expect(world.decodes.count == 4)
        // JPEGs take their places as if there were no other family.
        try load("7", 11, world, client, 7)
        #expect(world.decodes.count == 5)
        for job in world.decodes.keys.sorted().prefix(3) { world.decode(job) }
        #expect(loaders(world).count == 2 && world.decodes.count == 3)
    }

    /// A family whose workers keep dying is refused, and neither the others nor their origins are affected.
    @Test func brokenFamily() throws {
        let (world, client) = Self.world().connected()
        var id = 0
        var last: ErrorCode?
        while id < 20, last != .decoderUnavailable {
            id += 1
            world.foreign[100 + id] = .heif
            try load("\(id)", 100 + id, world, client, id)
            for _ in 0..<2 {
                // Successors are started later and later.
                for _ in 0..<50 where world.decodes.isEmpty && world.answers[client]?[id] == nil {
                    world.readyAll(after: 1000)
                }
                guard let (_, decode) = world.decodes.first else { break }
                world.endWorker(decode.worker, .ended(.signal(11)))
            }
            if world.answers[client]?[id] != nil { last = world.error(client, id) }
        }
        #expect(last == .decoderUnavailable)
        // The same origin's images of other formats are decoded.
        for content in [1, Self.avif] {
            id += 1
            try load("\(id)", content, world, client, id)
            world.readyAll()
            try world.decode()
            #expect(world.image(client, id) != nil)
        }
        #expect(world.state.supervision.ready(.decode) == 2)
    }

    /// After a crash, one worker more than the jobs need is kept for a minute: the next user's image finds it warm.
    @Test func aSpareAfterACrash() throws {
        let world = Self.world()
        let (client, other) = (world.connect(), world.connect(uid: 2000))
        try load("a", Self.heif, world, client, 1)
        world.readyAll()
        for _ in 0..<2 {
            world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(6)))
            // The second one starts later than the one that the job waits for.
            for _ in 0..<2 {
                world.readyAll()
                world.happen(.timePassed, after: 10)
            }
            #expect(loaders(world).count == (world.decodes.isEmpty ? 1 : 2))
        }
        #expect(world.error(client, 1) == .decoderCrashed)
        world.foreign[9] = .heif
        try load("b", 9, world, other, 2)
        try world.decode()
        #expect(world.image(other, 2) != nil)
        world.readyAll(after: 60_001)
        world.happen(.timePassed, after: 60_001)
        #expect(loaders(world).allSatisfy { world.workers[$0]?.state == .dying })
    }

    /// A worker that is lost while it has no job is not replaced.
    @Test func idleWorkerIsNotReplaced() throws {
        let (world, client) = Self.world().connected()
        try load("a", Self.heif, world, client, 1)
        world.readyAll()
        try world.decode()
        world.endWorker(try #require(loaders(world).first), .ended(.signal(9)))
        world.happen(.timePassed, after: 10_000)
        #expect(loaders(world).isEmpty)
    }
}

import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Random histories of a few images that are requested repeatedly, by clients with the validity page: after every event
/// each valid slot names the buffer that a `get` would return (see `StrictWorld.checkPage`).
struct RandomPageTests {
    @Test(arguments: 1...20)
    func theWordsAreTrue(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.memoryBytes = Int.random(in: 3_000...30_000, using: &random)
        limits.memoryEntries = Int.random(in: 4...30, using: &random)
        limits.validitySlots = Int.random(in: 2...10, using: &random)
        limits.usesDisk = seed % 2 == 0
        let world = StrictWorld(limits)
        var clients = (0..<4).map { number in
            let client = world.connect(uid: UInt32(1 + number % 2), isAdmin: number == 3)
            if number < 3 { world.greet(client) }
            return client
        }
        world.readyAll()
        for id in 0..<1500 {
            step(world, &random, &clients, id)
            work(world, &random)
        }
        #expect(world.namings > 20)
        #expect(world.words.values.contains { $0.generation > 1 })
        world.happen(.shutdownRequested)
        #expect(world.words.values.allSatisfy { $0.expiry == 0 })
    }

    private func step(
        _ world: StrictWorld, _ random: inout SplitMix64, _ clients: inout [ClientID], _ id: Int
    ) {
        let place = Int.random(in: 0..<4, using: &random)
        let client = clients[place]
        let path = "\(Int.random(in: 0..<4, using: &random))"
        guard let url = try? SourceURL("http://origin.test/\(path)") else { return }
        switch Int.random(in: 0..<40, using: &random) {
        case 0..<6:
            let identity = StrictWorld.identity(
                .random(in: 0..<3, using: &random), changed: .random(in: 0..<2, using: &random))
            let isRecent = random.isOne(of: 6)
            let isLocal = Int.random(in: 0..<4, using: &random) > 0
            world.getFile(client, id: id, identity, isRecent: isRecent, isLocal: isLocal) { options in
                let modes: [GetOptions.CacheMode] = [.default, .reload, .noStore, .onlyIfCached]
                options.cache = modes[[0, 0, 0, 0, 0, 1, 2, 3].randomElement(using: &random)!]
                if random.isOne(of: 6) { options.representation = .original }
            }
        case 6..<24:
            world.get(client, id: id, path) { options in
                let modes: [GetOptions.CacheMode] = [.default, .forceCache, .noCache, .reload]
                options.cache = modes[[0, 0, 0, 0, 0, 0, 1, 2, 3].randomElement(using: &random)!]
                if random.isOne(of: 6) { options.representation = .original }
                if random.isOne(of: 8) { options.cookies = true }
            }
        case 24..<27:
            guard let buffer = world.descriptors[client]?.sorted().randomElement(using: &random) else { return }
            world.release(buffer, of: client)
        case 27..<29:
            world.happen(.messageReceived(client, .touch(buffers: Array(world.descriptors[client] ?? []), hits: 2)))
        case 29: world.happen(.messageReceived(client, .remove(id: id, url: url)))
        case 30..<32: world.happen(.storeReceived(client, StoreRequest(id: id, url: url, payload: 0), bytes: 500))
        case 32: world.happen(.messageReceived(clients[3], .clear(id: id, tier: .memory, olderThanSeconds: nil)))
        case 33:
            world.disconnect(client)
            clients[place] = world.connect(uid: UInt32(1 + place % 2), isAdmin: place == 3)
            if place < 3 { world.greet(clients[place]) }
        case 34:
            let report = DiskReport(state: .on, mayHaveOwned: Bool.random(using: &random))
            guard world.state.limits.usesDisk else { return }
            world.happen(.diskReported(report))
            world.happen(.originalsKnown(hashes: [], isComplete: Bool.random(using: &random)))
        default: world.happen(.timePassed, after: .random(in: 0...1500, using: &random))
        }
    }

    /// Finishes a random part of the work in flight.
    private func work(_ world: StrictWorld, _ random: inout SplitMix64) {
        world.readyAll()
        for job in world.diskJobs.keys.sorted() where Int.random(in: 0..<4, using: &random) > 0 {
            world.answerDiskJob(job, content: [nil, nil, 1, 2].randomElement(using: &random)!)
        }
        for job in world.reading.keys.sorted() where Int.random(in: 0..<4, using: &random) > 0 {
            world.finishRead(job, content: Bool.random(using: &random) ? .random(in: 1...4, using: &random) : nil)
        }
        for job in world.identifying.keys.sorted() { world.identify(job, content: .random(in: 1...4, using: &random)) }
        for job in world.fetches.keys.sorted() where Int.random(in: 0..<4, using: &random) > 0 {
            if world.fetches[job]?.order.conditions != nil, Bool.random(using: &random) {
                world.confirm(job) { $0.cacheControl = "max-age=3" }
                continue
            }
            let ages = ["max-age=3", "max-age=1000", "max-age=1, stale-while-revalidate=5", "private, max-age=1000"]
            let control = ages.randomElement(using: &random)
            world.finishFetch(job, content: Bool.random(using: &random) ? .random(in: 1...4, using: &random) : nil) {
                $0.cacheControl = control
                $0.etag = "\"tag\""
            }
        }
        for job in world.decodes.keys.sorted() where world.decodes[job]?.plan == nil { world.readHeader(job) }
        for job in world.decodes.keys.sorted() where world.decodes[job]?.hasOutput == true { world.finishDecode(job) }
    }
}

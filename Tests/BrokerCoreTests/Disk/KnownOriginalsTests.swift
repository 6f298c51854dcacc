import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// A miss of the disk tier that is certain needs no lookup.
struct KnownOriginalsTests {
    private func world() -> StrictWorld {
        let world = StrictWorld.ready { ($0.workers, $0.usesDisk) = (1, true) }
        world.happen(.diskReported(DiskReport(state: .on)))
        return world
    }

    private func key(_ path: String, uid: UInt32 = 1000) throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL("http://h/\(path)")), uid: uid)
    }

    private func hash(_ key: OriginalKey) throws -> UInt64 { try #require(KeyHash.hash(key.word)) }

    private func finds(_ world: StrictWorld) -> [JobID] {
        world.diskJobs.filter { if case .find = $0.value.kind { true } else { false } }.keys.sorted()
    }

    @Test func `nothing is certain before the last report, and after it is withdrawn`() throws {
        let (one, other) = (try key("a"), try key("b"))
        var known = KnownOriginals()
        known.report([try hash(one)], isComplete: false)
        #expect(known.mayContain(one) && known.mayContain(other))
        known.report([], isComplete: true)
        #expect(known.mayContain(one) && !known.mayContain(other))
        known.report([], isComplete: false)
        #expect(known.mayContain(other))
        known.report([], isComplete: true)
        #expect(known.mayContain(one) && !known.mayContain(other))
        known.insert(other)
        #expect(known.mayContain(other))
    }

    @Test func `nothing is certain of more originals than are held`() throws {
        let keys = try (0...10).map { try key("\($0)") }
        var known = KnownOriginals(maximum: 10)
        known.report(try keys.prefix(10).map(hash), isComplete: true)
        known.insert(keys[0])
        #expect(known.isComplete && known.count == 10 && !known.mayContain(keys[10]))
        known.insert(keys[10])
        #expect(try !known.isComplete && known.count == 0 && known.mayContain(key("x")))
        known.report([], isComplete: true)
        #expect(try known.mayContain(key("x")))
    }

    @Test func `a certain miss is downloaded at once`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a")
        // It may be on disk as long as the cache process has not said.
        #expect(finds(world).count == 1 && world.fetches.isEmpty)
        world.answerDiskJob(try #require(finds(world).first), content: nil)
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        world.get(client, id: 2, "b")
        #expect(finds(world).isEmpty && world.fetches.count == 2)
    }

    @Test func `what the disk tier has is looked for`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a")
        let lookup = try #require(finds(world).first)
        let keys = try #require(world.state.disk[lookup]?.keys)
        let second = self.world()
        second.happen(.originalsKnown(hashes: [try hash(try #require(keys.last))], isComplete: true))
        let other = second.connect()
        second.get(other, id: 1, "a")
        #expect(finds(second).count == 1 && second.fetches.isEmpty)
    }

    @Test func `what was given to the disk tier is looked for`() throws {
        let world = world()
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        let client = world.connect(isAdmin: true)
        world.load(client, id: 1, "a", content: 1)
        #expect(world.image(client, 1)?.source == .network)
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        world.clients[client]?.insert(2)
        world.happen(.messageReceived(client, .clear(id: 2, tier: .memory, olderThanSeconds: nil)))
        world.get(client, id: 3, "a")
        #expect(finds(world).count == 1 && world.fetches.isEmpty)
    }

    @Test func `a user's own original is not looked for where none can be`() throws {
        let world = world()
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        let (first, second) = (world.connect(), world.connect(uid: 2000))
        world.get(first, id: 1, "a")
        let lookup = try #require(finds(world).first)
        let shared = try #require(world.state.disk[lookup]?.keys.last)
        world.answerDiskJob(lookup, content: 1)
        try world.decode()
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        world.happen(.originalsKnown(hashes: [try hash(shared)], isComplete: true))
        world.get(second, id: 1, "a")
        #expect(finds(world).isEmpty && world.image(second, 1)?.source == .memory)
    }

    @Test func `the next cache process has not said yet what it has`() throws {
        let world = world()
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        world.endWorker(try #require(world.state.supervision.available(.cache)), .ended(.status(0)))
        world.readyAll()
        world.happen(.diskReported(DiskReport(state: .on)))
        let client = world.connect()
        world.get(client, id: 1, "a")
        #expect(finds(world).count == 1 && world.fetches.isEmpty)
    }
}

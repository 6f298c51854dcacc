import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Residency of an original's bytes in memory, beside the pixels decoded from them.
struct OriginalsTests {
    private func world(usesDisk: Bool, _ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        var limits = BrokerLimits()
        limits.workers = 1
        limits.usesDisk = usesDisk
        change(&limits)
        let world = StrictWorld(limits)
        world.readyAll()
        if usesDisk { world.happen(.diskReported(DiskReport(state: .on))) }
        return world
    }

    /// Loads an image of 400 bytes from an original of 1,000; the disk lookup misses, the store is still pending.
    private func load(
        _ world: StrictWorld, _ client: ClientID, id: Int, _ change: (inout GetOptions) -> Void = { _ in }
    ) throws {
        world.get(client, id: id, "\(id)", change)
        missDisk(world)
        try world.finishFetch(content: id)
        try decode(world)
    }

    private func missDisk(_ world: StrictWorld) {
        for job in world.diskJobs.filter({ if case .find = $0.value.kind { true } else { false } }).keys {
            world.answerDiskJob(job, content: nil)
        }
    }

    private func decode(_ world: StrictWorld) throws {
        let job = try world.readHeader()
        if world.decodes[job] != nil { world.finishDecode(job) }
    }

    private func finishSaving(_ world: StrictWorld, isSaved: Bool = true) {
        for job in world.diskJobs.filter({ if case .save = $0.value.kind { true } else { false } }).keys.sorted() {
            world.answerDiskJob(job, content: isSaved ? 1 : nil)
        }
    }

    // MARK: With a disk tier

    @Test(arguments: [true, false]) func `an original that is on disk and decoded leaves the memory`(isSavedFirst: Bool)
        throws
    {
        let (world, client) = world(usesDisk: true).connected()
        if isSavedFirst {
            world.get(client, id: 1, "1")
            world.answerDiskJob(try #require(world.diskJobs.keys.first), content: nil)
            try world.finishFetch(content: 1)
            finishSaving(world)
            #expect(world.state.memory.residentBytes == 1000)
            try decode(world)
        } else {
            try load(world, client, id: 1)
            #expect(world.state.memory.residentBytes == 1400)
            finishSaving(world)
        }
        #expect(world.state.memory.residentBytes == 400 && world.buffers.count == 1)
        #expect(world.state.memory.evictions == 0)
        // The pixels are still a hit; another size is decoded from the original on disk.
        #expect(world.getImage(client, id: 2, "1")?.source == .memory)
        world.get(client, id: 3, "1") { $0.variant.width = 5 }
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        try decode(world)
        finishSaving(world)
        #expect(world.image(client, 3)?.source == .disk)
        #expect(world.state.memory.residentBytes == 500 && world.state.counters.figures[.downloads] == 1)
    }

    @Test func `an original that the disk tier does not have stays`() throws {
        let (world, client) = world(usesDisk: true).connected()
        try load(world, client, id: 1)
        finishSaving(world, isSaved: false)
        #expect(world.state.memory.residentBytes == 1400)
        try load(world, client, id: 2) { $0.storage = .memory }
        #expect(world.state.memory.residentBytes == 2800)
    }

    @Test func `an original on disk under one of two keys stays until the other is removed`() throws {
        let (world, client) = world(usesDisk: true).connected()
        try load(world, client, id: 1) { $0.storage = .memory }
        world.get(client, id: 2, "2")
        missDisk(world)
        try world.finishFetch(content: 1)
        finishSaving(world)
        #expect(world.state.memory.residentBytes == 1400)
        world.happen(.messageReceived(client, .remove(id: 9, url: try SourceURL("http://origin.test/1"))))
        #expect(world.state.memory.residentBytes == 400)
    }

    @Test func `saving a key's old bytes says nothing about the new ones`() throws {
        let (world, client) = world(usesDisk: true).connected()
        try load(world, client, id: 1)
        try world.download(client, id: 2, "1", content: 2) { $0.cache = .reload }
        try decode(world)
        let saves = world.diskJobs.keys.sorted()
        try #require(saves.count == 2)
        world.answerDiskJob(saves[0], content: 1)
        world.answerDiskJob(saves[1], content: nil)
        #expect(world.state.memory.residentBytes == 1400)
    }

    @Test func `originals beyond the limit are saved later, if still in memory`() throws {
        let (world, client) = world(usesDisk: true) { $0.maxSavingBytes = 1_500 }.connected()
        for id in 1...4 { try load(world, client, id: id) }
        #expect(world.diskJobs.count == 1 && world.state.memory.residentBytes == 4 * 1400)
        world.happen(.messageReceived(client, .remove(id: 9, url: try SourceURL("http://origin.test/2"))))
        for _ in 1...3 { finishSaving(world) }
        #expect(world.state.disk.nextUnsaved == nil && world.state.memory.residentBytes == 3 * 400)
    }

    @Test func `an original too large for the disk tier is not postponed`() throws {
        let world = world(usesDisk: true) { $0.maxSavingBytes = 999 }
        try load(world, world.connect(), id: 1)
        #expect(
            world.diskJobs.isEmpty && world.state.disk.nextUnsaved == nil && world.state.memory.residentBytes == 1400)
    }

    /// For example signed URLs: each is different, and the requester's `cacheKey` identifies the image.
    @Test func `an original with a cacheKey keeps the URL that it was loaded from`() throws {
        let (world, client) = world(usesDisk: true).connected()
        try load(world, client, id: 1) { $0.cacheKey = "name" }
        finishSaving(world)
        #expect(world.state.memory.residentBytes == 400)
        world.get(client, id: 2, "2") { ($0.cacheKey, $0.variant.width) = ("name", 5) }
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        try decode(world)
        #expect(world.image(client, 2)?.width == 5)
        let (first, second) = (try SourceURL("http://origin.test/1"), try SourceURL("http://origin.test/2"))
        #expect(world.state.memory.keys(at: first).count == 1 && world.state.memory.keys(at: second).isEmpty)
    }

    @Test func `an original that was requested as such stays`() throws {
        let (world, client) = world(usesDisk: true).connected()
        for (id, delivery) in [(1, GetOptions.Delivery.fd), (2, .inline), (3, .none)] {
            try load(world, client, id: id) { ($0.representation, $0.delivery) = (.original, delivery) }
        }
        finishSaving(world)
        world.happen(.messageReceived(client, .release(buffers: Array(world.descriptors[client] ?? []))))
        for sent in world.payloads { world.happen(.payloadSent(sent.client, sent.buffer)) }
        #expect(world.state.memory.residentBytes == 3000 && world.state.memory.heldBytes == 0)
    }

    @Test func `a confirmed original is read from disk again for another size`() throws {
        let (world, client) = world(usesDisk: true).connected()
        world.cacheControl = "no-cache"
        world.diskResponse = world.response { $0.etag = "\"v\"" }
        world.get(client, id: 1, "1")
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        // The bytes stay in memory until the origin has answered, to save a second read.
        #expect(world.state.memory.residentBytes == 1000 && world.diskJobs.isEmpty)
        world.confirm(try #require(world.fetches.keys.first))
        try decode(world)
        #expect(world.state.memory.residentBytes == 400)
        world.get(client, id: 2, "1") { $0.variant.width = 5 }
        world.confirm(try #require(world.fetches.keys.first))
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        try decode(world)
        #expect(world.image(client, 2)?.width == 5 && world.state.counters.figures[.downloads] == nil)
    }

    // MARK: Without a disk tier

    @Test func `unheld buffers are evicted before held ones`() throws {
        let (world, client) = world(usesDisk: false) { $0.memoryBytes = 5_000 }.connected()
        // Originals rank above their pixels, because decoding takes no time here.
        for id in 1...10 { try load(world, client, id: id) }
        let index = world.state.memory
        #expect(index.heldBytes == 4_000 && index.evictedBytes == 0)
        #expect(index.residentBytes <= 5_700)
    }

    @Test func `evicted buffers that are held count against the budget`() throws {
        let world = world(usesDisk: false) { ($0.memoryBytes, $0.maxEvictedBytes) = (4_000, 100_000) }
        let holder = world.connect()
        for id in 1...5 { try load(world, holder, id: id) { $0.representation = .original } }
        // All of it is held, so some was evicted; half of the memory is left for other entries.
        #expect(world.state.memory.heldBytes == 5_000 && world.state.memory.evictedBytes == 1_000)
        let other = world.connect(uid: 2)
        for id in 10..<20 {
            try load(world, other, id: id) { $0.delivery = .none }
            let unheld = world.state.memory.residentBytes + world.state.memory.evictedBytes - 5_000
            #expect(unheld <= 2_000)
        }
        #expect(world.getImage(other, id: 20, "19")?.source == .memory)
    }

    @Test func `half of the budget is left to unheld buffers`() throws {
        let world = world(usesDisk: false) { ($0.memoryBytes, $0.maxEvictedBytes) = (4_000, 100_000) }
        let holder = world.connect()
        for id in 1...10 { try load(world, holder, id: id) { $0.representation = .original } }
        // Six originals were evicted and stay held; the others are released.
        let residents = world.state.memory.bufferIDs.filter { world.state.memory.record(of: $0)?.isResident == true }
            .map(\.number)
        world.happen(.messageReceived(holder, .release(buffers: residents)))
        #expect(world.state.memory.evictedBytes == 6_000 && world.state.memory.heldBytes == 6_000)
        let other = world.connect(uid: 2)
        for id in 11..<20 {
            try load(world, other, id: id) { ($0.representation, $0.delivery) = (.original, .none) }
            #expect(world.state.memory.residentBytes == 2_000)
        }
    }

    @Test func `a buffer that was held is evicted in order once it is released`() throws {
        let world = world(usesDisk: false) { $0.memoryBytes = 3_000 }
        let (holder, other) = (world.connect(), world.connect(uid: 2))
        try load(world, holder, id: 1) { $0.representation = .original }
        let number = try #require(world.image(holder, 1)?.buffer)
        let buffer = BufferID(number: number)
        for id in 2...10 { try load(world, other, id: id) { ($0.representation, $0.delivery) = (.original, .none) } }
        #expect(world.state.memory.record(of: buffer)?.isResident == true)
        world.happen(.messageReceived(holder, .release(buffers: [number])))
        for id in 11...20 { try load(world, other, id: id) { ($0.representation, $0.delivery) = (.original, .none) } }
        #expect(world.state.memory.record(of: buffer) == nil)
    }
}

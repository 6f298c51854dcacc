import Digests
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// The disk tier is queried before the origin and stores what is worth saving; requests succeed without it, slower.
struct DiskTierTests {
    private var world: StrictWorld
    private var client: ClientID

    init() { (world, client) = Self.world().connected() }

    private static func world(isReady: Bool = true) -> StrictWorld {
        var limits = BrokerLimits()
        limits.workers = 1
        limits.usesDisk = true
        let world = StrictWorld(limits)
        if isReady {
            world.readyAll()
            world.happen(.diskReported(DiskReport(state: .on)))
        }
        return world
    }

    private func find() throws -> JobID {
        try #require(world.diskJobs.first { if case .find = $0.value.kind { true } else { false } }?.key)
    }

    @Test func `a miss goes on to the origin, and the original is saved`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        #expect(world.fetches.isEmpty)
        world.answerDiskJob(try find(), content: nil)
        try world.finishFetch(content: 1)
        let decode = try world.readHeader()
        // 1 ms of decoding for 100 bytes is worth saving.
        world.clock = world.clock.adding(milliseconds: 1)
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.source == .network && world.diskJobs.count == 2)
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        #expect(world.state.memory.heldBytes == 100)
    }

    @Test mutating func `a memory hit stays one for a user who has own originals on disk`() throws {
        world = Self.world()
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        let (first, second) = (world.connect(), world.connect(uid: 2000))
        world.get(first, id: 1, "a")
        world.answerDiskJob(try find(), content: nil)
        try world.finishFetch(content: 1)
        try world.decode()
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        // The second user may have an own original; memory has the rest.
        world.get(second, id: 1, "a")
        guard case .find(_, let keys)? = world.diskJobs[try find()]?.kind else { return complain("no lookup") }
        #expect(keys.count == 1)
        world.answerDiskJob(try find(), content: nil)
        #expect(world.image(second, 1)?.source == .memory)
        #expect(world.state.report[.memoryHits] == 1 && world.state.report[.diskHits] == 0)
        #expect(world.getImage(second, id: 2, "a")?.source == .memory)
        #expect(world.diskJobs.isEmpty)
    }

    @Test mutating func `what has left the memory during such a lookup is read from disk`() throws {
        world = Self.world()
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        let (first, second) = (world.connect(isAdmin: true), world.connect(uid: 2000))
        world.get(first, id: 1, "a")
        world.answerDiskJob(try find(), content: 1)
        try world.decode()
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        world.get(second, id: 1, "a")
        world.clients[first]?.insert(2)
        world.happen(.messageReceived(first, .clear(id: 2, tier: .memory, olderThanSeconds: nil)))
        world.answerDiskJob(try find(), content: nil)
        world.answerDiskJob(try find(), content: 1)
        #expect(world.decodes.count == 1 && world.fetches.isEmpty)
    }

    @Test func `a reload that brings no image keeps the good one on disk`() throws {
        func saved() -> [BufferID] {
            world.diskJobs.values.compactMap { if case .save(let buffer, .some) = $0.kind { buffer } else { nil } }
        }
        for isGood in [false, true] {
            let id = isGood ? 2 : 1
            try world.download(client, id: id, "a", content: id) { ($0.cache, $0.retryFailed) = (.reload, true) }
            #expect(saved().isEmpty)
            let decode = try world.readHeader()
            if isGood { world.finishDecode(decode) } else { world.failDecode(decode, .truncated) }
            #expect(saved().count == (isGood ? 1 : 0))
            // Nothing is removed from disk.
            #expect(!world.diskJobs.values.contains { $0.kind == .forget })
        }
    }

    @Test func `what is found for a job that looks for nothing is discarded`() throws {
        world.get(client, id: 1, "a")
        world.answerDiskJob(try find(), content: nil)
        try world.finishFetch(content: 1)
        let (job, save) = try #require(world.diskJobs.first)
        guard case .save(_, let record?) = save.kind else { return complain("nothing is saved") }
        world.products.insert(job)
        // The world complains if it stays.
        world.happen(.foundOriginal(save.worker, job, record))
        world.answerDiskJob(job, content: 1)
        #expect(world.state.disk.isIdle)
    }

    @Test mutating func `an original from disk is decoded without a download`() throws {
        world = Self.world()
        let (first, second) = (world.connect(), world.connect())
        world.get(first, id: 1, "a")
        world.get(second, id: 1, "a")
        #expect(world.diskJobs.count == 1)
        world.answerDiskJob(try find(), content: 1)
        try world.decode()
        #expect(world.image(first, 1)?.source == .disk)
        #expect((world.state.report[.diskHits], world.state.report[.coalesced]) == (1, 1))
        #expect(world.state.report[.downloads] == 0 && world.diskJobs.isEmpty)
    }

    /// The source is the disk whether the origin has revalidated the bytes or cannot be reached.
    @Test func `an original from disk is one from disk after a revalidation, too`() throws {
        world.diskResponse = world.response { ($0.etag, $0.cacheControl) = ("\"v\"", "max-age=0, stale-if-error=60") }
        world.get(client, id: 1, "a")
        world.answerDiskJob(try find(), content: 1)
        world.confirm(try #require(world.fetches.keys.first))
        try world.decode()
        #expect(world.image(client, 1)?.source == .disk)
        world.get(client, id: 2, "b")
        world.answerDiskJob(try find(), content: 1)
        world.failFetch(try #require(world.fetches.keys.first), status: 500)
        #expect(world.image(client, 2)?.source == .disk)
        // Later requests find it in memory.
        world.get(client, id: 3, "b")
        world.confirm(try #require(world.fetches.keys.first))
        #expect(world.image(client, 3)?.source == .memory && world.state.report[.diskHits] == 2)
    }

    @Test func `a confirmed original that must not stay in memory is read from disk once more`() throws {
        world.diskResponse = world.response { ($0.etag, $0.cacheControl) = ("\"v\"", "no-cache") }
        for id in 1...2 {
            world.get(client, id: id, "a") { $0.storage = .disk }
            world.answerDiskJob(try find(), content: 1)
            world.confirm(try #require(world.fetches.keys.first))
            // If it has been evicted from disk too, it is downloaded without another lookup.
            world.answerDiskJob(try find(), content: id == 1 ? 1 : nil)
            if id == 2 { try world.finishFetch(content: 2) }
            try world.decode()
            #expect(world.image(client, id)?.source == (id == 1 ? .disk : .network))
            for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        }
    }

    @Test func `an original that may not stay in memory is served stale from disk too`() throws {
        world.diskResponse = world.response { $0.cacheControl = "max-age=0, stale-if-error=60" }
        for id in 1...2 {
            world.get(client, id: id, "a") { $0.storage = .none }
            world.answerDiskJob(try find(), content: 1)
            world.failFetch(try #require(world.fetches.keys.first), status: 500)
            world.answerDiskJob(try find(), content: id == 1 ? 1 : nil)
            if id == 1 {
                try world.decode()
                let image = try #require(world.image(client, 1))
                #expect(image.source == .disk && image.stale)
            } else {
                // Evicted from disk meanwhile: the origin is tried once more, and then the request fails.
                world.failFetch(try #require(world.fetches.keys.first), status: 500)
                #expect(world.error(client, 2) == .httpStatus)
                #expect(world.fetches.isEmpty && world.diskJobs.isEmpty)
            }
        }
    }

    @Test func `a raster from disk is served without decoding`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        world.answerDiskJob(try find(), content: 1, asRaster: true)
        let image = try #require(world.image(client, 1))
        #expect(image.source == .disk && image.width == 5 && image.originalWidth == 10)
        #expect(world.getImage(client, id: 2, "a") { $0.variant.width = 5 }?.source == .memory)
        // The disk tier is notified of hits in memory.
        world.happen(.timePassed, after: 1000)
        #expect(world.lastActions.contains { if case .touch(_, let keys) = $0 { keys.count == 1 } else { false } })
        // Another size needs the original, which is also found on disk.
        world.get(client, id: 3, "a") { $0.variant.width = 3 }
        world.answerDiskJob(try find(), content: 1)
        #expect(world.decodes.count == 1)
    }

    @Test mutating func `what is read from disk again is not decoded again`() throws {
        world = .ready { ($0.workers, $0.usesDisk, $0.memoryBytes) = (1, true, 2000) }
        world.happen(.diskReported(DiskReport(state: .on)))
        client = world.connect()
        for id in 1...80 {
            world.get(client, id: id, "\(id % 40)") { $0.variant.width = 5 }
            world.answerDiskJob(try find(), content: id % 40, asRaster: true)
            let buffer = try #require(world.image(client, id)?.buffer)
            world.happen(.messageReceived(client, .release(buffers: [buffer])))
        }
        #expect(world.state.report[.evictions] > 0)
        #expect((world.state.report[.diskHits], world.state.report[.remadeAfterEviction]) == (80, 0))
    }

    @Test func `a raster on disk is found also when the original is in memory`() throws {
        world.get(client, id: 1, "a") { $0.representation = .original }
        world.answerDiskJob(try find(), content: 1)
        world.readHeader(try #require(world.decodes.keys.first))
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        #expect(
            world.lastActions.contains {
                if case .find(_, _, _, _, let rasterOnly) = $0 { rasterOnly } else { false }
            })
        world.answerDiskJob(try find(), content: 1, asRaster: true)
        #expect(world.image(client, 2)?.source == .disk && world.decodes.isEmpty)
        // If the raster is missing, the original is decoded.
        world.get(client, id: 3, "a") { $0.variant.width = 3 }
        world.answerDiskJob(try find(), content: nil)
        #expect(world.decodes.count == 1 && world.fetches.isEmpty)
    }

    @Test func `only-if-cached includes the disk tier`() throws {
        world.get(client, id: 1, "a") { $0.cache = .onlyIfCached }
        world.answerDiskJob(try find(), content: nil)
        #expect(world.error(client, 1) == .notCached)
        world.get(client, id: 2, "a") { $0.cache = .reload }
        #expect(world.diskJobs.isEmpty && world.fetches.count == 1)
    }

    @Test mutating func `early requests wait for the disk tier to start`() throws {
        (world, client) = Self.world(isReady: false).connected()
        world.get(client, id: 1, "a")
        #expect(world.diskJobs.isEmpty && world.fetches.isEmpty)
        world.readyAll()
        #expect(world.diskJobs.count == 1)
    }

    @Test func `a disk tier that dies or does not answer costs only time`() throws {
        world.get(client, id: 1, "a")
        let cache = try #require(world.workers.first { $0.value.kind == .cache }?.key)
        world.endWorker(cache, .ended(.signal(11)))
        #expect(world.fetches.count == 1)
        // The successor is available.
        world.readyAll()
        world.get(client, id: 2, "b")
        #expect(world.diskJobs.count == 1)
        world.happen(.timePassed, after: 5000)
        #expect(world.fetches.count == 2)
        // The late result has no waiters.
        world.answerDiskJob(try find(), content: nil)
        // Requests do not wait for a cache process that fails repeatedly.
        for _ in 0..<3 {
            guard let cache = world.workers.first(where: { $0.value.kind == .cache })?.key else { break }
            world.endWorker(cache, .ended(.status(1)))
        }
        world.get(client, id: 3, "c")
        #expect(world.fetches.count == 3)
    }

    @Test func `an original that enters memory during a lookup is not downloaded again`() throws {
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        world.get(client, id: 3, "a") {
            $0.variant.width = 5; $0.delivery = .none
        }
        let looks = world.diskJobs.keys.sorted()
        #expect(looks.count == 2)
        world.answerDiskJob(looks[0], content: nil)
        try world.finishFetch(content: 1)
        world.answerDiskJob(looks[1], content: nil)
        #expect(world.fetches.isEmpty)
        world.decodeAll()
        world.decodeAll()
        #expect(world.image(client, 1)?.width == 10 && world.image(client, 2)?.width == 5)
        #expect(world.image(client, 3)?.width == 5 && world.state.report[.downloads] == 1)
    }

    @Test mutating func `the result of a lookup is ignored once its original was removed or loaded anew`() throws {
        world = Self.world()
        let (first, second) = (world.connect(), world.connect())
        world.get(first, id: 1, "a")
        world.happen(.messageReceived(second, .remove(id: 1, url: try SourceURL("http://origin.test/a"))))
        // The lookup is abandoned; its waiter is served by a download.
        #expect(world.fetches.count == 1)
        let late = try find()
        world.answerDiskJob(late, content: 1)
        #expect(world.state.memory.entries == 0)
        world.failFetch(try #require(world.fetches.keys.first))

        world.get(first, id: 2, "b") { $0.representation = .original }
        try world.download(second, id: 2, "b", content: 2) { ($0.representation, $0.cache) = (.original, .reload) }
        world.answerDiskJob(try find(), content: 1)
        world.readHeader(try #require(world.decodes.keys.first))
        #expect(world.image(first, 2)?.buffer == world.image(second, 2)?.buffer)
    }

    @Test
    func `a query that the disk tier does not answer is answered without it, and its id is taken until then`()
        throws
    {
        let url = try SourceURL("http://origin.test/a")
        for id in 1...3 { world.happen(.messageReceived(client, .query(GetRequest(id: id, url: url)))) }
        world.happen(.messageReceived(client, .query(GetRequest(id: 1, url: url))))
        #expect(
            world.lastActions.contains {
                if case .reply(_, .error(nil, let error), _) = $0 { error.code == .badRequest } else { false }
            })
        world.happen(.timePassed, after: 5000)
        let answers = world.lastActions.filter { if case .reply(_, .queried, _) = $0 { true } else { false } }
        #expect(answers.count == 3)
        // After three timeouts in a row the process is killed.
        #expect(world.workers.values.contains { $0.kind == .cache && $0.state == .dying })
    }

    @Test func `a raster that is read while it is being decoded exists once`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        world.answerDiskJob(try find(), content: nil)
        try world.finishFetch(content: 1)
        let decode = try world.readHeader()
        world.get(client, id: 2, "b") { $0.variant.width = 5 }
        world.answerDiskJob(try find(), content: 1, asRaster: true)
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.buffer == world.image(client, 2)?.buffer)
    }

    @Test mutating func `an original removed before the disk tier is ready, or while it dies, is removed from disk`()
        throws
    {
        (world, client) = Self.world(isReady: false).connected()
        let url = try SourceURL("http://origin.test/a")
        world.happen(.messageReceived(client, .remove(id: 1, url: url)))
        world.readyAll()
        #expect(world.diskJobs.values.contains { $0.kind == .forget })
        world.endWorker(try #require(world.workers.first { $0.value.kind == .cache }?.key), .ended(.signal(9)))
        world.readyAll()
        world.answerDiskJob(try #require(world.diskJobs.first { $0.value.kind == .forget }?.key), content: nil)
        #expect(world.lastActions.contains(.reply(client, .removed(id: 1, count: 0), .nothing)))
    }

    @Test mutating func `a request that two cache processes have died of is not given to a third`() throws {
        (world, client) = Self.world(isReady: false).connected()
        let url = try SourceURL("http://origin.test/a")
        world.happen(.messageReceived(client, .remove(id: 1, url: url)))
        for _ in 0..<2 {
            world.readyAll(after: 100)
            let cache = try #require(world.workers.first { $0.value.kind == .cache }?.key)
            #expect(world.diskJobs.values.contains { $0.kind == .forget })
            world.endWorker(cache, .ended(.signal(11)))
        }
        #expect(world.lastActions.contains(.reply(client, .removed(id: 1, count: 0), .nothing)))
        world.readyAll(after: 1000)
        #expect(world.diskJobs.isEmpty)
    }

    @Test func `a shutdown waits for buffers that are being saved`() throws {
        world.get(client, id: 1, "a") { $0.representation = .original }
        world.answerDiskJob(try find(), content: nil)
        try world.finishFetch(content: 1)
        world.readHeader(try #require(world.decodes.keys.first))
        world.happen(.shutdownRequested)
        #expect(!world.hasExited)
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: nil)
        #expect(world.hasExited)
    }

    @Test func `query and remove cover both tiers`() throws {
        let url = try SourceURL("http://origin.test/a")
        world.happen(.messageReceived(client, .query(GetRequest(id: 1, url: url))))
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        #expect(
            world.lastActions.contains(
                .reply(client, .queried(id: 1, CacheStatus(memory: false, disk: true, fresh: true)), .nothing)))
        world.happen(.messageReceived(client, .remove(id: 2, url: url)))
        let forget = try #require(world.diskJobs.keys.first)
        let worker = try #require(world.diskJobs.removeValue(forKey: forget)?.worker)
        world.happen(.forgotten(worker, forget, keys: ["x", "y"]))
        #expect(world.lastActions.contains(.reply(client, .removed(id: 2, count: 2), .nothing)))
    }

    @Test func `key texts differ when requests do`() throws {
        let url = try SourceURL("http://origin.test/a")
        var request = GetRequest(id: 1, url: url)
        var words: Set<String> = [OriginalKey(request, uid: 1).word]
        #expect(words.first?.count == 64)
        request.options.headers = [HeaderField(name: "accept", value: "x")]
        words.insert(OriginalKey(request, uid: 1).word)
        request.options.headers = [HeaderField(name: "cookie", value: "x")]
        words.insert(OriginalKey(request, uid: 1).word)
        words.insert(OriginalKey(request, uid: 2).word)
        request.options.credentials = Credentials(username: "u", password: "p")
        words.insert(OriginalKey(request, uid: 2).word)
        #expect(words.count == 5)
        let digest = SHA256Text.sample
        #expect(ContentDigest(hexadecimal: digest)?.hexadecimal == digest)
    }
}

private enum SHA256Text {
    static let sample = "00f0000000000000" + "000000000000000a" + "ffffffffffffffff" + "0123456789abcdef"
}

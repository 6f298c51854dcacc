import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// The disk tier is queried before the origin and stores what is worth saving; requests succeed without it, slower.
struct DiskTierTests {
    private var (world, client) = Self.world().connected()

    private static func world() -> StrictWorld { .withDisk { $0.workers = 1 } }

    /// A world whose workers are not ready.
    private static func early() -> StrictWorld { .starting { ($0.workers, $0.usesDisk) = (1, true) } }

    @Test func `a miss goes on to the origin, and the original is saved`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        #expect(world.fetches.isEmpty)
        try world.answerLookup(content: nil)
        try world.finishFetch(content: 1)
        let decode = try world.readHeader()
        // 1 ms of decoding for 100 bytes is worth saving.
        world.clock = world.clock.adding(milliseconds: 1)
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.source == .network && world.diskJobs.count == 2)
        world.answerDisk()
        #expect(world.state.memory.heldBytes == 100)
    }

    /// What has left the memory during the lookup is read from disk.
    @Test(arguments: [true, false])
    func `a memory hit stays one for a user who has own originals on disk`(staysInMemory: Bool) throws {
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        world.load(client, id: 1, "a", content: 1)
        world.answerDisk(content: 1)
        // Another user may have an own original; memory has the rest.
        world.get(world.stranger, id: 1, "a")
        guard case .find(_, let keys)? = world.diskJobs[try #require(world.lookups.first)]?.kind else {
            return complain("no lookup")
        }
        #expect(keys.count == 1)
        if !staysInMemory { clearMemory() }
        try world.answerLookup(content: nil)
        if !staysInMemory {
            try world.answerLookup(content: 1)
            return #expect(world.decodes.count == 1 && world.fetches.isEmpty)
        }
        #expect(world.image(world.stranger, 1)?.source == .memory)
        #expect(world.state.report[.memoryHits] == 1 && world.state.report[.diskHits] == 0)
        #expect(world.getImage(world.stranger, id: 2, "a")?.source == .memory)
        #expect(world.diskJobs.isEmpty)
    }

    @Test func `what could not be received is looked for again`() throws {
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        world.load(client, id: 1, "a", content: 1)
        world.answerDisk(content: 1)
        for id in 1...2 {
            world.get(world.stranger, id: id, "a")
            let lookup = try #require(world.lookups.first)
            let worker = try #require(world.diskJobs.removeValue(forKey: lookup)?.worker)
            world.happen(.notFound(worker, lookup, isCertain: false))
            #expect(world.image(world.stranger, id)?.source == .memory)
        }
    }

    private func clearMemory() { world.ask(world.admin, id: 1, .clear(id: 1, tier: .memory, olderThanSeconds: nil)) }

    /// The originals that are being saved.
    private func saved() -> Int {
        world.diskJobs.values.count { if case .save(_, .some) = $0.kind { true } else { false } }
    }

    @Test func `bytes that two reloads bring are not saved before they are known to be an image`() throws {
        world.load(client, id: 1, "a", content: 1)
        world.answerDisk()
        for id in 2...3 {
            try world.download(client, id: id, "a", content: 2) { $0.cache = .reload }
            if id == 2 { _ = try world.readHeader() }
        }
        #expect(saved() == 0)
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(saved() == 0 && world.getImage(client, id: 4, "a")?.buffer == world.image(client, 1)?.buffer)
    }

    @Test func `a load that leaves the cache alone, and brings no image, removes nothing from disk`() throws {
        try world.download(client, id: 1, "a", content: 1) { $0.cache = .noStore }
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(world.error(client, 1) == .decodeFailed && world.diskJobs.isEmpty)
    }

    @Test func `a reload that brings no image keeps the good one on disk`() throws {
        for (id, isGood) in [(1, false), (2, true)] {
            try world.download(client, id: id, "a", content: id) { ($0.cache, $0.retryFailed) = (.reload, true) }
            #expect(saved() == 0)
            let decode = try world.readHeader()
            if isGood { world.finishDecode(decode) } else { world.failDecode(decode, .truncated) }
            #expect(saved() == (isGood ? 1 : 0))
            // Nothing is removed from disk.
            #expect(!world.diskJobs.values.contains { $0.kind == .forget })
        }
    }

    @Test func `what is found for a job that looks for nothing is discarded`() throws {
        try world.download(client, id: 1, "a", content: 1)
        let (job, save) = try #require(world.diskJobs.first)
        guard case .save(_, let record?) = save.kind else { return complain("nothing is saved") }
        world.products.insert(job)
        // The world complains if it stays.
        world.happen(.foundOriginal(save.worker, job, record))
        world.answerDiskJob(job, content: 1)
        #expect(world.state.disk.isIdle)
    }

    @Test func `an original from disk is decoded without a download`() throws {
        for id in 1...2 { world.get(client, id: id, "a") }
        #expect(world.diskJobs.count == 1)
        try world.answerLookup(content: 1)
        #expect(try world.decoded(client, 1)?.source == .disk)
        #expect((world.state.report[.diskHits], world.state.report[.coalesced]) == (1, 1))
        #expect(world.state.report[.downloads] == 0 && world.diskJobs.isEmpty)
    }

    /// The source is the disk whether the origin has revalidated the bytes or cannot be reached.
    @Test func `an original from disk is one from disk after a revalidation, too`() throws {
        world.diskResponse = world.response { ($0.etag, $0.cacheControl) = ("\"v\"", "max-age=0, stale-if-error=60") }
        try world.lookUp(client, id: 1, "a", content: 1)
        world.confirm(try #require(world.fetches.keys.first))
        let image = try world.decoded(client, 1)
        #expect((image?.source, image?.etag) == (.disk, "\"v\""))
        try world.lookUp(client, id: 2, "b", content: 1)
        world.failFetch(try #require(world.fetches.keys.first), status: 500)
        #expect(world.image(client, 2)?.source == .disk)
        // Later requests find it in memory.
        try world.confirm(client, id: 3, "b")
        #expect(world.image(client, 3)?.source == .memory && world.state.report[.diskHits] == 2)
    }

    @Test func `a confirmed original that must not stay in memory is read from disk once more`() throws {
        world.diskResponse = world.response { ($0.etag, $0.cacheControl) = ("\"v\"", "no-cache") }
        for id in 1...2 {
            try world.lookUp(client, id: id, "a", content: 1) { $0.storage = .disk }
            world.confirm(try #require(world.fetches.keys.first))
            // If it has been evicted from disk too, it is downloaded without another lookup.
            try world.answerLookup(content: id == 1 ? 1 : nil)
            if id == 2 { try world.finishFetch(content: 2) }
            #expect(try world.decoded(client, id)?.source == (id == 1 ? .disk : .network))
            world.answerDisk()
        }
    }

    @Test func `an original that may not stay in memory is served stale from disk too`() throws {
        world.diskResponse = world.response { $0.cacheControl = "max-age=0, stale-if-error=60" }
        for id in 1...2 {
            try world.lookUp(client, id: id, "a", content: 1) { $0.storage = .none }
            world.failFetch(try #require(world.fetches.keys.first), status: 500)
            try world.answerLookup(content: id == 1 ? 1 : nil)
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

    @Test func `the stale original on disk is served in place of a silent origin's`() throws {
        world.diskResponse = world.response { $0.cacheControl = "max-age=0, stale-if-error=60" }
        try world.lookUp(client, id: 1, "a", content: 1) { ($0.storage, $0.timeoutMs) = (.disk, 1000) }
        world.happen(.timePassed, after: 1000)
        try world.answerLookup(content: 1)
        #expect(try world.decoded(client, 1)?.stale == true)
    }

    @Test func `a raster from disk is served without decoding`() throws {
        try world.lookUp(client, id: 1, "a", content: 1, asRaster: true) { $0.variant.width = 5 }
        let image = try #require(world.image(client, 1))
        #expect(image.source == .disk && image.width == 5 && image.originalWidth == 10)
        #expect(world.getImage(client, id: 2, "a") { $0.variant.width = 5 }?.source == .memory)
        // The disk tier is notified of hits in memory.
        world.happen(.timePassed, after: 1000)
        #expect(world.lastActions.contains { if case .touch(_, let keys) = $0 { keys.count == 1 } else { false } })
        // Another size needs the original, which is also found on disk.
        try world.lookUp(client, id: 3, "a", content: 1) { $0.variant.width = 3 }
        #expect(world.decodes.count == 1)
    }

    @Test mutating func `what is read from disk again is not decoded again`() throws {
        (world, client) = StrictWorld.withDisk { ($0.workers, $0.memoryBytes) = (1, 2000) }.connected()
        for id in 1...80 {
            world.get(client, id: id, "\(id % 40)") { $0.variant.width = 5 }
            if !world.lookups.isEmpty { try world.answerLookup(content: id % 40, asRaster: true) }
            try world.releaseImage(client, id)
        }
        let report = world.state.report
        #expect(report[.evictions] > 0 && report[.diskHits] > 60)
        #expect((report[.diskHits] + report[.memoryHits], report[.remadeAfterEviction]) == (80, 0))
    }

    @Test func `a raster on disk is found also when the original is in memory`() throws {
        try world.lookUp(client, id: 1, "a", content: 1) { $0.representation = .original }
        try world.decode()
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        #expect(
            world.lastActions.contains { if case .find(_, _, _, _, let rasterOnly) = $0 { rasterOnly } else { false } })
        try world.answerLookup(content: 1, asRaster: true)
        #expect(world.image(client, 2)?.source == .disk && world.decodes.isEmpty)
        // If the raster is missing, the original is decoded.
        try world.lookUp(client, id: 3, "a", content: nil) { $0.variant.width = 3 }
        #expect(world.decodes.count == 1 && world.fetches.isEmpty)
    }

    @Test func `only-if-cached includes the disk tier`() throws {
        try world.lookUp(client, id: 1, "a", content: nil) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 1) == .notCached)
        world.get(client, id: 2, "a") { $0.cache = .reload }
        #expect(world.diskJobs.isEmpty && world.fetches.count == 1)
    }

    @Test mutating func `early requests wait for the disk tier to start`() throws {
        (world, client) = Self.early().connected()
        world.get(client, id: 1, "a")
        #expect(world.diskJobs.isEmpty && world.fetches.isEmpty)
        #expect(world.readyAll().diskJobs.count == 1)
    }

    @Test func `a disk tier that dies or does not answer costs only time`() throws {
        world.get(client, id: 1, "a")
        world.endWorker(try world.worker(.cache), .ended(.signal(11)))
        #expect(world.fetches.count == 1)
        // The successor is available.
        world.readyAll()
        world.get(client, id: 2, "b")
        #expect(world.diskJobs.count == 1)
        #expect(world.after(5000).fetches.count == 2)
        // The late result has no waiters.
        try world.answerLookup(content: nil)
        // Requests do not wait for a cache process that fails repeatedly.
        for _ in 0..<3 {
            guard let cache = world.workers.first(where: { $0.value.kind == .cache })?.key else { break }
            world.endWorker(cache, .ended(.status(1)))
        }
        world.get(client, id: 3, "c")
        #expect(world.fetches.count == 3)
    }

    @Test func `a cache process that answers between two that it misses stays`() throws {
        let cache = try world.worker(.cache)
        for id in 1...6 {
            world.get(client, id: id, "\(id)")
            if id == 3 {
                world.answerDiskJob(try #require(world.lookups.max()), content: 3)
            } else {
                world.happen(.timePassed, after: 5000)
            }
            #expect(world.workers[cache]?.state == (id < 6 ? .ready : .dying))
        }
    }

    @Test mutating func `lookups that wait for memory are not held against the cache process`() throws {
        (world, client) = StrictWorld.withDisk { ($0.workers, $0.memoryBytes) = (1, 64 << 20) }.connected()
        try world.download(client, id: 1, "a", content: 1, bytes: 32 << 20)
        let saving = world.diskJobs.count
        for id in 2...5 { world.get(client, id: id, "\(id)") }
        world.happen(.timePassed, after: 5000)
        #expect(world.workers.values.allSatisfy { $0.state == .ready })
        #expect(world.fetches.isEmpty && world.diskJobs.count == saving)
        world.decodeAll()
        #expect(world.after(4999).lookups.count == 4)
        for id in 2...5 { try world.answerLookup(content: id) }
        while !world.decodes.isEmpty { world.decodeAll() }
        #expect((2...5).allSatisfy { world.image(client, $0)?.source == .disk })
    }

    @Test func `an original that enters memory during a lookup is not downloaded again`() throws {
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        world.get(client, id: 3, "a") { ($0.variant.width, $0.delivery) = (5, .none) }
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

    @Test func `the result of a lookup is ignored once its original was removed or loaded anew`() throws {
        world.get(client, id: 1, "a")
        try world.remove(client, id: 9, "a")
        // The lookup is abandoned; its waiter is served by a download.
        #expect(world.fetches.count == 1)
        let late = try #require(world.lookups.first)
        world.answerDiskJob(late, content: 1)
        #expect(world.state.memory.entries == 0)
        world.failFetch(try #require(world.fetches.keys.first))

        world.get(client, id: 2, "b") { $0.representation = .original }
        try world.download(client, id: 3, "b", content: 2) { ($0.representation, $0.cache) = (.original, .reload) }
        try world.answerLookup(content: 1)
        #expect(try world.decoded(client, 2)?.buffer == world.image(client, 3)?.buffer)
    }

    @Test func `a query without an answer of the disk tier is answered, and its id is taken until then`() throws {
        for id in [1, 2, 3, 1] { try world.query(client, id: id, "a") }
        #expect(world.lastError(nil, to: client) == .badRequest)
        #expect(world.after(5000).lastReplies(to: client).count { if case .queried = $0 { true } else { false } } == 3)
        // After three timeouts in a row the process is killed.
        #expect(world.workers.values.contains { $0.kind == .cache && $0.state == .dying })
    }

    @Test func `of many queries without an answer of the disk tier, each is answered`() throws {
        for id in 1...200 { try world.query(client, id: id, "\(id)") }
        let replies = world.after(5000).lastReplies(to: client)
        #expect(replies.count { if case .queried = $0 { true } else { false } } == 200)
    }

    @Test func `a raster that is read while it is being decoded exists once`() throws {
        try world.download(client, id: 1, "a", content: 1) { $0.variant.width = 5 }
        let decode = try world.readHeader()
        try world.lookUp(client, id: 2, "b", content: 1, asRaster: true) { $0.variant.width = 5 }
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.buffer == world.image(client, 2)?.buffer)
    }

    @Test mutating func `what is removed while the disk tier starts, or dies, is removed from disk`() throws {
        (world, client) = Self.early().connected()
        try world.remove(client, id: 1, "a")
        #expect(world.readyAll().diskJobs.values.contains { $0.kind == .forget })
        world.replaceWorker(try world.worker(.cache), .ended(.signal(9)))
        world.answerDiskJob(try #require(world.diskJobs.first { $0.value.kind == .forget }?.key), content: nil)
        #expect(world.lastActions.contains(.reply(client, .removed(id: 1, count: 0), .nothing)))
    }

    @Test mutating func `a request that two cache processes have died of is not given to a third`() throws {
        (world, client) = Self.early().connected()
        try world.remove(client, id: 1, "a")
        for _ in 0..<2 {
            #expect(world.readyAll(after: 100).diskJobs.values.contains { $0.kind == .forget })
            world.endWorker(try world.worker(.cache), .ended(.signal(11)))
        }
        #expect(world.lastActions.contains(.reply(client, .removed(id: 1, count: 0), .nothing)))
        #expect(world.readyAll(after: 1000).diskJobs.isEmpty)
    }

    @Test func `a shutdown waits for buffers that are being saved`() throws {
        world.load(client, id: 1, "a", content: 1) { $0.representation = .original }
        world.happen(.shutdownRequested)
        #expect(!world.hasExited)
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: nil)
        #expect(world.hasExited)
    }

    @Test func `query and remove cover both tiers`() throws {
        try world.query(client, id: 1, "a")
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        #expect(
            world.lastActions.contains(
                .reply(client, .queried(id: 1, CacheStatus(memory: false, disk: true, fresh: true)), .nothing)))
        try world.remove(client, id: 2, "a")
        let forget = try #require(world.diskJobs.keys.first)
        let worker = try #require(world.diskJobs.removeValue(forKey: forget)?.worker)
        world.happen(.forgotten(worker, forget, keys: ["x", "y"]))
        #expect(world.lastActions.contains(.reply(client, .removed(id: 2, count: 2), .nothing)))
    }

    @Test func `key texts differ when requests do`() throws {
        let (accept, cookie) = (HeaderField(name: "accept", value: "x"), HeaderField(name: "cookie", value: "x"))
        let credentials = Credentials(username: "u", password: "p")
        let keys = [
            try originalKey(uid: 1), try originalKey(uid: 1) { $0.headers = [accept] },
            try originalKey(uid: 1) { $0.headers = [cookie] }, try originalKey(uid: 2) { $0.headers = [cookie] },
            try originalKey(uid: 2) { ($0.headers, $0.credentials) = ([cookie], credentials) },
        ]
        #expect(Set(keys.map(\.word)).count == 5)
        // Entries on disk are found by these (docs/cache-format.md).
        #expect(keys[0].word == "9324e0c7fd747bfb8cc9cca733330712b9302d6dc4300f0564f63ceb05d50704")
        let full = try originalKey(uid: 7) {
            ($0.cacheKey, $0.headers, $0.credentials, $0.cookies) = ("k", [accept], credentials, true)
            $0.allowInvalidCertificates = true
        }
        #expect(full.word == "d342ea9a35f6e11df187197eb4312b2ca89a0c3ce876b0000b2a5000ada16bcf")
        let digest = "00f0000000000000" + "000000000000000a" + "ffffffffffffffff" + "0123456789abcdef"
        #expect(ContentDigest(hexadecimal: digest)?.hexadecimal == digest)
    }
}

/// A miss of the disk tier that is certain needs no lookup.
struct KnownOriginalsTests {
    private var (world, client) = Self.world().connected()

    private static func world() -> StrictWorld { .withDisk { $0.workers = 1 } }

    private func hash(_ key: OriginalKey) throws -> UInt64 { try #require(KeyHash.hash(key.word)) }

    @Test func `nothing is certain before the last report, and after it is withdrawn`() throws {
        let (one, other) = (try originalKey("a"), try originalKey("b"))
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
        let keys = try (0...10).map { try originalKey("\($0)") }
        var known = KnownOriginals(maximum: 10)
        known.report(try keys.prefix(10).map(hash), isComplete: true)
        known.insert(keys[0])
        #expect(known.isComplete && known.count == 10 && !known.mayContain(keys[10]))
        known.insert(keys[10])
        #expect(try !known.isComplete && known.count == 0 && known.mayContain(originalKey("x")))
        known.report([], isComplete: true)
        #expect(try known.mayContain(originalKey("x")))
    }

    @Test func `a certain miss is downloaded at once`() throws {
        world.get(client, id: 1, "a")
        // It may be on disk as long as the cache process has not said.
        #expect(world.lookups.count == 1 && world.fetches.isEmpty)
        try world.answerLookup(content: nil)
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        world.get(client, id: 2, "b")
        #expect(world.lookups.isEmpty && world.fetches.count == 2)
    }

    @Test func `what the disk tier has is looked for`() throws {
        world.get(client, id: 1, "a")
        let lookup = try #require(world.lookups.first)
        let keys = try #require(world.state.disk[lookup]?.keys)
        let (second, other) = Self.world().connected()
        second.happen(.originalsKnown(hashes: [try hash(try #require(keys.last))], isComplete: true))
        second.get(other, id: 1, "a")
        #expect(second.lookups.count == 1 && second.fetches.isEmpty)
    }

    @Test func `what was given to the disk tier is looked for`() throws {
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        #expect(world.load(client, id: 1, "a", content: 1)?.source == .network)
        world.answerDisk(content: 1)
        world.ask(world.admin, id: 2, .clear(id: 2, tier: .memory, olderThanSeconds: nil))
        world.get(client, id: 3, "a")
        #expect(world.lookups.count == 1 && world.fetches.isEmpty)
    }

    @Test func `a user's own original is not looked for where none can be`() throws {
        world.happen(.diskReported(DiskReport(state: .on, mayHaveOwned: true)))
        world.get(client, id: 1, "a")
        let lookup = try #require(world.lookups.first)
        let shared = try #require(world.state.disk[lookup]?.keys.last)
        world.answerDiskJob(lookup, content: 1)
        try world.decode()
        world.answerDisk(content: 1)
        world.happen(.originalsKnown(hashes: [try hash(shared)], isComplete: true))
        world.get(world.stranger, id: 1, "a")
        #expect(world.lookups.isEmpty && world.image(world.stranger, 1)?.source == .memory)
    }

    @Test func `the next cache process has not said yet what it has`() throws {
        world.happen(.originalsKnown(hashes: [], isComplete: true))
        world.replaceWorker(try #require(world.state.supervision[.cache].available), .ended(.status(0)))
        world.happen(.diskReported(DiskReport(state: .on)))
        world.get(client, id: 1, "a")
        #expect(world.lookups.count == 1 && world.fetches.isEmpty)
    }
}

/// The lifecycle of the cache process, as the broker sees it.
struct CacheProcessTests {
    private let world = StrictWorld.starting { $0.usesDisk = true }

    private var warnings: Int { world.lastLines.count { $0.level == .warning } }

    @Test func `an unconfined cache process is refused like any worker`() throws {
        for (sandbox, isAllowed) in [
            (nil, false), (SandboxReport(seccomp: true), false), (SandboxReport(landlock: 3), false), (nil, true),
        ] as [(SandboxReport?, Bool)] {
            let world = StrictWorld.starting { ($0.usesDisk, $0.allowsUnsandboxed) = (true, isAllowed) }
            let worker = try world.worker(.cache)
            world.happen(.workerReady(worker, sandbox))
            #expect((world.workers[worker]?.state == .dying) == !isAllowed)
            #expect((world.state.supervision[.cache].available != nil) == isAllowed)
        }
    }

    @Test func `the figures show the weakest of all kinds`() throws {
        #expect(world.readyAll().state.report.sandbox == "seccomp+landlock-7")
        world.endWorker(try world.worker(.cache), .ended(.signal(9)))
        world.happen(.workerReady(try world.worker(.cache), SandboxReport(seccomp: true, landlock: 3)))
        #expect(world.state.report.sandbox == "seccomp+landlock-3")
    }

    @Test func `a cache process that exits with 0 is replaced at once, without a warning`() throws {
        world.readyAll()
        for _ in 0..<50 {
            let worker = try world.worker(.cache)
            world.after(1000).endWorker(worker, .ended(.status(0)))
            #expect(try warnings == 0 && world.worker(.cache) != worker)
            world.readyAll()
        }
        #expect(world.state.supervision[.cache].available != nil)
    }

    @Test(arguments: [false, true])
    func `a cache process that exits before it is ready, or at once then, has failed`(isReady: Bool) throws {
        for _ in 0..<2 {
            if isReady { world.readyAll() }
            world.endWorker(try world.worker(.cache), .ended(.status(0)))
        }
        #expect(!world.workers.values.contains { $0.kind == .cache })
        if isReady { #expect(world.state.report.workerDeaths[.exit] == 2) }
    }

    @Test func `a reason that several processes give is logged once`() throws {
        world.readyAll()
        let trouble = DiskReport(state: .off, reason: "there is no room for a directory")
        world.happen(.diskReported(trouble))
        #expect(warnings == 1)
        for _ in 0..<3 {
            world.after(1000).replaceWorker(try world.worker(.cache), .ended(.status(0)))
            world.happen(.diskReported(trouble))
            #expect(warnings == 0)
        }
        world.happen(.diskReported(DiskReport(state: .on)))
        world.happen(.diskReported(trouble))
        #expect(warnings == 1)
    }
}

/// The state machine of the disk tier in isolation.
struct DiskMachineTests {
    private let worker = WorkerID(number: 1)
    private let job = JobID(number: 1)

    private var tier = Self.tier()

    private static func tier(_ change: (inout BrokerLimits) -> Void = { _ in }) -> DiskTier {
        var tier = DiskTier(limits: with(with(BrokerLimits()) { $0.usesDisk = true }, change))
        _ = tier.reported(DiskReport(state: .on))
        return tier
    }

    private func lookup(_ path: String = "a") throws -> LookupKey {
        LookupKey(original: try originalKey(path), uid: 1000, form: .original)
    }

    @Test mutating func `a lookup is shared until it ends`() throws {
        tier.enqueue(try lookup(), keys: [try originalKey()], jobWaiter(1), mayStay: false, as: job)
        #expect(tier.join(try lookup(), jobWaiter(2), mayStay: true) == job && tier[job]?.mayStay == true)
        #expect(tier.leave(lookup: job, WaiterID(number: 1)) == nil && tier.lookupQueue.pop() == job)
        tier.start(
            lookup: job, on: worker, isForRaster: false, isForOwn: false, rasterWord: nil,
            at: Instant(nanoseconds: 0))
        #expect(tier.leave(lookup: job, WaiterID(number: 2))?.worker == worker)
        #expect(tier.join(try lookup(), jobWaiter(3), mayStay: true) == nil && tier.brokenInvariant() == nil)
    }

    @Test mutating func `a lookup has the highest priority of its waiters`() throws {
        for (number, path, priority) in [(1, "a", GetOptions.Priority.low), (2, "b", .normal)] {
            tier.enqueue(
                try lookup(path), keys: [try originalKey(path)], jobWaiter(number, priority: priority), mayStay: false,
                as: JobID(number: number))
        }
        #expect(tier.join(try lookup(), jobWaiter(3, priority: .high), mayStay: false) == job)
        var left = tier
        #expect(left.leave(lookup: job, WaiterID(number: 3)) == nil)
        #expect(tier.lookupQueue.pop() == job && left.lookupQueue.pop() == JobID(number: 2))
    }

    /// An order with more digests would not fit into a frame, and never be sent.
    @Test(arguments: [4096, 4097])
    mutating func `an order with too many digests becomes one to empty the tier`(count: Int) {
        #expect(tier.enqueue(.discard(digests: (0..<count).map { "\($0)" }), as: job) == nil)
        switch tier.startNext()?.request {
        case .discard(let digests)?: #expect(digests.count == count && count == 4096)
        case .clear?: #expect(count == 4097)
        default: complain("another order")
        }
    }

    @Test mutating func `the bytes that wait to be saved are bounded`() throws {
        tier = Self.tier { $0.maxSavingBytes = 100 }
        #expect(tier.maySave(100))
        tier.beginSaving(BufferID(number: 1), bytes: 60, as: try originalKey(), job: job)
        #expect(tier.maySave(40) && !tier.maySave(41) && tier.needs(BufferID(number: 1)))
        guard case .save? = tier.answered(job) else { return complain("not saved") }
        #expect(tier.maySave(100) && tier.isIdle)
        // A process that exits saves nothing more; other requests are of no size.
        tier.beginSaving(BufferID(number: 2), bytes: 100, as: nil, job: job)
        #expect(!tier.maySave(1) && tier.brokenInvariant() == nil)
        guard case .save(BufferID(number: 2), _, _)? = tier.lost(job, ownMaking: true) else {
            return complain("not lost")
        }
        _ = tier.enqueue(.discard(digests: []), as: job)
        #expect(tier.startNext()?.job == job && tier.maySave(100) && tier.brokenInvariant() == nil)
        guard case .discard? = tier.answered(job) else { return complain("not discarded") }
        #expect(tier.maySave(100) && tier.isIdle && tier.brokenInvariant() == nil)
        _ = tier.reported(DiskReport(state: .locked))
        #expect(!tier.maySave(1))
    }

    @Test
    mutating func `an order to discard that kills two processes becomes one to empty the tier, which is never dropped`()
    {
        #expect(tier.enqueue(.discard(digests: ["a"]), as: job) == nil)
        for death in 1...5 {
            let request = tier.startNext()?.request
            switch (death, request) {
            case (1...2, .discard?), (3..., .clear(nil, nil, _, _)?): break
            default: complain("\(String(describing: request)) after \(death - 1) deaths")
            }
            tier.processExited()
            guard tier.lost(job, ownMaking: true) == nil else { return complain("not asked again") }
            tier.forgetCrashes()
        }
    }

    @Test mutating func `three missed answers in a row replace the process`() {
        #expect(!tier.countMissedAnswer(canReplace: true) && !tier.countMissedAnswer(canReplace: true))
        tier.lookupAnswered()
        #expect(!tier.countMissedAnswer(canReplace: true) && !tier.countMissedAnswer(canReplace: true))
        #expect(tier.countMissedAnswer(canReplace: true) == true)
    }

    @Test mutating func `an overdue query is dropped, and an overdue forget is carried out`() throws {
        let requester = (client: ClientID(number: 1), id: 1)
        #expect(tier.enqueue(.forget(requester, url: "u", owner: nil, inMemory: []), as: job) == nil)
        #expect(tier.requestTimedOut(job)?.isMissed == false)
        guard case .forget(nil, "u", nil, _)? = tier.startNext()?.request else { return complain("not asked") }
        #expect(tier.requestTimedOut(job)?.isMissed == true)
        let query = JobID(number: 2)
        let known = DiskRequest.Known(inMemory: false, isFresh: nil, headers: [], placeholder: nil)
        #expect(tier.enqueue(.query(requester, keys: [], known), as: query) == nil)
        #expect(tier.requestTimedOut(query) != nil && !tier.contains(request: query))
    }

    @Test mutating func `a user's own original that is missing is remembered`() throws {
        _ = tier.reported(DiskReport(state: .on, mayHaveOwned: true))
        let own = try originalKey().owned(by: 1000)
        #expect(tier.mayHave(owned: own))
        let other = try originalKey("b").owned(by: 1000)
        #expect(tier.noteMissing(owned: other) == false)
        tier.enqueue(try lookup(), keys: [own, try originalKey()], jobWaiter(1), mayStay: true, as: job)
        let ended = tier.end(lookup: job)
        let lookup = try #require(ended)
        #expect(tier.isAmbiguous(lookup))
        #expect(!tier.noteMissingOwned(lookup, found: nil) && !tier.mayHave(owned: own) && !tier.mayHave(owned: other))
        tier.beginSaving(BufferID(number: 1), bytes: 1, as: own, job: JobID(number: 2))
        #expect(tier.mayHave(owned: own))
    }
}

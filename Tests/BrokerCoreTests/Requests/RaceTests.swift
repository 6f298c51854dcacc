import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Races between two events, each found by code review.
struct RaceTests {
    private var world: StrictWorld
    private let client: ClientID

    init() { (world, client) = StrictWorld.ready { $0.usesDisk = true }.connected() }

    /// Answers all disk requests with a miss.
    private func quietDisk() {
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
    }

    private func load(_ id: Int, _ path: String, _ change: (inout ResponseRecord) -> Void = { _ in }) throws {
        world.get(client, id: id, path)
        quietDisk()
        try world.finishFetch(content: 1, change)
        try world.decode()
        quietDisk()
    }

    @Test func `a shutdown does not wait for the rest of a prefetch`() throws {
        let urls = try (0..<100).map { try SourceURL("http://origin.test/\($0)") }
        world.happen(.messageReceived(client, .prefetch(PrefetchRequest(id: 1, urls: urls))))
        quietDisk()
        world.happen(.shutdownRequested)
        world.happen(.timePassed, after: 5_000)
        #expect(world.state.requests.isEmpty)
        for job in world.stopping.keys { world.endStopping(job, received: 0) }
        world.happen(.timePassed, after: 5_000)
        #expect(world.hasExited)
    }

    @Test func `a client's impatience does not close an origin to others`() {
        for id in 1...20 {
            world.get(client, id: id, "a\(id)") { ($0.timeoutMs, $0.cache) = (1, .reload) }
            world.happen(.timePassed, after: 2)
            #expect(world.error(client, id) == .timeout)
        }
        let now = world.clock
        #expect(world.state.downloads.delay(of: "http://origin.test", for: 1000, until: now, at: now) == nil)
    }

    @Test func `an origin that is silent repeatedly is not contacted for a while`() {
        for id in 1...5 {
            world.get(client, id: id, "a\(id)") { $0.cache = .reload }
            world.happen(.timePassed, after: 15_000)
            #expect(world.error(client, id) == .timeout)
        }
        #expect(world.getError(client, id: 6, "a6") { $0.cache = .reload } == .hostUnavailable)
    }

    @Test func `a confirmation that makes an image private takes it from the others`() throws {
        try load(1, "a") { ($0.cacheControl, $0.etag) = ("max-age=1", "\"one\"") }
        world.happen(.timePassed, after: 2_000)
        world.get(client, id: 2, "a")
        world.confirm(try #require(world.fetches.keys.first)) { $0.cacheControl = "private, max-age=1000" }
        // The response is private now, so it is downloaded again for this user.
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == nil)
        world.finishFetch(job, content: 1) { $0.cacheControl = "private, max-age=1000" }
        try world.decode()
        #expect(world.image(client, 2) != nil)
        let other = world.connect(uid: 2000)
        world.get(other, id: 1, "a") { $0.cache = .onlyIfCached }
        quietDisk()
        #expect(world.error(other, 1) == .notCached)
    }

    @Test func `a confirmation of another version is rejected`() throws {
        try load(1, "a") { ($0.cacheControl, $0.etag) = ("no-cache", "\"one\"") }
        world.get(client, id: 2, "a")
        world.confirm(try #require(world.fetches.keys.first)) { $0.etag = "\"two\"" }
        #expect(world.fetches.values.first?.order.conditions == nil)
        #expect(world.answers[client]?[2] == nil)
    }

    @Test func `a late answer of the disk tier answers no other request`() throws {
        world.happen(.messageReceived(client, .remove(id: 7, url: try SourceURL("http://origin.test/a"))))
        world.happen(.timePassed, after: 5_001)
        world.happen(.messageReceived(client, .query(GetRequest(id: 7, url: try SourceURL("http://origin.test/b")))))
        let replies = world.lastActions
        #expect(!replies.contains { if case .reply = $0 { true } else { false } })
        world.answerDiskJob(try #require(world.diskJobs.first { $0.value.kind == .forget }?.key), content: nil)
        #expect(!world.lastActions.contains { if case .reply = $0 { true } else { false } })
        quietDisk()
        let isAnswered = world.lastActions.contains {
            if case .reply(client, .queried(7, _), _) = $0 { true } else { false }
        }
        #expect(isAnswered)
    }

    @Test func `a malformed message with the id of a pending request is answered without an id`() {
        world.get(client, id: 5, "a")
        world.happen(.messageRejected(client, id: 5, WireError(.badRequest, "It is wrong.")))
        let isNameless = world.lastActions.contains {
            if case .reply(client, .error(nil, _), _) = $0 { true } else { false }
        }
        #expect(isNameless && world.clients[client]?.contains(5) == true)
    }

    @Test func `the stale original is served for a silent origin, where that is allowed`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1, stale-if-error=1000" }
        world.happen(.timePassed, after: 2_000)
        world.get(client, id: 2, "a") { $0.timeoutMs = 100 }
        world.happen(.timePassed, after: 101)
        #expect(world.image(client, 2)?.stale == true)
    }

    @Test func `a failed reload does not prevent the use of the cached bytes`() throws {
        try load(1, "a")
        world.get(client, id: 2, "a") { $0.cache = .reload }
        world.failFetch(try #require(world.fetches.keys.first), status: 403)
        #expect(world.error(client, 2) == .httpStatus)
        world.get(client, id: 3, "a") { $0.variant.pixelFormat = .bgra8 }
        quietDisk()
        try world.decode()
        #expect(world.image(client, 3)?.source == .memory)
    }

    @Test func `an original that is gone at a reload is removed from the cache`() throws {
        try load(1, "a")
        world.get(client, id: 2, "a") { $0.cache = .reload }
        world.failFetch(try #require(world.fetches.keys.first), status: 410)
        world.get(client, id: 3, "a") { $0.cache = .onlyIfCached }
        quietDisk()
        #expect(world.error(client, 3) == .notCached)
    }

    @Test func `an old version is not served after a newer one was loaded`() throws {
        try load(1, "a")
        try world.download(client, id: 2, "a", content: 2) { ($0.cache, $0.storage) = (.reload, .disk) }
        try world.decode()
        quietDisk()
        world.get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil)
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 2) }
        try world.decode()
        #expect(world.image(client, 3)?.source == .disk)
    }

    @Test func `the end of one version is not appended to the beginning of another`() throws {
        world.get(client, id: 1, "a")
        quietDisk()
        let job = try #require(world.fetches.keys.first)
        world.respond(job, validator: "\"one\"", total: 3000)
        world.cutFetch(job, received: 1000)
        #expect(world.fetches[job]?.order.resumption?.validator == "\"one\"")
        let worker = try #require(world.fetches[job]?.worker)
        // The origin restarts the body; before that is known, the last waiter cancels.
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        world.happen(.fetchResponded(worker, job, world.response(), validator: "\"two\"", total: 2000))
        world.endStopping(job, received: 500)
        world.get(client, id: 3, "a")
        quietDisk()
        #expect(
            world.fetches[job]?.order.resumption == FetchJob.Resumption(offset: 500, validator: "\"two\"", total: 2000))
    }

    @Test func `a body whose continuation died before a header is discarded`() throws {
        world.get(client, id: 1, "a")
        quietDisk()
        let job = try #require(world.fetches.keys.first)
        world.respond(job, validator: "\"one\"", total: 3000)
        world.cutFetch(job, received: 1000)
        world.endWorker(try #require(world.fetches[job]?.worker), .ended(.signal(9)))
        #expect(world.fetches[job]?.order.resumption == nil)
    }

    @Test func `a worker that does not stop a transfer is killed`() throws {
        world.get(client, id: 1, "a")
        quietDisk()
        let job = try #require(world.fetches.keys.first)
        let worker = try #require(world.fetches[job]?.worker)
        world.respond(job)
        world.happen(.fetchProgressed(worker, job, received: 100, expected: nil))
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        world.happen(.timePassed, after: 10_001)
        #expect(world.workers[worker]?.state == .dying)
        world.endWorker(worker, .ended(.signal(9)))
        #expect(world.state.downloads.stopping.isEmpty)
    }

    @Test func `another user's remove does not affect a store in flight`() throws {
        let url = try SourceURL("http://origin.test/a")
        world.happen(.storeReceived(client, StoreRequest(id: 1, url: url, payload: 0), bytes: 1000))
        world.identify(try #require(world.identifying.keys.first), content: 1)
        world.happen(.messageReceived(world.connect(uid: 2000), .remove(id: 1, url: url)))
        quietDisk()
        try world.decode()
        let isStored = world.lastActions.contains { if case .reply(client, .ok(1), _) = $0 { true } else { false } }
        #expect(isStored)
        world.get(client, id: 2, "a") { $0.cache = .onlyIfCached }
        quietDisk()
        if !world.decodes.isEmpty { try world.decode() }
        #expect(world.image(client, 2) != nil)
    }
}

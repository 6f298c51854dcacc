import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Requests` in isolation.
struct RequestsTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let client = ClientID(number: 1)
    private var requests = Requests()

    private mutating func waiter(_ change: (inout GetOptions) -> Void = { _ in }) throws -> Waiter {
        let get = GetRequest(id: 1, url: try SourceURL("http://origin.test/a"), options: with(GetOptions(), change))
        let waiter = requests.makeWaiter(.get, get, key: OriginalKey(get, uid: 1), of: client, uid: 1, at: now)
        requests.register(waiter)
        return waiter
    }

    @Test mutating func `a waiter that joins a job is coalesced, until the job ends without a result`() throws {
        let id = try waiter().id
        requests.wait(id, for: .lookingUp(JobID(number: 1)), joining: true)
        #expect(requests[id]?.isCoalesced == true)
        requests.lookupEnded(id, again: false)
        requests.decideAnew(id)
        #expect(requests[id]?.isCoalesced == false && requests[id]?.hasQueriedDisk == true)
        #expect(requests[id]?.stage == .deciding)
    }

    @Test mutating func `the first progress frame says that nothing was received`() throws {
        let id = try waiter { $0.progress = true }.id
        let first = requests.progress(10, of: 100, for: id)
        #expect(first == [.progress(id: 1, received: 0, expected: 100), .progress(id: 1, received: 10, expected: 100)])
        #expect(requests.progress(20, of: 100, for: id) == [.progress(id: 1, received: 20, expected: 100)])
        let silent = try waiter().id
        #expect(requests.progress(10, of: 100, for: silent).isEmpty)
    }
}

/// Requests that end sooner: the age of a cached response, retries, and alternative URLs.
struct TermsTests {
    private var (world, client) = StrictWorld.ready().connected()

    private func url(_ path: String, of host: String = "origin.test") throws -> SourceURL {
        try SourceURL("http://\(host)/\(path)")
    }

    /// Fails the transfers and their retries.
    private func failAll(_ code: ErrorCode = .connectFailed) {
        while let job = world.fetches.keys.min() {
            world.failFetch(job, code)
            world.happen(.timePassed, after: 1_001)
        }
    }

    private var requested: [String] { world.fetches.values.map(\.order.url) }

    /// Fails the first transfer, whose origin does not have the image.
    private func failFirst() throws { world.failFetch(try #require(world.fetches.keys.first), status: 404) }

    // MARK: Age

    private func load(_ cacheControl: String? = "max-age=1000") {
        world.load(client, id: 1, "a", content: 1, response: { ($0.cacheControl, $0.etag) = (cacheControl, "\"one\"") })
    }

    @Test func `a cached response of the maximum age is used, and an older one confirmed`() throws {
        load()
        #expect(world.after(10_900).getImage(client, id: 2, "a") { $0.maxAgeSeconds = 10 }?.source == .memory)
        world.get(client, id: 3, "a") { $0.maxAgeSeconds = 9 }
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == RequestConditions(etag: "\"one\""))
        #expect(world.fetches[job]?.order.headers == [HeaderField(name: "cache-control", value: "max-age=9")])
        world.confirm(job)
        #expect(world.image(client, 3)?.stale == false)
    }

    /// A request with a maximum age wants no stale response (RFC 9111, section 5.2.1.1).
    @Test func `a stale response is no answer, however young`() throws {
        load("max-age=1, stale-while-revalidate=1000, stale-if-error=1000")
        world.after(5_000).get(client, id: 2, "a") { $0.maxAgeSeconds = 100 }
        #expect(world.answers[client]?[2] == nil)
        // After a failure it is, unless it is too old.
        world.get(client, id: 3, "a") { $0.maxAgeSeconds = 2 }
        failAll()
        #expect(world.image(client, 2)?.stale == true && world.error(client, 3) == .connectFailed)
    }

    @Test func `the other cache modes have a maximum age, too`() throws {
        load("max-age=1")
        world.after(5_000).get(client, id: 2, "a") { ($0.cache, $0.maxAgeSeconds) = (.onlyIfCached, 5) }
        #expect(world.image(client, 2)?.stale == true)
        #expect(world.getError(client, id: 3, "a") { ($0.cache, $0.maxAgeSeconds) = (.onlyIfCached, 4) } == .notCached)
        world.get(client, id: 4, "a") { ($0.cache, $0.maxAgeSeconds) = (.forceCache, 5) }
        #expect(world.image(client, 4)?.source == .memory)
        world.get(client, id: 5, "a") { ($0.cache, $0.maxAgeSeconds) = (.forceCache, 4) }
        #expect(world.fetches.count == 1)
    }

    /// The text of a request is remembered with its answer, which ends with the age.
    @Test func `a repeated request ends with the age`() throws {
        load()
        for id in 2...6 { world.get(client, id: id, "a") { $0.maxAgeSeconds = 10 } }
        let shortcuts = world.shortcuts
        #expect(shortcuts > 0)
        world.after(9_000).get(client, id: 7, "a") { $0.maxAgeSeconds = 10 }
        #expect(world.shortcuts == shortcuts + 1)
        world.after(2_500).get(client, id: 8, "a") { $0.maxAgeSeconds = 10 }
        #expect(world.answers[client]?[8] == nil && world.fetches.count == 1)
    }

    // MARK: Retries

    @Test func `a request without retries ends with the first failure, the others go on`() throws {
        world.get(client, id: 1, "a") { $0.retries = 0 }
        world.get(client, id: 2, "a")
        world.failFetch(try #require(world.fetches.keys.first))
        #expect(world.error(client, 1) == .connectFailed && world.answers[client]?[2] == nil)
        try world.after(1_001).finishLoad(content: 1)
        #expect(world.image(client, 2) != nil)
        // Alone, it is not retried at all, and never more often than the broker's limit.
        world.get(client, id: 3, "b") { $0.retries = 0 }
        failAll()
        #expect(world.error(client, 3) == .connectFailed)
        world.get(client, id: 4, "c") { $0.retries = 100 }
        var transfers = 0
        while let job = world.fetches.keys.first {
            transfers += 1
            world.failFetch(job)
            world.happen(.timePassed, after: 1_001)
        }
        #expect(transfers == world.state.limits.retries + 1)
    }

    @Test func `a request without retries does not wait for its origin's patience`() throws {
        world.get(client, id: 1, "a") { $0.retries = 0 }
        world.get(client, id: 2, "a")
        world.failFetch(try #require(world.fetches.keys.first), status: 429, retryAfterMs: 1000)
        #expect(world.error(client, 1) != nil && world.answers[client]?[2] == nil)
    }

    // MARK: Alternatives

    @Test func `alternatives are loaded in order, and the reply names the one that answered`() throws {
        let alternatives = [try url("b"), try url("c", of: "other.test"), try url("d")]
        world.get(client, id: 1, "a") { ($0.alternatives, $0.retries) = (alternatives, 0) }
        try failFirst()
        #expect(requested == [alternatives[0].text])
        world.failFetch(try #require(world.fetches.keys.first), .tooManyRedirects)
        #expect(requested == [alternatives[1].text])
        #expect(try world.loaded(client, 1, content: 1)?.url == alternatives[1].text && world.state.requests.isEmpty)
        // The first one has failed recently, the next is in memory.
        let image = world.getImage(client, id: 2, "a") { $0.alternatives = [alternatives[1]] }
        #expect(image?.url == alternatives[1].text && image?.source == .memory)
    }

    @Test func `bytes that are no image have alternatives, too`() throws {
        let other = try url("b")
        try world.download(client, id: 1, "a", content: 1) { $0.alternatives = [other] }
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(requested == [other.text])
        #expect(try world.loaded(client, 1, content: 2)?.url == other.text)
    }

    /// Each fails once, and then the request has failed.
    @Test func `alternatives that all fail end the request with the last error`() throws {
        let alternatives = try (0...4).map { try url("\($0)") }
        world.get(client, id: 1, "0") { ($0.alternatives, $0.retries) = (Array(alternatives.dropFirst()), 0) }
        for number in 0...4 {
            #expect(requested == [alternatives[number].text])
            world.failFetch(try #require(world.fetches.keys.first), number == 4 ? .tlsFailed : .tooManyRedirects)
        }
        #expect(world.error(client, 1) == .tlsFailed)
        #expect(world.fetches.isEmpty && world.state.requests.isEmpty)
        // The same URL as its own alternative ends as well.
        let same = Array(repeating: alternatives[0], count: 4)
        #expect(world.getError(client, id: 2, "0") { $0.alternatives = same } == .recentlyFailed)
    }

    @Test func `errors of the client have no alternative`() throws {
        let other = try url("b")
        world.get(client, id: 1, "a") { $0.alternatives = [other] }
        #expect(world.cancel(client, 1).error(client, 1) == .cancelled)
        world.get(client, id: 3, "a") { ($0.alternatives, $0.totalTimeoutMs) = ([other], 1000) }
        #expect(world.after(1001).error(client, 3) == .timeout && world.state.requests.isEmpty)
    }

    /// As after a redirect.
    @Test func `another origin gets no personal headers`() throws {
        let alternatives = [try url("b"), try url("c", of: "other.test"), try url("d")]
        world.get(client, id: 1, "a") {
            $0.alternatives = alternatives
            $0.retries = 0
            $0.credentials = Credentials(username: "user", password: "secret")
            $0.headers = [HeaderField(name: "cookie", value: "a=b"), HeaderField(name: "x", value: "y")]
        }
        for personal in [true, true, false, false] {
            let order = try #require(world.fetches.values.first?.order)
            #expect((order.credentials != nil) == personal)
            #expect(order.headers.contains(HeaderField(name: "cookie", value: "a=b")) == personal)
            #expect(order.headers.contains(HeaderField(name: "x", value: "y")))
            world.failFetch(try #require(world.fetches.keys.first), .tlsFailed)
        }
        #expect(world.error(client, 1) == .tlsFailed)
    }

    /// An alternative's image belongs to its URL, and to its user if it was loaded with the user's rights.
    @Test func `another user's failures and images are not shared`() throws {
        let other = try url("b")
        world.get(client, id: 1, "a") { ($0.alternatives, $0.retries, $0.cookies) = ([other], 0, true) }
        try failFirst()
        #expect(try world.loaded(client, 1, content: 1)?.url == other.text)
        #expect(world.getError(world.stranger, id: 1, "b") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `alternatives count among the weight of requests`() throws {
        let long = try url(String(repeating: "a", count: 5000))
        world.get(client, id: 1, "a") { $0.alternatives = [long, long] }
        #expect(world.state.pendingWeight(of: client) == 10)
        try failFirst()
        #expect(world.state.pendingWeight(of: client) == 10)
        try world.finishLoad(content: 1)
        #expect(world.state.pendingWeight(of: client) == 0)
    }
}

/// Changes of pending requests: their priority, and that they go on without their client.
struct UpdateTests {
    private var (world, client) = StrictWorld.ready {
        ($0.fetchers, $0.transfersPerFetcher, $0.transfersPerOrigin) = (1, 1, 1)
    }.connected()

    private func update(_ request: Int, _ id: Int, priority: GetOptions.Priority? = nil, detach: Bool = false) {
        world.ask(client, id: id, .update(id: id, request: request, priority: priority, detach: detach))
    }

    private var requested: String? { world.fetches.values.first.map { String($0.order.url.suffix(1)) } }

    /// Requests an image, which is to go on without its client.
    private func getDetached(_ id: Int, _ path: String, _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: id, path, change)
        update(id, 100 + id, detach: true)
    }

    @Test func `priorities change among waiting downloads`() throws {
        for id in 1...4 { world.get(client, id: id, "\(id)") }
        update(4, 10, priority: .high)
        update(2, 11, priority: .low)
        #expect(world.answer(client, 10) == .ok(id: 10) && world.answer(client, 11) == .ok(id: 11))
        var order: [String] = []
        for content in 1...4 {
            order.append(requested ?? "")
            try world.finishLoad(content: content)
        }
        #expect(order == ["1", "4", "3", "2"])
    }

    /// The download has the highest priority of its waiters.
    @Test func `a lowered priority leaves that of the others`() throws {
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        world.get(client, id: 4, "3") { $0.priority = .high }
        update(4, 10, priority: .low)
        try world.finishLoad(content: 1)
        #expect(requested == "2")
        update(3, 11, priority: .low)
        world.get(client, id: 5, "5")
        try world.finishLoad(content: 2)
        #expect(requested == "5")
    }

    @Test func `unknown and finished requests are no error`() throws {
        world.load(client, id: 1, "a", content: 1)
        update(1, 2, priority: .high)
        update(77, 3, detach: true)
        #expect(world.answer(client, 2) == .ok(id: 2) && world.answer(client, 3) == .ok(id: 3))
        // A later request of the same number is not detached.
        world.get(client, id: 77, "b")
        world.disconnect(client)
        #expect(world.state.requests.isEmpty)
    }

    @Test mutating func `a detached request is answered, and goes on without its client`() throws {
        getDetached(1, "a")
        getDetached(2, "b")
        #expect(try world.loaded(client, 1, content: 1) != nil)
        world.disconnect(client)
        #expect(requested == "b")
        try world.finishLoad(content: 2)
        #expect(world.state.requests.isEmpty)
        client = world.connect()
        #expect(world.getImage(client, id: 1, "b")?.source == .memory)
        #expect(world.state.report[.cancelled] == 1)
    }

    @Test func `a cancelled detached request ends for its client alone`() throws {
        getDetached(1, "a") { $0.priority = .high }
        #expect(world.cancel(client, 1).error(client, 1) == .cancelled)
        #expect(world.state.pendingWeight(of: client) == 0 && requested == "a")
        // It has become low.
        world.failFetch(try #require(world.fetches.keys.first))
        world.get(client, id: 2, "b")
        try world.after(1_001).finishLoad(content: 2)
        try world.finishLoad(content: 1)
        #expect(world.getImage(client, id: 3, "a")?.source == .memory)
    }

    @Test mutating func `an administrator and the total time end detached requests`() throws {
        for path in ["a", "b"] {
            client = world.connect()
            getDetached(1, path) { $0.totalTimeoutMs = 1000 }
            world.disconnect(client)
            #expect(world.state.requests.count == 1)
            if path == "a" {
                world.happen(.messageReceived(world.admin, .cancelAll(id: 1)))
            } else {
                world.happen(.timePassed, after: 1001)
            }
            #expect(world.state.requests.isEmpty)
        }
    }

    /// A client that comes and goes gets no more than its user's share.
    @Test mutating func `detached requests of a user are limited`() throws {
        for round in 0..<10 {
            client = world.connect()
            for id in 1...20 { getDetached(id, "\(round)-\(id)") }
            world.disconnect(client)
        }
        #expect(world.state.requests.count == 64)
        client = world.connect(uid: 2000)
        getDetached(1, "z")
        world.disconnect(client)
        #expect(world.state.requests.count == 65)
    }

    @Test func `prefetches change, too`() throws {
        try world.prefetch(client, id: 1, 1...20)
        update(1, 2, priority: .high, detach: true)
        world.get(client, id: 3, "x")
        try world.finishLoad(content: 1)
        #expect(requested == "2")
        world.disconnect(client)
        // Those that were begun go on.
        #expect(world.state.requests.count == world.state.limits.prefetchesAtOnce)
    }

    @Test func `the next process keeps the changes`() throws {
        let urls = try ["b", "c"].map { try SourceURL("http://origin.test/\($0)") }
        world.get(client, id: 1, "a") { ($0.maxAgeSeconds, $0.alternatives) = (7, urls) }
        update(1, 2, priority: .high, detach: true)
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        let kept = world.state.kept(client, descriptor: 5)
        #expect(kept.detached == [1])
        let expected = with(GetRequest(id: 1, url: urls[0])) {
            ($0.options.priority, $0.options.maxAgeSeconds, $0.options.alternatives) = (.high, 7, [urls[1]])
        }
        #expect(kept.input == (try ClientMessage.get(expected).encoded()))
        // The request is detached before it comes.
        let next = world.connect()
        world.state.restore(kept, of: next)
        world.get(next, id: 1, "q")
        world.disconnect(next)
        #expect(world.state.requests.count == 2)
    }
}

/// Races between two events, each found by code review.
struct RaceTests {
    private var (world, client) = StrictWorld.ready { $0.usesDisk = true }.connected()

    private func quietDisk() { for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) } }

    /// Loads the image "a", which is not saved on disk.
    private func load(_ change: (inout ResponseRecord) -> Void = { _ in }) {
        world.load(client, id: 1, "a", content: 1, response: change)
        quietDisk()
    }

    /// Begins the transfer of the image "a", which is not on disk.
    private func begin() throws -> JobID {
        world.get(client, id: 1, "a")
        quietDisk()
        return try #require(world.fetches.keys.first)
    }

    /// Whether a user's request finds the image "a" neither in memory nor on disk.
    private func isMissing(for client: ClientID, id: Int) -> Bool {
        world.get(client, id: id, "a") { $0.cache = .onlyIfCached }
        quietDisk()
        return world.error(client, id) == .notCached
    }

    @Test func `a shutdown does not wait for the rest of a prefetch`() throws {
        try world.prefetch(client, id: 1, 1...100)
        quietDisk()
        world.happen(.shutdownRequested)
        #expect(world.after(5_000).state.requests.isEmpty)
        for job in world.stopping.keys { world.endStopping(job, received: 0) }
        #expect(world.after(5_000).hasExited)
    }

    @Test func `a client's impatience does not close an origin to others`() {
        for id in 1...20 {
            world.get(client, id: id, "a\(id)") { ($0.timeoutMs, $0.cache) = (1, .reload) }
            #expect(world.after(2).error(client, id) == .timeout)
        }
        let now = world.clock
        #expect(world.state.downloads.delay(of: "http://origin.test", for: 1000, until: now, at: now) == nil)
    }

    @Test func `an origin that is silent repeatedly is not contacted for a while`() {
        for id in 1...5 {
            world.get(client, id: id, "a\(id)") { $0.cache = .reload }
            #expect(world.after(15_000).error(client, id) == .timeout)
        }
        #expect(world.getError(client, id: 6, "a6") { $0.cache = .reload } == .hostUnavailable)
    }

    @Test func `a confirmation is an answer of the origin`() throws {
        load { ($0.cacheControl, $0.etag) = ("no-cache", "\"one\"") }
        for id in 2...9 {
            world.get(client, id: id, "a\(id)") { $0.cache = .reload }
            #expect(world.after(15_000).error(client, id) == .timeout)
            if id != 5 { continue }
            world.get(client, id: 10, "a")
            world.confirm(try #require(world.fetches.keys.first))
        }
    }

    @Test func `a confirmation that makes an image private takes it from the others`() throws {
        load { ($0.cacheControl, $0.etag) = ("max-age=1", "\"one\"") }
        try world.after(2_000).confirm(client, id: 2, "a", response: { $0.cacheControl = "private, max-age=1000" })
        // The response is private now, so it is downloaded again for this user.
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == nil)
        world.finishFetch(job, content: 1) { $0.cacheControl = "private, max-age=1000" }
        #expect(try world.decoded(client, 2) != nil && isMissing(for: world.stranger, id: 1))
    }

    @Test func `a confirmation of another version is rejected`() throws {
        load { ($0.cacheControl, $0.etag) = ("no-cache", "\"one\"") }
        try world.confirm(client, id: 2, "a", response: { $0.etag = "\"two\"" })
        #expect(world.fetches.values.first?.order.conditions == nil)
        #expect(world.answers[client]?[2] == nil)
    }

    @Test func `a late answer of the disk tier answers no other request`() throws {
        try world.remove(client, id: 7, "a")
        try world.after(5_001).query(client, id: 7, "b")
        #expect(!world.lastActions.contains { if case .reply = $0 { true } else { false } })
        world.answerDiskJob(try #require(world.diskJobs.first { $0.value.kind == .forget }?.key), content: nil)
        #expect(!world.lastActions.contains { if case .reply = $0 { true } else { false } })
        quietDisk()
        #expect(world.lastReplies(to: client).contains { if case .queried(7, _) = $0 { true } else { false } })
    }

    @Test func `a malformed message with the id of a pending request is answered without an id`() {
        world.get(client, id: 5, "a")
        world.happen(.messageRejected(client, id: 5, WireError(.badRequest, "It is wrong.")))
        #expect(world.lastError(nil, to: client) == .badRequest)
        #expect(world.clients[client]?.contains(5) == true)
    }

    @Test func `the stale original is served for a silent origin, where that is allowed`() throws {
        load { $0.cacheControl = "max-age=1, stale-if-error=1000" }
        world.after(2_000).get(client, id: 2, "a") { $0.timeoutMs = 100 }
        #expect(world.after(101).image(client, 2)?.stale == true)
    }

    @Test func `a failed reload does not prevent the use of the cached bytes`() throws {
        load()
        try world.refuse(client, id: 2, "a", status: 403) { $0.cache = .reload }
        #expect(world.error(client, 2) == .httpStatus)
        world.get(client, id: 3, "a") { $0.variant.pixelFormat = .bgra8 }
        quietDisk()
        #expect(try world.decoded(client, 3)?.source == .memory)
    }

    @Test func `an original that is gone at a reload is removed from the cache`() throws {
        load()
        try world.refuse(client, id: 2, "a", status: 410) { $0.cache = .reload }
        #expect(isMissing(for: client, id: 3))
    }

    @Test func `an old version is not served after a newer one was loaded`() throws {
        load()
        world.load(client, id: 2, "a", content: 2) { ($0.cache, $0.storage) = (.reload, .disk) }
        quietDisk()
        world.get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil)
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 2) }
        #expect(try world.decoded(client, 3)?.source == .disk)
    }

    @Test func `the end of one version is not appended to the beginning of another`() throws {
        let job = try begin()
        world.respond(job, validator: "\"one\"", total: 3000)
        world.cutFetch(job, received: 1000)
        #expect(world.fetches[job]?.order.resumption?.validator == "\"one\"")
        let worker = try #require(world.fetches[job]?.worker)
        // The origin restarts the body; before that is known, the last waiter cancels.
        world.cancel(client, 1)
        world.happen(.fetchResponded(worker, job, world.response(), validator: "\"two\"", total: 2000))
        world.endStopping(job, received: 500)
        world.get(client, id: 3, "a")
        quietDisk()
        #expect(
            world.fetches[job]?.order.resumption == FetchJob.Resumption(offset: 500, validator: "\"two\"", total: 2000))
    }

    @Test func `what a user removes is not continued`() throws {
        world.get(client, id: 1, "a")
        quietDisk()
        let job = try #require(world.fetches.keys.first)
        world.respond(job, validator: "\"one\"", total: 3000)
        world.cutFetch(job, received: 1000)
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        world.endStopping(job, received: 1000)
        #expect(world.state.downloads.keptBodyJobs == [job])
        try world.remove(client, id: 3, "a")
        #expect(world.state.downloads.keptBodyJobs.isEmpty && !world.products.contains(job))
    }

    @Test func `a body whose continuation died before a header is discarded`() throws {
        let job = try begin()
        world.respond(job, validator: "\"one\"", total: 3000)
        world.cutFetch(job, received: 1000)
        world.endWorker(try #require(world.fetches[job]?.worker), .ended(.signal(9)))
        #expect(world.fetches[job]?.order.resumption == nil)
    }

    @Test func `a worker that does not stop a transfer is killed`() throws {
        let job = try begin()
        let worker = try #require(world.fetches[job]?.worker)
        world.receive(job, 100)
        #expect(world.cancel(client, 1).after(10_001).workers[worker]?.state == .dying)
        world.endWorker(worker, .ended(.signal(9)))
        #expect(world.state.downloads.stopping.isEmpty)
    }

    @Test func `another user's remove does not affect a store in flight`() throws {
        try world.store(client, id: 1, "a", bytes: 1000)
        world.identify(try #require(world.identifying.keys.first), content: 1)
        try world.remove(world.stranger, id: 1, "a")
        quietDisk()
        try world.decode()
        #expect(world.lastReplies(to: client).contains(.ok(id: 1)))
        world.get(client, id: 2, "a") { $0.cache = .onlyIfCached }
        quietDisk()
        if !world.decodes.isEmpty { try world.decode() }
        #expect(world.image(client, 2) != nil)
    }
}

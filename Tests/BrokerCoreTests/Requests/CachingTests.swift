import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Which responses are cached, and when a cached one answers a request.
struct CachingTests {
    private var (world, client) = StrictWorld.ready().connected()

    /// Loads an image of 10 × 10 pixels.
    private func load(_ id: Int, _ path: String, content: Int = 1, _ change: (inout ResponseRecord) -> Void) throws {
        #expect(world.load(client, id: id, path, content: content, response: change)?.source == .network)
    }

    @Test func `a fresh original is served without asking the origin`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=10" }
        world.after(9_000).get(client, id: 2, "a")
        let image = try #require(world.image(client, 2))
        #expect(image.source == .memory && !image.stale)
        #expect(image.expires == world.unixMs / 1000 + 1)
    }

    @Test func `a stale original is revalidated, and not decoded again`() throws {
        try load(1, "a") { ($0.cacheControl, $0.etag) = ("max-age=10", "\"one\"") }
        world.after(10_000).get(client, id: 2, "a")
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == RequestConditions(etag: "\"one\""))
        world.confirm(job) { $0.cacheControl = "max-age=20" }
        #expect(world.decodes.isEmpty)
        let image = try #require(world.image(client, 2))
        #expect((image.source, image.expires) == (.memory, world.unixMs / 1000 + 20))
        #expect(world.state.report[.revalidated] == 1)
        // It is fresh again.
        #expect(world.getImage(client, id: 3, "a")?.source == .memory)
        #expect(world.fetches.isEmpty)
    }

    @Test func `new bytes replace old ones, equal bytes keep their variants`() throws {
        try load(1, "a") { $0.cacheControl = "no-cache" }
        try world.download(client, id: 2, "a", content: 1, response: { $0.cacheControl = "no-cache" })
        #expect(world.decodes.isEmpty)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        try world.download(client, id: 3, "a", content: 2, response: { $0.cacheControl = "no-cache" })
        #expect(world.decodes.count == 1)
    }

    @Test func `the stale image is served while it is revalidated once`() throws {
        let policy = "max-age=1, stale-while-revalidate=60"
        try load(1, "a") { $0.cacheControl = policy }
        world.happen(.timePassed, after: 2_000)
        for id in 2...9 { #expect(world.getImage(client, id: id, "a")?.stale == true) }
        #expect(world.fetches.count == 1 && world.state.report[.staleServed] == 8)
        try world.finishFetch(content: 1) { $0.cacheControl = policy }
        #expect(world.getImage(client, id: 10, "a")?.stale == false)
        #expect(world.state.requests.isEmpty)
    }

    @Test func `an original just received or confirmed is not stale`() throws {
        try load(1, "a") { ($0.cacheControl, $0.etag) = ("max-age=0", "\"one\"") }
        #expect(world.image(client, 1)?.stale == false)
        try world.confirm(client, id: 2, "a", response: { $0.cacheControl = "max-age=0" })
        #expect(world.image(client, 2)?.stale == false)
        #expect(world.getImage(client, id: 3, "a") { $0.cache = .forceCache }?.stale == true)
        #expect(world.state.report[.staleServed] == 1)
    }

    @Test func `a failure is answered with the stale image where the origin allows it`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1, stale-if-error=60" }
        try world.after(2_000).refuse(client, id: 2, "a", status: 500)
        #expect(world.image(client, 2)?.stale == true)
        try world.after(60_000).refuse(client, id: 3, "a", status: 500)
        #expect(world.error(client, 3) == .httpStatus)
    }

    @Test func `staleFirst sends the cached image, then exactly one answer`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1000" }
        world.get(client, id: 2, "a") { ($0.cache, $0.staleFirst) = (.noCache, true) }
        let shown = (world.news[client] ?? []).compactMap { (reply: Reply) -> ImageReply? in
            if case .image(2, let image) = reply { image } else { nil }
        }
        #expect((shown.count, shown.first?.final) == (1, false))
        #expect(world.answers[client]?[2] == nil)
        try world.finishLoad(content: 2)
        #expect(world.image(client, 2)?.source == .network && world.image(client, 2)?.buffer != shown.first?.buffer)
    }

    @Test func `no-store does not change the cache`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1000" }
        world.load(client, id: 2, "a", content: 2) { $0.cache = .noStore }
        #expect(world.getImage(client, id: 3, "a")?.buffer == world.image(client, 1)?.buffer)
    }

    @Test(arguments: [false, true])
    func `a private response, or redirect, is for the first user, and the others download their own`(
        isRedirect: Bool
    ) throws {
        let way = redirect("private, max-age=100")
        let users = [client, world.connect(uid: 2000)]
        for user in users { world.get(user, id: 1, "a") }
        for content in 1...2 {
            #expect(world.fetches.count == 1)
            try world.finishFetch(content: content) {
                if isRedirect {
                    ($0.redirects, $0.finalURL) = ([way], "http://origin.test/\(content)")
                } else {
                    $0.cacheControl = "private, max-age=100"
                }
            }
        }
        world.decodeAll()
        #expect(world.image(users[0], 1)?.buffer != world.image(users[1], 1)?.buffer)
        // Each user finds their own image; a third user finds none.
        for user in users { #expect(world.getImage(user, id: 2, "a")?.buffer == world.image(user, 1)?.buffer) }
        let third = world.connect(uid: 3000)
        #expect(world.getError(third, id: 1, "a") { $0.cache = .onlyIfCached } == .notCached)
    }

    /// A redirect that arrives now.
    private func redirect(_ cacheControl: String?, vary: String? = nil) -> Redirect {
        Redirect(
            ResponseRecord(
                status: 302, requestedAt: world.unixMs, receivedAt: world.unixMs, cacheControl: cacheControl,
                vary: vary))
    }

    @Test(arguments: [false, true])
    func `an original or a redirect that must not be stored is followed and forgotten`(isRedirect: Bool) throws {
        let ways = isRedirect ? [redirect("no-store")] : []
        try load(1, "a") { ($0.cacheControl, $0.redirects) = (isRedirect ? "max-age=3600" : "no-store", ways) }
        #expect(world.state.report[.memoryEntries] == 0)
        #expect(world.getError(client, id: 2, "a") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `a stale redirect is asked for again, with the validators of its target`() throws {
        let way = redirect("max-age=10")
        try load(1, "a") {
            ($0.cacheControl, $0.etag) = ("max-age=3600", "\"b\"")
            ($0.redirects, $0.finalURL) = ([way], "http://origin.test/b")
        }
        #expect(world.getImage(client, id: 2, "a")?.source == .memory)
        world.after(10_000).get(client, id: 3, "a")
        let job = try #require(world.fetches.keys.first)
        #expect(world.fetches[job]?.order.conditions == RequestConditions(etag: "\"b\"", url: "http://origin.test/b"))
        // The way there is another one now, and fresh for longer.
        let newWay = redirect("max-age=1000")
        world.confirm(job) { ($0.redirects, $0.finalURL) = ([newWay], "http://origin.test/b") }
        #expect(world.after(900_000).getImage(client, id: 4, "a")?.source == .memory)
        #expect(world.fetches.isEmpty)
    }

    @Test func `a redirect's Vary selects what it led to`() throws {
        let way = redirect("max-age=1000", vary: "Accept")
        try load(1, "a") { ($0.redirects, $0.finalURL) = ([way], "http://origin.test/b") }
        let original = world.state.memory.keys { _ in true }.first.flatMap { world.state.memory.original($0) }
        #expect(original?.origin.varyKey?.hasPrefix("accept: ") == true)
    }

    @Test func `reload does not send validators`() throws {
        try load(1, "a") { $0.etag = "\"one\"" }
        world.get(client, id: 2, "a") { $0.cache = .noCache }
        world.get(client, id: 3, "a") { $0.cache = .reload }
        world.get(client, id: 4, "a") { $0.cache = .reload }
        #expect(world.fetches.count == 2)
        #expect(world.fetches.values.count { $0.order.conditions == nil } == 1)
        // Intermediate caches get the same directive.
        let told = world.fetches.values.compactMap { $0.order.headers.first { $0.name == "cache-control" }?.value }
        #expect(told.sorted() == ["max-age=0", "no-cache"])
    }

    @Test func `a body that was cut short is continued, also by the next request`() throws {
        world.get(client, id: 1, "a")
        let job = try #require(world.fetches.keys.first)
        world.respond(job, total: 3000)
        world.cutFetch(job, received: 1000)
        #expect(world.fetches[job]?.order.resumption?.offset == 1000)
        world.respond(job, status: 206, total: 3000)
        world.progress(job, received: 2000, expected: 3000)
        world.cancel(client, 1)
        world.endStopping(job, received: 2000)
        world.get(client, id: 2, "a")
        #expect(
            world.fetches[job]?.order.resumption == FetchJob.Resumption(offset: 2000, validator: "\"v\"", total: 3000))
        world.finishFetch(job, content: 1, bytes: 3000) { $0.status = 206 }
        #expect(world.decodes.count == 1)
    }

    @Test func `a recent failure is tried again only with retryFailed`() throws {
        try world.refuse(client, id: 1, "a", status: 404)
        #expect(world.failure(client, 1)?.recentlyFailed == true)
        #expect(world.getError(client, id: 2, "a") == .recentlyFailed)
        #expect(world.fetches.isEmpty)
        world.load(client, id: 3, "a", content: 1) { $0.retryFailed = true }
        #expect(world.state.report[.recentlyFailedURLs] == 0)
    }

    /// Loads a body that is no image. Returns whether the failure is remembered for the asking user, and for another
    /// one.
    private func loadBad(_ path: String, _ change: (inout ResponseRecord) -> Void) throws -> [Bool] {
        let client = world.connect()
        try world.download(client, id: 1, path, content: 9, response: change)
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(world.error(client, 1) == .decodeFailed)
        return try isRemembered(path)
    }

    /// Whether a recent failure is remembered for the first user, and for another one.
    private func isRemembered(_ path: String) throws -> [Bool] {
        [world.connect(), world.connect(uid: 2000)].map { asking in
            world.get(asking, id: 1, path)
            guard let job = world.fetches.keys.first else { return world.error(asking, 1) == .recentlyFailed }
            #expect(world.cancel(asking, 1).fetches[job] == nil)
            return false
        }
    }

    @Test func `a body that is no image is remembered as its response allows`() throws {
        #expect(try loadBad("a") { $0.cacheControl = nil } == [true, true])
        #expect(try loadBad("b") { $0.cacheControl = "no-store" } == [false, false])
        #expect(try loadBad("c") { $0.cacheControl = "no-cache" } == [false, false])
        #expect(try loadBad("d") { $0.cacheControl = "private" } == [true, false])
        #expect(try loadBad("e") { $0.cacheControl = "max-age=0" } == [false, false])
        #expect(try loadBad("f") { $0.cacheControl = "max-age=5" } == [true, true])
        world.happen(.timePassed, after: 5_000)
        #expect(try isRemembered("f") == [false, false])
        let way = redirect("private, max-age=60")
        #expect(try loadBad("g") { $0.redirects = [way] } == [true, false])
    }

    @Test func `a redirect that is asked for each time does not lengthen a failure`() throws {
        for (id, path, way) in [(1, "a", redirect(nil)), (2, "b", redirect("max-age=3600"))] {
            try world.refuse(
                client, id: id, path, status: 404,
                response: { ($0.cacheControl, $0.redirects) = ("max-age=3600", [way]) })
            #expect(world.error(client, id) == .httpStatus)
        }
        world.happen(.timePassed, after: 59_000)
        #expect(try isRemembered("a") == [true, true])
        world.happen(.timePassed, after: 1_000)
        #expect(try isRemembered("a") == [false, false])
        #expect(try isRemembered("b") == [true, true])
    }

    @Test func `a failure that varies by cookies from the jar is not remembered`() throws {
        for (id, vary, isRemembered) in [(1, "Cookie", false), (3, "Accept", true)] {
            try world.refuse(
                client, id: id, vary, status: 404, { $0.cookies = true },
                response: { ($0.cacheControl, $0.vary) = ("max-age=3600", vary) })
            world.get(client, id: id + 1, vary) { $0.cookies = true }
            #expect(world.fetches.isEmpty == isRemembered)
            for job in world.fetches.keys { world.failFetch(job, status: 404) }
            #expect(world.error(client, id + 1) == (isRemembered ? .recentlyFailed : .httpStatus))
        }
    }

    @Test func `a private failure is its user's, and others load for themselves`() throws {
        world.get(client, id: 1, "a")
        world.get(world.stranger, id: 1, "a")
        world.failFetch(try #require(world.fetches.keys.first), status: 404) { $0.cacheControl = "private" }
        #expect(world.error(client, 1) == .httpStatus && world.answers[world.stranger]?[1] == nil)
        #expect(try world.loaded(world.stranger, 1, content: 1)?.source == .network)
        #expect(world.getError(client, id: 2, "a") == .recentlyFailed)
        // A success ends it.
        world.load(client, id: 3, "a", content: 1) { $0.retryFailed = true }
        #expect(world.image(client, 3) != nil && world.state.report[.recentlyFailedURLs] == 0)
    }

    @Test func `a reload that brings no image keeps the good one`() throws {
        for (number, policy) in ["max-age=1000", "no-store"].enumerated() {
            let (path, id) = ("\(number)", 10 * number)
            try load(id + 1, path, content: 1 + number) { $0.cacheControl = "max-age=1000" }
            try world.download(
                client, id: id + 2, path, content: 50 + number, { $0.cache = .reload },
                response: { $0.cacheControl = policy })
            world.failDecode(try #require(world.decodes.keys.first))
            #expect(world.error(client, id + 2) == .decodeFailed)
            #expect(world.getImage(client, id: id + 3, path)?.buffer == world.image(client, id + 1)?.buffer)
            // In another form too, although the URL has failed recently.
            world.get(client, id: id + 4, path) { $0.variant.width = 5 }
            #expect(try world.decoded(client, id + 4)?.source == .memory)
        }
        #expect(world.state.trials.isEmpty && world.state.memory.keys { $0.nonce != 0 }.isEmpty)
    }

    @Test func `reloads of two URLs that bring the same bytes, no image, keep both good ones`() throws {
        for (id, path) in [(1, "a"), (2, "b")] { try load(id, path, content: id) { $0.cacheControl = "max-age=1000" } }
        // One of them brings other such bytes meanwhile, when the header of the first ones was read.
        for (id, path, content) in [(3, "a", 50), (4, "b", 50), (5, "b", 51)] {
            if id == 4 { _ = try world.readHeader() }
            try world.download(
                client, id: id, path, content: content, { $0.cache = .reload },
                response: { $0.cacheControl = "max-age=1000" })
        }
        for job in world.decodes.keys.sorted() { world.failDecode(job) }
        for (id, path) in [(1, "a"), (2, "b")] {
            #expect(world.error(client, id + 2) == .decodeFailed)
            #expect(world.getImage(client, id: id + 6, path)?.buffer == world.image(client, id)?.buffer)
        }
        #expect(world.state.trials.isEmpty && world.state.memory.keys { $0.nonce != 0 }.isEmpty)
    }

    @Test func `a refresh that brings no image keeps the good one`() throws {
        let policy = "max-age=1, stale-while-revalidate=60"
        try load(1, "a") { $0.cacheControl = policy }
        try world.after(2_000).download(client, id: 2, "a", content: 9, response: { $0.cacheControl = policy })
        world.failDecode(try #require(world.decodes.keys.first))
        let kept = world.getImage(client, id: 3, "a") { $0.cache = .onlyIfCached }
        #expect(kept?.buffer == world.image(client, 1)?.buffer)
        #expect(world.state.requests.isEmpty && world.state.trials.isEmpty)
    }

    @Test
    func `requests during a reload find the new bytes, which replace the old ones when they are an image`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1000" }
        try world.download(client, id: 2, "a", content: 2) { $0.cache = .reload }
        world.get(client, id: 3, "a")
        #expect(world.fetches.isEmpty && world.decodes.count == 1)
        #expect(try world.decoded(client, 2)?.buffer == world.image(client, 3)?.buffer)
        #expect(world.image(client, 3)?.buffer != world.image(client, 1)?.buffer)
        #expect(world.state.trials.isEmpty && world.state.memory.keys { $0.nonce != 0 }.isEmpty)
    }

    @Test func `a reload that must not be kept ends the old image all the same`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1000" }
        try world.download(
            client, id: 2, "a", content: 2, { $0.cache = .reload }, response: { $0.cacheControl = "no-store" })
        #expect(try world.decoded(client, 2) != nil)
        world.get(client, id: 3, "a")
        #expect(world.fetches.count == 1)
    }

    @Test func `a reload that nobody waits for any more keeps the good image`() throws {
        try load(1, "a") { $0.cacheControl = "max-age=1000" }
        // All decoders are busy, so that the new bytes are not decoded yet.
        for id in 20..<40 { try world.download(client, id: id, "busy\(id)", content: id) }
        try world.download(client, id: 2, "a", content: 2) { $0.cache = .reload }
        #expect(world.cancel(client, 2).getImage(client, id: 4, "a")?.buffer == world.image(client, 1)?.buffer)
        #expect(world.state.trials.isEmpty)
    }

    @Test func `a failed transfer is retried once before its requests fail`() throws {
        try world.refuse(client, id: 1, "a", status: 503)
        #expect(world.fetches.isEmpty)
        world.failFetch(try #require(world.after(1_001).fetches.keys.first), status: 503)
        #expect(world.error(client, 1) == .httpStatus)
    }

    @Test func `a download without waiters is not retried`() throws {
        try world.refuse(client, id: 1, "a", status: 503)
        #expect(world.cancel(client, 1).after(5_000).fetches.isEmpty && world.state.downloads.active.isEmpty)
    }

    @Test func `cancelled requests leave nothing behind, not even a deadline`() {
        for id in 1...10_000 {
            world.get(client, id: 2 * id, "a") { $0.totalTimeoutMs = 86_400_000 }
            world.cancel(client, 2 * id)
        }
        #expect(world.state.deadlines.count < 5_000)
    }

    @Test func `a joiner raises a job's priority, and its leaving lowers it`() throws {
        var priority: GetOptions.Priority? { world.state.downloads.active.values.first?.priority }
        world.happen(.messageReceived(world.admin, .suspend(id: 1)))
        world.get(client, id: 1, "a") { $0.priority = .low }
        world.get(client, id: 2, "a") { $0.priority = .high }
        #expect(priority == .high)
        world.cancel(client, 2)
        #expect(priority == .low)
    }

    @Test func `while the broker is suspended, hits are served`() throws {
        try load(1, "a") { _ in }
        world.happen(.messageReceived(world.admin, .suspend(id: 1)))
        #expect(world.getImage(client, id: 2, "a")?.source == .memory)
        world.get(client, id: 3, "b")
        #expect(world.fetches.isEmpty)
        world.happen(.messageReceived(client, .resume(id: 4)))
        #expect(world.fetches.isEmpty)
        world.happen(.messageReceived(world.admin, .resume(id: 2)))
        #expect(world.fetches.count == 1)
    }

    @Test func `a user's cookies are sent with that user's requests alone`() throws {
        world.get(client, id: 1, "a") { $0.cookies = true }
        let (job, fetch) = try #require(world.fetches.first)
        #expect(fetch.order.cookies == [])
        let line = "origin.test\tFALSE\t/\tFALSE\t0\tname\tvalue"
        let failure = FetchFailure(
            WireError(.httpStatus, "It answered 403.", httpStatus: 403), cookies: CookieChanges(changed: [line]))
        world.fetches[job] = nil
        world.happen(.fetchFailed(fetch.worker, job, failure))
        for (asking, wantsCookies, sent) in [(client, true, [line]), (world.stranger, true, []), (client, false, nil)] {
            world.get(asking, id: 2, wantsCookies ? "b" : "c") { $0.cookies = wantsCookies }
            #expect(world.fetches.values.map(\.order.cookies) == [sent])
            world.failFetch(try #require(world.fetches.keys.first), status: 403)
        }
    }
}

/// Concurrent requests share one download per original and one decoding per result.
struct CoalescingTests {
    private var (world, client) = StrictWorld.ready { ($0.fetchers, $0.workers) = (1, 2) }.connected()

    @Test func `many clients and variants cause one download and one decoding each`() throws {
        let world = StrictWorld.ready { ($0.fetchers, $0.workers) = (1, 3) }
        let clients = (0..<10).map { _ in world.connect() }
        let formats: [(PixelFormat, AlphaMode)] = [
            (.bgra8, .premultiplied), (.rgba8, .straight), (.rgba8, .premultiplied),
        ]
        for (index, client) in clients.enumerated() {
            world.get(client, id: 1, "a") { ($0.variant.pixelFormat, $0.variant.alpha) = formats[index % 3] }
        }
        #expect(world.fetches.count == 1)
        try world.finishFetch(content: 7)
        #expect(world.decodes.count == 3)
        world.decodeAll()
        for client in clients { #expect(world.image(client, 1)?.source == .network) }
        let report = world.state.report
        #expect(report[.networkLoads] == 1 && report[.coalesced] == 9)
        #expect(report[.downloads] == 1 && report[.decodes] == 3)
        // The original and three images.
        #expect(world.buffers.count == 4)
    }

    @Test func `a later get is a memory hit, and a second one on the connection brings no descriptor`() throws {
        #expect(world.load(client, id: 1, "a", content: 1)?.descriptors == 1)
        let second = try #require(world.getImage(client, id: 2, "a"))
        #expect((second.source, second.descriptors) == (.memory, 0))
        #expect(second.buffer == world.image(client, 1)?.buffer)
        #expect(world.getImage(world.stranger, id: 1, "a")?.descriptors == 1)
        #expect(world.state.report[.memoryHits] == 2)
    }

    @Test func `another variant of a cached original is decoded without a download`() throws {
        world.load(client, id: 1, "a", content: 1)
        world.get(client, id: 2, "a") { $0.variant.alpha = .straight }
        #expect(world.fetches.isEmpty)
        #expect(try world.decoded(client, 2)?.source == .memory)
    }

    @Test func `two URLs of equal bytes share their pixels`() throws {
        world.load(client, id: 1, "a", content: 5)
        try world.download(client, id: 2, "b", content: 5)
        #expect(world.decodes.isEmpty)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        #expect((world.state.report[.downloads], world.state.report[.decodes]) == (2, 1))
    }

    @Test func `different headers, credentials and users with rights never share`() throws {
        let accept: (inout GetOptions) -> Void = { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        let cookie: (inout GetOptions) -> Void = { $0.headers = [HeaderField(name: "cookie", value: "s=1")] }
        let (first, second) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2, isAdmin: true))
        world.get(first, id: 1, "a")
        world.get(first, id: 2, "a", accept)
        world.get(first, id: 3, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        world.get(first, id: 4, "a") { $0.credentials = Credentials(username: "u", password: "q") }
        world.get(second, id: 5, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        for client in [first, second] { world.get(client, id: 6, "a", cookie) }
        #expect(world.fetches.count == 6 && world.state.downloads.queued == 1)
        world.get(second, id: 8, "a")
        world.get(second, id: 9, "a", accept)
        #expect(world.fetches.count + world.state.downloads.queued == 7)
    }

    @Test func `a waiter that leaves does not affect others, the last one stops the transfer`() throws {
        let clients = (0..<3).map { _ in world.connect() }
        for client in clients { world.get(client, id: 1, "a") }
        #expect(world.cancel(clients[0], 1).error(clients[0], 1) == .cancelled)
        world.disconnect(clients[1])
        #expect(world.fetches.count == 1)
        #expect(world.cancel(clients[2], 1).fetches.isEmpty)
        #expect(world.lastActions.contains { if case .stopFetch = $0 { true } else { false } })
        #expect(world.state.report[.cancelled] == 3)
        // The same image can be downloaded again at once.
        world.load(clients[2], id: 3, "a", content: 1)
        #expect(world.image(clients[2], 3) != nil)
    }

    @Test func `an error goes to all waiters and is not cached`() throws {
        let clients = (0..<3).map { _ in world.connect() }
        for client in clients { world.get(client, id: 1, "a") }
        world.failFetch(try #require(world.fetches.keys.first), .dnsFailed)
        for client in clients { #expect(world.error(client, 1) == .dnsFailed) }
        world.get(clients[0], id: 2, "a")
        #expect(world.fetches.count == 1)
    }

    @Test func `reload downloads again and keeps the pixels of equal bytes`() throws {
        world.load(client, id: 1, "a", content: 1)
        try world.download(client, id: 2, "a", content: 1) { $0.cache = .reload }
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        #expect(world.load(client, id: 3, "a", content: 2, width: 20) { $0.cache = .reload }?.width == 20)
        #expect(world.getImage(client, id: 4, "a")?.width == 20)
    }

    @Test func `the original is described once and delivered as received`() throws {
        world.load(client, id: 1, "a", content: 1, bytes: 1234, width: 3, height: 4) { $0.representation = .original }
        let image = try #require(world.image(client, 1))
        #expect(image.bytes == 1234 && image.width == 3 && image.pixels == nil && image.descriptors == 1)
        #expect(world.getImage(client, id: 2, "a") { $0.representation = .original }?.descriptors == 0)
    }

    @Test func `an original removed during its decoding reaches its waiters and no later request`() throws {
        try world.download(client, id: 1, "a", content: 1)
        let job = try world.readHeader()
        try world.remove(client, id: 9, "a")
        world.finishDecode(job)
        #expect(world.image(client, 1)?.descriptors == 1 && world.buffers.isEmpty)
        #expect(world.getError(client, id: 2, "a") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `a body from a forbidden address is rejected`() throws {
        world.get(client, id: 1, "a")
        try world.finishFetch(content: 1, from: "10.0.0.1")
        #expect(world.error(client, 1) == .forbiddenAddress && world.buffers.isEmpty)
    }
}

import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Downloads` in isolation.
struct DownloadsTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let worker = WorkerID(number: 1)
    private let job = JobID(number: 1)

    private func downloads(seed: UInt64 = 1, _ change: (inout BrokerLimits) -> Void = { _ in }) -> Downloads {
        Downloads(limits: with(BrokerLimits(), change), seed: seed)
    }

    /// A download that one request waits for.
    private func download(_ path: String = "a") throws -> Download {
        let key = try originalKey(path)
        return Download(DownloadKey(original: key, isForced: false), url: key.url, waiter: jobWaiter(1))
    }

    /// Queues a download of "a" as `job`, and starts it.
    private func start(_ downloads: inout Downloads) throws {
        let begun = downloads.enqueue(try download(), newJob: { job }, at: now)
        #expect(begun == job && downloads.queue.pop() == job)
        guard case .transfer? = downloads.start(job, on: worker, at: now) else {
            return complain("the download did not start")
        }
    }

    @Test func `a forced request joins only a download that brings the body`() throws {
        var downloads = downloads()
        try start(&downloads)
        let joined = downloads.join(try originalKey(), isForced: true, jobWaiter(2))
        #expect(joined?.job == job)
        #expect(downloads[job]?.waiters.count == 2)
        #expect(downloads.join(try originalKey("b"), isForced: false, jobWaiter(3)) == nil)
        #expect(downloads.brokenInvariant() == nil)
    }

    @Test func `a retry waits for its delay, which follows from the seed`() throws {
        func delay(seed: UInt64) throws -> Instant? {
            var downloads = downloads(seed: seed)
            try start(&downloads)
            let error = WireError(.connectFailed, "Refused.")
            let outcomes = downloads.failed(job, error, received: 0, at: now) ?? []
            #expect(downloads[job]?.retryAt != nil && downloads.queued == 0)
            for case .deadline(.retry, let at) in outcomes {
                #expect(downloads.retryDue(job, at: at) == nil && downloads.queued == 1)
                return at
            }
            return nil
        }
        #expect(try delay(seed: 1) != nil)
        #expect(try delay(seed: 1) == delay(seed: 1))
        #expect(try delay(seed: 1) != delay(seed: 2))
    }

    @Test func `an origin that shares connections gets more transfers, until it does not any more`() throws {
        var downloads = downloads { ($0.transfersPerOrigin, $0.multiplexedTransfersPerOrigin) = (2, 5) }
        for number in 1...9 {
            _ = downloads.enqueue(try download("\(number)"), newJob: { JobID(number: number) }, at: now)
        }
        func startAll() -> Int {
            var count = 0
            while let job = downloads.queue.pop() {
                _ = downloads.start(job, on: worker, at: now)
                count += 1
            }
            return count
        }
        func respond(_ number: Int, isMultiplexed: Bool?) {
            let response = ResponseRecord(status: 200, requestedAt: 0, receivedAt: 0)
            _ = downloads.responded(
                JobID(number: number), response, validator: nil, total: 100, isMultiplexed: isMultiplexed, at: now)
        }
        // A user has a share of both.
        #expect(startAll() == 1)
        respond(1, isMultiplexed: true)
        #expect(startAll() == 3)
        // What another origin has answered says nothing of this one.
        respond(2, isMultiplexed: nil)
        _ = downloads.end(JobID(number: 1))
        #expect(startAll() == 1)
        respond(3, isMultiplexed: false)
        _ = downloads.end(JobID(number: 2))
        #expect(startAll() == 0)
        #expect(downloads.brokenInvariant() == nil)
    }
}

/// Users' shares of the running transfers, and silent transfers that give way to others.
struct TransferShareTests {
    private var world = StrictWorld.ready { ($0.workers, $0.maxKeptBodyBytes) = (1, 1 << 20) }

    /// Requests images that the client waits ten minutes for, each from an origin of its own, or all from one.
    private func get(_ client: ClientID, _ ids: ClosedRange<Int>, of host: String? = nil) {
        for id in ids {
            world.get(client, id: id, "\(client)-\(id)", of: host ?? "\(client)-\(id).test") {
                ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000)
            }
        }
    }

    private func fetch(_ client: ClientID, _ id: Int) -> JobID? {
        world.fetches.first { $0.value.order.url.hasSuffix("/\(client)-\(id)") }?.key
    }

    private func failures(_ client: ClientID) -> Int { world.answers[client]?.count ?? 0 }

    /// Fails a transfer, without another attempt.
    private func fail(_ job: JobID?) throws { world.failFetch(try #require(job), .tooLarge) }

    // MARK: Shares

    @Test(arguments: [(nil, 66, 51, false), ("a.test", 9, 4, true)] as [(String?, Int, Int, Bool)])
    func `one client's transfers leave some for other users, and from an origin one`(
        host: String?, most: Int, started: Int, hasOthers: Bool
    ) {
        let (greedy, other) = (world.connect(uid: 1), world.connect(uid: 2))
        get(greedy, 1...most, of: host)
        #expect(world.fetches.count == started)
        get(other, 1...1, of: host)
        #expect(fetch(other, 1) != nil && world.state.downloads.queued == most - started)
        // A full origin delays no other job of its user.
        get(greedy, 100...100)
        #expect((fetch(greedy, 100) != nil) == hasOthers)
    }

    @Test(arguments: [1, 40]) func `another user's download waits for one transfer to end`(connections: Int) throws {
        let clients = (0..<connections).map { _ in world.connect(uid: 1, isAdmin: true) }
        for id in 1...200 { get(clients[id % connections], id...id) }
        #expect(world.fetches.count == 64)
        let other = world.connect(uid: 2)
        get(other, 1...1)
        for _ in 0..<2 { try fail(world.fetches.keys.min()) }
        #expect(fetch(other, 1) != nil)
    }

    // MARK: Memory

    /// Otherwise one user's unfinished bodies would keep all others from loading.
    @Test mutating func `a user whose bodies fill half of the memory is passed over, and others are not`() throws {
        world = .ready { $0.memoryBytes = 64 << 20 }
        let (holder, other) = (world.connect(uid: 1), world.connect(uid: 2))
        func fill(_ client: ClientID, _ id: Int) throws {
            world.receive(try #require(fetch(client, id)), 32 << 20, validator: nil)
        }
        get(holder, 1...1)
        try fill(holder, 1)
        get(holder, 2...2)
        get(other, 1...1)
        #expect(fetch(holder, 2) == nil && fetch(other, 1) != nil)
        // Who has more than an eighth is passed over, too.
        try fill(other, 1)
        get(other, 2...2)
        #expect(fetch(other, 2) == nil)
        try fail(fetch(holder, 1))
        #expect(fetch(holder, 2) != nil && fetch(other, 2) == nil)
        try fail(fetch(other, 1))
        #expect(fetch(other, 2) != nil)
    }

    @Test mutating func `only users without bodies load while they fill three quarters of the memory`() throws {
        world = .ready { $0.memoryBytes = 64 << 20 }
        let (holder, small, new) = (world.connect(uid: 1), world.connect(uid: 2), world.connect(uid: 3))
        func progress(_ client: ClientID, _ id: Int, _ bytes: Int) throws {
            let job = try #require(fetch(client, id))
            if bytes == 1 << 20 { world.respond(job, validator: nil) }
            world.progress(job, received: bytes)
        }
        get(holder, 1...2)
        for id in 1...2 { try progress(holder, id, 1 << 20) }
        get(small, 1...1)
        try progress(small, 1, 1 << 20)
        for id in 1...2 { try progress(holder, id, 16 << 20) }
        get(small, 2...2)
        #expect(fetch(small, 2) != nil)
        for id in 1...2 { try progress(holder, id, 32 << 20) }
        get(small, 3...3)
        get(new, 1...1)
        #expect(fetch(small, 3) == nil && fetch(new, 1) != nil)
    }

    // MARK: Silence

    @Test func `a silent transfer gives way to another user's job after 60 s`() throws {
        get(world.admin, 1...64)
        // Jobs of the same user are no reason.
        get(world.admin, 65...65)
        world.after(30_000).respond(try #require(fetch(world.admin, 1)), validator: nil)
        get(world.stranger, 1...1)
        world.happen(.timePassed, after: 29_999)
        #expect(failures(world.admin) == 0 && fetch(world.stranger, 1) == nil)
        world.happen(.timePassed, after: 1)
        #expect(failures(world.admin) == 1 && fetch(world.stranger, 1) != nil)
        #expect(world.answers[world.admin]?[1] == nil)
        #expect(world.answers[world.admin]?.keys.first.flatMap { world.error(world.admin, $0) } == .timeout)
    }

    @Test func `a silent transfer lives on while none waits for it`() {
        get(world.admin, 1...6, of: "a.test")
        get(world.stranger, 1...9, of: "b.test")
        world.happen(.timePassed, after: 300_000)
        #expect(failures(world.admin) == 0 && failures(world.stranger) == 0)
        // Then at once.
        get(world.stranger, 10...10, of: "a.test")
        #expect(failures(world.admin) == 1 && fetch(world.stranger, 10) != nil)
        // Its own share does not keep it from another one, of which it may have four times what remains.
        get(world.stranger, 11...11, of: "a.test")
        #expect(failures(world.admin) == 1 && fetch(world.stranger, 11) == nil)
    }

    @Test func `a silent transfer that can be continued gives way when its worker has stopped it`() throws {
        get(world.admin, 1...6, of: "a.test")
        for job in world.fetches.keys.sorted() { world.receive(job, 500, of: 1000) }
        get(world.stranger, 1...2, of: "a.test")
        world.happen(.timePassed, after: 60_000)
        // One at a time.
        #expect(failures(world.admin) == 1 && fetch(world.stranger, 1) == nil && world.stopping.count == 1)
        world.happen(.timePassed, after: 1_000)
        #expect(failures(world.admin) == 1)
        world.endStopping(try #require(world.stopping.keys.first), received: 500)
        #expect(fetch(world.stranger, 1) != nil && world.state.downloads.keptBodyJobs.count == 1)
    }

    @Test func `another user's request for a transfer that gives way is not lost`() throws {
        let (holder, other) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2))
        get(holder, 1...6, of: "a.test")
        world.get(world.stranger, id: 1, "\(holder)-1", of: "a.test") {
            ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000)
        }
        get(other, 1...1, of: "a.test")
        world.happen(.timePassed, after: 60_000)
        // The third user's request is one more that waits.
        #expect(failures(holder) == 2 && failures(world.stranger) == 0)
        #expect(world.error(holder, 1) == .timeout && world.error(holder, 2) == .timeout)
        #expect(fetch(other, 1) != nil)
        world.finishFetch(try #require(fetch(holder, 1)), content: 1)
        #expect(failures(world.stranger) == 0 && world.decodes.count == 1)
    }
}

/// Origins that ask not to be contacted for a while (`Retry-After`): the requests that can wait do.
struct PatienceTests {
    private var (world, client) = StrictWorld.ready().connected()

    /// Answers a transfer with an image.
    private func serve(_ job: JobID) {
        world.respond(job)
        world.finishFetch(job, content: 1)
        world.decodeAll()
    }

    private func serveAll() { while let job = world.fetches.keys.min() { serve(job) } }

    /// Lets the origin answer the first transfer with 429.
    private func refuse(retryAfterMs: Int = 1000) throws {
        world.failFetch(try #require(world.fetches.keys.min()), status: 429, retryAfterMs: retryAfterMs)
    }

    /// Lets the first transfer go on at another origin.
    private func redirect() throws {
        let job = try #require(world.fetches.keys.min())
        world.happen(.fetchRedirected(world.fetches[job]!.worker, job, to: "http://other.test:80/"))
    }

    private func held() -> Int { world.state.report[.held] }
    private func isAnswered(_ id: Int) -> Bool { world.answers[client]?[id] != nil }

    /// Requests images.
    private func get(_ ids: ClosedRange<Int>, _ change: (inout GetOptions) -> Void = { _ in }) {
        for id in ids { world.get(client, id: id, "\(id)", change) }
    }

    /// Lets a second pass, in which the origin asked not to be contacted, and serves everything then.
    private func serveAfterWait() {
        world.happen(.timePassed, after: 1000)
        serveAll()
    }

    private func expectImages(_ ids: ClosedRange<Int>, at location: SourceLocation = #_sourceLocation) {
        #expect(ids.allSatisfy { world.image(client, $0) != nil }, sourceLocation: location)
    }

    @Test func `requests wait until the origin may be asked, then it is asked gently`() throws {
        get(1...40)
        try refuse()
        serveAll()
        let before = (1...40).count(where: isAnswered)
        #expect((1...39).contains(before) && held() == 40 - before)
        #expect(world.after(999).fetches.isEmpty)
        #expect(world.after(1).fetches.count == 1)
        var most = 0
        while !world.fetches.isEmpty {
            let running = world.fetches.keys.sorted()
            // One more with each answer, until the origin's ordinary limit.
            #expect(running.count <= most + 1)
            most = max(most, running.count)
            serve(running[0])
        }
        #expect(most > 1 && held() == 0)
        #expect((1...40).allSatisfy { world.image(client, $0) != nil })
        // As often as a download was held.
        #expect(world.state.report.histograms[.held]?.count == 40 - before)
    }

    @Test func `a request whose time does not last fails at once, the others wait`() throws {
        world.get(client, id: 1, "a") { $0.totalTimeoutMs = 1000 }
        world.get(client, id: 2, "a")
        try refuse()
        #expect(world.error(client, 1) == .httpStatus)
        #expect(world.getError(client, id: 3, "b") { $0.totalTimeoutMs = 1000 } == .hostUnavailable)
        world.get(client, id: 4, "b") { $0.totalTimeoutMs = 1001 }
        world.happen(.timePassed, after: 999)
        #expect(!isAnswered(2) && !isAnswered(4))
        world.happen(.timePassed, after: 1)
        serveAll()
        for id in [2, 4] { #expect(world.image(client, id) != nil) }
    }

    @Test func `those behind a request whose time does not last are not forgotten`() throws {
        world.get(client, id: 1, "1") { ($0.priority, $0.totalTimeoutMs) = (.high, 5000) }
        try refuse()
        world.get(client, id: 2, "2")
        world.happen(.timePassed, after: 1000)
        try refuse(retryAfterMs: 10_000)
        #expect(world.error(client, 1) == .httpStatus && held() == 1)
        world.happen(.timePassed, after: 10_000)
        serveAll()
        #expect(world.image(client, 2) != nil)
    }

    @Test func `a line has one deadline, however many join and leave it`() throws {
        world.get(client, id: 1, "1")
        try refuse(retryAfterMs: 30_000)
        let before = world.state.deadlines.count
        for id in 2...400 {
            world.get(client, id: id, "\(id)")
            world.cancel(client, id)
        }
        #expect(held() == 1)
        #expect(world.state.deadlines.count < before + 200)
        world.happen(.timePassed, after: 30_000)
        serveAll()
        #expect(world.image(client, 1) != nil)
    }

    @Test func `queued requests whose time does not last fail as soon as the origin asks`() throws {
        get(1...40) { $0.totalTimeoutMs = 10_000 }
        try refuse(retryAfterMs: 10_000)
        #expect(world.error(client, 1) == .httpStatus)
        serveAll()
        #expect((1...40).allSatisfy(isAnswered) && held() == 0)
        #expect((2...40).contains { world.error(client, $0) == .hostUnavailable })
    }

    @Test func `an origin that asks again is waited for again`() throws {
        get(1...3)
        while world.fetches.count > 0 { try refuse() }
        for _ in 0..<5 {
            #expect(world.after(1000).fetches.count == 1)
            try refuse()
            #expect(world.fetches.isEmpty && held() == 3)
        }
        serveAfterWait()
        expectImages(1...3)
    }

    @Test func `a later answer prolongs the wait`() throws {
        get(1...2) { $0.totalTimeoutMs = 4000 }
        try refuse()
        try refuse(retryAfterMs: 5000)
        #expect(world.error(client, 2) == .httpStatus)
        #expect(world.after(1000).fetches.isEmpty)
    }

    @Test func `the stale original is served in place of the wait`() throws {
        world.cacheControl = "max-age=1, stale-if-error=1000"
        world.get(client, id: 1, "a")
        serveAll()
        world.after(2000).get(client, id: 2, "a")
        try refuse(retryAfterMs: 10_000)
        #expect(world.image(client, 2)?.stale == true && held() == 0)
        // Also after another download has met the wait.
        world.get(client, id: 3, "b")
        #expect(world.getImage(client, id: 4, "a")?.stale == true && held() == 1)
    }

    @Test func `a request that joins a download that waits does not, if it would not itself`() throws {
        get(1...1)
        try refuse(retryAfterMs: 10_000)
        #expect(world.getError(client, id: 2, "1") { $0.retries = 0 } == .hostUnavailable)
        #expect(held() == 1 && !isAnswered(1))
        // Another user need not wait, and does if the download that it joins does.
        world.get(world.stranger, id: 2, "1") { $0.retries = 0 }
        #expect(world.answers[world.stranger]?[2] == nil)
    }

    @Test func `a request that joins a refresh that waits is served the stale original`() throws {
        world.cacheControl = "max-age=1, stale-while-revalidate=2, stale-if-error=1000"
        world.get(client, id: 1, "a")
        serveAll()
        #expect(world.after(2000).getImage(client, id: 2, "a")?.stale == true)
        try refuse(retryAfterMs: 10_000)
        #expect(held() == 1 && world.after(2000).getImage(client, id: 3, "a")?.stale == true)
    }

    @Test func `released downloads that are cancelled let the next ones go`() throws {
        get(1...9)
        while world.fetches.count > 0 { try refuse() }
        world.happen(.timePassed, after: 1000)
        for _ in 1...8 {
            let (job, fetch) = try #require(world.fetches.first)
            let id = try #require(Int(fetch.order.url.split(separator: "/").last ?? ""))
            world.cancel(client, id)
            if world.stopping[job] != nil { world.endStopping(job, received: 0) }
            #expect(world.fetches.count == 1)
        }
        serveAll()
        #expect(held() == 0 && (1...9).count { world.image(client, $0) != nil } == 1)
    }

    @Test func `those of high priority go first`() throws {
        world.get(client, id: 1, "1")
        try refuse()
        for id in 2...4 { world.get(client, id: id, "\(id)") { $0.priority = id == 4 ? .high : .low } }
        // Another request of the same image raises its priority.
        world.get(client, id: 5, "3") { $0.priority = .high }
        world.happen(.timePassed, after: 1000)
        var order: [String] = []
        while let (job, fetch) = world.fetches.first {
            order.append(String(fetch.order.url.suffix(1)))
            serve(job)
            if world.fetches.count > 1 { break }
        }
        #expect(order == ["3"])
        #expect(world.fetches.values.map { String($0.order.url.suffix(1)) }.sorted() == ["1", "4"])
    }

    @Test func `a target of redirects is waited for, not the origin that redirects`() throws {
        world.get(client, id: 1, "a")
        try redirect()
        try refuse()
        #expect(held() == 1)
        world.get(client, id: 2, "b")
        world.get(client, id: 3, "c", of: "other.test")
        #expect(world.fetches.count == 1 && held() == 2)
        serveAll()
        #expect(world.after(1000).fetches.count == 1)
        serveAll()
        expectImages(1...3)
    }

    @Test func `an origin that redirects and its target may both ask for patience`() throws {
        world.get(client, id: 1, "a")
        try redirect()
        try refuse(retryAfterMs: 2000)
        world.get(client, id: 2, "b")
        try refuse()
        serveAfterWait()
        #expect(world.after(1000).fetches.count == 1)
        try redirect()
        serveAll()
        get(3...9)
        serveAll()
        expectImages(1...9)
        #expect(held() == 0)
    }

    @Test func `the worker that asks a held origin may die`() throws {
        get(1...3)
        while world.fetches.count > 0 { try refuse() }
        world.happen(.timePassed, after: 1000)
        world.replaceWorker(try #require(world.fetches.first?.value.worker), .ended(.signal(9)), after: 1000)
        serveAll()
        expectImages(1...3)
    }
}

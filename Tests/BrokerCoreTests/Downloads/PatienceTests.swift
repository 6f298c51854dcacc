import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Origins that ask not to be contacted for a while (`Retry-After`): the requests that can wait do.
struct PatienceTests {
    private let world = StrictWorld()
    private let client: ClientID

    init() {
        client = world.connect()
        world.readyAll()
    }

    /// Answers a transfer with an image.
    private func serve(_ job: JobID) {
        world.respond(job)
        world.finishFetch(job, content: 1)
        world.decodeAll()
    }

    private func serveAll() {
        while let job = world.fetches.keys.min() { serve(job) }
    }

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

    @Test func `requests wait until the origin may be asked, then it is asked gently`() throws {
        for id in 1...40 { world.get(client, id: id, "\(id)") }
        try refuse()
        while !world.fetches.isEmpty { serve(try #require(world.fetches.keys.min())) }
        let before = (1...40).count(where: isAnswered)
        #expect((1...39).contains(before) && held() == 40 - before)
        world.happen(.timePassed, after: 999)
        #expect(world.fetches.isEmpty)
        world.happen(.timePassed, after: 1)
        #expect(world.fetches.count == 1)
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
        #expect(world.image(client, 2) != nil && world.image(client, 4) != nil)
    }

    @Test func `queued requests whose time does not last fail as soon as the origin asks`() throws {
        for id in 1...40 { world.get(client, id: id, "\(id)") { $0.totalTimeoutMs = 10_000 } }
        try refuse(retryAfterMs: 10_000)
        #expect(world.error(client, 1) == .httpStatus)
        serveAll()
        #expect((1...40).allSatisfy(isAnswered) && held() == 0)
        #expect((2...40).contains { world.error(client, $0) == .hostUnavailable })
    }

    @Test func `an origin that asks again is waited for again`() throws {
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        try refuse()
        while world.fetches.count > 0 { try refuse() }
        for _ in 0..<5 {
            world.happen(.timePassed, after: 1000)
            #expect(world.fetches.count == 1)
            try refuse()
            #expect(world.fetches.isEmpty && held() == 3)
        }
        world.happen(.timePassed, after: 1000)
        serveAll()
        #expect((1...3).allSatisfy { world.image(client, $0) != nil })
    }

    @Test func `a later answer prolongs the wait`() throws {
        for id in 1...2 { world.get(client, id: id, "\(id)") { $0.totalTimeoutMs = 4000 } }
        try refuse()
        try refuse(retryAfterMs: 5000)
        #expect(world.error(client, 2) == .httpStatus)
        world.happen(.timePassed, after: 1000)
        #expect(world.fetches.isEmpty)
    }

    @Test func `the stale original is served in place of the wait`() throws {
        world.cacheControl = "max-age=1, stale-if-error=1000"
        world.get(client, id: 1, "a")
        serveAll()
        world.happen(.timePassed, after: 2000)
        world.get(client, id: 2, "a")
        try refuse(retryAfterMs: 10_000)
        #expect(world.image(client, 2)?.stale == true && held() == 0)
        // Also after another download has met the wait.
        world.get(client, id: 3, "b")
        world.get(client, id: 4, "a")
        #expect(world.image(client, 4)?.stale == true && held() == 1)
    }

    @Test func `released downloads that are cancelled let the next ones go`() throws {
        for id in 1...9 { world.get(client, id: id, "\(id)") }
        while world.fetches.count > 0 { try refuse() }
        world.happen(.timePassed, after: 1000)
        for _ in 1...8 {
            let (job, fetch) = try #require(world.fetches.first)
            let id = try #require(Int(fetch.order.url.split(separator: "/").last ?? ""))
            world.happen(.messageReceived(client, .cancel(id: 0, request: id)))
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

    @Test func `another user's requests do not wait`() throws {
        world.get(client, id: 1, "a")
        try refuse()
        let stranger = world.connect(uid: 1001)
        world.get(stranger, id: 2, "b")
        #expect(world.fetches.count == 1)
        serveAll()
        #expect(world.image(stranger, 2) != nil)
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
        world.happen(.timePassed, after: 1000)
        #expect(world.fetches.count == 1)
        serveAll()
        #expect((1...3).allSatisfy { world.image(client, $0) != nil })
    }

    @Test func `an origin that redirects and its target may both ask for patience`() throws {
        world.get(client, id: 1, "a")
        try redirect()
        try refuse(retryAfterMs: 2000)
        world.get(client, id: 2, "b")
        try refuse()
        world.happen(.timePassed, after: 1000)
        serveAll()
        world.happen(.timePassed, after: 1000)
        #expect(world.fetches.count == 1)
        try redirect()
        serveAll()
        for id in 3...9 { world.get(client, id: id, "\(id)") }
        serveAll()
        #expect(held() == 0 && (1...9).allSatisfy { world.image(client, $0) != nil })
    }

    @Test func `the worker that asks a held origin may die`() throws {
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        while world.fetches.count > 0 { try refuse() }
        world.happen(.timePassed, after: 1000)
        world.endWorker(try #require(world.fetches.first?.value.worker), .ended(.signal(9)))
        world.readyAll(after: 1000)
        serveAll()
        #expect((1...3).allSatisfy { world.image(client, $0) != nil })
    }
}

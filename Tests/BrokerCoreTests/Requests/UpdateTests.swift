import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Changes of pending requests: their priority, and that they go on without their client.
struct UpdateTests {
    private var world: StrictWorld
    private var client: ClientID

    init() {
        (world, client) = StrictWorld.ready { ($0.fetchers, $0.transfersPerFetcher, $0.transfersPerOrigin) = (1, 1, 1) }
            .connected()
    }

    private func update(
        _ request: Int, _ id: Int, priority: GetOptions.Priority? = nil, detach: Bool = false
    ) {
        world.clients[client]?.insert(id)
        world.happen(.messageReceived(client, .update(id: id, request: request, priority: priority, detach: detach)))
    }

    private func serve(content: Int) throws {
        try world.finishFetch(content: content)
        world.decodeAll()
    }

    private var requested: String? { world.fetches.values.first.map { String($0.order.url.suffix(1)) } }

    @Test func `priorities change among waiting downloads`() throws {
        for id in 1...4 { world.get(client, id: id, "\(id)") }
        update(4, 10, priority: .high)
        update(2, 11, priority: .low)
        #expect(world.answer(client, 10) == .ok(id: 10) && world.answer(client, 11) == .ok(id: 11))
        var order: [String] = []
        for content in 1...4 {
            order.append(requested ?? "")
            try serve(content: content)
        }
        #expect(order == ["1", "4", "3", "2"])
    }

    /// The download has the highest priority of its waiters.
    @Test func `a lowered priority leaves that of the others`() throws {
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        world.get(client, id: 4, "3") { $0.priority = .high }
        update(4, 10, priority: .low)
        try serve(content: 1)
        #expect(requested == "2")
        update(3, 11, priority: .low)
        world.get(client, id: 5, "5")
        try serve(content: 2)
        #expect(requested == "5")
    }

    @Test func `unknown and finished requests are no error`() throws {
        world.get(client, id: 1, "a")
        try serve(content: 1)
        update(1, 2, priority: .high)
        update(77, 3, detach: true)
        #expect(world.answer(client, 2) == .ok(id: 2) && world.answer(client, 3) == .ok(id: 3))
        // A later request of the same number is not detached.
        world.get(client, id: 77, "b")
        world.disconnect(client)
        #expect(world.state.requests.isEmpty)
    }

    @Test mutating func `a detached request is answered, and goes on without its client`() throws {
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "b")
        update(1, 10, detach: true)
        update(2, 11, detach: true)
        try serve(content: 1)
        #expect(world.image(client, 1) != nil)
        world.disconnect(client)
        #expect(requested == "b")
        try serve(content: 2)
        #expect(world.state.requests.isEmpty)
        client = world.connect()
        #expect(world.getImage(client, id: 1, "b")?.source == .memory)
        #expect(world.state.report[.cancelled] == 1)
    }

    @Test func `a cancelled detached request ends for its client alone`() throws {
        world.get(client, id: 1, "a") { $0.priority = .high }
        update(1, 10, detach: true)
        world.happen(.messageReceived(client, .cancel(id: 11, request: 1)))
        #expect(world.error(client, 1) == .cancelled)
        #expect(world.state.pendingWeight(of: client) == 0 && requested == "a")
        // It has become low.
        world.failFetch(try #require(world.fetches.keys.first))
        world.get(client, id: 2, "b")
        world.happen(.timePassed, after: 1_001)
        try serve(content: 2)
        try serve(content: 1)
        #expect(world.getImage(client, id: 3, "a")?.source == .memory)
    }

    @Test mutating func `an administrator and the total time end detached requests`() throws {
        let admin = world.connect(isAdmin: true)
        for path in ["a", "b"] {
            client = world.connect()
            world.get(client, id: 1, path) { $0.totalTimeoutMs = 1000 }
            update(1, 2, detach: true)
            world.disconnect(client)
            #expect(world.state.requests.count == 1)
            if path == "a" {
                world.happen(.messageReceived(admin, .cancelAll(id: 1)))
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
            for id in 1...20 {
                world.get(client, id: id, "\(round)-\(id)")
                update(id, 100 + id, detach: true)
            }
            world.disconnect(client)
        }
        #expect(world.state.requests.count == 64)
        client = world.connect(uid: 2000)
        world.get(client, id: 1, "z")
        update(1, 2, detach: true)
        world.disconnect(client)
        #expect(world.state.requests.count == 65)
    }

    @Test func `prefetches change, too`() throws {
        let urls = try (1...20).map { try SourceURL("http://origin.test/\($0)") }
        world.happen(.messageReceived(client, .prefetch(PrefetchRequest(id: 1, urls: urls))))
        update(1, 2, priority: .high, detach: true)
        world.get(client, id: 3, "x")
        try serve(content: 1)
        #expect(requested == "2")
        world.disconnect(client)
        // Those that were begun go on.
        #expect(world.state.requests.count == world.state.limits.prefetchesAtOnce)
    }

    @Test func `the next process keeps the changes`() throws {
        world.get(client, id: 1, "a") {
            $0.maxAgeSeconds = 7
            $0.alternatives = (try? [SourceURL("http://origin.test/b"), SourceURL("http://origin.test/c")]) ?? []
        }
        update(1, 2, priority: .high, detach: true)
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        let kept = world.state.kept(client, descriptor: 5)
        #expect(kept.detached == [1])
        var expected = GetRequest(id: 1, url: try SourceURL("http://origin.test/b"))
        expected.options.priority = .high
        expected.options.maxAgeSeconds = 7
        expected.options.alternatives = [try SourceURL("http://origin.test/c")]
        #expect(kept.input == (try ClientMessage.get(expected).encoded()))
        // The request is detached before it comes.
        let next = world.connect()
        world.state.restore(kept, of: next)
        world.get(next, id: 1, "q")
        world.disconnect(next)
        #expect(world.state.requests.count == 2)
    }
}

import IPCProtocol
import Testing

@testable import BrokerCore

/// Failures count for the origin at which they happened, and for the user who met them.
struct BlameTests {
    private var world: StrictWorld
    private let client: ClientID
    private let stranger: ClientID

    init() {
        var limits = BrokerLimits()
        limits.retries = 0
        world = StrictWorld(limits)
        client = world.connect(uid: 1000)
        stranger = world.connect(uid: 1001)
        world.readyAll()
    }

    private func redirect(to root: String) throws {
        let (job, (worker, _)) = try #require(world.fetches.first)
        world.happen(.fetchRedirected(worker, job, to: root))
    }

    private func fail(status: Int? = nil, retryAfterMs: Int? = nil) throws {
        let job = try #require(world.fetches.keys.first)
        if let status {
            world.failFetch(job, status: status, retryAfterMs: retryAfterMs)
        } else {
            world.failFetch(job)
        }
    }

    @Test func `a Retry-After of the target holds the target, not the origin that redirected there`() throws {
        world.get(client, id: 1, "redirected")
        try redirect(to: "http://other.test:80/")
        try fail(status: 503, retryAfterMs: 600_000)
        world.get(client, id: 2, "direct")
        #expect(world.fetches.count == 1)
        #expect(world.getError(client, id: 3, "a", of: "other.test") == .hostUnavailable)
    }

    @Test func `closed ports of a target open no breaker of the origin that redirected there`() throws {
        for id in 1...6 {
            world.get(client, id: id, "redirected\(id)")
            try redirect(to: "http://closed.test:9/")
            try fail()
        }
        world.get(client, id: 7, "direct")
        #expect(world.fetches.count == 1)
        #expect(world.getError(client, id: 8, "a", of: "closed.test:9") == .hostUnavailable)
    }

    @Test func `the silence of a target counts for the target`() throws {
        for id in 1...5 {
            world.get(client, id: id, "redirected\(id)")
            try redirect(to: "http://silent.test:80/")
            world.happen(.timePassed, after: 20_000)
            for job in world.stopping.keys { world.endStopping(job, received: 0) }
        }
        world.get(client, id: 7, "direct")
        #expect(world.fetches.count == 1)
        #expect(world.getError(client, id: 8, "a", of: "silent.test") == .hostUnavailable)
    }

    @Test func `what one user's paths do to a host does not close it to another user`() throws {
        for id in 1...5 {
            world.get(client, id: id, "slow\(id)")
            try fail()
        }
        #expect(world.getError(client, id: 10, "a") == .hostUnavailable)
        world.get(stranger, id: 11, "a")
        #expect(world.fetches.count == 1)
        try fail(status: 429, retryAfterMs: 600_000)
        let third = world.connect(uid: 1002)
        world.get(third, id: 12, "b")
        #expect(world.fetches.count == 1)
    }
}

import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Users' shares of the running transfers, and silent transfers that give way to others.
struct TransferShareTests {
    private var world: StrictWorld

    init() { world = .ready { ($0.workers, $0.maxKeptBodyBytes) = (1, 1 << 20) } }

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

    // MARK: Shares

    @Test func `one client's transfers leave some for other users`() {
        let (greedy, other) = (world.connect(uid: 1), world.connect(uid: 2))
        get(greedy, 1...66)
        #expect(world.fetches.count == 51)
        get(other, 1...1)
        #expect(fetch(other, 1) != nil && world.state.downloads.queued == 15)
    }

    @Test func `one client's transfers from an origin leave one for other users`() {
        let (greedy, other) = (world.connect(uid: 1), world.connect(uid: 2))
        get(greedy, 1...9, of: "a.test")
        #expect(world.fetches.count == 4)
        get(other, 1...1, of: "a.test")
        #expect(fetch(other, 1) != nil)
        // It delays no other job of its user.
        get(greedy, 10...10)
        #expect(fetch(greedy, 10) != nil)
    }

    @Test func `an administrator may have all transfers`() {
        let admin = world.connect(isAdmin: true)
        get(admin, 1...66)
        #expect(world.fetches.count == 64)
    }

    @Test(arguments: [1, 40]) func `another user's download waits for one transfer to end`(connections: Int)
        throws
    {
        let clients = (0..<connections).map { _ in world.connect(uid: 1, isAdmin: true) }
        for id in 1...200 { get(clients[id % connections], id...id) }
        #expect(world.fetches.count == 64)
        let other = world.connect(uid: 2)
        get(other, 1...1)
        world.failFetch(try #require(world.fetches.keys.min()), .tooLarge)
        world.failFetch(try #require(world.fetches.keys.min()), .tooLarge)
        #expect(fetch(other, 1) != nil)
    }

    // MARK: Memory

    /// Otherwise one user's unfinished bodies would keep all others from loading.
    @Test mutating func `a user whose bodies fill half of the memory is passed over, and others are not`() throws {
        world = .ready { $0.memoryBytes = 64 << 20 }
        let (holder, other) = (world.connect(uid: 1), world.connect(uid: 2))
        func fill(_ client: ClientID, _ id: Int) throws {
            let job = try #require(fetch(client, id))
            let worker = try #require(world.fetches[job]).worker
            world.respond(job, validator: nil)
            world.happen(.fetchProgressed(worker, job, received: 32 << 20, expected: nil))
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
        world.failFetch(try #require(fetch(holder, 1)), .tooLarge)
        #expect(fetch(holder, 2) != nil && fetch(other, 2) == nil)
        world.failFetch(try #require(fetch(other, 1)), .tooLarge)
        #expect(fetch(other, 2) != nil)
    }

    @Test mutating func `only users without bodies load while they fill three quarters of the memory`() throws {
        world = .ready { $0.memoryBytes = 64 << 20 }
        let (holder, small, new) = (world.connect(uid: 1), world.connect(uid: 2), world.connect(uid: 3))
        func progress(_ client: ClientID, _ id: Int, _ bytes: Int) throws {
            let job = try #require(fetch(client, id))
            let worker = try #require(world.fetches[job]).worker
            if bytes == 1 << 20 { world.respond(job, validator: nil) }
            world.happen(.fetchProgressed(worker, job, received: bytes, expected: nil))
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
        let (holder, other) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2))
        get(holder, 1...64)
        // Jobs of the same user are no reason.
        get(holder, 65...65)
        world.happen(.timePassed, after: 30_000)
        world.respond(try #require(fetch(holder, 1)), validator: nil)
        get(other, 1...1)
        world.happen(.timePassed, after: 29_999)
        #expect(failures(holder) == 0 && fetch(other, 1) == nil)
        world.happen(.timePassed, after: 1)
        #expect(failures(holder) == 1 && fetch(other, 1) != nil)
        #expect(world.answers[holder]?[1] == nil)
        #expect(world.answers[holder]?.keys.first.flatMap { world.error(holder, $0) } == .timeout)
    }

    @Test func `a silent transfer lives on while none waits for it`() {
        let (holder, other) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2))
        get(holder, 1...6, of: "a.test")
        get(other, 1...9, of: "b.test")
        world.happen(.timePassed, after: 300_000)
        #expect(failures(holder) == 0 && failures(other) == 0)
        // Then at once.
        get(other, 10...10, of: "a.test")
        #expect(failures(holder) == 1 && fetch(other, 10) != nil)
        // Its own share does not keep it from another one, of which it may have four times what remains.
        get(other, 11...11, of: "a.test")
        #expect(failures(holder) == 1 && fetch(other, 11) == nil)
    }

    @Test func `a silent transfer that can be continued gives way when its worker has stopped it`() throws {
        let (holder, other) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2))
        get(holder, 1...6, of: "a.test")
        for job in world.fetches.keys.sorted() {
            world.respond(job, total: 1000)
            world.happen(.fetchProgressed(try #require(world.fetches[job]?.worker), job, received: 500, expected: 1000))
        }
        get(other, 1...2, of: "a.test")
        world.happen(.timePassed, after: 60_000)
        // One at a time.
        #expect(failures(holder) == 1 && fetch(other, 1) == nil && world.stopping.count == 1)
        world.happen(.timePassed, after: 1_000)
        #expect(failures(holder) == 1)
        world.endStopping(try #require(world.stopping.keys.first), received: 500)
        #expect(fetch(other, 1) != nil && world.state.downloads.keptBodyJobs.count == 1)
    }

    @Test func `another user's request for a transfer that gives way is not lost`() throws {
        let (holder, other, third) = (
            world.connect(uid: 1, isAdmin: true), world.connect(uid: 2), world.connect(uid: 3)
        )
        get(holder, 1...6, of: "a.test")
        world.get(third, id: 1, "\(holder)-1", of: "a.test") {
            ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000)
        }
        get(other, 1...1, of: "a.test")
        world.happen(.timePassed, after: 60_000)
        // The third user's request is one more that waits.
        #expect(failures(holder) == 2 && failures(third) == 0)
        #expect(world.error(holder, 1) == .timeout && world.error(holder, 2) == .timeout)
        #expect(fetch(other, 1) != nil)
        world.finishFetch(try #require(fetch(holder, 1)), content: 1)
        #expect(failures(third) == 0 && world.decodes.count == 1)
    }
}

import Glibc
import HTTPValues
import IPCProtocol
import Testing

@testable import BrokerCore

/// Per-client and per-user quotas of shared resources.
struct BoundsTests {
    private func world(_ change: (inout BrokerLimits) -> Void) -> StrictWorld {
        .ready {
            $0.fetchers = 1
            $0.workers = 1
            change(&$0)
        }
    }

    @Test func `reading the settings again is a request like others until it is answered`() throws {
        let world = world { $0.maxPendingRequests = 10 }
        world.holdsReloads = true
        for id in 1...11 { world.ask(world.admin, id: id, .reload(id: id)) }
        #expect(world.error(world.admin, 11) == .quotaExceeded)
        // One with the number of an unanswered request is refused without a number, so that the other keeps its answer.
        world.happen(.messageReceived(world.admin, .reload(id: 1)))
        #expect(world.answers[world.admin]?[1] == nil)
        world.holdsReloads = false
        world.happen(.timePassed)
        for id in 1...10 { #expect(world.error(world.admin, id) == .badRequest) }
        // Their numbers are free again, and new bounds hold at once.
        world.newLimits = world.state.limits
        world.newLimits?.maxPendingRequests = 2
        world.ask(world.admin, id: 1, .reload(id: 1))
        #expect(world.lastReplies(to: world.admin) == [.reloaded(id: 1, ReloadReport())])
        world.holdsReloads = true
        for id in 12...14 { world.ask(world.admin, id: id, .reload(id: id)) }
        #expect(world.error(world.admin, 14) == .quotaExceeded)
    }

    // MARK: Shares

    @Test(arguments: [1, 2, 3, 7, 64, 1000, 65_536])
    func `a client gets half of a pool, its user four fifths`(limit: Int) {
        for isAdmin in [false, true] {
            var pool = SharedPool(limit: limit)
            while pool.refusal(of: 1, own: pool.taken, user: 1, isAdmin: isAdmin) == nil { pool.take(1, for: 1) }
            // One client gets half.
            #expect(pool.taken == limit / 2)
            // Many clients of one user get four fifths; those of an administrator, all but one.
            while pool.refusal(of: 1, own: 0, user: 1, isAdmin: isAdmin) == nil { pool.take(1, for: 1) }
            #expect(pool.taken == (isAdmin ? max(0, limit - 1) : limit * 4 / 5))
            // Another user is still admitted, unless the first is an administrator.
            if !isAdmin, limit > 4 { #expect(pool.refusal(of: 1, own: 0, user: 2, isAdmin: false) == nil) }
            pool.give(pool.taken, from: 1)
            #expect(pool.taken == 0 && pool.taken(by: 1) == 0)
        }
    }

    @Test func `each further user gets a share`() {
        var pool = SharedPool(limit: 10_000)
        for user in UInt32(1)...6 {
            let before = pool.taken
            while pool.refusal(of: 1, own: 0, user: user, isAdmin: false) == nil { pool.take(1, for: user) }
            #expect(pool.taken > before)
            // An earlier user gets no more now.
            #expect(pool.refusal(of: 1, own: 0, user: 1, isAdmin: false) != nil)
        }
        #expect(pool.taken < 10_000)
    }

    @Test func `the room in a pool is the largest amount that is not refused`() {
        for (limit, users, others) in [(0, 0, 0), (7, 1, 5), (16, 0, 0), (16, 3, 0), (100, 10, 40), (100, 60, 60)] {
            var pool = SharedPool(limit: limit)
            pool.take(users, for: 1)
            pool.take(others, for: 2)
            for isAdmin in [false, true] {
                for own in 0...users {
                    let permitted = (1...limit + 1).filter { amount in
                        pool.refusal(of: amount, own: own, user: 1, isAdmin: isAdmin) == nil
                    }
                    #expect(pool.room(own: own, user: 1, isAdmin: isAdmin) == permitted.last ?? 0)
                }
            }
        }
    }

    @Test func `large amounts do not overflow`() {
        let pool = SharedPool(limit: .max)
        #expect(pool.refusal(of: .max, own: 0, user: 1, isAdmin: false) != nil)
        #expect(pool.refusal(of: 1, own: .max, user: 1, isAdmin: true) != nil)
        #expect(pool.refusal(of: 1 << 61, own: 1 << 61, user: 1, isAdmin: false) == nil)
    }

    // MARK: Connections

    @Test func `a user's connections leave places for others`() {
        let world = world { $0.maxClients = 10 }
        let flood = (0..<20).map { _ in world.connect(uid: 1) }
        #expect(flood.filter { world.clients[$0] != nil }.count == 8)
        #expect(world.news[flood[19]]?.isEmpty ?? true)
        #expect(world.state.counters.requests.failures[.quotaExceeded] == 12)
        let other = world.connect(uid: 2)
        #expect(world.clients[other] != nil)
        // An administrator is admitted while any connection is free.
        let admin = world.connect(uid: 0, isAdmin: true)
        #expect(world.clients[admin] != nil)
        for client in [flood[0], other] { world.disconnect(client) }
        let late = world.connect(uid: 1)
        #expect(world.clients[late] == nil)
        for client in flood[1...2] { world.disconnect(client) }
        let later = world.connect(uid: 1)
        #expect(world.clients[later] != nil)
    }

    // MARK: Requests

    @Test func `one event begins a few URLs of a prefetch, also if all end at once`() throws {
        let (world, client) = world { _ in }.connected()
        try world.prefetch(client, id: 1, 1...200) { $0.options.cache = .onlyIfCached }
        #expect(world.news[client]?.count == 64)
        for _ in 0..<3 { world.happen(.timePassed, after: 1) }
        #expect(world.news[client]?.last == .prefetched(id: 1, done: 0, failed: 200, total: 200))
    }

    @Test func `the unanswered requests of a client are bounded, all kinds together`() throws {
        let world = world { ($0.maxPendingRequests, $0.usesDisk, $0.prefetchesAtOnce) = (10, true, 1) }
        let client = world.connect()
        for id in 0..<4 { world.get(client, id: id, "\(id)") }
        for id in 4..<6 { try world.prefetch(client, id: id, 1...1) }
        for id in 6..<8 { try world.remove(client, id: id, "x") }
        try world.query(client, id: 8, "x")
        try world.store(client, id: 9, "x", bytes: 10)
        #expect(world.state.clients[client]?.requests.count == 10 && world.state.counters.requests.failures.isEmpty)
        #expect(world.getError(client, id: 10, "10") == .quotaExceeded)
        try world.remove(client, id: 11, "x")
        try world.query(client, id: 12, "x")
        try world.prefetch(client, id: 13, 1...1)
        try world.store(client, id: 14, "x", bytes: 10)
        #expect(world.state.counters.requests.failures == [.quotaExceeded: 5])
        // Each client has its own limit.
        world.get(world.stranger, id: 1, "other")
        #expect(world.answers[world.stranger] == nil)
        world.disconnect(client)
        #expect(world.state.clients.pendingWeight == 1)
    }

    @Test func `a user's requests leave room for others, and count by weight`() {
        let world = world { ($0.maxRequests, $0.maxPendingRequests) = (1000, 500) }
        let greedy = (0..<3).map { _ in world.connect(uid: 1) }
        for (number, client) in greedy.enumerated() {
            for id in 500 * number..<500 * (number + 1) { world.get(client, id: id, "\(id)") }
        }
        #expect(world.state.clients.pendingWeight == 800)
        #expect(world.state.counters.requests.failures == [.quotaExceeded: 700])
        // A long request weighs more. Headers of 100 KiB are impossible, so these have 30 KiB.
        let other = world.connect(uid: 2)
        let long = HeaderField(name: "accept", value: String(repeating: "x", count: 30 << 10))
        for each in 1...10 { world.get(other, id: each, "\(each)") { $0.headers = [long] } }
        // A single client must leave as much free as it takes.
        #expect(world.state.clients.pendingWeight(of: 2) == 31 * 3)
        #expect(world.error(other, 4) == .overloaded)
        world.get(other, id: 11, "11")
        #expect(world.answers[other]?[11] == nil)
        for client in greedy + [other] { world.disconnect(client) }
        #expect(world.state.clients.pendingWeight == 0)
    }

    @Test func `a remove and a query with a long URL weigh as much as a get`() throws {
        let (world, client) = world { ($0.maxRequests, $0.usesDisk) = (100, true) }.connected()
        let path = String(repeating: "x", count: 5 << 10)
        try world.remove(client, id: 1, path)
        #expect(world.state.clients.pendingWeight == 6)
        try world.query(client, id: 2, path)
        #expect(world.state.clients.pendingWeight == 12)
        for id in 3..<30 { try world.remove(client, id: id, path) }
        // A single client must leave as much free as it takes.
        #expect((world.state.clients.pendingWeight, world.state.clients[client]?.requests.count) == (48, 8))
        world.readyAll()
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        #expect(world.state.clients.pendingWeight == 0)
    }

    @Test func `hits need no share of the requests`() {
        let (world, client) = world { $0.maxRequests = 4 }.connected()
        world.load(client, id: 1, "a", content: 1)
        for id in 0..<9 { world.get(world.stranger, id: id, "\(id)") }
        #expect(world.getImage(client, id: 2, "a")?.source == .memory)
    }

    @Test func `stores that wait are shared by clients and users`() throws {
        let world = world { $0.maxStores = 16 }
        func refused() -> Int { world.state.counters.requests.failures[.quotaExceeded] ?? 0 }
        func accepted(of client: ClientID) throws -> Int {
            let before = refused()
            for id in 1...20 { try world.store(client, id: id, "stored", bytes: 10) }
            return 20 - (refused() - before)
        }
        let (first, second, third) = (world.connect(uid: 1), world.connect(uid: 1), world.connect(uid: 2))
        // Half of all, then half of the rest until the user has four fifths.
        #expect(try accepted(of: first) == 8)
        #expect(try accepted(of: second) == 4)
        #expect(try accepted(of: third) == 2)
        for client in [first, second, third] { world.disconnect(client) }
        #expect(try accepted(of: world.connect(uid: 3)) == 8)
    }

    @Test func `subscriptions`() {
        let world = world { $0.maxSubscriptions = 20 }
        let clients = (0..<4).map { _ in world.connect(uid: 1) }
        for client in clients {
            for id in 0..<10 { world.happen(.messageReceived(client, .subscribe(id: id, events: [.finished]))) }
        }
        #expect(world.state.clients.subscriptionsTaken == 16)
        #expect(world.state.counters.requests.failures == [.quotaExceeded: 24])
        world.happen(.messageReceived(world.stranger, .subscribe(id: 1, events: [.finished])))
        #expect(world.state.clients.subscriptionsTaken == 17)
        for client in clients { world.disconnect(client) }
        #expect(world.state.clients.subscriptionsTaken == 1)
        world.cancel(world.stranger, 1)
        #expect(world.state.clients.subscriptionsTaken == 0 && !world.state.clients.hasSubscribers)
        world.cancel(world.stranger, 1)
    }

    // MARK: Leases

    /// Leases images of 400 bytes, with originals of 1 byte; returns the number of leases granted.
    private func lease(_ world: StrictWorld, _ client: ClientID, _ range: Range<Int>) -> Int {
        for id in range { world.load(client, id: id, "\(id)", content: id + 1, bytes: 1) }
        return range.count {
            world.answers[client]?[$0]?.first.map { if case .image = $0 { true } else { false } } ?? false
        }
    }

    @Test func `a client that leases everything does not stop others`() {
        let (world, greedy) = world { ($0.memoryBytes, $0.maxEvictedBytes) = (4_000, 4_000) }.connected(uid: 1)
        let most = lease(world, greedy, 0..<40)
        // About as much as the cache holds: almost none of it is evicted.
        #expect((8...11).contains(most) && world.state.memory.evictedBytes <= 2_000)
        #expect(world.error(greedy, 39) == .quotaExceeded)
        // A second connection gives the same user little more.
        let again = world.connect(uid: 1)
        #expect(lease(world, again, 100..<140) <= 6)
        for uid in UInt32(2)...4 {
            let other = world.connect(uid: uid)
            #expect(lease(world, other, Int(uid) * 1000..<Int(uid) * 1000 + 3) >= 1)
            #expect(world.state.memory.evictedBytes < 4_000)
            // Released buffers can be leased again without limit.
            for round in 0..<20 {
                for buffer in world.descriptors[other] ?? [] {
                    world.happen(.messageReceived(other, .release(buffers: [buffer])))
                }
                world.descriptors[other] = []
                let id = Int(uid) * 1000 + 10 + round
                #expect(lease(world, other, id..<id + 1) == 1)
            }
        }
        world.disconnect(greedy)
        world.disconnect(again)
        #expect(world.state.clients.leased(by: 1) == LeaseTable.Amount())
    }

    @Test func `one image may be larger than the bytes for evicted buffers`() {
        let (world, client) = world { ($0.memoryBytes, $0.maxEvictedBytes) = (300, 300) }.connected()
        #expect(lease(world, client, 0..<1) == 1)
        #expect(world.state.memory.evictedBytes == 400)
        // No room is left for other clients.
        #expect(lease(world, world.stranger, 1..<2) == 0)
        #expect(world.error(world.stranger, 1) == .overloaded)
        world.disconnect(client)
        #expect(lease(world, world.stranger, 2..<3) == 1)
    }

    /// Neither is in the index: nobody but its waiters may have it, or it was removed since.
    @Test(arguments: [true, false]) func `buffers that are no hits count like others`(isRemoved: Bool) throws {
        let (world, greedy) = world { ($0.memoryBytes, $0.maxEvictedBytes) = (4_000, 4_000) }.connected(uid: 1)
        var leased = 0
        for client in [greedy] + (0..<20).map({ _ in world.connect(uid: 1) }) {
            for id in 0..<10 {
                world.get(client, id: id, "\(id)") { $0.cache = isRemoved ? .default : .noStore }
                guard let fetch = world.fetches.keys.first else { continue }
                world.finishFetch(fetch, content: id + 1, bytes: 1)
                world.decodeAll()
                if world.image(client, id) != nil { leased += 1 }
                if isRemoved { try world.remove(client, id: 100 + id, "\(id)") }
            }
        }
        #expect((4...11).contains(leased), "\(leased)")
        #expect(world.state.memory.bytesOfHolds == leased * 400)
        #expect(lease(world, world.stranger, 1000..<1001) == 1)
        for client in world.descriptors.keys { world.disconnect(client) }
        #expect(world.state.memory.bytesOfHolds == 0)
    }

    @Test func `small buffers take descriptors`() {
        let (world, greedy) = world { ($0.memoryEntries, $0.maxEvictedBuffers) = (10, 10) }.connected()
        #expect((5...20).contains(lease(world, greedy, 0..<60)))
        #expect(lease(world, world.stranger, 100..<102) >= 1)
        #expect(world.memfds.count + world.shared.count <= 22)
    }

    @Test func `payloads that are not read count like leases`() {
        let (world, client) = world { ($0.memoryBytes, $0.maxEvictedBytes) = (4_000, 4_000) }.connected()
        for id in 0..<40 { world.load(client, id: id, "\(id)", content: id + 1, bytes: 1) { $0.delivery = .inline } }
        #expect((8...11).contains(world.payloads.count))
        #expect(world.error(client, 39) == .quotaExceeded)
        // Sending the same image again takes no more quota.
        let before = world.state.clients.held(by: client, .sending)
        world.get(client, id: 40, "0") { $0.delivery = .inline }
        #expect(world.state.clients.held(by: client, .sending) == before)
        #expect(world.image(client, 40) != nil)
    }

    // MARK: Leaving

    /// The cost of a disconnect depends on the client's leases, not on the size of the cache.
    @Test func `many leave fast`() throws {
        let (world, holder) = world { ($0.memoryBytes, $0.memoryEntries) = (1 << 30, 200_000) }.connected()
        // Bypasses the bookkeeping of `StrictWorld`, which inspects the entire state after each event.
        func lease(_ buffer: BufferID, to client: ClientID, of user: UInt32) {
            if world.state.clients.grant(buffer, bytes: 1, to: client, of: user, .lease) {
                world.state.memory.hold(buffer, bytes: 1)
            }
        }
        for number in 0..<20_000 {
            let (key, content) = (try originalKey("\(number)"), try contentKey(number))
            let origin = world.state.storedStatement(contentType: nil, for: key)
            _ = world.state.memory.insert(OriginalFacts(content: content, bytes: 1, origin: origin), for: key)
            let buffer = world.state.bufferIDs.next()
            world.state.memory.insert(
                buffer, as: VariantKey(content: content, form: .original), bytes: 1, at: world.clock)
            if number % 2 == 0 { lease(buffer, to: holder, of: 1000) }
        }
        let buffers = Array(world.state.memory.bufferIDs.prefix(1000))
        var times: [Int] = []
        /// Returns the processor time of `body` in microseconds, because other processes may run at the same time.
        func microseconds(_ body: () -> Void) -> Int {
            func used() -> Int {
                var time = timespec()
                unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
                return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
            }
            let before = used()
            body()
            return used() - before
        }
        for number in 0..<1000 {
            let client = ClientID(number: 10_000 + number)
            _ = world.state.handle(.clientConnected(client, uid: 7, isAdmin: false), at: world.clock, unixMs: 0)
            lease(buffers[number], to: client, of: 7)
            times.append(
                microseconds { _ = world.state.handle(.clientDisconnected(client), at: world.clock, unixMs: 0) })
        }
        // A scan of all entries takes longer.
        times.sort()
        #expect(times[990] < 5000, "\(times[990])")
        #expect(world.state.clients.leased(by: 7) == LeaseTable.Amount())
        let all = microseconds { _ = world.state.handle(.clientDisconnected(holder), at: world.clock, unixMs: 0) }
        #expect(all < 2_000_000, "\(all)")
        #expect(world.state.memory.heldBytes == 0)
    }
}

/// `Clients` and its quotas in isolation.
struct ClientsTests {
    private let client = ClientID(number: 1)
    private let buffer = BufferID(number: 7)
    private let room = Clients.Room(bytes: 1000, buffers: 10)

    private var clients = Clients(limits: BrokerLimits())

    init() { #expect(clients.connected(client, uid: 1, isAdmin: false) == nil) }

    @Test mutating func `a lingering connection counts until it is closed`() {
        clients.connectionLingers(of: 1)
        _ = clients.removed(client)
        #expect(clients.connectionsTaken == 1 && clients.count == 0)
        clients.connectionClosed(of: 1)
        #expect(clients.connectionsTaken == 0)
    }

    @Test mutating func `ended segments count once for all, and for each client that has them`() {
        let other = ClientID(number: 2)
        #expect(clients.connected(other, uid: 2, isAdmin: false) == nil)
        for client in [client, other] { clients.sent(segment: 3, to: client) }
        clients.sent(segment: 4, to: other)
        #expect(clients.ended(3, bytes: 1000) == [client, other])
        #expect(clients.endedSegmentBytes == 1000)
        let held = LeaseTable.Amount(buffers: 1, bytes: 1000)
        #expect(clients.held(by: client) == held && clients.held(by: other) == held)
        #expect(clients.kept(of: client).isEmpty && clients.keptSegments(of: client).map(\.endedBytes) == [1000])
        clients.forget([3, 4, 5], by: client)
        #expect(clients.held(by: client) == LeaseTable.Amount() && clients.endedSegmentBytes == 1000)
        #expect(clients.removed(other).isEmpty && clients.endedSegmentBytes == 0)
    }

    @Test mutating func `requests count by weight until they end`() {
        clients.began(1, .get(WaiterID(number: 1)), weight: 3, of: client)
        clients.began(2, .other, weight: 1, of: client)
        clients.began(2, .other, weight: 1, of: client)
        #expect(clients.pendingWeight == 4 && clients[client]?.requests.count == 2)
        #expect(clients[client]?.requests[2] != nil && !clients.mayRepeat(client))
        #expect(clients.ended(2, of: client) == true)
        #expect(clients.ended(2, of: client) == false)
        clients.ended(1, of: client)
        #expect(clients.pendingWeight == 0 && clients.mayRepeat(client))
    }

    @Test mutating func `a client leases up to its share, and always one buffer`() {
        func refusal(_ bytes: Int, _ room: Clients.Room) -> ErrorCode? {
            clients.refusal(of: bytes, in: buffer, to: client, of: 1, by: .fd, room: room)?.code
        }
        #expect(refusal(5000, room) == nil)
        #expect(refusal(1, Clients.Room(bytes: 0, buffers: 1)) == .overloaded)
        _ = clients.grant(BufferID(number: 1), bytes: 600, to: client, of: 1, .lease)
        #expect(refusal(400, room) == nil && refusal(401, room) == .quotaExceeded)
        _ = clients.grant(buffer, bytes: 900, to: client, of: 1, .lease)
        // A client that already leases the buffer may lease it again.
        #expect(refusal(900, room) == nil)
    }

    @Test mutating func `events go to administrators and to the users they are about`() {
        let (other, admin) = (ClientID(number: 2), ClientID(number: 3))
        #expect(clients.connected(other, uid: 2, isAdmin: false) == nil)
        #expect(clients.connected(admin, uid: 0, isAdmin: true) == nil)
        for client in [client, other, admin] { #expect(clients.subscribe(client, to: [.started], id: 1) == nil) }
        #expect(clients.recipients(of: .started, about: [1]).map(\.client) == [client, admin])
        #expect(clients.recipients(of: .failed, about: [1]).isEmpty)
        for _ in 1..<8 { #expect(clients.subscribe(client, to: [.started], id: 1) == nil) }
        #expect(clients.subscribe(client, to: [.started], id: 1)?.code == .quotaExceeded)
    }
}

struct HelperSharesTests {
    /// Lets users hold up as many as they may, each in turn, and returns how many each has.
    private func heldUp(byUsers users: Int) -> [Int] {
        var held = Array(repeating: 0, count: users)
        for _ in 0..<4 {
            for user in held.indices where HelperShares.permits(own: held[user], all: held.reduce(0, +)) {
                held[user] += 1
            }
        }
        return held
    }

    @Test(arguments: 1..<HelperShares.limit) func `one more user always has a process`(others: Int) {
        let held = heldUp(byUsers: others)
        #expect(held.allSatisfy { $0 >= 1 && $0 <= HelperShares.ofUser })
        #expect(HelperShares.permits(own: 0, all: held.reduce(0, +)))
    }

    @Test func `a user has two, and all have a limit`() {
        #expect(heldUp(byUsers: 1) == [2])
        #expect(heldUp(byUsers: 4) == [2, 2, 2, 2])
        #expect(heldUp(byUsers: 9) == [1, 1, 1, 1, 1, 1, 1, 1, 1])
        #expect(heldUp(byUsers: 100).reduce(0, +) == HelperShares.limit)
    }
}

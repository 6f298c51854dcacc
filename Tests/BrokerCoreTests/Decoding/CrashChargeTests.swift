import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Whom the death of a decoder is charged to, and that other users' images are decoded.
struct CrashChargeTests {
    private static let crash = WorkerExit.ended(.signal(6))

    /// A world without decodings that go along with the digest, and a user's client.
    private var (world, client) = StrictWorld.ready {
        ($0.families, $0.workers, $0.earlyBodyBytes) = ([.heif], 2, 0)
    }.connected()

    /// Requests an image of its own content, up to its decoding.
    private func begin(_ client: ClientID, _ id: Int, of host: String = "origin.test", isHEIF: Bool = false) throws {
        if isHEIF { world.foreign[id] = .heif }
        try world.download(client, id: id, "\(id)", of: host, content: id)
    }

    /// Lets the workers of all decodings die until there are none.
    private func crashAll() {
        for _ in 0..<50 {
            if let worker = world.decodes.values.first?.worker { world.endWorker(worker, Self.crash) }
            world.readyAll()
            if world.decodes.isEmpty, world.state.decoding.count == 0 { return }
        }
        complain("decodings without an end")
    }

    /// One user's images end every decoder. Another user's image of the same origin is decoded each time.
    @Test(arguments: [false, true]) func otherUsersAreServed(isHEIF: Bool) throws {
        var refused = 0
        for id in 100..<140 {
            try begin(client, id, isHEIF: isHEIF)
            crashAll()
            if world.error(client, id) == .decoderUnavailable { refused += 1 }
            try begin(world.stranger, 100 + id, isHEIF: isHEIF)
            #expect(try world.readyAll().decoded(world.stranger, 100 + id) != nil)
            world.readyAll(after: 50)
        }
        #expect(refused > 30 && world.state.report.workerDeaths[.signal] ?? 0 <= 12)
        #expect(world.isPaused(1000, isHEIF ? .heif : .plain) && !world.isPaused(2000, isHEIF ? .heif : .plain))
    }

    @Test func manySourcesPauseTheirUser() throws {
        for id in 1...12 {
            try begin(client, id, of: "\(id).test", isHEIF: true)
            crashAll()
        }
        let error = try #require(world.failure(client, 12))
        #expect(error.code == .decoderUnavailable && (1...1000).contains(error.retryAfterMs ?? 0))
        // Of this family alone.
        #expect(world.isPaused(1000, .heif, of: "http://new.test"))
        #expect(!world.isPaused(1000, of: "http://new.test") && !world.isPaused(2000, .heif, of: "http://1.test"))
    }

    /// A request that joins another's load or decoding is not charged.
    @Test(arguments: [false, true]) func joinersAreNotCharged(joinsDecoding: Bool) throws {
        for id in 1...5 {
            world.get(client, id: id, "\(id)")
            if !joinsDecoding { world.get(world.stranger, id: id, "\(id)") }
            world.finishFetch(try #require(world.fetches.keys.max()), content: id)
            if joinsDecoding { world.get(world.stranger, id: id, "\(id)") }
            crashAll()
        }
        #expect(world.isPaused(1000) && !world.isPaused(2000))
    }

    /// A pause that begins while a decoding is queued ends it, unless another user has joined, who is charged from then
    /// on.
    @Test(arguments: [false, true]) func aPauseWhileOthersWait(isJoined: Bool) throws {
        // Its bytes are known, so that another form is queued as a decoding.
        try begin(client, 3)
        try world.decode()
        let first = world.connect(uid: 3000)
        for id in 1...2 { try begin(first, id) }
        world.get(client, id: 5, "3") { $0.variant.width = 5 }
        if isJoined { world.get(world.stranger, id: 4, "3") { $0.variant.width = 5 } }
        world.charge(times: CrashLedger.tolerated + 1)
        world.decodeAll()
        if !isJoined { return #expect(world.error(client, 5) == .decoderUnavailable) }
        crashAll()
        #expect(world.error(world.stranger, 4) == .decoderCrashed)
        world.charge(2000, times: CrashLedger.tolerated - 1)
        #expect(world.isPaused(2000))
    }

    @Test func `a worker that dies after its job is charged to that image`() throws {
        for id in 1...20 where !world.isPaused(1000) {
            try begin(client, id)
            let (job, decode) = try #require(world.decodes.first)
            world.decode(job)
            world.replaceWorker(decode.worker, Self.crash)
        }
        #expect(world.isPaused(1000))
        #expect(!world.areDecodersBroken)
    }

    @Test mutating func `workers that die before they had an image count against the pool, which then refuses images`()
        throws
    {
        (world, client) = StrictWorld.ready { $0.workers = 16 }.connected()
        for worker in world.workers.filter({ $0.value.kind == .decode }).keys.sorted() {
            world.endWorker(worker, Self.crash)
        }
        try begin(client, 1)
        #expect(world.error(client, 1) == .decoderUnavailable && !world.isPaused(1000))
    }

    /// The image whose decoder died waits for its user's turn, so that another user's is decoded between its two
    /// attempts.
    @Test mutating func theSecondAttemptWaitsForItsTurn() throws {
        (world, client) = StrictWorld.ready { ($0.workers, $0.earlyBodyBytes) = (1, 0) }.connected()
        try begin(client, 1)
        let worker = try #require(world.decodes.values.first?.worker)
        try begin(client, 2)
        try begin(world.stranger, 3)
        for _ in 0..<4 {
            let dying = world.decodes.values.first?.worker ?? worker
            if let (job, decode) = world.decodes.first, world.state.decoding[job]?.waiters.first?.uid == 2000 {
                #expect(decode.worker != worker)
                world.decode(job)
                break
            }
            world.replaceWorker(dying, Self.crash)
        }
        #expect(world.image(world.stranger, 3) != nil && world.answers[client]?[1] == nil)
    }
}

/// `CrashLedger` in isolation.
struct CrashLedgerTests {
    private var ledger = CrashLedger()
    private var now = Instant(nanoseconds: 1_000_000_000)

    private func image(_ user: UInt32, _ source: String) -> Responsible { Responsible(user: user, sources: [source]) }

    private func isPaused(_ user: UInt32, _ source: String) -> Bool {
        ledger.pause(of: image(user, source), at: now) != nil
    }

    private mutating func die(_ user: UInt32, _ source: String, times: Int = 1) {
        for _ in 0..<times { _ = ledger.note(image(user, source), at: now) }
    }

    @Test mutating func `a user's images of a source are paused, for longer each time`() throws {
        die(1, "a", times: CrashLedger.tolerated)
        #expect(!isPaused(1, "a"))
        for exponent in 0..<9 {
            let began = ledger.note(image(1, "a"), at: now)
            let pause = try #require(began)
            #expect(pause.scope == CrashLedger.Scope(user: 1, source: "a"))
            #expect(pause.milliseconds == 1000 << exponent)
            // Deaths of images that were decoded already do not lengthen it.
            die(1, "a", times: 10)
            now = now.adding(milliseconds: pause.milliseconds - 1)
            #expect(isPaused(1, "a") && !isPaused(1, "b") && !isPaused(2, "a"))
            now = now.adding(milliseconds: 1)
            #expect(!isPaused(1, "a"))
        }
    }

    @Test mutating func `a death counts for ten minutes`() {
        die(1, "a", times: 4)
        now = now.adding(milliseconds: CrashLedger.milliseconds)
        die(1, "a", times: 4)
        #expect(!isPaused(1, "a") && ledger.count == 4)
    }

    @Test mutating func `many sources pause their user alone`() {
        for source in ["a", "b", "c"] { die(1, source, times: 3) }
        #expect(ledger.pause(of: image(1, "d"), at: now)?.scope == CrashLedger.Scope(user: 1) && !isPaused(2, "a"))
    }

    @Test mutating func `one or two users pause no source, three and more pause it alone`() {
        for _ in 0..<20 {
            for user: UInt32 in [1, 2] { die(user, "a", times: 20) }
            #expect(!isPaused(3, "a"))
            now = now.adding(milliseconds: 10_000)
        }
        for user: UInt32 in 3...100 {
            die(user, "a")
            #expect(!isPaused(200, "b"))
            #expect(ledger.pause(of: image(200, "a"), at: now)?.scope == CrashLedger.Scope(source: "a"))
        }
    }

    @Test mutating func `three users and three sources pause the family`() {
        for (user, source) in [(1, "a"), (2, "b"), (3, "c")] as [(UInt32, String)] { die(user, source, times: 3) }
        #expect(ledger.pause(of: image(4, "d"), at: now)?.scope == CrashLedger.Scope())
    }

    @Test mutating func `redirects to ever new names are of one source`() {
        for number in 0..<5 {
            _ = ledger.note(Responsible(user: 1, sources: ["s\(number)", "what a redirects to"]), at: now)
        }
        #expect(ledger.pause(of: Responsible(user: 1, sources: ["new", "what a redirects to"]), at: now) != nil)
        #expect(!isPaused(1, "a") && !isPaused(1, "s0"))
    }

    /// Any history of two attackers, or of one source, leaves other users' images alone; and each table is bounded.
    @Test(arguments: 1...40) func randomHistories(seed: UInt64) {
        var random = SplitMix64(state: seed)
        var ledger = CrashLedger()
        var now = now
        let (users, sources) = [(2, 50), (50, 1), (50, 50)][Int(seed % 3)]
        var charged: [Instant] = []
        for _ in 0..<2000 {
            let user = UInt32.random(in: 1...UInt32(users), using: &random)
            let image = image(user, "\(Int.random(in: 1...sources, using: &random))")
            let before = ledger.pause(of: image, at: now)
            let began = ledger.note(image, at: now)
            #expect(before == nil || began == nil)
            #expect(began == ledger.pause(of: image, at: now) || before != nil)
            #expect((began?.milliseconds ?? 1) <= CrashLedger.milliseconds)
            if before == nil { charged.append(now) }
            #expect(ledger.count <= CrashLedger.capacity)
            if users == 2 { #expect(ledger.pause(of: self.image(100, image.sources[0]), at: now) == nil) }
            if sources == 1 { #expect(ledger.pause(of: self.image(user, "other"), at: now) == nil) }
            let steps = [0, 0, 0, 0, 10, 100, 1000]
            now = now.adding(milliseconds: steps.randomElement(using: &random) ?? 0)
        }
        // Within ten minutes, few deaths find no pause.
        charged.removeAll { $0.adding(milliseconds: CrashLedger.milliseconds) <= now }
        #expect(charged.count <= 2 * 8 + 2 * 10 + 50)
    }
}

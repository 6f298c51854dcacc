import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Whom the death of a decoder is charged to, and that other users' images are decoded.
@Suite struct CrashChargeTests {
    private static let crash = WorkerExit.ended(.signal(6))

    private static func world() -> StrictWorld {
        return .ready {
            ($0.families, $0.workers) = ([.heif], 2)
            // Without decodings that go along with the digest.
            $0.earlyBodyBytes = 0
        }
    }

    /// Requests an image of its own content, up to its decoding.
    private func begin(
        _ world: inout StrictWorld, _ client: ClientID, _ id: Int, of host: String = "origin.test", isHEIF: Bool
    ) throws {
        if isHEIF { world.foreign[id] = .heif }
        world.get(client, id: id, "\(id)", of: host)
        world.finishFetch(try #require(world.fetches.keys.max()), content: id)
    }

    /// Lets the workers of all decodings die until there are none.
    private func crashAll(_ world: inout StrictWorld) {
        for _ in 0..<50 {
            if let worker = world.decodes.values.first?.worker { world.endWorker(worker, Self.crash) }
            world.readyAll()
            if world.decodes.isEmpty, world.state.decoding.count == 0 { return }
        }
        complain("decodings without an end")
    }

    private func isPaused(
        _ world: StrictWorld, _ user: UInt32, _ family: CodecFamily, of source: String = "http://origin.test"
    ) -> Bool {
        world.state.decoding.isPaused(Responsible(user: user, sources: [source]), family, at: world.clock)
    }

    /// One user's images end every decoder. Another user's image of the same origin is decoded each time.
    @Test(arguments: [false, true]) func otherUsersAreServed(isHEIF: Bool) throws {
        var world = Self.world()
        let (attacker, victim) = (world.connect(), world.connect(uid: 2000))
        var refused = 0
        for id in 100..<140 {
            try begin(&world, attacker, id, isHEIF: isHEIF)
            crashAll(&world)
            if world.error(attacker, id) == .decoderUnavailable { refused += 1 }
            try begin(&world, victim, 100 + id, isHEIF: isHEIF)
            world.readyAll()
            try world.decode()
            #expect(world.image(victim, 100 + id) != nil)
            world.readyAll(after: 50)
        }
        #expect(refused > 30 && world.state.report.workerDeaths[.signal] ?? 0 <= 12)
        #expect(isPaused(world, 1000, isHEIF ? .heif : .plain) && !isPaused(world, 2000, isHEIF ? .heif : .plain))
    }

    @Test func manySourcesPauseTheirUser() throws {
        var (world, client) = Self.world().connected()
        for id in 1...12 {
            try begin(&world, client, id, of: "\(id).test", isHEIF: true)
            crashAll(&world)
        }
        guard case .error(_, let error)? = world.answer(client, 12) else { return complain("no error") }
        #expect(error.code == .decoderUnavailable && (1...1000).contains(error.retryAfterMs ?? 0))
        // Of this family alone.
        #expect(
            isPaused(world, 1000, .heif, of: "http://new.test") && !isPaused(world, 1000, .plain, of: "http://new.test")
        )
        #expect(!isPaused(world, 2000, .heif, of: "http://1.test"))
    }

    /// A request that joins another's load or decoding is not charged.
    @Test(arguments: [false, true]) func joinersAreNotCharged(joinsDecoding: Bool) throws {
        var world = Self.world()
        let (attacker, joiner) = (world.connect(), world.connect(uid: 2000))
        for id in 1...5 {
            world.get(attacker, id: id, "\(id)")
            if !joinsDecoding { world.get(joiner, id: id, "\(id)") }
            world.finishFetch(try #require(world.fetches.keys.max()), content: id)
            if joinsDecoding { world.get(joiner, id: id, "\(id)") }
            crashAll(&world)
        }
        #expect(isPaused(world, 1000, .plain) && !isPaused(world, 2000, .plain))
    }

    /// A pause that begins while a decoding is queued ends it, unless another user has joined, who is charged from then on.
    @Test(arguments: [false, true]) func aPauseWhileOthersWait(isJoined: Bool) throws {
        var world = Self.world()
        let (first, attacker, victim) = (world.connect(uid: 3000), world.connect(), world.connect(uid: 2000))
        // Its bytes are known, so that another form is queued as a decoding.
        try begin(&world, attacker, 3, isHEIF: false)
        try world.decode()
        for id in 1...2 { try begin(&world, first, id, isHEIF: false) }
        world.get(attacker, id: 5, "3") { $0.variant.width = 5 }
        if isJoined { world.get(victim, id: 4, "3") { $0.variant.width = 5 } }
        let paused = Responsible(user: 1000, sources: ["http://origin.test"])
        for _ in 0...CrashLedger.tolerated { _ = world.state.decoding.charge(paused, at: world.clock) }
        world.decodeAll()
        if !isJoined { return #expect(world.error(attacker, 5) == .decoderUnavailable) }
        crashAll(&world)
        #expect(world.error(victim, 4) == .decoderCrashed)
        let other = Responsible(user: 2000, sources: ["http://origin.test"])
        for _ in 0..<(CrashLedger.tolerated - 1) { _ = world.state.decoding.charge(other, at: world.clock) }
        #expect(isPaused(world, 2000, .plain))
    }

    /// A worker that dies after its job is charged to that image.
    @Test func deathsAfterTheJob() throws {
        var (world, client) = Self.world().connected()
        for id in 1...20 where !isPaused(world, 1000, .plain) {
            try begin(&world, client, id, isHEIF: false)
            let (job, decode) = try #require(world.decodes.first)
            world.readHeader(job)
            world.finishDecode(job)
            world.endWorker(decode.worker, Self.crash)
            world.readyAll()
        }
        #expect(isPaused(world, 1000, .plain))
        #expect(!world.state.supervision.areDecodersBroken(at: world.clock))
    }

    /// Workers that die before they had an image count against the pool, which then refuses images.
    @Test func deathsWithoutAnImage() throws {
        var (world, client) = StrictWorld.ready { $0.workers = 16 }.connected()
        for worker in world.workers.filter({ $0.value.kind == .decode }).keys.sorted() {
            world.endWorker(worker, Self.crash)
        }
        try begin(&world, client, 1, isHEIF: false)
        #expect(world.error(client, 1) == .decoderUnavailable && !isPaused(world, 1000, .plain))
    }

    /// The image whose decoder died waits for its user's turn, so that another user's is decoded between its two attempts.
    @Test func theSecondAttemptWaitsForItsTurn() throws {
        var world = StrictWorld.ready { ($0.workers, $0.earlyBodyBytes) = (1, 0) }
        let (attacker, victim) = (world.connect(), world.connect(uid: 2000))
        try begin(&world, attacker, 1, isHEIF: false)
        let worker = try #require(world.decodes.values.first?.worker)
        try begin(&world, attacker, 2, isHEIF: false)
        world.get(victim, id: 3, "3")
        world.finishFetch(try #require(world.fetches.keys.max()), content: 3)
        for _ in 0..<4 {
            let dying = world.decodes.values.first?.worker ?? worker
            if let (job, decode) = world.decodes.first, world.state.decoding[job]?.waiters.first?.uid == 2000 {
                #expect(decode.worker != worker)
                world.readHeader(job)
                world.finishDecode(job)
                break
            }
            world.endWorker(dying, Self.crash)
            world.readyAll()
        }
        #expect(world.image(victim, 3) != nil && world.answers[attacker]?[1] == nil)
    }
}

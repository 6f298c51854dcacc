import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Workers that crash, hang or misbehave, and requests that survive them.
struct SupervisionTests {
    var (world, client) = Self.world().connected()

    static func world(workers: Int = 1, jobsOfAWorker: Int = 5000) -> StrictWorld {
        .ready { ($0.workers, $0.jobsOfAWorker) = (workers, jobsOfAWorker) }
    }

    /// Returns a world, by default one with one worker, that decodes an image for a client.
    func decoding(in other: StrictWorld? = nil) throws -> (StrictWorld, ClientID, JobID, WorkerID) {
        let (world, client) = (other ?? Self.world()).connected()
        try world.download(client, id: 1, "a", content: 1)
        let job = try #require(world.decodes.keys.first)
        return (world, client, job, try #require(world.decodes[job]?.worker))
    }

    @Test func `a decoder that is killed from outside costs its job nothing, however often`() throws {
        let (world, client, _, _) = try decoding()
        for _ in 0..<5 {
            let job = try world.readHeader()
            world.replaceWorker(try #require(world.decodes[job]?.worker), .ended(.signal(9)))
        }
        #expect(try world.decoded(client, 1) != nil && world.state.report[.workerRestarts] == 5)
    }

    /// Kills the decoders that become ready in this way, and checks that they are replaced ever more slowly.
    private func expectKilled(_ ready: (WorkerID) -> Event) -> StrictWorld {
        let world = StrictWorld()
        for round in 0..<5 {
            for (id, worker) in world.workers.sorted(by: { $0.key < $1.key })
            where worker.kind == .decode && worker.state == .starting {
                world.happen(ready(id))
                #expect(world.workers[id]?.state == .dying)
                world.endWorker(id, .ended(.signal(9)))
            }
            #expect(world.state.supervision[.decode].ready == 0)
            if round > 0 { #expect(!world.workers.values.contains { $0.kind == .decode && $0.state == .starting }) }
            world.happen(.timePassed, after: 30_000)
        }
        return world
    }

    @Test func `an unconfined worker is killed, and replaced ever more slowly`() {
        for sandbox in [nil, SandboxReport(seccomp: true), SandboxReport(landlock: 1)] {
            _ = expectKilled { .workerReady($0, sandbox) }
        }
    }

    @Test(arguments: [nil, "0.0.9", "1\n<3>x", ""])
    func `a worker of another version is killed, and replaced ever more slowly`(version: String?) {
        let world = expectKilled { .workerReady($0, SandboxReport(seccomp: true, landlock: 7), version: version) }
        #expect(world.state.report.workerDeaths.keys.elementsEqual([.notStarted]))
    }

    @Test func `an unconfined worker works where that is allowed, and the figures say so`() throws {
        let world = StrictWorld.ready { $0.allowsUnsandboxed = true }
        #expect(world.state.report.sandbox == "seccomp+landlock-7")
        world.endWorker(try world.worker(.decode), .ended(.signal(9)))
        let decoder = try #require(world.after(10).workers.first { $0.value.state == .starting }?.key)
        world.workers[decoder]?.state = .ready
        world.happen(.workerReady(decoder, SandboxReport(seccomp: true)))
        #expect(world.state.report.sandbox == "seccomp" && world.workers[decoder]?.state == .ready)
    }

    @Test func `an image that crashes two decoders is refused for a while under any URL, and others are served`() throws
    {
        let (world, client, job, worker) = try decoding()
        world.readHeader(job)
        world.endWorker(worker, .ended(.signal(11)))
        #expect(world.answers[client] == nil)
        let second = try #require(world.readyAll().decodes.values.first?.worker)
        #expect(second != worker)
        world.endWorker(second, .ended(.signal(11)))
        #expect(world.error(client, 1) == .decoderCrashed)
        #expect(world.readyAll(after: 200).load(client, id: 2, "b", content: 2) != nil)
        try world.download(client, id: 3, "same-bytes", content: 1)
        #expect(world.error(client, 3) == .decoderCrashed && world.decodes.isEmpty)
        world.after(Quarantine.firstMilliseconds).get(client, id: 4, "same-bytes")
        #expect(world.decodes.count == 1)
    }

    @Test func `an overdue decoder is killed and counts as crashed`() throws {
        let (world, client, job, worker) = try decoding()
        world.readHeader(job)
        #expect(world.after(19_999).workers[worker]?.state == .ready)
        #expect(world.after(1).workers[worker]?.state == .dying)
        // Messages from a condemned worker are ignored.
        world.happen(.decodeFinished(worker, job, DecodeResult(bytes: 400)))
        #expect(world.answers[client] == nil)
        world.decodes[job]?.hasOutput = true
        world.replaceWorker(worker, .ended(.signal(9)))
        #expect(world.decodes.keys.map { world.state.decoding[$0]?.crashes } == [1])
    }

    @Test func `the downloads of a dead worker begin again on the next`() throws {
        for id in 1...4 { world.get(client, id: id, "\(id)") }
        let worker = try #require(world.fetches.values.first?.worker)
        world.progress(try #require(world.fetches.keys.min()), received: 500, expected: 1000)
        #expect(world.state.memory.reservedBytes == 500)
        world.endWorker(worker, .ended(.signal(9)))
        #expect(world.state.memory.reservedBytes == 0)
        // The spare takes the downloads over at once.
        #expect(world.fetches.count == 4)
        #expect(world.fetches.values.allSatisfy { $0.worker != worker })
        #expect(world.answers[client] == nil)
    }

    @Test func `downloads fail after three crashes of their worker`() throws {
        world.get(client, id: 1, "a")
        for _ in 0..<3 {
            world.replaceWorker(try #require(world.fetches.values.first?.worker), .ended(.signal(6)), after: 1000)
        }
        #expect(world.error(client, 1) == .transferFailed)
    }

    @Test func `workers that cannot start are started again ever more slowly`() throws {
        let world = StrictWorld.starting { $0.workers = 1 }
        var waits: [Int] = []
        for _ in 0..<6 {
            world.endWorker(try world.worker(.decode), .ended(.status(1)))
            var waited = 0
            while world.workers.values.count(where: { $0.kind == .decode }) < 2 {
                world.happen(.timePassed, after: 10)
                waited += 10
            }
            waits.append(waited)
        }
        #expect(waits == [10, 100, 200, 400, 800, 1600])
    }

    @Test func `a worker that never becomes ready is killed`() throws {
        let world = StrictWorld()
        #expect(world.after(10_000).workers.values.allSatisfy { $0.state == .dying })
    }

    @Test func `silence is measured from the last byte, for each waiter by its own patience`() throws {
        for (id, patience) in [(1, 5000), (2, 1000)] { world.get(client, id: id, "a") { $0.timeoutMs = patience } }
        world.progress(try #require(world.fetches.keys.first), received: 1, after: 900)
        #expect(world.after(900).answers[client] == nil)
        #expect(world.after(100).error(client, 2) == .timeout && world.fetches.count == 1)
        #expect(world.after(4000).error(client, 1) == .timeout && world.fetches.isEmpty)
    }

    @Test func `the total time includes the queue`() throws {
        let (world, client) = StrictWorld().connected()
        world.get(client, id: 1, "a") { $0.totalTimeoutMs = 300 }
        #expect(world.after(299).answers[client] == nil)
        #expect(world.after(1).error(client, 1) == .timeout && world.state.downloads.queued == 0)
    }

    @Test func `a shutdown waits for pending requests, but not for ever`() throws {
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "b")
        world.happen(.shutdownRequested)
        #expect(!world.isListening && !world.hasExited)
        #expect(world.getError(client, id: 3, "c") == .shuttingDown)
        world.failFetch(try #require(world.fetches.keys.min()))
        #expect(!world.hasExited)
        #expect(world.after(4000).error(client, 2) == .shuttingDown && world.hasExited)
    }

    @Test func `a frame that is never completed ends the connection`() throws {
        // The deadlines of the workers' starts have passed.
        world.happen(.timePassed, after: 10_000)
        world.happen(.frameBegun(client))
        #expect(world.state.nextDeadline == world.clock.adding(milliseconds: 30_000))
        #expect(!world.after(29_999).lastActions.contains(.close(client)))
        world.happen(.frameCompleted(client))
        world.happen(.frameBegun(client))
        #expect(!world.after(29_999).lastActions.contains(.close(client)))
        #expect(world.after(1).lastActions.contains(.close(client)))
        #expect(world.lastError(nil, to: client) == .badFrame)
    }

    @Test func `a worker is retired after its jobs, or when it has grown, and never while it is busy`() throws {
        let (world, client) = Self.world(jobsOfAWorker: 50).connected()
        for number in 1...50 { world.load(client, id: number, "\(number)", content: number) }
        let worn = try #require(world.workers.first { $0.value.kind == .decode && $0.value.state == .dying }?.key)
        world.endWorker(worn, .ended(.status(0)))
        #expect(world.state.report[.workerRestarts] == 0)
        world.readyAll()
        try world.download(client, id: 51, "x", content: 51)
        let busy = try #require(world.decodes.values.first?.worker)
        for size in [10, 80] { world.happen(.workerMeasured(busy, residentBytes: size << 20)) }
        #expect(world.workers[busy]?.state == .ready)
        try world.decode()
        #expect(world.workers[busy]?.state == .dying)
    }

    @Test func `a download worker that is retired first finishes its jobs`() throws {
        world.get(client, id: 1, "slow")
        let slow = try #require(world.fetches.keys.first)
        let worn = try #require(world.fetches[slow]?.worker)
        for size in [20, 90] { world.happen(.workerMeasured(worn, residentBytes: size << 20)) }
        world.get(client, id: 2, "other")
        let other = try #require(world.fetches.keys.max())
        #expect(world.fetches[other]?.worker != worn && world.workers[worn]?.state == .ready)
        world.finishFetch(slow, content: 1)
        #expect(world.workers[worn]?.state == .dying)
    }

    /// Loads images that crash every decoder, for the clients in turn, until `deaths` decoders have died.
    private func burn(_ clients: [ClientID], deaths: Int, of hosts: [String]) throws {
        var died = 0
        for number in 20..<120 where died < deaths {
            let client = clients[number % clients.count]
            try world.download(client, id: number, "bad\(number)", of: hosts[number % hosts.count], content: number)
            while world.answers[client]?[number] == nil {
                if let worker = world.decodes.values.first?.worker {
                    died += 1
                    world.endWorker(worker, .ended(.signal(11)))
                } else {
                    world.readyAll(after: 20)
                }
            }
        }
        #expect(died >= deaths, "no more decoders can be had")
    }

    @Test func `after crashes for several users and sources new images are refused, hits are served`() throws {
        world.load(client, id: 1, "good", content: 1)
        let clients = (1...3).map { world.connect(uid: $0) }
        try burn(clients, deaths: 10, of: ["a.test", "b.test", "c.test"])
        world.readyAll()
        try world.download(client, id: 8, "other", content: 8)
        #expect(world.error(client, 8) == .decoderUnavailable)
        #expect(world.getImage(client, id: 9, "good") != nil)
        #expect(world.readyAll(after: 61_000).load(client, id: 10, "third", content: 10) != nil)
    }

    @Test func `an origin of many poisonous images is refused, and only that one`() throws {
        world.load(client, id: 1, "good", content: 1)
        try burn([client], deaths: 6, of: ["origin.test"])
        world.readyAll()
        try world.download(client, id: 2, "fresh", content: 2)
        let error = try #require(world.failure(client, 2), "it is decoded")
        #expect(error.code == .decoderUnavailable)
        #expect((1...CrashLedger.firstPauseMs).contains(error.retryAfterMs ?? 0))
        // Cached images, other origins, and other users are still served.
        #expect(world.getImage(client, id: 3, "good") != nil)
        #expect(world.load(world.stranger, id: 6, "mine", content: 6) != nil)
        #expect(world.load(client, id: 4, "fine", of: "other.test", content: 4) != nil)
        #expect(world.after(CrashLedger.firstPauseMs).load(client, id: 5, "later", content: 5) != nil)
    }

    @Test func `concurrent poisonous images of one origin do not break the pool`() throws {
        let (world, client) = Self.world(workers: 16).connected()
        for number in 1...16 { try world.download(client, id: number, "\(number)", content: number) }
        #expect(world.decodes.count == 16)
        for worker in world.decodes.values.map(\.worker) { world.endWorker(worker, .ended(.signal(11))) }
        #expect(world.state.report.workerDeaths == [.signal: 16])
        #expect(!world.areDecodersBroken)
        // The second attempts decide about the images in spite of the pause.
        for _ in 0..<40 {
            world.readyAll()
            if let worker = world.decodes.values.first?.worker { world.endWorker(worker, .ended(.signal(11))) }
        }
        #expect((1...16).allSatisfy { world.error(client, $0) == .decoderCrashed })
        try world.download(client, id: 17, "17", content: 17)
        #expect(world.error(client, 17) == .decoderUnavailable)
        try world.download(client, id: 18, "18", of: "other.test", content: 18)
        #expect(world.decodes.count == 1)
    }

    @Test func `queued decodings are refused once their origin is paused`() throws {
        for number in 1...20 {
            try world.download(client, id: number, "\(number)", content: number) { $0.totalTimeoutMs = 600_000 }
        }
        var deaths = 0
        while let worker = world.decodes.values.first?.worker {
            deaths += 1
            world.replaceWorker(worker, .ended(.signal(11)))
        }
        #expect(deaths == 2 * (CrashLedger.tolerated + 1))
        #expect((1...5).allSatisfy { world.error(client, $0) == .decoderCrashed })
        #expect((6...20).allSatisfy { world.error(client, $0) == .decoderUnavailable })
    }

    @Test func `stored bytes count against the user, not against the URL`() throws {
        for id in 1...5 {
            try world.store(client, id: id, "\(id)", bytes: 100)
            world.identify(try #require(world.identifying.keys.first), content: id)
            for _ in 0..<2 {
                guard let worker = world.decodes.values.first?.worker else { break }
                world.replaceWorker(worker, .ended(.signal(11)), after: 10)
            }
        }
        #expect(world.isPaused(of: "user 1000"))
        #expect(world.load(client, id: 9, "9", content: 9) != nil)
    }

    @Test func `large images wait for room, one always runs, small ones behind them are served in order`() throws {
        let (world, client) = StrictWorld.ready { ($0.workers, $0.memoryBytes) = (3, 10_000) }.connected()
        for number in 1...3 {
            try world.download(client, id: number, "\(number)", content: number, bytes: 10) { $0.delivery = .none }
        }
        let jobs = world.decodes.keys.sorted()
        for job in jobs { world.readHeader(job, width: 40, height: 40, workingBytes: 1000) }
        #expect(jobs.map { world.decodes[$0]?.hasOutput } == [true, false, false])
        #expect(world.state.memory.reservedBytes == 6400)
        // Waiting for memory does not count towards the decode timeout.
        world.after(9_000).finishDecode(jobs[0])
        #expect(world.after(9_000).decodes[jobs[1]]?.hasOutput == true)
        world.finishDecode(jobs[1])
        world.finishDecode(jobs[2])
        for number in 1...3 { #expect(world.image(client, number) != nil) }
    }
}

/// `Supervision` in isolation.
struct SupervisionMachineTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private let job = JobID(number: 1)
    private let strong = SandboxReport(seccomp: true, landlock: 7)

    @Test func `a worker is ready once, and only with a sandbox`() {
        var supervision = Supervision(limits: BrokerLimits())
        let workers = supervision.startMissing(at: now).map(\.worker)
        #expect(supervision.becameReady(workers[0], strong) == .accepted)
        #expect(supervision.becameReady(workers[0], strong) == .repeated)
        guard case .refused = supervision.becameReady(workers[1], SandboxReport()) else {
            return complain("an unconfined worker is accepted")
        }
        #expect(supervision.becameReady(WorkerID(number: 99), strong) == .ignored)
        #expect(supervision[workers[1]]?.isReady == false && supervision[workers[0]]?.isReady == true)
    }

    @Test func `jobs that other machines do not know break an invariant`() throws {
        var supervision = Supervision(limits: with(BrokerLimits()) { $0.workers = 1 })
        let started = supervision.startMissing(at: now)
        #expect(started.map(\.kind) == [.fetch, .fetch, .decode, .decode])
        for (_, worker) in started { #expect(supervision.becameReady(worker, strong) == .accepted) }
        let decoders = started.filter { $0.kind == .decode }.map(\.worker)
        supervision.assign(job, to: decoders[0])
        #expect(supervision.brokenInvariant(running: [(.decode, [job: decoders[0]])]) == nil)
        #expect(supervision.brokenInvariant(running: [(.decode, [:])]) != nil)
        #expect(supervision.brokenInvariant(running: [(.decode, [job: decoders[1]])]) != nil)
        // A worker loses no job that it was not running.
        #expect(supervision.foundExiting(decoders[1], before: job, at: now) == nil)
        #expect(supervision.foundExiting(decoders[0], before: job, at: now) == .decode)
        // Without a socket, it gets none.
        supervision.hungUp(decoders[1])
        #expect(supervision[.decode].available == nil)
    }
}

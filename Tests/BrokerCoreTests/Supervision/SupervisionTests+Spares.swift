import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

// Replacement of dead workers by spares, and the start of their successors.
extension SupervisionTests {
    private func decoders(_ world: StrictWorld) -> [WorkerID] {
        world.workers.filter { $0.value.kind == .decode }.keys.sorted()
    }

    private func fetchers(_ world: StrictWorld) -> [WorkerID] {
        world.workers.filter { $0.value.kind == .fetch }.keys.sorted()
    }

    @Test func `a job goes to the spare first, and the next spare is started a moment later`() throws {
        let (world, _, job, worker) = try decoding()
        world.endWorker(worker, .ended(.signal(9)))
        let spare = try #require(world.decodes[job]?.worker)
        #expect(spare != worker && decoders(world) == [spare])
        world.happen(.timePassed, after: 9)
        #expect(decoders(world) == [spare])
        #expect(world.state.nextDeadline == world.clock.adding(milliseconds: 1))
        world.happen(.timePassed, after: 1)
        #expect(decoders(world).count == 2)
    }

    @Test func `where no worker is left one is started at once, and its spare a moment later`() throws {
        let world = world()
        for worker in decoders(world) { world.endWorker(worker, .ended(.signal(9))) }
        #expect(decoders(world).count == 1)
        #expect(world.state.nextDeadline == world.clock.adding(milliseconds: 10))
        world.happen(.timePassed, after: 10)
        #expect(decoders(world).count == 2)
    }

    @Test func `a decoder found exiting gets no job, and the spare gets it at once`() throws {
        let (world, client, job, worker) = try decoding()
        world.decodes[job] = nil
        world.happen(.workerExiting(worker, job))
        let spare = try #require(world.decodes[job]?.worker)
        #expect(spare != worker)
        world.endWorker(worker, .ended(.signal(11)))
        // The job had not begun, so the crash does not count against it.
        #expect(world.state.decoding[job]?.crashes == 0)
        world.decode(job)
        #expect(world.image(client, 1) != nil)
    }

    @Test func `a download worker found exiting gets no download, and the spare gets it at once`() throws {
        let (world, client) = world().connected()
        let (first, spare) = (fetchers(world)[0], fetchers(world)[1])
        world.ending = [first, spare]
        world.get(client, id: 1, "a")
        #expect(world.fetches.isEmpty)
        world.ending = []
        world.readyAll()
        let (job, begun) = try #require(world.fetches.first)
        #expect(![first, spare].contains(begun.worker))
        for worker in [first, spare] { world.endWorker(worker, .ended(.signal(11))) }
        // Neither job had begun, so no crash is counted.
        #expect((world.state.downloads[job]?.crashes, world.state.downloads[job]?.attempts) == (0, 1))
        world.finishFetch(job, content: 1)
        #expect(world.decodes.count == 1)
    }

    @Test func `the received part of a body survives the workers that were to continue it`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a")
        let (job, begun) = try #require(world.fetches.first)
        world.respond(job, total: 3000)
        world.happen(.fetchProgressed(begun.worker, job, received: 1500, expected: 3000))
        world.ending = Set(fetchers(world))
        world.endWorker(begun.worker, .ended(.signal(9)))
        #expect(world.fetches.isEmpty)
        world.ending = []
        world.readyAll()
        #expect(world.fetches[job]?.order.resumption?.offset == 1500)
        #expect(world.state.downloads[job]?.resumptions == 1)
    }

    @Test func `workers found exiting are replaced before their exit is reported`() throws {
        let (world, client, job, first) = try decoding()
        world.decodes[job] = nil
        world.happen(.workerExiting(first, job))
        let second = try #require(world.decodes.removeValue(forKey: job)?.worker)
        world.happen(.workerExiting(second, job))
        let third = try #require(decoders(world).last)
        #expect(decoders(world) == [first, second, third])
        world.readyAll()
        #expect(world.decodes[job]?.worker == third)
        for worker in [first, second] { world.endWorker(worker, .ended(.signal(9))) }
        world.happen(.timePassed, after: 10)
        #expect(decoders(world).count == 2)
        world.decode(job)
        #expect(world.image(client, 1) != nil)
    }

    // MARK: Rest

    /// The time after which idle download workers end.
    private static let idleTime = BrokerLimits().fetcherIdleMs

    private func readyFetchers(_ world: StrictWorld) -> [WorkerID] {
        fetchers(world).filter { world.workers[$0]?.state == .ready }
    }

    @Test func `without downloads the download workers end, and the next download starts one at once`() throws {
        let world = world()
        let former = fetchers(world)
        world.happen(.timePassed, after: Self.idleTime - 1)
        #expect(readyFetchers(world) == former)
        world.happen(.timePassed, after: 1)
        #expect(readyFetchers(world).isEmpty)
        for worker in former { world.endWorker(worker, .ended(.status(0))) }
        // For clients they are there all the same, and none has died.
        #expect(fetchers(world).isEmpty && world.state.report(for: 1000)[.fetchers] == 1)
        #expect(world.state.supervision.restarts == 0)
        world.happen(.timePassed, after: 10 * Self.idleTime)
        #expect(fetchers(world).isEmpty)
        // Its spare starts when it may have become ready.
        let client = world.connect()
        world.get(client, id: 1, "a")
        #expect(fetchers(world).count == 1 && world.fetches.isEmpty)
        // At this moment, too, the broker counts as able to load.
        #expect(world.state.report(for: 1000)[.fetchers] == 1)
        world.happen(.timePassed, after: 10)
        #expect(fetchers(world).count == 2)
        world.readyAll()
        try world.finishFetch(content: 1)
        // They stay for as long again, and then for as long as there are downloads.
        world.happen(.timePassed, after: Self.idleTime - 11)
        #expect(readyFetchers(world).count == 2)
        try world.download(client, id: 2, "b", content: 2)
        world.happen(.timePassed, after: Self.idleTime - 1)
        #expect(readyFetchers(world).count == 2)
        world.happen(.timePassed, after: Self.idleTime)
        #expect(readyFetchers(world).isEmpty)
    }

    @Test func `download workers stay while a transfer lasts`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a") { ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000) }
        for _ in 0..<3 { world.happen(.timePassed, after: Self.idleTime) }
        #expect(readyFetchers(world).count == 2)
        try world.finishFetch(content: 1)
        #expect(world.decodes.count == 1)
        // The time counts from the end of the transfer: its connection is still open.
        world.happen(.timePassed, after: Self.idleTime)
        #expect(readyFetchers(world).count == 2)
        world.happen(.timePassed, after: Self.idleTime)
        #expect(readyFetchers(world).isEmpty)
    }

    @Test func `download workers that rest start for what waited while loading was suspended`() throws {
        let (world, client) = world().connected(isAdmin: true)
        world.state.isSuspended = true
        world.get(client, id: 1, "a") { ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000) }
        world.happen(.timePassed, after: 2 * Self.idleTime)
        // With a download in the queue they stay; without, they rest, and a suspended one does not wake them.
        #expect(readyFetchers(world).count == 2)
        world.state.isSuspended = false
        world.happen(.timePassed)
        try world.finishFetch(content: 1)
        world.happen(.timePassed, after: Self.idleTime)
        world.happen(.timePassed, after: Self.idleTime)
        #expect(readyFetchers(world).isEmpty)
        world.state.isSuspended = true
        world.get(client, id: 2, "b")
        for worker in fetchers(world) { world.endWorker(worker, .ended(.status(0))) }
        #expect(fetchers(world).isEmpty)
        world.state.isSuspended = false
        world.happen(.timePassed)
        world.readyAll()
        #expect(world.fetches.count == 1)
    }

    @Test func `download workers that fail to start are tried again instead of resting`() throws {
        let world = world()
        for _ in 0..<20 {
            for worker in fetchers(world) { world.endWorker(worker, .ended(.signal(11))) }
            world.happen(.timePassed, after: Self.idleTime / 4)
        }
        #expect(!fetchers(world).isEmpty && world.state.report(for: 1000)[.fetchers] == 0)
    }

    // MARK: Attribution

    /// Loads images that crash two decoders each, and returns the number of deaths before the first refusal.
    private func poison(_ world: StrictWorld, servedBy server: (Int) -> String) throws -> Int {
        let client = world.connect()
        for number in 1...20 {
            world.get(client, id: number, "\(number)")
            try world.finishFetch(content: number) { $0.servedBy = server(number) }
            if world.answers[client]?[number] != nil { return 2 * (number - 1) }
            // The second attempt may be refused.
            while let worker = world.decodes.values.first?.worker {
                world.endWorker(worker, .ended(.signal(11)))
                world.readyAll(after: 10)
            }
        }
        return 40
    }

    @Test func `an origin that redirects to poisonous images keeps its own`() throws {
        let world = world()
        #expect(try poison(world) { _ in "http://evil.test/" } <= 2 * CrashLedger.tolerated)
        let client = world.connect()
        world.load(client, id: 100, "own", content: 100)
        #expect(world.image(client, 100) != nil)
        // Images requested directly from the guilty server are refused too.
        try world.download(client, id: 101, "x", of: "evil.test", content: 101)
        #expect(world.error(client, 101) == .decoderUnavailable)
    }

    @Test func `an origin that redirects to ever new names is refused all the same`() throws {
        let world = world()
        #expect(try poison(world) { "http://\($0).evil.test/" } <= 2 * CrashLedger.tolerated)
    }

    // MARK: Downloads

    @Test func `only the guilty download of a crashing worker fails`() throws {
        let (world, client) = world().connected()
        for id in 1...5 { world.get(client, id: id, "\(id)") }
        // The third download kills its worker.
        for _ in 0..<20 {
            let guilty = world.fetches.first { $0.value.order.url.hasSuffix("/3") }?.value.worker
            if let guilty {
                world.endWorker(guilty, .ended(.signal(11)))
            } else if let other = world.fetches.first(where: { !$0.value.order.url.hasSuffix("/3") }) {
                world.finishFetch(other.key, content: Int(other.value.order.url.suffix(1)) ?? 0)
            }
            world.readyAll(after: 1000)
        }
        #expect(world.error(client, 3) == .transferFailed)
        for (job, _) in world.decodes { world.decode(job) }
        while let job = world.decodes.keys.first { world.decode(job) }
        for id in [1, 2, 4, 5] { #expect(world.image(client, id) != nil) }
    }

    @Test func `a download that is retried alone has a worker to itself, and others run on another`() throws {
        let (world, client) = world().connected()
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        world.endWorker(try #require(world.fetches.values.first?.worker), .ended(.signal(11)))
        #expect(world.fetches.count == 1)
        world.readyAll(after: 1000)
        let (alone, suspect) = try #require(world.fetches.first).self
        for id in 4...6 { world.get(client, id: id, "\(id)") }
        #expect(world.fetches.count == 4)
        #expect(world.fetches.values.count { $0.worker == suspect.worker } == 1)
        world.finishFetch(alone, content: 1)
        #expect(world.fetches.count == 4)
    }

    @Test func `a suspect that lives for 10 s blocks no other suspect`() throws {
        let (world, client) = world().connected()
        for id in 1...8 {
            world.get(client, id: id, "\(id)", of: "\(id).test") {
                ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000)
            }
        }
        world.endWorker(try #require(world.fetches.values.first?.worker), .ended(.signal(11)))
        world.readyAll()
        // All eight are suspects; the first one's origin is silent.
        #expect(world.fetches.count == 1)
        world.readyAll(after: 9_999)
        #expect(world.fetches.count == 1)
        for count in 2...5 {
            world.readyAll(after: count == 2 ? 1 : 10_000)
            #expect(world.fetches.count == count)
            #expect(Set(world.fetches.values.map(\.worker)).count == count)
        }
        // At most four workers are replaced, because each is one more process.
        world.readyAll(after: 20_000)
        #expect(world.fetches.count == 5)
        // Other downloads go on.
        world.get(client, id: 9, "9")
        world.finishFetch(try #require(world.fetches.first { $0.value.order.url.hasSuffix("/9") }?.key), content: 9)
        #expect(world.decodes.count == 1)
        world.finishFetch(try #require(world.fetches.keys.min()), content: 1)
        world.readyAll(after: 10_000)
        #expect(world.fetches.count == 5)
    }
}

import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

// Causes of worker deaths, their consequences, the quarantine of images, and the spares that replace dead workers.
extension SupervisionTests {
    @Test func `every exit of a worker has its cause`() {
        typealias Condemnation = WorkerPool.Condemnation
        let late = Condemnation(cause: .deadline, detail: "late")
        let liar = Condemnation(cause: .protocol, detail: "lies")
        func cause(_ exit: WorkerExit, _ condemnation: Condemnation? = nil, wasReady: Bool = true) -> DeathCause {
            WorkerDeath(exit, condemnation: condemnation, wasReady: wasReady, memoryLimit: 1000).cause
        }
        for number: Int32 in [4, 5, 6, 7, 8, 11] {
            #expect(cause(.ended(.signal(number))) == .signal)
            #expect(cause(.ended(.signal(number)), late) == .signal)
            #expect(cause(.ended(.signal(number)), liar) == .protocol)
            #expect(cause(.ended(.signal(number), ExitCircumstances(peakBytes: 800))) == .memory)
        }
        #expect((cause(.ended(.signal(31))), cause(.ended(.signal(24)))) == (.seccomp, .cpu))
        #expect(cause(.ended(.signal(9))) == .outside)
        #expect(cause(.ended(.signal(9), ExitCircumstances(isMemoryShort: true))) == .memory)
        #expect(cause(.ended(.signal(9), ExitCircumstances(isMemoryShort: true)), late) == .deadline)
        #expect(cause(.ended(.signal(9)), Condemnation(cause: .unconfined, detail: "")) == .unconfined)
        for number: Int32 in [1, 2, 10, 15] { #expect(cause(.ended(.signal(number))) == .outside) }
        #expect((cause(.ended(.status(0))), cause(.ended(.status(1)), late)) == (.exit, .exit))
        #expect((cause(.ended(.status(1)), liar), cause(.notStarted("no program"))) == (.protocol, .notStarted))
        #expect(cause(.ended(.status(1)), wasReady: false) == .notStarted)
        for number: Int32 in [9, 15] { #expect(cause(.ended(.signal(number)), wasReady: false) == .outside) }
        #expect(cause(.ended(.signal(11)), wasReady: false) == .signal)
        #expect(DeathCause.allCases.filter { !$0.isOwnMaking } == [.outside])
        let text = WorkerDeath(.ended(.signal(31)), condemnation: nil, wasReady: true).reason
        #expect(text == "seccomp: signal 31 (Bad system call)")
    }

    /// Workers killed while they start, for example by the kernel, neither open the pool's breaker for half a minute
    /// nor are restarted without a pause.
    @Test func `workers killed before they are ready are started again, at most once a second`() {
        var pool = WorkerPool(size: 1, spares: 0, capacity: 1)
        var now = Instant(nanoseconds: 0)
        var ids = IdentifierSource<WorkerProcessKind>()
        var pauses: [Int] = []
        for _ in 0..<20 {
            let worker = ids.next()
            pool.started(worker, at: now)
            pool.ended(worker, .none, at: now)
            let next = pool.nextStart ?? now
            pauses.append(next.microseconds(since: now) / 1000)
            now = max(next, now)
        }
        #expect((pauses.prefix(4), pauses.last) == ([2, 4, 8, 16], 1000))
        #expect(!pool.isBroken(at: now) && !pool.isDown)
        let worker = ids.next()
        pool.started(worker, at: now)
        pool.becameReady(worker)
        pool.ended(worker, .none, at: now)
        #expect(pool.mayStart(at: now))
    }

    @Test func `a family whose last worker has died of an image has a spare started`() throws {
        var supervision = Supervision(limits: BrokerLimits())
        let now = Instant(nanoseconds: 0)
        supervision.want(.svg, for: 1)
        let worker = try #require(supervision.startMissing(at: now).first { $0.kind == .loader(.svg) }?.worker)
        #expect(supervision.becameReady(worker, SandboxReport(seccomp: true, landlock: 7)) == .accepted)
        _ = supervision.exited(
            worker, .ended(.signal(11)), isForgiven: false, isOfImage: true, isDraining: false, at: now)
        // Nothing is queued.
        for family in supervision.neededFamilies { supervision.want(family, for: 0) }
        #expect(supervision.startMissing(at: now).contains { $0.kind == .loader(.svg) })
    }

    @Test func `deaths are counted by cause, and retired workers are none`() throws {
        let (world, _, job, worker) = try decoding()
        world.endWorker(worker, .ended(.signal(31)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1])
        world.endWorker(try #require(world.decodes[job]?.worker), .ended(.signal(9)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1])
        #expect(world.forkServersRespawned == 1)
        // A worker killed for lack of memory has leaked nothing, so the fork server is not respawned.
        world.readyAll()
        world.endWorker(try world.worker(.decode), .ended(.signal(9), ExitCircumstances(isMemoryShort: true)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1, .memory: 1])
        #expect(world.forkServersRespawned == 1)
        world.readyAll()
        let idle = try world.worker(.fetch)
        for size in [0, 90] { world.happen(.workerMeasured(idle, residentBytes: size << 20)) }
        #expect(world.workers[idle]?.state == .dying)
        world.endWorker(idle, .ended(.status(0)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1, .memory: 1])
    }

    @Test func `processor time is measured when it may be used up, and again`() throws {
        let (world, client, job, worker) = try decoding()
        world.happen(.timePassed, after: 9_999)
        #expect(world.measuring.isEmpty)
        world.happen(.timePassed, after: 1)
        #expect(world.measuring.map(\.job) == [job])
        // The job had to wait for a processor.
        world.happen(.processorTimeUsed(worker, job, milliseconds: 7_000))
        world.happen(.timePassed, after: 2_999)
        #expect(world.measuring.count == 1)
        world.happen(.timePassed, after: 1)
        #expect(world.measuring.count == 2)
        world.happen(.processorTimeUsed(worker, job, milliseconds: 10_000))
        #expect(world.workers[worker]?.state == .dying)
        world.endWorker(worker, .ended(.signal(9)))
        #expect(world.error(client, 1) == .decoderCrashed && world.decodes.isEmpty)
        #expect(world.state.report.workerDeaths == [.cpu: 1] && world.forkServersRespawned == 1)
    }

    @Test func `the second try is on the freshest worker`() throws {
        let (world, client) = Self.world(workers: 2).connected()
        // Both initial workers have done work.
        for id in 1...2 { try world.download(client, id: id, "\(id)", content: id) }
        let worn = Set(world.decodes.values.map(\.worker))
        world.decodeAll()
        try world.download(client, id: 3, "3", content: 3)
        let first = try #require(world.decodes.values.first?.worker)
        #expect(worn.contains(first))
        world.endWorker(first, .ended(.signal(11)))
        let second = try #require(world.decodes.values.first?.worker)
        #expect(!worn.contains(second))
    }

    @Test func `a decoder that breaks the protocol is killed, and its image tried once more`() throws {
        let result = DecodeResult(bytes: 400)
        let timed = with(result) { $0.timing = AnimationTiming(delaysMs: [100], loops: 0) }
        let small = with(decodePlan()) { $0.result = PixelGeometry(width: 9, height: 9)! }
        let unknown = JobID(number: 99)
        /// What it reports, after the header of its image or before that.
        let lies: [(hasHeader: Bool, report: (WorkerID, JobID) -> Event)] = [
            (false, { worker, _ in .workerMisbehaved(worker, "nonsense") }),
            (false, { worker, _ in .workerReady(worker, SandboxReport(seccomp: true, landlock: 7)) }),
            (false, { .decodeFinished($0, $1, result) }),
            (false, { worker, _ in .decodeFinished(worker, unknown, result) }),
            (true, { .decodeFinished($0, $1, DecodeResult(bytes: 399)) }),
            (true, { .decodeFinished($0, $1, timed) }),
            (false, { worker, _ in .decodeFailed(worker, unknown, WireError(.timeout, "")) }),
            (false, { .identified($0, $1, digest: StrictWorld.digest(2)) }),
            (false, { .headerRead($0, $1, small) }),
            (true, { .headerRead($0, $1, decodePlan()) }),
        ]
        for lie in lies {
            let (world, client, job, worker) = try decoding()
            if lie.hasHeader { world.readHeader(job) }
            try world.expectKilled(lie.report)
            world.endWorker(worker, .ended(.signal(9)))
            #expect(world.state.report.workerDeaths == [.protocol: 1])
            // The fork server is respawned, so the next worker has another memory layout.
            #expect(world.forkServersRespawned == 1 && world.answers[client] == nil)
            #expect(try world.decoded(client, 1) != nil)
        }
    }

    @Test func `an image that needs more than the memory of a worker, result included, is refused`() throws {
        let (world, client, job, worker) = try decoding(
            in: .ready { ($0.workers, $0.workerMemoryBytes) = (1, 200 << 20) })
        #expect(world.decodes[job]?.order.maxWorkingBytes == 136 << 20)
        world.readHeader(job, workingBytes: 200 << 20 - 399)
        #expect(world.error(client, 1) == .tooManyPixels && world.workers[worker]?.state == .ready)
        try world.download(client, id: 2, "b", content: 2)
        let next = try #require(world.decodes.keys.first)
        world.readHeader(next, workingBytes: 200 << 20 - 400)
        world.finishDecode(next)
        #expect(world.image(client, 2) != nil)
    }

    // MARK: Quarantine

    private var digest: ContentDigest { ContentDigest(hexadecimal: StrictWorld.digest(1))! }

    @Test func `an image is refused for longer each time, up to a day`() {
        var quarantine = Quarantine()
        var (now, waits) = (1_000_000, [Int]())
        for _ in 0..<6 {
            quarantine.add(digest, build: "a", unixMs: now)
            var wait = 0
            while quarantine.refuses(digest, build: "a", unixMs: now + wait) { wait += 60_000 }
            waits.append(wait / 60_000)
            now += wait
        }
        #expect(waits == [10, 40, 160, 640, 1440, 1440])
    }

    @Test func `what orders state as refused follows time, changes and the build`() throws {
        var quarantine = Quarantine()
        #expect(quarantine.refusedDigests(build: "a", unixMs: 0) == [])
        quarantine.add(digest, build: "a", unixMs: 1000)
        let end = 1000 + Quarantine.firstMilliseconds
        // At last, the clock is set back.
        for (build, now, isRefused) in [
            ("a", 1000, true), ("b", 1000, false), ("a", end - 1, true), ("a", end, false), ("a", 1000, true),
        ] {
            let prefix = String(digest.hexadecimal.prefix(EarlyDecode.prefixLength))
            #expect(quarantine.refusedDigests(build: build, unixMs: now) == (isRefused ? [prefix] : []))
        }
        for number in 2...Quarantine.mostStated + 1 {
            #expect(quarantine.refusedDigests(build: "a", unixMs: 1000)?.count == number - 1)
            quarantine.add(try contentKey(number).digest, build: "a", unixMs: 1000)
        }
        #expect(quarantine.refusedDigests(build: "a", unixMs: 1000) == nil)
    }

    @Test func `decoders of another build may try a quarantined image`() throws {
        var quarantine = Quarantine()
        quarantine.add(digest, build: "a", unixMs: 0)
        #expect(quarantine.refuses(digest, build: "a", unixMs: 1))
        #expect(!quarantine.refuses(digest, build: "b", unixMs: 1))

        let (world, client, _, worker) = try decoding()
        world.endWorker(worker, .ended(.signal(11)))
        world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11)))
        #expect(world.error(client, 1) == .decoderCrashed)
        world.happen(.timePassed, after: 1000)
        #expect(world.readyAll(build: "second").load(client, id: 2, "same-bytes", content: 1) != nil)
    }

    @Test func `the quarantine outlives the broker, within its bound`() throws {
        var first = Quarantine()
        let digests = try (0...Quarantine.maximumEntries).map { try contentKey($0).digest }
        for digest in digests.dropLast() { first.add(digest, build: "a", unixMs: 1000) }
        // Used recently, so another entry is evicted.
        first.noteUse(of: digests[0])
        first.add(digests.last!, build: "a", unixMs: 1000)
        #expect(first.count == Quarantine.maximumEntries && first.refuses(digests[0], build: "a", unixMs: 1000))
        #expect(!first.refuses(digests[1], build: "a", unixMs: 1000))

        var second = Quarantine()
        second.add(digests[0], build: "b", unixMs: 2000)
        second.restore(first.records(unixMs: 1000), unixMs: 2000)
        #expect(second.count == Quarantine.maximumEntries && second.refuses(digests[2], build: "a", unixMs: 2000))
        #expect(second.refuses(digests[0], build: "b", unixMs: 2000))
        // The duration is remembered for a while after the quarantine has expired.
        let later = 1000 + Quarantine.firstMilliseconds
        #expect(!second.refuses(digests[2], build: "a", unixMs: later))
        #expect(second.records(unixMs: later).count == Quarantine.maximumEntries)
        second.add(digests[2], build: "a", unixMs: later)
        #expect(second.refuses(digests[2], build: "a", unixMs: later + 3 * Quarantine.firstMilliseconds))
        #expect(second.records(unixMs: later + 3 * Quarantine.longestMilliseconds).isEmpty)
        // A wrong clock does not quarantine an image for ever.
        #expect(!second.refuses(digests[2], build: "a", unixMs: later - 2 * Quarantine.longestMilliseconds))
    }

    @Test func `the disk tier saves the quarantine, and returns it to the next broker`() throws {
        let (world, client) = StrictWorld.ready { ($0.workers, $0.usesDisk) = (1, true) }.connected()
        try world.download(client, id: 1, "a", content: 1)
        for _ in 0..<2 { world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11))) }
        #expect(world.error(client, 1) == .decoderCrashed)
        let records = try #require(world.quarantined)
        #expect((records.map(\.digest), records.map(\.build)) == ([StrictWorld.digest(1)], ["first"]))

        let (next, other) = StrictWorld.ready().connected()
        next.happen(.quarantineLoaded(records))
        try next.download(other, id: 1, "a", content: 1)
        #expect(next.error(other, 1) == .decoderCrashed)
    }

    // MARK: Spares

    private func workers(_ kind: WorkerKind, of world: StrictWorld) -> [WorkerID] {
        world.workers.filter { $0.value.kind == kind }.keys.sorted()
    }

    private func decoders(_ world: StrictWorld) -> [WorkerID] { workers(.decode, of: world) }
    private var fetchers: [WorkerID] { workers(.fetch, of: world) }

    @Test func `a job goes to the spare first, and the next spare is started a moment later`() throws {
        let (world, client, job, worker) = try decoding()
        world.readHeader(job)
        world.endWorker(worker, .ended(.signal(9)))
        let spare = try #require(world.decodes[job]?.worker)
        #expect(spare != worker && decoders(world) == [spare] && world.workers[spare]?.state == .ready)
        #expect(decoders(world.after(9)) == [spare])
        #expect(world.state.nextDeadline == world.clock.adding(milliseconds: 1))
        #expect(decoders(world.after(1)).count == 2)
        #expect(try world.decoded(client, 1) != nil)
    }

    @Test func `where no worker is left one is started at once, and its spare a moment later`() throws {
        for worker in decoders(world) { world.endWorker(worker, .ended(.signal(9))) }
        #expect(decoders(world).count == 1)
        #expect(world.state.nextDeadline == world.clock.adding(milliseconds: 10))
        #expect(decoders(world.after(10)).count == 2)
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
        #expect(try world.decoded(client, 1) != nil)
    }

    @Test func `a download worker found exiting gets no download, and the spare gets it at once`() throws {
        let (first, spare) = (fetchers[0], fetchers[1])
        world.ending = [first, spare]
        world.get(client, id: 1, "a")
        #expect(world.fetches.isEmpty)
        world.ending = []
        let (job, begun) = try #require(world.readyAll().fetches.first)
        #expect(![first, spare].contains(begun.worker))
        for worker in [first, spare] { world.endWorker(worker, Self.crash) }
        // Neither job had begun, so no crash is counted.
        #expect((world.state.downloads[job]?.crashes, world.state.downloads[job]?.attempts) == (0, 1))
        world.finishFetch(job, content: 1)
        #expect(world.decodes.count == 1)
    }

    @Test func `the received part of a body survives the workers that were to continue it`() throws {
        world.get(client, id: 1, "a")
        let (job, begun) = try #require(world.fetches.first)
        world.receive(job, 1500, of: 3000)
        world.ending = Set(fetchers)
        world.endWorker(begun.worker, .ended(.signal(9)))
        #expect(world.fetches.isEmpty)
        world.ending = []
        world.readyAll()
        #expect(world.fetches[job]?.order.resumption?.offset == 1500 && world.fetches[job]?.worker != begun.worker)
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
        #expect(world.readyAll().decodes[job]?.worker == third)
        for worker in [first, second] { world.endWorker(worker, .ended(.signal(9))) }
        #expect(decoders(world.after(10)).count == 2)
        #expect(try world.decoded(client, 1) != nil)
    }

    // MARK: Rest

    private static let crash = WorkerExit.ended(.signal(11))

    /// The time after which idle download workers end.
    private static let idleTime = BrokerLimits().fetcherIdleMs

    private var readyFetchers: [WorkerID] { fetchers.filter { world.workers[$0]?.state == .ready } }

    /// Lets the time pass after which idle download workers end, less or more, and expects that so many are left.
    private func expectFetchers(
        _ count: Int, after milliseconds: Int = idleTime, at location: SourceLocation = #_sourceLocation
    ) {
        world.happen(.timePassed, after: milliseconds)
        #expect(readyFetchers.count == count, sourceLocation: location)
    }

    @Test func `without downloads the download workers end, and the next download starts one at once`() throws {
        let former = fetchers
        world.happen(.timePassed, after: Self.idleTime - 1)
        #expect(readyFetchers == former)
        expectFetchers(0, after: 1)
        for worker in former { world.endWorker(worker, .ended(.status(0))) }
        // For clients they are there all the same, and none has died.
        #expect(fetchers.isEmpty && world.state.report(for: 1000)[.fetchers] == 1)
        #expect(world.state.supervision.restarts == 0)
        world.happen(.timePassed, after: 10 * Self.idleTime)
        #expect(fetchers.isEmpty)
        // Its spare starts when it may have become ready.
        world.get(client, id: 1, "a")
        #expect(fetchers.count == 1 && world.fetches.isEmpty)
        // At this moment, too, the broker counts as able to load.
        #expect(world.state.report(for: 1000)[.fetchers] == 1)
        world.happen(.timePassed, after: 10)
        #expect(fetchers.count == 2)
        world.readyAll()
        try world.finishFetch(content: 1)
        // They stay for as long again, and then for as long as there are downloads.
        expectFetchers(2, after: Self.idleTime - 11)
        try world.download(client, id: 2, "b", content: 2)
        expectFetchers(2, after: Self.idleTime - 1)
        expectFetchers(0)
    }

    @Test func `download workers stay while a transfer lasts`() throws {
        world.get(client, id: 1, "a") { ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000) }
        for _ in 0..<3 { expectFetchers(2) }
        try world.finishFetch(content: 1)
        #expect(world.decodes.count == 1)
        // The time counts from the end of the transfer: its connection is still open.
        expectFetchers(2)
        expectFetchers(0)
    }

    @Test func `download workers that rest start for what waited while loading was suspended`() throws {
        world.state.isSuspended = true
        world.get(client, id: 1, "a") { ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000) }
        // With a download in the queue they stay; without, they rest, and a suspended one does not wake them.
        expectFetchers(2, after: 2 * Self.idleTime)
        world.state.isSuspended = false
        world.happen(.timePassed)
        try world.finishFetch(content: 1)
        world.happen(.timePassed, after: Self.idleTime)
        expectFetchers(0)
        world.state.isSuspended = true
        world.get(client, id: 2, "b")
        for worker in fetchers { world.endWorker(worker, .ended(.status(0))) }
        #expect(fetchers.isEmpty)
        world.state.isSuspended = false
        world.happen(.timePassed)
        #expect(world.readyAll().fetches.count == 1)
    }

    @Test func `download workers that fail to start are tried again instead of resting`() throws {
        for _ in 0..<20 {
            for worker in fetchers { world.endWorker(worker, Self.crash) }
            world.happen(.timePassed, after: Self.idleTime / 4)
        }
        #expect(!fetchers.isEmpty && world.state.report(for: 1000)[.fetchers] == 0)
    }

    // MARK: Attribution

    /// Loads images that crash two decoders each, and returns the number of deaths before the first refusal.
    private func poison(servedBy server: (Int) -> String) throws -> Int {
        for number in 1...20 {
            try world.download(
                client, id: number, "\(number)", content: number, response: { $0.servedBy = server(number) })
            if world.answers[client]?[number] != nil { return 2 * (number - 1) }
            // The second attempt may be refused.
            while let dying = world.decodes.values.first?.worker { world.replaceWorker(dying, Self.crash, after: 10) }
        }
        return 40
    }

    @Test func `an origin that redirects to poisonous images keeps its own`() throws {
        #expect(try poison { _ in "http://evil.test/" } <= 2 * CrashLedger.tolerated)
        #expect(world.load(client, id: 100, "own", content: 100) != nil)
        // Images requested directly from the guilty server are refused too.
        try world.download(client, id: 101, "x", of: "evil.test", content: 101)
        #expect(world.error(client, 101) == .decoderUnavailable)
    }

    @Test func `an origin that redirects to ever new names is refused all the same`() throws {
        #expect(try poison { "http://\($0).evil.test/" } <= 2 * CrashLedger.tolerated)
    }

    // MARK: Downloads

    @Test func `only the guilty download of a crashing worker fails`() throws {
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
        while let job = world.decodes.keys.first { world.decode(job) }
        for id in [1, 2, 4, 5] { #expect(world.image(client, id) != nil) }
    }

    @Test func `a download that is retried alone has a worker to itself, and others run on another`() throws {
        for id in 1...3 { world.get(client, id: id, "\(id)") }
        world.endWorker(try #require(world.fetches.values.first?.worker), .ended(.signal(11)))
        #expect(world.fetches.count == 1)
        let (alone, suspect) = try #require(world.readyAll(after: 1000).fetches.first).self
        for id in 4...6 { world.get(client, id: id, "\(id)") }
        #expect(world.fetches.count == 4)
        #expect(world.fetches.values.count { $0.worker == suspect.worker } == 1)
        world.finishFetch(alone, content: 1)
        #expect(world.fetches.count == 4)
    }

    @Test func `a suspect that lives for 10 s blocks no other suspect`() throws {
        for id in 1...8 {
            world.get(client, id: id, "\(id)", of: "\(id).test") {
                ($0.timeoutMs, $0.totalTimeoutMs) = (600_000, 600_000)
            }
        }
        world.replaceWorker(try #require(world.fetches.values.first?.worker), .ended(.signal(11)))
        // All eight are suspects; the first one's origin is silent.
        #expect(world.fetches.count == 1)
        #expect(world.readyAll(after: 9_999).fetches.count == 1)
        for count in 2...5 {
            #expect(world.readyAll(after: count == 2 ? 1 : 10_000).fetches.count == count)
            #expect(Set(world.fetches.values.map(\.worker)).count == count)
        }
        // At most four workers are replaced, because each is one more process.
        #expect(world.readyAll(after: 20_000).fetches.count == 5)
        // Other downloads go on.
        world.get(client, id: 9, "9")
        world.finishFetch(try #require(world.fetches.first { $0.value.order.url.hasSuffix("/9") }?.key), content: 9)
        #expect(world.decodes.count == 1)
        world.finishFetch(try #require(world.fetches.keys.min()), content: 1)
        #expect(world.readyAll(after: 10_000).fetches.count == 5)
    }
}

import Digests
import DiskRecords
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

// Causes of worker deaths, their consequences, and the quarantine of images.
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

    @Test func `deaths are counted by cause, and retired workers are none`() throws {
        let (world, _, job, worker) = try decoding()
        world.endWorker(worker, .ended(.signal(31)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1])
        world.endWorker(try #require(world.decodes[job]?.worker), .ended(.signal(9)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1])
        #expect(world.forkServersRespawned == 1)
        // A worker killed for lack of memory has leaked nothing, so the fork server is not respawned.
        world.readyAll()
        let third = try #require(world.workers.first { $0.value.kind == .decode }?.key)
        world.endWorker(third, .ended(.signal(9), ExitCircumstances(isMemoryShort: true)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1, .memory: 1])
        #expect(world.forkServersRespawned == 1)
        world.readyAll()
        let idle = try #require(world.workers.first { $0.value.kind == .fetch }?.key)
        world.happen(.workerMeasured(idle, residentBytes: 0))
        world.happen(.workerMeasured(idle, residentBytes: 90 << 20))
        #expect(world.workers[idle]?.state == .dying)
        world.endWorker(idle, .ended(.status(0)))
        #expect(world.state.report.workerDeaths == [.seccomp: 1, .outside: 1, .memory: 1])
    }

    @Test func `an image that uses up its processor time is not tried again`() throws {
        let (world, client, _, worker) = try decoding()
        world.endWorker(worker, .ended(.signal(24)))
        #expect(world.error(client, 1) == .decoderCrashed && world.decodes.isEmpty)
        try world.download(client, id: 2, "same-bytes", content: 1)
        #expect(world.error(client, 2) == .decoderCrashed && world.decodes.isEmpty)
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
        #expect(world.state.report.workerDeaths == [.cpu: 1])
    }

    @Test func `the second try is on the freshest worker`() throws {
        let (world, client) = world(workers: 2).connected()
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
        typealias Lie = (StrictWorld, WorkerID, JobID) -> Void
        let other = try #require(PixelGeometry(width: 9, height: 9))
        let size = try #require(PixelGeometry(width: 10, height: 10))
        let header = ImageHeader(format: .png, geometry: size)
        let lies: [Lie] = [
            { world, worker, _ in world.happen(.workerMisbehaved(worker, "nonsense")) },
            { world, worker, _ in world.happen(.workerReady(worker, SandboxReport(seccomp: true, landlock: 7))) },
            { world, worker, job in world.happen(.decodeFinished(worker, job, DecodeResult(bytes: 400))) },
            { world, worker, _ in
                world.happen(.decodeFinished(worker, JobID(number: 99), DecodeResult(bytes: 400)))
            },
            { world, worker, job in
                world.readHeader(job)
                world.happen(.decodeFinished(worker, job, DecodeResult(bytes: 399)))
            },
            { world, worker, job in
                world.readHeader(job)
                var result = DecodeResult(bytes: 400)
                result.timing = AnimationTiming(delaysMs: [100], loops: 0)
                world.happen(.decodeFinished(worker, job, result))
            },
            { world, worker, _ in world.happen(.decodeFailed(worker, JobID(number: 99), WireError(.timeout, ""))) },
            { world, worker, job in
                world.happen(.headerRead(worker, job, DecodePlan(header: header, result: other, workingBytes: 0)))
            },
            { world, worker, job in
                world.readHeader(job)
                world.happen(.headerRead(worker, job, DecodePlan(header: header, result: size, workingBytes: 0)))
            },
        ]
        for lie in lies {
            let (world, client, job, worker) = try decoding()
            lie(world, worker, job)
            #expect(world.workers[worker]?.state == .dying)
            world.endWorker(worker, .ended(.signal(9)))
            #expect(world.state.report.workerDeaths == [.protocol: 1])
            // The fork server is respawned, so the next worker has another memory layout.
            #expect(world.forkServersRespawned == 1 && world.answers[client] == nil)
            world.decode(job)
            #expect(world.image(client, 1) != nil)
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
        let prefix = String(digest.hexadecimal.prefix(EarlyDecode.prefixLength))
        let end = 1000 + Quarantine.firstMilliseconds
        #expect(quarantine.refusedDigests(build: "a", unixMs: 1000) == [prefix])
        #expect(quarantine.refusedDigests(build: "b", unixMs: 1000) == [])
        #expect(quarantine.refusedDigests(build: "a", unixMs: end - 1) == [prefix])
        #expect(quarantine.refusedDigests(build: "a", unixMs: end) == [])
        // The clock is set back.
        #expect(quarantine.refusedDigests(build: "a", unixMs: 1000) == [prefix])
        for number in 2...Quarantine.mostStated + 1 {
            #expect(quarantine.refusedDigests(build: "a", unixMs: 1000)?.count == number - 1)
            quarantine.add(
                try #require(ContentDigest(hexadecimal: StrictWorld.digest(number))), build: "a", unixMs: 1000)
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
        world.readyAll(build: "second")
        world.load(client, id: 2, "same-bytes", content: 1)
        #expect(world.image(client, 2) != nil)
    }

    @Test func `the quarantine outlives the broker, within its bound`() throws {
        var first = Quarantine()
        let digests = try (0...Quarantine.maximumEntries).map {
            try #require(ContentDigest(hexadecimal: StrictWorld.digest($0)))
        }
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
        world.get(client, id: 1, "a")
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: nil)
        try world.finishFetch(content: 1)
        for _ in 0..<2 { world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11))) }
        #expect(world.error(client, 1) == .decoderCrashed)
        let records = try #require(world.quarantined)
        #expect((records.map(\.digest), records.map(\.build)) == ([StrictWorld.digest(1)], ["first"]))

        let next = StrictWorld()
        next.readyAll()
        next.happen(.quarantineLoaded(records))
        let other = next.connect()
        try next.download(other, id: 1, "a", content: 1)
        #expect(next.error(other, 1) == .decoderCrashed)
    }
}

import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Decode workers compute the digest of bytes before anything is made of them.
struct IdentificationTests {
    private var (world, client) = StrictWorld.ready { $0.workers = 1 }.connected()

    /// The bytes of a body that does not go first.
    private static let large = 1 << 20

    var job: JobID? { world.identifying.keys.first }

    func download(_ id: Int, _ path: String = "a", bytes: Int = 1000) throws {
        try world.download(client, id: id, path, content: nil, bytes: bytes)
    }

    /// Ends the worker of an identification, and lets time pass until another one does it, if any.
    private func replace(_ worker: WorkerID, of job: JobID, _ exit: WorkerExit) {
        world.endWorker(worker, exit)
        for _ in 0..<10 where world.identifying[job] == nil {
            world.readyAll()
            world.happen(.timePassed, after: 10_000)
        }
    }

    @Test func `requests join while the digest is computed`() throws {
        try download(1)
        world.get(client, id: 2, "a")
        // Nothing is decoded before the digest is known.
        #expect(world.fetches.isEmpty && world.decodes.isEmpty)
        world.identify(try #require(job), content: 1)
        #expect(try world.decoded(client, 1) != nil && world.image(client, 2) != nil)
        #expect(world.state.report[.coalesced] == 1)
    }

    @Test func `the worker that has identified an image decodes it, ahead of others`() throws {
        try download(1, "a", bytes: Self.large)
        try download(2, "b", bytes: Self.large)
        let worker = try #require(world.identifying.values.first)
        world.identify(try #require(job), content: 1)
        #expect(world.decodes.values.map(\.worker) == [worker] && world.identifying.isEmpty)
        try world.decode()
        world.identify(try #require(job), content: 2)
        #expect(try world.decoded(client, 1) != nil && world.image(client, 2) != nil)
    }

    @Test func `an identification is repeated when its worker dies, and not for ever`() throws {
        try download(1)
        let first = try #require(job)
        world.replaceWorker(try #require(world.identifying[first]), .ended(.signal(9)))
        world.readyAll(after: 1000)
        #expect(job == first)
        for _ in 0..<Identification.fatalCrashes {
            replace(try #require(world.identifying[first]), of: first, .ended(.signal(11)))
        }
        #expect(world.error(client, 1) == .decoderCrashed && world.state.reservedBytes == 0)
    }

    @Test func `a request that leaves ends a queued identification, and lets a running one end`() throws {
        try download(1, "a")
        // A large one, because small ones are given to the worker ahead.
        try download(2, "b", bytes: Self.large)
        world.cancel(client, 2)
        world.cancel(client, 1)
        #expect(
            world.state.reservedBytes == BrokerLimits().leastEarlyResultBytes, "the running one may still be decoded")
        #expect(world.buffers.isEmpty)
        world.identify(try #require(job), content: 1)
        #expect(world.state.reservedBytes == 0)
        #expect(world.identifying.isEmpty && world.decodes.isEmpty)
        #expect(world.workers.values.allSatisfy { $0.state == .ready })
    }

    @Test func `an identification that takes too long costs its worker`() throws {
        try download(1)
        let worker = try #require(job.flatMap { world.identifying[$0] })
        #expect(world.after(BrokerLimits().decodeDeadlineMs + 1).workers[worker]?.state == .dying)
    }

    @Test func `a text that is no digest costs the worker, and another one identifies the bytes`() throws {
        try download(1)
        let (first, worker) = try #require(world.identifying.first)
        world.happen(.identified(worker, first, digest: String(repeating: "g", count: 64)))
        #expect(world.workers[worker]?.state == .dying)
        replace(worker, of: first, .ended(.signal(9)))
        world.identify(first, content: 1)
        #expect(try world.decoded(client, 1)?.source == .network)
    }

    /// Has a user's bytes wait behind each other for the only decoder: those of `1` run, those of `2` to `5` are
    /// queued.
    private func queueFive() throws -> [JobID] {
        for id in 1...5 { try download(id, "\(id)", bytes: Self.large) }
        let queued = world.state.downloads.active.keys.sorted()
        #expect(queued.count == 5 && world.identifying.count == 1)
        return queued
    }

    /// Ends the identification that runs, of bytes without waiters. Returns the next one.
    private func next() throws -> JobID {
        let running = try #require(job)
        world.identify(running, content: Int(running.number))
        while let decode = world.decodes.keys.first { world.failDecode(decode) }
        return try #require(job)
    }

    @Test func `another user who joins does not wait for the first one's turn`() throws {
        let queued = try queueFive()
        world.get(world.stranger, id: 1, "5")
        let next = [try next(), try next()]
        #expect(next.contains(queued[4]))
    }

    @Test func `who joins raises the priority, until it leaves`() throws {
        let queued = try queueFive()
        world.get(client, id: 6, "4") { $0.priority = .high }
        world.get(client, id: 7, "5") { $0.priority = .high }
        world.cancel(client, 6)
        #expect(try next() == queued[4])
        #expect(try next() == queued[1])
    }
}

/// What a worker has contributed is discarded when it turns out to be compromised.
struct DiscardTests {
    private var (world, client) = StrictWorld.withDisk { $0.workers = 1 }.connected()

    /// Loads content `id` under the path `id`, and has it saved. Returns the workers that it was made by.
    private func load(_ id: Int) throws -> (fetch: WorkerID, decode: WorkerID) {
        world.get(client, id: id, "\(id)") { $0.variant.width = 5 }
        world.answerDisk()
        let (job, fetch) = try #require(world.fetches.first)
        world.finishFetch(job, content: id)
        let (decode, order) = try #require(world.decodes.first)
        world.decode(decode, width: 100, height: 100)
        world.answerDisk(content: id)
        #expect(world.image(client, id)?.source == .network)
        return (fetch.worker, order.worker)
    }

    private func isInMemory(_ id: Int) throws -> Bool {
        try !world.state.memory.keys(at: SourceURL("http://origin.test/\(id)")).isEmpty
    }

    private func end(_ worker: WorkerID, _ exit: WorkerExit) {
        world.replaceWorker(worker, exit)
        world.answerDisk()
    }

    /// After a call or a message that it must not make.
    @Test(arguments: [true, false], [true, false])
    func `of a download or decode worker, all contents`(isFetch: Bool, isMessage: Bool) throws {
        let (fetch, decode) = try load(1)
        world.happen(.timePassed, after: 1000)
        if isMessage { world.happen(.workerMisbehaved(isFetch ? fetch : decode, "it sent nonsense")) }
        end(isFetch ? fetch : decode, .ended(.signal(isMessage ? 9 : 31)))
        #expect(try !isInMemory(1))
        #expect(world.discarded == [StrictWorld.digest(1)])
    }

    @Test func `what others have made stays`() throws {
        let first = try load(1)
        end(first.decode, .ended(.signal(9)))
        end(first.fetch, .ended(.signal(9)))
        let second = try load(2)
        end(second.decode, .ended(.signal(31)))
        end(second.fetch, .ended(.signal(31)))
        #expect(try isInMemory(1) && !isInMemory(2))
        #expect(world.discarded == [StrictWorld.digest(2)])
    }

    @Test(arguments: [WorkerExit.ended(.signal(11)), .ended(.signal(9)), .ended(.status(0))])
    func `nothing after another death`(exit: WorkerExit) throws {
        let (fetch, decode) = try load(1)
        end(fetch, exit)
        end(decode, exit)
        #expect(try isInMemory(1))
        #expect(world.discarded.isEmpty)
    }

    @Test func `bytes that it has received are downloaded again`() throws {
        world.get(client, id: 1, "1")
        world.answerDisk()
        let (job, fetch) = try #require(world.fetches.first)
        world.finishFetch(job, content: nil)
        world.replaceWorker(fetch.worker, .ended(.signal(31)))
        #expect(world.fetches.count == 1)
        // The digest of the discarded bytes comes too late.
        for job in world.identifying.keys.sorted() { world.identify(job, content: 1) }
        #expect(try world.loaded(client, 1, content: 2)?.source == .network)
        #expect(try isInMemory(1))
    }

    @Test func `what a client has stored, if it has computed the digest of that`() throws {
        try world.store(client, id: 1, "1", bytes: 1000)
        let (job, worker) = try #require(world.identifying.first)
        world.identify(job, content: 1)
        end(worker, .ended(.signal(31)))
        #expect(world.discarded == [StrictWorld.digest(1)])
    }

    @Test func `of the cache process, everything that came from disk, and the disk`() throws {
        _ = try load(1)
        world.get(client, id: 2, "2")
        world.answerDisk(content: 2)
        #expect(try world.decoded(client, 2)?.source == .disk)
        world.endWorker(try world.worker(.cache), .ended(.signal(31)))
        #expect(try isInMemory(1))
        #expect(try !isInMemory(2))
        #expect(world.readyAll().diskJobs.values.contains { if case .clear = $0.kind { true } else { false } })
    }

    @Test func `also what a lookup finds that was sent before`() throws {
        let (fetch, _) = try load(1)
        world.get(client, id: 2, "other")
        let (lookup, (cache, _)) = try #require(world.diskJobs.first)
        let key = try #require(world.state.disk[lookup]?.keys.last)
        world.endWorker(fetch, .ended(.signal(31)))
        #expect(world.discarded == [StrictWorld.digest(1)])
        world.happen(.foundOriginal(cache, lookup, world.original(1, key: key.word, url: key.url.text)))
        #expect(world.decodes.isEmpty)
        world.readyAll()
        let asked = world.diskJobs.filter { if case .find = $0.value.kind { $0.key != lookup } else { false } }
        #expect(asked.count == 1, "the disk tier is asked again, after the order")
        world.answerDiskJob(try #require(asked.keys.first), content: nil)
        #expect(world.fetches.count == 1)
    }

    @Test func `once the cache process is back, in one order`() throws {
        let first = try load(1)
        let cache = try world.worker(.cache)
        world.endWorker(cache, .ended(.signal(11)))
        world.endWorker(first.fetch, .ended(.signal(31)))
        for (id, worker) in world.workers where worker.kind != .cache && worker.state == .starting {
            world.workers[id]?.state = .ready
            world.happen(.workerReady(id, SandboxReport(seccomp: true, landlock: 7), build: "first"))
        }
        try world.download(client, id: 2, "2", content: 2) { $0.variant.width = 5 }
        world.endWorker(first.decode, .ended(.signal(31)))
        #expect(world.discarded.isEmpty)
        for _ in 0..<10 where world.discarded.isEmpty { world.readyAll(after: 1000) }
        #expect(world.discarded == [StrictWorld.digest(1), StrictWorld.digest(2)])
        #expect(world.diskJobs.values.count { $0.kind == .forget } == 1)
    }

    @Test func `the disk of a compromised cache process is emptied even when many requests wait`() throws {
        let cache = try world.worker(.cache)
        world.happen(.workerMisbehaved(cache, "it sent nonsense"))
        for number in 0..<2 * BrokerLimits().maxPendingRequests {
            try world.remove(world.connect(), id: 1, "\(number)")
        }
        world.endWorker(cache, .ended(.signal(9)))
        for _ in 0..<10 where world.diskJobs.isEmpty { world.readyAll(after: 1000) }
        #expect(world.diskJobs.values.contains { $0.kind == .clear })
    }

    @Test func `what came from the disk of a compromised cache process, though it was loaded again`() throws {
        try world.lookUp(client, id: 2, "2", content: 2, asRaster: true) { $0.variant.width = 5 }
        #expect(world.image(client, 2)?.source == .disk)
        try world.download(client, id: 3, "2", content: 2) { ($0.variant.width, $0.cache) = (5, .reload) }
        world.decodeAll()
        #expect(world.image(client, 3) != nil)
        #expect(try isInMemory(2))
        world.endWorker(try world.worker(.cache), .ended(.signal(31)))
        #expect(try !isInMemory(2))
    }
}

// A small image is decoded in the job that computes its digest.
extension IdentificationTests {
    @Test func `a small image is decoded while it is identified`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        try world.download(client, id: 2, "a", content: nil)
        let job = try #require(self.job)
        #expect(world.early[job]?.job.transform.width == 5)
        world.identify(job, content: 1, earlyWidth: 10)
        let image = try #require(world.image(client, 1))
        #expect((image.source, image.width) == (.network, 5))
        // The other form is made as usual.
        #expect(world.decodes.count == 1)
        #expect(try world.decoded(client, 2)?.width == 10)
        #expect(world.getImage(client, id: 3, "a") { $0.variant.width = 5 }?.source == .memory)
        #expect(world.state.reservedBytes == 0)
    }

    @Test func `large bodies, encoded images and new bytes of a known image are identified first`() throws {
        try download(1, bytes: BrokerLimits().earlyBodyBytes + 1)
        #expect(world.early.isEmpty)
        world.identify(try #require(job), content: 1)
        try world.decode()
        try world.download(client, id: 2, "b", content: nil) { $0.representation = .png }
        #expect(world.early.isEmpty)
        world.identify(try #require(job), content: 2)
        try world.decode()
        try world.download(client, id: 3, "a", content: nil) { $0.cache = .reload }
        #expect(world.early.isEmpty)
    }

    @Test mutating func `a further form of a small image takes one message there and one back`() throws {
        (world, client) = StrictWorld.ready {
            ($0.workers, $0.memoryBytes, $0.mostSegmentImageBytes) = (3, 2 << 20, 1 << 16)
        }.connected()
        try download(1)
        world.identify(try #require(job), content: 1, earlyWidth: 10)
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        let second = try #require(world.decodes.keys.first)
        let room = 1 << 16
        #expect(world.decodes[second]?.room == room && world.state.reservedBytes == room)
        world.readHeader(second, isAtOnce: true)
        #expect(world.image(client, 2)?.width == 5 && world.state.reservedBytes == 0)
        // An image that does not fit is decoded as any other, and given no room once that is known.
        for (id, width) in [(3, 600), (4, 601)] {
            world.get(client, id: id, "a") { $0.variant.width = width }
            let job = try #require(world.decodes.first { $0.value.plan == nil }?.key)
            world.readHeader(job, width: width, height: 600, isAtOnce: true)
            #expect(world.decodes[job]?.room == (id == 3 ? room : 0))
            #expect(world.state.reservedBytes == 600 * 600 * 4)
        }
        // While one waits for memory, another is not granted any before its header.
        world.get(client, id: 5, "a") { $0.variant.width = 7 }
        #expect(world.decodes.values.first { $0.plan == nil }?.room == 0)
    }

    @Test mutating func `a result at once of another size than ordered, or without room, costs the worker`() throws {
        (world, client) = StrictWorld.ready { $0.mostSegmentImageBytes = 1 << 16 }.connected()
        for (bytes, result) in [(100, 399), (BrokerLimits().earlyBodyBytes + 1, 400)] {
            try download(bytes, "\(bytes)", bytes: bytes)
            world.identify(try #require(job), content: bytes)
            let (job, decode) = try #require(world.decodes.first { ($0.value.room > 0) == (result == 399) })
            let early = EarlyResult(decodePlan(), DecodeResult(bytes: result))
            world.happen(.decodedAtOnce(decode.worker, job, early))
            #expect(world.workers[decode.worker]?.state == .dying)
        }
    }

    @Test(arguments: ["once more", "after a header", "of another worker's job"])
    mutating func `a result at once that is not due costs the worker`(_ what: String) throws {
        (world, client) = StrictWorld.ready { ($0.workers, $0.mostSegmentImageBytes) = (2, 1 << 16) }.connected()
        try download(1)
        world.identify(try #require(self.job), content: 1)
        let (job, decode) = try #require(world.decodes.first)
        var worker = decode.worker
        switch what {
        case "once more": world.readHeader(job, isAtOnce: true)
        case "after a header": world.readHeader(job)
        default: worker = try #require(world.workers.first { $0.value.kind == .decode && $0.key != worker }?.key)
        }
        world.happen(.decodedAtOnce(worker, job, EarlyResult(decodePlan(), DecodeResult(bytes: 400))))
        #expect(world.workers[worker]?.state == .dying)
    }

    @Test func `a result of another size than ordered costs the worker`() throws {
        try download(1)
        let job = try #require(self.job)
        let worker = try #require(world.identifying[job])
        let early = EarlyResult(decodePlan(), DecodeResult(bytes: 399))
        world.happen(.identified(worker, job, digest: StrictWorld.digest(1), early: early))
        #expect(world.workers[worker]?.state == .dying)
    }

    @Test func `bytes that kill a decoder while they are identified kill one more at most`() throws {
        try download(1)
        let first = try #require(job)
        #expect(world.early[first] != nil)
        world.replaceWorker(try #require(world.identifying[first]), .ended(.signal(11)))
        #expect(world.readyAll(after: 1000).early[first] == nil)
        world.identify(first, content: 1)
        let decode = try #require(world.decodes.first)
        world.endWorker(decode.value.worker, .ended(.signal(11)))
        #expect(world.error(client, 1) == .decoderCrashed)
        // Other bytes may be decoded early again, unless they begin like those.
        world.readyAll()
        world.readyAll(after: 60_000)
        try download(2, "b")
        let refused = try #require(world.early.values.first?.refused)
        #expect(refused == [String(StrictWorld.digest(1).prefix(EarlyDecode.prefixLength))])
    }

    @Test func `processor time of an early decoding is not the image's fault`() throws {
        try download(1)
        let first = try #require(job)
        let worker = try #require(world.identifying[first])
        world.happen(.processorTimeUsed(worker, first, milliseconds: 1000 * BrokerLimits().decodeSeconds))
        #expect(world.workers[worker]?.state == .dying)
        world.replaceWorker(worker, .ended(.signal(9)))
        #expect(world.readyAll(after: 1000).early[first] == nil)
        world.identify(first, content: 1)
        world.replaceWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11)))
        world.readyAll(after: 1000)
        // One decoder has died on it.
        #expect(try world.decoded(client, 1) != nil)
    }
}

/// Small bodies are identified on the spare worker while decodings keep the others busy.
struct SmallBodyTests {
    private var (world, client) = StrictWorld.ready { $0.workers = 2 }.connected()

    /// Loads an image, up to its identification.
    private func download(_ id: Int, bytes: Int, of other: ClientID? = nil) throws {
        try world.download(other ?? client, id: id, "\(id)", content: nil, bytes: bytes)
    }

    /// Ends the first identification.
    private func identify(_ content: Int, earlyWidth: Int? = nil) throws {
        world.identify(try #require(world.identifying.keys.first), content: content, earlyWidth: earlyWidth)
    }

    /// Keeps both workers busy with large images.
    private func occupyWorkers() throws {
        for id in 1...2 {
            try download(id, bytes: 1 << 20)
            try identify(id)
        }
        #expect(Set(world.decodes.values.map(\.worker)).count == 2)
    }

    @Test func `a small image takes the spare while large ones are decoded, one at a time`() throws {
        try occupyWorkers()
        for id in 3...4 { try download(id, bytes: 1000) }
        for id in 3...4 {
            #expect(world.identifying.count == 1)
            #expect(Set(world.decodes.values.map(\.worker)).isDisjoint(with: world.identifying.values))
            try identify(id, earlyWidth: 8)
            #expect(world.image(client, id) != nil)
        }
    }

    @Test func `a large image does not take the spare`() throws {
        try occupyWorkers()
        try download(3, bytes: 1 << 20)
        #expect(world.identifying.isEmpty)
        // Nor does one whose small file has many pixels: it is decoded when a worker is free.
        try download(4, bytes: 1000)
        try identify(4, earlyWidth: 5000)
        #expect(world.decodes.count == 2)
        world.decodeAll()
        #expect(world.decodes.count + world.identifying.count == 2)
    }

    @Test func `the room for pixels that are made at once grows with the body, within bounds`() throws {
        // 300 × 300 pixels take 360,000 bytes: more than the least room, and less than 16 times a body of 30,000 bytes.
        for (id, bytes, fits) in [(1, 30_000, true), (2, 1000, false)] {
            try download(id, bytes: bytes)
            #expect(world.state.reservedBytes == bytes + (fits ? 16 * bytes : 256 << 10))
            try identify(id, earlyWidth: 300)
            #expect((world.answers[client]?[id] != nil) == fits && world.decodes.isEmpty == fits)
        }
        #expect(BrokerLimits().earlyResultBytes(ofBody: 64 << 10) == 1 << 20)
        #expect(BrokerLimits().earlyResultBytes(ofBody: .max) == 1 << 20)
    }

    @Test func `with little memory, the room is the least one`() throws {
        let (world, client) = StrictWorld.ready { ($0.workers, $0.memoryBytes) = (2, 4 << 20) }.connected()
        for id in 1...2 { try world.download(client, id: id, "\(id)", content: nil, bytes: 30_000) }
        #expect(world.earlyRooms.values.sorted() == [256 << 10, 480_000])
    }

    @Test func `users take turns at the workers whatever the sizes`() throws {
        try occupyWorkers()
        try download(100, bytes: 1 << 20, of: world.stranger)
        let large = try #require(world.state.downloads.active.keys.max())
        for id in 3..<23 { try download(id, bytes: 1000) }
        // Of the small ones, the spare has one, and a worker gets another at most before the large one's turn.
        world.decodeAll()
        #expect(world.identifying[large] != nil)
    }
}

/// A decode worker is given several small bodies of one user, which it identifies one after the other.
struct BriefJobTests {
    private var (world, client) = StrictWorld.ready { ($0.workers, $0.transfersPerOrigin) = (1, 64) }.connected()

    /// Loads images, up to their identification.
    private func download(_ ids: ClosedRange<Int>, of client: ClientID? = nil, bytes: Int = 1000) throws {
        for id in ids { try world.download(client ?? self.client, id: id, "\(id)", content: nil, bytes: bytes) }
    }

    private var worker: WorkerID { get throws { try #require(world.identifying.values.first) } }

    /// The identifications in the order in which their worker does them.
    private var jobs: [JobID] { world.identifying.keys.sorted() }

    /// Ends the identification that its worker does, of an image that is small enough to be decoded with it.
    private func identify(_ content: Int) throws {
        world.identify(try #require(jobs.first), content: content, earlyWidth: 8)
    }

    /// Ends identifications until there are none, and expects that each is done by itself. Returns them.
    private func identifyAlone(content first: Int) throws -> [JobID] {
        var alone: [JobID] = []
        while let job = jobs.first {
            #expect(world.identifying.count == 1)
            #expect(world.early[job]?.job != nil, "the image is still decoded in the same job")
            try identify(first + alone.count)
            alone.append(job)
        }
        return alone
    }

    /// Has images identified, and cancels their requests. Returns the worker that has them.
    private func downloadCancelled(_ ids: ClosedRange<Int>) throws -> WorkerID {
        try download(ids)
        let worker = try worker
        for id in ids { world.cancel(client, id) }
        return worker
    }

    @Test func `a worker is given eight, and another for each that has ended`() throws {
        try download(1...20)
        #expect(world.identifying.count == BrokerLimits().briefJobs)
        let worker = try worker
        #expect(world.identifying.values.allSatisfy { $0 == worker })
        for content in 1...20 { try identify(content) }
        for id in 1...20 { #expect(world.image(client, id) != nil) }
    }

    @Test func `another user's image does not wait behind them`() throws {
        try download(1...20)
        try download(30...30, of: world.stranger)
        // It is still the first user's turn; then the worker gets no more until the other's had one.
        for content in 1...BrokerLimits().briefJobs + 1 {
            #expect(world.identifying.count == min(BrokerLimits().briefJobs, BrokerLimits().briefJobs + 2 - content))
            try identify(content)
        }
        let other = try #require(world.state.downloads.active.keys.max())
        #expect(world.identifying.keys.contains(other) && world.identifying.count == 1)
    }

    @Test func `a large image is neither among them nor behind them`() throws {
        try download(1...2)
        try download(3...3, bytes: 1 << 20)
        try download(4...5)
        #expect(world.identifying.count == 2)
        for content in 1...2 { try identify(content) }
        #expect(world.identifying.count == 1)
    }

    @Test func `each is done by itself after its worker has died, and nobody is blamed before`() throws {
        try download(1...4)
        let jobs = jobs
        world.replaceWorker(try worker, .ended(.signal(11)))
        #expect(try identifyAlone(content: 1).sorted() == jobs)
        for id in 1...4 { #expect(world.image(client, id) != nil) }
    }

    @Test func `the one that kills workers is found, and the others are served`() throws {
        try download(1...4)
        let poison = jobs[2]
        for _ in 0..<40 {
            world.readyAll()
            guard let job = jobs.first else { break }
            if jobs.contains(poison), jobs.count > 1 || job == poison {
                world.endWorker(try worker, .ended(.signal(11)))
            } else {
                try identify(job.number)
            }
            world.happen(.timePassed, after: 1000)
        }
        for id in [1, 2, 4] { #expect(world.image(client, id) != nil) }
        #expect(world.error(client, 3) == .decoderCrashed)
    }

    @Test func `deaths with several do not count against the pool`() throws {
        for round in 0..<12 {
            try download(10 * round...10 * round + 1)
            world.replaceWorker(try worker, .ended(.signal(11)))
            #expect(try identifyAlone(content: 1000 + 10 * round).count == 2)
            world.readyAll(after: 10)
        }
        #expect(!world.areDecodersBroken)
    }

    @Test func `cancelled ones are to blame for a death at once, which counts once`() throws {
        for round in 0...CrashLedger.tolerated {
            #expect(!world.isPaused())
            world.endWorker(try downloadCancelled(10 * round + 1...10 * round + 2), .ended(.signal(11)))
            if round < CrashLedger.tolerated { world.readyAll(after: 1000) }
        }
        #expect(world.isPaused())
    }

    @Test func `those done again do not go before other users`() throws {
        try download(1...4)
        try download(30...30, of: world.stranger)
        let other = try #require(world.state.downloads.active.keys.max())
        world.replaceWorker(try worker, .ended(.signal(11)))
        for content in 1...2 where world.identifying[other] == nil { try identify(content) }
        #expect(world.identifying[other] != nil)
    }

    @Test func `a slow one does not hold up the others for long`() throws {
        try download(1...3)
        let (slow, worker) = (jobs, try worker)
        #expect(world.after(BrokerLimits().briefDeadlineMs + 1).workers[worker]?.state == .dying)
        world.replaceWorker(worker, .ended(.signal(9)))
        #expect(world.identifying.count == 1, "each by itself")
        #expect(slow.contains(try #require(jobs.first)))
    }

    @Test func `a worker that ends one after the other has time for all`() throws {
        try download(1...3)
        let worker = try worker
        for content in 1...3 {
            #expect(world.after(BrokerLimits().briefDeadlineMs * 3 / 4).workers[worker]?.state == .ready)
            try identify(content)
        }
        for id in 1...3 { #expect(world.image(client, id) != nil) }
    }

    @Test func `slow ones count neither against the pool nor against their origin, cancelled or not`() throws {
        for round in 0..<14 {
            let worker = try downloadCancelled(10 * round + 1...10 * round + 2)
            #expect(world.after(BrokerLimits().briefDeadlineMs).workers[worker]?.state == .dying)
            world.replaceWorker(worker, .ended(.signal(9)), after: 20)
        }
        #expect(!world.areDecodersBroken && !world.isPaused())
        #expect(world.forkServersRespawned == 0)
    }

    @Test func `a slow one by itself goes on, and gets no others behind it`() throws {
        try download(1...1)
        let worker = try worker
        #expect(world.after(BrokerLimits().briefDeadlineMs + 1).workers[worker]?.state == .ready)
        try download(2...2)
        #expect(world.identifying.count == 1)
        try identify(1)
        #expect(world.identifying.count == 1)
    }
}

/// A decode worker is also given several small bodies of one user whose digests are known, and decodes one after the
/// other.
struct BriefDecodingTests {
    private var (world, client) = StrictWorld.ready {
        ($0.workers, $0.mostSegmentImageBytes, $0.memoryBytes) = (1, 1 << 16, 4 << 20)
    }.connected()

    /// Loads images, and requests smaller ones of them.
    private func decode(_ ids: ClosedRange<Int>) {
        for id in ids { world.load(client, id: id, "\(id)", content: id) }
        for id in ids { world.get(client, id: 100 + id, "\(id)") { $0.variant.width = 5 } }
    }

    private var jobs: [JobID] { world.decodes.keys.sorted() }
    private var worker: WorkerID { get throws { try #require(world.decodes.values.first?.worker) } }

    @Test func `a worker is given eight, and another for each that has ended`() throws {
        decode(1...20)
        for left in (1...20).reversed() {
            #expect(jobs.count == min(left, BrokerLimits().briefJobs))
            #expect(world.decodes.values.allSatisfy { $0.order.isAmongOthers })
            world.readHeader(jobs[0], isAtOnce: true)
        }
        for id in 1...20 { #expect(world.image(client, 100 + id)?.width == 5) }
    }

    @Test func `a large body and an encoded result are neither among them nor behind them`() throws {
        for id in 1...2 { world.load(client, id: id, "\(id)", content: id) }
        world.load(client, id: 3, "3", content: 3, bytes: BrokerLimits().earlyBodyBytes + 1)
        for id in 1...2 { world.get(client, id: 100 + id, "\(id)") { $0.variant.width = 5 } }
        world.get(client, id: 103, "3") { $0.variant.width = 5 }
        world.get(client, id: 104, "1") { $0.representation = .png }
        for count in [2, 1, 1, 1] {
            #expect(jobs.count == count)
            world.readHeader(jobs[0], isAtOnce: true)
            if jobs.count == count, world.decodes[jobs[0]]?.plan != nil { world.finishDecode(jobs[0]) }
        }
        #expect(jobs.isEmpty)
    }

    @Test func `images whose results are known not to fit are decoded one by one`() throws {
        for id in 1...2 { world.load(client, id: id, "\(id)", content: id, width: 200, height: 200) }
        for id in 1...2 { world.get(client, id: 100 + id, "\(id)") { $0.variant.pixelFormat = .bgra8 } }
        #expect(jobs.count == 1)
        // Of bodies that were too large to be decoded while they were identified, nothing is known.
        for id in 3...5 { try world.download(client, id: id, "\(id)", content: nil) }
        world.decodeAll(width: 200, height: 200)
        world.decodeAll(width: 200, height: 200)
        for (job, content) in zip(world.identifying.keys.sorted(), 3...) { world.identify(job, content: content) }
        #expect(jobs.count == 1)
    }

    @Test func `an image whose result does not fit is decoded alone, after the others that its worker has`() throws {
        decode(1...3)
        let others = jobs.dropFirst()
        world.readHeader(jobs[0])
        #expect(jobs.elementsEqual(others))
        world.get(client, id: 201, "1") { $0.variant.width = 6 }
        #expect(jobs.elementsEqual(others), "another is given to the worker")
        for job in others { world.readHeader(job, isAtOnce: true) }
        #expect(jobs.count == 1)
        // It is at the header once more; nothing is put behind it, and it is not put back.
        #expect(world.decodes[jobs[0]]?.order.isAmongOthers == false)
        world.readHeader(jobs[0])
        #expect(world.decodes[jobs[0]]?.hasOutput == true && jobs.count == 1)
        world.finishDecode(jobs[0])
        world.readHeader(jobs[0], isAtOnce: true)
        for id in [101, 102, 103, 201] { #expect(world.image(client, id) != nil) }
    }

    @Test func `after a result that did not fit, one decoding is given at a time, until eight fit`() throws {
        decode(1...2)
        world.readHeader(jobs[0])
        for id in 1...2 {
            for width in 1...9 where width != 5 {
                world.get(client, id: 1000 * width + id, "\(id)") { $0.variant.width = width }
            }
        }
        // The other, the one that was put back, and then those that are not.
        for _ in 0..<3 {
            #expect(jobs.count == 1)
            world.readHeader(jobs[0])
            world.finishDecode(jobs[0])
        }
        for _ in 0..<8 {
            #expect(jobs.count == 1)
            world.readHeader(jobs[0], isAtOnce: true)
        }
        #expect(jobs.count == 7)
    }

    @Test func `an image costs the time of its own decoding, without that of the others before it`() {
        decode(1...2)
        func sum() -> Int { world.state.report.histograms[.decode]?.sumMicroseconds ?? 0 }
        let before = sum()
        world.codecMicroseconds = 7
        world.after(400).readHeader(jobs[1], isAtOnce: true)
        #expect(world.image(client, 102) != nil && sum() - before == 7)
    }

    @Test func `without room for all results, a worker has no more than fit an eighth of the memory`() throws {
        let (world, client) = StrictWorld.ready {
            ($0.workers, $0.mostSegmentImageBytes, $0.memoryBytes) = (1, 1 << 16, 3 << 19)
        }.connected()
        for id in 1...8 { world.load(client, id: id, "\(id)", content: id) }
        for id in 1...8 { world.get(client, id: 100 + id, "\(id)") { $0.variant.width = 5 } }
        #expect(world.decodes.count == 3)
    }

    @Test func `an image that does not fit, and for which nobody waits any more, is not decoded`() throws {
        decode(1...2)
        let last = jobs[1]
        world.cancel(client, 101)
        world.readHeader(jobs[0])
        world.readHeader(last, isAtOnce: true)
        #expect(jobs.isEmpty && world.image(client, 102) != nil)
    }

    @Test func `each is done by itself, not before other users, after its worker has died`() throws {
        world.load(world.stranger, id: 30, "30", content: 30)
        decode(1...4)
        let before = jobs
        world.get(world.stranger, id: 130, "30") { $0.variant.width = 5 }
        world.replaceWorker(try worker, .ended(.signal(11)))
        var done: [JobID] = []
        while let job = jobs.first {
            #expect(jobs.count == 1)
            world.readHeader(job, isAtOnce: true)
            done.append(job)
        }
        // The first user's turn goes on.
        #expect(done.count == 5 && !done.prefix(3).allSatisfy(before.contains))
        for id in 1...4 { #expect(world.image(client, 100 + id) != nil) }
    }

    @Test func `those that nobody waits for are to blame for a death at once, which counts once`() throws {
        for round in 0...CrashLedger.tolerated {
            #expect(!world.isPaused())
            let ids = 10 * round + 1...10 * round + 2
            decode(ids)
            for id in ids { world.cancel(client, 100 + id) }
            world.endWorker(try worker, .ended(.signal(11)))
            if round < CrashLedger.tolerated { world.readyAll(after: 1000) }
        }
        #expect(world.isPaused())
    }
}

import DiskRecords
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Decoding` in isolation.
struct DecodingTests {
    private var decoding = Decoding(limits: BrokerLimits())
    private let now = Instant(nanoseconds: 1_000_000_000)
    private var moment: Moment { Moment(instant: now, unixMs: 1_800_000_000_000) }
    private let worker = WorkerID(number: 1)

    private let responsible = Responsible(user: 1000, sources: ["http://origin.test"])

    private func variant(_ content: Int = 1) throws -> VariantKey {
        VariantKey(content: try contentKey(content), form: Form(GetOptions(), scaleDownLimit: 1 << 20))
    }

    private mutating func begin(_ number: Int, content: Int = 1, of body: Int? = nil) throws -> JobID {
        let job = JobID(number: number)
        decoding.enqueue(
            try variant(content), of: BufferID(number: body ?? number), bytes: 100, responsible: responsible,
            jobWaiter(number), as: job)
        return job
    }

    private let plan = with(decodePlan()) { $0.workingBytes = 50 }

    private mutating func run(_ job: JobID) throws {
        #expect(decoding.popQueued() == job)
        #expect(decoding.start(job, on: worker, known: nil, room: 0, at: now) != nil)
    }

    /// Begins one job, and runs it.
    private mutating func running() throws -> JobID {
        let job = try begin(1)
        try run(job)
        return job
    }

    @Test mutating func `a variant is decoded once`() throws {
        let job = try begin(1)
        let joined = decoding.join(try variant(), jobWaiter(2, priority: .high))
        let other = decoding.join(try variant(2), jobWaiter(3))
        #expect(joined == job && other == nil && decoding[job]?.priority == .high)
        #expect(decoding.brokenInvariant() == nil && decoding.load.bytes == 100)
    }

    @Test mutating func `a body counts once, however many variants are made of it`() throws {
        let jobs = try (1...3).map { try begin($0, content: $0, of: 1) }
        for job in jobs {
            #expect(
                decoding.load.bytes == 100 && decoding.needs(BufferID(number: 1)) && decoding.brokenInvariant() == nil)
            _ = decoding.end(job)
        }
        #expect(decoding.load.bytes == 0 && !decoding.needs(BufferID(number: 1)))
    }

    @Test mutating func `memory is admitted in the order of headers, and one decoding always is`() throws {
        let (first, second) = (try begin(1), try begin(2, content: 2))
        try run(first)
        try run(second)
        for job in [second, first] {
            guard case .parked = decoding.headerRead(job, plan) else { return complain("not parked") }
            #expect(!decoding.expectsHeader(job))
        }
        let admitted = decoding.admitNext(hasRoom: { _ in false }, at: now)
        #expect(admitted?.job == second && admitted?.bytes == 400 && admitted?.isExact == true)
        #expect(decoding.reservedBytes == 400)
        #expect(decoding.admitNext(hasRoom: { _ in false }, at: now) == nil)
        // The pixels and working memory of both jobs.
        #expect(decoding.admitNext(hasRoom: { $0 == 400 + 50 + 50 }, at: now)?.job == first)
        #expect(decoding.reservedBytes == 800 && decoding.brokenInvariant() == nil)
    }

    @Test mutating func `a parked decoding has no deadline`() throws {
        let job = try running()
        let late = now.adding(milliseconds: 20_000)
        #expect(decoding.isOverdue(job, at: late))
        _ = decoding.headerRead(job, plan)
        #expect(!decoding.isOverdue(job, at: late))
        _ = decoding.admitNext(hasRoom: { _ in true }, at: late)
        #expect(!decoding.isOverdue(job, at: late) && decoding.isOverdue(job, at: late.adding(milliseconds: 20_000)))
    }

    /// The result of a vector image may be larger than the image, within the limit of pixels; of any other it may not.
    @Test(arguments: [ImageFormat.svg, .png]) func `a vector image fills the box`(format: ImageFormat) throws {
        let options = with(GetOptions()) { $0.variant.width = 48 }
        let key = VariantKey(content: try variant().content, form: Form(options, scaleDownLimit: 1 << 20))
        for (most, isRefused) in [(48 * 24, false), (48 * 24 - 1, true)] {
            var decoding = Decoding(limits: with(BrokerLimits()) { $0.maxPixels = most })
            let job = JobID(number: 1)
            if format == .svg { decoding.note(.svg, of: key.content.digest) }
            decoding.enqueue(key, of: BufferID(number: 1), bytes: 100, responsible: responsible, jobWaiter(1), as: job)
            let family = CodecFamily(format)
            #expect((family == .plain ? decoding.popQueued() : decoding.popQueued(of: family)) == job)
            #expect(decoding.start(job, on: worker, known: nil, room: 0, at: now) != nil)
            let filling = with(decodePlan(24, 12, of: format)) { $0.result = PixelGeometry(width: 48, height: 24)! }
            switch decoding.headerRead(job, filling) {
            case .parked: #expect(format == .svg && !isRefused)
            case .refused(let error): #expect(format == .svg && isRefused && error.code == .tooManyPixels)
            case .wrongPlan: #expect(format == .png)
            default: complain("described")
            }
        }
    }

    @Test mutating func `a variant that takes too long is refused alone`() throws {
        let job = try running()
        let slow = try #require(decoding[job]?.variant)
        guard case (let end?, let error?, false)? = decoding.workerExited(job, .cpu, isShared: false, at: moment) else {
            return complain("not refused, or quarantined")
        }
        #expect(error.code == .decoderCrashed && end.variant == slow)
        func refusal(of form: Form, after milliseconds: Int = 0) -> ErrorCode? {
            let later = Moment(instant: now.adding(milliseconds: milliseconds), unixMs: moment.unixMs)
            return decoding.refusals.refusal(
                of: VariantKey(content: slow.content, form: form), .plain, from: end.responsible, decodeSeconds: 10,
                areDecodersBroken: false, at: later)?.code
        }
        #expect(refusal(of: slow.form) == .decoderCrashed)
        #expect(refusal(of: .pixels(Transform(width: 64))) == nil)
        #expect(!decoding.refusals.isPaused(end.responsible, at: now))
        // For ten minutes.
        #expect(refusal(of: slow.form, after: 600_000) == nil)
    }

    @Test mutating func `a decoding without waiters ends only if it has not begun`() throws {
        let (queued, running) = (try begin(1), try begin(2, content: 2))
        try run(queued)
        #expect(decoding.leave(queued, WaiterID(number: 1)) == nil)
        #expect(decoding.leave(running, WaiterID(number: 2)) != nil)
        #expect(decoding.count == 1 && decoding.brokenInvariant() == nil)
    }
}

/// Images of families that have workers of their own.
struct FamilyTests {
    private static let heif = 7, avif = 8

    private var (world, client) = Self.world().connected()

    private static func world(_ families: Set<CodecFamily> = [.avif, .heif], workers: Int = 2) -> StrictWorld {
        let world = StrictWorld.ready {
            // Without decodings that go along with the digest.
            ($0.families, $0.workers, $0.earlyBodyBytes) = (families, workers, 0)
        }
        world.foreign = [heif: .heif, avif: .avif]
        return world
    }

    private func load(_ path: String, _ content: Int, _ id: Int) throws {
        try world.download(client, id: id, path, content: content)
    }

    private var loaders: [WorkerID] { world.workers.filter { $0.value.kind.family ?? .plain != .plain }.keys.sorted() }

    @Test func `a family has no process until it is needed, and keeps it after its first image for a minute`() throws {
        #expect(loaders.isEmpty)
        try load("a", Self.heif, 1)
        let loader = try #require(loaders.first)
        #expect(loaders.count == 1 && world.workers[loader]?.kind == .loader(.heif))
        // No worker of the plain family is given the job.
        #expect(world.decodes.isEmpty)
        #expect(world.readyAll().decodes.values.map(\.worker) == [loader])
        #expect(try world.decoded(client, 1) != nil)
        // The next one finds it warm.
        world.happen(.timePassed, after: 50_000)
        try load("b?", 9, 2)
        try world.decode()
        world.get(client, id: 3, "a") { $0.variant.width = 5 }
        try world.decode()
        #expect(loaders == [loader])
        #expect(world.after(50_000).workers[loader]?.state == .ready)
        #expect(world.after(10_001).workers[loader]?.state == .dying)
        world.endWorker(loader, .ended(.status(0)))
        #expect(loaders.isEmpty)
    }

    @Test func `a worker of the plain family that gets another family's image hands it over, once`() throws {
        world.tellsFormats = false
        try load("a", Self.heif, 1)
        let job = try #require(world.decodes.keys.first)
        let plain = try #require(world.decodes[job]?.worker)
        world.readHeader(job)
        #expect(world.decodes.isEmpty && world.workers[plain]?.state == .ready)
        #expect(world.readyAll().decodes[job]?.worker == loaders.first)
        // From now on it is known.
        world.decode(job)
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        #expect(world.decodes.values.map(\.worker) == loaders)
        // A loader cannot hand over.
        try world.expectKilled { .decodeForeign($0, $1, .avif) }
    }

    @Test func handedOverWithoutWaiters() throws {
        world.tellsFormats = false
        try load("a", Self.heif, 1)
        world.disconnect(client)
        world.readHeader(try #require(world.decodes.keys.first))
        #expect(loaders.isEmpty && world.state.decoding.count == 0)
    }

    /// A worker cannot claim that an image of its own family is another's, nor a header of another family.
    @Test(arguments: [true, false]) func falseFormat(isHeader: Bool) throws {
        try load("a", 1, 1)
        try world.expectKilled { isHeader ? .headerRead($0, $1, decodePlan(of: .heif)) : .decodeForeign($0, $1, .png) }
    }

    /// The message names the program and its package.
    @Test mutating func missingFamily() throws {
        (world, client) = Self.world([.avif]).connected()
        try load("a", Self.heif, 1)
        let error = try #require(world.failure(client, 1))
        #expect(error.code == .unsupportedFormat)
        #expect(error.message.contains("imgbroker-loader-heif") && error.message.contains("imgworker-heif"))
        #expect(loaders.isEmpty)
        #expect(!world.state.hello.formats.contains("heif") && world.state.hello.formats.contains("avif"))
    }

    @Test mutating func `after a reload, an installed family is used at once, and a removed one's workers exit`() throws
    {
        (world, client) = Self.world([.avif]).connected(isAdmin: true)
        try load("a", Self.avif, 1)
        world.readyAll()
        try world.decode()
        try load("b", Self.heif, 2)
        #expect(world.error(client, 2) == .unsupportedFormat)
        world.newLimits = with(world.state.limits) { $0.families = [.heif] }
        world.happen(.messageReceived(client, .reload(id: 3)))
        #expect(loaders.allSatisfy { world.workers[$0]?.state == .dying })
        // A reload replaces the download workers.
        world.readyAll()
        try load("b", Self.heif, 4)
        #expect(try world.readyAll().decoded(client, 4) != nil)
    }

    @Test mutating func `a family that is removed keeps no spare`() throws {
        (world, client) = Self.world([.avif]).connected(isAdmin: true)
        try load("a", Self.avif, 1)
        world.readyAll().endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11)))
        world.readyAll(after: 50)
        try world.decode()
        world.newLimits = with(world.state.limits) { $0.families = [] }
        world.happen(.messageReceived(client, .reload(id: 3)))
        world.endDying { .ended(.status(0)) }
        world.happen(.timePassed, after: 1000)
        #expect(loaders.isEmpty)
    }

    @Test mutating func `a family that is removed while it decodes is not started again`() throws {
        (world, client) = Self.world([.avif]).connected(isAdmin: true)
        try load("a", Self.avif, 1)
        #expect(world.readyAll().decodes.count == 1)
        world.newLimits = with(world.state.limits) { $0.families = [] }
        world.happen(.messageReceived(client, .reload(id: 3)))
        world.happen(.timePassed, after: 1000)
        #expect(loaders.count == 1)
    }

    @Test mutating func `the family shares the places that the plain one leaves free, and has one in any case`() throws
    {
        (world, client) = Self.world(workers: 4).connected()
        for id in 1...3 { try load("\(id)", id, id) }
        #expect(world.decodes.count == 3)
        for id in 4...6 {
            world.foreign[100 + id] = .heif
            try load("\(id)", 100 + id, id)
        }
        #expect(world.readyAll().decodes.count == 4)
        // JPEGs take their places as if there were no other family.
        try load("7", 11, 7)
        #expect(world.decodes.count == 5)
        for job in world.decodes.keys.sorted().prefix(3) { world.decode(job) }
        #expect(loaders.count == 2 && world.decodes.count == 3)
    }

    /// A family whose workers keep dying is refused, and neither the others nor their origins are affected.
    @Test func brokenFamily() throws {
        var id = 0
        var last: ErrorCode?
        while id < 20, last != .decoderUnavailable {
            id += 1
            world.foreign[100 + id] = .heif
            try load("\(id)", 100 + id, id)
            for _ in 0..<2 {
                // Successors are started later and later.
                for _ in 0..<50 where world.decodes.isEmpty && world.answers[client]?[id] == nil {
                    world.readyAll(after: 1000)
                }
                guard let (_, decode) = world.decodes.first else { break }
                world.endWorker(decode.worker, .ended(.signal(11)))
            }
            if world.answers[client]?[id] != nil { last = world.error(client, id) }
        }
        #expect(last == .decoderUnavailable)
        // The same origin's images of other formats are decoded.
        for content in [1, Self.avif] {
            id += 1
            try load("\(id)", content, id)
            #expect(try world.readyAll().decoded(client, id) != nil)
        }
        #expect(world.state.supervision[.decode].ready == 2)
    }

    /// After a crash, one worker more than the jobs need is kept for a minute: the next user's image finds it warm.
    @Test func aSpareAfterACrash() throws {
        try load("a", Self.heif, 1)
        world.readyAll()
        for _ in 0..<2 {
            world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(6)))
            // The second one starts later than the one that the job waits for.
            for _ in 0..<2 {
                world.readyAll()
                world.happen(.timePassed, after: 10)
            }
            #expect(loaders.count == (world.decodes.isEmpty ? 1 : 2))
        }
        #expect(world.error(client, 1) == .decoderCrashed)
        world.foreign[9] = .heif
        #expect(world.load(world.stranger, id: 2, "b", content: 9) != nil)
        world.readyAll(after: 60_001)
        world.happen(.timePassed, after: 60_001)
        #expect(loaders.allSatisfy { world.workers[$0]?.state == .dying })
    }

    @Test func `a worker that is lost while it has no job is not replaced`() throws {
        try load("a", Self.heif, 1)
        world.readyAll()
        try world.decode()
        world.endWorker(try #require(loaders.first), .ended(.signal(9)))
        world.happen(.timePassed, after: 10_000)
        #expect(loaders.isEmpty)
    }
}

/// A compromised decode worker has named bytes falsely, and they are being decoded when that is found out.
struct FalseNameTests {
    private var (world, client) = StrictWorld.withDisk { $0.workers = 2 }.connected()

    private func load(_ id: Int, _ path: String, width: Int? = nil) {
        world.get(client, id: id, path) { $0.variant.width = width }
        world.answerDisk()
    }

    private func finish(_ job: JobID, width: Int) {
        // As long as is worth a raster on disk.
        world.readHeader(job, width: width, height: width)
        world.after(100).finishDecode(job)
    }

    /// Loads `false`, which a worker names content 1 before it dies of `seccomp`, in two forms: its own decoding is
    /// repeated, the other worker's goes on. Returns both.
    private func loadFalselyNamed() throws -> (repeated: JobID, running: JobID) {
        load(1, "false")
        world.get(client, id: 2, "false") { $0.variant.width = 5 }
        world.answerDisk()
        try world.finishFetch(content: nil)
        let (bytes, liar) = try #require(world.identifying.first)
        world.identify(bytes, content: 1)
        let repeated = try #require(world.decodes.first { $0.value.worker == liar }).key
        let running = try #require(world.decodes.first { $0.value.worker != liar }).key
        world.replaceWorker(liar, .ended(.signal(31)))
        world.answerDisk()
        for _ in 0..<10 where world.decodes[repeated] == nil { world.readyAll(after: 1000) }
        return (repeated, running)
    }

    /// The decoding of bytes that are named falsely ends before those that have this name become known, after them, or
    /// without an image.
    @Test(arguments: ["first", "last", "failed"])
    func `decodings under a false name are for their waiters alone`(end: String) throws {
        let (repeated, running) = try loadFalselyNamed()
        finish(repeated, width: 10)
        #expect(world.image(client, 1)?.width == 10)
        if end == "first" {
            finish(running, width: 10)
            #expect(world.image(client, 2)?.width == 5)
        }
        // From another URL, by an honest worker.
        load(3, "true", width: 5)
        try world.finishFetch(content: nil, bytes: 70_000)
        world.identify(try #require(world.identifying.keys.first), content: 1)
        if end == "failed" {
            world.failDecode(running)
            #expect(world.error(client, 2) == .decodeFailed)
        }
        let honest = try #require(world.decodes.keys.first { $0 != running }, "it has joined the other decoding")
        finish(honest, width: 100)
        let image = try #require(world.image(client, 3))
        #expect(image.source == .network && image.originalWidth == 100)
        if end == "last" {
            finish(running, width: 10)
            let other = try #require(world.image(client, 2))
            #expect(other.originalWidth == 10 && other.buffer != image.buffer)
        }
        #expect(world.savedRasters.map(\.header.geometry.width).allSatisfy { $0 == 100 })
        world.answerDisk()
        load(4, "true", width: 5)
        #expect((world.image(client, 4)?.buffer, world.image(client, 4)?.originalWidth) == (image.buffer, 100))
    }

}

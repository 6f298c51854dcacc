import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Requests with a shared tier: it goes before the origin, never fails a request, and gets what others may have.
struct SharedRequestTests {
    /// A client has requested the image "a".
    private var (world, client) = Self.world().connected()

    init() { world.get(client, id: 1, "a") }

    private static func world(isReady: Bool = true, sharesVariants: Bool = false, maxWrites: Int = 512) -> StrictWorld {
        let world = StrictWorld.starting {
            ($0.workers, $0.usesSharedTier) = (1, true)
            ($0.sharesVariants, $0.maxSharedWrites) = (sharesVariants, maxWrites)
        }
        if isReady { world.readyAll() }
        return world
    }

    /// Another world, in which a client has requested the image "a" with these options.
    private func asking(_ change: (inout GetOptions) -> Void) -> (StrictWorld, ClientID) {
        let (world, client) = Self.world().connected()
        world.get(client, id: 1, "a", change)
        return (world, client)
    }

    private func answer(_ answer: SharedAnswer) throws { world.answerShared(try #require(world.sharedLookup), answer) }

    /// The process of the tier, which has a lookup.
    private func process(_ world: StrictWorld) throws -> WorkerID { try #require(world.tierJobs.values.first?.worker) }

    /// The digest of the original that was written last.
    private func writtenDigest(_ world: StrictWorld) -> String? {
        guard case .original(let digest, _, _, _)? = world.written.last?.content else { return nil }
        return digest
    }

    @Test func `a record answers without the origin`() throws {
        #expect(world.fetches.isEmpty)
        world.findShared(try #require(world.sharedLookup), content: 1)
        #expect(world.fetches.isEmpty)
        #expect(try world.decoded(client, 1)?.source == .shared)
        #expect(world.written.isEmpty, "what was read is written again")
        let report = world.state.report
        #expect(report[.sharedHits] == 1 && report[.networkLoads] == 0 && report[.downloads] == 0)
        #expect(world.getImage(client, id: 2, "a")?.source == .memory)
    }

    @Test func `a reload does not join a download whose body the tier had`() throws {
        // The bytes wait to be identified.
        world.findShared(try #require(world.sharedLookup), content: nil)
        world.get(client, id: 2, "a") { $0.cache = .reload }
        #expect(world.fetches.count == 1)
    }

    @Test func `under a lease the origin is asked, and the original is written with the end of the lease`() throws {
        try answer(.leased)
        #expect(world.leases.count == 1)
        try world.finishFetch(content: 1)
        #expect(world.leases.isEmpty)
        #expect(writtenDigest(world) == StrictWorld.digest(1) && world.written.map(\.bytes) == [1000])
        // Thirty days at most.
        #expect(world.written[0].expires - world.unixMs <= SharedRecord.longestLifetime)
        world.finishWriting(try #require(world.tierJobs.keys.first))
        #expect(try world.decoded(client, 1)?.source == .network)
    }

    @Test func `the origin is asked 250 ms after a lookup, and the first answer wins`() throws {
        #expect(world.after(249).fetches.isEmpty)
        #expect(world.after(1).fetches.count == 1)
        world.findShared(try #require(world.sharedLookup), content: 1)
        #expect(world.fetches.isEmpty, "the transfer goes on")
        #expect(try world.decoded(client, 1)?.source == .shared)
    }

    @Test func `the wait for the tier is a part of a trace, and no queueing`() throws {
        let (world, client) = Self.world().connected()
        func spans(_ id: Int) -> [String: TraceSpan] {
            Dictionary((world.image(client, id)?.spans ?? []).map { ($0.name, $0) }, uniquingKeysWith: { $1 })
        }
        // A record after 40 ms.
        world.get(client, id: 1, "a") { $0.trace = true }
        world.after(40).findShared(try #require(world.sharedLookup), content: 1)
        try world.decode()
        #expect(spans(1)["shared"]?.microseconds == 40_000 && spans(1)["queue"] == nil)
        // No answer for 250 ms, and a transfer that starts then.
        world.get(client, id: 2, "b") { $0.trace = true }
        try world.after(250).finishLoad(content: 2)
        #expect(spans(2)["shared"]?.microseconds == 250_000 && spans(2)["queue"] == nil)
        #expect(spans(2)["download"]?.start == 250_000)
        #expect(spans(2)["reply"]?.start == 250_000)
        let histograms = world.state.report.histograms
        #expect(histograms[.shared]?.count == 2 && histograms[.shared]?.sumMicroseconds == 290_000)
        #expect(histograms[.queue]?.sumMicroseconds == 0 && histograms[.download]?.count == 1)
    }

    @Test func `an answer after that of the origin is discarded`() throws {
        try world.after(250).finishFetch(content: 1)
        world.findShared(try #require(world.sharedLookup), content: nil)
        #expect(try world.decoded(client, 1)?.source == .network)
    }

    @Test func `a loser waits for half of its time`() throws {
        let (world, _) = asking { $0.totalTimeoutMs = 2000 }
        for _ in 0..<200 where world.fetches.isEmpty {
            if let lookup = world.sharedLookup { world.answerShared(lookup, .busy) }
            world.happen(.timePassed, after: 10)
        }
        #expect(world.fetches.count == 1)
        let waited = world.clock.microseconds(since: Instant(nanoseconds: 1_000_000_000)) / 1000
        // The poll after that.
        #expect((1000...1260).contains(waited), "\(waited)")
    }

    @Test func `a lease is renewed while bytes flow`() throws {
        try answer(.leased)
        world.progress(try #require(world.fetches.keys.first), received: 10, expected: 1000, after: 1000)
        #expect(world.after(2000).renewals == 1)
        #expect(world.after(3000).renewals == 1, "a lease is renewed without bytes")
    }

    @Test func `a request that leaves ends its lease`() throws {
        try answer(.leased)
        #expect(world.cancel(client, 1).leases.isEmpty)
    }

    /// Without a field, the body has more than 8 MiB.
    @Test(arguments: ["private", "no-store", "no-cache", "max-age=0", nil])
    func `what must not be shared, or is too large, is noted as such`(cacheControl: String?) throws {
        try answer(.leased)
        let bytes = cacheControl == nil ? SharedRecord.largestBody + 1 : 1000
        try world.finishFetch(content: 1, bytes: bytes) { if let cacheControl { $0.cacheControl = cacheControl } }
        #expect(world.written.map(\.content) == [.unshared] && world.leases.isEmpty)
    }

    @Test func `what is not shared is loaded without a lease`() throws {
        world.noteShared(try #require(world.sharedLookup), .unshared)
        #expect(world.fetches.count == 1 && world.leases.isEmpty)
    }

    @Test func `nothing that is a user's own is looked for or written`() throws {
        let changes: [(inout GetOptions) -> Void] = [
            { $0.cookies = true }, { $0.cacheKey = "k" },
            { $0.credentials = Credentials(username: "u", password: "p") },
            { $0.headers = [HeaderField(name: "cookie", value: "a=b")] },
        ]
        for change in changes {
            let (world, _) = asking(change)
            #expect(world.sharedLookup == nil)
            try world.finishFetch(content: 1)
            #expect(world.written.isEmpty)
        }
    }

    @Test(arguments: [GetOptions.CacheMode.reload, .noStore, .noCache])
    func `a request for the origin's own answer does not ask the tier`(mode: GetOptions.CacheMode) throws {
        let (world, _) = asking { $0.cache = mode }
        #expect(world.sharedLookup == nil)
        try world.finishFetch(content: 1)
        // What may replace an image is shared once it is known to be one.
        try world.decode()
        #expect(world.written.isEmpty == (mode == .noStore))
    }

    @Test func `a request for the origin's own answer ends the lookup that it joins`() throws {
        world.get(client, id: 2, "a") { $0.cache = .noCache }
        #expect(world.fetches.count == 1)
        world.findShared(try #require(world.sharedLookup), content: nil)
        #expect(world.fetches.count == 1, "the record has answered")
    }

    @Test func `a stale record does not answer`() throws {
        world.findShared(try #require(world.sharedLookup), content: nil) { $0.cacheControl = "max-age=0" }
        #expect(world.fetches.count == 1)
    }

    @Test func `a clock that is ahead makes no record old`() throws {
        world.findShared(try #require(world.sharedLookup), content: 1) {
            ($0.requestedAt, $0.receivedAt) = ($0.requestedAt + 50, $0.receivedAt + 50)
        }
        #expect(try world.decoded(client, 1)?.source == .shared)
    }

    @Test func `a failure is shared for its time, and remembered by those who read it`() throws {
        try answer(.leased)
        world.failFetch(try #require(world.fetches.keys.first), status: 404)
        #expect(world.written.map(\.content) == [.failure(status: 404)])
        #expect(world.written[0].expires - world.unixMs == 60_000 && world.leases.isEmpty)

        world.get(client, id: 2, "b")
        world.noteShared(try #require(world.sharedLookup), .failure(status: 410))
        #expect(world.error(client, 2) == .httpStatus && world.fetches.isEmpty)
        #expect(world.getError(client, id: 3, "b") == .recentlyFailed)
        // The record states five seconds.
        world.after(5001).get(client, id: 4, "b")
        #expect(world.sharedLookup != nil)
    }

    @Test func `a failure that a compromised process has invented is forgotten`() throws {
        let worker = try process(world)
        world.noteShared(try #require(world.sharedLookup), .failure(status: 410))
        world.endMisbehaving(worker)
        #expect(world.load(client, id: 2, "a", content: 1)?.source == .network)
    }

    @Test func `a request that retries what has failed asks the origin in spite of a shared failure`() throws {
        let (world, client) = asking { $0.retryFailed = true }
        world.noteShared(try #require(world.sharedLookup), .failure(status: 404))
        #expect(world.fetches.count == 1)
        #expect(try world.loaded(client, 1, content: 1)?.source == .network)
        // An original answers it.
        world.get(client, id: 2, "b") { $0.retryFailed = true }
        world.findShared(try #require(world.sharedLookup), content: 2)
        #expect(try world.decoded(client, 2)?.source == .shared)
    }

    @Test func `a failure that may be over soon is not shared`() throws {
        let (world, client) = asking { $0.timeoutMs = 1 }
        world.answerShared(try #require(world.sharedLookup), .leased)
        for _ in 0..<5 {
            if let job = world.fetches.keys.first { world.failFetch(job) }
            world.happen(.timePassed, after: 3000)
        }
        #expect(world.error(client, 1) == .connectFailed)
        #expect(world.written.isEmpty && world.leases.isEmpty)
    }

    /// Has the image "a" of the shared tier in memory when it is stale, and requests it again.
    private func askForStale() throws {
        world.cacheControl = "max-age=1"
        world.findShared(try #require(world.sharedLookup), content: 1) { $0.etag = "\"v\"" }
        try world.decode()
        world.clock = world.clock.adding(milliseconds: 5000)
        world.get(client, id: 2, "a")
    }

    @Test func `a confirmation is shared, and one broker's serves another`() throws {
        try askForStale()
        // The tier has no newer one.
        try answer(.leased)
        world.confirm(try #require(world.fetches.keys.first))
        #expect(world.image(client, 2)?.source == .memory)
        #expect(writtenDigest(world) != nil && world.leases.isEmpty, "the confirmation is shared")
        world.clock = world.clock.adding(milliseconds: 5000)
        // Another broker has confirmed it.
        world.get(client, id: 3, "a")
        world.findShared(try #require(world.sharedLookup), content: 1)
        #expect(world.image(client, 3)?.source == .shared && world.fetches.isEmpty)
    }

    @Test func `a record with other bytes than it states is rejected, and all who wait get those of the origin`() throws
    {
        world.get(client, id: 2, "a")
        world.findShared(try #require(world.sharedLookup), content: 2, stated: 1)
        #expect(try world.rejectedShared == [originalKey().word])
        #expect(world.state.memory.entries == 0 && world.decodes.isEmpty)
        #expect(world.sharedLookup == nil, "the record could be found once more")
        #expect(world.fetches.count == 1)
        try world.finishLoad(content: 1)
        for id in [1, 2] { #expect(world.image(client, id)?.source == .network) }
        #expect(writtenDigest(world) == StrictWorld.digest(1), "the record is not replaced")
    }

    @Test(arguments: ["unreadable", "other key", "expired", "31 days"])
    func `what is no record, or not that of the key and the time, is rejected, and the origin is asked`(
        damage: String
    ) throws {
        let lookup = try #require(world.sharedLookup)
        let key = try originalKey().word
        switch damage {
        case "unreadable": world.findUnreadable(lookup)
        case "other key": world.findShared(lookup, content: nil, key: String(repeating: "b", count: 64))
        case "expired": world.findShared(lookup, content: nil, lifetimeMs: 0)
        default: world.findShared(lookup, content: nil, lifetimeMs: 31 * 86_400_000)
        }
        #expect(world.rejectedShared == [key])
        #expect(world.state.report.lastDeaths.isEmpty, "its process is not at fault")
        #expect(try world.loaded(client, 1, content: 1)?.source == .network)
        #expect(world.written.map(\.key) == [key], "the record is replaced")
    }

    @Test func `what is no record for a request that has left is of no account`() throws {
        let lookup = try #require(world.sharedLookup)
        world.cancel(client, 1)
        world.findUnreadable(lookup)
        #expect(world.rejectedShared.isEmpty && world.fetches.isEmpty)
    }

    @Test func `after a record with other bytes than it states the origin is still asked for a confirmation`() throws {
        try askForStale()
        world.findShared(try #require(world.sharedLookup), content: 2, stated: 3)
        #expect(world.sharedLookup == nil)
        world.confirm(try #require(world.fetches.keys.first))
        #expect(world.image(client, 2)?.source == .memory)
    }

    @Test func `bytes that are no image are loaded from the origin, and replaced`() throws {
        world.findShared(try #require(world.sharedLookup), content: 1)
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(try world.loaded(client, 1, content: 2)?.source == .network)
        #expect(writtenDigest(world) == StrictWorld.digest(2), "the record is not replaced")
    }

    @Test func `bytes of the origin that are no image are not left for others`() throws {
        try answer(.leased)
        try world.finishFetch(content: 1)
        world.failDecode(try #require(world.decodes.keys.first))
        #expect(world.error(client, 1) == .decodeFailed && world.written.last?.content == .unshared)
    }

    @Test func `without its process requests go to the origin`() throws {
        let (world, client) = Self.world(isReady: false).connected()
        world.get(client, id: 1, "a")
        #expect(world.readyAll().fetches.count == 1, "a download waits for a tier that is not there")
    }

    @Test func `when its process dies, requests go on`() throws {
        world.endWorker(try process(world), .ended(.signal(11)))
        #expect(try world.loaded(client, 1, content: 1)?.source == .network)
    }

    @Test func `a process that does not answer is replaced`() throws {
        let worker = try process(world)
        world.happen(.timePassed, after: 250)
        #expect(world.after(4749).workers[worker]?.state == .ready)
        #expect(world.after(1).workers[worker]?.state == .dying)
    }

    @Test func `what a compromised process has brought is discarded`() throws {
        let worker = try process(world)
        world.findShared(try #require(world.sharedLookup), content: 1)
        try world.decode()
        world.endMisbehaving(worker)
        #expect(world.state.memory.entries == 0)
        // By the next one, which other brokers trust as little.
        #expect(world.removedShared.isEmpty)
        #expect(try world.readyAll().removedShared == [originalKey().word])
    }

    @Test func `of a compromised process that has brought more than is noted, everything is discarded`() throws {
        for (isMore, left) in [(false, 1), (true, 0)] {
            let (world, client) = StrictWorld.withDisk {
                ($0.workers, $0.usesSharedTier, $0.contentsOfAWorker) = (1, true, 2)
            }.connected()
            // Not of the tier.
            world.load(client, id: 1, "own", content: 1) { $0.cache = .reload }
            let worker = try world.worker(.tier)
            for number in 2...(isMore ? 4 : 3) {
                try world.lookUp(client, id: number, "\(number)", content: nil)
                world.findShared(try #require(world.sharedLookup), content: number)
                try world.decode()
            }
            #expect(world.state.memory.contentKeys(fromDiskOnly: false).count == (isMore ? 4 : 3))
            world.endMisbehaving(worker)
            #expect(world.state.memory.contentKeys(fromDiskOnly: false).count == left)
            #expect(world.diskJobs.values.contains { $0.kind == .clear } == isMore)
        }
    }

    @Test func `remove reaches the tier`() throws {
        try world.remove(client, id: 2, "a")
        #expect(try world.removedShared == [originalKey().word])
    }

    // MARK: Encoded variants

    /// Has an original loaded under a lease, and returns the lookup of the variant that its request is for.
    private func variantLookup(
        _ world: StrictWorld, _ client: ClientID, _ change: (inout GetOptions) -> Void = { _ in }
    ) throws -> JobID? {
        world.get(client, id: 1, "a") {
            $0.representation = .webp
            change(&$0)
        }
        if let lookup = world.sharedLookup { world.answerShared(lookup, .leased) }
        try world.finishFetch(content: 1)
        return world.sharedLookup
    }

    /// A world that shares variants, in which a client waits for the lookup of the encoded image "a".
    private func askingVariant() throws -> (StrictWorld, ClientID, JobID) {
        let (world, client) = Self.world(sharesVariants: true).connected()
        return (world, client, try #require(try variantLookup(world, client)))
    }

    /// A world that shares variants, in which a client has got the image "a" of the tier.
    private func havingOriginal() throws -> (StrictWorld, ClientID) {
        let (world, client) = Self.world(sharesVariants: true).connected()
        world.get(client, id: 1, "a")
        world.findShared(try #require(world.sharedLookup), content: 1)
        try world.decode()
        return (world, client)
    }

    @Test func `an encoded variant is written, and answers another request instead of a decoding`() throws {
        let (world, client, first) = try askingVariant()
        #expect(world.decodes.isEmpty, "the decoding does not wait")
        world.answerShared(first, .nothing)
        #expect(try world.decoded(client, 1)?.source == .network)
        guard case .variant(let raster)? = world.written.last?.content else { return complain("it is not written") }
        #expect(raster.original == StrictWorld.digest(1))
        let key = world.written.last?.key

        // Another broker, which has the original in memory.
        let (other, reader) = try havingOriginal()
        other.get(reader, id: 2, "a") { $0.representation = .webp }
        guard case .find(let asked, nil)? = other.tierJobs.values.first?.kind else { return complain("no lookup") }
        #expect(asked == key)
        other.findSharedVariant(try #require(other.sharedLookup))
        #expect(other.decodes.isEmpty && other.image(reader, 2)?.source == .shared)
        #expect(other.written.isEmpty, "what was read is written again")
        #expect(other.getImage(reader, id: 3, "a") { $0.representation = .webp }?.source == .memory)
    }

    @Test func `what a compromised decode worker has made is removed for all brokers`() throws {
        let (world, _, lookup) = try askingVariant()
        world.answerShared(lookup, .nothing)
        let worker = try #require(world.decodes.values.first).worker
        try world.decode()
        let written = Set(world.written.map(\.key))
        #expect(written.count == 2)
        world.endMisbehaving(worker)
        #expect(Set(world.removedShared) == written)
    }

    @Test func `only-if-cached does not ask the tier for a variant`() throws {
        let (world, client) = try havingOriginal()
        world.get(client, id: 2, "a") { ($0.representation, $0.cache) = (.webp, .onlyIfCached) }
        #expect(world.sharedLookup == nil)
    }

    @Test func `a decoding goes on after 250 ms, and the record may still be first`() throws {
        for isFirst in [true, false] {
            let (world, client, lookup) = try askingVariant()
            if isFirst {
                // The only decoder is busy, so that the decoding is queued.
                try world.download(client, id: 2, "b", content: 2) { $0.cache = .reload }
            }
            world.happen(.timePassed, after: 250)
            if isFirst {
                world.findSharedVariant(lookup)
                #expect(world.image(client, 1)?.source == .network)
            } else {
                #expect(world.decodes.count == 1)
                world.findSharedVariant(lookup)
                #expect(try world.decoded(client, 1) != nil)
            }
        }
    }

    @Test(arguments: ["form", "original"]) func `the record of another variant does not answer`(field: String) throws {
        let (world, client, lookup) = try askingVariant()
        world.findSharedVariant(lookup) {
            if field == "form" { $0.form += "x" } else { $0.original = StrictWorld.digest(9) }
        }
        #expect(world.decodes.count == 1)
        #expect(try world.decoded(client, 1) != nil)
    }

    @Test func `variants of what is a user's own, pixels, and variants of unsigned records are not shared`() throws {
        let changes: [(inout GetOptions) -> Void] = [
            { $0.cookies = true }, { $0.cacheKey = "k" }, { $0.cache = .noStore }, { $0.representation = .pixels },
        ]
        for change in changes {
            let (world, client) = Self.world(sharesVariants: true).connected()
            #expect(try variantLookup(world, client, change) == nil)
            try world.decode()
            #expect(!world.written.contains { if case .variant = $0.content { true } else { false } })
        }
        let (world, client) = Self.world().connected()
        #expect(try variantLookup(world, client) == nil)
    }

    @Test func `a request that leaves ends the lookup of its variant`() throws {
        let (world, client, lookup) = try askingVariant()
        world.cancel(client, 1)
        world.findSharedVariant(lookup)
        #expect(world.state.brokenInvariant() == nil)
    }

    @Test func `when the process dies, a decoding that waits for it goes on`() throws {
        let (world, client, _) = try askingVariant()
        world.endWorker(try process(world), .ended(.signal(11)))
        #expect(try world.decoded(client, 1) != nil)
    }

    @Test(arguments: [true, false])
    func `a queued lookup has the highest priority of the requests that wait for it`(leaves: Bool) throws {
        var (id, sent) = (1, 0)
        // Until the user's share of the lookups is taken.
        while world.tierJobs.count > sent {
            (id, sent) = (id + 1, world.tierJobs.count)
            world.get(client, id: id, "waits\(id)")
        }
        world.get(client, id: 1001, "late") { $0.priority = .low }
        world.get(client, id: 1002, "late") { $0.priority = .high }
        if leaves { world.cancel(client, 1002) }
        let before = Set(world.tierJobs.keys)
        world.answerShared(try #require(before.min()), .nothing)
        let lookup = try #require(world.tierJobs.keys.first { !before.contains($0) })
        let download = world.state.downloads[try #require(world.state.tier.job(of: lookup))]
        #expect(download?.original.url.text.hasSuffix(leaves ? "/waits\(id)" : "/late") == true)
    }

    @Test func `a lease is ended when its note cannot be written`() throws {
        let (world, client) = Self.world(maxWrites: 4).connected()
        for number in 0..<4 {
            world.get(client, id: number, "\(number)")
            world.answerShared(try #require(world.sharedLookup), .leased)
            world.failFetch(try #require(world.fetches.keys.first), status: 404)
            #expect(world.leases.isEmpty)
        }
        #expect(world.written.count == 3, "one user has all places")
    }
}

/// Transitions of the machine of the shared tier.
struct SharedTierTests {
    private var tier = SharedTier(seed: 1)
    private let download = JobID(number: 1)
    private let lookup = JobID(number: 2)
    private let owner = JobOwner()
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func later(_ milliseconds: Int) -> Instant { start.adding(milliseconds: milliseconds) }

    /// Begins with one lookup that was sent.
    init() throws {
        #expect(tier.begin(download, key: "key", owner: owner, priority: .normal, at: start) == [])
        #expect(tier.queue.pop() == download)
        let started = tier.start(download, as: lookup, at: start)
        let (key, token, due) = try #require(started)
        #expect(key == "key" && token != nil && due == later(250))
    }

    private mutating func pass(to milliseconds: Int) -> [SharedTier.Outcome] {
        tier.timePassed(
            download, patience: later(10_000), lastByte: nil, owner: owner, priority: .normal, at: later(milliseconds))
    }

    @Test mutating func `no answer lets the download go on at once`() throws {
        #expect(tier.answered(lookup, .nothing, at: later(1)) == [.goOn(download, since: later(0))])
        #expect(tier[download] == nil)
    }

    @Test func `a lookup that waits for its turn is not overtaken, and one that is late makes room`() {
        var tier = SharedTier(seed: 1)
        let others = (0...SharedTier.maximumLookups).map { JobID(number: 100 + $0) }
        for (number, other) in others.enumerated() {
            _ = tier.begin(other, key: "\(number)", owner: owner, priority: .normal, at: start)
        }
        var sent: [JobID] = []
        while let next = tier.queue.pop() {
            _ = tier.start(next, as: JobID(number: 1000 + next.number), at: start)
            sent.append(next)
        }
        // One user has a part of the places.
        #expect(sent.count < SharedTier.maximumLookups && !tier.queue.isEmpty)
        _ = tier.timePassed(sent[0], patience: nil, lastByte: nil, owner: owner, priority: .normal, at: later(250))
        #expect(tier.queue.pop() == others[sent.count])
    }

    @Test mutating func `a lease that comes late is kept by the download`() throws {
        _ = pass(to: 250)
        #expect(tier.answered(lookup, .leased, at: later(300)) == [.wake(download, at: later(3300))])
        #expect(tier.end(download) != nil)
    }

    @Test(arguments: 1...20)
    mutating func `another broker's lease is looked at again after 25 to 250 ms`(seed: UInt64) throws {
        tier = SharedTier(seed: seed)
        #expect(tier.begin(download, key: "key", owner: owner, priority: .normal, at: start) == [])
        _ = tier.queue.pop()
        _ = tier.start(download, as: lookup, at: start)
        guard case .wake(_, let due)? = tier.answered(lookup, .busy, at: start).first else {
            return complain("no poll")
        }
        let milliseconds = due.microseconds(since: start) / 1000
        #expect((25...250).contains(milliseconds) && due == later(milliseconds))
        #expect(pass(to: milliseconds) == [])
        #expect(tier[download]?.isFirst == true && tier.brokenInvariant() == nil)
        #expect(tier.queue.pop() == download)
    }

    @Test mutating func `another broker's lease does not hold up a download that goes on`() throws {
        _ = pass(to: 250)
        #expect(tier.answered(lookup, .busy, at: later(300)) == [])
        #expect(tier[download] == nil)
    }

    @Test mutating func `a lease that arrives after the end is ended`() throws {
        let token = try #require(tier[download]?.token)
        #expect(tier.end(download) == nil)
        #expect(tier.runningJobs == 1)
        #expect(tier.answered(lookup, .leased, at: later(10)) == [.release(key: "key", token: token)])
        #expect(tier.runningJobs == 0)
    }

    @Test func `removals are divided into orders, and bounded`() {
        var tier = SharedTier(seed: 1)
        func orders() -> [[String]] {
            var orders: [[String]] = []
            while let keys = tier.popRemovals() { orders.append(keys) }
            return orders
        }
        func enqueue(_ count: Int) -> Bool { tier.enqueue(removing: Set((0..<count).map { "\($0)" })) }
        #expect(orders() == [])
        #expect(enqueue(2))
        #expect(orders() == [["0", "1"]])
        #expect(enqueue(10_000))
        #expect(orders().map(\.count) == [4096, 4096, 1808])
        #expect(enqueue(65_536))
        #expect(!enqueue(1))
    }

    @Test func `no more is written than the bound allows`() {
        var tier = SharedTier(seed: 1)
        let bytes = SharedTier.maximumWriting / 8
        let users = (0...8).map { JobOwner.User(uid: UInt32($0)) }
        for number in 0..<8 {
            #expect(tier.mayWrite(bytes, for: users[number]) == (number < 7), "\(number)")
            if number < 7 {
                tier.beginWriting(BufferID(number: number), bytes: bytes, for: users[number], as: JobID(number: number))
            }
        }
        #expect(tier.brokenInvariant() == nil)
        #expect(tier.written(JobID(number: 1)) == BufferID(number: 1))
        #expect(tier.mayWrite(bytes, for: users[8]))
    }

    @Test func `a user's records leave places and bytes for others`() {
        let (greedy, other) = (JobOwner.User(uid: 1), JobOwner.User(uid: 2))
        for bytes in [0, 1 << 20] {
            var tier = SharedTier(seed: 1)
            var count = 0
            while tier.mayWrite(bytes, for: greedy) {
                tier.beginWriting(
                    bytes == 0 ? nil : BufferID(number: count), bytes: bytes, for: greedy, as: JobID(number: count))
                count += 1
            }
            let bound = bytes == 0 ? BrokerLimits().maxSharedWrites : SharedTier.maximumWriting / bytes
            // A user alone may have four fifths.
            #expect((bound * 3 / 4..<bound * 5 / 6).contains(count), "\(count)")
            #expect(tier.mayWrite(bytes, for: other))
            #expect(tier.brokenInvariant() == nil)
        }
    }

    @Test func `a lookup without a lease is answered by a record or not`() throws {
        for answer in [SharedAnswer.leased, .busy, .nothing] {
            var tier = SharedTier(seed: 1)
            _ = tier.begin(download, key: "key", takesLease: false, owner: owner, priority: .normal, at: start)
            _ = tier.queue.pop()
            let started = tier.start(download, as: lookup, at: start)
            #expect(started?.token == nil)
            #expect(tier.answered(lookup, answer, at: later(1)) == [.goOn(download, since: later(0))])
            #expect(tier[download] == nil && tier.brokenInvariant() == nil)
        }
    }

    @Test mutating func `a lookup without a lease is overtaken while it waits for its turn, too`() {
        tier = SharedTier(seed: 1)
        let wake = SharedTier.Outcome.wake(download, at: later(250))
        #expect(tier.begin(download, key: "k", takesLease: false, owner: owner, priority: .normal, at: start) == [wake])
        #expect(pass(to: 249) == [])
        #expect(pass(to: 250) == [.goOn(download, since: later(0))])
        #expect(tier.queue.isEmpty && tier[download] == nil && tier.brokenInvariant() == nil)
    }

    @Test func `tokens of two brokers and of two downloads differ`() {
        var tokens: Set<String> = []
        for seed in 1...2 {
            var tier = SharedTier(seed: UInt64(seed))
            for number in 1...2 {
                _ = tier.begin(JobID(number: number), key: "key", owner: owner, priority: .normal, at: start)
                tokens.insert(tier[JobID(number: number)]?.token ?? "")
            }
        }
        #expect(tokens.count == 4)
    }
}

import CodingTestSupport
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

extension RandomNumberGenerator {
    /// One of the elements, which depends on nothing but the seed; nil if there are none.
    fileprivate mutating func any<Element: Comparable>(of elements: (some Collection<Element>)?) -> Element? {
        elements?.sorted().randomElement(using: &self)
    }

    fileprivate mutating func flip() -> Bool { Bool.random(using: &self) }
}

/// Random histories: after every event the invariants hold, and every action can be performed.
struct RandomEventTests {
    @Test(arguments: 1...40)
    func `invariants hold after every event`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.workers = random.pick(1...3)
        limits.fetchers = random.pick(1...2)
        (limits.transfersPerFetcher, limits.transfersPerOrigin) = (4, 3)
        (limits.yieldSilenceMs, limits.suspicionMs) = (300, 500)
        // A few images of 400 to 4,000 bytes.
        limits.memoryBytes = random.pick(2_000...20_000)
        limits.memoryEntries = random.pick(3...30)
        // Few descriptors.
        let isShort = seed % 4 == 1 || seed % 8 == 2
        if isShort {
            (limits.memoryBytes, limits.memoryEntries) = (seed % 3 == 0 ? 30_000 : 100_000, 2)
            limits.mostSegmentImageBytes = 2_000
        }
        let hasSegments = seed % 3 != 1 && !isShort
        if hasSegments {
            (limits.mostSegmentImageBytes, limits.leastSegmentBytes, limits.mostSegmentBytes) = (2_000, 2_048, 8_192)
        }
        (limits.maxPendingRequests, limits.maxLeasedBytes, limits.maxSubscriptions) = (12, 15_000, 3)
        limits.maxRequests = random.pick(10...60)
        limits.maxClients = random.pick(4...10)
        limits.maxEvictedBytes = random.pick(1_000...20_000)
        limits.maxEvictedBuffers = random.pick(2...20)
        (limits.usesDisk, limits.usesSharedTier, limits.sharesVariants) = (seed % 2 == 0, seed % 4 >= 2, seed % 4 == 3)
        (limits.maxSavingBytes, limits.maxPixels, limits.familyIdleMs) = (4_000, 600, 2_000)
        limits.presets["small"] = GetOptions.Variant()
        (limits.leastEarlyResultBytes, limits.mostEarlyResultBytes, limits.earlyResultBytesPerByte) = (200, 400, 2)
        if seed % 3 == 0 { limits.earlyBodyBytes = 1200 }
        limits.families = [[], [.avif], [.avif, .heif]][Int(seed % 3)]
        if seed % 5 == 1 { limits.fetcherIdleMs = 3_000 }
        let world = StrictWorld(limits)
        if isShort { world.variety = 40 }
        world.mapsSegments = hasSegments
        (world.foreign, world.tellsFormats) = ([2: .avif, 5: .heif], seed % 4 < 2)
        var nextID = 0
        for number in 0..<1500 {
            step(world, &random, &nextID)
            if random.state % 400 == 0 { world.readyAll() }
            if number % 100 == 99 { try world.checkSuccessor() }
            if number % 50 == 49 { world.state.releaseMemory() }
        }
        // In some histories hardly anything is loaded.
        #expect(world.sharings > 0 || !isShort || world.state.report[.decodes] < 10)
        try drain(world)
    }

    private func step(_ world: StrictWorld, _ random: inout SplitMix64, _ nextID: inout Int) {
        let client = random.any(of: world.clients.keys)
        switch random.pick(0..<100) {
        case 0..<6:
            if world.clients.count < 6 {
                let client = world.connect(uid: .random(in: 1...2, using: &random), isAdmin: random.flip())
                if random.flip(), world.clients[client] != nil { world.greet(client) }
            }
        case 6..<8: if let client { world.disconnect(client) }
        case 8..<40:
            guard let client else { return }
            nextID += 1
            if random.once(in: 5) { return requestFile(world, &random, client, nextID) }
            if let last = world.answered.randomElement(using: &random), random.once(in: 3) {
                // An image served recently may still be cached.
                return world.get(client, id: nextID, String(last.url.text.split(separator: "/").last ?? "")) {
                    $0 = last.options
                    $0.cache = .default
                    $0.delivery = .fd
                    $0.retryFailed = false
                }
            }
            let usesTier = world.state.limits.usesSharedTier
            let variety = world.variety
            world.get(client, id: nextID, "\(random.pick(0..<variety))") { options in
                let modes = GetOptions.CacheMode.allCases + [.default, .default, .default, .default]
                options.cache = random.pick(modes)
                options.staleFirst = random.flip()
                options.progressive = random.flip()
                options.storage = random.pick(GetOptions.Storage.allCases + [.both, .both])
                options.retryFailed = random.flip()
                if random.once(in: 8) { options.cookies = true }
                if random.once(in: 8) { options.cacheKey = "name" }
                options.delivery = random.pick([.fd, .fd, .inline, .none])
                if !usesTier {
                    if random.once(in: 6) { options.delivery = .header }
                    if random.once(in: 6) { options.metadata = [.exif, .xmp] }
                    if random.once(in: 3) { options.embedded = .fast }
                }
                options.representation = random.pick([.pixels, .pixels, .original, .jpeg])
                options.variant.pixelFormat = random.pick(PixelFormat.allCases)
                if random.once(in: 3) {
                    options.variant.width = random.pick([5, 40])
                    options.variant.fit = random.pick(Transform.Fit.allCases)
                }
                if random.once(in: 8), options.representation == .pixels {
                    let range = FrameRange(first: random.pick(0...3), count: 2)
                    options.variant.frames = .range(range)
                }
                if random.once(in: 4) { options.damaged = .accept }
                if random.once(in: 5) {
                    options.variant = GetOptions.Variant()
                    options.preset = random.pick(["small", "unknown"])
                }
                options.priority = random.pick(GetOptions.Priority.allCases)
                options.progress = random.flip()
                options.timeoutMs = random.pick(1...2000)
                options.totalTimeoutMs = random.pick(1...8000)
                if random.once(in: 4) { options.headers = [HeaderField(name: "cookie", value: "a=b")] }
                if random.once(in: 6) { options.maxAgeSeconds = random.pick(0...5) }
                if random.once(in: 6) { options.retries = random.pick(0...2) }
                if options.cacheKey == nil, random.once(in: 6) {
                    options.alternatives = (0..<random.pick(1...4)).compactMap { _ in
                        let host = random.flip() ? "origin" : "other"
                        return try? SourceURL("http://\(host).test/\(random.pick(0..<variety))")
                    }
                }
            }
        case 40..<45:
            guard let client, let request = random.any(of: world.clients[client]) else { return }
            nextID += 1
            if random.flip() {
                let priority = random.pick(GetOptions.Priority.allCases + [nil])
                let detach = priority == nil || random.flip()
                let update = ClientMessage.update(id: nextID, request: request, priority: priority, detach: detach)
                return world.happen(.messageReceived(client, update))
            }
            world.happen(.messageReceived(client, .cancel(id: nextID, request: request)))
        case 45..<53:
            guard let client, let buffer = random.any(of: world.descriptors[client]) else { return }
            if random.flip() {
                return world.happen(.messageReceived(client, .touch(buffers: [buffer, 1 << 40], hits: 3)))
            }
            // The client forgets its descriptor with its last lease; here each release may be the last.
            world.release(buffer, of: client)
        case 53..<55:
            guard let client else { return }
            if nextID % 2 == 0, let segment = world.segments.forgetAny(of: client) {
                nextID += 1
                return world.happen(.messageReceived(client, .forgetSegments([segment, 1 << 40])))
            }
            nextID += 1
            let url = try! SourceURL("http://origin.test/\(random.pick(0..<world.variety))")
            world.happen(.messageReceived(client, .remove(id: nextID, url: url)))
        case 55..<58:
            if !world.payloads.isEmpty { world.sendPayload() }
        case 58..<59: answerFiles(world, &random)
        case 59..<60:
            if world.tierJobs.isEmpty { answerFiles(world, &random) } else { answerTier(world, &random) }
        case 60..<62:
            guard let job = random.any(of: world.fetches.keys), let worker = world.fetches[job]?.worker else { return }
            world.happen(.fetchProgressed(worker, job, received: random.pick(0...2000), expected: 2000))
        case 62..<64:
            if let job = random.any(of: world.fetches.keys) {
                // Worlds with a shared tier have the histories that they had without descriptions.
                let isTold = !world.state.limits.usesSharedTier && random.flip()
                world.respond(job, total: isTold ? 400_000 : nil)
            }
        case 64..<72: answerFetch(world, &random)
        case 72..<73: if let job = random.any(of: world.fetches.keys) { world.failFetch(job) }
        case 73..<74:
            if let job = random.any(of: world.stopping.keys) { world.endStopping(job, received: random.pick(0...2000)) }
        case 74..<82:
            if let job = random.any(of: world.identifying.keys) {
                let width = world.early[job] == nil || random.flip() ? nil : 10
                return world.identify(job, content: random.pick(1...world.variety - 2), earlyWidth: width)
            }
            guard let job = random.any(of: world.decodes.filter { $0.value.plan == nil }.keys) else { return }
            world.readHeader(
                job, width: random.pick(10...30), height: random.pick(10...30),
                frames: 3, workingBytes: random.pick([0, 3000]),
                stage: random.pick(0...10),
                lengths: world.state.limits.usesSharedTier
                    ? MetadataLengths(exif: 20)
                    : random.pick([MetadataLengths(), MetadataLengths(exif: 20, xmp: 2 << 20)]),
                isAtOnce: random.flip())
        case 82..<90:
            if let job = random.any(of: world.decodes.filter(\.value.hasOutput).keys) {
                let whole = world.decodes[job].flatMap { $0.fetch == nil ? $0.order.transform : nil }
                let isPreview = whole?.prefersPreview == true && random.flip()
                let isDamaged = !isPreview && whole?.acceptsDamage == true && random.flip()
                world.finishDecode(job, damage: isDamaged ? "It ends early." : nil, isPreview: isPreview)
            }
        case 90..<91:
            if let job = random.any(of: world.decodes.keys) {
                world.failDecode(job, random.pick([.decodeFailed, .truncated]))
            }
        case 91..<94:
            guard let worker = random.any(of: world.workers.keys) else { return }
            if random.once(in: 3) {
                world.ending.insert(worker)
                return
            }
            let exits: [WorkerExit] = [
                .ended(.signal(11)), .ended(.signal(9)), .ended(.signal(31)), .ended(.signal(24)), .ended(.status(1)),
                .ended(.status(0)), .ended(.signal(9), ExitCircumstances(isMemoryShort: true)),
                .ended(.signal(6), ExitCircumstances(peakBytes: .max)), .notStarted("no"),
            ]
            world.endWorker(worker, random.pick(exits))
        case 94..<95:
            if let worker = random.any(of: world.workers.keys) {
                world.happen(random.flip() ? .workerHungUp(worker) : .workerMisbehaved(worker, "nonsense"))
            }
        case 95..<97:
            for job in world.diskJobs.keys.sorted() where random.flip() {
                let content = random.pick([nil, 1, 2, 3])
                world.answerDiskJob(job, content: content, asRaster: random.flip())
            }
        case 97 where random.flip(): answerTier(world, &random)
        case 97:
            if let worker = random.any(of: world.workers.keys) {
                world.happen(.workerMeasured(worker, residentBytes: random.pick(0...200 << 20)))
            }
        case 98 where random.flip(): administer(world, &random, &nextID)
        case 98: world.happen(.timePassed, after: random.pick(0...500))
        default: world.readyAll()
        }
        while let (worker, job) = world.measuring.popLast() {
            world.happen(.processorTimeUsed(worker, job, milliseconds: random.pick(0...10_500)))
        }
        world.endDying { random.flip() ? .ended(.signal(9)) : .ended(.status(0)) }
    }

    /// Sends a random message with a local file, which may be examined at once.
    private func requestFile(_ world: StrictWorld, _ random: inout SplitMix64, _ client: ClientID, _ id: Int) {
        let file = FileID(number: id)
        let usesTier = world.state.limits.usesSharedTier
        switch random.pick(0..<10) {
        case 0:
            world.files.insert(file)
            world.happen(.fileRequested(client, .removeFile(id: id, file: LocalFile()), file))
        case 1:
            world.files.insert(file)
            world.happen(.fileRequested(client, .query(GetRequest(id: id, file: LocalFile())), file))
        default:
            world.getFile(client, id: id, file) { options in
                options.cache = random.pick([.default, .default, .reload, .onlyIfCached, .noStore])
                options.storage = random.pick(GetOptions.Storage.allCases)
                options.delivery = random.pick(usesTier ? [.fd, .inline, .none] : [.fd, .inline, .none, .header])
                options.progress = random.flip()
                options.retryFailed = random.flip()
                options.representation = random.pick([.pixels, .pixels, .original, .jpeg])
                if random.flip() { options.variant.width = 5 }
                options.totalTimeoutMs = random.pick(1...8000)
            }
        }
        if random.flip() { examine(file, world, &random) }
    }

    private func examine(_ file: FileID, _ world: StrictWorld, _ random: inout SplitMix64) {
        if random.once(in: 10) { return world.refuse(file) }
        let identity = StrictWorld.identity(
            .random(in: 1...4, using: &random), size: random.pick([0, 1000, 1500, 1 << 30]))
        world.examine(file, identity, isRecent: random.once(in: 5))
    }

    /// Lets a helper go on with files.
    private func answerFiles(_ world: StrictWorld, _ random: inout SplitMix64) {
        for file in world.files.sorted().prefix(4) where world.state.files.asker(of: file) != nil {
            if random.flip() { examine(file, world, &random) }
        }
        guard let job = random.any(of: world.reading.keys) else { return }
        switch random.pick(0..<8) {
        case 0: world.failRead(job, .changed)
        case 1: world.failRead(job, .failed("EIO"))
        case 2: world.failRead(job, .unreadable("EINVAL"))
        case 3: if let file = world.reading[job]?.file { world.lose(file) }
        default:
            world.finishRead(job, content: random.flip() ? random.pick(1...world.variety - 2) : nil)
        }
    }

    private func answerTier(_ world: StrictWorld, _ random: inout SplitMix64) {
        for (job, entry) in world.tierJobs.sorted(by: { $0.key < $1.key }) where random.flip() {
            guard world.tierJobs[job] != nil else { continue }
            switch entry.kind {
            case .write: world.finishWriting(job)
            case .find(_, nil) where random.flip():
                world.findSharedVariant(job) { if random.flip() { $0.form = "other" } }
            case .find(_, nil): world.answerShared(job, .nothing)
            case .find: answerLookup(job, world, &random)
            }
        }
    }

    private func answerLookup(_ job: JobID, _ world: StrictWorld, _ random: inout SplitMix64) {
        switch random.pick(0..<9) {
        case 0..<3:
            let age = random.pick([nil, "max-age=1000000", "private", "max-age=0", "no-cache"])
            let content = random.flip() ? random.pick(1...6) : nil
            // Some records have other bytes than they state.
            let stated = random.flip() ? content : random.pick(1...6)
            world.findShared(job, content: content, stated: stated, bytes: random.pick(1...2500)) {
                $0.cacheControl = age
                if random.flip() { $0.receivedAt += 5 }
            }
        case 3: world.noteShared(job, .failure(status: random.pick([404, 410])))
        case 4: world.noteShared(job, .unshared)
        case 5: world.answerShared(job, .busy)
        case 6: world.answerShared(job, .nothing)
        case 7: world.findUnreadable(job)
        default: world.answerShared(job, .leased)
        }
    }

    /// Answers a transfer with a random outcome.
    private func answerFetch(_ world: StrictWorld, _ random: inout SplitMix64) {
        guard let job = random.any(of: world.fetches.keys) else { return }
        let directives = [
            nil, "max-age=1000000", "max-age=1", "max-age=1, stale-while-revalidate=100, stale-if-error=100",
            "no-store", "private, max-age=5", "no-cache",
        ]
        let cacheControl = random.pick(directives)
        let hasTag = random.flip()
        let isKnown = world.fetches[job]?.order.conditions != nil
        switch random.pick(0..<10) {
        case 0..<3 where isKnown: world.confirm(job) { $0.cacheControl = cacheControl }
        case 3: world.failFetch(job, status: random.pick([404, 410, 403, 500, 503]))
        case 4: world.failFetch(job, status: 503, retryAfterMs: 2000)
        case 5: world.cutFetch(job, received: random.pick(0...2000))
        default:
            let bytes = random.pick(1...2500)
            world.finishFetch(job, content: random.flip() ? random.pick(1...world.variety - 2) : nil, bytes: bytes) {
                $0.cacheControl = cacheControl
                if hasTag { $0.etag = "\"tag\"" }
            }
        }
    }

    /// Sends a random message other than a get.
    private func administer(_ world: StrictWorld, _ random: inout SplitMix64, _ nextID: inout Int) {
        guard let client = random.any(of: world.clients.keys) else { return }
        nextID += 1
        let id = nextID
        func url(_ number: Int) -> SourceURL { try! SourceURL("http://origin.test/\(number)") }
        let (first, second) = (random.pick(0..<8), random.pick(0..<8))
        switch random.pick(0..<13) {
        case 12:
            var limits = world.state.limits
            limits.memoryBytes = random.pick(2_000...50_000)
            limits.maxEvictedBytes = random.pick(1_000...20_000)
            limits.maxSourcePixels = random.pick(300...1_000)
            limits.caching.minimumLifetime = random.pick([0, 100])
            limits.decodeDeadlineMs = random.pick(100...20_000)
            limits.retries = random.pick(0...2)
            limits.presets["small"]?.width = random.pick(3...6)
            limits.families = random.pick([[], [.avif], [.heif], [.avif, .heif]])
            limits.allowsPresetsOnly = random.once(in: 4)
            world.newLimits = random.flip() ? limits : nil
            world.happen(.messageReceived(client, .reload(id: id)))
        case 0..<3:
            let urls = (0..<first).map { url($0 + second) }
            world.happen(.messageReceived(client, .prefetch(PrefetchRequest(id: id, urls: urls))))
        case 3..<6:
            var request = StoreRequest(id: id, url: url(first), payload: 0)
            var bytes = 1 + second * 200
            if random.flip(), let geometry = PixelGeometry(width: 10, height: 1 + second) {
                let (stride, offset) = (40 + 4 * random.pick(0..<2), first * 4)
                request = StoreRequest(
                    id: id, url: url(first), pixels: StoredPixels(geometry, stride: stride, offset: offset),
                    storage: random.flip() ? .memory : .disk)
                bytes = offset + stride * geometry.height
            }
            world.happen(.storeReceived(client, request, bytes: bytes))
        case 6: world.happen(.messageReceived(client, .subscribe(id: id, events: Set(BrokerEvent.Name.allCases))))
        case 7: world.happen(.messageReceived(client, .clear(id: id, tier: .all, olderThanSeconds: nil)))
        case 8: world.happen(.messageReceived(client, .clear(id: id, tier: .memory, olderThanSeconds: 1)))
        case 9: world.happen(.messageReceived(client, .suspend(id: id)))
        case 10: world.happen(.messageReceived(client, .cancelAll(id: id)))
        case 11:
            world.happen(.messageReceived(client, .upgrade(id: id)))
            guard let (client, id) = world.upgrades.popLast() else { break }
            let left = world.state.unrepeatable(besides: (client, id))
            #expect(left.isEmpty || world.state.isUnfinished(besides: (client, id)))
            for client in left.sorted() { world.happen(.clientLeftBehind(client)) }
            #expect(world.state.unrepeatable(besides: (client, id)).subtracting(left).isEmpty)
            world.happen(.upgradeEnded(client, id: id, WireError(.internal, "It cannot take over.")))
        default: world.happen(.messageReceived(client, .failedClear(id: id, url: nil)))
        }
        if random.flip() { world.happen(.messageReceived(client, .resume(id: id + 1))) }
        nextID += 1
    }

    /// Ends everything and checks that no client resources are left.
    private func drain(_ world: StrictWorld) throws {
        world.happen(.timePassed, after: 100_000)
        for client in world.clients.keys.sorted() {
            #expect(world.clients[client]?.isEmpty == true, "requests without an answer")
            world.disconnect(client)
        }
        for (job, entry) in world.tierJobs.sorted(by: { $0.key < $1.key }) {
            if case .find(_, let token) = entry.kind { world.answerShared(job, token == nil ? .nothing : .leased) }
        }
        // Without a process that takes orders, they end by their time.
        #expect(world.leases.isEmpty || world.state.supervision[.tier].available == nil, "leases that nothing needs")
        for (worker, _) in world.workers.sorted(by: { $0.key < $1.key }) { world.endWorker(worker, .ended(.signal(9))) }
        for job in world.reading.keys.sorted() { world.finishRead(job) }
        #expect(world.files.isEmpty, "files that nothing needs")
        // Partial bodies are kept for ten minutes.
        let report = world.after(600_000).state.report
        for figure in [
            StatsReport.Figure.leases, .leasedBytes, .evictedLeasedBytes, .reservedBytes, .queued, .running, .clients,
        ] {
            #expect(report[figure] == 0, "\(figure)")
        }
        #expect(report.workerDeaths.values.reduce(0, +) >= report[.workerRestarts])
        #expect(report[.memoryBytes] <= world.state.limits.memoryBytes)
        let clients = world.state.clients
        #expect(clients.connectionsTaken == 0 && clients.pendingWeight == 0 && clients.subscriptionsTaken == 0)
        #expect(StatsReport.Figure.outcomes.reduce(0) { $0 + report[$1] } == report[.requests])
    }
}

/// Random histories of a few images that are requested repeatedly, by clients with the validity page: after every event
/// each valid slot names the buffer that a `get` would return (see `StrictWorld.checkPage`).
struct RandomPageTests {
    @Test(arguments: 1...20)
    func theWordsAreTrue(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.memoryBytes = random.pick(3_000...30_000)
        limits.memoryEntries = random.pick(4...30)
        limits.validitySlots = random.pick(2...10)
        limits.usesDisk = seed % 2 == 0
        let world = StrictWorld(limits)
        var clients = (0..<4).map { number in
            let client = world.connect(uid: UInt32(1 + number % 2), isAdmin: number == 3)
            if number < 3 { world.greet(client) }
            return client
        }
        world.readyAll()
        for id in 0..<1500 {
            step(world, &random, &clients, id)
            work(world, &random)
        }
        #expect(world.namings > 20)
        #expect(world.words.values.contains { $0.generation > 1 })
        world.happen(.shutdownRequested)
        #expect(world.words.values.allSatisfy { $0.expiry == 0 })
    }

    private func step(_ world: StrictWorld, _ random: inout SplitMix64, _ clients: inout [ClientID], _ id: Int) {
        let place = random.pick(0..<4)
        let client = clients[place]
        let path = "\(random.pick(0..<4))"
        guard let url = try? SourceURL("http://origin.test/\(path)") else { return }
        switch random.pick(0..<40) {
        case 0..<6:
            let identity = StrictWorld.identity(.random(in: 0..<3, using: &random), changed: random.pick(0..<2))
            let isRecent = random.once(in: 6)
            let isLocal = random.pick(0..<4) > 0
            world.getFile(client, id: id, identity, isRecent: isRecent, isLocal: isLocal) { options in
                let modes: [GetOptions.CacheMode] = [.default, .reload, .noStore, .onlyIfCached]
                options.cache = modes[random.pick([0, 0, 0, 0, 0, 1, 2, 3])]
                if random.once(in: 6) { options.representation = .original }
            }
        case 6..<24:
            world.get(client, id: id, path) { options in
                let modes: [GetOptions.CacheMode] = [.default, .forceCache, .noCache, .reload]
                options.cache = modes[random.pick([0, 0, 0, 0, 0, 0, 1, 2, 3])]
                if random.once(in: 6) { options.representation = .original }
                if random.once(in: 8) { options.cookies = true }
            }
        case 24..<27:
            guard let buffer = random.any(of: world.descriptors[client]) else { return }
            world.release(buffer, of: client)
        case 27..<29:
            world.happen(.messageReceived(client, .touch(buffers: Array(world.descriptors[client] ?? []), hits: 2)))
        case 29: world.happen(.messageReceived(client, .remove(id: id, url: url)))
        case 30..<32: world.happen(.storeReceived(client, StoreRequest(id: id, url: url, payload: 0), bytes: 500))
        case 32: world.happen(.messageReceived(clients[3], .clear(id: id, tier: .memory, olderThanSeconds: nil)))
        case 33:
            world.disconnect(client)
            clients[place] = world.connect(uid: UInt32(1 + place % 2), isAdmin: place == 3)
            if place < 3 { world.greet(clients[place]) }
        case 34:
            let report = DiskReport(state: .on, mayHaveOwned: random.flip())
            guard world.state.limits.usesDisk else { return }
            world.happen(.diskReported(report))
            world.happen(.originalsKnown(hashes: [], isComplete: random.flip()))
        default: world.happen(.timePassed, after: random.pick(0...1500))
        }
    }

    /// Finishes a random part of the work in flight.
    private func work(_ world: StrictWorld, _ random: inout SplitMix64) {
        world.readyAll()
        for job in world.diskJobs.keys.sorted() where random.pick(0..<4) > 0 {
            world.answerDiskJob(job, content: random.pick([nil, nil, 1, 2]))
        }
        for job in world.reading.keys.sorted() where random.pick(0..<4) > 0 {
            world.finishRead(job, content: random.flip() ? random.pick(1...4) : nil)
        }
        for job in world.identifying.keys.sorted() { world.identify(job, content: random.pick(1...4)) }
        for job in world.fetches.keys.sorted() where random.pick(0..<4) > 0 {
            if world.fetches[job]?.order.conditions != nil, random.flip() {
                world.confirm(job) { $0.cacheControl = "max-age=3" }
                continue
            }
            let ages = ["max-age=3", "max-age=1000", "max-age=1, stale-while-revalidate=5", "private, max-age=1000"]
            let control = ages.randomElement(using: &random)
            world.finishFetch(job, content: random.flip() ? random.pick(1...4) : nil) {
                $0.cacheControl = control
                $0.etag = "\"tag\""
            }
        }
        world.advanceDecodes()
    }
}

/// Random histories of slow transfers with partial images: `StrictWorld` checks every event and every action.
struct RandomPartialTests {
    @Test func historiesOfSlowTransfers() {
        var shown = 0
        for seed in 1...30 { shown += run(seed: UInt64(seed)) }
        #expect(shown >= 60)
    }

    /// Runs one history and returns the number of partial images in it.
    private func run(seed: UInt64) -> Int {
        var random = SplitMix64(state: seed)
        let world = StrictWorld.ready {
            $0.workers = random.pick(1...2)
            $0.memoryBytes = random.pick([8_000, 512 << 20])
        }
        let clients = (0..<3).map { world.connect(uid: 1000 + UInt32($0 % 2)) }
        var received: [JobID: Int] = [:]
        for step in 0..<1200 {
            let fetch = random.any(of: world.fetches.keys)
            switch random.pick(0..<100) {
            case 0..<10:
                let client = random.pick(clients)
                guard world.clients[client]?.count ?? 9 < 4 else { break }
                world.cacheControl = random.pick(["max-age=1", "private"])
                world.get(client, id: step, "\(step % 3)") {
                    $0.progressive = random.pick(0..<4) > 0
                    $0.delivery = random.pick([.fd, .inline])
                    $0.cache = .noStore
                    $0.variant.width = random.pick([nil, 5])
                }
            case 10..<16:
                guard let fetch else { break }
                let isContinued = world.fetches[fetch]?.order.resumption != nil && random.flip()
                if !isContinued { received[fetch] = 0 }
                world.respond(fetch, status: isContinued ? 206 : 200)
            case 16..<50:
                guard let fetch, let worker = world.fetches[fetch]?.worker else { break }
                received[fetch, default: 0] += random.pick(0...3000)
                world.happen(.fetchProgressed(worker, fetch, received: received[fetch]!, expected: nil))
            case 50..<65:
                guard let job = random.any(of: world.decodes.filter { $0.value.plan == nil }.keys) else { break }
                world.readHeader(job, stage: random.pick(0...60))
            case 65..<78:
                let job = random.any(of: world.decodes.filter(\.value.hasOutput).keys)
                if let job { world.finishDecode(job) }
            case 78..<80:
                guard let job = random.any(of: world.decodes.keys) else { break }
                world.failDecode(job, random.pick([.truncated, .truncated, .unsupportedFormat]))
            case 80: if let fetch { world.cutFetch(fetch, received: random.pick(0...9000)) }
            case 81..<84: if let fetch { world.finishFetch(fetch, content: step + 1) }
            case 84:
                let client = random.pick(clients)
                guard let request = world.clients[client]?.min() else { break }
                world.happen(.messageReceived(client, .cancel(id: 100_000 + step, request: request)))
            case 85:
                guard let job = world.stopping.keys.min() else { break }
                world.endStopping(job, received: random.pick(0...5000))
            case 86 where random.once(in: 4):
                guard let worker = random.any(of: world.workers.keys) else { break }
                if random.flip(), world.ending.insert(worker).inserted { break }
                world.endWorker(worker, random.pick([.ended(.signal(11)), .ended(.signal(9))]))
            case 87..<89:
                world.readyAll()
                while !world.payloads.isEmpty { world.sendPayload() }
            default: world.happen(.timePassed, after: random.pick(0...150))
            }
            world.measuring = []
            world.endDying { .ended(.signal(9)) }
        }
        for client in clients { world.disconnect(client) }
        for job in world.decodes.keys.sorted() { world.failDecode(job) }
        #expect(world.state.decoding.renderedDownloads.isEmpty)
        return world.state.report[.partialDecodes]
    }
}

/// Random histories of small images in segments: after every event the invariants hold, and nothing is written where an
/// image lies that is in memory or leased (`SegmentWorld`).
struct SegmentHistoryTests {
    @Test(arguments: 1...8) func `a leased image never changes`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.workers = 2
        (limits.mostSegmentImageBytes, limits.leastSegmentBytes, limits.mostSegmentBytes) = (4_000, 4_096, 16_384)
        limits.memoryBytes = random.pick(100_000...200_000)
        (limits.maxEvictedBytes, limits.maxLeasedBytes) = (60_000, 60_000)
        let world = StrictWorld(limits)
        world.mapsSegments = seed % 4 != 0
        var nextID = 0
        for step in 0..<1500 {
            if world.clients.count < 4 {
                let client = world.connect(uid: .random(in: 1...2, using: &random))
                world.greet(client)
                if step > 700 { world.mapsSegments = true }
            }
            guard let client = random.any(of: world.clients.keys) else { return complain("no client") }
            nextID += 1
            if step % 4 > 0 {
                let gone = world.segments.forgetEnded(of: client)
                if !gone.isEmpty { world.happen(.messageReceived(client, .forgetSegments(gone))) }
            }
            switch random.pick(0..<40) {
            case 0..<18: load(world, client, nextID, random.pick(1...160))
            case 18..<34:
                for buffer in world.descriptors[client]!.sorted().shuffled(using: &random).prefix(3) {
                    world.release(buffer, of: client)
                }
            case 34:
                guard let segment = world.segments.forgetAny(of: client) else { continue }
                world.happen(.messageReceived(client, .forgetSegments([segment, 1 << 40])))
            case 35: world.disconnect(client, isForced: random.flip())
            case 36:
                let url = try SourceURL("http://origin.test/\(random.pick(1...160))")
                world.happen(.messageReceived(client, .remove(id: nextID, url: url)))
            case 37 where random.once(in: 10): world.happen(.memoryPressure)
            case 37: world.happen(.placeLost(BufferID(number: random.pick(1...nextID)), segment: nil))
            case 38: world.happen(.timePassed, after: random.pick(0...3_000))
            default: world.happen(.timePassed, after: random.pick(0...50))
            }
            if step % 200 == 199 { try world.checkSuccessor() }
        }
        if seed % 4 != 0 { #expect(world.segments.placed > 200 && world.segments.sent > 200) }
        if seed % 4 != 0 { #expect(world.moves > 0) }
        // In other histories nobody holds an image for long in a segment that ends.
        if [2, 6].contains(seed) { #expect(world.segments.stranded > 0) }
        for client in world.clients.keys.sorted() { world.disconnect(client) }
        world.happen(.timePassed, after: 100_000)
        // Nothing is left when nothing is in memory.
        let admin = world.connect(uid: 0, isAdmin: true)
        world.happen(.messageReceived(admin, .clear(id: 1, tier: .memory, olderThanSeconds: nil)))
        for _ in 0..<100 { world.happen(.timePassed, after: 50) }
        #expect(world.state.memory.segments.totalBytes == 0)
    }

    /// Requests an image, and has it downloaded and decoded, in one job or in two.
    private func load(_ world: StrictWorld, _ client: ClientID, _ id: Int, _ number: Int) {
        world.get(client, id: id, "\(number)")
        for _ in 0..<20 where world.clients[client]?.contains(id) == true {
            world.readyAll()
            let width = 6 + number % 26
            if let job = world.fetches.keys.min() { world.finishFetch(job, content: nil) }
            if let job = world.identifying.keys.min() {
                world.identify(
                    job, content: number, earlyWidth: world.early[job] == nil || number % 3 == 0 ? nil : width)
            }
            for (job, decode) in world.decodes.sorted(by: { $0.key < $1.key }) {
                if decode.plan == nil { world.readHeader(job, width: width, height: width, isAtOnce: number % 2 == 0) }
                if world.decodes[job]?.hasOutput == true { world.finishDecode(job) }
            }
            world.happen(.timePassed, after: 1)
        }
    }
}

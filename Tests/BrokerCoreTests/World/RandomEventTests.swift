import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Random histories: after every event the invariants hold, and every action can be performed.
struct RandomEventTests {
    @Test(arguments: 1...40)
    func `invariants hold after every event`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.workers = Int.random(in: 1...3, using: &random)
        limits.fetchers = Int.random(in: 1...2, using: &random)
        limits.transfersPerFetcher = 4
        limits.transfersPerOrigin = 3
        limits.yieldSilenceMs = 300
        limits.suspicionMs = 500
        // A few images of 400 to 4,000 bytes.
        limits.memoryBytes = Int.random(in: 2_000...20_000, using: &random)
        limits.memoryEntries = Int.random(in: 3...30, using: &random)
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
        limits.maxPendingRequests = 12
        limits.maxLeasedBytes = 15_000
        limits.maxRequests = Int.random(in: 10...60, using: &random)
        limits.maxClients = Int.random(in: 4...10, using: &random)
        limits.maxSubscriptions = 3
        limits.maxEvictedBytes = Int.random(in: 1_000...20_000, using: &random)
        limits.maxEvictedBuffers = Int.random(in: 2...20, using: &random)
        limits.usesDisk = seed % 2 == 0
        limits.usesSharedTier = seed % 4 >= 2
        limits.sharesVariants = seed % 4 == 3
        limits.maxSavingBytes = 4_000
        limits.maxPixels = 600
        limits.presets["small"] = GetOptions.Variant()
        limits.leastEarlyResultBytes = 200
        limits.mostEarlyResultBytes = 400
        limits.earlyResultBytesPerByte = 2
        if seed % 3 == 0 { limits.earlyBodyBytes = 1200 }
        limits.families = [[], [.avif], [.avif, .heif]][Int(seed % 3)]
        limits.familyIdleMs = 2_000
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
        let client = world.clients.keys.sorted().randomElement(using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<6:
            if world.clients.count < 6 {
                let client = world.connect(
                    uid: .random(in: 1...2, using: &random), isAdmin: Bool.random(using: &random))
                if Bool.random(using: &random), world.clients[client] != nil { world.greet(client) }
            }
        case 6..<8: if let client { world.disconnect(client) }
        case 8..<40:
            guard let client else { return }
            nextID += 1
            if random.isOne(of: 5) { return requestFile(world, &random, client, nextID) }
            if let last = world.answered.randomElement(using: &random), random.isOne(of: 3) {
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
            world.get(client, id: nextID, "\(Int.random(in: 0..<variety, using: &random))") { options in
                let modes = GetOptions.CacheMode.allCases + [.default, .default, .default, .default]
                options.cache = modes.randomElement(using: &random)!
                options.staleFirst = Bool.random(using: &random)
                options.progressive = Bool.random(using: &random)
                options.storage = (GetOptions.Storage.allCases + [.both, .both]).randomElement(using: &random)!
                options.retryFailed = Bool.random(using: &random)
                if random.isOne(of: 8) { options.cookies = true }
                if random.isOne(of: 8) { options.cacheKey = "name" }
                options.delivery = [.fd, .fd, .inline, .none].randomElement(using: &random)!
                if !usesTier {
                    if random.isOne(of: 6) { options.delivery = .header }
                    if random.isOne(of: 6) { options.metadata = [.exif, .xmp] }
                    if random.isOne(of: 3) { options.embedded = .fast }
                }
                options.representation = [.pixels, .pixels, .original, .jpeg].randomElement(using: &random)!
                options.variant.pixelFormat = PixelFormat.allCases.randomElement(using: &random)!
                if random.isOne(of: 3) {
                    options.variant.width = [5, 40].randomElement(using: &random)!
                    options.variant.fit = Transform.Fit.allCases.randomElement(using: &random)!
                }
                if random.isOne(of: 8), options.representation == .pixels {
                    let range = FrameRange(first: .random(in: 0...3, using: &random), count: 2)
                    options.variant.frames = .range(range)
                }
                if random.isOne(of: 4) { options.damaged = .accept }
                if random.isOne(of: 5) {
                    options.variant = GetOptions.Variant()
                    options.preset = ["small", "unknown"].randomElement(using: &random)!
                }
                options.priority = GetOptions.Priority.allCases.randomElement(using: &random)!
                options.progress = Bool.random(using: &random)
                options.timeoutMs = Int.random(in: 1...2000, using: &random)
                options.totalTimeoutMs = Int.random(in: 1...8000, using: &random)
                if random.isOne(of: 4) { options.headers = [HeaderField(name: "cookie", value: "a=b")] }
                if random.isOne(of: 6) { options.maxAgeSeconds = Int.random(in: 0...5, using: &random) }
                if random.isOne(of: 6) { options.retries = Int.random(in: 0...2, using: &random) }
                if options.cacheKey == nil, random.isOne(of: 6) {
                    options.alternatives = (0..<Int.random(in: 1...4, using: &random)).compactMap { _ in
                        let host = Bool.random(using: &random) ? "origin" : "other"
                        return try? SourceURL("http://\(host).test/\(Int.random(in: 0..<variety, using: &random))")
                    }
                }
            }
        case 40..<45:
            guard let client, let request = world.clients[client]?.sorted().randomElement(using: &random) else {
                return
            }
            nextID += 1
            if Bool.random(using: &random) {
                let priority = (GetOptions.Priority.allCases + [nil]).randomElement(using: &random)!
                return world.happen(
                    .messageReceived(
                        client,
                        .update(
                            id: nextID, request: request, priority: priority,
                            detach: priority == nil || Bool.random(using: &random))))
            }
            world.happen(.messageReceived(client, .cancel(id: nextID, request: request)))
        case 45..<53:
            guard let client, let buffer = world.descriptors[client]?.sorted().randomElement(using: &random) else {
                return
            }
            if Bool.random(using: &random) {
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
            let url = try! SourceURL("http://origin.test/\(Int.random(in: 0..<world.variety, using: &random))")
            world.happen(.messageReceived(client, .remove(id: nextID, url: url)))
        case 55..<58:
            guard !world.payloads.isEmpty else { return }
            let sent = world.payloads.removeFirst()
            world.happen(.payloadSent(sent.client, sent.buffer))
        case 58..<59: answerFiles(world, &random)
        case 59..<60:
            if world.tierJobs.isEmpty { answerFiles(world, &random) } else { answerTier(world, &random) }
        case 60..<62:
            guard let (job, fetch) = world.fetches.sorted(by: { $0.key < $1.key }).randomElement(using: &random) else {
                return
            }
            world.happen(
                .fetchProgressed(fetch.worker, job, received: .random(in: 0...2000, using: &random), expected: 2000))
        case 62..<64:
            if let job = world.fetches.keys.sorted().randomElement(using: &random) {
                // Worlds with a shared tier have the histories that they had without descriptions.
                let isTold = !world.state.limits.usesSharedTier && Bool.random(using: &random)
                world.respond(job, total: isTold ? 400_000 : nil)
            }
        case 64..<72: answerFetch(world, &random)
        case 72..<73: if let job = world.fetches.keys.sorted().randomElement(using: &random) { world.failFetch(job) }
        case 73..<74:
            if let job = world.stopping.keys.sorted().randomElement(using: &random) {
                world.endStopping(job, received: .random(in: 0...2000, using: &random))
            }
        case 74..<82:
            if let job = world.identifying.keys.sorted().randomElement(using: &random) {
                let width = world.early[job] == nil || Bool.random(using: &random) ? nil : 10
                return world.identify(
                    job, content: .random(in: 1...world.variety - 2, using: &random), earlyWidth: width)
            }
            let waiting = world.decodes.filter { $0.value.plan == nil }.keys.sorted()
            guard let job = waiting.randomElement(using: &random) else { return }
            world.readHeader(
                job, width: .random(in: 10...30, using: &random), height: .random(in: 10...30, using: &random),
                frames: 3, workingBytes: [0, 3000].randomElement(using: &random)!,
                stage: .random(in: 0...10, using: &random),
                lengths: world.state.limits.usesSharedTier
                    ? MetadataLengths(exif: 20)
                    : [MetadataLengths(), MetadataLengths(exif: 20, xmp: 2 << 20)].randomElement(using: &random)!)
        case 82..<90:
            let filling = world.decodes.filter(\.value.hasOutput).keys.sorted()
            if let job = filling.randomElement(using: &random) {
                let mayBeDamaged =
                    world.decodes[job]?.order.transform.acceptsDamage == true && world.decodes[job]?.fetch == nil
                let isPreview =
                    world.decodes[job]?.order.transform.prefersPreview == true && world.decodes[job]?.fetch == nil
                    && Bool.random(using: &random)
                world.finishDecode(
                    job, damage: !isPreview && mayBeDamaged && Bool.random(using: &random) ? "It ends early." : nil,
                    isPreview: isPreview)
            }
        case 90..<91:
            if let job = world.decodes.keys.sorted().randomElement(using: &random) {
                world.failDecode(job, [.decodeFailed, .truncated].randomElement(using: &random)!)
            }
        case 91..<94:
            guard let worker = world.workers.keys.sorted().randomElement(using: &random) else { return }
            if random.isOne(of: 3) {
                world.ending.insert(worker)
                return
            }
            let exits: [WorkerExit] = [
                .ended(.signal(11)), .ended(.signal(9)), .ended(.signal(31)), .ended(.signal(24)), .ended(.status(1)),
                .ended(.status(0)), .ended(.signal(9), ExitCircumstances(isMemoryShort: true)),
                .ended(.signal(6), ExitCircumstances(peakBytes: .max)), .notStarted("no"),
            ]
            world.endWorker(worker, exits.randomElement(using: &random)!)
        case 94..<95:
            if let worker = world.workers.keys.sorted().randomElement(using: &random) {
                world.happen(
                    Bool.random(using: &random) ? .workerHungUp(worker) : .workerMisbehaved(worker, "nonsense"))
            }
        case 95..<97:
            for job in world.diskJobs.keys.sorted() where Bool.random(using: &random) {
                let content = [nil, 1, 2, 3].randomElement(using: &random)!
                world.answerDiskJob(job, content: content, asRaster: Bool.random(using: &random))
            }
        case 97 where Bool.random(using: &random): answerTier(world, &random)
        case 97:
            if let worker = world.workers.keys.sorted().randomElement(using: &random) {
                world.happen(.workerMeasured(worker, residentBytes: .random(in: 0...200 << 20, using: &random)))
            }
        case 98 where Bool.random(using: &random): administer(world, &random, &nextID)
        case 98: world.happen(.timePassed, after: .random(in: 0...500, using: &random))
        default: world.readyAll()
        }
        while let (worker, job) = world.measuring.popLast() {
            world.happen(.processorTimeUsed(worker, job, milliseconds: .random(in: 0...10_500, using: &random)))
        }
        for (worker, entry) in world.workers.sorted(by: { $0.key < $1.key }) where entry.state == .dying {
            world.endWorker(worker, Bool.random(using: &random) ? .ended(.signal(9)) : .ended(.status(0)))
        }
    }

    /// Sends a random message with a local file, which may be examined at once.
    private func requestFile(_ world: StrictWorld, _ random: inout SplitMix64, _ client: ClientID, _ id: Int) {
        let file = FileID(number: id)
        let usesTier = world.state.limits.usesSharedTier
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
            world.files.insert(file)
            world.happen(.fileRequested(client, .removeFile(id: id, file: LocalFile()), file))
        case 1:
            world.files.insert(file)
            world.happen(.fileRequested(client, .query(GetRequest(id: id, file: LocalFile())), file))
        default:
            world.getFile(client, id: id, file) { options in
                options.cache = [.default, .default, .reload, .onlyIfCached, .noStore].randomElement(using: &random)!
                options.storage = GetOptions.Storage.allCases.randomElement(using: &random)!
                options.delivery = (usesTier ? [.fd, .inline, .none] : [.fd, .inline, .none, .header])
                    .randomElement(using: &random)!
                options.progress = Bool.random(using: &random)
                options.retryFailed = Bool.random(using: &random)
                options.representation = [.pixels, .pixels, .original, .jpeg].randomElement(using: &random)!
                if Bool.random(using: &random) { options.variant.width = 5 }
                options.totalTimeoutMs = Int.random(in: 1...8000, using: &random)
            }
        }
        if Bool.random(using: &random) { examine(file, world, &random) }
    }

    private func examine(_ file: FileID, _ world: StrictWorld, _ random: inout SplitMix64) {
        if random.isOne(of: 10) { return world.refuse(file) }
        let identity = StrictWorld.identity(
            .random(in: 1...4, using: &random), size: [0, 1000, 1500, 1 << 30].randomElement(using: &random)!)
        world.examine(file, identity, isRecent: random.isOne(of: 5))
    }

    /// Lets a helper go on with files.
    private func answerFiles(_ world: StrictWorld, _ random: inout SplitMix64) {
        for file in world.files.sorted().prefix(4) where world.state.files.asker(of: file) != nil {
            if Bool.random(using: &random) { examine(file, world, &random) }
        }
        guard let job = world.reading.keys.sorted().randomElement(using: &random) else { return }
        switch Int.random(in: 0..<8, using: &random) {
        case 0: world.failRead(job, .changed)
        case 1: world.failRead(job, .failed("EIO"))
        case 2: world.failRead(job, .unreadable("EINVAL"))
        case 3: if let file = world.reading[job]?.file { world.lose(file) }
        default:
            world.finishRead(
                job, content: Bool.random(using: &random) ? .random(in: 1...world.variety - 2, using: &random) : nil)
        }
    }

    /// Lets the process of the shared tier answer.
    private func answerTier(_ world: StrictWorld, _ random: inout SplitMix64) {
        for (job, entry) in world.tierJobs.sorted(by: { $0.key < $1.key }) where Bool.random(using: &random) {
            guard world.tierJobs[job] != nil else { continue }
            guard case .find = entry.kind else {
                world.finishWriting(job)
                continue
            }
            guard case .find(_, .some) = entry.kind else {
                if Bool.random(using: &random) {
                    world.findSharedVariant(job) { if Bool.random(using: &random) { $0.form = "other" } }
                } else {
                    world.answerShared(job, .nothing)
                }
                continue
            }
            switch Int.random(in: 0..<9, using: &random) {
            case 0..<3:
                let age = [nil, "max-age=1000000", "private", "max-age=0", "no-cache"].randomElement(using: &random)!
                let content = Bool.random(using: &random) ? Int.random(in: 1...6, using: &random) : nil
                // Some records have other bytes than they state.
                let stated = Bool.random(using: &random) ? content : Int.random(in: 1...6, using: &random)
                world.findShared(job, content: content, stated: stated, bytes: .random(in: 1...2500, using: &random)) {
                    $0.cacheControl = age
                    if Bool.random(using: &random) { $0.receivedAt += 5 }
                }
            case 3: world.noteShared(job, .failure(status: [404, 410].randomElement(using: &random)!))
            case 4: world.noteShared(job, .unshared)
            case 5: world.answerShared(job, .busy)
            case 6: world.answerShared(job, .nothing)
            case 7: world.findUnreadable(job)
            default: world.answerShared(job, .leased)
            }
        }
    }

    /// Answers a transfer with a random outcome.
    private func answerFetch(_ world: StrictWorld, _ random: inout SplitMix64) {
        guard let job = world.fetches.keys.sorted().randomElement(using: &random) else { return }
        let directives = [
            nil, "max-age=1000000", "max-age=1", "max-age=1, stale-while-revalidate=100, stale-if-error=100",
            "no-store",
            "private, max-age=5", "no-cache",
        ]
        let cacheControl = directives.randomElement(using: &random)!
        let hasTag = Bool.random(using: &random)
        let isKnown = world.fetches[job]?.order.conditions != nil
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3 where isKnown: world.confirm(job) { $0.cacheControl = cacheControl }
        case 3: world.failFetch(job, status: [404, 410, 403, 500, 503].randomElement(using: &random)!)
        case 4: world.failFetch(job, status: 503, retryAfterMs: 2000)
        case 5: world.cutFetch(job, received: .random(in: 0...2000, using: &random))
        default:
            let bytes = Int.random(in: 1...2500, using: &random)
            world.finishFetch(
                job, content: Bool.random(using: &random) ? .random(in: 1...world.variety - 2, using: &random) : nil,
                bytes: bytes
            ) {
                $0.cacheControl = cacheControl
                if hasTag { $0.etag = "\"tag\"" }
            }
        }
    }

    /// Sends a random message other than a get.
    private func administer(_ world: StrictWorld, _ random: inout SplitMix64, _ nextID: inout Int) {
        guard let client = world.clients.keys.sorted().randomElement(using: &random) else { return }
        nextID += 1
        let id = nextID
        func url(_ number: Int) -> SourceURL { try! SourceURL("http://origin.test/\(number)") }
        let (first, second) = (Int.random(in: 0..<8, using: &random), Int.random(in: 0..<8, using: &random))
        switch Int.random(in: 0..<13, using: &random) {
        case 12:
            var limits = world.state.limits
            limits.memoryBytes = Int.random(in: 2_000...50_000, using: &random)
            limits.maxEvictedBytes = Int.random(in: 1_000...20_000, using: &random)
            limits.maxSourcePixels = Int.random(in: 300...1_000, using: &random)
            limits.caching.minimumLifetime = [0, 100].randomElement(using: &random)!
            limits.decodeDeadlineMs = Int.random(in: 100...20_000, using: &random)
            limits.retries = Int.random(in: 0...2, using: &random)
            limits.presets["small"]?.width = Int.random(in: 3...6, using: &random)
            limits.families = [[], [.avif], [.heif], [.avif, .heif]].randomElement(using: &random)!
            limits.allowsPresetsOnly = random.isOne(of: 4)
            world.newLimits = Bool.random(using: &random) ? limits : nil
            world.happen(.messageReceived(client, .reload(id: id)))
        case 0..<3:
            let urls = (0..<first).map { url($0 + second) }
            world.happen(.messageReceived(client, .prefetch(PrefetchRequest(id: id, urls: urls))))
        case 3..<6:
            var request = StoreRequest(id: id, url: url(first), payload: 0)
            var bytes = 1 + second * 200
            if Bool.random(using: &random), let geometry = PixelGeometry(width: 10, height: 1 + second) {
                let (stride, offset) = (40 + 4 * Int.random(in: 0..<2, using: &random), first * 4)
                request = StoreRequest(
                    id: id, url: url(first), pixels: StoredPixels(geometry, stride: stride, offset: offset),
                    storage: Bool.random(using: &random) ? .memory : .disk)
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
        if Bool.random(using: &random) { world.happen(.messageReceived(client, .resume(id: id + 1))) }
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
        #expect(world.leases.isEmpty || world.state.supervision.available(.tier) == nil, "leases that nothing needs")
        for (worker, _) in world.workers.sorted(by: { $0.key < $1.key }) {
            world.endWorker(worker, .ended(.signal(9)))
        }
        for job in world.reading.keys.sorted() { world.finishRead(job) }
        #expect(world.files.isEmpty, "files that nothing needs")
        // Partial bodies are kept for ten minutes.
        world.happen(.timePassed, after: 600_000)
        let report = world.state.report
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

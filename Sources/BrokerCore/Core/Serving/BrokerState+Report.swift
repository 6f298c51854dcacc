import IPCProtocol
import SystemValues
import WorkerProtocol

// The broker's account of itself, and the rules that always hold between machines.
extension BrokerState {
    var hello: HelloReply {
        let formats = ImageFormat.files.filter {
            CodecFamily($0) == .plain || limits.families.contains(CodecFamily($0))
        }
        var hello = HelloReply(
            server: "imgbroker/\(ProductVersion.current)", formats: formats.map(\.rawValue),
            limits: [
                "maxFrameBytes": Frame.maximumLength, "maxPixels": limits.maxPixels,
                "maxSourcePixels": limits.maxSourcePixels, "maxDownloadBytes": limits.maxDownloadBytes,
                "maxInlineBytes": limits.maxInlineBytes, "maxPendingRequests": limits.maxPendingRequests,
                "maxLeasedBytes": limits.maxLeasedBytes,
            ],
            features: [
                "files", "steps", "damaged", "rgb8", "gray8", "store-pixels", "presets", "bytes", "header", "metadata",
                "embedded", "position", "update", "max-age", "retries", "alternatives", "frame-range",
            ]
                + (limits.mostSegmentImageBytes > 0 ? ["segments"] : []))
        hello.presets = limits.presets.keys.sorted()
        return hello
    }

    /// The figures that a user may see who is no administrator: its own, and those that no user's requests change.
    func report(for user: UInt32) -> StatsReport {
        var report = service
        counters.requests(of: user).fill(&report)
        report[.clients] = clients.connections(of: user)
        let leased = clients.leased(by: user)
        (report[.leases], report[.leasedBytes]) = (leased.buffers, leased.bytes)
        return report
    }

    /// The figures of the service itself.
    private var service: StatsReport {
        var report = StatsReport()
        report[.uptimeSeconds] = now.instant.microseconds(since: startedAt) / 1_000_000
        report[.workers] = supervision[.decode].ready
        report[.fetchers] = supervision[.fetch].ready
        report[.memoryLimitBytes] = memory.limit
        report[.diskLimitBytes] = limits.usesDisk ? limits.diskBytes : 0
        report.sandbox = supervision.sandbox.level
        report.diskState = disk.report.state.rawValue
        return report
    }

    /// All figures except those that only the shell knows.
    var report: StatsReport {
        var report = service
        counters.fill(&report)
        report[.workerRestarts] = supervision.restarts
        report[.clients] = clients.count
        report[.recentlyFailedURLs] = recentFailures.count(at: now.instant)
        report[.memoryBytes] = memory.residentBytes
        report[.memoryEntries] = memory.entries
        report[.leases] = clients.leased.buffers
        report[.leasedBytes] = memory.heldBytes
        report[.evictedLeasedBytes] = memory.evictedBytes
        report[.reservedBytes] = reservedBytes
        report[.evictions] = memory.evictions
        report[.descriptorEvictions] = memory.descriptorEvictions
        report[.remadeAfterEviction] = memory.recentEvictions.remade
        report[.held] = downloads.heldCount
        (report[.segments], report[.segmentBytes]) = (memory.segments.count, memory.segments.totalBytes)
        report[.sharedBuffers] = memory.sharedBuffers
        report[.diskBytes] = disk.report.bytes
        report[.diskEntries] = disk.report.entries
        report.queuedJobs = [
            .disk: disk.lookupQueue.count, .download: downloads.queued, .file: files.queued, .decode: decoding.queued,
        ]
        report.runningJobs = [
            .disk: supervision[.cache].runningJobs, .download: supervision[.fetch].runningJobs,
            .decode: supervision[.decode].runningJobs + supervision.runningLoaderJobs,
        ]
        report[.queued] = report.queuedJobs.values.reduce(0, +)
        report[.running] = report.runningJobs.values.reduce(0, +)
        report.hosts = busiestOrigins.first(StatsReport.mostRows)
        report.users = counters.busiestUsers(StatsReport.mostRows).map { uid, counters in
            var row = counters.row(of: uid)
            row.leasedBytes = clients.leased(by: uid).bytes
            row.clients = clients.connections(of: uid)
            return row
        }
        report.lastDeaths = lastDeaths.map { at, death in
            var death = death
            death.secondsAgo = max(0, now.instant.microseconds(since: at) / 1_000_000)
            return death
        }
        report.workerProcesses = workerProcesses
        report.sharedServers = sharedServers
        return report
    }

    /// The first rows of the table of workers: those with the job that has run longest, then those without a job.
    private var workerProcesses: [StatsReport.Worker] {
        var oldest: [WorkerID: RunningJob] = [:]
        for job in downloads.runningJobs + decoding.runningJobs(download: { downloads[$0] }) {
            if let other = oldest[job.worker], other.startedAt <= job.startedAt { continue }
            oldest[job.worker] = job
        }
        let never = Instant(nanoseconds: .max)
        let sorted = supervision.all.sorted { left, right in
            let (leftStart, rightStart) = (oldest[left.worker.id]?.startedAt, oldest[right.worker.id]?.startedAt)
            guard leftStart == rightStart else { return (leftStart ?? never) < (rightStart ?? never) }
            let (leftJobs, rightJobs) = (left.worker.jobs.count, right.worker.jobs.count)
            return (rightJobs, left.worker.id) < (leftJobs, right.worker.id)
        }
        return sorted.prefix(StatsReport.mostRows).map { kind, worker in
            var row = StatsReport.Worker()
            row.kind = kind.name
            row.pid = worker.pid
            row.state = worker.stateName
            row.jobs = worker.jobs.count
            guard let job = oldest[worker.id] else { return row }
            row.milliseconds = max(0, now.instant.microseconds(since: job.startedAt) / 1000)
            // Images that clients brought have the name of a file or a user in its place.
            row.origin = job.origin.flatMap { $0.hasPrefix("http") ? $0 : nil }
            row.uid = job.user.map { Int($0) }
            return row
        }
    }

    // MARK: Invariants

    /// Returns a message when the outcomes counted and the unanswered `get`s do not add up to the `get`s received, so
    /// that some `get` has not exactly one outcome; nil when they do. Cheap enough to be checked after every event.
    func brokenOutcomes() -> String? {
        let outcomes = StatsReport.Figure.outcomes.reduce(0) { $0 + (counters.requests.outcomes[$1] ?? 0) }
        return outcomes + requests.gets == counters.requests.requests ? nil : "a get without exactly one outcome"
    }

    /// The first rule that does not hold, within or between machines; nil when all do. Walks over every table.
    func brokenInvariant() -> String? {
        if let broken = brokenOutcomes() { return broken }
        let ofClients = clients.brokenInvariant(
            getWeight: { requests[$0]?.weight }, prefetchWeight: { requests[$0]?.weight })
        let decoders = CodecFamily.allCases.map { (kind: WorkerKind.decoder(of: $0), jobs: decoding.running($0)) }
        for (machine, broken) in [
            ("memory index", memory.brokenInvariant()), ("downloads", downloads.brokenInvariant()),
            ("files", files.brokenInvariant()), ("decoding", decoding.brokenInvariant()),
            ("disk tier", disk.brokenInvariant()), ("shared tier", tier.brokenInvariant()), ("clients", ofClients),
            ("requests", requests.brokenInvariant(isOwned: isOwned, waits: isWaiting)),
            ("supervision", supervision.brokenInvariant(running: [(.fetch, downloads.running)] + decoders)),
        ] {
            if let broken { return "\(machine): \(broken)" }
        }
        if supervision[.cache].runningJobs != disk.runningJobs { return "busy cache is not its running jobs" }
        if supervision[.tier].runningJobs != tier.runningJobs { return "busy tier is not its running jobs" }
        if tier.waitingJobs != decoding.askingTier.union(downloads.active.filter(\.value.isParked).keys) {
            return "jobs that wait for the shared tier"
        }
        if !tier.allJobs.allSatisfy({ downloads.active[$0] != nil || decoding[$0] != nil }) {
            return "a shared load without a job"
        }
        let waiterCount =
            disk.lookups().reduce(0) { $0 + (disk[$1]?.waiters.count ?? 0) }
            + downloads.active.values.reduce(0) { $0 + $1.waiters.count } + decoding.waiterCount
            + files.waiterCount + requests.opening
        if waiterCount != requests.count { return "a job with waiters that are gone" }
        if !decoding.workersWithImages.allSatisfy(supervision.contains) { return "the image of a worker that is gone" }
        if memory.reservedBytes != reservedBytes { return "reserved bytes" }
        if downloads.active.contains(where: { job, download in
            download.rendered.job.map { decoding.renderedDownloads[$0] != job } ?? false
        }) {
            return "a partial decoding that is gone"
        }
        if Set(decoding.wantedIdentifications.values) != Set(downloads.completeBodies) { return "complete bodies" }
        if !results.workers.allSatisfy(supervision.contains) { return "results of a worker that is gone" }
        var holders = clients.holdings
        for buffer in disk.buffersBeingSaved + tier.buffersBeingWritten + downloads.heldBodies + decoding.bodies {
            holders[buffer, default: 0] += 1
        }
        let isHeldRight = memory.bufferIDs.allSatisfy { (memory.record(of: $0)?.holders ?? 0) == holders[$0] ?? 0 }
        if !isHeldRight { return "holders of a buffer" }
        if memory.notesEvictions != clients.hasSubscribers { return "evictions for nobody" }
        return memory.orphanHolders.allSatisfy { $0.holders == holders[$0.buffer] }
            ? nil : "holders of a removed buffer"
    }

    private func isOwned(_ waiter: Waiter) -> Bool {
        switch waiter.purpose {
        case .get: clients[waiter.client]?.requests[waiter.request.id]?.kind == .get(waiter.id)
        case .store(let request): clients[waiter.client]?.requests[request.id]?.kind == .other
        case .prefetch, .refresh, .detached: true
        }
    }

    private func isWaiting(_ waiter: Waiter) -> Bool {
        switch waiter.stage {
        case .deciding: false
        case .opening: waiter.file.flatMap(files.asker) == .get(waiter.id)
        case .reading(let job): files[job]?.waiters.contains(waiter.id) == true
        case .lookingUp(let job): disk[job]?.waiters.contains(waiter.id) == true
        case .downloading(let job): downloads[job]?.waiters.contains(waiter.id) == true
        case .decoding(let job): decoding[job]?.waiters.contains(waiter.id) == true
        }
    }

    // MARK: The shell's queries

    // They change nothing, but are `mutating`: any other method of a class's property is called on a copy of the whole
    // state.

    /// Whether `worker` runs `job`: another worker's product is not this one's to seal.
    package mutating func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        supervision.isRunning(job, on: worker)
    }

    /// Whether the broker has condemned a worker, so that its reports do not count any more.
    package mutating func isCondemned(_ worker: WorkerID) -> Bool { supervision.isCondemned(worker) }
}

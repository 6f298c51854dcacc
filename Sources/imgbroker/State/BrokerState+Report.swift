import IPCProtocol
import SystemValues
import WorkerProtocol

// What the broker says of itself, and what must always hold.
extension BrokerState {
    var hello: HelloReply {
        HelloReply(
            server: "imgbroker/\(ProductVersion.current)", formats: ImageFormat.decoded.map(\.rawValue),
            limits: [
                "maxFrameBytes": Frame.maximumLength, "maxPixels": limits.maxPixels,
                "maxSourcePixels": limits.maxSourcePixels, "maxDownloadBytes": limits.maxDownloadBytes,
                "maxInlineBytes": limits.maxInlineBytes, "maxPendingRequests": limits.maxPendingRequests,
                "maxLeasedBytes": limits.maxLeasedBytes,
            ])
    }

    /// All figures but those that only the shell can see.
    var report: StatsReport {
        var report = StatsReport()
        counters.fill(&report)
        report[.uptimeSeconds] = now.microseconds(since: startedAt) / 1_000_000
        report[.workers] = decodePool.ready
        report[.fetchers] = fetchPool.ready
        report[.workerRestarts] = fetchPool.restarts + decodePool.restarts + cachePool.restarts
        report[.clients] = clients.count
        report[.queued] = lookupQueue.count + fetchQueue.count + suspectQueue.count + decodeQueue.count
        report[.running] = cachePool.runningJobs + fetchPool.runningJobs + decodePool.runningJobs
        report[.blacklistedUrls] = failedList.count(at: now)
        report[.memoryBytes] = index.residentBytes
        report[.memoryLimitBytes] = index.limit
        report[.memoryEntries] = index.entries
        report[.leasedBytes] = index.heldBytes
        report[.evictedLeasedBytes] = index.evictedBytes
        report[.reservedBytes] = index.reservedBytes
        report[.evictions] = index.evictions
        report[.diskBytes] = disk.bytes
        report[.diskEntries] = disk.entries
        report[.diskLimitBytes] = limits.usesDisk ? limits.diskBytes : 0
        report.sandbox = sandbox.level
        report.diskState = disk.state.rawValue
        return report
    }

    /// The first rule that does not hold; nil when all do. The slow ones walk over every table.
    func brokenInvariant(fast: Bool = false) -> String? {
        let outcomes = StatsReport.Figure.outcomes.reduce(0) { $0 + (counters.outcomes[$1] ?? 0) }
        if outcomes + waiters.values.count(where: { $0.purpose == .get }) != counters.requests {
            return "a get without exactly one outcome"
        }
        if fast { return nil }

        if let broken = index.brokenInvariant() { return "memory index: \(broken)" }
        if let broken = brokenBound() { return broken }
        for waiter in waiters.values {
            switch waiter.purpose {
            case .get where clients[waiter.client]?.pending[waiter.request.id] != waiter.id: return "a waiter of nobody"
            case .prefetch(let id) where prefetches[id]?.running.contains(waiter.id) != true:
                return "a waiter of no prefetch"
            case .store(let request) where clients[waiter.client]?.errands.contains(request.id) != true:
                return "bytes of nobody"
            default: break
            }
            switch waiter.stage {
            case .lookingUp(let job) where lookups[job]?.waiters.contains(waiter.id) == true: continue
            case .fetching(let job) where fetches[job]?.waiters.contains(waiter.id) == true: continue
            case .decoding(let job) where decodes[job]?.waiters.contains(waiter.id) == true: continue
            default: return "a waiter without a flight"
            }
        }
        let inFlight =
            lookups.values.map(\.waiters.count) + fetches.values.map(\.waiters.count)
            + decodes.values.map(\.waiters.count)
        if inFlight.reduce(0, +) != waiters.count { return "a flight with waiters that are gone" }
        if lookups.values.contains(where: \.waiters.isEmpty) { return "a look that nobody waits for" }
        if fetches.values.contains(where: \.waiters.isEmpty) { return "a download that nobody waits for" }
        if decodes.values.contains(where: { $0.waiters.isEmpty && $0.worker == nil }) {
            return "a queued decoding that nobody waits for"
        }
        if lookupByKey.count != lookups.count || fetchByKey.count != fetches.count
            || decodeByVariant.count != decodes.count
        {
            return "two flights of one key"
        }

        for (pool, running) in [
            (
                fetchPool,
                fetches.merging(stopping) { $1 }.filter { $0.value.worker != nil }.mapValues { $0.worker }
            ),
            (
                decodePool,
                decodes.filter { $0.value.worker != nil }.mapValues { $0.worker }
                    .merging(partialFlights.mapValues { $0.worker }) { $1 }
            ),
        ] {
            if pool.runningJobs != running.count { return "busy workers are not the running jobs" }
            if running.contains(where: { pool.workers[$0.value!]?.jobs.contains($0.key) != true }) {
                return "a job that runs nowhere"
            }
            if pool.workers.values.contains(where: { $0.jobs.count > pool.capacity }) {
                return "a worker with too many jobs"
            }
            if pool.staying > pool.target { return "too many workers" }
            if pool.workers.values.count(where: { $0.canWork && !$0.isTaken && !$0.jobs.isEmpty }) > pool.size {
                return "a spare at work"
            }
        }
        if fetchQueue.count + suspectQueue.count
            != fetches.values.count(where: { $0.worker == nil && $0.retryAt == nil })
        {
            return "queue of downloads"
        }
        if lookupQueue.count != lookups.values.count(where: { $0.worker == nil }) { return "queue of looks" }
        let parked = decodes.filter { $0.value.plan != nil && $0.value.reserved == 0 }
        if Set(parked.keys) != Set(parkedDecodes) { return "decodings that wait for room" }
        if cachePool.runningJobs != errands.count + lookups.values.count(where: { $0.worker != nil }) {
            return "busy cache is not its running jobs"
        }
        if decodeQueue.count != decodes.values.count(where: { $0.worker == nil }) { return "queue of decodings" }

        let reserved =
            fetches.values.reduce(0) { $0 + $1.received } + stopping.values.reduce(0) { $0 + $1.received }
            + partials.values.reduce(0) { $0 + $1.received } + decodes.values.reduce(0) { $0 + $1.reserved }
            + partialFlights.values.reduce(0) { $0 + $1.reserved }
        if reserved != index.reservedBytes { return "reserved bytes" }
        if Set(partialFlights.values.map(\.fetch)).count != partialFlights.count {
            return "two partial decodings of one download"
        }
        if fetches.values.contains(where: { $0.shown.job.map { partialFlights[$0] == nil } ?? false }) {
            return "a partial decoding that is gone"
        }
        if decodes.values.reduce(0, { $0 + $1.bodyBytes }) != decodingBytes { return "bytes of decodings" }
        var holders = leases.holdings
        holders.merge(sendings.holdings, uniquingKeysWith: +)
        for case .keep(let buffer, _, _) in errands.values { holders[buffer, default: 0] += 1 }
        for body in fetches.values.compactMap(\.revalidatedBody) { holders[body, default: 0] += 1 }
        for flight in decodes.values { holders[flight.body, default: 0] += 1 }
        if index.buffers.contains(where: { $0.holders != holders[$0.key] ?? 0 }) { return "holders of a buffer" }
        return nil
    }
}

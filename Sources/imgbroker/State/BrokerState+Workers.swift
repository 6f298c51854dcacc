import IPCProtocol
import SystemValues
import WorkerProtocol

// Workers: starting them, giving them jobs, replacing those that are gone.
extension BrokerState {
    private static let pools = [\BrokerState.fetchPool, \.decodePool, \.cachePool]

    /// Starts the workers that are missing and may be started now.
    mutating func startWorkers() {
        if isDraining, waiters.isEmpty { return }
        // Asked after every event, so not by way of key paths, which copy the pool.
        guard fetchPool.mayStart(at: now) || decodePool.mayStart(at: now) || cachePool.mayStart(at: now) else { return }
        for pool in Self.pools {
            while self[keyPath: pool].mayStart(at: now) {
                let worker = newWorkerID()
                self[keyPath: pool].started(worker, at: now)
                actions.append(.startWorker(self[keyPath: pool].kind, worker))
                remind(.workerStart(worker), in: limits.workerStartDeadlineMs)
            }
            remindOfStart(in: pool)
        }
    }

    /// Whatever is missing and may not be started now is started when it may.
    private mutating func remindOfStart(in pool: WritableKeyPath<BrokerState, WorkerPool>) {
        if let at = self[keyPath: pool].nextStart, at > now { reminders.add(.restart, at: at) }
    }

    /// Originals that wait for a decoder cannot be evicted: while they fill half of the memory, none is fetched, neither
    /// from the network nor from disk. Each decoding that ends makes room.
    private var hasRoomForDownloads: Bool {
        if index.reservedBytes >= limits.memoryBytes / 2, fetchPool.runningJobs > 0 {
            // Given bytes are there already, and looking at them frees them.
            let given = fetches.values.reduce(0) { $1.isGiven ? $0 + $1.received : $0 }
            if index.reservedBytes - given >= limits.memoryBytes / 2 { return false }
        }
        return decodes.isEmpty || decodingBytes < limits.memoryBytes / 2 && decodes.count < limits.memoryEntries / 2
    }

    mutating func assignJobs() {
        startErrands()
        while !lookupQueue.isEmpty, hasRoomForDownloads, let worker = cachePool.available, let job = lookupQueue.pop() {
            startLookup(job, on: worker)
        }
        // One at a time, on a spare where there is one: nobody else waits for them.
        while !isSuspended, !suspectQueue.isEmpty, hasRoomForDownloads, !fetchPool.hasTaken,
            let worker = fetchPool.freshest, let job = suspectQueue.pop()
        {
            startFetch(job, on: worker)
        }
        while !isSuspended, !fetchQueue.isEmpty, hasRoomForDownloads, let worker = fetchPool.available,
            let job = fetchQueue.pop()
        {
            startFetch(job, on: worker)
        }
        // Nobody waits for the next worker, which may be long in coming.
        if !decodeQueue.isEmpty, decodePool.isBroken(at: now) {
            while let job = decodeQueue.pop() { _ = refuseQueued(job) }
        }
        while !decodeQueue.isEmpty, let worker = decodePool.available, let job = decodeQueue.pop() {
            let isRetry = decodes[job]?.crashes ?? 0 > 0
            startDecode(job, on: isRetry ? decodePool.freshest ?? worker : worker)
        }
    }

    mutating func workerReady(_ worker: WorkerID, _ sandbox: SandboxReport?, build: String?) {
        guard let pool = pool(of: worker), let entry = self[keyPath: pool].workers[worker], !entry.isDying else {
            return
        }
        if entry.isReady { return workerMisbehaved(worker, "it said twice that it is ready") }
        let kind = self[keyPath: pool].kind
        let sandbox = sandbox ?? SandboxReport()
        sandboxes[kind] = sandbox
        guard sandbox.isEnough || limits.allowsUnsandboxed else {
            actions.append(
                .log(
                    .warning(
                        """
                        a \(kind.rawValue) worker is refused, as what confines it (\(sandbox.level)) is not enough: that \
                        takes seccomp and Landlock, of Linux 5.13 or newer; --allow-unsandboxed does without
                        """)))
            return end(worker, of: pool, .unconfined, "what confines it (\(sandbox.level)) is not enough")
        }
        if kind == .decode, let build { decoderBuild = build }
        self[keyPath: pool].becameReady(worker)
    }

    /// What confines all workers: the weakest of the kinds. Without a disk tier there are two of them.
    var sandbox: SandboxReport {
        guard let fetch = sandboxes[.fetch], let decode = sandboxes[.decode] else { return SandboxReport() }
        let both = fetch.weaker(decode)
        return sandboxes[.cache].map(both.weaker) ?? both
    }

    /// No more jobs for a worker that hears nothing any more; what it had is dealt with when its end is known.
    mutating func workerHungUp(_ worker: WorkerID) {
        for pool in Self.pools { self[keyPath: pool].hungUp(worker) }
        remind(.workerEnd(worker), in: limits.workerEndDeadlineMs)
    }

    /// No more jobs for a worker that is ending; the one that it was about to have goes to another.
    mutating func workerEnding(_ worker: WorkerID, _ job: JobID) {
        guard let pool = pool(of: worker), self[keyPath: pool].isRunning(job, on: worker) else { return }
        self[keyPath: pool].foundEnding(worker, at: now)
        workerHungUp(worker)
        if self[keyPath: pool].kind == .fetch {
            fetchNotBegun(job)
        } else {
            self[keyPath: pool].unassign(job, from: worker)
            decodeWorkerEnded([job], .outside)
        }
    }

    /// Ends a worker that has said what it must not; its jobs are dealt with when it is gone.
    mutating func workerMisbehaved(_ worker: WorkerID, _ detail: String) {
        guard let pool = pool(of: worker) else { return }
        end(worker, of: pool, .protocol, detail)
    }

    mutating func workerExited(_ worker: WorkerID, _ exit: WorkerExit) {
        guard let pool = pool(of: worker), let entry = self[keyPath: pool].workers[worker] else { return }
        let kind = self[keyPath: pool].kind
        let death = WorkerDeath(
            exit, sentence: entry.sentence, wasReady: entry.isReady,
            memoryLimit: kind == .decode ? limits.workerMemoryBytes : .max)
        var wasLetGo = false
        if case .ended(.status(0), _) = exit {
            // The cache process leaves when it can do nothing more in its sandbox, as its directory was removed, say.
            // It does so seldom: one that comes and goes has failed.
            let hasLived = entry.startedAt.adding(milliseconds: 1000) <= now
            if kind == .cache, entry.isReady, hasLived, entry.sentence == nil { self[keyPath: pool].retire(worker) }
            wasLetGo = self[keyPath: pool].workers[worker]?.isRetiring == true
        }
        // One origin's poison is not held against the pool for longer than it can go on.
        let origins = entry.jobs.flatMap { decodes[$0]?.origins ?? partialFlights[$0]?.origins ?? [] }
        let isForgiven = origins.contains(where: isOverBudget)
        self[keyPath: pool].ended(worker, countsAsFailure: death.cause.isOwnMaking && !isForgiven, at: now)
        let pid = pids.removeValue(forKey: worker)
        tell(BrokerEvent(.worker, pid: pid, reason: wasLetGo ? "let go" : death.reason), uids: [])
        if !wasLetGo {
            counters.workerDeaths[death.cause, default: 0] += 1
            if !isDraining { actions.append(.log(.warning("a \(kind.rawValue) worker is gone: \(death.reason)"))) }
        }
        switch kind {
        case .fetch: fetchWorkerEnded(entry.jobs, ownMaking: death.cause.isOwnMaking)
        case .decode:
            // Who made it end may have learnt where things are in its memory. Others are not to be laid out like it.
            let wasTaken = if case .ended(.signal(SignalNumber.kill), _) = exit { entry.sentence == nil } else { false }
            if death.cause.isOwnMaking, entry.isReady, !wasLetGo, !wasTaken, !isDraining {
                actions.append(.renewForkServer)
            }
            decodeWorkerEnded(entry.jobs, death.cause)
        case .cache: cacheWorkerEnded(entry.jobs, ownMaking: death.cause.isOwnMaking)
        }
        remindOfStart(in: pool)
    }

    /// Ends workers that have served long enough and have nothing left to do.
    mutating func retireWorkers() {
        guard fetchPool.hasRetiring || decodePool.hasRetiring || cachePool.hasRetiring else { return }
        for pool in Self.pools {
            for worker in self[keyPath: pool].finished {
                self[keyPath: pool].hungUp(worker)
                actions.append(.retireWorker(worker))
                remind(.workerEnd(worker), in: limits.workerEndDeadlineMs)
            }
        }
    }

    mutating func startTimePassed(_ worker: WorkerID) {
        guard let pool = pool(of: worker), self[keyPath: pool].workers[worker]?.isReady == false else { return }
        end(worker, of: pool, .notStarted, "it was not ready within \(limits.workerStartDeadlineMs) ms")
    }

    /// A worker lives on without its socket.
    mutating func endTimePassed(_ worker: WorkerID) {
        guard let pool = pool(of: worker) else { return }
        end(worker, of: pool, .deadline, "it did not end with its socket")
    }

    /// Ends a worker; its jobs are dealt with when it is gone.
    mutating func end(
        _ worker: WorkerID, of pool: WritableKeyPath<BrokerState, WorkerPool>, _ cause: DeathCause, _ detail: String
    ) {
        self[keyPath: pool].condemn(worker, WorkerPool.Sentence(cause: cause, detail: detail))
        actions.append(.killWorker(worker))
    }

    /// Whether the broker is ending a worker.
    func isEnding(_ worker: WorkerID) -> Bool {
        pool(of: worker).map { self[keyPath: $0].workers[worker]?.isDying == true } ?? false
    }

    private func pool(of worker: WorkerID) -> WritableKeyPath<BrokerState, WorkerPool>? {
        Self.pools.first { self[keyPath: $0].workers[worker] != nil }
    }
}

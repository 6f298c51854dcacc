import IPCProtocol
import LinuxSystem

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
        }
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
        while !isSuspended, !fetchQueue.isEmpty, hasRoomForDownloads, let worker = fetchPool.available,
            let job = fetchQueue.pop()
        {
            startFetch(job, on: worker)
        }
        while !decodeQueue.isEmpty, let worker = decodePool.available, let job = decodeQueue.pop() {
            startDecode(job, on: worker)
        }
    }

    mutating func workerReady(_ worker: WorkerID, _ sandbox: SandboxReport?) {
        guard let pool = Self.pools.first(where: { self[keyPath: $0].workers[worker] != nil }) else { return }
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
            return kill(worker, of: pool)
        }
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

    mutating func workerExited(_ worker: WorkerID, _ exit: WorkerExit) {
        guard let pool = Self.pools.first(where: { self[keyPath: $0].workers[worker] != nil }) else { return }
        let wasReady = self[keyPath: pool].workers[worker]?.isReady == true
        let wasEndedByUs = self[keyPath: pool].workers[worker]?.isDying == true
        let ownMaking: Bool
        let reason: String
        switch exit {
        case .crashed(let text): (ownMaking, reason) = (true, text)
        case .notStarted(let text): (ownMaking, reason) = (true, text)
        case .misbehaved(let text): (ownMaking, reason) = (true, text)
        // Ended by us for its own fault, or before it was ready: then there is something wrong with it.
        case .killed(let text): (ownMaking, reason) = (wasEndedByUs || !wasReady, text)
        case .left: (ownMaking, reason) = (!wasReady, "it left to be started anew")
        }
        guard let ended = self[keyPath: pool].ended(worker, ownMaking: ownMaking, at: now) else { return }
        let kind = self[keyPath: pool].kind
        let pid = pids.removeValue(forKey: worker)
        tell(BrokerEvent(.worker, pid: pid, reason: reason), uids: [])
        if !isDraining, !ended.isRetiring, exit != .left {
            actions.append(.log(.warning("a \(kind.rawValue) worker is gone: \(reason)")))
        }
        switch kind {
        case .fetch: fetchWorkerEnded(ended.jobs, ownMaking: ownMaking)
        case .decode: decodeWorkerEnded(ended.jobs, ownMaking: ownMaking)
        case .cache: cacheWorkerEnded(ended.jobs)
        }
        if let at = self[keyPath: pool].nextStart, at > now { reminders.add(.restart, at: at) }
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
        for pool in Self.pools {
            if self[keyPath: pool].workers[worker]?.isReady == false { kill(worker, of: pool) }
        }
    }

    /// Ends a worker; its jobs are dealt with when it is gone.
    mutating func kill(_ worker: WorkerID, of pool: WritableKeyPath<BrokerState, WorkerPool>) {
        self[keyPath: pool].markDying(worker)
        actions.append(.killWorker(worker))
    }
}

import IPCProtocol
import LinuxSystem

// Workers: starting them, giving them jobs, replacing those that are gone.
extension BrokerState {
    /// Starts at most one worker of each kind: a loop turn is short, and the next one is near.
    mutating func startWorkers() {
        if isDraining { return }
        for pool in [\BrokerState.fetchPool, \.decodePool] {
            while self[keyPath: pool].mayStart(at: now) {
                let worker = newWorkerID()
                self[keyPath: pool].started(worker, at: now)
                actions.append(.startWorker(self[keyPath: pool].kind, worker))
                remind(.workerStart(worker), in: limits.workerStartDeadlineMs)
            }
        }
    }

    /// Originals that wait for a decoder cannot be evicted: while they fill half of the memory, no download begins. Each
    /// decoding that ends makes room.
    private var hasRoomForDownloads: Bool {
        decodes.isEmpty || decodingBytes < limits.memoryBytes / 2 && decodes.count < limits.memoryEntries / 2
    }

    mutating func assignJobs() {
        while !fetchQueue.isEmpty, hasRoomForDownloads, let worker = fetchPool.available, let job = fetchQueue.pop() {
            startFetch(job, on: worker)
        }
        while !decodeQueue.isEmpty, let worker = decodePool.available, let job = decodeQueue.pop() {
            startDecode(job, on: worker)
        }
    }

    mutating func workerReady(_ worker: WorkerID) {
        fetchPool.becameReady(worker)
        decodePool.becameReady(worker)
    }

    /// No more jobs for a worker that hears nothing any more; what it had is dealt with when its end is known.
    mutating func workerHungUp(_ worker: WorkerID) {
        fetchPool.hungUp(worker)
        decodePool.hungUp(worker)
        remind(.workerEnd(worker), in: limits.workerEndDeadlineMs)
    }

    mutating func workerExited(_ worker: WorkerID, _ exit: WorkerExit) {
        let kind = fetchPool.workers[worker] != nil ? WorkerKind.fetch : .decode
        let pool = kind == .fetch ? \BrokerState.fetchPool : \.decodePool
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
        }
        guard let ended = self[keyPath: pool].ended(worker, ownMaking: ownMaking, at: now) else { return }
        if !isDraining { actions.append(.log(.warning("a \(kind.rawValue) worker is gone: \(reason)"))) }
        switch kind {
        case .fetch: fetchWorkerEnded(ended.jobs, ownMaking: ownMaking)
        case .decode: decodeWorkerEnded(ended.jobs, ownMaking: ownMaking)
        }
        if let at = self[keyPath: pool].nextStart, at > now { reminders.add(.restart, at: at) }
    }

    mutating func startTimePassed(_ worker: WorkerID) {
        for pool in [\BrokerState.fetchPool, \.decodePool] {
            if self[keyPath: pool].workers[worker]?.isReady == false { kill(worker, of: pool) }
        }
    }

    /// Ends a worker; its jobs are dealt with when it is gone.
    mutating func kill(_ worker: WorkerID, of pool: WritableKeyPath<BrokerState, WorkerPool>) {
        self[keyPath: pool].markDying(worker)
        actions.append(.killWorker(worker))
    }
}

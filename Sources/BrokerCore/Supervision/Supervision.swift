import IPCProtocol
import SystemValues
import WorkerProtocol

/// Supervises the worker processes: which exist, which run what, when the next may start, and why one exited.
///
/// It owns one pool for each kind of worker. It never touches a job itself: it returns the jobs of a worker that
/// exited, and the caller gives them to the machine that they belong to.
package struct Supervision {
    /// The consequence of a worker's `ready`.
    enum Readiness: Equatable {
        case accepted
        /// The worker is unknown or condemned.
        case ignored
        /// The worker said it twice.
        case repeated
        /// The worker's program has another version than the broker; it is condemned. The text is for the log.
        case wrongVersion(String)
        /// The worker's sandbox is too weak; it is condemned. The text is for the log.
        case refused(String)
    }

    /// A worker that exited.
    struct Exit {
        let kind: WorkerKind
        let jobs: Set<JobID>
        let death: WorkerDeath
        let pid: Int?
        /// Whether the worker was retired, and so left as it was meant to.
        let wasRetired: Bool
        /// Whether the fork server must be respawned, so that the next decoder has another memory layout.
        let respawnsForkServer: Bool
    }

    /// By `WorkerKind.place`. Those of families without jobs are empty.
    private var pools: [WorkerPool]
    /// The sandbox of the latest worker of each kind that became ready.
    private var sandboxes: [WorkerKind: SandboxReport] = [:]
    private var workerIDs = IdentifierSource<WorkerProcessKind>()
    private let allowsUnsandboxed: Bool
    private let decoderMemoryBytes: Int

    init(limits: BrokerLimits) {
        pools = WorkerKind.all.map { kind in
            switch kind {
            case .fetch:
                WorkerPool(
                    size: limits.fetchers, capacity: limits.transfersPerFetcher, jobsOfALife: limits.jobsOfAWorker)
            case .decode:
                WorkerPool(
                    size: limits.workers, capacity: 1, briefCapacity: limits.briefJobs,
                    jobsOfALife: limits.jobsOfAWorker)
            case .cache: WorkerPool(size: limits.usesDisk ? 1 : 0, spares: 0, capacity: .max)
            case .tier: WorkerPool(size: limits.usesSharedTier ? 1 : 0, spares: 0, capacity: .max)
            case .loader:
                WorkerPool(
                    size: limits.workersOfFamily, spares: 0, capacity: 1, jobsOfALife: limits.jobsOfAWorker,
                    isOnDemand: true)
            }
        }
        allowsUnsandboxed = limits.allowsUnsandboxed
        decoderMemoryBytes = limits.workerMemoryBytes
    }

    private func place(of worker: WorkerID) -> Int? {
        for place in pools.indices where pools[place].contains(worker) { return place }
        return nil
    }

    /// Changes the pool of a worker; nil for one that is gone.
    @discardableResult
    private mutating func change<Result>(_ worker: WorkerID, _ change: (inout WorkerPool) -> Result) -> Result? {
        place(of: worker).map { change(&pools[$0]) }
    }

    func kind(of worker: WorkerID) -> WorkerKind? { place(of: worker).map { WorkerKind.all[$0] } }
    func contains(_ worker: WorkerID) -> Bool { place(of: worker) != nil }
    /// A worker; nil for one that is gone.
    subscript(worker: WorkerID) -> WorkerPool.Worker? { place(of: worker).flatMap { pools[$0].worker(worker) } }

    /// The workers of one kind.
    subscript(kind: WorkerKind) -> WorkerPool { @inline(__always) _read { yield pools[kind.place] } }

    // MARK: Jobs

    /// Gives a decode worker with brief jobs no more until those have ended. Returns whether it has several.
    mutating func endBrief(_ worker: WorkerID) -> Bool {
        change(worker) { $0.endBrief(worker) }
        return hasSeveralBriefJobs(worker)
    }

    /// Whether a decode worker has several jobs, so that it is unknown which one it is at.
    func hasSeveralBriefJobs(_ worker: WorkerID) -> Bool { self[.decode].worker(worker)?.jobs.count ?? 0 > 1 }

    /// Whether `worker` runs `job` and is not condemned. Reports of any other worker about the job do not count.
    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        place(of: worker).map { pools[$0].isRunning(job, on: worker) } ?? false
    }

    /// Retires a worker with an exclusive job, so that the next one can run; false when too many were.
    mutating func replaceExclusive(_ worker: WorkerID) -> Bool {
        change(worker) { $0.replaceExclusive(worker) } ?? false
    }

    var runningLoaderJobs: Int { WorkerKind.loaders.reduce(0) { $0 + self[$1].runningJobs } }

    /// The families other than the plain one that have workers, or want some.
    var neededFamilies: [CodecFamily] {
        pools.indices.compactMap {
            if case .loader(let family) = WorkerKind.all[$0], pools[$0].isNeeded { family } else { nil }
        }
    }

    /// Wants workers of a family for jobs that wait; without any, no further ones.
    mutating func want(_ family: CodecFamily, for jobs: Int) { pools[WorkerKind.loader(family).place].want(jobs) }

    mutating func retireLoaders(except families: Set<CodecFamily>) {
        for case .loader(let family) in WorkerKind.loaders where !families.contains(family) {
            _ = pools[WorkerKind.loader(family).place].retireAll()
        }
    }

    /// Retires a worker without a job, unless it has ended others than `ended` jobs.
    mutating func retireIdle(_ worker: WorkerID, ended: Int) {
        guard let idle = self[worker], idle.isIdle, idle.jobsEnded == ended else { return }
        change(worker) { $0.retireIdle(worker) }
    }

    // MARK: Rest

    /// Lets the download workers go until there is a download, if all could work and none has one. Returns whether it
    /// did.
    mutating func restFetchers() -> Bool { pools[WorkerKind.fetch.place].rest() }

    /// Has download workers started for a download if they rest. Returns whether they did.
    mutating func wakeFetchers(at now: Instant) -> Bool { pools[WorkerKind.fetch.place].wake(at: now) }

    /// Gives a job to a worker: `exclusively` without others until it ends, or with others of the user `brief`.
    mutating func assign(_ job: JobID, to worker: WorkerID, exclusively: Bool = false, brief: JobOwner.User? = nil) {
        change(worker) { $0.assign(job, to: worker, exclusively: exclusively, brief: brief) }
    }

    /// Takes a job from a worker. A worker that has run its share of jobs is retired.
    mutating func unassign(_ job: JobID, from worker: WorkerID) {
        change(worker) {
            $0.unassign(job, from: worker)
            $0.retireIfWorn(worker)
        }
    }

    // MARK: Health

    /// Whether too many decoders of a family failed within a minute for no image's sake, so that new images are
    /// refused.
    func areDecodersBroken(_ family: CodecFamily = .plain, at now: Instant) -> Bool {
        self[.decoder(of: family)].isBroken(at: now)
    }

    func isCondemned(_ worker: WorkerID) -> Bool {
        place(of: worker).map { pools[$0].isCondemned(worker) } ?? false
    }

    var restarts: Int { pools.reduce(0) { $0 + $1.restarts } }

    /// The sandbox of all workers: the weakest of the kinds'. The kinds for downloads and plain decoding always exist.
    var sandbox: SandboxReport {
        guard let fetch = sandboxes[.fetch], let decode = sandboxes[.decode] else { return SandboxReport() }
        let others = sandboxes.filter { $0.key != .fetch && $0.key != .decode }.values
        return others.reduce(fetch.weaker(decode)) { $0.weaker($1) }
    }

    // MARK: Starts

    mutating func startMissing(at now: Instant) -> [(kind: WorkerKind, worker: WorkerID)] {
        var started: [(WorkerKind, WorkerID)] = []
        for place in pools.indices {
            while pools[place].mayStart(at: now) {
                let worker = workerIDs.next()
                pools[place].started(worker, at: now)
                started.append((WorkerKind.all[place], worker))
            }
        }
        return started
    }

    mutating func notePID(_ pid: Int, of worker: WorkerID) { change(worker) { $0.started(worker, as: pid) } }

    mutating func becameReady(
        _ worker: WorkerID, _ sandbox: SandboxReport?, version: String? = ProductVersion.current
    ) -> Readiness {
        guard let kind = kind(of: worker), let known = self[worker], !known.isCondemned else { return .ignored }
        if known.isReady { return .repeated }
        guard version == ProductVersion.current else {
            // Others may have chosen the text.
            let shown = version.map { $0.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == ".") }.prefix(20) }
            return .wrongVersion(
                """
                its program has version \(shown ?? "unknown") and the broker has \(ProductVersion.current): install all \
                programs of one version, and restart the broker
                """)
        }
        let sandbox = sandbox ?? SandboxReport()
        sandboxes[kind] = sandbox
        guard sandbox.isEnough || allowsUnsandboxed else {
            return .refused(
                """
                a \(kind.name) worker is refused, as its sandbox (\(sandbox.level)) is too weak: seccomp and \
                Landlock are required, of Linux 5.13 or newer; --allow-unsandboxed does without
                """)
        }
        change(worker) { $0.becameReady(worker) }
        return .accepted
    }

    var all: [(kind: WorkerKind, worker: WorkerPool.Worker)] {
        WorkerKind.all.flatMap { kind in self[kind].workers.map { (kind, $0) } }
    }

    // MARK: Ends

    /// Gives a worker no more jobs, as its socket has ended. Its jobs are returned by `exited`.
    mutating func hungUp(_ worker: WorkerID) { change(worker) { $0.hungUp(worker) } }

    /// Takes `job` from a worker that was found exiting. Returns the worker's kind; nil if it has not the job.
    mutating func foundExiting(_ worker: WorkerID, before job: JobID, at now: Instant) -> WorkerKind? {
        guard isRunning(job, on: worker) else { return nil }
        change(worker) {
            $0.foundExiting(worker, at: now)
            $0.hungUp(worker)
        }
        return kind(of: worker)
    }

    /// Condemns a worker, which the caller kills: the first cause counts. Returns false for one that is gone.
    mutating func condemn(_ worker: WorkerID, _ cause: DeathCause, _ detail: String, isForgiven: Bool = false) -> Bool {
        let condemnation = WorkerPool.Condemnation(cause: cause, detail: detail, isForgiven: isForgiven)
        return change(worker) { $0.condemn(worker, condemnation) } != nil
    }

    /// Removes a worker that exited. `isForgiven` and `isOfImage`, an image's fault, keep its failure from counting
    /// against the pool; `isDraining` keeps the fork server as it is.
    mutating func exited(
        _ worker: WorkerID, _ exit: WorkerExit, isForgiven: Bool, isOfImage: Bool = false, isDraining: Bool,
        at now: Instant
    ) -> Exit? {
        guard let kind = kind(of: worker), let entry = self[worker] else { return nil }
        let death = WorkerDeath(
            exit, condemnation: entry.condemnation, wasReady: entry.isReady,
            memoryLimit: kind.family != nil ? decoderMemoryBytes : .max)
        var wasRetired = false
        if case .ended(.status(0), _) = exit {
            // The cache process exits when it can do nothing more in its sandbox, for example because its directory was
            // removed, and that of the shared tier when it does not know an address. One that exits within a second of
            // its start has failed.
            let hasLived = entry.startedAt.adding(milliseconds: 1000) <= now
            wasRetired =
                entry.isRetiring
                || (kind == .cache || kind == .tier) && entry.isReady && hasLived && entry.condemnation == nil
        }
        if wasRetired { pools[kind.place].retire(worker) }
        let isForgiven = isForgiven || entry.condemnation?.isForgiven == true
        // A client may choose a form that takes too long; that says nothing about the pool.
        let fault: WorkerPool.Fault =
            !death.cause.isOwnMaking || isForgiven ? .none : isOfImage || death.cause == .cpu ? .image : .pool
        pools[kind.place].ended(worker, fault, at: now)
        // An attacker may have learnt the memory layout of a decoder that crashed. The next ones must not share it.
        let wasKilledOutside =
            if case .ended(.signal(SignalNumber.kill), _) = exit { entry.condemnation == nil } else { false }
        return Exit(
            kind: kind, jobs: entry.jobs, death: death, pid: entry.pid, wasRetired: wasRetired,
            respawnsForkServer: kind == .decode && death.cause.isOwnMaking && entry.isReady && !wasRetired
                && !wasKilledOutside && !isDraining && entry.condemnation?.isForgiven != true)
    }

    // MARK: Recycling

    /// Retires the download workers. Returns those that are to be killed, because too many are retiring.
    mutating func replaceFetchers() -> [WorkerID] { pools[WorkerKind.fetch.place].retireAll() }

    /// Notes a worker's own memory after a job. One that has grown too far is retired.
    mutating func measured(_ worker: WorkerID, residentBytes: Int) {
        change(worker) { $0.measured(worker, residentBytes: residentBytes) }
    }

    /// Takes the retired workers that have no job left; their sockets are to be closed.
    mutating func takeFinished() -> [WorkerID] {
        var finished: [WorkerID] = []
        for place in pools.indices where pools[place].hasRetiring {
            for worker in pools[place].finished {
                pools[place].hungUp(worker)
                finished.append(worker)
            }
        }
        return finished
    }

    /// `running` says which job the other machines believe to run on which worker.
    func brokenInvariant(running: [(kind: WorkerKind, jobs: [JobID: WorkerID])]) -> String? {
        for (kind, jobs) in running {
            let pool = self[kind]
            if pool.runningJobs != jobs.count { return "busy \(kind) workers are not the running jobs" }
            if jobs.contains(where: { pool.worker($1)?.jobs.contains($0) != true }) { return "a job without a worker" }
            if let broken = pool.brokenInvariant() { return "\(kind) workers: \(broken)" }
        }
        return nil
    }
}

/// A job on a worker for the report, with the image's origin or another text and its first waiter's user.
typealias RunningJob = (worker: WorkerID, startedAt: Instant, origin: String?, user: UInt32?)

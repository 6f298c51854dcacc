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

    private var fetch: WorkerPool
    private var decode: WorkerPool
    private var cache: WorkerPool
    private var tier: WorkerPool
    private var loaders: [CodecFamily: WorkerPool] = [:]
    /// The most workers of a family, and the jobs after which one is retired.
    private let (loaderSize, loaderLife): (Int, Int)
    /// The sandbox of the latest worker of each kind that became ready.
    private var sandboxes: [WorkerKind: SandboxReport] = [:]
    private var pids: [WorkerID: Int] = [:]
    private var workerIDs = IdentifierSource<WorkerProcessKind>()
    private let allowsUnsandboxed: Bool
    private let decoderMemoryBytes: Int

    init(limits: BrokerLimits) {
        fetch = WorkerPool(
            size: limits.fetchers, capacity: limits.transfersPerFetcher,
            jobsOfALife: limits.jobsOfAWorker)
        decode = WorkerPool(
            size: limits.workers, capacity: 1, briefCapacity: limits.briefJobs,
            jobsOfALife: limits.jobsOfAWorker)
        cache = WorkerPool(size: limits.usesDisk ? 1 : 0, spares: 0, capacity: .max)
        tier = WorkerPool(size: limits.usesSharedTier ? 1 : 0, spares: 0, capacity: .max)
        (loaderSize, loaderLife) = (limits.workersOfFamily, limits.jobsOfAWorker)
        allowsUnsandboxed = limits.allowsUnsandboxed
        decoderMemoryBytes = limits.workerMemoryBytes
    }

    private subscript(kind: WorkerKind) -> WorkerPool {
        _read {
            switch kind {
            case .fetch: yield fetch
            case .decode: yield decode
            case .cache: yield cache
            case .tier: yield tier
            case .loader(let family): yield loaders[family] ?? emptyLoader
            }
        }
        _modify {
            switch kind {
            case .fetch: yield &fetch
            case .decode: yield &decode
            case .cache: yield &cache
            case .tier: yield &tier
            case .loader(let family):
                let empty = emptyLoader
                yield &loaders[family, default: empty]
            }
        }
    }

    private var emptyLoader: WorkerPool {
        WorkerPool(size: loaderSize, spares: 0, capacity: 1, jobsOfALife: loaderLife, isOnDemand: true)
    }

    /// Reads a pool. The subscript may copy it, which matters where it is read at each event.
    private func ask<Answer>(_ kind: WorkerKind, _ question: (borrowing WorkerPool) -> Answer) -> Answer {
        switch kind {
        case .fetch: question(fetch)
        case .decode: question(decode)
        case .cache: question(cache)
        case .tier: question(tier)
        case .loader(let family): question(loaders[family] ?? emptyLoader)
        }
    }

    private func hasPool(where matches: (borrowing WorkerPool) -> Bool) -> Bool {
        matches(fetch) || matches(decode) || matches(cache) || matches(tier) || loaders.contains { matches($1) }
    }

    var kinds: [WorkerKind] {
        if loaders.isEmpty { return WorkerKind.permanent }
        return WorkerKind.permanent + CodecFamily.optional.filter { loaders[$0] != nil }.map { .loader($0) }
    }

    func kind(of worker: WorkerID) -> WorkerKind? {
        if fetch.contains(worker) { return .fetch }
        if decode.contains(worker) { return .decode }
        if cache.contains(worker) { return .cache }
        if tier.contains(worker) { return .tier }
        for (family, pool) in loaders where pool.contains(worker) { return .loader(family) }
        return nil
    }

    func contains(_ worker: WorkerID) -> Bool { kind(of: worker) != nil }
    /// A worker; nil for one that is gone.
    subscript(worker: WorkerID) -> WorkerPool.Worker? { kind(of: worker).flatMap { self[$0].worker(worker) } }

    // MARK: Jobs

    func available(_ kind: WorkerKind) -> WorkerID? { ask(kind) { $0.available } }

    func availableDecoder(forBriefJobOf user: JobOwner.User) -> WorkerID? { decode.available(forBriefJobOf: user) }

    /// Gives a decode worker with brief jobs no more until those have ended. Returns whether it has several.
    mutating func endBrief(_ worker: WorkerID) -> Bool {
        decode.endBrief(worker)
        return hasSeveralBriefJobs(worker)
    }

    /// Whether a decode worker has several jobs, so that it is unknown which one it is at.
    func hasSeveralBriefJobs(_ worker: WorkerID) -> Bool { decode.worker(worker)?.jobs.count ?? 0 > 1 }

    func freshest(_ kind: WorkerKind) -> WorkerID? { self[kind].freshest }

    /// Whether a worker of this kind runs a job that is to be its only one.
    func runsExclusively(_ kind: WorkerKind) -> Bool { ask(kind) { $0.hasExclusive } }

    /// Whether `worker` runs `job` and is not condemned. Reports of any other worker about the job do not count.
    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool { hasPool { $0.isRunning(job, on: worker) } }

    /// Retires a worker with an exclusive job, so that the next one can run; false when too many were.
    mutating func replaceExclusive(_ worker: WorkerID) -> Bool {
        kind(of: worker).map { self[$0].replaceExclusive(worker) } ?? false
    }

    func runningJobs(_ kind: WorkerKind) -> Int { self[kind].runningJobs }

    var runningLoaderJobs: Int { loaders.values.reduce(0) { $0 + $1.runningJobs } }

    var neededFamilies: some Sequence<CodecFamily> { loaders.keys }

    /// Wants workers of a family for jobs that wait; without any, no further ones.
    mutating func want(_ family: CodecFamily, for jobs: Int) { self[.loader(family)].want(jobs) }

    mutating func retireLoaders(except families: Set<CodecFamily>) {
        for family in loaders.keys where !families.contains(family) { _ = loaders[family]?.retireAll() }
    }

    /// Retires a worker without a job, unless it has ended others than `ended` jobs.
    mutating func retireIdle(_ worker: WorkerID, ended: Int) {
        guard let kind = kind(of: worker), let idle = self[worker], idle.isIdle, idle.jobsEnded == ended else { return }
        self[kind].retireIdle(worker)
    }

    // MARK: Rest

    /// The downloads that workers have ended so far, by success or not.
    var downloadsEnded: Int { fetch.jobsEnded }

    /// Lets the download workers go until there is a download, if all could work and none has one. Returns whether it
    /// did.
    mutating func restFetchers() -> Bool { fetch.rest() }

    /// Has download workers started for a download if they rest. Returns whether they did.
    mutating func wakeFetchers(at now: Instant) -> Bool { fetch.wake(at: now) }

    /// Gives a job to a worker: `exclusively` without others until it ends, or with others of the user `brief`.
    mutating func assign(_ job: JobID, to worker: WorkerID, exclusively: Bool = false, brief: JobOwner.User? = nil) {
        guard let kind = kind(of: worker) else { return }
        self[kind].assign(job, to: worker, exclusively: exclusively, brief: brief)
    }

    /// Takes a job from a worker. A worker that has run its share of jobs is retired.
    mutating func unassign(_ job: JobID, from worker: WorkerID) {
        guard let kind = kind(of: worker) else { return }
        self[kind].unassign(job, from: worker)
        self[kind].retireIfWorn(worker)
    }

    // MARK: Health

    /// Whether no worker of this kind works, and the last one failed by its own making.
    func isDown(_ kind: WorkerKind) -> Bool { ask(kind) { $0.isDown } }

    /// Whether too many decoders of a family failed within a minute for no image's sake, so that new images are
    /// refused.
    func areDecodersBroken(_ family: CodecFamily = .plain, at now: Instant) -> Bool {
        self[.decoder(of: family)].isBroken(at: now)
    }

    func isCondemned(_ worker: WorkerID) -> Bool { kind(of: worker).map { self[$0].isCondemned(worker) } ?? false }

    /// Workers of this kind that can work, spares aside.
    func ready(_ kind: WorkerKind) -> Int { self[kind].ready }

    var restarts: Int {
        loaders.values.reduce(fetch.restarts + decode.restarts + cache.restarts + tier.restarts) { $0 + $1.restarts }
    }

    /// The sandbox of all workers: the weakest of the kinds'. The kinds for downloads and plain decoding always exist.
    var sandbox: SandboxReport {
        guard let fetch = sandboxes[.fetch], let decode = sandboxes[.decode] else { return SandboxReport() }
        let others = sandboxes.filter { $0.key != .fetch && $0.key != .decode }.values
        return others.reduce(fetch.weaker(decode)) { $0.weaker($1) }
    }

    // MARK: Starts

    mutating func startMissing(at now: Instant) -> [(kind: WorkerKind, worker: WorkerID)] {
        guard hasPool(where: { $0.mayStart(at: now) }) else { return [] }
        var started: [(WorkerKind, WorkerID)] = []
        for kind in kinds {
            while self[kind].mayStart(at: now) {
                let worker = workerIDs.next()
                self[kind].started(worker, at: now)
                started.append((kind, worker))
            }
        }
        return started
    }

    /// When a missing worker of this kind may be started; nil when none is missing, or it may be at once.
    func nextStart(_ kind: WorkerKind, after now: Instant) -> Instant? {
        self[kind].nextStart.flatMap { $0 > now ? $0 : nil }
    }

    mutating func notePID(_ pid: Int, of worker: WorkerID) { pids[worker] = pid }

    mutating func becameReady(
        _ worker: WorkerID, _ sandbox: SandboxReport?, version: String? = ProductVersion.current
    ) -> Readiness {
        guard let kind = kind(of: worker), !self[kind].isCondemned(worker) else { return .ignored }
        if self[worker]?.isReady == true { return .repeated }
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
        self[kind].becameReady(worker)
        return .accepted
    }

    /// The workers of all kinds, with their process ids as far as they are known.
    var all: [(kind: WorkerKind, worker: WorkerPool.Worker, pid: Int?)] {
        kinds.flatMap { kind in self[kind].workers.map { (kind: kind, worker: $0, pid: pids[$0.id]) } }
    }

    // MARK: Ends

    /// Gives a worker no more jobs, as its socket has ended. Its jobs are returned by `exited`.
    mutating func hungUp(_ worker: WorkerID) {
        if let kind = kind(of: worker) { self[kind].hungUp(worker) }
    }

    /// Takes `job` from a worker that was found exiting. Returns the worker's kind; nil if it has not the job.
    mutating func foundExiting(_ worker: WorkerID, before job: JobID, at now: Instant) -> WorkerKind? {
        guard let kind = kind(of: worker), self[kind].isRunning(job, on: worker) else { return nil }
        self[kind].foundExiting(worker, at: now)
        self[kind].hungUp(worker)
        return kind
    }

    /// Condemns a worker, which the caller kills: the first cause counts. Returns false for one that is gone.
    mutating func condemn(_ worker: WorkerID, _ cause: DeathCause, _ detail: String, isForgiven: Bool = false) -> Bool {
        guard let kind = kind(of: worker) else { return false }
        let condemnation = WorkerPool.Condemnation(cause: cause, detail: detail, isForgiven: isForgiven)
        self[kind].condemn(worker, condemnation)
        return true
    }

    /// Removes a worker that exited. `isForgiven` and `isOfImage`, an image's fault, keep its failure from counting
    /// against the pool; `isDraining` keeps the fork server as it is.
    mutating func exited(
        _ worker: WorkerID, _ exit: WorkerExit, isForgiven: Bool, isOfImage: Bool = false, isDraining: Bool,
        at now: Instant
    ) -> Exit? {
        guard let kind = kind(of: worker), let entry = self[kind].worker(worker) else { return nil }
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
        if wasRetired { self[kind].retire(worker) }
        let isForgiven = isForgiven || entry.condemnation?.isForgiven == true
        // A client may choose a form that takes too long; that says nothing about the pool.
        let fault: WorkerPool.Fault =
            !death.cause.isOwnMaking || isForgiven ? .none : isOfImage || death.cause == .cpu ? .image : .pool
        self[kind].ended(worker, fault, at: now)
        // An attacker may have learnt the memory layout of a decoder that crashed. The next ones must not share it.
        let wasKilledOutside =
            if case .ended(.signal(SignalNumber.kill), _) = exit { entry.condemnation == nil } else { false }
        return Exit(
            kind: kind, jobs: entry.jobs, death: death, pid: pids.removeValue(forKey: worker), wasRetired: wasRetired,
            respawnsForkServer: kind == .decode && death.cause.isOwnMaking && entry.isReady && !wasRetired
                && !wasKilledOutside && !isDraining && entry.condemnation?.isForgiven != true)
    }

    // MARK: Recycling

    /// Retires the download workers. Returns those that are to be killed, because too many are retiring.
    mutating func replaceFetchers() -> [WorkerID] { fetch.retireAll() }

    /// Notes a worker's own memory after a job. One that has grown too far is retired.
    mutating func measured(_ worker: WorkerID, residentBytes: Int) {
        decode.measured(worker, residentBytes: residentBytes)
        fetch.measured(worker, residentBytes: residentBytes)
        for family in loaders.keys { loaders[family]?.measured(worker, residentBytes: residentBytes) }
    }

    /// Takes the retired workers that have no job left; their sockets are to be closed.
    mutating func takeFinished() -> [WorkerID] {
        guard hasPool(where: { $0.hasRetiring }) else { return [] }
        var finished: [WorkerID] = []
        for kind in kinds {
            for worker in self[kind].finished {
                self[kind].hungUp(worker)
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

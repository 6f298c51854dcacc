import IPCProtocol
import SystemValues
import WorkerProtocol

/// The workers of one kind: their states, their jobs, and when the next one may be started.
struct WorkerPool {
    /// Why the broker kills a worker.
    struct Condemnation {
        let cause: DeathCause
        /// For people.
        let detail: String
    }

    struct Worker {
        var isReady = false
        /// Whether its socket has ended.
        var hasHungUp = false
        /// Whether the kernel is ending its process.
        var isExiting = false
        /// Why it is being killed; its reports do not count any more.
        var condemnation: Condemnation?
        /// Whether it takes no more jobs, and exits after those it has.
        var isRetiring = false
        var jobsTaken = 0
        /// Its own memory when it was first measured, in bytes.
        var firstResidentBytes: Int?
        var jobs: Set<JobID> = []
        /// Whether its one job is to be its only one.
        var isExclusive = false
        let startedAt: Instant

        var isCondemned: Bool { condemnation != nil }
        var canWork: Bool { isReady && !hasHungUp && !isCondemned && !isRetiring }
    }

    let kind: WorkerKind
    /// The most workers that are busy at once.
    let size: Int
    /// The number of ready workers kept in addition, so that a lost one is replaced without waiting for a start.
    let spares: Int
    /// The most concurrent jobs of one worker.
    let capacity: Int

    private var workers: [WorkerID: Worker] = [:]
    /// Failures of the workers' own making without a healthy minute between them.
    private var failures = 0
    private var recentFailures: [Instant] = []
    private var lastFailure: Instant?
    private var notBefore: Instant?
    /// The same for starts that only add a spare: the request that lost its worker is served first, and a start takes a
    /// processor for milliseconds.
    private var noSpareBefore: Instant?
    /// Workers that were killed from outside before they were ready, since one last became ready.
    private var lostStarts = 0
    /// Workers started in place of others.
    private(set) var restarts = 0

    init(kind: WorkerKind, size: Int, spares: Int = 1, capacity: Int) {
        self.kind = kind
        self.size = size
        self.spares = size == 0 ? 0 : spares
        self.capacity = capacity
    }

    /// The number of `staying` workers wanted.
    var target: Int { size + spares }
    /// Workers that can work, spares aside.
    var ready: Int { min(size, workers.values.count(where: \.canWork)) }
    var runningJobs: Int { workers.values.reduce(0) { $0 + $1.jobs.count } }

    func contains(_ worker: WorkerID) -> Bool { workers[worker] != nil }
    func worker(_ worker: WorkerID) -> Worker? { workers[worker] }
    func isReady(_ worker: WorkerID) -> Bool { workers[worker]?.isReady == true }
    func isCondemned(_ worker: WorkerID) -> Bool { workers[worker]?.isCondemned == true }

    /// The worker for the next job: the busy one with the fewest jobs that can take one more or, while fewer are busy
    /// than may be, an idle one.
    var available: WorkerID? {
        let free = workers.filter { $0.value.canWork && !$0.value.isExclusive && $0.value.jobs.count < capacity }
        let mayWake = workers.values.count { $0.canWork && !$0.isExclusive && !$0.jobs.isEmpty } < size
        return free.filter { mayWake || !$0.value.jobs.isEmpty }
            .min { ($0.value.jobs.count, $0.key) < ($1.value.jobs.count, $1.key) }?.key
    }

    /// Whether a worker has a job that is to be its only one, and was not replaced for that.
    var hasExclusive: Bool { workers.values.contains { $0.isExclusive && !$0.isRetiring } }

    /// Retires a worker with an exclusive job; false when too many were, because each takes a process beside the others.
    mutating func replaceExclusive(_ worker: WorkerID) -> Bool {
        guard workers.values.count(where: { $0.isExclusive && $0.isRetiring }) < Self.mostReplaced else { return false }
        retire(worker)
        return true
    }

    /// The most workers that were replaced and still have their exclusive job.
    static let mostReplaced = 4

    /// The idle worker that has run the fewest jobs, spares included: for a job that another worker died of, so that an
    /// earlier job's traces are not to blame.
    var freshest: WorkerID? {
        workers.filter { $0.value.canWork && $0.value.jobs.isEmpty }
            .min { ($0.value.jobsTaken, $0.key) < ($1.value.jobsTaken, $1.key) }?.key
    }

    func isIdle(_ worker: WorkerID) -> Bool { workers[worker].map { $0.canWork && $0.jobs.isEmpty } ?? false }

    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        guard let worker = workers[worker], !worker.isCondemned else { return false }
        return worker.jobs.contains(job)
    }

    /// Gives a job to a worker, which with `exclusively` gets no other until that one has ended.
    mutating func assign(_ job: JobID, to worker: WorkerID, exclusively: Bool = false) {
        workers[worker]?.jobs.insert(job)
        workers[worker]?.isExclusive = exclusively
        workers[worker]?.jobsTaken += 1
    }

    mutating func unassign(_ job: JobID, from worker: WorkerID) {
        guard workers[worker]?.jobs.remove(job) != nil else { return }
        workers[worker]?.isExclusive = false
    }

    // MARK: Life

    /// Whether a worker is missing and may be started now.
    func mayStart(at now: Instant) -> Bool {
        staying < target && nextStart.map { $0 <= now } != false
    }

    /// When a missing worker may be started, if not at once; nil when none is missing.
    var nextStart: Instant? {
        guard staying < target else { return nil }
        guard staying >= size, let noSpareBefore else { return notBefore }
        return max(noSpareBefore, notBefore ?? noSpareBefore)
    }

    /// Whether none works, and the last one failed by its own making.
    var isDown: Bool { failures > 0 && !workers.values.contains(where: \.canWork) }

    /// Whether more than 10 have failed within a minute, so that new jobs are better refused.
    func isBroken(at now: Instant) -> Bool {
        recentFailures.count { $0.adding(milliseconds: 60_000) > now } > Self.toleratedFailures
    }

    /// The number of workers that are neither retiring nor found exiting. One that is condemned or has hung up counts until its
    /// exit is reported, so it is not replaced before.
    var staying: Int { workers.values.count { !$0.isRetiring && !$0.isExiting } }
    private static let toleratedFailures = 10
    private static let spareDelayMs = 10

    mutating func started(_ worker: WorkerID, at now: Instant) {
        workers[worker] = Worker(startedAt: now)
    }

    mutating func becameReady(_ worker: WorkerID) {
        workers[worker]?.isReady = true
        lostStarts = 0
    }

    mutating func hungUp(_ worker: WorkerID) {
        workers[worker]?.hasHungUp = true
    }

    /// Notes that the kernel is ending a worker's process: it stays no longer, and is replaced.
    mutating func foundExiting(_ worker: WorkerID, at now: Instant) {
        guard workers[worker]?.isExiting == false else { return }
        workers[worker]?.isExiting = true
        noSpareBefore = now.adding(milliseconds: Self.spareDelayMs)
    }

    /// Condemns a worker. The first cause counts.
    mutating func condemn(_ worker: WorkerID, _ condemnation: Condemnation) {
        if workers[worker]?.isCondemned == false { workers[worker]?.condemnation = condemnation }
    }

    /// Removes a worker that exited. Its successor starts at once; a spare starts after 10 ms. When workers fail by their
    /// own making repeatedly, the next one starts after 100 ms, doubled up to 30 s, until a minute has passed without a
    /// failure. A worker killed from outside is no failure; but while none becomes ready, the next one starts after 2 ms,
    /// doubled up to a second.
    mutating func ended(_ worker: WorkerID, countsAsFailure: Bool, at now: Instant) {
        guard let ended = workers.removeValue(forKey: worker), !ended.isRetiring else { return }
        restarts += 1
        if !ended.isExiting { noSpareBefore = now.adding(milliseconds: Self.spareDelayMs) }
        if countsAsFailure {
            if let lastFailure, lastFailure.adding(milliseconds: 60_000) < now { failures = 0 }
            failures += 1
            lastFailure = now
            recentFailures = recentFailures.suffix(Self.toleratedFailures) + [now]
            // The first failure costs nothing, because a crash is usually one bad image's.
            if failures > 1 { notBefore = now.adding(milliseconds: min(100 << min(failures - 2, 9), 30_000)) }
        } else if !ended.isReady {
            // When each is killed at once, for example because memory is short, the broker must not only start workers.
            lostStarts += 1
            notBefore = max(notBefore ?? now, now.adding(milliseconds: min(1 << min(lostStarts, 10), 1000)))
        }
    }

    // MARK: Recycling

    /// Notes a worker's memory. One that has grown by more than 64 MiB is retired.
    mutating func measured(_ worker: WorkerID, residentBytes: Int) {
        guard let entry = workers[worker] else { return }
        let first = entry.firstResidentBytes ?? residentBytes
        workers[worker]?.firstResidentBytes = first
        if residentBytes - first > BrokerLimits.toleratedGrowth { workers[worker]?.isRetiring = true }
    }

    /// Gives a worker no more jobs; it exits after those it has.
    mutating func retire(_ worker: WorkerID) { workers[worker]?.isRetiring = true }

    /// Retires a worker that has run 500 jobs; its successor is started at once.
    mutating func retireIfWorn(_ worker: WorkerID) {
        if let entry = workers[worker], entry.jobsTaken >= Self.jobsOfALife { workers[worker]?.isRetiring = true }
    }

    /// Whether any worker is retiring.
    var hasRetiring: Bool { workers.values.contains(where: \.isRetiring) }

    /// Retired workers without jobs, whose sockets are still open.
    var finished: [WorkerID] {
        workers.filter { $0.value.isRetiring && !$0.value.hasHungUp && !$0.value.isCondemned && $0.value.jobs.isEmpty }
            .keys.sorted()
    }

    static let jobsOfALife = 500

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant() -> String? {
        if workers.values.contains(where: { $0.jobs.count > capacity }) { return "too many jobs on one" }
        if staying > target { return "too many" }
        if workers.values.count(where: { $0.canWork && !$0.isExclusive && !$0.jobs.isEmpty }) > size {
            return "a spare at work"
        }
        return nil
    }
}

import IPCProtocol
import SystemValues

/// The workers of one kind: who is there, who is busy with what, and when the next one may be started.
struct WorkerPool {
    /// Why the broker ends a worker.
    struct Sentence {
        let cause: DeathCause
        /// In words, for people.
        let detail: String
    }

    struct Worker {
        var isReady = false
        /// Its socket has ended.
        var hasHungUp = false
        /// Its process is about to be gone.
        var isEnding = false
        /// Why it is being ended, once it is: nothing it says counts any more.
        var sentence: Sentence?
        /// It takes no more jobs and ends when it has done those it has.
        var isRetiring = false
        var jobsTaken = 0
        /// Its own memory when it was first measured, in bytes.
        var firstResidentBytes: Int?
        var jobs: Set<JobID> = []
        /// It has one job that is to be its only one.
        var isTaken = false
        let startedAt: Instant

        var isDying: Bool { sentence != nil }
        var canWork: Bool { isReady && !hasHungUp && !isDying && !isRetiring }
    }

    let kind: WorkerKind
    /// How many may be busy at once.
    let size: Int
    /// How many are kept ready beside them, so that a lost one is replaced without waiting for a start.
    let spares: Int
    /// How many jobs one of them does at once.
    let capacity: Int

    private(set) var workers: [WorkerID: Worker] = [:]
    /// Failures of the workers' own making without a healthy minute between them.
    private var failures = 0
    private var recentFailures: [Instant] = []
    private var lastFailure: Instant?
    private var notBefore: Instant?
    /// The same for those that are spare then: who has lost a worker is served first, and a start takes a processor for
    /// milliseconds.
    private var noSpareBefore: Instant?
    /// Workers that somebody else ended before they were ready, since one last became so.
    private var lostStarts = 0
    /// Workers started in place of others.
    private(set) var restarts = 0

    init(kind: WorkerKind, size: Int, spares: Int = 1, capacity: Int) {
        self.kind = kind
        self.size = size
        self.spares = size == 0 ? 0 : spares
        self.capacity = capacity
    }

    /// How many there are to be, those aside that are on their way out.
    var target: Int { size + spares }
    /// Workers that can work, spares aside.
    var ready: Int { min(size, workers.values.count(where: \.canWork)) }
    var runningJobs: Int { workers.values.reduce(0) { $0 + $1.jobs.count } }

    /// The worker for the next job: the busy one with the fewest jobs that can take one more or, while fewer are busy
    /// than may be, an idle one.
    var available: WorkerID? {
        let free = workers.filter { $0.value.canWork && !$0.value.isTaken && $0.value.jobs.count < capacity }
        let mayWake = workers.values.count { $0.canWork && !$0.isTaken && !$0.jobs.isEmpty } < size
        return free.filter { mayWake || !$0.value.jobs.isEmpty }
            .min { ($0.value.jobs.count, $0.key) < ($1.value.jobs.count, $1.key) }?.key
    }

    /// Whether a worker has a job that is to be its only one.
    var hasTaken: Bool { workers.values.contains(where: \.isTaken) }

    /// An idle worker for a job that another one has died of, a spare or not: one that has done least, so that what an earlier picture
    /// may have left behind is not to blame.
    var freshest: WorkerID? {
        workers.filter { $0.value.canWork && $0.value.jobs.isEmpty }
            .min { ($0.value.jobsTaken, $0.key) < ($1.value.jobsTaken, $1.key) }?.key
    }

    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        guard let worker = workers[worker], !worker.isDying else { return false }
        return worker.jobs.contains(job)
    }

    /// Gives a job to a worker, which with `alone` gets no other before that has ended.
    mutating func assign(_ job: JobID, to worker: WorkerID, alone: Bool = false) {
        workers[worker]?.jobs.insert(job)
        workers[worker]?.isTaken = alone
        workers[worker]?.jobsTaken += 1
    }

    mutating func unassign(_ job: JobID, from worker: WorkerID) {
        guard workers[worker]?.jobs.remove(job) != nil else { return }
        workers[worker]?.isTaken = false
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

    /// Whether none works and none is about to: the last one failed by its own making.
    var isDown: Bool { failures > 0 && !workers.values.contains(where: \.canWork) }

    /// Whether so many have failed within a minute that new jobs are better refused.
    func isBroken(at now: Instant) -> Bool {
        recentFailures.count { $0.adding(milliseconds: 60_000) > now } > Self.toleratedFailures
    }

    /// How many there are that are not on their way out.
    var staying: Int { workers.values.count { !$0.isRetiring && !$0.isEnding } }
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

    /// Counts a worker as gone whose process the kernel is taking down.
    mutating func foundEnding(_ worker: WorkerID, at now: Instant) {
        guard workers[worker]?.isEnding == false else { return }
        workers[worker]?.isEnding = true
        noSpareBefore = now.adding(milliseconds: Self.spareDelayMs)
    }

    /// The first reason counts.
    mutating func condemn(_ worker: WorkerID, _ sentence: Sentence) {
        if workers[worker]?.isDying == false { workers[worker]?.sentence = sentence }
    }

    /// Removes a worker that has ended. The next one starts at once or, where it is to be spare, after 10 ms, unless
    /// workers fail by their own making again and again: then after 100 ms, doubled up to 30 s, until a minute has passed
    /// without a failure. One that somebody else has ended is no failure; but where none gets ready, the next comes after
    /// 2 ms, doubled up to a second.
    mutating func ended(_ worker: WorkerID, countsAsFailure: Bool, at now: Instant) {
        guard let ended = workers.removeValue(forKey: worker), !ended.isRetiring else { return }
        restarts += 1
        if !ended.isEnding { noSpareBefore = now.adding(milliseconds: Self.spareDelayMs) }
        if countsAsFailure {
            if let lastFailure, lastFailure.adding(milliseconds: 60_000) < now { failures = 0 }
            failures += 1
            lastFailure = now
            recentFailures = recentFailures.suffix(Self.toleratedFailures) + [now]
            // The first failure costs nothing: a crash is usually one bad picture's.
            if failures > 1 { notBefore = now.adding(milliseconds: min(100 << min(failures - 2, 9), 30_000)) }
        } else if !ended.isReady {
            // Where each is ended at once, as may be when memory is short, starting them is not all that is done.
            lostStarts += 1
            notBefore = max(notBefore ?? now, now.adding(milliseconds: min(1 << min(lostStarts, 10), 1000)))
        }
    }

    // MARK: Recycling

    /// Notes a worker's memory. One that has grown takes no more jobs and ends when it has done those it has.
    mutating func measured(_ worker: WorkerID, residentBytes: Int) {
        guard let entry = workers[worker] else { return }
        let first = entry.firstResidentBytes ?? residentBytes
        workers[worker]?.firstResidentBytes = first
        if residentBytes - first > Self.toleratedGrowth { workers[worker]?.isRetiring = true }
    }

    /// Lets a worker take no more jobs and end when it has done those it has.
    mutating func retire(_ worker: WorkerID) { workers[worker]?.isRetiring = true }

    /// Lets a worker that has done many jobs take no more; its successor is started at once.
    mutating func retireIfWorn(_ worker: WorkerID) {
        if let entry = workers[worker], entry.jobsTaken >= Self.jobsOfALife { workers[worker]?.isRetiring = true }
    }

    /// Whether any worker is on its way out.
    var hasRetiring: Bool { workers.values.contains(where: \.isRetiring) }

    /// Workers that are to end and have nothing left to do.
    var finished: [WorkerID] {
        workers.filter { $0.value.isRetiring && !$0.value.hasHungUp && !$0.value.isDying && $0.value.jobs.isEmpty }
            .keys.sorted()
    }

    static let jobsOfALife = 500
    static let toleratedGrowth = 64 << 20
}

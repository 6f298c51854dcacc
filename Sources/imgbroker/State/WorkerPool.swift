import LinuxSystem

/// The workers of one kind: who is there, who is busy with what, and when the next one may be started.
struct WorkerPool {
    struct Worker {
        var isReady = false
        /// Its socket has ended.
        var hasHungUp = false
        /// It is being ended; nothing it says counts any more.
        var isDying = false
        var jobs: Set<JobID> = []
        let startedAt: Instant

        var canWork: Bool { isReady && !hasHungUp && !isDying }
    }

    let kind: WorkerKind
    /// How many there are to be.
    let target: Int
    /// How many jobs one of them does at once.
    let capacity: Int

    private(set) var workers: [WorkerID: Worker] = [:]
    /// Failures of the workers' own making without a healthy minute between them.
    private var failures = 0
    private var lastFailure: Instant?
    private var notBefore: Instant?
    /// Workers started in place of others.
    private(set) var restarts = 0

    init(kind: WorkerKind, target: Int, capacity: Int) {
        self.kind = kind
        self.target = target
        self.capacity = capacity
    }

    var ready: Int { workers.values.count(where: \.canWork) }
    var runningJobs: Int { workers.values.reduce(0) { $0 + $1.jobs.count } }

    /// The ready worker with the fewest jobs that can take one more; the longest-serving of equals.
    var available: WorkerID? {
        workers.filter { $0.value.canWork && $0.value.jobs.count < capacity }
            .min { ($0.value.jobs.count, $0.key) < ($1.value.jobs.count, $1.key) }?.key
    }

    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        guard let worker = workers[worker], !worker.isDying else { return false }
        return worker.jobs.contains(job)
    }

    mutating func assign(_ job: JobID, to worker: WorkerID) { workers[worker]?.jobs.insert(job) }
    mutating func unassign(_ job: JobID, from worker: WorkerID) { workers[worker]?.jobs.remove(job) }

    // MARK: Life

    /// Whether a worker is missing and may be started now.
    func mayStart(at now: Instant) -> Bool {
        workers.count < target && notBefore.map { $0 <= now } != false
    }

    /// When a missing worker may be started; nil when none is missing.
    var nextStart: Instant? { workers.count < target ? notBefore : nil }

    mutating func started(_ worker: WorkerID, at now: Instant) {
        workers[worker] = Worker(startedAt: now)
    }

    mutating func becameReady(_ worker: WorkerID) {
        workers[worker]?.isReady = true
    }

    mutating func hungUp(_ worker: WorkerID) {
        workers[worker]?.hasHungUp = true
    }

    mutating func markDying(_ worker: WorkerID) {
        workers[worker]?.isDying = true
    }

    /// Removes a worker that has ended. The next one starts at once, unless workers fail by their own making again and
    /// again: then after 100 ms, doubled up to 30 s, until a minute has passed without a failure.
    mutating func ended(_ worker: WorkerID, ownMaking: Bool, at now: Instant) -> Worker? {
        guard let ended = workers.removeValue(forKey: worker) else { return nil }
        restarts += 1
        if ownMaking {
            if let lastFailure, lastFailure.adding(milliseconds: 60_000) < now { failures = 0 }
            failures += 1
            lastFailure = now
            // The first failure costs nothing: a crash is usually one bad picture's.
            if failures > 1 { notBefore = now.adding(milliseconds: min(100 << min(failures - 2, 9), 30_000)) }
        }
        return ended
    }
}

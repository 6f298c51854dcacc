import IPCProtocol
import SystemValues
import WorkerProtocol

/// The workers of one kind: their states, their jobs, which of them gets the next job, and when another one may be
/// started.
struct WorkerPool {
    /// Why the broker kills a worker.
    struct Condemnation {
        let cause: DeathCause
        /// For people.
        let detail: String
        /// Whether its end is no failure of the pool.
        var isForgiven = false
    }

    /// What a worker died of.
    enum Fault {
        /// Neither of the others: it was killed from outside, or is forgiven.
        case none
        case image, pool
    }

    struct Worker {
        let id: WorkerID
        /// The process id, once it is known.
        var pid: Int?
        var isReady = false
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
        /// The user whose brief jobs it has, and may get more of; nil while it takes one job after the other.
        var brief: JobOwner.User?
        let startedAt: Instant

        var isCondemned: Bool { condemnation != nil }
        var canWork: Bool { isReady && !hasHungUp && !isCondemned && !isRetiring }
        var isIdle: Bool { canWork && jobs.isEmpty }
        var jobsEnded: Int { jobsTaken - jobs.count }

        /// For the report.
        var stateName: String {
            if !isReady { return "starting" }
            if isRetiring || isCondemned || hasHungUp || isExiting { return "ending" }
            return jobs.isEmpty ? "idle" : "busy"
        }
    }

    /// The most workers that are busy at once.
    let size: Int
    /// The number of ready workers kept in addition, so that a lost one is replaced without waiting for a start.
    let spares: Int
    let capacity: Int
    /// The most brief jobs of one user that a worker is given at once, one after the other.
    let briefCapacity: Int
    let jobsOfALife: Int
    /// Whether workers are only started for jobs that wait, and none in place of others.
    let isOnDemand: Bool
    private var wanted = 0
    /// Whether an on-demand pool wants one worker more, because one has died of an image lately.
    private var keepsSpare = false
    /// Whether no worker is kept until there is a job.
    private var isResting = false
    /// Whether the first worker after a rest has been neither ready nor lost.
    private var isWaking = false
    private var jobsGiven = 0

    /// In the order of their starts. All are looked at for every event: they are few, and none is copied.
    private(set) var workers: [Worker] = []
    /// Failures of the workers' own making without a healthy minute between them.
    private var failures = 0
    private var recentFailures: [Instant] = []
    private var lastFailure: Instant?
    private var notBefore: Instant?
    /// The same for starts that only add a spare: the request that lost its worker is served first.
    private var noSpareBefore: Instant?
    /// How many workers in a row were killed from outside before they became ready.
    private var lostStarts = 0
    private(set) var restarts = 0

    init(
        size: Int, spares: Int = 1, capacity: Int, briefCapacity: Int = 1, jobsOfALife: Int = .max,
        isOnDemand: Bool = false
    ) {
        (self.size, self.spares, self.isOnDemand) = (size, size == 0 ? 0 : spares, isOnDemand)
        (self.capacity, self.briefCapacity, self.jobsOfALife) = (capacity, briefCapacity, jobsOfALife)
    }

    /// The number of `staying` workers wanted.
    var target: Int { isOnDemand ? wanted : isResting ? 0 : size + spares }
    /// Workers that can work, spares aside; of a resting pool, those that a job would start.
    var ready: Int { isResting || isWaking ? size : min(size, count { $0.canWork }) }
    var isNeeded: Bool { !workers.isEmpty || target > 0 || keepsSpare }
    /// The jobs that have ended so far, by success or not.
    var jobsEnded: Int { jobsGiven - runningJobs }
    var runningJobs: Int {
        var sum = 0
        for place in workers.indices { sum += workers[place].jobs.count }
        return sum
    }

    func contains(_ worker: WorkerID) -> Bool { place(of: worker) != nil }
    func worker(_ worker: WorkerID) -> Worker? { place(of: worker).map { workers[$0] } }
    func isCondemned(_ worker: WorkerID) -> Bool { place(of: worker).map { workers[$0].isCondemned } ?? false }

    private func place(of worker: WorkerID) -> Int? {
        for place in workers.indices where workers[place].id == worker { return place }
        return nil
    }

    private func count(where matches: (borrowing Worker) -> Bool) -> Int {
        var count = 0
        for place in workers.indices where matches(workers[place]) { count += 1 }
        return count
    }

    private func contains(where matches: (borrowing Worker) -> Bool) -> Bool { count(where: matches) > 0 }

    private mutating func change(_ worker: WorkerID, _ body: (inout Worker) -> Void) {
        if let place = place(of: worker) { body(&workers[place]) }
    }

    /// The worker for the next job: the least busy one or, while fewer are busy than may be, an idle one.
    var available: WorkerID? {
        let mayWake = count { $0.canWork && !$0.isExclusive && !$0.jobs.isEmpty } < size
        return leastBusy {
            $0.canWork && !$0.isExclusive && $0.jobs.count < capacity && (mayWake || !$0.jobs.isEmpty)
        }
    }

    /// The worker for the next brief job of a user: an idle one, or the one with the fewest of that user alone.
    func available(forBriefJobOf user: JobOwner.User) -> WorkerID? {
        available
            ?? leastBusy {
                $0.canWork && $0.brief == user && !$0.jobs.isEmpty && $0.jobs.count < briefCapacity
            }
    }

    /// The worker with the fewest jobs among those that may take one; of several, the one that was started first.
    private func leastBusy(where mayTake: (borrowing Worker) -> Bool) -> WorkerID? {
        var best: Int?
        for place in workers.indices where mayTake(workers[place]) {
            if let best, workers[best].jobs.count <= workers[place].jobs.count { continue }
            best = place
        }
        return best.map { workers[$0].id }
    }

    mutating func endBrief(_ worker: WorkerID) { change(worker) { $0.brief = nil } }

    /// Whether a worker has a job that is to be its only one, and was not replaced for that.
    var hasExclusive: Bool { contains { $0.isExclusive && !$0.isRetiring } }

    /// Retires a worker with an exclusive job; false when too many were, because each takes a process beside the
    /// others.
    mutating func replaceExclusive(_ worker: WorkerID) -> Bool {
        guard count(where: { $0.isExclusive && $0.isRetiring }) < Self.mostReplaced else { return false }
        retire(worker)
        return true
    }

    /// The most workers that were replaced and still have their exclusive job.
    static let mostReplaced = 4

    /// The idle worker that has run the fewest jobs: for one that another died of, without others' traces.
    var freshest: WorkerID? {
        workers.filter { $0.canWork && $0.jobs.isEmpty }.min { ($0.jobsTaken, $0.id) < ($1.jobsTaken, $1.id) }?.id
    }

    func isRunning(_ job: JobID, on worker: WorkerID) -> Bool {
        guard let place = place(of: worker), !workers[place].isCondemned else { return false }
        return workers[place].jobs.contains(job)
    }

    mutating func assign(_ job: JobID, to worker: WorkerID, exclusively: Bool = false, brief: JobOwner.User? = nil) {
        jobsGiven += 1
        change(worker) {
            if $0.jobs.isEmpty { $0.brief = brief }
            $0.jobs.insert(job)
            $0.isExclusive = exclusively
            $0.jobsTaken += 1
        }
    }

    mutating func unassign(_ job: JobID, from worker: WorkerID) {
        change(worker) { if $0.jobs.remove(job) != nil { $0.isExclusive = false } }
    }

    // MARK: Life

    func mayStart(at now: Instant) -> Bool { staying < target && nextStart.map { $0 <= now } != false }

    /// When a missing worker may be started, if not at once; nil when none is missing.
    var nextStart: Instant? {
        guard staying < target else { return nil }
        guard staying >= size, let noSpareBefore else { return notBefore }
        return max(noSpareBefore, notBefore ?? noSpareBefore)
    }

    /// Whether none works, and the last one failed by its own making.
    var isDown: Bool { failures > 0 && !contains { $0.canWork } }

    /// Whether more than 10 have failed within a minute, so that new jobs are better refused.
    func isBroken(at now: Instant) -> Bool {
        recentFailures.count { $0.adding(milliseconds: 60_000) > now } > Self.toleratedFailures
    }

    /// The number of workers neither retiring nor exiting; condemned ones count until their exit is reported.
    var staying: Int { count { !$0.isRetiring && !$0.isExiting } }
    private static let toleratedFailures = 10
    private static let spareDelayMs = 10

    /// Wants workers of an on-demand pool for `jobs` jobs beside those that run. Those that exist stay.
    mutating func want(_ jobs: Int) {
        let running = workers.reduce(0) { $0 + ($1.isRetiring ? 0 : $1.jobs.count) }
        wanted = max(staying, min(size, running + jobs) + (keepsSpare ? 1 : 0))
    }

    /// Wants no successor of a worker of an on-demand pool that stays no longer.
    private mutating func wantNoSuccessor() { if isOnDemand { wanted = min(wanted, staying) } }

    mutating func started(_ worker: WorkerID, at now: Instant) {
        workers.append(Worker(id: worker, startedAt: now))
    }

    mutating func started(_ worker: WorkerID, as pid: Int) { change(worker) { $0.pid = pid } }

    mutating func becameReady(_ worker: WorkerID) {
        change(worker) { $0.isReady = true }
        lostStarts = 0
        isWaking = false
    }

    mutating func hungUp(_ worker: WorkerID) { change(worker) { $0.hasHungUp = true } }

    /// Notes that the kernel is ending a worker's process: it stays no longer, and is replaced.
    mutating func foundExiting(_ worker: WorkerID, at now: Instant) {
        guard let place = place(of: worker), !workers[place].isExiting else { return }
        workers[place].isExiting = true
        wantNoSuccessor()
        noSpareBefore = now.adding(milliseconds: Self.spareDelayMs)
    }

    /// Condemns a worker. The first cause counts.
    mutating func condemn(_ worker: WorkerID, _ condemnation: Condemnation) {
        change(worker) { if !$0.isCondemned { $0.condemnation = condemnation } }
    }

    /// Removes a worker that exited. Its successor starts at once; a spare starts after 10 ms. When workers repeatedly
    /// fail for no image's sake, the next one starts after 100 ms, doubled up to 30 s, until a minute has passed
    /// without a failure. A worker killed from outside is no failure; but while none becomes ready, the next one starts
    /// after 2 ms, doubled up to a second.
    mutating func ended(_ worker: WorkerID, _ fault: Fault, at now: Instant) {
        guard let place = place(of: worker) else { return }
        let ended = workers.remove(at: place)
        if !ended.isRetiring { isWaking = false }
        wantNoSuccessor()
        if ended.isRetiring { return }
        if fault == .image, isOnDemand { keepsSpare = true }
        restarts += 1
        if !ended.isExiting { noSpareBefore = now.adding(milliseconds: Self.spareDelayMs) }
        if fault == .pool {
            if let lastFailure, lastFailure.adding(milliseconds: 60_000) < now { failures = 0 }
            failures += 1
            lastFailure = now
            recentFailures = recentFailures.suffix(Self.toleratedFailures) + [now]
            // The first failure costs nothing.
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
        change(worker) {
            let first = $0.firstResidentBytes ?? residentBytes
            $0.firstResidentBytes = first
            if residentBytes - first > BrokerLimits.toleratedGrowth { $0.isRetiring = true }
        }
        wantNoSuccessor()
    }

    mutating func retire(_ worker: WorkerID) {
        change(worker) { $0.isRetiring = true }
        wantNoSuccessor()
    }

    /// Retires a worker that had no job for a while, and keeps no spare any more.
    mutating func retireIdle(_ worker: WorkerID) {
        keepsSpare = false
        retire(worker)
    }

    /// Retires all, and keeps no spare any more. Of those that were before and have jobs, the latest `mostReplaced` go
    /// on; returns the others.
    mutating func retireAll() -> [WorkerID] {
        let former = workers.filter { $0.isRetiring && !$0.hasHungUp && !$0.isCondemned }.map(\.id)
        for place in workers.indices where !workers[place].hasHungUp && !workers[place].isCondemned {
            workers[place].isRetiring = true
        }
        keepsSpare = false
        wantNoSuccessor()
        return former.dropLast(Self.mostReplaced)
    }

    /// Lets all workers go and keeps none until `wake`, if all could work and none has a job. Returns whether it did.
    mutating func rest() -> Bool {
        guard count(where: { $0.canWork }) == target, runningJobs == 0, staying == target else { return false }
        _ = retireAll()
        isResting = true
        return true
    }

    /// Ends the rest of a pool, if it rested. The spare starts later than the worker that a job waits for.
    mutating func wake(at now: Instant) -> Bool {
        if !isResting { return false }
        (isResting, isWaking) = (false, true)
        noSpareBefore = now.adding(milliseconds: Self.spareDelayMs)
        return true
    }

    /// Retires a worker that has run `jobsOfALife` jobs; its successor is started at once.
    mutating func retireIfWorn(_ worker: WorkerID) {
        if place(of: worker).map({ workers[$0].jobsTaken >= jobsOfALife }) == true { retire(worker) }
    }

    var hasRetiring: Bool { contains { $0.isRetiring } }

    /// Retired workers without jobs, whose sockets are still open. One that is starting is let go when it is ready.
    var finished: [WorkerID] {
        workers.filter { $0.isRetiring && $0.isReady && !$0.hasHungUp && !$0.isCondemned && $0.jobs.isEmpty }.map(\.id)
            .sorted()
    }

    func brokenInvariant() -> String? {
        if contains(where: { $0.jobs.count > max(briefCapacity, capacity) }) { return "too many jobs on one" }
        if contains(where: { $0.jobs.count > capacity && $0.isExclusive }) { return "an exclusive job among others" }
        if staying > target { return "too many" }
        if count(where: { $0.canWork && !$0.isExclusive && !$0.jobs.isEmpty }) > size {
            return "a spare at work"
        }
        return nil
    }
}

/// Why a worker exited, concluded from its process's exit and from the broker's own intention.
struct WorkerDeath: Equatable {
    let cause: DeathCause
    /// For people.
    let detail: String

    /// The text for log and events.
    var reason: String { "\(cause.rawValue): \(detail)" }

    /// - Parameters:
    ///   - condemnation: why the broker killed it, if it did.
    ///   - wasReady: whether it had become ready.
    ///   - memoryLimit: its limit of own memory, in bytes.
    init(_ exit: WorkerExit, condemnation: WorkerPool.Condemnation?, wasReady: Bool, memoryLimit: Int = .max) {
        switch exit {
        case .notStarted(let text): (cause, detail) = (.notStarted, text)
        // However it ended: it may have exited by itself once it was found out.
        case .ended where condemnation?.cause == .protocol: (cause, detail) = (.protocol, condemnation?.detail ?? "")
        case .ended(.signal(SignalNumber.kill), let found):
            if let condemnation {
                (cause, detail) = (condemnation.cause, condemnation.detail)
            } else if found.isMemoryShort {
                (cause, detail) = (.memory, "the kernel killed it, as memory was short")
            } else {
                (cause, detail) = (.outside, "\(ProcessExit.signal(SignalNumber.kill))")
            }
        case .ended(let end, let found):
            detail =
                found.peakBytes >= memoryLimit / 4 * 3 ? "\(end), with \(found.peakBytes >> 20) MiB in use" : "\(end)"
            cause =
                switch end {
                case .status: wasReady ? .exit : .notStarted
                case .signal(SignalNumber.badSystemCall): .seccomp
                case .signal(SignalNumber.processorTime): .cpu
                case .signal(let number) where SignalNumber.faults.contains(number):
                    found.peakBytes >= memoryLimit / 4 * 3 ? .memory : .signal
                // A worker brings no other signal on itself.
                case .signal: .outside
                }
        }
    }
}

import IPCProtocol

/// The jobs that wait for a worker: the highest priority first, clients by round-robin within it, and a client's jobs in the
/// order of their arrival or in reverse. A lower priority gets a turn after eight jobs of higher ones. Jobs may belong to a
/// group (an origin) with a bound of running jobs; beyond it, the group's jobs are set aside and delay no others.
struct JobQueue {
    private struct Entry {
        var level: Int
        let group: String?
        let standing: RoundRobinQueue.Standing
        var isAside = false
    }

    /// The number of jobs of higher priority that run in a row while one of a lower priority waits.
    static let patience = 8

    /// The most running jobs of one group.
    let groupLimit: Int
    let order: BrokerLimits.QueueOrder

    private var entries: [JobID: Entry] = [:]
    /// By level: low, normal, high. Includes the jobs set aside.
    private var lines = Self.emptyLines
    /// The number of jobs of higher levels taken in a row while this level waited.
    private var passed = GetOptions.Priority.allCases.map { _ in 0 }
    /// The jobs of full groups that are set aside, by group and level.
    private var asides: [String: [RoundRobinQueue]] = [:]
    private var running: [String: Int] = [:]
    private var lastRank = 0

    private static var emptyLines: [RoundRobinQueue] { GetOptions.Priority.allCases.map { _ in RoundRobinQueue() } }

    init(groupLimit: Int = .max, order: BrokerLimits.QueueOrder = .fifo) {
        self.groupLimit = groupLimit
        self.order = order
    }

    /// The number of waiting jobs.
    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    func contains(_ job: JobID) -> Bool { entries[job] != nil }

    /// Adds a job to its priority's queue, or to its front if the job had been started before.
    mutating func push(
        _ job: JobID, priority: GetOptions.Priority, client: ClientID?, group: String? = nil, atFront: Bool = false
    ) {
        remove(job)
        lastRank += 1
        let standing = RoundRobinQueue.Standing(
            client: client, rank: atFront || order == .lifo ? -lastRank : lastRank, isFront: atFront)
        let level = Self.level(of: priority)
        entries[job] = Entry(level: level, group: group, standing: standing)
        insert(job, standing, at: level)
    }

    /// Changes the priority of a waiting job. Among its client's jobs it keeps the place of its arrival.
    mutating func change(_ job: JobID, to priority: GetOptions.Priority) {
        let level = Self.level(of: priority)
        guard let entry = entries[job], entry.level != level else { return }
        remove(job)
        entries[job] = Entry(level: level, group: entry.group, standing: entry.standing)
        // It is not set aside in its new queue; `pop` sets it aside again if its group is full.
        insert(job, entry.standing, at: level)
    }

    /// Removes a waiting job.
    mutating func remove(_ job: JobID) {
        guard let entry = entries.removeValue(forKey: job) else { return }
        lines[entry.level].remove(job)
        guard let group = entry.group else { return }
        if entry.isAside {
            asides[group]?[entry.level].remove(job)
            forgetIfEmpty(group)
        } else if running[group, default: 0] < groupLimit {
            // It may have been brought back in place of another job of its group.
            bringBack(group, at: entry.level)
        }
    }

    /// Removes the next job that may run now, and counts it as running in its group.
    mutating func pop() -> JobID? {
        while let job = first(), let entry = entries[job] {
            if let group = entry.group {
                let others = running[group, default: 0]
                if others >= groupLimit {
                    setAside(job, entry, of: group)
                    continue
                }
                running[group] = others + 1
            }
            entries[job] = nil
            lines[entry.level].serve(job)
            passed[entry.level] = 0
            for lower in 0..<entry.level where !lines[lower].isEmpty { passed[lower] += 1 }
            return job
        }
        return nil
    }

    /// Counts a job of `group` as ended, and brings back the first of the group's jobs of each priority, because the order
    /// of priorities is decided among the queues.
    mutating func jobEnded(inGroup group: String?) {
        guard let group, let count = running[group] else { return }
        running[group] = count == 1 ? nil : count - 1
        for level in lines.indices { bringBack(group, at: level) }
    }

    /// The next job, whether or not its group lets it run.
    private mutating func first() -> JobID? {
        for level in lines.indices where passed[level] >= Self.patience {
            if let job = lines[level].first() { return job }
        }
        for level in lines.indices.reversed() {
            if let job = lines[level].first() { return job }
        }
        return nil
    }

    private mutating func insert(_ job: JobID, _ standing: RoundRobinQueue.Standing, at level: Int) {
        // An empty queue was not passed over.
        if lines[level].isEmpty { passed[level] = 0 }
        lines[level].insert(job, standing)
    }

    private mutating func setAside(_ job: JobID, _ entry: Entry, of group: String) {
        entries[job]?.isAside = true
        lines[entry.level].setAside(job)
        asides[group, default: Self.emptyLines][entry.level].insert(job, entry.standing)
    }

    /// Puts the first job of `group` that is set aside at this level back in its place.
    private mutating func bringBack(_ group: String, at level: Int) {
        guard let job = asides[group]?[level].first() else { return }
        asides[group]?[level].serve(job)
        forgetIfEmpty(group)
        entries[job]?.isAside = false
        lines[level].bringBack(job)
    }

    private mutating func forgetIfEmpty(_ group: String) {
        if asides[group]?.allSatisfy(\.isEmpty) == true { asides[group] = nil }
    }

    private static func level(of priority: GetOptions.Priority) -> Int {
        switch priority {
        case .low: 0
        case .normal: 1
        case .high: 2
        }
    }
}

import IPCProtocol

/// The waiting jobs of one user by priority, then client. A lower one has a turn after eight of higher ones.
struct UserQueue {
    /// The number of jobs of higher priority that run in a row while one of a lower priority waits.
    static let patience = 8

    static let levels = GetOptions.Priority.allCases.indices

    /// By level: low, normal, high. Includes the jobs set aside.
    private var lines = levels.map { _ in RoundRobinQueue() }
    /// The number of jobs of higher levels taken in a row while this level waited.
    private var passed = levels.map { _ in 0 }

    /// The number of jobs, those set aside included.
    var count: Int { lines.reduce(0) { $0 + $1.count } }
    /// The number of jobs that are not set aside.
    var inLine: Int { lines.reduce(0) { $0 + $1.inLine } }
    var isEmpty: Bool { lines.allSatisfy(\.isEmpty) }

    mutating func insert(_ job: JobID, _ standing: RoundRobinQueue.Standing, at level: Int) {
        // An empty queue was not passed over.
        if lines[level].isEmpty { passed[level] = 0 }
        lines[level].insert(job, standing)
    }

    mutating func setAside(_ job: JobID, at level: Int) { lines[level].setAside(job) }
    mutating func bringBack(_ job: JobID, at level: Int) { lines[level].bringBack(job) }
    mutating func remove(_ job: JobID, at level: Int) { lines[level].remove(job) }

    /// Removes a job that is started now.
    mutating func serve(_ job: JobID, at level: Int) {
        lines[level].serve(job)
        passed[level] = 0
        for lower in 0..<level where !lines[lower].isEmpty { passed[lower] += 1 }
    }

    mutating func first() -> JobID? {
        for level in Self.levels where passed[level] >= Self.patience {
            if let job = lines[level].first() { return job }
        }
        for level in Self.levels.reversed() {
            if let job = lines[level].first() { return job }
        }
        return nil
    }

    /// Removes the first job of each level, whose client's turn then comes last.
    mutating func takeFirsts() -> [JobID] {
        var jobs: [JobID] = []
        for level in Self.levels {
            guard let job = lines[level].first() else { continue }
            lines[level].serve(job)
            jobs.append(job)
        }
        return jobs
    }

    static func level(of priority: GetOptions.Priority) -> Int {
        switch priority {
        case .low: 0
        case .normal: 1
        case .high: 2
        }
    }
}

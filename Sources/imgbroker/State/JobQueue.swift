import IPCProtocol

/// Jobs that wait for a worker: the highest priority first, one of each client in turn within it, and each client's own
/// in the order of their arrival or the other way round. A lower priority that was passed over for long gets its turn
/// all the same. Jobs may belong to a group (an origin) of which only so many run at once; the others of that group stand
/// aside and hold nobody up.
struct JobQueue {
    /// Which of a client's jobs of one priority comes first.
    enum Order {
        case fifo, lifo
    }

    private struct Entry {
        var level: Int
        let group: String?
        let standing: AlternatingLine.Standing
        var isAside = false
    }

    /// So many jobs of higher priority run in a row while one of a lower waits; then that one's turn has come.
    static let patience = 8

    /// The most jobs of one group that run at once.
    let groupLimit: Int
    let order: Order

    private var entries: [JobID: Entry] = [:]
    /// By level: low, normal, high. Those that stand aside are known here too.
    private var lines = Self.emptyLines
    /// How many jobs of higher levels in a row were taken while this level waited.
    private var passed = GetOptions.Priority.allCases.map { _ in 0 }
    /// Those of full groups that stand aside, by group and level.
    private var asides: [String: [AlternatingLine]] = [:]
    private var running: [String: Int] = [:]
    private var lastRank = 0

    private static var emptyLines: [AlternatingLine] { GetOptions.Priority.allCases.map { _ in AlternatingLine() } }

    init(groupLimit: Int = .max, order: Order = .fifo) {
        self.groupLimit = groupLimit
        self.order = order
    }

    /// Jobs that wait.
    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    func contains(_ job: JobID) -> Bool { entries[job] != nil }

    /// Puts a job in its priority's line, or (one that had begun before) before all others there.
    mutating func push(
        _ job: JobID, priority: GetOptions.Priority, client: ClientID?, group: String? = nil, atFront: Bool = false
    ) {
        remove(job)
        lastRank += 1
        let standing = AlternatingLine.Standing(
            client: client, rank: atFront || order == .lifo ? -lastRank : lastRank, isFront: atFront)
        let level = Self.level(of: priority)
        entries[job] = Entry(level: level, group: group, standing: standing)
        insert(job, standing, at: level)
    }

    /// Gives a waiting job another priority, higher or lower. Among its client's jobs it keeps the place of its arrival.
    mutating func change(_ job: JobID, to priority: GetOptions.Priority) {
        let level = Self.level(of: priority)
        guard let entry = entries[job], entry.level != level else { return }
        remove(job)
        entries[job] = Entry(level: level, group: entry.group, standing: entry.standing)
        // It need not stand aside in its new line: whoever comes upon it there sends it aside again.
        insert(job, entry.standing, at: level)
    }

    /// Takes a waiting job out.
    mutating func remove(_ job: JobID) {
        guard let entry = entries.removeValue(forKey: job) else { return }
        lines[entry.level].remove(job)
        guard let group = entry.group else { return }
        if entry.isAside {
            asides[group]?[entry.level].remove(job)
            forgetIfEmpty(group)
        } else if running[group, default: 0] < groupLimit {
            // One that was in line may have been there in place of another.
            bringBack(group, at: entry.level)
        }
    }

    /// Takes the next job that may run now; its group then has one more running.
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

    /// Notes that a job of `group` has ended: the first of it that stands aside is back in line, where it stood. So is
    /// the first of each priority, for which of them is next is decided there.
    mutating func jobEnded(inGroup group: String?) {
        guard let group, let count = running[group] else { return }
        running[group] = count == 1 ? nil : count - 1
        for level in lines.indices { bringBack(group, at: level) }
    }

    /// The job whose turn it is, whether or not its group lets it run.
    private mutating func first() -> JobID? {
        for level in lines.indices where passed[level] >= Self.patience {
            if let job = lines[level].first() { return job }
        }
        for level in lines.indices.reversed() {
            if let job = lines[level].first() { return job }
        }
        return nil
    }

    private mutating func insert(_ job: JobID, _ standing: AlternatingLine.Standing, at level: Int) {
        // Nobody has been passed over in a line where nobody was.
        if lines[level].isEmpty { passed[level] = 0 }
        lines[level].insert(job, standing)
    }

    private mutating func setAside(_ job: JobID, _ entry: Entry, of group: String) {
        entries[job]?.isAside = true
        lines[entry.level].setAside(job)
        asides[group, default: Self.emptyLines][entry.level].insert(job, entry.standing)
    }

    /// Puts the first job of `group` that stands aside at this level back in line, where it stood.
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

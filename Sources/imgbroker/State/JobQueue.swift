import IPCProtocol

/// Jobs that wait for a worker: the highest priority first, and in the order of arrival within one. Jobs may belong to a
/// group (an origin) of which only so many run at once; the others of that group stand aside and hold nobody up.
struct JobQueue {
    private struct Entry {
        var priority: GetOptions.Priority
        var group: String?
        /// Where it stands in the order within its priority.
        var order: Int
    }

    /// The most jobs of one group that run at once.
    let groupLimit: Int

    private var entries: [JobID: Entry] = [:]
    private var lines: [GetOptions.Priority: OrderedLine] = [.low: .init(), .normal: .init(), .high: .init()]
    private var aside: [String: [JobID]] = [:]
    private var running: [String: Int] = [:]
    private var lastOrder = 0
    private var firstOrder = 0

    init(groupLimit: Int = .max) {
        self.groupLimit = groupLimit
    }

    /// Jobs that wait.
    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    func contains(_ job: JobID) -> Bool { entries[job] != nil }

    /// Puts a job at the end of its priority's line, or (one that had begun before) at the front.
    mutating func push(_ job: JobID, priority: GetOptions.Priority, group: String? = nil, atFront: Bool = false) {
        if atFront { firstOrder -= 1 } else { lastOrder += 1 }
        let entry = Entry(priority: priority, group: group, order: atFront ? firstOrder : lastOrder)
        entries[job] = entry
        lines[priority]?.insert(job, order: entry.order)
    }

    /// Gives a waiting job a higher priority, at the end of that line.
    mutating func raise(_ job: JobID, to priority: GetOptions.Priority) {
        guard let entry = entries[job], entry.priority < priority else { return }
        remove(job)
        push(job, priority: priority, group: entry.group)
    }

    /// Takes a waiting job out.
    mutating func remove(_ job: JobID) {
        guard let entry = entries.removeValue(forKey: job) else { return }
        lines[entry.priority]?.remove(order: entry.order)
        guard let group = entry.group, let jobs = aside[group] else { return }
        let left = jobs.filter { $0 != job }
        aside[group] = left.isEmpty ? nil : left
        // One that was in line may have been there in place of another.
        if left.count == jobs.count { bringBack(group) }
    }

    /// Takes the next job that may run now; its group then has one more running.
    mutating func pop() -> JobID? {
        for priority in [GetOptions.Priority.high, .normal, .low] {
            while let job = lines[priority]?.popFirst() {
                guard let group = entries[job]?.group else {
                    entries[job] = nil
                    return job
                }
                if running[group, default: 0] < groupLimit {
                    running[group, default: 0] += 1
                    entries[job] = nil
                    return job
                }
                aside[group, default: []].append(job)
            }
        }
        return nil
    }

    /// Notes that a job of `group` has ended: the first of it that stands aside is back in line, where it stood.
    mutating func jobEnded(inGroup group: String?) {
        guard let group, let count = running[group] else { return }
        running[group] = count == 1 ? nil : count - 1
        bringBack(group)
    }

    /// Puts the first job of `group` that stands aside back in line, where it stood.
    private mutating func bringBack(_ group: String) {
        guard var jobs = aside.removeValue(forKey: group) else { return }
        let first = jobs.indices.min { isBefore(jobs[$0], jobs[$1]) }
        if let first {
            let job = jobs.remove(at: first)
            if let entry = entries[job] { lines[entry.priority]?.insert(job, order: entry.order) }
        }
        if !jobs.isEmpty { aside[group] = jobs }
    }

    private func isBefore(_ left: JobID, _ right: JobID) -> Bool {
        guard let left = entries[left], let right = entries[right] else { return false }
        return left.priority == right.priority ? left.order < right.order : left.priority > right.priority
    }
}

/// A line of jobs by ascending order number, from which any can step out.
private struct OrderedLine {
    private var jobs: [(order: Int, job: JobID?)] = []
    private var first = 0

    mutating func insert(_ job: JobID, order: Int) {
        if let last = jobs.last, first < jobs.count, order < last.order {
            jobs.insert((order, job), at: place(of: order))
        } else {
            jobs.append((order, job))
        }
    }

    mutating func remove(order: Int) {
        let place = place(of: order)
        if place < jobs.count, jobs[place].order == order { jobs[place].job = nil }
    }

    mutating func popFirst() -> JobID? {
        defer {
            if first > 64, first > jobs.count / 2 {
                jobs.removeFirst(first)
                first = 0
            }
        }
        while first < jobs.count {
            first += 1
            if let job = jobs[first - 1].job { return job }
        }
        return nil
    }

    /// The first place whose order is not less, by bisection.
    private func place(of order: Int) -> Int {
        var (low, high) = (first, jobs.count)
        while low < high {
            let middle = (low + high) / 2
            if jobs[middle].order < order { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

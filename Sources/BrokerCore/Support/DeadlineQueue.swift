import SystemValues

/// Deadlines, the earliest first. The caller checks whether a due one still matters; those that do not are swept out when
/// they are many.
struct DeadlineQueue<Reason> {
    private var heap = MinHeap<Instant, Reason>()

    /// The earliest deadline.
    var next: Instant? { heap.first?.key }
    var count: Int { heap.count }

    mutating func add(_ reason: Reason, at instant: Instant) {
        heap.insert(reason, key: instant)
    }

    /// Whether the deadlines that do not matter any more outnumber the about `live` others.
    func isSweepDue(live: Int) -> Bool { heap.isSweepDue(live: live) }

    /// Removes the deadlines that do not matter any more.
    mutating func sweep(stillMatters: (Reason) -> Bool) {
        heap.sweep { stillMatters($1) }
    }

    /// Removes the earliest deadline that is due.
    mutating func popDue(at now: Instant) -> Reason? {
        guard let next, next <= now else { return nil }
        return heap.popFirst()?.value
    }
}

import SystemValues

/// Times at which something is to be looked at, the earliest first. Whoever is reminded looks whether the reason still
/// stands; what does not any more is swept out when there is much of it.
struct DeadlineQueue<Reason> {
    private var heap = MinHeap<Instant, Reason>()

    /// The earliest time.
    var next: Instant? { heap.first?.key }
    var count: Int { heap.count }

    mutating func add(_ reason: Reason, at instant: Instant) {
        heap.insert(reason, key: instant)
    }

    /// Takes out the reasons that do not stand any more, once there are more of them than `live` others.
    mutating func sweep(live: Int, stillStands: (Reason) -> Bool) {
        heap.sweep(live: live) { stillStands($1) }
    }

    /// Takes the earliest reason whose time has come.
    mutating func popDue(at now: Instant) -> Reason? {
        guard let next, next <= now else { return nil }
        return heap.popFirst()?.value
    }
}

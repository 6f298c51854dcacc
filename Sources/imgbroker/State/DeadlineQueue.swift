import LinuxSystem

/// Times at which something is to be looked at, the earliest first. Nothing is ever taken out before its time: whoever
/// is reminded looks whether the reason still stands.
struct DeadlineQueue<Reason> {
    private var heap = MinHeap<Instant, Reason>()

    /// The earliest time.
    var next: Instant? { heap.first?.key }
    var count: Int { heap.count }

    mutating func add(_ reason: Reason, at instant: Instant) {
        heap.insert(reason, key: instant)
    }

    /// Takes the earliest reason whose time has come.
    mutating func popDue(at now: Instant) -> Reason? {
        guard let next, next <= now else { return nil }
        return heap.popFirst()?.value
    }
}

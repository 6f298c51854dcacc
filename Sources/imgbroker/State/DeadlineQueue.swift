import LinuxSystem

/// Times at which something is to be looked at, the earliest first. Nothing is ever taken out before its time: whoever
/// is reminded looks whether the reason still stands.
struct DeadlineQueue<Reason> {
    private var heap: [(at: Instant, reason: Reason)] = []

    /// The earliest time.
    var next: Instant? { heap.first?.at }
    var count: Int { heap.count }

    mutating func add(_ reason: Reason, at instant: Instant) {
        heap.append((instant, reason))
        var child = heap.count - 1
        while child > 0, heap[child].at < heap[(child - 1) / 2].at {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Takes the earliest reason whose time has come.
    mutating func popDue(at now: Instant) -> Reason? {
        guard let first = heap.first, first.at <= now else { return nil }
        let last = heap.removeLast()
        if heap.isEmpty { return first.reason }
        heap[0] = last
        var parent = 0
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                if heap[child].at < heap[smallest].at { smallest = child }
            }
            if smallest == parent { return first.reason }
            heap.swapAt(parent, smallest)
            parent = smallest
        }
    }
}

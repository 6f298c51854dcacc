import SystemValues

/// A binary heap of values by ascending key. A value cannot be removed from the middle: a caller that no longer wants
/// it ignores it when it comes up, and calls `sweep` when there are too many such values.
struct MinHeap<Key: Comparable, Value> {
    private var entries: [(key: Key, value: Value)] = []

    var first: (key: Key, value: Value)? { entries.first }
    var count: Int { entries.count }

    mutating func insert(_ value: Value, key: Key) {
        entries.append((key, value))
        var child = entries.count - 1
        while child > 0, key < entries[(child - 1) / 2].key {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    @discardableResult mutating func popFirst() -> (key: Key, value: Value)? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        if entries.isEmpty { return first }
        entries[0] = last
        sink(from: 0)
        return first
    }

    /// Whether unwanted values outnumber the `live` others, so that each costs its share of one pass.
    func isSweepDue(live: Int) -> Bool { entries.count > 2 * live + 16 }

    mutating func sweep(live: Int, isWanted: (Key, Value) -> Bool) {
        if isSweepDue(live: live) { sweep(isWanted: isWanted) }
    }

    mutating func sweep(isWanted: (Key, Value) -> Bool) {
        entries.removeAll { !isWanted($0.key, $0.value) }
        for parent in (0..<entries.count / 2).reversed() { sink(from: parent) }
    }

    private mutating func sink(from place: Int) {
        var parent = place
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < entries.count {
                if entries[child].key < entries[smallest].key { smallest = child }
            }
            if smallest == parent { return }
            entries.swapAt(parent, smallest)
            parent = smallest
        }
    }
}

// Deadlines, of which the caller checks whether a due one still matters.
extension MinHeap where Key == Instant {
    var next: Instant? { first?.key }

    mutating func add(_ value: Value, at instant: Instant) { insert(value, key: instant) }

    mutating func popDue(at now: Instant) -> Value? {
        guard let next, next <= now else { return nil }
        return popFirst()?.value
    }
}

/// Values by ascending key. Nothing is taken out of the middle: whoever no longer wants a value passes over it when it
/// comes up, and asks for a `sweep` when there are too many of those.
struct MinHeap<Key: Comparable, Value> {
    private var entries: [(key: Key, value: Value)] = []

    /// The entry with the least key.
    var first: (key: Key, value: Value)? { entries.first }
    var count: Int { entries.count }

    mutating func insert(_ value: Value, key: Key) {
        entries.append((key, value))
        var child = entries.count - 1
        while child > 0, entries[child].key < entries[(child - 1) / 2].key {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Takes the entry with the least key.
    @discardableResult mutating func popFirst() -> (key: Key, value: Value)? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        if entries.isEmpty { return first }
        entries[0] = last
        sink(from: 0)
        return first
    }

    /// Takes out the values that are not wanted any more, once there are more of them than of the `live` others: so each
    /// costs its share of one pass only.
    mutating func sweep(live: Int, isWanted: (Key, Value) -> Bool) {
        guard entries.count > 2 * live + 16 else { return }
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

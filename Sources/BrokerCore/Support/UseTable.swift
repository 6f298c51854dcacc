/// Values by key, in the order of their last use (LRU).
struct UseTable<Key: Hashable, Value> {
    private var nodes: [(key: Key, value: Value, newer: Int?, older: Int?)?] = []
    private var free: [Int] = []
    private var places: [Key: Int] = [:]
    private var newestPlace: Int?
    private var oldestPlace: Int?

    var count: Int { places.count }

    var oldest: (key: Key, value: Value)? { oldestPlace.flatMap { nodes[$0] }.map { ($0.key, $0.value) } }

    subscript(key: Key) -> Value? { places[key].flatMap { nodes[$0]?.value } }

    func newer(than key: Key) -> Key? {
        places[key].flatMap { nodes[$0]?.newer }.flatMap { nodes[$0]?.key }
    }

    /// Changes the value of a key, if there is one, without a use.
    mutating func change(_ key: Key, _ body: (inout Value) -> Void) {
        if let place = places[key] { body(&nodes[place]!.value) }
    }

    /// Records a use of a key, which gets this value.
    mutating func use(_ key: Key, _ value: Value) {
        remove(key)
        let place = free.popLast() ?? nodes.endIndex
        if place == nodes.endIndex { nodes.append(nil) }
        nodes[place] = (key, value, nil, newestPlace)
        if let newestPlace { nodes[newestPlace]?.newer = place } else { oldestPlace = place }
        newestPlace = place
        places[key] = place
    }

    mutating func remove(_ key: Key) {
        guard let place = places.removeValue(forKey: key), let node = nodes[place] else { return }
        if let newer = node.newer { nodes[newer]?.older = node.older } else { newestPlace = node.older }
        if let older = node.older { nodes[older]?.newer = node.newer } else { oldestPlace = node.newer }
        nodes[place] = nil
        free.append(place)
    }

    @discardableResult mutating func popOldest() -> Key? {
        guard let key = oldest?.key else { return nil }
        remove(key)
        return key
    }
}

/// The order of eviction by GreedyDual-Size-Frequency (Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS
/// 1997; Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", 1998).
///
/// The element with the lowest priority is evicted. A priority is the time to make the element per byte, times the number of
/// its uses, plus a floor, which rises to the priority of each evicted element. So newer elements overtake one that is no
/// longer used. A use only counts; the element moves when it comes up for eviction. Elements are slot numbers.
struct EvictionQueue {
    /// The worth of an element, which goes with it to another queue.
    struct Value: Equatable {
        /// The microseconds to make it per byte.
        let cost: Float
        /// The number of its uses, at most 255.
        let uses: UInt8

        /// What it adds to the floor.
        var priority: Double { Double(cost) * Double(uses) }
    }

    private struct Node {
        var priority = 0.0
        /// The microseconds to make it per byte.
        var cost: Float = 0
        /// The number of uses, at most 255.
        var uses: UInt8 = 0
        var state: State = .absent
        /// Its index in `waiting` or in `held`.
        var place = 0
    }

    private enum State {
        case absent
        /// In `waiting`.
        case waiting
        /// In `waiting`, and used since it entered it.
        case used
        /// In `held`.
        case held
    }

    private var nodes: [Node] = []
    /// A binary heap with the lowest priority first.
    private var waiting: [Int] = []
    /// Elements that had a holder when they came up for eviction.
    private var held: [Int] = []
    private var floor = 0.0

    var count: Int { waiting.count + held.count }

    /// Adds `element`, which is not in the queue: `bytes` were made in `microseconds`, and used so often already.
    mutating func insert(_ element: Int, microseconds: Int, bytes: Int, uses: Int = 1) {
        while nodes.count <= element { nodes.append(Node()) }
        // At least half a millisecond, which any job takes, and at most a second: an origin that sends slowly must not
        // own the cache.
        let time = min(max(microseconds, 500), 1_000_000)
        nodes[element] = Node(cost: Float(time) / Float(max(bytes, 1)), uses: UInt8(clamping: uses))
        wait(element)
    }

    /// Returns the cost of an element and the number of its uses, for `insert` with as many bytes; nil for one that is not in
    /// the queue.
    func worth(of element: Int, bytes: Int) -> (microseconds: Int, uses: Int)? {
        value(of: element).map { Self.worth($0, bytes: bytes) }
    }

    /// Returns a cost and a number of uses, for `insert` with as many bytes.
    static func worth(_ value: Value, bytes: Int) -> (microseconds: Int, uses: Int) {
        // Finite and at most a second, as inserted.
        (Int((Double(value.cost) * Double(max(bytes, 1))).rounded()), Int(value.uses))
    }

    /// Records a use of `element`.
    mutating func mark(_ element: Int) {
        guard element < nodes.count, nodes[element].state != .absent else { return }
        if nodes[element].uses < .max { nodes[element].uses += 1 }
        if nodes[element].state == .waiting { nodes[element].state = .used }
    }

    /// Records that `element` has no holder any more.
    mutating func release(_ element: Int) {
        guard element < nodes.count, nodes[element].state == .held else { return }
        takeFromHeld(element)
        wait(element)
    }

    mutating func remove(_ element: Int) {
        guard element < nodes.count else { return }
        switch nodes[element].state {
        case .absent: return
        case .waiting, .used: takeFromWaiting(element)
        case .held: takeFromHeld(element)
        }
        nodes[element].state = .absent
    }

    /// Returns the worth of an element; nil for one that is not in the queue.
    func value(of element: Int) -> Value? {
        guard element < nodes.count, nodes[element].state != .absent else { return nil }
        return Value(cost: nodes[element].cost, uses: nodes[element].uses)
    }

    /// Adds `element`, which is not in the queue, with the worth that it has in another one.
    mutating func insert(_ element: Int, _ value: Value) {
        while nodes.count <= element { nodes.append(Node()) }
        nodes[element] = Node(cost: value.cost, uses: value.uses)
        wait(element)
    }

    /// Moves `element` to another queue, with its worth.
    mutating func move(_ element: Int, to other: inout EvictionQueue) {
        guard let value = value(of: element) else { return }
        remove(element)
        other.insert(element, value)
    }

    /// Removes the element with the lowest priority for which `isHeld` is false. Held ones that come up stand aside until
    /// they are released; when only those are left, one of them is removed.
    mutating func evict(isHeld: (Int) -> Bool) -> Int? {
        while let element = waiting.first {
            takeFromWaiting(element)
            if isHeld(element) {
                nodes[element].place = held.count
                nodes[element].state = .held
                held.append(element)
                continue
            }
            floor = nodes[element].priority
            if nodes[element].state == .used {
                wait(element)
            } else {
                nodes[element].state = .absent
                return element
            }
        }
        guard let element = held.first else { return nil }
        remove(element)
        return element
    }

    // MARK: The heap

    private mutating func wait(_ element: Int) {
        nodes[element].priority = floor + Double(nodes[element].cost) * Double(nodes[element].uses)
        nodes[element].state = .waiting
        waiting.append(element)
        rise(from: waiting.count - 1)
    }

    private mutating func takeFromWaiting(_ element: Int) {
        let place = nodes[element].place
        let last = waiting.removeLast()
        if place == waiting.count { return }
        put(last, at: place)
        rise(from: place)
        sink(from: nodes[last].place)
    }

    private mutating func takeFromHeld(_ element: Int) {
        let place = nodes[element].place
        let last = held.removeLast()
        if place == held.count { return }
        held[place] = last
        nodes[last].place = place
    }

    private func priority(_ place: Int) -> Double { nodes[waiting[place]].priority }

    private mutating func rise(from place: Int) {
        var child = place
        let (element, own) = (waiting[child], priority(child))
        while child > 0, own < priority((child - 1) / 2) {
            put(waiting[(child - 1) / 2], at: child)
            child = (child - 1) / 2
        }
        put(element, at: child)
    }

    private mutating func sink(from place: Int) {
        var parent = place
        let (element, own) = (waiting[parent], priority(parent))
        while 2 * parent + 1 < waiting.count {
            var child = 2 * parent + 1
            if child + 1 < waiting.count, priority(child + 1) < priority(child) { child += 1 }
            if own <= priority(child) { break }
            put(waiting[child], at: parent)
            parent = child
        }
        put(element, at: parent)
    }

    private mutating func put(_ element: Int, at place: Int) {
        waiting[place] = element
        nodes[element].place = place
    }

    // MARK: Invariants

    /// Returns the first invariant that does not hold; nil when all hold.
    func brokenInvariant() -> String? {
        for (place, element) in waiting.enumerated() {
            let node = nodes[element]
            if node.place != place || ![.waiting, .used].contains(node.state) { return "a place in the heap" }
            if place > 0, priority(place) < priority((place - 1) / 2) { return "order of the heap" }
            if node.priority < floor { return "a priority below the floor" }
        }
        for (place, element) in held.enumerated() where nodes[element].place != place || nodes[element].state != .held {
            return "a place among the held"
        }
        return nodes.count(where: { $0.state != .absent }) == count ? nil : "an element in no list"
    }
}

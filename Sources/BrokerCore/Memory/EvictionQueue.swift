/// The order of eviction by GreedyDual-Size-Frequency (Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS
/// 1997; Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", 1998). The
/// order alone: `MemoryIndex.evictToFit` decides when an image is evicted.
///
/// The element with the lowest priority is evicted. A priority is the time to make the element per byte, times the
/// number of its uses, plus a floor, which rises to the priority of each evicted element. So newer elements overtake
/// one that is no longer used. A use only counts; the element moves when it comes up for eviction. Elements are slot
/// numbers. A new element has one use, or none while it is on probation (`Admission`): then it is evicted next, unless
/// it is used.
///
/// Each element is in a *pool*, a number, and eviction takes the lowest priority of one pool. All pools have the same
/// floor, so their priorities can be compared.
struct EvictionQueue {
    private struct Node {
        var priority = 0.0
        var cost: Float = 0
        var uses: UInt8 = 0
        var state: State = .absent
        /// Whether it is in the sample of `admission`.
        var isSampled = false
        /// Whether it is, and was not used since it was added.
        var isOnTrial = false
        var pool: Int32 = 0
        /// Its index in `waiting` or in `held` of its pool.
        var place = 0
    }

    private struct Pool {
        /// A binary heap with the lowest priority first.
        var waiting: [Int] = []
        /// Elements that had a holder when they came up for eviction.
        var held: [Int] = []

        var count: Int { waiting.count + held.count }
    }

    private enum State {
        case absent
        case waiting
        /// In `waiting`, and used since it entered it.
        case used
        case held
    }

    private var nodes: [Node] = []
    private var pools: [Pool] = [Pool()]
    private var floor = 0.0
    private var admission = Admission()

    var count: Int { pools.reduce(0) { $0 + $1.count } }

    func count(in pool: Int) -> Int { pool < pools.count ? pools[pool].count : 0 }

    /// The lowest priority of a pool, without the elements that stand aside; nil without others.
    private func lowestPriority(in pool: Int) -> Double? {
        guard pool < pools.count else { return nil }
        return pools[pool].waiting.first.map { nodes[$0].priority }
    }

    /// Adds `element`, which is not in the queue: `bytes` were made in `microseconds`, and used so often already. One
    /// with a name, a hash value, may be on probation.
    mutating func insert(
        _ element: Int, microseconds: Int, bytes: Int, uses: Int = 1, named name: Int? = nil, in pool: Int = 0
    ) {
        // At least half a millisecond, which any job takes, and at most a second: an origin that sends slowly must not
        // own the cache.
        let time = min(max(microseconds, 500), 1_000_000)
        while nodes.count <= element { nodes.append(Node()) }
        var node = Node(
            cost: Float(time) / Float(max(bytes, 1)), uses: UInt8(clamping: uses), pool: Int32(pool))
        if let name {
            admission.added(element, name, saving: node.cost, among: count)
            node.isSampled = Admission.isSampled(name)
            node.isOnTrial = node.isSampled
            if !node.isSampled, admission.isStrict { node.uses = 0 }
        }
        nodes[element] = node
        wait(element)
    }

    /// Returns what `insert` is to be given with as many bytes; nil for one that is not in the queue.
    func worth(of element: Int, bytes: Int) -> (microseconds: Int, uses: Int)? {
        guard contains(element) else { return nil }
        // Finite and at most a second, as inserted.
        return (Int((Double(nodes[element].cost) * Double(max(bytes, 1))).rounded()), Int(nodes[element].uses))
    }

    private func contains(_ element: Int) -> Bool { element < nodes.count && nodes[element].state != .absent }

    mutating func mark(_ element: Int) {
        guard contains(element) else { return }
        if nodes[element].uses < .max { nodes[element].uses += 1 }
        if nodes[element].state == .waiting { nodes[element].state = .used }
        if nodes[element].isOnTrial {
            nodes[element].isOnTrial = false
            admission.used(element, saving: nodes[element].cost, among: count)
        }
    }

    /// Records that `element` has no holder any more.
    mutating func release(_ element: Int) {
        guard element < nodes.count, nodes[element].state == .held else { return }
        takeFromHeld(element)
        wait(element)
    }

    mutating func remove(_ element: Int) {
        guard takeOut(element) else { return }
        if nodes[element].isSampled { admission.removed(element) }
    }

    /// Takes an element out of its list. Returns whether it was in one.
    private mutating func takeOut(_ element: Int) -> Bool {
        guard element < nodes.count else { return false }
        switch nodes[element].state {
        case .absent: return false
        case .waiting, .used: takeFromWaiting(element)
        case .held: takeFromHeld(element)
        }
        nodes[element].state = .absent
        return true
    }

    /// Moves `element` to another pool, with its worth.
    mutating func move(_ element: Int, to pool: Int) {
        guard takeOut(element) else { return }
        nodes[element].pool = Int32(pool)
        wait(element)
    }

    /// Removes the element of a pool with the lowest priority for which `isHeld` is false. Held ones that come up stand
    /// aside until they are released; when only those are left, one of them is removed, unless `sparesHeld`.
    mutating func evict(from pool: Int = 0, sparesHeld: Bool = false, isHeld: (Int) -> Bool) -> Int? {
        while count(in: pool) > 0, !pools[pool].waiting.isEmpty {
            if let element = evictFirst(from: pool, isHeld: isHeld) { return element }
        }
        return sparesHeld ? nil : evictHeld(from: pool)
    }

    /// Takes the element of a pool that comes up next: returns it if it is evicted, else puts it aside or back.
    private mutating func evictFirst(from pool: Int, isHeld: (Int) -> Bool) -> Int? {
        guard pool < pools.count, let element = pools[pool].waiting.first else { return nil }
        takeFromWaiting(element)
        if isHeld(element) {
            nodes[element].place = pools[pool].held.count
            nodes[element].state = .held
            pools[pool].held.append(element)
            return nil
        }
        floor = max(floor, nodes[element].priority)
        if nodes[element].state == .used {
            wait(element)
            return nil
        }
        nodes[element].state = .absent
        if nodes[element].isSampled { admission.evicted(element) }
        return element
    }

    /// Evicts the lowest of several pools; one that `isHeld` only when all are.
    mutating func evict(fromAny candidates: [Int], isHeld: (Int) -> Bool) -> Int? {
        // Held ones stand aside, so that the next lowest is another.
        while true {
            let priorities = candidates.compactMap { pool in lowestPriority(in: pool).map { (pool, $0) } }
            guard let (pool, _) = priorities.min(by: { $0.1 < $1.1 }) else { break }
            if let element = evictFirst(from: pool, isHeld: isHeld) { return element }
        }
        for pool in candidates { if let element = evictHeld(from: pool) { return element } }
        return nil
    }

    /// Removes an element that stands aside.
    private mutating func evictHeld(from pool: Int) -> Int? {
        guard pool < pools.count, let element = pools[pool].held.first else { return nil }
        remove(element)
        return element
    }

    // MARK: The heap

    private mutating func wait(_ element: Int) {
        let pool = Int(nodes[element].pool)
        while pools.count <= pool { pools.append(Pool()) }
        nodes[element].priority = floor + Double(nodes[element].cost) * Double(nodes[element].uses)
        nodes[element].state = .waiting
        pools[pool].waiting.append(element)
        rise(from: pools[pool].waiting.count - 1, in: pool)
    }

    private mutating func takeFromWaiting(_ element: Int) {
        let (place, pool) = (nodes[element].place, Int(nodes[element].pool))
        let last = pools[pool].waiting.removeLast()
        if place == pools[pool].waiting.count { return }
        put(last, at: place, in: pool)
        rise(from: place, in: pool)
        sink(from: nodes[last].place, in: pool)
    }

    private mutating func takeFromHeld(_ element: Int) {
        let (place, pool) = (nodes[element].place, Int(nodes[element].pool))
        let last = pools[pool].held.removeLast()
        if place == pools[pool].held.count { return }
        pools[pool].held[place] = last
        nodes[last].place = place
    }

    private func priority(_ place: Int, in pool: Int) -> Double { nodes[pools[pool].waiting[place]].priority }

    private mutating func rise(from place: Int, in pool: Int) {
        var child = place
        let (element, own) = (pools[pool].waiting[child], priority(child, in: pool))
        while child > 0, own < priority((child - 1) / 2, in: pool) {
            put(pools[pool].waiting[(child - 1) / 2], at: child, in: pool)
            child = (child - 1) / 2
        }
        put(element, at: child, in: pool)
    }

    private mutating func sink(from place: Int, in pool: Int) {
        var parent = place
        let count = pools[pool].waiting.count
        let (element, own) = (pools[pool].waiting[parent], priority(parent, in: pool))
        while 2 * parent + 1 < count {
            var child = 2 * parent + 1
            if child + 1 < count, priority(child + 1, in: pool) < priority(child, in: pool) { child += 1 }
            if own <= priority(child, in: pool) { break }
            put(pools[pool].waiting[child], at: parent, in: pool)
            parent = child
        }
        put(element, at: parent, in: pool)
    }

    private mutating func put(_ element: Int, at place: Int, in pool: Int) {
        pools[pool].waiting[place] = element
        nodes[element].place = place
    }

    func brokenInvariant() -> String? {
        for (number, pool) in pools.enumerated() {
            for (place, element) in pool.waiting.enumerated() {
                let node = nodes[element]
                if node.place != place || ![.waiting, .used].contains(node.state) { return "a place in the heap" }
                if place > 0, node.priority < priority((place - 1) / 2, in: number) { return "order of the heap" }
                if pools.count == 1, node.priority < floor { return "a priority below the floor" }
            }
            for (place, element) in pool.held.enumerated()
            where nodes[element].place != place || nodes[element].state != .held {
                return "a place among the held"
            }
            if (pool.waiting + pool.held).contains(where: { Int(nodes[$0].pool) != number }) {
                return "an element in another pool"
            }
        }
        if let broken = admission.brokenInvariant(isSampled: { nodes[$0].isSampled && nodes[$0].state != .absent }) {
            return broken
        }
        return nodes.count(where: { $0.state != .absent }) == count ? nil : "an element in no list"
    }
}

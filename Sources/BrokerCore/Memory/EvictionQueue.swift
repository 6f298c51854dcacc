/// The order of eviction by GreedyDual-Size-Frequency (Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS
/// 1997; Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", 1998).
///
/// The element with the lowest priority is evicted. A priority is the time to make the element per byte, times the number of
/// its uses, plus a floor, which rises to the priority of each evicted element. So newer elements overtake one that is no
/// longer used. A use only counts; the element moves when it comes up for eviction.
struct EvictionQueue<Element: Hashable> {
    private struct Node {
        /// The microseconds to make it per byte.
        let cost: Float
        /// The number of uses, at most 255.
        var uses = 1
        var priority = 0.0
        /// Its index in `waiting` or in `held`.
        var place = 0
        /// Whether it is in `held`; otherwise it is in `waiting`.
        var isHeld = false
        /// Whether it was used since it entered `waiting`.
        var isUsed = false
    }

    private var nodes: [Element: Node] = [:]
    /// A binary heap with the lowest priority first.
    private var waiting: [Element] = []
    /// Elements that had a holder when they came up for eviction.
    private var held: [Element] = []
    private var floor = 0.0

    var count: Int { nodes.count }

    /// Adds `element`, which is not in the queue: `bytes` were made in `microseconds`.
    mutating func insert(_ element: Element, microseconds: Int, bytes: Int) {
        // At least half a millisecond, which any job takes, and at most a second: an origin that sends slowly must not
        // own the cache.
        let time = min(max(microseconds, 500), 1_000_000)
        nodes[element] = Node(cost: Float(time) / Float(max(bytes, 1)))
        wait(element)
    }

    /// Records a use of `element`.
    mutating func mark(_ element: Element) {
        guard var node = nodes[element] else { return }
        node.uses = min(node.uses + 1, 255)
        node.isUsed = !node.isHeld
        nodes[element] = node
    }

    /// Records that `element` has no holder any more.
    mutating func release(_ element: Element) {
        guard nodes[element]?.isHeld == true else { return }
        takeFromHeld(element)
        wait(element)
    }

    mutating func remove(_ element: Element) {
        guard let node = nodes[element] else { return }
        if node.isHeld { takeFromHeld(element) } else { takeFromWaiting(element) }
        nodes[element] = nil
    }

    /// Removes the element with the lowest priority for which `isHeld` is false. Held ones that come up stand aside until
    /// they are released; when only those are left, one of them is removed.
    mutating func evict(isHeld: (Element) -> Bool) -> Element? {
        while let element = waiting.first, let node = nodes[element] {
            takeFromWaiting(element)
            if isHeld(element) {
                nodes[element]?.isHeld = true
                nodes[element]?.isUsed = false
                nodes[element]?.place = held.count
                held.append(element)
                continue
            }
            floor = node.priority
            if node.isUsed {
                wait(element)
            } else {
                nodes[element] = nil
                return element
            }
        }
        guard let element = held.first else { return nil }
        remove(element)
        return element
    }

    // MARK: The heap

    private mutating func wait(_ element: Element) {
        guard var node = nodes[element] else { return }
        node.priority = floor + Double(node.cost) * Double(node.uses)
        (node.isHeld, node.isUsed) = (false, false)
        nodes[element] = node
        waiting.append(element)
        rise(from: waiting.count - 1)
    }

    private mutating func takeFromWaiting(_ element: Element) {
        guard let place = nodes[element]?.place else { return }
        let last = waiting.removeLast()
        if place == waiting.count { return }
        put(last, at: place)
        rise(from: place)
        sink(from: nodes[last]?.place ?? place)
    }

    private mutating func takeFromHeld(_ element: Element) {
        guard let place = nodes[element]?.place else { return }
        let last = held.removeLast()
        if place == held.count { return }
        held[place] = last
        nodes[last]?.place = place
    }

    private func priority(_ place: Int) -> Double { nodes[waiting[place]]?.priority ?? 0 }

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

    private mutating func put(_ element: Element, at place: Int) {
        waiting[place] = element
        nodes[element]?.place = place
    }

    // MARK: Invariants

    /// Returns the first invariant that does not hold; nil when all hold.
    func brokenInvariant() -> String? {
        for (place, element) in waiting.enumerated() {
            guard let node = nodes[element], node.place == place, !node.isHeld else { return "a place in the heap" }
            if place > 0, node.priority < priority((place - 1) / 2) { return "order of the heap" }
            if node.priority < floor { return "a priority below the floor" }
        }
        for (place, element) in held.enumerated() {
            guard let node = nodes[element], node.place == place, node.isHeld else { return "a place among the held" }
        }
        return waiting.count + held.count == count ? nil : "an element in no list"
    }
}

/// The order of eviction by SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): entries are in the order of
/// arrival; a hit only marks its entry; a hand moves from the oldest to the newest, removes marks and stops at the first
/// entry without one.
struct SieveQueue<Element: Hashable> {
    private struct Node {
        var element: Element
        var newer: Int?
        var older: Int?
        var isMarked = false
    }

    private var nodes: [Node?] = []
    private var free: [Int] = []
    private var places: [Element: Int] = [:]
    private var newest: Int?
    private var oldest: Int?
    private var hand: Int?

    /// Adds `element`, which is not in the queue, as the newest.
    mutating func insert(_ element: Element) {
        let node = Node(element: element, newer: nil, older: newest)
        let place = free.popLast() ?? nodes.endIndex
        if place == nodes.endIndex { nodes.append(node) } else { nodes[place] = node }
        if let newest { nodes[newest]?.newer = place } else { oldest = place }
        newest = place
        places[element] = place
    }

    /// Records a request for `element`.
    mutating func mark(_ element: Element) {
        if let place = places[element] { nodes[place]?.isMarked = true }
    }

    private mutating func remove(_ element: Element) {
        guard let place = places.removeValue(forKey: element), let node = nodes[place] else { return }
        if let newer = node.newer { nodes[newer]?.older = node.older } else { newest = node.older }
        if let older = node.older { nodes[older]?.newer = node.newer } else { oldest = node.newer }
        if hand == place { hand = node.newer }
        nodes[place] = nil
        free.append(place)
    }

    /// Removes the entry at which the hand stops.
    mutating func evict() -> Element? {
        while let place = hand ?? oldest, let node = nodes[place] {
            hand = node.newer
            if node.isMarked {
                nodes[place]?.isMarked = false
            } else {
                remove(node.element)
                return node.element
            }
        }
        return nil
    }
}

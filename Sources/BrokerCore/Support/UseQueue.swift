/// Elements in the order of their last use (LRU).
struct UseQueue<Element: Hashable> {
    private struct Node {
        let element: Element
        var newer: Int?
        var older: Int?
    }

    private var nodes: [Node?] = []
    private var free: [Int] = []
    private var places: [Element: Int] = [:]
    private var newest: Int?
    private var oldest: Int?

    var count: Int { places.count }

    func contains(_ element: Element) -> Bool { places[element] != nil }

    /// Records a use of `element`, which is added if it is new.
    mutating func use(_ element: Element) {
        remove(element)
        let node = Node(element: element, newer: nil, older: newest)
        let place = free.popLast() ?? nodes.endIndex
        if place == nodes.endIndex { nodes.append(node) } else { nodes[place] = node }
        if let newest { nodes[newest]?.newer = place } else { oldest = place }
        newest = place
        places[element] = place
    }

    mutating func remove(_ element: Element) {
        guard let place = places.removeValue(forKey: element), let node = nodes[place] else { return }
        if let newer = node.newer { nodes[newer]?.older = node.older } else { newest = node.older }
        if let older = node.older { nodes[older]?.newer = node.newer } else { oldest = node.newer }
        nodes[place] = nil
        free.append(place)
    }

    /// Removes the least recently used element.
    mutating func popOldest() -> Element? {
        guard let oldest, let element = nodes[oldest]?.element else { return nil }
        remove(element)
        return element
    }
}

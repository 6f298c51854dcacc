/// Elements in the order of their last use (LRU).
struct UseQueue<Element: Hashable> {
    private var nodes: [(element: Element, newer: Int?, older: Int?)?] = []
    private var free: [Int] = []
    private var places: [Element: Int] = [:]
    private var newestPlace: Int?
    private var oldestPlace: Int?

    var count: Int { places.count }

    var oldest: Element? { oldestPlace.flatMap { nodes[$0]?.element } }

    func contains(_ element: Element) -> Bool { places[element] != nil }

    func newer(than element: Element) -> Element? {
        places[element].flatMap { nodes[$0]?.newer }.flatMap { nodes[$0]?.element }
    }

    /// Records a use of `element`, which is added if it is new.
    mutating func use(_ element: Element) {
        remove(element)
        let place = free.popLast() ?? nodes.endIndex
        if place == nodes.endIndex { nodes.append(nil) }
        nodes[place] = (element, nil, newestPlace)
        if let newestPlace { nodes[newestPlace]?.newer = place } else { oldestPlace = place }
        newestPlace = place
        places[element] = place
    }

    mutating func remove(_ element: Element) {
        guard let place = places.removeValue(forKey: element), let node = nodes[place] else { return }
        if let newer = node.newer { nodes[newer]?.older = node.older } else { newestPlace = node.older }
        if let older = node.older { nodes[older]?.newer = node.newer } else { oldestPlace = node.newer }
        nodes[place] = nil
        free.append(place)
    }

    mutating func popOldest() -> Element? {
        guard let oldest else { return nil }
        remove(oldest)
        return oldest
    }
}

/// The order of eviction by GreedyDual-Size-Frequency (Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS
/// 1997; Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", 1998).
///
/// What is worth least goes: an entry's worth is the time that it took to make, for each byte, by the number of its uses.
/// That is added to a floor, which rises to whatever is evicted: so each entry is overtaken by newer ones, unless it is
/// used again. A hit only counts; the entry moves when it comes up for eviction. Elements are small numbers.
struct EvictionQueue {
    private struct Node {
        /// What it is ordered by.
        var priority = 0.0
        /// Its place in `waiting` or in `held`.
        var place: UInt32 = 0
        /// The upper half of the time for each byte, as a `Float`: right to a hundredth.
        var worth: UInt16 = 0
        /// How often it was used, at most 255 times.
        var uses: UInt8 = 0
        var state: State = .absent
    }

    private enum State: UInt8 {
        case absent
        case waiting
        /// Likewise, and used since it entered the heap.
        case used
        /// Somebody held it when it came up.
        case held
    }

    private var nodes: [Node] = []
    /// A heap, the least priority being the first.
    private var waiting: [UInt32] = []
    private var held: [UInt32] = []
    private var floor = 0.0

    var count: Int { waiting.count + held.count }

    /// Takes in `element`, which is not in the queue: `microseconds` were spent on so many bytes.
    mutating func insert(_ element: Int, microseconds: Int, bytes: Int) {
        while nodes.count <= element { nodes.append(Node()) }
        // A job takes half a millisecond at least. Whoever makes one last long must not own the cache for that.
        let time = min(max(microseconds, 500), 1_000_000)
        let worth = Float(time) / Float(max(bytes, 1))
        nodes[element] = Node(worth: UInt16(worth.bitPattern >> 16), uses: 1)
        wait(element)
    }

    /// Notes that `element` was used.
    mutating func mark(_ element: Int) {
        guard element < nodes.count, nodes[element].state != .absent else { return }
        if nodes[element].uses < .max { nodes[element].uses += 1 }
        if nodes[element].state == .waiting { nodes[element].state = .used }
    }

    /// Notes that nobody holds `element` any more.
    mutating func letGo(_ element: Int) {
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

    /// Takes out what is worth least of those for which `isHeld` is false. The others stand aside until they are let go;
    /// when all do, one of them is taken.
    mutating func evict(isHeld: (Int) -> Bool) -> Int? {
        while let first = waiting.first {
            let element = Int(first)
            if isHeld(element) {
                takeFromWaiting(element)
                nodes[element].place = UInt32(held.count)
                nodes[element].state = .held
                held.append(first)
                continue
            }
            floor = nodes[element].priority
            takeFromWaiting(element)
            if nodes[element].state == .used {
                wait(element)
            } else {
                nodes[element].state = .absent
                return element
            }
        }
        guard let element = held.first.map({ Int($0) }) else { return nil }
        remove(element)
        return element
    }

    // MARK: The heap

    private mutating func wait(_ element: Int) {
        let worth = Float(bitPattern: UInt32(nodes[element].worth) << 16)
        nodes[element].priority = floor + Double(worth) * Double(nodes[element].uses)
        nodes[element].state = .waiting
        waiting.append(UInt32(element))
        rise(from: waiting.count - 1)
    }

    private mutating func takeFromWaiting(_ element: Int) {
        let place = Int(nodes[element].place)
        let last = waiting.removeLast()
        if place == waiting.count { return }
        waiting[place] = last
        nodes[Int(last)].place = UInt32(place)
        rise(from: place)
        sink(from: Int(nodes[Int(last)].place))
    }

    private mutating func takeFromHeld(_ element: Int) {
        let place = Int(nodes[element].place)
        let last = held.removeLast()
        if place == held.count { return }
        held[place] = last
        nodes[Int(last)].place = UInt32(place)
    }

    private func priority(_ place: Int) -> Double { nodes[Int(waiting[place])].priority }

    private mutating func rise(from place: Int) {
        var child = place
        let element = waiting[child]
        let own = nodes[Int(element)].priority
        while child > 0, own < priority((child - 1) / 2) {
            put(waiting[(child - 1) / 2], at: child)
            child = (child - 1) / 2
        }
        put(element, at: child)
    }

    private mutating func sink(from place: Int) {
        var parent = place
        let element = waiting[parent]
        let own = nodes[Int(element)].priority
        while 2 * parent + 1 < waiting.count {
            var child = 2 * parent + 1
            if child + 1 < waiting.count, priority(child + 1) < priority(child) { child += 1 }
            if own <= priority(child) { break }
            put(waiting[child], at: parent)
            parent = child
        }
        put(element, at: parent)
    }

    private mutating func put(_ element: UInt32, at place: Int) {
        waiting[place] = element
        nodes[Int(element)].place = UInt32(place)
    }

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant() -> String? {
        for (place, element) in waiting.enumerated() {
            let node = nodes[Int(element)]
            if node.place != UInt32(place) || ![.waiting, .used].contains(node.state) { return "a place in the heap" }
            if place > 0, priority(place) < priority((place - 1) / 2) { return "order of the heap" }
            if node.priority < floor { return "a priority below the floor" }
        }
        for (place, element) in held.enumerated() {
            let node = nodes[Int(element)]
            if node.place != UInt32(place) || node.state != .held { return "a place among the held" }
        }
        return nodes.count(where: { $0.state != .absent }) == count ? nil : "an element in no list"
    }
}

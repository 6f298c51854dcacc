import Foundation
import SystemValues

@testable import struct BrokerCore.EvictionQueue
@testable import struct BrokerCore.MinHeap
@testable import struct BrokerCore.UseTable

/// Elements in the order of their last use.
typealias UseQueue<Element: Hashable> = UseTable<Element, Void>

extension UseTable where Value == Void {
    func contains(_ element: Key) -> Bool { self[element] != nil }
    mutating func use(_ element: Key) { use(element, ()) }
}

/// An eviction policy. Images are named by their index in the list of all.
protocol Policy {
    /// Records a request for a cached image.
    mutating func hit(_ place: Int)
    /// Adds an image, for which the caller has made room.
    mutating func insert(_ place: Int, _ picture: Picture)
    /// Removes an image.
    mutating func evict() -> Int
}

/// Evicts the least recently used image.
struct LRU: Policy {
    private var queue = UseQueue<Int>()

    mutating func hit(_ place: Int) { queue.use(place) }
    mutating func insert(_ place: Int, _ picture: Picture) { queue.use(place) }
    mutating func evict() -> Int { queue.popOldest()! }
}

/// Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024.
struct SIEVE: Policy {
    private var queue = SieveQueue<Int>()

    mutating func hit(_ place: Int) { queue.mark(place) }
    mutating func insert(_ place: Int, _ picture: Picture) { queue.insert(place) }
    mutating func evict() -> Int { queue.evict()! }
}

/// Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023, with queues measured in bytes: new
/// entries have a tenth of the cache, and those evicted from it without a second use are remembered for a while.
struct S3FIFO: Policy {
    private struct Entry {
        let bytes: Int
        var uses = 0
        var isMain = false
    }

    private let smallCapacity: Int
    private var (small, main, ghosts) = (UseQueue<Int>(), UseQueue<Int>(), UseQueue<Int>())
    private var entries: [Int: Entry] = [:]
    private var smallBytes = 0

    /// Creates the policy for a cache of `capacity` bytes.
    init(capacity: Int) { smallCapacity = capacity / 10 }

    mutating func hit(_ place: Int) {
        entries[place]!.uses = min(3, entries[place]!.uses + 1)
    }

    mutating func insert(_ place: Int, _ picture: Picture) {
        var entry = Entry(bytes: picture.bytes)
        if ghosts.contains(place) {
            ghosts.remove(place)
            entry.isMain = true
            main.use(place)
        } else {
            smallBytes += picture.bytes
            small.use(place)
        }
        entries[place] = entry
    }

    mutating func evict() -> Int {
        while true {
            if smallBytes >= smallCapacity || main.count == 0, let place = small.popOldest() {
                var entry = entries[place]!
                smallBytes -= entry.bytes
                if entry.uses > 1 {
                    (entry.uses, entry.isMain) = (0, true)
                    entries[place] = entry
                    main.use(place)
                    continue
                }
                ghosts.use(place)
                while ghosts.count > main.count { ghosts.popOldest() }
                entries[place] = nil
                return place
            }
            let place = main.popOldest()!
            if entries[place]!.uses > 0 {
                entries[place]!.uses -= 1
                main.use(place)
            } else {
                entries[place] = nil
                return place
            }
        }
    }
}

/// Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS 1997 (GreedyDual-Size): evicts the lowest priority,
/// which is the time per byte plus a floor. The floor rises to the priority of each evicted image. And Cherkasova,
/// "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", HP Laboratories 1998: the same
/// with the time per byte multiplied by the number of uses.
///
/// Priorities only rise, so a priority that has risen since it entered the heap is corrected when it comes up.
struct GreedyDual: Policy {
    private struct Entry {
        let worth: Double
        var uses = 1.0
        var priority: Double
    }

    /// Whether priorities are multiplied by the number of uses.
    private let countsUses: Bool
    private var entries: [Int: Entry] = [:]
    private var heap = MinHeap<Double, Int>()
    private var floor = 0.0

    init(countsUses: Bool) { self.countsUses = countsUses }

    mutating func hit(_ place: Int) {
        var entry = entries[place]!
        if countsUses { entry.uses += 1 }
        entry.priority = floor + entry.uses * entry.worth
        entries[place] = entry
    }

    mutating func insert(_ place: Int, _ picture: Picture) {
        let worth = picture.milliseconds / Double(picture.bytes)
        entries[place] = Entry(worth: worth, priority: floor + worth)
        heap.insert(place, key: floor + worth)
    }

    mutating func evict() -> Int {
        while true {
            let (key, place) = heap.popFirst()!
            let priority = entries[place]!.priority
            if priority > key {
                heap.insert(place, key: priority)
            } else {
                entries[place] = nil
                floor = key
                return place
            }
        }
    }
}

/// The broker's policy: the same, but a hit only counts, uses are bounded, and new images may be on probation.
struct Shipped: Policy {
    private var queue = EvictionQueue()
    private var random = SplitMix64(state: 1)
    /// The binary logarithm of the largest factor by which a time is measured wrongly.
    let wrongDoublings: Double

    init(wrongDoublings: Double = 0) { self.wrongDoublings = wrongDoublings }

    mutating func hit(_ place: Int) { queue.mark(place) }

    mutating func insert(_ place: Int, _ picture: Picture) {
        let error = exp2(Double.random(in: -wrongDoublings...wrongDoublings, using: &random))
        var name = SplitMix64(state: UInt64(place))
        queue.insert(
            place, microseconds: Int(picture.milliseconds * error * 1000), bytes: picture.bytes,
            named: Int(truncatingIfNeeded: name.next()))
    }

    mutating func evict() -> Int { queue.evict { _ in false }! }
}

import Foundation

@testable import struct BrokerCore.EvictionQueue
@testable import struct BrokerCore.MinHeap
@testable import struct BrokerCore.SplitMix64
@testable import struct BrokerCore.UseQueue

/// What leaves the cache when there is no room. Pictures are named by their place in the list of all.
protocol Policy {
    /// A policy for a cache of so many bytes.
    init(capacity: Int)
    /// Notes that a picture, which is cached, was asked for.
    mutating func hit(_ place: Int)
    /// Takes in a picture, for which there is room.
    mutating func insert(_ place: Int, _ picture: Picture)
    /// Takes out a picture.
    mutating func evict() -> Int
}

/// What was used least recently goes.
struct LRU: Policy {
    private var queue = UseQueue<Int>()

    init(capacity: Int) {}

    mutating func hit(_ place: Int) {
        queue.use(place)
    }

    mutating func insert(_ place: Int, _ picture: Picture) { queue.use(place) }
    mutating func evict() -> Int { queue.popOldest()! }
}

/// Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024.
struct SIEVE: Policy {
    private var queue = SieveQueue<Int>()

    init(capacity: Int) {}

    mutating func hit(_ place: Int) { queue.mark(place) }
    mutating func insert(_ place: Int, _ picture: Picture) { queue.insert(place) }
    mutating func evict() -> Int { queue.evict { _ in false }! }
}

/// Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023, with queues measured in bytes: what is new
/// has a tenth of the cache, and what was driven out of it without a second use is remembered for a while.
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
                while ghosts.count > main.count { _ = ghosts.popOldest() }
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

/// Cao and Irani, "Cost-Aware WWW Proxy Caching Algorithms", USITS 1997: what is worth least goes, where the worth of a
/// picture is its time for each byte, and a floor that rises to that of whatever is evicted ages those that stay.
struct GreedyDualSize: Policy {
    private var queue = GreedyDual(countsUses: false)

    init(capacity: Int) {}

    mutating func hit(_ place: Int) { queue.hit(place) }
    mutating func insert(_ place: Int, _ picture: Picture) { queue.insert(place, picture) }
    mutating func evict() -> Int { queue.evict() }
}

/// Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", HP Laboratories 1998:
/// likewise, the worth being multiplied by the number of uses.
struct GreedyDualSizeFrequency: Policy {
    private var queue = GreedyDual(countsUses: true)

    init(capacity: Int) {}

    mutating func hit(_ place: Int) { queue.hit(place) }
    mutating func insert(_ place: Int, _ picture: Picture) { queue.insert(place, picture) }
    mutating func evict() -> Int { queue.evict() }
}

/// What both have in common. Priorities only rise, so one that has risen since it entered the heap is put right when it
/// comes up.
struct GreedyDual {
    private struct Entry {
        let worth: Double
        var uses = 1.0
        var priority: Double
    }

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

/// The product's own: likewise, but a hit only counts, and times and uses are held in a few bits.
struct Shipped: Policy {
    private var queue = EvictionQueue()

    init(capacity: Int) {}

    mutating func hit(_ place: Int) { queue.mark(place) }

    mutating func insert(_ place: Int, _ picture: Picture) {
        queue.insert(place, microseconds: Int(picture.milliseconds * 1000), bytes: picture.bytes)
    }

    mutating func evict() -> Int { queue.evict { _ in false }! }
}

/// The product's, where each time was measured wrongly, by up to four times too much or too little.
struct Misjudging: Policy {
    private var queue = EvictionQueue()
    private var random = SplitMix64(state: 1)

    init(capacity: Int) {}

    mutating func hit(_ place: Int) { queue.mark(place) }

    mutating func insert(_ place: Int, _ picture: Picture) {
        let error = exp2(Double.random(in: -2...2, using: &random))
        queue.insert(place, microseconds: Int(picture.milliseconds * error * 1000), bytes: picture.bytes)
    }

    mutating func evict() -> Int { queue.evict { _ in false }! }
}

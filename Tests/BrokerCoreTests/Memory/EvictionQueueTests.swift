import SystemValues
import Testing

@testable import BrokerCore

/// GreedyDual-Size-Frequency, as the index uses it.
struct EvictionQueueTests {
    private var queue = EvictionQueue()

    private mutating func evict(isHeld: (Int) -> Bool = { _ in false }) -> Int? { queue.evict(isHeld: isHeld) }

    @Test mutating func `the lowest value per byte is evicted first`() {
        queue.insert(0, microseconds: 20_000, bytes: 100_000)
        queue.insert(1, microseconds: 20_000, bytes: 1_000_000)
        queue.insert(2, microseconds: 2_000, bytes: 100_000)
        queue.insert(3, microseconds: 1_000, bytes: 100_000)
        let evicted = (0..<5).map { _ in evict() }
        #expect(evicted == [3, 1, 2, 0, nil] || evicted == [3, 2, 1, 0, nil])
        #expect(queue.count == 0)
    }

    @Test mutating func `uses multiply the value`() {
        for element in 0..<4 { queue.insert(element, microseconds: 10_000 + element, bytes: 1000) }
        for _ in 0..<3 { queue.mark(0) }
        queue.mark(2)
        // The unused two are evicted first, and the most used one last.
        let evicted = (0..<4).map { _ in evict() }
        #expect(Set(evicted[..<2]) == [1, 3])
        #expect(evicted[2...] == [2, 0])
    }

    @Test mutating func `an entry that is no longer used is overtaken`() {
        queue.insert(0, microseconds: 20_000, bytes: 1000)
        for _ in 0..<10_000 { queue.mark(0) }
        // 20 times the decode time; uses saturate at 255.
        var rounds = 0
        for element in 1...300_000 {
            queue.insert(element % 64 + 1, microseconds: 1_000, bytes: 1000)
            if queue.count > 32, evict() == 0 { break }
            rounds = element
        }
        #expect(rounds < 300_000)
    }

    @Test mutating func `a scan does not evict entries in use`() {
        for element in 0..<10 {
            queue.insert(element, microseconds: 5000, bytes: 10_000)
            queue.mark(element)
        }
        for element in 10..<1000 {
            queue.insert(element, microseconds: 5000, bytes: 10_000)
            if element % 5 == 0 { for popular in 0..<10 { queue.mark(popular) } }
            if queue.count > 20 {
                let evicted = evict()
                #expect(evicted.map { $0 >= 10 } == true)
            }
        }
    }

    @Test mutating func `a held entry is passed over until it is released`() {
        for element in 0..<4 { queue.insert(element, microseconds: 1000 + element * element * 1000, bytes: 1000) }
        let first = evict { $0 < 2 }
        #expect(first == 2)
        queue.release(0)
        let second = evict { $0 == 1 }
        #expect(second == 0)
        let rest = (0..<3).map { _ in evict { _ in true } }
        #expect(Set(rest) == [1, 3, nil])
    }

    @Test(arguments: 1...10)
    mutating func `random steps lose and double nothing`(seed: UInt64) {
        var random = SplitMix64(state: seed)
        var model: Set<Int> = []
        for _ in 0..<3000 {
            let element = Int.random(in: 0..<60, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                if model.insert(element).inserted {
                    queue.insert(
                        element, microseconds: .random(in: 0...2_000_000, using: &random),
                        bytes: .random(in: 0...1_000_000, using: &random))
                }
            case 2: queue.mark(element)
            case 3: queue.release(element)
            case 4:
                queue.remove(element)
                model.remove(element)
            default:
                let held = Int.random(in: 1...4, using: &random)
                let evicted = evict { $0 % held == 0 }
                if let evicted {
                    let wasThere = model.remove(evicted) != nil
                    #expect(wasThere)
                } else {
                    #expect(model.isEmpty)
                }
            }
            #expect(queue.count == model.count)
            #expect(queue.brokenInvariant() == nil)
        }
    }

    // MARK: Probation

    /// Requests elements of one cost from a queue with room for `room`, and returns the share of hits.
    private mutating func hits(_ cached: inout Set<Int>, room: Int, _ requests: some Sequence<Int>) -> Double {
        var (hits, count) = (0, 0)
        for element in requests {
            count += 1
            if cached.contains(element) {
                hits += 1
                queue.mark(element)
                continue
            }
            if cached.count == room, let evicted = evict() { cached.remove(evicted) }
            var name = SplitMix64(state: UInt64(element))
            queue.insert(element, microseconds: 2000, bytes: 100_000, named: Int(truncatingIfNeeded: name.next()))
            cached.insert(element)
        }
        return Double(hits) / Double(count)
    }

    @Test mutating func `random passes over three times the cache hit nearly a third`() {
        var (cached, random) = (Set<Int>(), SplitMix64(state: 1))
        let passes = (0..<12).map { _ in
            hits(&cached, room: 1000, (0..<3000).shuffled(using: &random))
        }
        // Without probation, 0.07.
        #expect(passes[6...].allSatisfy { $0 > 0.28 }, "\(passes)")
        #expect(queue.brokenInvariant() == nil)
    }

    @Test mutating func `what is used again takes the place of what is not`() {
        var (cached, random) = (Set<Int>(), SplitMix64(state: 1))
        for _ in 0..<6 { _ = hits(&cached, room: 1000, (0..<3000).shuffled(using: &random)) }
        let rounds = (0..<12).map { _ in
            hits(&cached, room: 1000, (3000..<3500).shuffled(using: &random))
        }
        #expect(rounds[8...].allSatisfy { $0 > 0.95 }, "\(rounds)")
        #expect(queue.brokenInvariant() == nil)
    }

    @Test mutating func `an element in another pool stays in the sample`() {
        queue.insert(0, microseconds: 2000, bytes: 100, named: 16)
        queue.move(0, to: 1)
        #expect(queue.brokenInvariant() == nil)
        queue.mark(0)
        queue.remove(0)
        #expect(queue.brokenInvariant() == nil && queue.count == 0)
    }
}

import Testing

@testable import BrokerCore

/// Pieces of bytes in segments, compared with a dictionary.
struct SegmentStoreTests {
    @Test(arguments: [(seed: 1, longest: 300, count: 200), (2, 5_000, 2_000), (3, 64 << 10, 200), (4, 3 << 20, 8)])
    func `random steps have the result of a dictionary`(seed: Int, longest: Int, count: Int) {
        var random = SplitMix64(state: UInt64(seed))
        var store = SegmentStore()
        var model: [Int: [UInt8]] = [:]
        for step in 0..<(4 * count + 400) {
            if model.count < count, step < 3 * count || Bool.random(using: &random) {
                let length = Int.random(in: 0...longest, using: &random)
                let piece = [UInt8](repeating: UInt8(truncatingIfNeeded: step), count: length)
                let slot = store.insert(piece)
                #expect(model[slot] == nil)
                model[slot] = piece
            } else if let slot = model.keys.randomElement(using: &random) {
                #expect(Array(store[slot]) == model[slot])
                store.remove(slot)
                if step % 3 == 0 { store.compact() }
                model[slot] = nil
            }
            #expect(store.count == model.count)
            if step % 50 == 0 { #expect(store.brokenInvariant() == nil) }
        }
        #expect(Set(store.slots) == Set(model.keys))
        #expect(model.allSatisfy { Array(store[$0]) == $1 })
        #expect(store.brokenInvariant() == nil)
    }

    /// The heap has the rest; `Tests/IntegrationTests` and the benchmark `small-memory` measure the process.
    @Test func `hardly more bytes are in use than those of the pieces`() {
        var random = SplitMix64(state: 5)
        var store = SegmentStore()
        var slots = (0..<20_000).map { _ in store.insert([UInt8](repeating: 1, count: 1_000)) }
        slots.shuffle(using: &random)
        for _ in 0..<15_000 {
            store.remove(slots.removeLast())
            store.compact()
            let live = slots.count * 1_008
            #expect(store.usedBytes <= live + live / 15 + SegmentStore.segmentBytes)
        }
        // Without a copy.
        for slot in slots { store.remove(slot) }
        #expect(store.usedBytes == 0 && store.allocatedBytes == 0)
        #expect(store.brokenInvariant() == nil)
    }

    @Test func `slots are used again`() {
        var store = SegmentStore()
        let slots = (0..<100).map { store.insert([UInt8($0)]) }
        for slot in slots { store.remove(slot) }
        #expect(Set((0..<100).map { store.insert([UInt8($0)]) }) == Set(slots))
    }
}

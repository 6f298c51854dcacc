import SystemValues
import Testing

@testable import BrokerCore

/// The table of the index, compared with a dictionary.
struct SlotTableTests {
    /// A key with many hash collisions.
    private struct Key: Hashable {
        let number: Int

        func hash(into hasher: inout Hasher) { hasher.combine(number % 7) }
    }

    private struct Record: KeyedRecord {
        let key: Key
        var value: Int
    }

    @Test(arguments: [40, 700])
    func `random steps have the result of a dictionary`(keys: Int) {
        var random = SplitMix64(state: UInt64(keys))
        var table = SlotTable<Record>()
        var model: [Key: Int] = [:]
        var slots: [Key: Int] = [:]
        for step in 0..<20_000 {
            let key = Key(number: Int.random(in: 0..<keys, using: &random))
            if let slot = table.slot(of: key) {
                #expect(slots[key] == slot)
                #expect(table[key]?.value == model[key])
                if Bool.random(using: &random) {
                    let removed = table.remove(at: slot)
                    #expect(removed.value == model.removeValue(forKey: key))
                    slots[key] = nil
                } else {
                    table[slot].value = step
                    model[key] = step
                }
            } else {
                #expect(model[key] == nil)
                slots[key] = table.insert(Record(key: key, value: step))
                model[key] = step
            }
            #expect(table.count == model.count)
        }
        #expect(Dictionary(uniqueKeysWithValues: table.map { ($0.key, $0.value) }) == model)
    }

    @Test func `slots are used again`() {
        var table = SlotTable<Record>()
        let slots = (0..<2000).map { table.insert(Record(key: Key(number: $0), value: 0)) }
        for slot in slots { table.remove(at: slot) }
        let again = (0..<2000).map { table.insert(Record(key: Key(number: $0), value: 0)) }
        #expect(Set(again) == Set(slots))
    }
}

struct SlotListTests {
    @Test(arguments: 1...20) func `has the slots that were added and not removed, in their order`(seed: UInt64) {
        var random = SplitMix64(state: seed)
        var (list, expected) = (SlotList(), [Int]())
        for slot in 0..<200 {
            if expected.count < 6, Bool.random(using: &random) {
                list.append(slot)
                expected.append(slot)
            } else if let slot = expected.randomElement(using: &random) {
                list.remove(slot)
                expected.removeAll { $0 == slot }
            }
            #expect(Array(list) == expected)
            #expect(list.last == expected.last)
        }
    }
}

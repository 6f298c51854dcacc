import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Slots named to clients with the validity page, and their invalidation.
final class ValidityTests {
    private var world: StrictWorld
    private var client: ClientID

    init() {
        (world, client) = StrictWorld.ready().connected()
        world.greet(client)
    }

    /// Loads an image of 10 × 10 pixels for another client, which releases it unless `holds` is set.
    private func load(
        _ path: String, content: Int = 1, holds: Bool = false, _ change: (inout ResponseRecord) -> Void = { _ in }
    ) throws {
        let loader = world.connect()
        try world.download(loader, id: 1, path, content: content, response: change)
        world.decodeAll()
        #expect(world.image(loader, 1)?.slot == nil)
        if !holds { world.disconnect(loader) }
    }

    private func hit(_ id: Int, _ path: String, by client: ClientID? = nil) -> ImageReply? {
        world.get(client ?? self.client, id: id, path)
        return world.image(client ?? self.client, id)
    }

    @Test func `a plain hit has a slot, for clients that have the page`() throws {
        try load("a") { $0.etag = "\"tag\"" }
        let slot = try #require(hit(1, "a")?.slot)
        #expect(world.isValid(slot) && hit(2, "a")?.slot == slot)
        #expect(hit(1, "a", by: world.connect())?.slot == nil)
        for (id, change) in [
            { $0.delivery = .none }, { $0.delivery = .inline }, { $0.retryFailed = true }, { $0.maxAgeSeconds = 1000 },
        ].enumerated() as EnumeratedSequence<[(inout GetOptions) -> Void]> {
            #expect(world.getImage(client, id: 10 + id, "a", change)?.slot == nil)
        }
        try world.confirm(client, id: 20, "a") { $0.cache = .noCache }
        #expect(world.image(client, 20)?.slot == nil)
        // A revalidation replaces the origin's statement.
        #expect(!world.isValid(slot) && hit(21, "a")?.slot?.generation == slot.generation + 1)
    }

    @Test func `a slot ends with the freshness`() throws {
        try load("a") { $0.cacheControl = "max-age=10" }
        let slot = try #require(hit(1, "a")?.slot)
        #expect(world.after(9_700).isValid(slot))
        #expect(!world.after(300).isValid(slot) && world.words[slot.number]?.expiry != 0)
    }

    @Test func `a slot ends when the buffer has no holder, and when the broker shuts down`() throws {
        try load("a")
        let image = try #require(hit(1, "a"))
        let slot = try #require(image.slot)
        world.happen(.messageReceived(client, .release(buffers: [try #require(image.buffer)])))
        #expect(!world.isValid(slot))
        world.descriptors[client] = []
        let next = try #require(hit(2, "a")?.slot)
        #expect(world.isValid(next))
        world.happen(.shutdownRequested)
        #expect(!world.isValid(next))
    }

    @Test func `a touched buffer is evicted last`() throws {
        // Room for five images of 400 bytes, or for two and an original.
        (world, client) = StrictWorld.ready { $0.memoryBytes = 2000 }.connected()
        world.greet(client)
        var kept: [ImageReply] = []
        for number in 1...3 {
            try load("\(number)", content: number)
            kept.append(try #require(hit(number, "\(number)")))
        }
        let (hot, slots) = (try #require(kept[1].buffer), kept.compactMap(\.slot))
        #expect(slots.count == 3)
        // All images are held, so none is evicted first for being free.
        for number in 4...9 {
            world.happen(.messageReceived(client, .touch(buffers: [hot], hits: 100)))
            try load("\(number)", content: number, holds: true)
        }
        #expect(slots.map { world.isValid($0) } == [false, true, false])
        #expect(world.state.report[.mappedHits] == 600)
        // A touch of another client's leases has no effect.
        world.happen(.messageReceived(world.stranger, .touch(buffers: [hot, 0, 1 << 40], hits: 1)))
        #expect(world.state.report[.mappedHits] == 601)
    }

    @Test func `without a page no reply has a slot`() throws {
        (world, client) = StrictWorld.ready { $0.validitySlots = 0 }.connected()
        world.greet(client)
        try load("a")
        #expect(hit(1, "a")?.slot == nil)
    }
}

/// The assignment of slots, and the changes that it reports.
struct ValiditySlotTests {
    /// The slots in an object, because `#expect` cannot call a mutating method.
    private final class Table {
        var slots: ValiditySlots

        init(capacity: Int, lastGeneration: UInt32 = .max) {
            slots = ValiditySlots(capacity: capacity, lastGeneration: lastGeneration)
        }

        func assign(_ buffer: Int, _ key: OriginalKey) -> ImageReply.Slot? {
            slots.assignSlot(to: BufferID(number: buffer), for: key, until: Instant(nanoseconds: 50_000_000_000))
        }

        func changes() -> [ValiditySlots.Change] { slots.takeChanges() }
    }

    @Test func aSlotStandsForAnOriginalAsABuffer() throws {
        let table = Table(capacity: 10)
        let (a, b) = (try originalKey("a"), try originalKey("b"))
        let first = try #require(table.assign(1, a))
        #expect(table.assign(1, a) == first)
        #expect(table.assign(1, b)?.number == 1)
        #expect(table.assign(2, a)?.number == 2)
        #expect(table.changes().map(\.slot) == [0, 1, 2])
        #expect(table.changes().isEmpty)
        table.slots.end(a)
        #expect(table.changes().map(\.validUntil.nanoseconds) == [0, 0])
        #expect(table.slots.keys(of: BufferID(number: 1)) == [b])
        table.slots.end(BufferID(number: 1))
        #expect(table.changes() == [.init(slot: 1, generation: 1, validUntil: Instant(nanoseconds: 0))])
        // An invalidated slot is reused with the next generation.
        #expect(table.assign(1, a)?.generation == 2)
        let change = try #require(table.changes().first)
        #expect(change.generation == 2 && change.validUntil == Instant(nanoseconds: 50_000_000_000))
        table.slots.endAll()
        #expect(table.changes().count == 1)
        #expect(table.slots.brokenInvariant { _, _ in false } == nil)
    }

    @Test func aSlotIsNotAssignedAfterItsLastGeneration() throws {
        let table = Table(capacity: 2, lastGeneration: 3)
        for generation in 1...3 {
            for buffer in 1...2 {
                #expect(table.assign(buffer, try originalKey("a"))?.generation == UInt32(generation))
            }
            #expect(table.assign(3, try originalKey("a")) == nil)
            table.slots.endAll()
        }
        #expect(table.assign(1, try originalKey("a")) == nil)
    }

    @Test func endingAnOwnOriginalEndsTheSharedOne() throws {
        let table = Table(capacity: 10)
        _ = table.assign(1, try originalKey("a"))
        table.slots.end(try originalKey("b").owned(by: 1))
        #expect(table.changes().count == 1)
        table.slots.end(try originalKey("a").owned(by: 1))
        #expect(table.changes().last?.validUntil.nanoseconds == 0)
    }
}

/// Responses age while the machine is suspended, although the monotonic clock stands still.
struct SuspensionTests {
    private var (world, client) = StrictWorld.ready().connected()

    init() {
        world.cacheControl = "max-age=60"
        world.load(client, id: 1, "a", content: 1)
    }

    @Test func `what was fresh before a long suspension is asked for again`() throws {
        #expect(world.getImage(client, id: 2, "a")?.stale == false)
        #expect(world.fetches.isEmpty)
        world.happen(.machineSuspended(milliseconds: 8 * 3_600_000))
        #expect(world.words.values.allSatisfy { $0.expiry == 0 })
        world.get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil && world.fetches.count == 1)
        // A response after it is as fresh as ever.
        try world.finishFetch(content: 1)
        #expect(world.getImage(client, id: 4, "a")?.stale == false)
        #expect(world.after(59_000).getImage(client, id: 5, "a") != nil)
        world.after(2000).get(client, id: 6, "a")
        #expect(world.answers[client]?[6] == nil)
    }

    @Test func `a short suspension ends nothing but slots`() {
        world.happen(.machineSuspended(milliseconds: 30_000))
        #expect(world.getImage(client, id: 2, "a")?.stale == false)
        world.after(31_000).get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil)
    }
}

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

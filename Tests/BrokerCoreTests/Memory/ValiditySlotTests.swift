import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The assignment of slots, and the changes that it reports.
@Suite struct ValiditySlotTests {
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

    private func key(_ path: String) throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL("http://origin.test/\(path)")), uid: 1)
    }

    @Test func aSlotStandsForAnOriginalAsABuffer() throws {
        let table = Table(capacity: 10)
        let (a, b) = (try key("a"), try key("b"))
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
            for buffer in 1...2 { #expect(table.assign(buffer, try key("a"))?.generation == UInt32(generation)) }
            #expect(table.assign(3, try key("a")) == nil)
            table.slots.endAll()
        }
        #expect(table.assign(1, try key("a")) == nil)
    }

    @Test func endingAnOwnOriginalEndsTheSharedOne() throws {
        let table = Table(capacity: 10)
        _ = table.assign(1, try key("a"))
        table.slots.end(try key("b").owned(by: 1))
        #expect(table.changes().count == 1)
        table.slots.end(try key("a").owned(by: 1))
        #expect(table.changes().last?.validUntil.nanoseconds == 0)
    }
}

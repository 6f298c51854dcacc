import HTTPValues
import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import Testing

@testable import imgbroker

/// Which slot names what, for how long.
@Suite struct ValiditySlotTests {
    /// The slots of a test, as what is expected of a value cannot change it.
    private final class Table {
        var slots: ValiditySlots

        init(capacity: Int, lastGeneration: UInt32 = .max) {
            slots = ValiditySlots(capacity: capacity, lastGeneration: lastGeneration)
        }

        func name(_ buffer: Int, _ key: OriginalKey) -> ImageReply.Slot? {
            slots.name(BufferID(number: buffer), of: key, until: Instant(nanoseconds: 50_000_000_000))
        }

        func changes() -> [ValiditySlots.Change] { slots.takeChanges() }
    }

    private func key(_ path: String) throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL("http://origin.test/\(path)")), uid: 1)
    }

    @Test func aSlotIsAnOriginalAsABuffer() throws {
        let table = Table(capacity: 10)
        let (a, b) = (try key("a"), try key("b"))
        let first = try #require(table.name(1, a))
        #expect(table.name(1, a) == first)
        #expect(table.name(1, b)?.number == 1)
        #expect(table.name(2, a)?.number == 2)
        #expect(table.changes().map(\.slot) == [0, 1, 2])
        #expect(table.changes().isEmpty)
        table.slots.end(a)
        #expect(table.changes().map(\.word.expiry) == [0, 0])
        #expect(table.slots.keys(of: BufferID(number: 1)) == [b])
        table.slots.end(BufferID(number: 1))
        #expect(table.changes() == [.init(slot: 1, word: ValidityWord(generation: 1, expiry: 0))])
        // What was used is used again, as another generation.
        #expect(table.name(1, a)?.generation == 2)
        let word = ValidityWord(generation: 2, validUntil: Instant(nanoseconds: 50_000_000_000))
        #expect(table.changes().first?.word == word)
        table.slots.endAll()
        #expect(table.changes().count == 1)
        #expect(table.slots.brokenInvariant { _, _ in false } == nil)
    }

    @Test func whatIsAllUsedUpIsNamedNoMore() throws {
        let table = Table(capacity: 2, lastGeneration: 3)
        for generation in 1...3 {
            for buffer in 1...2 { #expect(table.name(buffer, try key("a"))?.generation == UInt32(generation)) }
            #expect(table.name(3, try key("a")) == nil)
            table.slots.endAll()
        }
        #expect(table.name(1, try key("a")) == nil)
    }

    @Test func anOriginalOfOnesOwnEndsThatOfAll() throws {
        let table = Table(capacity: 10)
        _ = table.name(1, try key("a"))
        table.slots.end(try key("b").owned(by: 1))
        #expect(table.changes().count == 1)
        table.slots.end(try key("a").owned(by: 1))
        #expect(table.changes().last?.word.expiry == 0)
    }

    @Test func aWordEndsBeforeItsTime() {
        func expiry(_ nanoseconds: Int64) -> UInt32 {
            ValidityWord(generation: 1, validUntil: Instant(nanoseconds: nanoseconds)).expiry
        }
        #expect(expiry(1_020_000_000) == 10)
        #expect(expiry(1_019_999_999) == 9)
        #expect(expiry(0) == 0)
        #expect(expiry(.max) == .max)
        let word = ValidityWord(generation: .max, expiry: 5)
        #expect(ValidityWord(rawValue: word.rawValue) == word)
    }
}

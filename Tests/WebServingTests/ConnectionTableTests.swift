import HTTPValues
import SystemValues
import Testing

@testable import WebServing

/// Which connections a server serves, without connections.
struct ConnectionTableTests {
    private static let limits = ConnectionTable.Limits()
    private static let limit = Int32(limits.connections)
    private static let share = Int32(limits.share)

    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }
    private func time(_ milliseconds: Int) -> Instant { Instant(nanoseconds: 0).adding(milliseconds: milliseconds) }

    /// A table with as many connections as it takes, of different clients.
    private func full() throws -> ConnectionTable {
        var table = ConnectionTable(Self.limits)
        for id in 0..<Self.limit { #expect(table.open(id, from: try address("192.0.2.\(id)"), at: time(0)) == nil) }
        return table
    }

    @Test(arguments: [
        ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.9"], ["192.0.2.1", "::ffff:192.0.2.1"],
        ["2001:db8::1", "2001:db8::2:0:0:1"],
    ])
    func `a client with its share ends its own oldest connection`(addresses: [String]) throws {
        var table = ConnectionTable(Self.limits)
        for id in 0..<Self.share {
            let text = addresses[Int(id) % addresses.count]
            #expect(table.open(id, from: try address(text), at: time(Int(id))) == nil)
        }
        #expect(table.open(100, from: try address("192.0.2.200"), at: time(20)) == nil)
        #expect(table.open(101, from: try address(addresses[0]), at: time(20))?.id == 0)
        #expect(table.open(102, from: try address(addresses[0]), at: time(20))?.id == 1)
    }

    @Test func `the oldest connection makes room, unless its answer is being made`() throws {
        var table = try full()
        #expect(table.beginAnswer(0, isHealth: true) == true)
        #expect(table.open(100, from: try address("198.51.100.1"), at: time(1))?.id == 1)
        table.endAnswer(0, at: time(2))
        #expect(table.open(101, from: try address("198.51.100.2"), at: time(3))?.id == 0)
        #expect(table.beginAnswer(0, isHealth: true) == false)
    }

    @Test func `some connections are left to checks of the health`() throws {
        var table = try full()
        let others = Self.limit - Int32(Self.limits.healthReserve)
        for id in 0..<others { #expect(table.beginAnswer(id, isHealth: false) == true) }
        #expect(table.beginAnswer(others, isHealth: false) == false)
        for id in others..<Self.limit { #expect(table.beginAnswer(id, isHealth: true) == true) }
        // All answers are being made: nothing can end for another.
        #expect(table.open(100, from: try address("198.51.100.1"), at: time(1))?.id == 100)
        #expect(table.beginAnswer(100, isHealth: true) == false)
        table.close(0)
        #expect(table.open(101, from: try address("198.51.100.1"), at: time(1)) == nil)
    }

    @Test func `headers and answers have a time limit, however often bytes come`() throws {
        var table = ConnectionTable(Self.limits)
        let (header, send) = (Self.limits.headerMilliseconds, Self.limits.sendMilliseconds)
        for id: Int32 in 1...3 { #expect(table.open(id, from: try address("::1"), at: time(0)) == nil) }
        for id: Int32 in 2...3 { #expect(table.beginAnswer(id, isHealth: false) == true) }
        #expect(table.takeExpired(at: time(header - 1)) == [])
        #expect(table.takeExpired(at: time(header)).map(\.id) == [1])
        #expect(table.nextDeadline == nil)
        table.endAnswer(2, at: time(header))
        #expect(table.nextDeadline == time(header + send))
        #expect(table.takeExpired(at: time(header + send)).map(\.id) == [2])
    }

    @Test func `a body has a time of its own, and is refused once`() throws {
        var table = ConnectionTable(Self.limits)
        for id: Int32 in 1...2 { #expect(table.open(id, from: nil, at: time(0)) == nil) }
        table.beginBody(1, at: time(4000))
        let body = 4000 + Self.limits.bodyMilliseconds
        #expect(table.takeExpired(at: time(body - 1)).map(\.phase) == [.header])
        #expect(table.takeExpired(at: time(body)).map(\.phase) == [.body])
        #expect(table.open(3, from: nil, at: time(0)) == nil)
        #expect(table.refuse(3) == true)
        #expect(table.refuse(3) == false)
        // An answer in the making, or on its way, is not cut short by another.
        #expect(table.open(4, from: nil, at: time(0)) == nil)
        #expect(table.beginAnswer(4, isHealth: false) == true)
        #expect(table.refuse(4) == false)
        table.endAnswer(4, at: time(0))
        #expect(table.refuse(4) == false)
    }
}

@testable import imgbroker

struct ClientTurnsTests {
    @Test func `users take turns, and each user's clients`() {
        var turns = ClientTurns()
        for number in 1...4 { turns.append(ClientID(number: number), of: 1000) }
        #expect(turns.popFirst() == ClientID(number: 1))
        turns.append(ClientID(number: 10), of: 1001)
        turns.append(ClientID(number: 11), of: 1001)
        turns.append(ClientID(number: 1), of: 1000)
        var order: [Int] = []
        while let client = turns.popFirst() { order.append(client.number) }
        #expect(order == [10, 2, 11, 3, 4, 1])
        #expect(turns.isEmpty && turns.popFirst() == nil)
    }

    @Test func `many users come and go`() {
        var turns = ClientTurns()
        for round in 0..<100 {
            for user in 0..<40 { turns.append(ClientID(number: round * 40 + user), of: UInt32(round * 7 + user)) }
            for left in (0..<40).reversed() { #expect(turns.popFirst() != nil && turns.count == left) }
        }
        #expect(turns.popFirst() == nil)
    }
}

import BrokerCore
import Testing

@testable import imgbroker

@Suite struct ClientBacklogTests {
    @Test func `users take turns, and each user's clients`() {
        var backlog = ClientBacklog()
        for number in 1...4 { backlog.append(ClientID(number: number), of: 1000) }
        #expect(backlog.popFirst() == ClientID(number: 1))
        backlog.append(ClientID(number: 10), of: 1001)
        backlog.append(ClientID(number: 11), of: 1001)
        backlog.append(ClientID(number: 1), of: 1000)
        var order: [Int] = []
        while let client = backlog.popFirst() { order.append(client.number) }
        #expect(order == [10, 2, 11, 3, 4, 1])
        #expect(backlog.isEmpty && backlog.popFirst() == nil)
    }

    @Test func `many users come and go`() {
        var backlog = ClientBacklog()
        for round in 0..<100 {
            for user in 0..<40 { backlog.append(ClientID(number: round * 40 + user), of: UInt32(round * 7 + user)) }
            for left in (0..<40).reversed() {
                #expect(backlog.popFirst() != nil && backlog.count == left)
            }
        }
        #expect(backlog.popFirst() == nil)
    }
}

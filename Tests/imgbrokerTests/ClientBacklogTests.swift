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
        #expect(order == [2, 10, 3, 11, 4, 1])
        #expect(backlog.isEmpty && backlog.popFirst() == nil)
    }
}

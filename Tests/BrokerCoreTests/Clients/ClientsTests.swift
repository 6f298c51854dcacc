import IPCProtocol
import Testing

@testable import BrokerCore

/// `Clients` and its quotas in isolation.
struct ClientsTests {
    private let client = ClientID(number: 1)
    private let buffer = BufferID(number: 7)
    private let room = Clients.Room(bytes: 1000, buffers: 10)

    private func clients(_ change: (inout BrokerLimits) -> Void = { _ in }) -> Clients {
        var limits = BrokerLimits()
        change(&limits)
        var clients = Clients(limits: limits)
        #expect(clients.connected(client, uid: 1, isAdmin: false) == nil)
        return clients
    }

    @Test func `a user gets four fifths of the connections`() {
        var clients = clients { $0.maxClients = 10 }
        let refusals = (2...10).map { clients.connected(ClientID(number: $0), uid: 1, isAdmin: false) }
        #expect(refusals.count { $0 == nil } == 7)
        #expect(clients.connected(ClientID(number: 11), uid: 2, isAdmin: false) == nil)
    }

    @Test func `a lingering connection counts until it is closed`() {
        var clients = clients()
        clients.connectionLingers(of: 1)
        _ = clients.removed(client)
        #expect(clients.connectionsTaken == 1 && clients.count == 0)
        clients.connectionClosed(of: 1)
        #expect(clients.connectionsTaken == 0)
    }

    @Test func `ended segments count once for all, and for each client that has them`() {
        let other = ClientID(number: 2)
        var clients = clients()
        #expect(clients.connected(other, uid: 2, isAdmin: false) == nil)
        for client in [client, other] { clients.sent(segment: 3, to: client) }
        clients.sent(segment: 4, to: other)
        #expect(clients.ended(3, bytes: 1000) == [client, other])
        #expect(clients.endedSegmentBytes == 1000)
        let held = LeaseTable.Amount(buffers: 1, bytes: 1000)
        #expect(clients.held(by: client) == held && clients.held(by: other) == held)
        #expect(clients.kept(of: client).isEmpty && clients.keptSegments(of: client).map(\.endedBytes) == [1000])
        clients.forget([3, 4, 5], by: client)
        #expect(clients.held(by: client) == LeaseTable.Amount() && clients.endedSegmentBytes == 1000)
        #expect(clients.removed(other).isEmpty && clients.endedSegmentBytes == 0)
    }

    @Test func `requests count by weight until they end`() {
        var clients = clients()
        clients.began(1, .get(WaiterID(number: 1)), weight: 3, of: client)
        clients.began(2, .other, weight: 1, of: client)
        clients.began(2, .other, weight: 1, of: client)
        #expect(clients.pendingWeight == 4 && clients[client]?.requests.count == 2)
        #expect(clients[client]?.requests[2] != nil && !clients.mayRepeat(client))
        #expect(clients.ended(2, of: client) == true)
        #expect(clients.ended(2, of: client) == false)
        clients.ended(1, of: client)
        #expect(clients.pendingWeight == 0 && clients.mayRepeat(client))
    }

    @Test func `a client that disconnects releases everything`() {
        var clients = clients()
        clients.began(1, .prefetch(PrefetchID(number: 1)), weight: 5, of: client)
        #expect(clients.subscribe(client, to: [.started], id: 3) == nil)
        #expect(clients.grant(buffer, bytes: 10, to: client, of: 1, .lease) == true)
        #expect(clients.grant(BufferID(number: 8), bytes: 10, to: client, of: 1, .sending) == true)
        #expect(clients[client]?.requests[1]?.kind == .prefetch(PrefetchID(number: 1)))
        #expect(Set(clients.removed(client)) == [buffer, BufferID(number: 8)])
        #expect(clients.pendingWeight == 0 && clients.subscriptionsTaken == 0 && clients.connectionsTaken == 0)
        #expect(!clients.hasSubscribers && clients.holdings.isEmpty && clients.leased(by: 1) == .init())
    }

    @Test func `a buffer is held once for each client, however many leases`() {
        var clients = clients()
        #expect(clients.grant(buffer, bytes: 10, to: client, of: 1, .lease) == true)
        #expect(clients.grant(buffer, bytes: 10, to: client, of: 1, .lease) == false)
        #expect(clients.release(buffer, from: client) == false)
        #expect(clients.release(buffer, from: client) && !clients.release(buffer, from: client))
    }

    @Test func `a client leases up to its share, and always one buffer`() {
        var clients = clients()
        func refusal(_ bytes: Int, _ room: Clients.Room) -> ErrorCode? {
            clients.refusal(of: bytes, in: buffer, to: client, of: 1, by: .fd, room: room)?.code
        }
        #expect(refusal(5000, room) == nil)
        #expect(refusal(1, Clients.Room(bytes: 0, buffers: 1)) == .overloaded)
        _ = clients.grant(BufferID(number: 1), bytes: 600, to: client, of: 1, .lease)
        #expect(refusal(400, room) == nil && refusal(401, room) == .quotaExceeded)
        _ = clients.grant(buffer, bytes: 900, to: client, of: 1, .lease)
        // A client that already leases the buffer may lease it again.
        #expect(refusal(900, room) == nil)
    }

    @Test func `events go to administrators and to the users they are about`() {
        var clients = clients()
        let (other, admin) = (ClientID(number: 2), ClientID(number: 3))
        #expect(clients.connected(other, uid: 2, isAdmin: false) == nil)
        #expect(clients.connected(admin, uid: 0, isAdmin: true) == nil)
        for client in [client, other, admin] { #expect(clients.subscribe(client, to: [.started], id: 1) == nil) }
        #expect(clients.recipients(of: .started, about: [1]).map(\.client) == [client, admin])
        #expect(clients.recipients(of: .failed, about: [1]).isEmpty)
        for _ in 1..<8 { #expect(clients.subscribe(client, to: [.started], id: 1) == nil) }
        #expect(clients.subscribe(client, to: [.started], id: 1)?.code == .quotaExceeded)
    }
}

struct HelperSharesTests {
    /// Lets users hold up as many as they may, each in turn, and returns how many each has.
    private func heldUp(byUsers users: Int) -> [Int] {
        var held = Array(repeating: 0, count: users)
        for _ in 0..<4 {
            for user in held.indices where HelperShares.permits(own: held[user], all: held.reduce(0, +)) {
                held[user] += 1
            }
        }
        return held
    }

    @Test(arguments: 1..<HelperShares.limit) func `one more user always has a process`(others: Int) {
        let held = heldUp(byUsers: others)
        #expect(held.allSatisfy { $0 >= 1 && $0 <= HelperShares.ofUser })
        #expect(HelperShares.permits(own: 0, all: held.reduce(0, +)))
    }

    @Test func `a user has two, and all have a limit`() {
        #expect(heldUp(byUsers: 1) == [2])
        #expect(heldUp(byUsers: 4) == [2, 2, 2, 2])
        #expect(heldUp(byUsers: 9) == [1, 1, 1, 1, 1, 1, 1, 1, 1])
        #expect(heldUp(byUsers: 100).reduce(0, +) == HelperShares.limit)
    }
}

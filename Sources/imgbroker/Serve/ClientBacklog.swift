import BrokerCore

/// The clients with messages to be served: users take turns, and each user's clients, in the order of their arrival. So a user's
/// request waits for one client of another user, however many connections that one has.
struct ClientBacklog {
    /// The number of clients.
    private(set) var count = 0

    private var clients: [UInt32: ArraySlice<ClientID>] = [:]
    private var turns: ArraySlice<UInt32> = []

    var isEmpty: Bool { count == 0 }

    /// Adds a client, which must not be in the backlog.
    mutating func append(_ client: ClientID, of user: UInt32) {
        if clients[user] == nil { turns.append(user) }
        clients[user, default: []].append(client)
        count += 1
    }

    /// Removes the next client.
    mutating func popFirst() -> ClientID? {
        guard let user = turns.popFirst(), let client = clients[user]?.popFirst() else { return nil }
        count -= 1
        if clients[user]?.isEmpty == true { clients[user] = nil } else { turns.append(user) }
        return client
    }
}

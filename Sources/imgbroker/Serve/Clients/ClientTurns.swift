import BrokerCore

/// The clients with messages to be served: users take turns, and each user's clients, in the order of their arrival. So
/// a user's request waits for one client of another user, however many connections that one has.
///
/// Lines keep their memory while they are empty, because a hit should not allocate any.
struct ClientTurns {
    /// The clients of one user; those before `head` were served.
    private struct Line {
        let user: UInt32
        var clients: [ClientID] = []
        var head = 0

        var isEmpty: Bool { clients.isEmpty }

        mutating func popFirst() -> ClientID {
            let client = clients[head]
            head += 1
            if head == clients.count {
                clients.removeAll(keepingCapacity: true)
                head = 0
            }
            return client
        }
    }

    private(set) var count = 0

    private var lines: [Line] = []
    /// The line that is next.
    private var turn = 0

    /// The most lines beyond which empty ones are dropped for another user's.
    private static let keptLines = 16

    var isEmpty: Bool { count == 0 }

    /// Adds a client, which must not wait already.
    mutating func append(_ client: ClientID, of user: UInt32) {
        count += 1
        if let line = lines.firstIndex(where: { $0.user == user }) { return lines[line].clients.append(client) }
        if lines.count >= Self.keptLines {
            lines.removeAll(where: \.isEmpty)
            turn = 0
        }
        lines.append(Line(user: user, clients: [client]))
    }

    mutating func popFirst() -> ClientID? {
        if count == 0 { return nil }
        if turn >= lines.count { turn = 0 }
        while lines[turn].isEmpty { turn = (turn + 1) % lines.count }
        count -= 1
        defer { turn += 1 }
        return lines[turn].popFirst()
    }
}

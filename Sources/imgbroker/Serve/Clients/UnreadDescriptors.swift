import BrokerCore
import IPCTransport
import LinuxSystem
import SystemValues

/// The descriptors that were sent to clients and not received yet. The kernel bounds their number, over all sockets, by
/// the number that this process may open. So a client that does not receive is sent no more after a while; one
/// descriptor each client may always have in flight, because there are fewer clients than spare descriptors.
///
/// The kernel reports no receipt, but it can be asked for the unreceived descriptors of one client. All clients are
/// asked only when many descriptors may be in flight.
struct UnreadDescriptors {
    /// The most in flight to one client.
    private static let limitOfClient = 128

    /// The most in flight to all clients.
    let limit: Int
    /// Above this number of departed clients, their users get no more.
    let departedLimit: Int

    private var counted = 0
    private var byUser: [UInt32: Int] = [:]
    private var sentSince = 0
    private var countedAt = Instant(nanoseconds: 0)
    /// Connections of departed clients whose other end still has descriptors to receive, `count` at most.
    private(set) var left: [(socket: FileDescriptor, user: UInt32, count: Int)] = []
    /// The users of those closed since the last `takeForgotten`.
    private var forgotten: [UInt32] = []

    /// Allows `limit` descriptors in flight, which the kernel must allow too.
    init(limit: Int, departedLimit: Int) {
        self.limit = max(limit, 8)
        self.departedLimit = departedLimit
    }

    /// The number that a client may have in flight now.
    mutating func allowance(
        of client: ClientConnection, among clients: [ClientID: ClientConnection], at now: Instant
    ) -> Int {
        let most = min(Self.limitOfClient, max(limit / 8, 2))
        if counted + sentSince <= limit / 4, left.isEmpty { return most }
        if sentSince >= max(limit / 16, 1) || now.microseconds(since: countedAt) >= 100_000 { count(clients, at: now) }
        let free = max(0, limit - counted - sentSince)
        if !client.isAdmin {
            let ofUser = byUser[client.uid] ?? 0
            if left.count > departedLimit, left.contains(where: { $0.user == client.uid }) { return 0 }
            if ofUser > FairShare.ofUser * free { return 1 }
        }
        return max(1, min(most, free / 16))
    }

    mutating func sent(_ count: Int) { sentSince += count }

    /// Notes that a client departs. Its socket stays open until the other end has received everything, or is closed;
    /// its unreceived descriptors count for its user as before. Returns whether it has any.
    mutating func leave(_ client: ClientConnection) -> Bool {
        let count = client.channel.countUnreadDescriptors()
        if count > 0 { takeOver(client.channel.socket, of: client.uid, unread: count) }
        return count > 0
    }

    /// Notes the connection of a client that has departed, maybe in the process whose place this one takes.
    mutating func takeOver(_ socket: FileDescriptor, of user: UInt32, unread count: Int) {
        left.append((socket, user, count))
    }

    /// Closes the departed connections whose other end has received everything, or is closed.
    mutating func forgetReceived() {
        for index in left.indices {
            left[index].count = min(left[index].count, UnixSocket.messagesUnread(on: left[index].socket))
        }
        forgotten += left.filter { $0.count == 0 }.map(\.user)
        left.removeAll { $0.count == 0 }
    }

    /// The user of each departed connection that was closed since the last call.
    mutating func takeForgotten() -> [UInt32] { exchange(&forgotten, with: []) }

    private mutating func count(_ clients: [ClientID: ClientConnection], at now: Instant) {
        (counted, sentSince, countedAt) = (0, 0, now)
        byUser = [:]
        forgetReceived()
        for (user, count) in clients.values.map({ ($0.uid, $0.channel.countUnreadDescriptors()) })
            + left.map({ ($0.user, $0.count) })
        {
            counted += count
            byUser[user, default: 0] += count
        }
    }
}

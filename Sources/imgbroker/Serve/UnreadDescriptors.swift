import BrokerCore
import IPCTransport
import LinuxSystem
import SystemValues

/// Descriptors that were sent to clients and not received. The kernel lets only as many be on their way as this process may
/// open, to all together; so whoever does not receive gets no more of them after a while. One each client may always
/// have on its way: there are fewer clients than descriptors to spare.
///
/// Nothing tells when one is received. What a client has not received can be asked of the kernel, one client at a time; so
/// all are asked only now and then, when many may be on their way.
struct UnreadDescriptors {
    /// So many at most for one client.
    private static let limitOfClient = 128

    /// So many at most for all.
    let limit: Int
    /// Of clients that have left, so many at most may have more.
    let departedLimit: Int

    private var counted = 0
    private var byUser: [UInt32: Int] = [:]
    private var sentSince = 0
    private var countedAt = Instant(nanoseconds: 0)
    /// Connections that are closed as far as this process goes, though the other end still has descriptors to receive.
    private var left: [(socket: FileDescriptor, user: UInt32, count: Int)] = []
    /// How many of them each user has.
    private var leftByUser: [UInt32: Int] = [:]
    /// The users of those that were let go since somebody asked.
    private var forgotten: [UInt32] = []

    /// Room for `limit`, which the kernel allows.
    init(limit: Int, departedLimit: Int) {
        self.limit = max(limit, 8)
        self.departedLimit = departedLimit
    }

    /// Connections of clients that have left, which still take a descriptor here.
    var departed: Int { left.count }

    /// How many a client may have on their way now.
    mutating func allowance(
        of client: ClientConnection, among clients: [ClientID: ClientConnection], at now: Instant
    ) -> Int {
        let most = min(Self.limitOfClient, max(limit / 8, 2))
        if counted + sentSince <= limit / 4, left.isEmpty { return most }
        if sentSince >= max(limit / 16, 1) || now.microseconds(since: countedAt) >= 100_000 { count(clients, at: now) }
        let free = max(0, limit - counted - sentSince)
        if !client.isAdmin {
            let ofUser = byUser[client.uid] ?? 0
            if left.count > departedLimit, leftByUser[client.uid] != nil { return 0 }
            if ofUser > FairShare.ofUser * free { return 1 }
        }
        return max(1, min(most, free / 16))
    }

    /// Notes that so many were sent.
    mutating func sent(_ count: Int) { sentSince += count }

    /// Notes that a client leaves. Its end of the socket stays open until the other end has received everything, or is
    /// closed: what it has not received counts for its user as before. Whether there is such.
    mutating func leave(_ client: ClientConnection) -> Bool {
        let count = client.channel.countUnreadDescriptors()
        if count > 0 {
            left.append((client.channel.socket, client.uid, count))
            leftByUser[client.uid, default: 0] += 1
        }
        return count > 0
    }

    /// Lets go of the connections of which the other end has received everything, or which it has closed.
    mutating func forgetReceived() {
        for index in left.indices {
            left[index].count = min(left[index].count, FrameChannel.messagesUnread(on: left[index].socket))
        }
        for each in left where each.count == 0 {
            forgotten.append(each.user)
            let others = leftByUser[each.user, default: 1] - 1
            leftByUser[each.user] = others > 0 ? others : nil
        }
        left.removeAll { $0.count == 0 }
    }

    /// The user of each connection that was let go since the last call.
    mutating func takeForgotten() -> [UInt32] {
        exchange(&forgotten, with: [])
    }

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

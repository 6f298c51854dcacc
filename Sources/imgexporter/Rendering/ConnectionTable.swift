import HTTPValues
import SystemValues

/// Decides which connections are served and when they end, so that no client keeps others from being answered. Connections are known
/// by their descriptors, and each is for one request.
struct ConnectionTable {
    /// The maximum number of connections.
    static let limit = 32
    /// The most connections of one client.
    static let share = 16
    /// The connections that answer `/health` alone.
    static let healthReserve = 4
    /// The longest time until a request's header is complete.
    static let headerMilliseconds = 5000
    /// The longest time until an answer is sent.
    static let sendMilliseconds = 10_000

    /// The addresses that share the connections of one client: those of this machine, a network of IPv6, or one of IPv4.
    private struct Client: Hashable {
        private static let loopback: [UInt8] = [127]
        private static let mapped = [UInt8](repeating: 0, count: 10) + [255, 255]
        private let bytes: [UInt8]

        init(_ address: IPAddress) {
            var bytes = address.bytes[...]
            if bytes.starts(with: Self.mapped) { bytes = bytes.dropFirst(Self.mapped.count) }
            if bytes.count == 4 {
                self.bytes = bytes.starts(with: Self.loopback) ? Self.loopback : Array(bytes)
            } else {
                self.bytes =
                    bytes.last == 1 && bytes.dropLast().allSatisfy { $0 == 0 } ? Self.loopback : Array(bytes.prefix(8))
            }
        }
    }

    private struct Connection {
        let client: Client
        /// When it was opened, as a number.
        let order: Int
        /// When it ends; nil while its answer is made.
        var deadline: Instant?
    }

    private var connections: [Int32: Connection] = [:]
    private var opened = 0

    /// Adds a connection. Returns one to be ended for it, which may be itself: of a client that has its share, or of all when there
    /// are too many, that which has waited longest for its header or the end of its answer.
    mutating func open(_ id: Int32, from address: IPAddress, at now: Instant) -> Int32? {
        let client = Client(address)
        let own = connections.filter { $0.value.client == client }
        let isFull = own.count >= Self.share || connections.count >= Self.limit
        let candidates = (own.count >= Self.share ? own : connections).filter { $0.value.deadline != nil }
        let ended = isFull ? candidates.min { $0.value.order < $1.value.order }?.key ?? id : nil
        if let ended { connections[ended] = nil }
        if ended != id {
            opened += 1
            connections[id] = Connection(
                client: client, order: opened, deadline: now.adding(milliseconds: Self.headerMilliseconds))
        }
        return ended
    }

    /// Notes that a header is complete. Returns whether the request is to be answered: others than those for `/health` leave some
    /// connections to these.
    mutating func beginAnswer(_ id: Int32, isHealth: Bool) -> Bool {
        let answering = connections.values.count { $0.deadline == nil }
        guard connections[id] != nil, isHealth || answering < Self.limit - Self.healthReserve else { return false }
        connections[id]?.deadline = nil
        return true
    }

    /// Notes that an answer is made, and remains to be sent.
    mutating func endAnswer(_ id: Int32, at now: Instant) {
        connections[id]?.deadline = now.adding(milliseconds: Self.sendMilliseconds)
    }

    /// Removes a connection, which may have been ended.
    mutating func close(_ id: Int32) {
        connections[id] = nil
    }

    /// The time at which the next connection ends.
    var nextDeadline: Instant? { connections.values.compactMap(\.deadline).min() }

    /// Removes the connections whose time is over, and returns them.
    mutating func takeExpired(at now: Instant) -> [Int32] {
        let expired = connections.filter { $0.value.deadline.map { $0 <= now } ?? false }.map(\.key)
        for id in expired { connections[id] = nil }
        return expired
    }
}

import HTTPValues
import SystemValues

/// Decides which connections are served and when they end, so that no client keeps others from being answered.
/// Connections are known by their descriptors, and each is for one request.
package struct ConnectionTable {
    package struct Limits: Sendable {
        /// The maximum number of connections.
        package var connections = 32
        /// The most connections of one client.
        package var share = 16
        /// The connections that answer `/health` alone.
        package var healthReserve = 4
        /// The longest time until a request's header is complete.
        package var headerMilliseconds = 5000
        /// The longest time from then on until its body is complete.
        package var bodyMilliseconds = 5000
        /// The longest time until an answer is sent.
        package var sendMilliseconds = 10_000
        /// The longest header in bytes, with the library's own memory for a connection.
        package var headerBytes = 16 << 10
        /// The longest body in bytes; 0 for none.
        package var bodyBytes = 0
        /// The most bytes of all bodies and answers in memory.
        package var totalBytes = 0

        package init() {}
    }

    enum Phase: Equatable {
        /// Its header is awaited.
        case header
        /// Its body is awaited.
        case body
        /// Its answer is made, for which there is no deadline here.
        case answering
        /// Its answer is sent.
        case sending
    }

    struct Ended: Equatable {
        let id: Int32
        let phase: Phase
    }

    private struct Connection {
        /// The bytes that name its client.
        let client: [UInt8]
        /// When it was opened, as a number.
        let order: Int
        var phase = Phase.header
        /// When it ends; nil while its answer is made.
        var deadline: Instant?
    }

    private let limits: Limits
    private var connections: [Int32: Connection] = [:]
    private var opened = 0

    init(_ limits: Limits) { self.limits = limits }

    /// Adds a connection. Returns one to be ended for it, which may be itself: of a client that has its share, or of
    /// all when there are too many, that which has waited longest for its request or the end of its answer.
    mutating func open(_ id: Int32, from address: IPAddress?, at now: Instant) -> Ended? {
        let client = Self.client(at: address)
        let own = connections.filter { $0.value.client == client }
        let isFull = own.count >= limits.share || connections.count >= limits.connections
        let candidates = (own.count >= limits.share ? own : connections).filter { $0.value.deadline != nil }
        let oldest = candidates.min { $0.value.order < $1.value.order }
        let ended =
            isFull ? oldest.map { Ended(id: $0.key, phase: $0.value.phase) } ?? Ended(id: id, phase: .header) : nil
        if let ended { connections[ended.id] = nil }
        if ended?.id != id {
            opened += 1
            connections[id] = Connection(
                client: client, order: opened, deadline: now.adding(milliseconds: limits.headerMilliseconds))
        }
        return ended
    }

    /// The bytes that a client's addresses share: those of this machine, an IPv6 network, or one IPv4 address.
    private static func client(at address: IPAddress?) -> [UInt8] {
        let loopback: [UInt8] = [127]
        guard let bytes = address.map({ ($0.mappedIPv4 ?? $0).bytes }) else { return loopback }
        if bytes.count == 4 { return bytes.starts(with: loopback) ? loopback : bytes }
        return bytes.last == 1 && bytes.dropLast().allSatisfy { $0 == 0 } ? loopback : Array(bytes.prefix(8))
    }

    /// Notes that a header is complete, and that its body remains to be received.
    mutating func beginBody(_ id: Int32, at now: Instant) {
        connections[id]?.phase = .body
        connections[id]?.deadline = now.adding(milliseconds: limits.bodyMilliseconds)
    }

    /// Notes that a request is complete. Returns whether it is answered: others leave some connections to `/health`.
    mutating func beginAnswer(_ id: Int32, isHealth: Bool) -> Bool {
        let answering = connections.values.count { $0.deadline == nil }
        guard connections[id] != nil, isHealth || answering < limits.connections - limits.healthReserve else {
            return false
        }
        connections[id]?.phase = .answering
        connections[id]?.deadline = nil
        return true
    }

    /// Notes that an answer is made, and remains to be sent.
    mutating func endAnswer(_ id: Int32, at now: Instant) {
        connections[id]?.phase = .sending
        connections[id]?.deadline = now.adding(milliseconds: limits.sendMilliseconds)
    }

    /// Removes a connection that is ended before its answer. Returns whether it is known, and its answer has not begun.
    mutating func refuse(_ id: Int32) -> Bool {
        guard let phase = connections[id]?.phase, phase == .header || phase == .body else { return false }
        connections[id] = nil
        return true
    }

    /// Removes a connection, which may have been ended.
    mutating func close(_ id: Int32) {
        connections[id] = nil
    }

    var nextDeadline: Instant? { connections.values.compactMap(\.deadline).min() }

    mutating func takeExpired(at now: Instant) -> [Ended] {
        let expired = connections.filter { $0.value.deadline.map { $0 <= now } ?? false }
            .map { Ended(id: $0.key, phase: $0.value.phase) }
        for ended in expired { connections[ended.id] = nil }
        return expired
    }
}

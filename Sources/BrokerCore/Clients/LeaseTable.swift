/// The holds of clients on buffers: each client's count for each buffer, with sums by client and by user. It counts
/// alone; `Clients.refusal` applies the quota.
struct LeaseTable {
    /// Buffers, and their bytes.
    struct Amount: Equatable {
        var buffers = 0
        var bytes = 0

        static func + (left: Amount, right: Amount) -> Amount {
            Amount(buffers: left.buffers + right.buffers, bytes: left.bytes + right.bytes)
        }
    }

    private struct Hold {
        var count: Int
        let bytes: Int
    }

    private struct Holder {
        let user: UInt32
        var leases: [BufferID: Hold] = [:]
        var bytes = 0
    }

    /// Clients stay in the table, even while they hold nothing, until `releaseAll`.
    private var holders: [ClientID: Holder] = [:]
    /// The sums by user.
    private var users: [UInt32: Amount] = [:]

    /// Whether no client holds a buffer.
    var isEmpty: Bool { holders.values.allSatisfy(\.leases.isEmpty) }

    /// The amount that `client` holds, each buffer counted once.
    func held(by client: ClientID) -> Amount {
        holders[client].map { Amount(buffers: $0.leases.count, bytes: $0.bytes) } ?? Amount()
    }

    /// The amount that the clients of `user` hold, each buffer counted once for each client.
    func held(byUser user: UInt32) -> Amount { users[user] ?? Amount() }

    /// The amount that all clients hold, each buffer counted once for each client.
    var held: Amount { users.values.reduce(Amount(), +) }

    func holds(_ client: ClientID, _ buffer: BufferID) -> Bool { holders[client]?.leases[buffer] != nil }

    /// The number of clients that hold each buffer.
    var holdings: [BufferID: Int] {
        holders.values.reduce(into: [:]) { for buffer in $1.leases.keys { $0[buffer, default: 0] += 1 } }
    }

    /// Adds one hold, or several; returns whether it is the client's first on this buffer.
    mutating func grant(
        _ buffer: BufferID, bytes: Int, to client: ClientID, of user: UInt32, times: Int = 1
    ) -> Bool {
        // Taken out of the table meanwhile, because changing it in place would allocate on every hit.
        var holder = holders.updateValue(Holder(user: user), forKey: client) ?? Holder(user: user)
        defer { holders[client] = holder }
        if var lease = holder.leases[buffer] {
            lease.count += times
            holder.leases[buffer] = lease
            return false
        }
        holder.leases[buffer] = Hold(count: times, bytes: bytes)
        holder.bytes += bytes
        change(user, buffers: 1, bytes: bytes)
        return true
    }

    /// Ends one hold; returns whether it was the client's last on this buffer.
    mutating func release(_ buffer: BufferID, from client: ClientID) -> Bool {
        guard let user = holders[client]?.user, holds(client, buffer),
            var holder = holders.updateValue(Holder(user: user), forKey: client)
        else { return false }
        defer { holders[client] = holder }
        guard var lease = holder.leases[buffer] else { return false }
        if lease.count > 1 {
            lease.count -= 1
            holder.leases[buffer] = lease
            return false
        }
        holder.leases[buffer] = nil
        holder.bytes -= lease.bytes
        change(user, buffers: -1, bytes: -lease.bytes)
        return true
    }

    /// The holds of a client, by buffer.
    func holds(of client: ClientID) -> [(buffer: BufferID, count: Int, bytes: Int)] {
        let leases = holders[client]?.leases ?? [:]
        return leases.map { ($0.key, $0.value.count, $0.value.bytes) }.sorted { $0.buffer < $1.buffer }
    }

    /// Ends all holds of `client`, and returns their buffers.
    mutating func releaseAll(from client: ClientID) -> [BufferID] {
        guard let holder = holders.removeValue(forKey: client) else { return [] }
        change(holder.user, buffers: -holder.leases.count, bytes: -holder.bytes)
        return Array(holder.leases.keys)
    }

    private mutating func change(_ user: UInt32, buffers: Int, bytes: Int) {
        var amount = users[user] ?? Amount()
        amount.buffers += buffers
        amount.bytes += bytes
        users[user] = amount == Amount() ? nil : amount
    }

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant() -> String? {
        var sums: [UInt32: Amount] = [:]
        for holder in holders.values {
            let bytes = holder.leases.values.reduce(0) { $0 + $1.bytes }
            if bytes != holder.bytes { return "bytes that a client holds" }
            sums[holder.user] =
                sums[holder.user, default: Amount()] + Amount(buffers: holder.leases.count, bytes: bytes)
        }
        return users == sums.filter { $0.value != Amount() } ? nil : "sums by user"
    }
}

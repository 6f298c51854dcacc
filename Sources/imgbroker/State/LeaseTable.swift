/// Which client holds how many leases on which buffer.
struct LeaseTable {
    /// Buffers, and their bytes.
    struct Amount: Equatable {
        var buffers = 0
        var bytes = 0

        static func + (left: Amount, right: Amount) -> Amount {
            Amount(buffers: left.buffers + right.buffers, bytes: left.bytes + right.bytes)
        }
    }

    private struct Lease {
        var count: Int
        let bytes: Int
    }

    private struct Holder {
        let user: UInt32
        var leases: [BufferID: Lease] = [:]
        var bytes = 0
    }

    /// Clients stay in it, though they hold nothing for the moment, until everything is taken back.
    private var holders: [ClientID: Holder] = [:]
    /// What the clients of each user hold.
    private var users: [UInt32: Amount] = [:]

    /// Whether nobody holds anything.
    var isEmpty: Bool { holders.values.allSatisfy(\.leases.isEmpty) }

    /// What `client` holds, each buffer counted once.
    func held(by client: ClientID) -> Amount {
        holders[client].map { Amount(buffers: $0.leases.count, bytes: $0.bytes) } ?? Amount()
    }

    /// What the clients of `user` hold, each buffer counted once for each of them.
    func held(byUser user: UInt32) -> Amount { users[user] ?? Amount() }

    func holds(_ client: ClientID, _ buffer: BufferID) -> Bool { holders[client]?.leases[buffer] != nil }

    /// Every buffer that is held, with the number of clients that hold it.
    var holdings: [BufferID: Int] {
        holders.values.reduce(into: [:]) { for buffer in $1.leases.keys { $0[buffer, default: 0] += 1 } }
    }

    /// Adds one lease; true when it is the client's first on this buffer.
    mutating func grant(_ buffer: BufferID, bytes: Int, to client: ClientID, of user: UInt32) -> Bool {
        // Out of the table meanwhile: a change within a dictionary's value would allocate, and every hit makes one.
        var holder = holders.updateValue(Holder(user: user), forKey: client) ?? Holder(user: user)
        defer { holders[client] = holder }
        if var lease = holder.leases[buffer] {
            lease.count += 1
            holder.leases[buffer] = lease
            return false
        }
        holder.leases[buffer] = Lease(count: 1, bytes: bytes)
        holder.bytes += bytes
        change(user, buffers: 1, bytes: bytes)
        return true
    }

    /// Takes one lease back; true when it was the client's last on this buffer.
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

    /// Takes back everything that `client` holds, and returns those buffers.
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
            if bytes != holder.bytes { return "bytes that a client leases" }
            sums[holder.user] =
                sums[holder.user, default: Amount()] + Amount(buffers: holder.leases.count, bytes: bytes)
        }
        return users == sums.filter { $0.value != Amount() } ? nil : "what users lease"
    }
}

/// Which client holds how many leases on which buffer.
struct LeaseTable {
    private struct Lease {
        var count: Int
        let bytes: Int
    }

    private struct Holder {
        var leases: [BufferID: Lease] = [:]
        var bytes = 0
    }

    /// Clients stay in it, though they hold nothing for the moment, until everything is taken back.
    private var holders: [ClientID: Holder] = [:]

    /// Whether nobody holds anything.
    var isEmpty: Bool { holders.values.allSatisfy(\.leases.isEmpty) }

    /// The bytes of the buffers that `client` holds, each counted once.
    func bytes(heldBy client: ClientID) -> Int { holders[client]?.bytes ?? 0 }

    /// How many buffers `client` holds.
    func count(heldBy client: ClientID) -> Int { holders[client]?.leases.count ?? 0 }

    func holds(_ client: ClientID, _ buffer: BufferID) -> Bool { holders[client]?.leases[buffer] != nil }

    /// Every buffer that is held, with the number of clients that hold it.
    var holdings: [BufferID: Int] {
        holders.values.reduce(into: [:]) { for buffer in $1.leases.keys { $0[buffer, default: 0] += 1 } }
    }

    /// Adds one lease; true when it is the client's first on this buffer.
    mutating func grant(_ buffer: BufferID, bytes: Int, to client: ClientID) -> Bool {
        change(client) { holder in
            if var lease = holder.leases[buffer] {
                lease.count += 1
                holder.leases[buffer] = lease
                return false
            }
            holder.leases[buffer] = Lease(count: 1, bytes: bytes)
            holder.bytes += bytes
            return true
        }
    }

    /// Takes one lease back; true when it was the client's last on this buffer.
    mutating func release(_ buffer: BufferID, from client: ClientID) -> Bool {
        guard holds(client, buffer) else { return false }
        return change(client) { holder in
            guard var lease = holder.leases[buffer] else { return false }
            if lease.count > 1 {
                lease.count -= 1
                holder.leases[buffer] = lease
                return false
            }
            holder.leases[buffer] = nil
            holder.bytes -= lease.bytes
            return true
        }
    }

    /// Changes what a client holds. It is out of the table meanwhile: a change within a dictionary's value would
    /// allocate, and every hit makes one.
    private mutating func change(_ client: ClientID, _ body: (inout Holder) -> Bool) -> Bool {
        var holder = holders.updateValue(Holder(), forKey: client) ?? Holder()
        defer { holders[client] = holder }
        return body(&holder)
    }

    /// Takes back everything that `client` holds, and returns those buffers.
    mutating func releaseAll(from client: ClientID) -> [BufferID] {
        holders.removeValue(forKey: client).map { Array($0.leases.keys) } ?? []
    }
}

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

    private var holders: [ClientID: Holder] = [:]

    /// Whether nobody holds anything.
    var isEmpty: Bool { holders.isEmpty }

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
        if holders[client]?.leases[buffer] != nil {
            holders[client]?.leases[buffer]?.count += 1
            return false
        }
        holders[client, default: Holder()].leases[buffer] = Lease(count: 1, bytes: bytes)
        holders[client]?.bytes += bytes
        return true
    }

    /// Takes one lease back; true when it was the client's last on this buffer.
    mutating func release(_ buffer: BufferID, from client: ClientID) -> Bool {
        guard let lease = holders[client]?.leases[buffer] else { return false }
        if lease.count > 1 {
            holders[client]?.leases[buffer]?.count -= 1
            return false
        }
        holders[client]?.leases[buffer] = nil
        holders[client]?.bytes -= lease.bytes
        if holders[client]?.leases.isEmpty == true { holders[client] = nil }
        return true
    }

    /// Takes back everything that `client` holds, and returns those buffers.
    mutating func releaseAll(from client: ClientID) -> [BufferID] {
        holders.removeValue(forKey: client).map { Array($0.leases.keys) } ?? []
    }
}

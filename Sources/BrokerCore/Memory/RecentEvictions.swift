/// The last evicted images, by their hash values, to count those that are made again: a larger memory would have kept them.
struct RecentEvictions {
    /// The number of evictions remembered.
    static let capacity = 4096
    private var ring: [Int] = []
    private var next = 0
    /// How often each hash is in the ring.
    private var counts: [Int: Int] = [:]
    /// Images that were made again while they were remembered.
    private(set) var remade = 0

    /// Notes an eviction.
    mutating func evicted(_ hash: Int) {
        if ring.count < Self.capacity {
            ring.append(hash)
        } else {
            forget(ring[next])
            ring[next] = hash
            next = (next + 1) % Self.capacity
        }
        counts[hash, default: 0] += 1
    }

    /// Notes that an image was made. Each eviction counts once.
    mutating func made(_ hash: Int) {
        if counts.removeValue(forKey: hash) != nil { remade += 1 }
    }

    private mutating func forget(_ hash: Int) {
        guard let count = counts[hash] else { return }
        counts[hash] = count > 1 ? count - 1 : nil
    }
}

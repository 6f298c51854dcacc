/// The last evicted images, by their hash values, to count those that are decoded again: a larger memory would have
/// kept them.
struct RecentEvictions {
    static let capacity = 4096
    private var ring: [Int] = []
    private var next = 0
    /// The place in the ring of each hash's last eviction.
    private var places: [Int: Int] = [:]
    /// Images that were decoded again while they were remembered.
    private(set) var remade = 0

    mutating func evicted(_ hash: Int) {
        if ring.count < Self.capacity {
            ring.append(hash)
        } else {
            if places[ring[next]] == next { places[ring[next]] = nil }
            ring[next] = hash
        }
        places[hash] = next
        next = (next + 1) % Self.capacity
    }

    /// Notes that an image was decoded. It counts if it was evicted since it was decoded last.
    mutating func decoded(_ hash: Int) {
        if places.removeValue(forKey: hash) != nil { remade += 1 }
    }
}

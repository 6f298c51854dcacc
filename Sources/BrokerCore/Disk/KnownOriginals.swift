import DiskRecords

/// Hashes of the keys of all originals that the disk tier may have, so that a certain miss needs no lookup.
///
/// The cache process reports its originals after its start; the broker adds those saved later. Nothing is ever removed:
/// a hash whose original was evicted or removed costs one lookup. Until the process has reported everything, and beyond
/// `maximum`, nothing is certain. `KeyHash.most` of them take about 16 MB.
struct KnownOriginals {
    private let maximum: Int
    // Many small sets, because a large one stops the event loop for tens of milliseconds when it grows.
    private var parts = [Set<UInt64>](repeating: [], count: 256)
    private(set) var count = 0
    /// Whether all keys have been reported.
    private var isReported = false
    /// Whether there were more than `maximum`.
    private var isOverflown = false

    init(maximum: Int = KeyHash.most) { self.maximum = maximum }

    /// Whether a key that is not held is certainly not on disk.
    var isComplete: Bool { isReported && !isOverflown }

    /// Takes hashes of keys that the cache process has. A report that is not the last withdraws an earlier last.
    mutating func report(_ hashes: [UInt64], isComplete: Bool) {
        isReported = isComplete
        for hash in hashes { insert(hash) }
    }

    /// Notes that an original with this key is about to be saved.
    mutating func insert(_ key: OriginalKey) {
        if let hash = KeyHash.hash(key.word) { insert(hash) }
    }

    private mutating func insert(_ hash: UInt64) {
        guard !isOverflown else { return }
        let part = Int(hash >> 56)
        if parts[part].insert(hash).inserted { count += 1 }
        guard count > maximum else { return }
        isOverflown = true
        parts = [Set<UInt64>](repeating: [], count: parts.count)
        count = 0
    }

    /// Whether an original with this key may be on disk.
    func mayContain(_ key: OriginalKey) -> Bool {
        guard isComplete, let hash = KeyHash.hash(key.word) else { return true }
        return parts[Int(hash >> 56)].contains(hash)
    }
}

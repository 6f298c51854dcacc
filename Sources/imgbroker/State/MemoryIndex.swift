import HTTPCaching
import IPCProtocol
import LinuxSystem

/// What is in memory: originals and pixels in sealed memfds, found by key and by content, under a budget of bytes.
///
/// Everything that was made of the same bytes hangs on their digest. Two URLs that serve equal bytes share it all, and a
/// URL whose bytes change never leads to an old picture. A buffer is *held* while a client leases it, or a job reads it;
/// one that is evicted while it is held stays findable until the last holder lets go.
struct MemoryIndex {
    /// What is known of an original besides its bytes.
    struct Original {
        let digest: ContentDigest
        /// How many they are.
        let bytes: Int
        /// What the origin said of it.
        let origin: OriginStatement
        /// Whether the disk tier had it, and so may have rasters of it.
        var isFromDisk = false
    }

    private struct Content {
        var header: ImageHeader?
        /// The originals whose bytes these are.
        var keys: Set<OriginalKey> = []
        var buffers: [Form: BufferID] = [:]
    }

    struct Buffer {
        let variant: VariantKey
        let bytes: Int
        /// The size of the picture, for pixels.
        let geometry: PixelGeometry?
        /// Whether it counts against the budget; otherwise it was evicted and stays for its holders.
        var isResident = true
        /// Clients that lease it, and jobs that read it.
        var holders = 0
        /// When it was last asked for.
        var usedAt: Instant
    }

    /// A buffer that was evicted: the originals that it was made of.
    typealias Evicted = Set<OriginalKey>

    /// The budget in bytes.
    let limit: Int
    /// The most buffers, as each takes a descriptor.
    let maximumEntries: Int

    private(set) var buffers: [BufferID: Buffer] = [:]
    private var originals: [OriginalKey: Original] = [:]
    private var contents: [ContentDigest: Content] = [:]
    private var order = SieveQueue<BufferID>()
    private var unheldResidents = 0
    /// How many originals belong to a user alone.
    private var owned: [UInt32: Int] = [:]
    /// Whether `evictToFit` is to tell what it evicts.
    var notesEvictions = false
    private var evicted: [Evicted] = []

    /// The bytes of resident buffers.
    private(set) var residentBytes = 0
    /// The bytes of held buffers, resident or not.
    private(set) var heldBytes = 0
    /// The bytes of evicted buffers that are still held.
    private(set) var evictedBytes = 0
    /// The bytes that running jobs are about to fill.
    private(set) var reservedBytes = 0
    /// How many buffers were evicted.
    private(set) var evictions = 0

    init(limit: Int, maximumEntries: Int) {
        self.limit = limit
        self.maximumEntries = maximumEntries
    }

    /// Resident buffers.
    var entries: Int { order.count }

    // MARK: Finding

    func original(_ key: OriginalKey) -> Original? { originals[key] }

    /// Whether any original belongs to `uid` alone.
    func hasAny(ownedBy uid: UInt32) -> Bool { owned[uid] != nil }

    /// The header of the picture with these bytes, where it was read before.
    func header(of digest: ContentDigest) -> ImageHeader? { contents[digest]?.header }

    func buffer(_ variant: VariantKey) -> BufferID? { contents[variant.digest]?.buffers[variant.form] }

    /// Notes that a buffer was asked for.
    mutating func touch(_ buffer: BufferID, at now: Instant) {
        order.mark(buffer)
        // Taken out and put back: a change in place costs allocations.
        guard var entry = buffers[buffer] else { return }
        entry.usedAt = now
        buffers[buffer] = entry
    }

    // MARK: Adding

    /// Notes that `key` leads to these bytes; unless a buffer of that content is there, one must be added next. Returns
    /// the buffers that nothing leads to any more.
    mutating func insert(_ original: Original, for key: OriginalKey) -> [BufferID] {
        var dropped: [BufferID] = []
        if let old = originals[key], old.digest != original.digest { dropped = remove(key) }
        if originals.updateValue(original, forKey: key) == nil, let owner = key.owner { owned[owner, default: 0] += 1 }
        contents[original.digest, default: Content()].keys.insert(key)
        limitKeys(of: original.digest, keeping: key)
        return dropped
    }

    /// Originals that share their bytes share buffers too, so the budget does not see how many they are.
    private mutating func limitKeys(of digest: ContentDigest, keeping key: OriginalKey) {
        guard let keys = contents[digest]?.keys, keys.count > 1,
            keys.count > Self.maximumKeys || originals.count > maximumEntries,
            let other = keys.first(where: { $0 != key && $0.nonce == 0 })
        else { return }
        contents[digest]?.keys.remove(other)
        _ = forget(other)
    }

    /// The most originals that share their bytes.
    private static let maximumKeys = 1024

    /// Notes what is known of a picture; what was known of it besides stays.
    mutating func insert(_ header: ImageHeader, of digest: ContentDigest) {
        var header = header
        let known = contents[digest]?.header
        header.timing = header.timing ?? known?.timing
        header.placeholder = header.placeholder ?? known?.placeholder
        contents[digest]?.header = header
    }

    /// Whether anything made of these bytes can be found.
    func isKnown(_ digest: ContentDigest) -> Bool { contents[digest] != nil }

    /// Adds a buffer, held by nobody, to a content that is known. The budget is not looked at: `evictToFit` does.
    mutating func insert(
        _ buffer: BufferID, as variant: VariantKey, bytes: Int, geometry: PixelGeometry? = nil, at now: Instant
    ) {
        buffers[buffer] = Buffer(variant: variant, bytes: bytes, geometry: geometry, usedAt: now)
        contents[variant.digest]?.buffers[variant.form] = buffer
        order.insert(buffer)
        residentBytes += bytes
        unheldResidents += 1
    }

    /// Whether jobs may fill so many bytes more. What clients hold does not count: evicted, it is theirs, and nobody
    /// stops others from being served by not letting go.
    func hasRoom(for bytes: Int) -> Bool {
        reservedBytes + bytes <= limit
    }

    /// Counts bytes that a job is about to fill.
    mutating func reserve(_ bytes: Int) { reservedBytes += bytes }

    /// Ends a reservation.
    mutating func unreserve(_ bytes: Int) { reservedBytes -= bytes }

    // MARK: Holding

    mutating func hold(_ buffer: BufferID) {
        guard var entry = buffers[buffer] else { return }
        entry.holders += 1
        buffers[buffer] = entry
        if entry.holders == 1 {
            heldBytes += entry.bytes
            if entry.isResident { unheldResidents -= 1 } else { evictedBytes += entry.bytes }
        }
    }

    /// Ends one hold; true when the buffer, evicted before, is gone with it.
    mutating func unhold(_ buffer: BufferID) -> Bool {
        guard var entry = buffers[buffer] else { return false }
        entry.holders -= 1
        buffers[buffer] = entry
        if entry.holders > 0 { return false }
        heldBytes -= entry.bytes
        if entry.isResident {
            unheldResidents += 1
            return false
        }
        evictedBytes -= entry.bytes
        forget(buffer)
        return true
    }

    // MARK: Removing

    /// Evicts until the budget holds, and returns the buffers that are gone: those that nobody holds.
    mutating func evictToFit() -> [BufferID] {
        var dropped: [BufferID] = []
        // Evicted buffers that are held take descriptors too, but evicting more that are held frees none.
        while residentBytes + reservedBytes > limit || order.count > maximumEntries
            || buffers.count > maximumEntries && unheldResidents > 0
        {
            let anyUnheld = unheldResidents > 0
            guard let buffer = order.evict(isHeld: { anyUnheld && buffers[$0]?.holders != 0 }),
                var entry = buffers[buffer]
            else { break }
            evictions += 1
            if notesEvictions, let keys = contents[entry.variant.digest]?.keys { evicted.append(keys) }
            residentBytes -= entry.bytes
            if entry.holders == 0 {
                unheldResidents -= 1
                forget(buffer)
                dropped.append(buffer)
            } else {
                evictedBytes += entry.bytes
                entry.isResident = false
                buffers[buffer] = entry
            }
        }
        return dropped
    }

    /// What was evicted since the last call, if it is to be noted.
    mutating func takeEvicted() -> [Evicted] {
        defer { evicted = [] }
        return evicted
    }

    /// The originals of which nothing was asked for since `time`.
    func keys(unusedSince time: Instant) -> [OriginalKey] {
        let used = Set(buffers.values.lazy.filter { $0.usedAt > time }.map(\.variant.digest))
        return originals.filter { !used.contains($0.value.digest) }.map(\.key)
    }

    /// The bytes of resident buffers that only this original leads to.
    func bytes(of key: OriginalKey) -> Int {
        guard let original = originals[key], let content = contents[original.digest], content.keys.count == 1 else {
            return 0
        }
        return content.buffers.values.reduce(0) { $0 + (buffers[$1].map { $0.isResident ? $0.bytes : 0 } ?? 0) }
    }

    /// The originals for which `isMeant` is true.
    func keys(where isMeant: (OriginalKey) -> Bool) -> [OriginalKey] {
        originals.keys.filter(isMeant)
    }

    /// Forgets an original and, when no other has the same bytes, everything made of them: no later hit, not even while
    /// it is held. Returns the buffers that are gone.
    mutating func remove(_ key: OriginalKey) -> [BufferID] {
        guard let original = forget(key) else { return [] }
        contents[original.digest]?.keys.remove(key)
        guard let content = contents[original.digest], content.keys.isEmpty else { return [] }
        contents[original.digest] = nil
        let dropped = Array(content.buffers.values)
        for buffer in dropped {
            guard let entry = buffers.removeValue(forKey: buffer) else { continue }
            if entry.isResident {
                order.remove(buffer)
                residentBytes -= entry.bytes
                if entry.holders == 0 { unheldResidents -= 1 }
            } else {
                evictedBytes -= entry.bytes
            }
            if entry.holders > 0 { heldBytes -= entry.bytes }
        }
        return dropped
    }

    /// Takes a buffer, which is neither resident nor held, out of the tables; with the last buffer of a content go the
    /// originals that led to it.
    private mutating func forget(_ buffer: BufferID) {
        guard let entry = buffers.removeValue(forKey: buffer) else { return }
        let digest = entry.variant.digest
        contents[digest]?.buffers[entry.variant.form] = nil
        guard let content = contents[digest], content.buffers.isEmpty else { return }
        contents[digest] = nil
        for key in content.keys { _ = forget(key) }
    }

    private mutating func forget(_ key: OriginalKey) -> Original? {
        guard let original = originals.removeValue(forKey: key) else { return nil }
        if let owner = key.owner, let count = owned[owner] { owned[owner] = count == 1 ? nil : count - 1 }
        return original
    }

    // MARK: Invariants

    /// The first rule that does not hold; nil when all do. Costs a walk over everything.
    func brokenInvariant() -> String? {
        let residents = buffers.filter(\.value.isResident)
        let evicted = buffers.filter { !$0.value.isResident }
        let held = buffers.filter { $0.value.holders > 0 }
        func bytes(_ some: [BufferID: Buffer]) -> Int { some.values.reduce(0) { $0 + $1.bytes } }
        if bytes(residents) != residentBytes { return "resident bytes" }
        if bytes(held) != heldBytes { return "held bytes" }
        if bytes(evicted) != evictedBytes { return "evicted bytes" }
        if evicted.values.contains(where: { $0.holders == 0 }) { return "an evicted buffer that nobody holds" }
        if residents.count != order.count { return "order of eviction" }
        if residents.values.filter({ $0.holders == 0 }).count != unheldResidents { return "unheld residents" }
        if buffers.contains(where: { contents[$0.value.variant.digest]?.buffers[$0.value.variant.form] != $0.key }) {
            return "a buffer that cannot be found"
        }
        if originals.contains(where: { contents[$0.value.digest]?.keys.contains($0.key) != true }) {
            return "an original without content"
        }
        if contents.values.contains(where: { $0.buffers.isEmpty || $0.keys.isEmpty }) { return "an empty content" }
        let owners = originals.keys.compactMap(\.owner).reduce(into: [:]) { $0[$1, default: 0] += 1 }
        if owners != owned { return "owners" }
        if reservedBytes < 0 { return "reserved bytes" }
        return nil
    }
}

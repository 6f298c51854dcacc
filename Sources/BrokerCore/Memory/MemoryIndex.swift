import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The images in memory: originals and variants in sealed memfds, found by key and by content, within a byte budget.
///
/// Everything made of the same bytes belongs to their digest. Two URLs that serve equal bytes share it, and a URL whose
/// bytes change never leads to an old image. A buffer is *held* while a client leases it or a job reads it. A held buffer
/// that is evicted can still be found until its last holder releases it.
struct MemoryIndex {
    /// What is known of an original besides its bytes.
    struct Original {
        let digest: ContentDigest
        /// The number of its bytes.
        let bytes: Int
        fileprivate(set) var origin: OriginStatement
        /// Whether it came from the disk tier, which may then have rasters of it.
        var isFromDisk = false
        /// Whether the disk tier has its bytes.
        var isOnDisk = false
    }

    /// A sealed memfd.
    struct Buffer {
        let variant: VariantKey
        let bytes: Int
        /// The size of its raster; nil for an original.
        let geometry: PixelGeometry?
        /// When it was last requested.
        fileprivate(set) var usedAt: Instant
        /// Whether it was ever the answer to a request.
        fileprivate(set) var wasRequested = false
        /// Whether it counts against the budget; otherwise it is evicted and stays for its holders.
        fileprivate(set) var isResident = true
        /// The clients that lease it and the jobs that read it.
        fileprivate(set) var holders = 0
    }

    /// What belongs to the bytes of an original: at least one original and one buffer, except between `insert` of the
    /// original and `insert` of its first buffer.
    private struct Content {
        var header: ImageHeader?
        /// The originals with these bytes, the oldest first.
        var keys: [OriginalKey] = []
        var buffers: [Form: BufferID] = [:]
    }

    /// The originals of a buffer that was evicted.
    typealias Evicted = Set<OriginalKey>

    /// The budget in bytes.
    let limit: Int
    /// The maximum number of buffers, because each takes a descriptor.
    let maximumEntries: Int

    private var originals: [OriginalKey: Original] = [:]
    private var contents: [ContentDigest: Content] = [:]
    private var buffers: [BufferID: Buffer] = [:]
    /// The resident buffers in the order of eviction.
    private var order = EvictionQueue<BufferID>()
    private var unheldResidents = 0
    /// The number of originals that belong to each user alone.
    private var owned: [UInt32: Int] = [:]
    /// Whether `evictToFit` records what it evicts for `takeEvicted`.
    var notesEvictions = false
    private var evicted: [Evicted] = []
    private var slots: ValiditySlots

    /// The bytes of resident buffers.
    private(set) var residentBytes = 0
    /// The bytes of held buffers, resident or not.
    private(set) var heldBytes = 0
    /// The bytes of evicted buffers that are still held.
    private(set) var evictedBytes = 0
    /// The number of evicted buffers that are still held.
    var evictedBuffers: Int { buffers.count - order.count }
    /// The bytes that running jobs have filled or are about to fill, which the owner of the jobs keeps up to date.
    var reservedBytes = 0
    /// The number of evictions since the start.
    private(set) var evictions = 0
    /// Changes whenever the answer to a request may have changed.
    private(set) var revision = 0

    init(limit: Int, maximumEntries: Int, slots: Int = 0) {
        self.slots = ValiditySlots(capacity: slots)
        self.limit = limit
        self.maximumEntries = maximumEntries
    }

    // MARK: Finding

    /// The number of resident buffers.
    var entries: Int { order.count }

    /// All buffers, resident or not.
    var bufferIDs: some Collection<BufferID> { buffers.keys }

    /// Returns a buffer's record.
    func record(of buffer: BufferID) -> Buffer? { buffers[buffer] }

    func original(_ key: OriginalKey) -> Original? { originals[key] }

    /// Returns whether any original belongs to `uid` alone.
    func hasAny(ownedBy uid: UInt32) -> Bool { owned[uid] != nil }

    /// Returns the header of the image with these bytes; nil when it was not read yet.
    func header(of digest: ContentDigest) -> ImageHeader? { contents[digest]?.header }

    func buffer(_ variant: VariantKey) -> BufferID? { contents[variant.digest]?.buffers[variant.form] }

    /// Returns whether anything made of these bytes can be found.
    func isKnown(_ digest: ContentDigest) -> Bool { contents[digest] != nil }

    /// Returns the originals with no variant requested since `time`.
    func keys(unusedSince time: Instant) -> [OriginalKey] {
        let used = Set(buffers.values.lazy.filter { $0.usedAt > time }.map(\.variant.digest))
        return originals.filter { !used.contains($0.value.digest) }.map(\.key)
    }

    /// Returns the bytes of the resident buffers that only this original leads to.
    func bytes(of key: OriginalKey) -> Int {
        guard let digest = originals[key]?.digest, let content = contents[digest], content.keys.count == 1 else {
            return 0
        }
        return content.buffers.values.lazy.compactMap { buffers[$0] }.filter(\.isResident).reduce(0) { $0 + $1.bytes }
    }

    /// Returns the originals that were loaded from `url`.
    func keys(at url: SourceURL) -> [OriginalKey] { keys { $0.url == url } }

    /// Returns the originals for which `isMeant` is true.
    func keys(where isMeant: (OriginalKey) -> Bool) -> [OriginalKey] { originals.keys.filter(isMeant) }

    // MARK: Validity

    /// Records that a buffer was requested.
    mutating func touch(_ buffer: BufferID, at now: Instant) {
        guard var record = buffers[buffer] else { return }
        record.usedAt = now
        record.wasRequested = true
        buffers[buffer] = record
        order.mark(buffer)
    }

    /// Returns the slot that says for how long a request for `key` gets this held buffer; nil when there is none.
    mutating func slot(of buffer: BufferID, for key: OriginalKey) -> ImageReply.Slot? {
        guard let record = buffers[buffer], record.isResident, record.holders > 0, let original = originals[key] else {
            return nil
        }
        return slots.name(buffer, of: key, until: original.origin.freshUntil)
    }

    /// Ends all slots, because the next request for any image may get another answer.
    mutating func endSlots() { slots.endAll() }

    /// Returns the changes to be written to the validity page.
    mutating func takeSlotChanges() -> [ValiditySlots.Change] { slots.takeChanges() }

    /// Returns the originals whose slots lead to this buffer.
    func keysWithSlot(for buffer: BufferID) -> [OriginalKey] { slots.keys(of: buffer) }

    // MARK: Adding

    /// Records that `key` leads to these bytes. Unless a buffer of that content exists, the caller must add one next.
    /// Returns the buffers that nothing leads to any more.
    mutating func insert(_ original: Original, for key: OriginalKey) -> [BufferID] {
        revision += 1
        var dropped: [BufferID] = []
        var original = original
        original.origin = original.origin.named(key.url)
        if let old = originals[key], old.digest != original.digest { dropped = remove(key) }
        slots.end(key)
        if originals[key] == nil {
            contents[original.digest, default: Content()].keys.append(key)
            if let owner = key.owner { owned[owner, default: 0] += 1 }
        } else if key.cacheKey != nil, let place = contents[original.digest]?.keys.firstIndex(of: key) {
            // Keys with a cacheKey are equal whatever their URL is; `remove` finds them by the last one.
            contents[original.digest]?.keys[place] = key
            originals[key] = nil
        }
        originals[key] = original
        limitKeys(of: original.digest, keeping: key)
        return dropped
    }

    /// Records that the disk tier has the bytes of an original, which are those in `body`.
    mutating func noteOnDisk(_ key: OriginalKey, _ body: BufferID) {
        guard let digest = originals[key]?.digest, digest == buffers[body]?.variant.digest else { return }
        originals[key]?.isOnDisk = true
    }

    /// Forgets one of the originals with the same bytes when there are too many. They share buffers, so the byte budget
    /// does not limit their number.
    private mutating func limitKeys(of digest: ContentDigest, keeping key: OriginalKey) {
        guard let keys = contents[digest]?.keys, keys.count > 1,
            keys.count > Self.maximumKeys || originals.count > maximumEntries,
            let other = keys.last(where: { $0 != key && $0.nonce == 0 })
        else { return }
        forget(other)
    }

    /// The maximum number of originals with the same bytes.
    private static let maximumKeys = 1024

    /// Records the header of an image; a timing or placeholder known before is kept.
    mutating func insert(_ header: ImageHeader, of digest: ContentDigest) {
        guard let content = contents[digest] else { return }
        revision += 1
        var header = header
        header.timing = header.timing ?? content.header?.timing
        header.placeholder = header.placeholder ?? content.header?.placeholder
        contents[digest]?.header = header
    }

    /// Adds an unheld buffer to a known content. `microseconds` is the time to make it again. Does not evict: the caller
    /// calls `evictToFit`.
    mutating func insert(
        _ buffer: BufferID, as variant: VariantKey, bytes: Int, geometry: PixelGeometry? = nil, at now: Instant,
        worth microseconds: Int = 0
    ) {
        guard contents[variant.digest] != nil else { return }
        revision += 1
        contents[variant.digest]?.buffers[variant.form] = buffer
        buffers[buffer] = Buffer(variant: variant, bytes: bytes, geometry: geometry, usedAt: now)
        // A buffer also takes one of `maximumEntries` descriptors: that share of the budget counts as further bytes.
        let (size, overflowed) = bytes.addingReportingOverflow(limit / max(1, maximumEntries))
        order.insert(buffer, microseconds: microseconds, bytes: overflowed ? .max : size)
        residentBytes += bytes
        unheldResidents += 1
    }

    // MARK: Holding

    mutating func hold(_ buffer: BufferID) {
        guard var record = buffers[buffer] else { return }
        record.holders += 1
        buffers[buffer] = record
        if record.holders == 1 {
            heldBytes += record.bytes
            if record.isResident { unheldResidents -= 1 } else { evictedBytes += record.bytes }
        }
    }

    /// Ends one hold. Returns true when the buffer is removed with it: it was evicted before, or is a spare original.
    mutating func unhold(_ buffer: BufferID) -> Bool {
        guard var record = buffers[buffer] else { return false }
        record.holders -= 1
        buffers[buffer] = record
        if record.holders > 0 { return false }
        slots.end(buffer)
        heldBytes -= record.bytes
        if record.isResident {
            unheldResidents += 1
            order.release(buffer)
            return dropIfSpare(buffer)
        }
        evictedBytes -= record.bytes
        forget(buffer)
        return true
    }

    /// Removes the bytes of an original if they are spare. Returns the buffer that was removed.
    mutating func dropSpareBody(of digest: ContentDigest) -> [BufferID] {
        guard let body = buffer(VariantKey(digest: digest, form: .original)) else { return [] }
        return dropIfSpare(body) ? [body] : []
    }

    private mutating func dropIfSpare(_ buffer: BufferID) -> Bool {
        guard let record = buffers[buffer], isSpare(record) else { return false }
        order.remove(buffer)
        residentBytes -= record.bytes
        unheldResidents -= 1
        forget(buffer)
        return true
    }

    /// Returns whether a buffer is an original that memory need not keep: no job reads it, no client has requested the
    /// encoded bytes, and the disk tier has them under every key that leads to them.
    private func isSpare(_ record: Buffer) -> Bool {
        guard record.variant.form == .original, record.isResident, record.holders == 0, !record.wasRequested else {
            return false
        }
        return contents[record.variant.digest]?.keys.allSatisfy { originals[$0]?.isOnDisk == true } == true
    }

    // MARK: Removing

    /// Whether resident, evicted-but-held and reserved bytes fit the budget.
    var fits: Bool { residentBytes + evictedBytes + reservedBytes <= limit && buffers.count <= maximumEntries }

    /// Whether a buffer must be evicted. Buffers that are evicted and still held take memory and descriptors too, but
    /// evicting another held buffer frees nothing. To make room for them, unheld buffers are evicted until these take half
    /// of the budget.
    var isOverBudget: Bool {
        if residentBytes + reservedBytes > limit || order.count > maximumEntries { return true }
        if unheldResidents == 0 { return false }
        let unheldBytes = residentBytes + evictedBytes - heldBytes
        return buffers.count > maximumEntries || !fits && unheldBytes > limit / 2
    }

    /// Evicts until the budget holds. Returns the buffers that were removed: those without a holder.
    mutating func evictToFit() -> [BufferID] {
        var dropped: [BufferID] = []
        while isOverBudget {
            let anyUnheld = unheldResidents > 0
            let next = order.evict { anyUnheld && buffers[$0]?.holders != 0 }
            guard let buffer = next, let record = buffers[buffer] else { break }
            evictions += 1
            revision += 1
            if notesEvictions { evicted.append(Set(contents[record.variant.digest]?.keys ?? [])) }
            residentBytes -= record.bytes
            if record.holders == 0 {
                unheldResidents -= 1
                forget(buffer)
                dropped.append(buffer)
            } else {
                slots.end(buffer)
                evictedBytes += record.bytes
                buffers[buffer]?.isResident = false
            }
        }
        return dropped
    }

    /// Returns what was evicted since the last call, if `notesEvictions`.
    mutating func takeEvicted() -> [Evicted] {
        defer { evicted = [] }
        return evicted
    }

    /// Removes an original and, when no other has the same bytes, everything made of them. They are no later hit, even
    /// while they are held. Returns the buffers that were removed.
    mutating func remove(_ key: OriginalKey) -> [BufferID] {
        guard let digest = originals[key]?.digest else { return [] }
        revision += 1
        forget(key)
        guard let content = contents[digest], content.keys.isEmpty else { return dropSpareBody(of: digest) }
        contents[digest] = nil
        // In the order of their numbers, because that of a dictionary differs from run to run.
        let dropped = content.buffers.values.sorted()
        for buffer in dropped {
            guard let record = buffers.removeValue(forKey: buffer) else { continue }
            if record.isResident {
                order.remove(buffer)
                residentBytes -= record.bytes
                if record.holders == 0 { unheldResidents -= 1 }
            } else {
                evictedBytes -= record.bytes
            }
            if record.holders > 0 { heldBytes -= record.bytes }
        }
        return dropped
    }

    /// Removes a buffer, which is neither resident nor held, from the tables; with the last buffer of a content also the
    /// originals that led to it.
    private mutating func forget(_ buffer: BufferID) {
        revision += 1
        guard let variant = buffers.removeValue(forKey: buffer)?.variant else { return }
        contents[variant.digest]?.buffers[variant.form] = nil
        guard let content = contents[variant.digest], content.buffers.isEmpty else { return }
        contents[variant.digest] = nil
        for key in content.keys { forget(key) }
    }

    /// Removes an original from the tables; its content stays.
    private mutating func forget(_ key: OriginalKey) {
        guard let digest = originals.removeValue(forKey: key)?.digest else { return }
        slots.end(key)
        contents[digest]?.keys.removeAll { $0 == key }
        if let owner = key.owner, let count = owned[owner] { owned[owner] = count == 1 ? nil : count - 1 }
    }

    // MARK: Invariants

    /// Returns the first invariant that does not hold; nil when all hold. Visits every record.
    func brokenInvariant() -> String? {
        let residents = buffers.values.filter(\.isResident)
        let evicted = buffers.values.filter { !$0.isResident }
        let held = buffers.values.filter { $0.holders > 0 }
        func bytes(_ some: [Buffer]) -> Int { some.reduce(0) { $0 + $1.bytes } }
        if bytes(residents) != residentBytes { return "resident bytes" }
        if bytes(held) != heldBytes { return "held bytes" }
        if bytes(evicted) != evictedBytes { return "evicted bytes" }
        if evicted.contains(where: { $0.holders == 0 }) { return "an evicted buffer without a holder" }
        if residents.count != order.count { return "order of eviction" }
        if let broken = order.brokenInvariant() { return "order of eviction: \(broken)" }
        if residents.count(where: { $0.holders == 0 }) != unheldResidents { return "unheld residents" }
        if buffers.contains(where: { buffer($0.value.variant) != $0.key }) { return "a buffer that cannot be found" }
        if originals.contains(where: { contents[$0.value.digest]?.keys.contains($0.key) != true }) {
            return "an original without content"
        }
        if originals.contains(where: { $0.key.url != $0.value.origin.url }) { return "an original under another URL" }
        if contents.values.contains(where: { $0.keys.isEmpty || $0.buffers.isEmpty }) { return "an empty content" }
        if contents.values.reduce(0, { $0 + $1.buffers.count }) != buffers.count { return "a buffer without content" }
        if contents.values.reduce(0, { $0 + $1.keys.count }) != originals.count { return "number of originals" }
        let owners = originals.keys.compactMap(\.owner).reduce(into: [:]) { $0[$1, default: 0] += 1 }
        if owners != owned { return "owners" }
        if reservedBytes < 0 { return "reserved bytes" }
        if isOverBudget, reservedBytes <= limit { return "more than the budget" }
        if buffers.values.contains(where: isSpare) { return "a spare original" }
        return slots.brokenInvariant { key, buffer in
            guard let record = buffers[buffer], record.isResident, record.holders > 0 else { return false }
            return originals[key]?.digest == record.variant.digest
        }
    }
}

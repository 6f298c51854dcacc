import Digests
import DiskRecords
import HTTPCaching
import IPCProtocol
import SystemValues

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
        /// Whether the disk tier has its bytes.
        var isOnDisk = false
        /// Where its content was when it was found: no look-up is needed as long as it is there.
        var content = 0

        init(
            digest: ContentDigest, bytes: Int, origin: OriginStatement, isFromDisk: Bool = false, isOnDisk: Bool = false
        ) {
            (self.digest, self.bytes, self.origin) = (digest, bytes, origin)
            (self.isFromDisk, self.isOnDisk) = (isFromDisk, isOnDisk)
        }
    }

    /// A buffer that was evicted: the originals that it was made of.
    typealias Evicted = Set<OriginalKey>

    /// The budget in bytes.
    let limit: Int
    /// The most buffers, as each takes a descriptor.
    let maximumEntries: Int

    private(set) var buffers = SlotTable<Buffer>()
    private(set) var originals = SlotTable<OriginalRecord>()
    private(set) var contents = SlotTable<Content>()
    private(set) var forms = SlotTable<FormRecord>()
    /// The slots of buffers by content and form.
    private(set) var variants = HashIndex()
    /// The slots of resident buffers.
    private(set) var order = EvictionQueue()
    private(set) var unheldResidents = 0
    /// How many originals belong to a user alone.
    private(set) var owned: [UInt32: Int] = [:]
    /// Whether `evictToFit` is to tell what it evicts.
    var notesEvictions = false
    private var evicted: [Evicted] = []
    /// What clients were told to be what a request would get, for as long as it is.
    private(set) var slots: ValiditySlots

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
    /// Changes whenever a request may lead to something else than before.
    private(set) var revision = 0

    init(limit: Int, maximumEntries: Int, slots: Int = 0) {
        self.slots = ValiditySlots(capacity: slots)
        self.limit = limit
        self.maximumEntries = maximumEntries
    }

    /// Resident buffers.
    var entries: Int { order.count }

    /// Notes that a buffer was asked for.
    mutating func touch(_ buffer: BufferID, at now: Instant) {
        guard let slot = buffers.slot(of: buffer) else { return }
        order.mark(slot)
        buffers[slot].usedAt = now
        buffers[slot].wasAskedFor = true
    }

    // MARK: Validity

    /// The slot that says for how long a request for `key` gets this buffer, which somebody holds; nil when there is none.
    mutating func slot(of buffer: BufferID, for key: OriginalKey) -> ImageReply.Slot? {
        guard let entry = buffers[buffer], entry.isResident, entry.holders > 0, let original = original(key) else {
            return nil
        }
        return slots.name(buffer, of: key, until: original.origin.freshUntil)
    }

    /// Ends all slots: whatever is asked for next may have another answer.
    mutating func endSlots() { slots.endAll() }

    /// What the validity page is to say from now on.
    mutating func takeSlotChanges() -> [ValiditySlots.Change] { slots.takeChanges() }

    /// The originals that slots say lead to this buffer.
    func keysWithSlot(for buffer: BufferID) -> [OriginalKey] { slots.keys(of: buffer) }

    // MARK: Adding

    /// Notes that `key` leads to these bytes; unless a buffer of that content is there, one must be added next. Returns
    /// the buffers that nothing leads to any more.
    mutating func insert(_ original: Original, for key: OriginalKey) -> [BufferID] {
        revision += 1
        var dropped: [BufferID] = []
        if let old = self.original(key), old.digest != original.digest { dropped = remove(key) }
        slots.end(key)
        let content =
            contents.slot(of: original.digest) ?? contents.insert(Content(original.digest, bytes: original.bytes))
        contents[content].bytes = original.bytes
        if let slot = originals.slot(of: key) {
            originals[slot].update(original, for: key)
        } else {
            let slot = originals.insert(
                OriginalRecord(original, for: key, content: content, next: contents[content].originals))
            contents[content].originals = Link(slot + 1)
            contents[content].originalsCount += 1
            if let owner = key.owner { owned[owner, default: 0] += 1 }
        }
        limitKeys(of: content, keeping: key)
        return dropped
    }

    /// Notes that the disk tier has the bytes of an original, which are those in `body`.
    mutating func noteOnDisk(_ key: OriginalKey, _ body: BufferID) {
        guard let slot = originals.slot(of: key), originals[slot].content == buffers[body]?.content else { return }
        originals[slot].isOnDisk = true
    }

    /// Originals that share their bytes share buffers too, so the budget does not see how many they are.
    private mutating func limitKeys(of content: Int, keeping key: OriginalKey) {
        let count = Int(contents[content].originalsCount)
        guard count > 1, count > Self.maximumKeys || originals.count > maximumEntries else { return }
        var link = contents[content].originals
        while link != 0 {
            let other = originals[Int(link) - 1].key
            if other != key, other.nonce == 0 {
                _ = forget(other)
                return
            }
            link = originals[Int(link) - 1].next
        }
    }

    /// The most originals that share their bytes.
    private static let maximumKeys = 1024

    /// Notes what is known of a picture; what was known of it besides stays.
    mutating func insert(_ header: ImageHeader, of digest: ContentDigest) {
        guard let content = contents.slot(of: digest) else { return }
        revision += 1
        var header = header
        let known = contents[content].header
        header.timing = header.timing ?? known?.timing
        header.placeholder = header.placeholder ?? known?.placeholder
        contents[content].header = header
    }

    /// Whether anything made of these bytes can be found.
    func isKnown(_ digest: ContentDigest) -> Bool { contents.slot(of: digest) != nil }

    /// Adds a buffer, held by nobody, to a content that is known; `microseconds` is what getting it anew would take. The
    /// budget is not looked at: `evictToFit` does.
    mutating func insert(
        _ buffer: BufferID, as variant: VariantKey, bytes: Int, geometry: PixelGeometry? = nil, at now: Instant,
        worth microseconds: Int = 0
    ) {
        guard let content = contents.slot(of: variant.digest) else { return }
        revision += 1
        let form = forms.slot(of: variant.form) ?? forms.insert(FormRecord(key: variant.form, uses: 0))
        forms[form].uses += 1
        var entry = Buffer(buffer, content: content, form: form, bytes: bytes, geometry: geometry, usedAt: now)
        entry.next = contents[content].buffers
        let slot = buffers.insert(entry)
        if entry.next != 0 { buffers[Int(entry.next) - 1].previous = Link(slot + 1) }
        contents[content].buffers = Link(slot + 1)
        variants.insert(slot, hash: Self.hash(entry)) { Self.hash(buffers[$0]) }
        // A buffer takes a descriptor besides its bytes: its share of those counts as so many bytes.
        let (size, overflowed) = bytes.addingReportingOverflow(limit / max(1, maximumEntries))
        order.insert(slot, microseconds: microseconds, bytes: overflowed ? .max : size)
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
        guard let slot = buffers.slot(of: buffer) else { return }
        buffers[slot].holders += 1
        let entry = buffers[slot]
        if entry.holders == 1 {
            heldBytes += entry.bytes
            if entry.isResident { unheldResidents -= 1 } else { evictedBytes += entry.bytes }
        }
    }

    /// Ends one hold; true when the buffer is gone with it: evicted before, or of no use any more.
    mutating func unhold(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer) else { return false }
        buffers[slot].holders -= 1
        let entry = buffers[slot]
        if entry.holders > 0 { return false }
        slots.end(buffer)
        heldBytes -= entry.bytes
        if entry.isResident {
            unheldResidents += 1
            order.letGo(slot)
            return dropIfSpare(slot)
        }
        evictedBytes -= entry.bytes
        forget(slot)
        return true
    }

    /// Lets go of the bytes of an original that are spare. Returns the buffer that is gone.
    mutating func dropSpareBody(of digest: ContentDigest) -> [BufferID] {
        guard let body = buffer(VariantKey(digest: digest, form: .original)), let slot = buffers.slot(of: body) else {
            return []
        }
        return dropIfSpare(slot) ? [body] : []
    }

    private mutating func dropIfSpare(_ slot: Int) -> Bool {
        let entry = buffers[slot]
        guard isSpare(entry) else { return false }
        order.remove(slot)
        residentBytes -= entry.bytes
        unheldResidents -= 1
        forget(slot)
        return true
    }

    /// Whether a buffer is an original's bytes that need not be here: nobody reads them, nobody has asked for them as
    /// such, and the disk tier has them under every name that leads to them.
    func isSpare(_ entry: Buffer) -> Bool {
        if entry.wasAskedFor || entry.holders > 0 || !entry.isResident || forms[Int(entry.form)].key != .original {
            return false
        }
        var link = contents[Int(entry.content)].originals
        while link != 0 {
            let original = originals[Int(link) - 1]
            if !original.isOnDisk { return false }
            link = original.next
        }
        return true
    }

    // MARK: Removing

    /// Whether all there is is within the budget, whoever lets go of whatever.
    var fits: Bool { residentBytes + evictedBytes + reservedBytes <= limit && buffers.count <= maximumEntries }

    /// Whether a buffer has to go. Those that are evicted and still held take memory and descriptors, too; but evicting
    /// one more that is held gives none back. For them, what nobody holds makes room down to half of the memory.
    var isOverBudget: Bool {
        if residentBytes + reservedBytes > limit || order.count > maximumEntries { return true }
        if unheldResidents == 0 { return false }
        let unheldBytes = residentBytes + evictedBytes - heldBytes
        return buffers.count > maximumEntries || !fits && unheldBytes > limit / 2
    }

    /// Evicts until the budget holds, and returns the buffers that are gone: those that nobody holds.
    mutating func evictToFit() -> [BufferID] {
        var dropped: [BufferID] = []
        while isOverBudget {
            let anyUnheld = unheldResidents > 0
            guard let slot = order.evict(isHeld: { anyUnheld && buffers[$0].holders != 0 }) else { break }
            let entry = buffers[slot]
            evictions += 1
            revision += 1
            if notesEvictions { evicted.append(Set(keys(of: contents[Int(entry.content)]))) }
            residentBytes -= entry.bytes
            if entry.holders == 0 {
                unheldResidents -= 1
                forget(slot)
                dropped.append(entry.key)
            } else {
                slots.end(entry.key)
                evictedBytes += entry.bytes
                buffers[slot].isResident = false
            }
        }
        return dropped
    }

    /// What was evicted since the last call, if it is to be noted.
    mutating func takeEvicted() -> [Evicted] {
        defer { evicted = [] }
        return evicted
    }

    /// Forgets an original and, when no other has the same bytes, everything made of them: no later hit, not even while
    /// it is held. Returns the buffers that are gone.
    mutating func remove(_ key: OriginalKey) -> [BufferID] {
        guard let content = forget(key) else { return [] }
        revision += 1
        guard contents[content].originals == 0 else { return dropSpareBody(of: contents[content].key) }
        var dropped: [BufferID] = []
        for slot in buffers(of: contents[content]) {
            let entry = buffers[slot]
            if entry.isResident {
                order.remove(slot)
                residentBytes -= entry.bytes
                if entry.holders == 0 { unheldResidents -= 1 }
            } else {
                evictedBytes -= entry.bytes
            }
            if entry.holders > 0 { heldBytes -= entry.bytes }
            takeOut(slot)
            dropped.append(entry.key)
        }
        contents.remove(at: content)
        return dropped
    }

    /// Takes a buffer, which is neither resident nor held, out of the tables; with the last buffer of a content go the
    /// originals that led to it.
    private mutating func forget(_ slot: Int) {
        revision += 1
        let content = Int(buffers[slot].content)
        takeOut(slot)
        guard contents[content].buffers == 0 else { return }
        for key in keys(of: contents[content]) { _ = forget(key) }
        contents.remove(at: content)
    }

    /// Takes a buffer out of the tables, and out of the chain of its content.
    private mutating func takeOut(_ slot: Int) {
        variants.remove(slot, hash: Self.hash(buffers[slot])) { Self.hash(buffers[$0]) }
        let entry = buffers.remove(at: slot)
        if entry.next != 0 { buffers[Int(entry.next) - 1].previous = entry.previous }
        if entry.previous != 0 {
            buffers[Int(entry.previous) - 1].next = entry.next
        } else {
            contents[Int(entry.content)].buffers = entry.next
        }
        forms[Int(entry.form)].uses -= 1
        if forms[Int(entry.form)].uses == 0 { forms.remove(at: Int(entry.form)) }
    }

    /// Takes an original out of the tables, and out of the chain of its content, whose slot is returned.
    private mutating func forget(_ key: OriginalKey) -> Int? {
        guard let slot = originals.slot(of: key) else { return nil }
        let record = originals.remove(at: slot)
        slots.end(key)
        let content = Int(record.content)
        contents[content].originalsCount -= 1
        if contents[content].originals == Link(slot + 1) {
            contents[content].originals = record.next
        } else {
            // A content has few originals; the most are bounded.
            var other = Int(contents[content].originals) - 1
            while originals[other].next != Link(slot + 1) { other = Int(originals[other].next) - 1 }
            originals[other].next = record.next
        }
        if let owner = key.owner, let count = owned[owner] { owned[owner] = count == 1 ? nil : count - 1 }
        return content
    }
}

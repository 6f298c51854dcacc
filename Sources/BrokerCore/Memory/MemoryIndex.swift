import Digests
import HTTPValues
import IPCProtocol
import SystemValues

/// The images in memory: originals and variants, found by key and by content, within a byte budget.
///
/// Everything made of the same bytes belongs to their content (`ContentKey`). Two URLs that serve equal bytes share it,
/// and a URL whose bytes change never leads to an old image. A buffer is *held* while a client leases it, while it is
/// being sent inline, and while a job needs it. A held buffer that is evicted can still be found until its last hold
/// ends.
///
/// The bytes of a buffer are in a segment, side by side with others of one owner (`Segments`); in the broker's own
/// memory; or in a sealed memfd. One without a memfd gets one, besides, while someone holds it who cannot have it
/// otherwise: then it is *shared*.
struct MemoryIndex {
    /// Where the bytes of a buffer are.
    enum Home: Equatable {
        case memfd
        case broker
        case segment(Segments.Place)
    }

    typealias Buffer = (
        variant: VariantKey, bytes: Int, geometry: PixelGeometry?, usedAt: Instant, wasRequested: Bool,
        isResident: Bool, holders: Int
    )

    /// Pools of `order`; those of the owners of segments follow.
    enum Pool {
        static let memfds = 0
        static let broker = 1
        static let firstOfOwner = 2
    }

    /// The budget in bytes; `evictToFit` applies a changed one.
    var limit: Int
    /// The maximum number of memfds, because each takes a descriptor.
    let maximumEntries: Int
    /// The bytes that a buffer without a memfd counts besides its own, because no descriptors limit the number of
    /// records.
    let recordBytes: Int

    // Entries of these tables refer to each other by their slots.
    private(set) var originals = SlotTable<OriginalEntry>()
    private(set) var contents = SlotTable<Content>()
    var buffers = SlotTable<BufferEntry>()
    private(set) var forms = SlotTable<FormEntry>()
    /// The slots of buffers by content and form.
    private(set) var variants = HashIndex()
    /// The first original of each URL's list, by the URL.
    private(set) var urls = HashIndex()
    /// The slots of resident buffers in the order of eviction, in pools by their homes: those of each owner of segments
    /// are one.
    var order = EvictionQueue()
    var segments: Segments
    var pools: [SegmentOwner: Int] = [:]
    var freePools: [Int] = []
    var orphans: [BufferID: Orphan] = [:]
    var orphanBytes = 0
    /// The held buffers without a record that are memfds.
    var orphanMemfds = 0
    /// The buffers that lie in segments, resident or not.
    var placedBuffers = 0
    var endedSegments: [Segments.Ended] = []
    /// The owners of places that have become free, who may have segments that they do not need.
    var ownersWithRoom: Set<SegmentOwner> = []
    private(set) var unheldResidents = 0
    /// Those of them that are memfds.
    private(set) var unheldMemfds = 0
    /// The buffers that are memfds, resident or not.
    private(set) var memfds = 0
    /// Buffers that have ended to be shared.
    private var unshared: [BufferID] = []
    /// The number of originals that belong to each user alone.
    private(set) var owned: [UInt32: Int] = [:]
    /// Whether `evictToFit` records what it evicts for `takeEvicted`.
    var notesEvictions = false
    /// The originals of each buffer that was evicted.
    private var evicted: [Set<OriginalKey>] = []
    private(set) var validity: ValiditySlots
    /// The sentences about the buffers with damage, which are few and live briefly.
    private(set) var damages: [BufferID: String] = [:]

    var residentBytes = 0
    /// The charged bytes of the texts of keys, responses and headers: an index full of long URLs is full too.
    private(set) var textBytes = 0
    private(set) var heldBytes = 0
    private(set) var evictedBytes = 0
    var evictedBuffers: Int { buffers.count - order.count }
    /// The bytes that running jobs have filled or are about to fill, which the owner of the jobs keeps up to date.
    var reservedBytes = 0
    /// The bytes and the number of shared buffers, which have a memfd besides.
    private(set) var sharedBytes = 0
    private(set) var sharedBuffers = 0
    private(set) var evictions = 0
    /// Those for want of descriptors alone.
    private(set) var descriptorEvictions = 0
    /// The last evictions, and the number of images that were decoded again after them.
    private(set) var recentEvictions = RecentEvictions()
    /// Changes whenever the answer to a request may have changed.
    var revision = 0

    /// The nanoseconds of all suspensions: responses age in them, while deadlines, slots and the uses of images stand
    /// still.
    private var suspended: Int64 = 0

    init(limit: Int, maximumEntries: Int, slots: Int = 0, segments: Segments = Segments(), recordBytes: Int = 0) {
        self.segments = segments
        self.recordBytes = recordBytes
        validity = ValiditySlots(capacity: slots)
        self.limit = limit
        self.maximumEntries = maximumEntries
    }

    // MARK: Suspension

    /// Lets all responses age by a suspension of the machine. Slots are in monotonic time, so they end.
    mutating func wasSuspended(milliseconds: Int) {
        suspended += Int64(milliseconds) * 1_000_000
        revision += 1
        endSlots()
    }

    func agingTime(_ instant: Instant) -> Instant { Instant(nanoseconds: instant.nanoseconds + suspended) }

    /// When the monotonic clock has this time, unless the machine is suspended before.
    func monotonicTime(_ instant: Instant) -> Instant {
        let (time, overflow) = instant.nanoseconds.subtractingReportingOverflow(suspended)
        return overflow ? instant : Instant(nanoseconds: time)
    }

    // MARK: Validity

    mutating func touch(_ buffer: BufferID, at now: Instant) {
        guard let slot = buffers.slot(of: buffer) else { return }
        buffers[slot].usedAt = now
        // The first answer is what it was made for.
        if buffers[slot].wasRequested { order.mark(slot) }
        buffers[slot].wasRequested = true
    }

    /// Assigns a slot of the validity page to a buffer as the answer to requests for `key`, or returns the one that it
    /// has. Returns nil when the buffer is not held, or not resident, or no slot is left.
    mutating func assignValiditySlot(to buffer: BufferID, for key: OriginalKey) -> ImageReply.Slot? {
        guard let record = buffers[buffer], record.isResident, record.holders > 0, let original = originals[key] else {
            return nil
        }
        return validity.assignSlot(to: buffer, for: key, until: monotonicTime(original.origin.freshUntil))
    }

    /// Ends all validity slots, because the next request for any image may get another answer.
    mutating func endSlots() { validity.endAll() }

    mutating func takeSlotChanges() -> [ValiditySlots.Change] { validity.takeChanges() }

    /// Returns the originals whose validity slots lead to this buffer.
    func keysWithSlot(for buffer: BufferID) -> [OriginalKey] { validity.keys(of: buffer) }

    // MARK: Adding

    /// Records that `key` leads to these bytes. Unless a buffer of that content exists, the caller must add one next.
    /// Returns the buffers that nothing leads to any more.
    mutating func insert(_ original: OriginalFacts, for key: OriginalKey) -> [BufferID] {
        revision += 1
        var dropped: [BufferID] = []
        if let old = self.original(key), old.content != original.content { dropped = remove(key) }
        validity.end(key)
        let content =
            contents.slot(of: original.content)
            ?? contents.insert(Content(key: original.content, bytes: original.bytes))
        contents[content].bytes = original.bytes
        if original.isFromDisk { contents[content].isFromDisk = true }
        let texts = key.textBytes + original.origin.textBytes
        let entry = OriginalEntry(
            key: key, content: content, origin: original.origin.named(key.url),
            textBytes: max(0, texts - Self.freeTextBytes), isFromDisk: original.isFromDisk, isOnDisk: original.isOnDisk,
            staysOffDisk: original.staysOffDisk)
        textBytes += entry.textBytes
        contents[content].textBytes += entry.textBytes
        if let slot = originals.slot(of: key) {
            textBytes -= originals[slot].textBytes
            contents[content].textBytes -= originals[slot].textBytes
            // The key too: with a cacheKey it may have another URL, by which `remove` finds it.
            unlinkFromURL(slot)
            originals[slot] = entry
            linkToURL(slot)
        } else {
            let slot = originals.insert(entry)
            contents[content].originals.append(slot)
            linkToURL(slot)
            if let owner = key.owner { owned.change(owner, default: 0) { $0 += 1 } }
        }
        limitKeys(of: content, keeping: key)
        return dropped
    }

    mutating func noteOnDisk(_ key: OriginalKey, _ body: BufferID) {
        guard let slot = originals.slot(of: key), originals[slot].content == buffers[body]?.content else { return }
        originals[slot].isOnDisk = true
    }

    /// Removes one of the originals with the same bytes when too many share buffers, whose bytes count once.
    private mutating func limitKeys(of content: Int, keeping key: OriginalKey) {
        let slots = contents[content].originals
        guard slots.count > 1,
            slots.count > Self.maximumKeys || originals.count - contents.count > maximumEntries
                || contents[content].textBytes > Self.maximumTextBytes
        else { return }
        let other = slots.last { originals[$0].key != key && originals[$0].key.nonce == 0 }
        if let other { forgetOriginal(other) }
    }

    private static let maximumKeys = 1024
    /// The bytes of texts that an original may have without charge: hardly any has more.
    private static let freeTextBytes = 1024
    private static let maximumTextBytes = 256 << 10

    /// Records the header of an image; a timing or placeholder known before is kept.
    mutating func insert(_ header: ImageHeader, of key: ContentKey) {
        guard let content = contents.slot(of: key) else { return }
        revision += 1
        var header = header
        let known = contents[content].header
        header.timing = header.timing ?? known?.timing
        header.placeholder = header.placeholder ?? known?.placeholder
        if header.facts == nil, let facts = known?.facts { header.facts = facts }
        textBytes += Self.size(of: header) - Self.size(of: known)
        contents[content].header = header
    }

    /// The bytes of a header's list of times, and of its facts.
    static func size(of header: ImageHeader?) -> Int {
        (header?.timing?.delaysMs.count ?? 0) * MemoryLayout<Int>.stride
            + (header?.facts.map { MemoryLayout<ImageFacts>.stride + ($0.profile?.utf8.count ?? 0) } ?? 0)
    }

    /// Adds an unheld buffer to a known content; `microseconds` is the time to make it again. Evicts nothing.
    mutating func insert(
        _ buffer: BufferID, as variant: VariantKey, bytes: Int, geometry: PixelGeometry? = nil, at now: Instant,
        worth microseconds: Int = 0, uses: Int = 1, isHandedOut: Bool = false, damage: String? = nil,
        in home: Home = .memfd
    ) {
        guard let content = contents.slot(of: variant.content) else { return }
        if let damage { damages[buffer] = damage }
        revision += 1
        let form = forms.slot(of: variant.form) ?? forms.insert(FormEntry(variant.form))
        forms[form].uses += 1
        let entry = BufferEntry(
            key: buffer, content: content, form: form, bytes: bytes, geometry: geometry, usedAt: now, home: home)
        let slot = buffers.insert(entry)
        contents[content].buffers.append(slot)
        variants.insert(slot, hash: Self.hash(content, variant.form))
        order.insert(
            slot, microseconds: microseconds, bytes: charge(of: slot), uses: uses,
            named: isHandedOut ? variant.nameInSample : nil, in: pool(of: home))
        residentBytes += entry.charge
        countUnheld(slot, 1)
        countHome(of: entry, 1)
    }

    /// Notes that an image was decoded, not read from disk.
    mutating func noteDecoding(of variant: VariantKey) { recentEvictions.decoded(variant.hashValue) }

    /// The bytes that count for a buffer in the order of eviction. A memfd also takes one of `maximumEntries`
    /// descriptors, whose share of the budget counts as further bytes. So do the texts of its originals.
    private func charge(of slot: Int) -> Int {
        let entry = buffers[slot]
        let extra = entry.home == .memfd ? limit / max(1, maximumEntries) : recordBytes
        let (size, overflowed) = entry.bytes.addingReportingOverflow(extra + contents[entry.content].textBytes)
        return overflowed ? .max : size
    }

    // MARK: Handing over

    /// Returns the contents for another index: of what requests can name, without damage, of `least` bytes.
    func kept(atLeast least: Int = 0, at now: Instant) -> [KeptContent] {
        contents.compactMap { content -> KeptContent? in
            // Only memfds, which `least` asks for.
            let slots = content.buffers.filter {
                buffers[$0].bytes >= least && damages[buffers[$0].key] == nil
                    // Their headers are kept without the lengths of the blocks.
                    && form(of: buffers[$0]).metadata.isEmpty
                    && (least == 0 || buffers[$0].home == .memfd) && !forms[buffers[$0].form].isBrief
            }
            let keys = content.originals.map { originals[$0].key }.filter { $0.nonce == 0 }
            if slots.isEmpty || keys.isEmpty { return nil }
            // Facts are read again when they are asked for.
            var header = content.header
            header?.facts = nil
            var kept = KeptContent(
                digest: content.key.digest.hexadecimal, owner: content.key.owner, pixels: content.key.pixels,
                bytes: content.bytes, header: header)
            kept.originals = keys.compactMap { key in
                originals.slot(of: key).map { KeptOriginal(key, original(in: $0)) }
            }
            kept.buffers = slots.map { keptBuffer($0, at: now) }
            return kept
        }
    }

    private func keptBuffer(_ slot: Int, at now: Instant) -> KeptBuffer {
        let entry = buffers[slot]
        let charge = charge(of: slot)
        // An evicted buffer that is still held is not in the order.
        let worth = order.worth(of: slot, bytes: charge)
        var kept = KeptBuffer(
            number: entry.key.number, transform: form(of: entry).transform, encoding: form(of: entry).encoding,
            bytes: entry.bytes, geometry: entry.geometry, microseconds: worth?.microseconds ?? 0,
            uses: max(1, worth?.uses ?? 1), idleMs: Self.idleMs(entry.usedAt, at: now), wasRequested: entry.wasRequested
        )
        kept.segment = entry.place
        return kept
    }

    /// Takes over the segments of another process, before its contents.
    mutating func restore(_ kept: [KeptSegment], last: Int) { segments.restore(kept, last: last) }

    /// Ends the segments of another process that have no images.
    mutating func endEmptySegments() { endedSegments += segments.endEmpty() }

    private static func idleMs(_ usedAt: Instant, at now: Instant) -> Int {
        min(max(0, now.microseconds(since: usedAt) / 1000), KeptBuffer.mostIdleMs)
    }

    /// Takes over a content that is unknown, as all in it. Returns the buffers that are not needed.
    mutating func restore(
        _ content: OriginalFacts, _ header: ImageHeader?, _ keys: [(key: OriginalKey, original: OriginalFacts)],
        _ kept: [KeptBuffer], at now: Instant
    ) -> [BufferID] {
        for (key, original) in keys { _ = insert(original, for: key) }
        if let header { insert(header, of: content.content) }
        for buffer in kept {
            let id = BufferID(number: buffer.number)
            let usedAt = Instant(nanoseconds: now.nanoseconds - Int64(buffer.idleMs) * 1_000_000)
            if let place = buffer.segment, !segments.restore(id, bytes: buffer.bytes, at: place) { continue }
            insert(
                id, as: VariantKey(content: content.content, form: buffer.form), bytes: buffer.bytes,
                geometry: buffer.geometry, at: usedAt, worth: buffer.microseconds, uses: buffer.uses,
                in: buffer.segment.map { .segment($0) } ?? (buffer.hasContents ? .broker : .memfd))
            if buffer.wasRequested, let slot = buffers.slot(of: id) { buffers[slot].wasRequested = true }
        }
        return dropSpareBody(of: content.content)
    }

    // MARK: Holding

    mutating func hold(_ buffer: BufferID, bytes: Int) {
        guard let slot = buffers.slot(of: buffer) else {
            return addOrphan(buffer, Orphan(place: nil, bytes: bytes, holders: 1))
        }
        buffers[slot].holders += 1
        let record = buffers[slot]
        if record.holders == 1 {
            if let place = record.place { segments.setHeld(true, at: place) }
            heldBytes += record.bytes
            if record.isResident { countUnheld(slot, -1) } else { evictedBytes += record.bytes }
        }
    }

    /// Ends one hold. Returns true when the buffer is removed with it: it was evicted before, or is spare.
    mutating func unhold(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer) else {
            orphans.change(buffer) { $0.holders -= 1 }
            if orphans[buffer]?.holders == 0 { removeOrphan(buffer) }
            return false
        }
        buffers[slot].holders -= 1
        let record = buffers[slot]
        if record.holders > 0 { return false }
        if let place = record.place { segments.setHeld(false, at: place) }
        validity.end(buffer)
        heldBytes -= record.bytes
        if record.isShared {
            unshare(slot)
            unshared.append(buffer)
        }
        if record.isResident {
            countUnheld(slot, 1)
            order.release(slot)
            return dropIfSpare(slot)
        }
        evictedBytes -= record.bytes
        forgetBuffer(slot)
        return true
    }

    /// Adds the holds of an orphan.
    private mutating func addOrphan(_ buffer: BufferID, _ orphan: Orphan) {
        if orphans[buffer] == nil {
            orphans[buffer] = orphan
            orphanBytes += orphan.bytes
            if orphan.place == nil { orphanMemfds += 1 }
        } else {
            orphans.change(buffer) { $0.holders += orphan.holders }
        }
    }

    /// Notes that a buffer that is held has a memfd besides. Returns whether it has to be made.
    mutating func share(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer), !hasMemfd(slot) else { return false }
        buffers[slot].isShared = true
        sharedBuffers += 1
        sharedBytes += buffers[slot].bytes
        return true
    }

    private mutating func unshare(_ slot: Int) {
        buffers[slot].isShared = false
        sharedBuffers -= 1
        sharedBytes -= buffers[slot].bytes
    }

    /// Returns the buffers whose memfds are not needed any more.
    mutating func takeUnshared() -> [BufferID] {
        if unshared.isEmpty { return [] }
        return exchange(&unshared, with: []).filter { buffers[$0]?.isShared == false }
    }

    /// Whether the end of one of a buffer's holds has no other effect: it stays resident, and nothing must be evicted.
    func isReleasedAlone(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer), buffers[slot].isResident else { return false }
        let hasOthers = buffers[slot].holders > 1
        return isWithinBudget && (hasOthers || !buffers[slot].isShared && !forms[buffers[slot].form].isBrief)
    }

    mutating func dropSpareBody(of content: ContentKey) -> [BufferID] {
        buffer(VariantKey(content: content, form: .original)).map { dropSpare($0) } ?? []
    }

    /// Removes a buffer if it is spare. Returns it then.
    mutating func dropSpare(_ buffer: BufferID) -> [BufferID] {
        buffers.slot(of: buffer).map { dropIfSpare($0) } == true ? [buffer] : []
    }

    private mutating func dropIfSpare(_ slot: Int) -> Bool {
        let record = buffers[slot]
        guard isSpare(record) else { return false }
        settle(slot)
        forgetBuffer(slot)
        return true
    }

    /// Returns whether memory need not keep a buffer, which has no holder: it is a part of an animation, or an original
    /// that is encoded, whose bytes no client has requested, and which is elsewhere: in the disk tier under every key
    /// that leads to it, or in a local file, of which memory has an image.
    func isSpare(_ record: BufferEntry) -> Bool {
        guard record.holders == 0, record.isResident else { return false }
        if forms[record.form].isBrief { return true }
        let content = contents[record.content]
        guard !record.wasRequested, form(of: record) == .original, content.key.pixels == nil else { return false }
        if content.originals.allSatisfy({ originals[$0].isOnDisk }) { return true }
        // The parts of an animation are made of its bytes one after the other.
        return content.header?.frameCount == 1 && content.originals.allSatisfy { originals[$0].key.url.isFile }
            && content.buffers.contains { form(of: buffers[$0]) != .original && !forms[buffers[$0].form].isBrief }
    }

    private mutating func countUnheld(_ slot: Int, _ change: Int) {
        unheldResidents += change
        if buffers[slot].home == .memfd { unheldMemfds += change }
    }

    mutating func countHome(of entry: BufferEntry, _ change: Int) {
        switch entry.home {
        case .memfd: memfds += change
        case .broker: break
        case .segment: placedBuffers += change
        }
    }

    // MARK: Removing

    /// The bytes that count against `limit`, except those that only holds keep.
    var residentCharge: Int {
        residentBytes + reservedBytes + textBytes + segments.restBytes
            + (entries - order.count(in: Pool.memfds)) * recordBytes
    }

    /// The bytes that only holds keep in memory.
    var bytesOfHolds: Int { evictedBytes + sharedBytes + orphanBytes }

    private var descriptors: Int { memfds + sharedBuffers }

    /// Whether all bytes are at most `limit`, and all memfds at most `maximumEntries`.
    var isWithinBudget: Bool { residentCharge + bytesOfHolds <= limit && descriptors <= maximumEntries }

    /// Whether bytes are a reason to evict another buffer. Those that only holds keep are one only while the unheld
    /// ones take more than half of `limit`: evicting another held buffer would free nothing.
    private var areBytesShort: Bool {
        if residentCharge > limit { return true }
        let unheldBytes = residentBytes + evictedBytes - heldBytes
        return unheldResidents > 0 && residentCharge + bytesOfHolds > limit && unheldBytes > limit / 2
    }

    /// Whether descriptors are a reason to evict another memfd; of those that only holds keep, if an unheld one is
    /// left.
    private var areDescriptorsShort: Bool {
        order.count(in: Pool.memfds) + sharedBuffers > maximumEntries
            || descriptors > maximumEntries && unheldMemfds > 0
    }

    var mustEvict: Bool {
        areBytesShort && entries > 0 || areDescriptorsShort && order.count(in: Pool.memfds) > 0
    }

    /// Evicts while it must; held buffers only when all are held. Returns the removed ones, without a holder.
    mutating func evictToFit() -> [BufferID] {
        var dropped: [BufferID] = []
        while mustEvict {
            let isForDescriptors = !areBytesShort
            guard let slot = isForDescriptors ? evictMemfd() : evictForBytes() else { break }
            if isForDescriptors { descriptorEvictions += 1 }
            let owner = buffers[slot].place.flatMap { segments[$0.segment]?.owner }
            if let buffer = evicted(slot) { dropped.append(buffer) }
            // The place of an evicted buffer is free, but its memory is not until a segment ends.
            if let owner { noteEnd(segments.endSpare(of: owner)) }
        }
        return dropped
    }

    /// Notes the eviction of a resident buffer that was taken out of the order. Returns it if it is removed: it has no
    /// holder.
    mutating func evicted(_ slot: Int) -> BufferID? {
        let record = buffers[slot]
        evictions += 1
        recentEvictions.evicted(variant(of: record).hashValue)
        revision += 1
        if notesEvictions { evicted.append(Set(contents[record.content].originals.map { originals[$0].key })) }
        residentBytes -= record.charge
        if record.holders > 0 {
            validity.end(record.key)
            evictedBytes += record.bytes
            buffers[slot].isResident = false
            return nil
        }
        countUnheld(slot, -1)
        forgetBuffer(slot)
        return record.key
    }

    /// Takes out the buffer that is worth least among those with a memfd.
    private mutating func evictMemfd() -> Int? {
        let anyUnheld = unheldMemfds > 0
        return order.evict(from: Pool.memfds) { anyUnheld && buffers[$0].holders != 0 }
    }

    /// Takes out the buffer that is worth least; a held one only when all are held.
    private mutating func evictForBytes() -> Int? {
        let anyUnheld = unheldResidents > 0
        let all = [Pool.memfds, Pool.broker] + pools.values
        return order.evict(fromAny: all) { anyUnheld && buffers[$0].holders != 0 }
    }

    /// Returns the evictions since the last call, if `notesEvictions`.
    mutating func takeEvicted() -> [Set<OriginalKey>] { exchange(&evicted, with: []) }

    /// Removes an original and, when no other has the same bytes, everything made of them. They are no later hit, even
    /// while they are held. Returns the buffers that were removed.
    mutating func remove(_ key: OriginalKey) -> [BufferID] {
        guard let original = originals.slot(of: key) else { return [] }
        revision += 1
        let content = originals[original].content
        forgetOriginal(original)
        guard contents[content].originals.isEmpty else { return dropSpareBody(of: contents[content].key) }
        var dropped: [BufferID] = []
        for slot in contents[content].buffers.reversed() {
            settle(slot)
            dropped.append(buffers[slot].key)
            takeOut(slot)
        }
        textBytes -= Self.size(of: contents.remove(at: content).header)
        return dropped
    }

    /// Removes a buffer, with the last of a content also its originals; it is no later hit. Returns it if present.
    mutating func remove(_ buffer: BufferID) -> [BufferID] {
        guard let slot = buffers.slot(of: buffer) else { return [] }
        validity.end(buffer)
        settle(slot)
        forgetBuffer(slot)
        return [buffer]
    }

    /// Takes a buffer that will be removed out of the order of eviction and the sums.
    private mutating func settle(_ slot: Int) {
        let record = buffers[slot]
        if record.isResident {
            order.remove(slot)
            residentBytes -= record.charge
            if record.holders == 0 { countUnheld(slot, -1) }
        } else {
            evictedBytes -= record.bytes
        }
        if record.holders > 0 { heldBytes -= record.bytes }
    }

    /// Removes a buffer that was settled; with the last of a content also its originals.
    private mutating func forgetBuffer(_ slot: Int) {
        revision += 1
        let content = buffers[slot].content
        takeOut(slot)
        if !contents[content].buffers.isEmpty { return }
        // From the last to the first, so that each removal from the list is short.
        for original in contents[content].originals.reversed() { forgetOriginal(original) }
        textBytes -= Self.size(of: contents.remove(at: content).header)
    }

    private mutating func takeOut(_ slot: Int) {
        if buffers[slot].isShared { unshare(slot) }
        countHome(of: buffers[slot], -1)
        variants.remove(slot, hash: Self.hash(buffers[slot].content, forms[buffers[slot].form].key))
        if !damages.isEmpty { damages[buffers[slot].key] = nil }
        let entry = buffers.remove(at: slot)
        if entry.holders > 0 {
            let bytes = entry.place == nil ? entry.bytes : entry.charge
            addOrphan(entry.key, Orphan(place: entry.place, bytes: bytes, holders: entry.holders))
        } else if let place = entry.place {
            free(place)
        }
        contents[entry.content].buffers.remove(slot)
        forms[entry.form].uses -= 1
        if forms[entry.form].uses == 0 { forms.remove(at: entry.form) }
    }

    /// Adds an original to the list of its URL, as the second one, so that the first need not change.
    private mutating func linkToURL(_ slot: Int) {
        let url = originals[slot].key.url
        guard let first = firstOriginal(at: url) else { return urls.insert(slot, hash: url.hashValue) }
        let second = originals[first].nextAtURL
        (originals[slot].previousAtURL, originals[slot].nextAtURL) = (first, second)
        originals[first].nextAtURL = slot
        if let second { originals[second].previousAtURL = slot }
    }

    private mutating func unlinkFromURL(_ slot: Int) {
        let (previous, next) = (originals[slot].previousAtURL, originals[slot].nextAtURL)
        if let next { originals[next].previousAtURL = previous }
        if let previous {
            originals[previous].nextAtURL = next
        } else {
            let hash = originals[slot].key.url.hashValue
            urls.remove(slot, hash: hash)
            if let next { urls.insert(next, hash: hash) }
        }
    }

    private mutating func forgetOriginal(_ slot: Int) {
        unlinkFromURL(slot)
        let original = originals.remove(at: slot)
        textBytes -= original.textBytes
        contents[original.content].textBytes -= original.textBytes
        validity.end(original.key)
        contents[original.content].originals.remove(slot)
        if let owner = original.key.owner, let count = owned[owner] { owned[owner] = count == 1 ? nil : count - 1 }
    }
}

import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The images in memory: originals and variants in sealed memfds, found by key and by content, within a byte budget.
///
/// Everything made of the same bytes belongs to their content (`ContentKey`). Two URLs that serve equal bytes share it, and a URL whose
/// bytes change never leads to an old image. A buffer is *held* while a client leases it, while it is being sent inline, and
/// while a job needs it. A held buffer that is evicted can still be found until its last hold ends.
///
/// Small variants may lie in segments, side by side with others of one owner (`Segments`); all other buffers have a memfd each.
///
/// A content of which all buffers are packed is *frozen*: it leaves these tables as one record of bytes (`FrozenContents`). Each
/// look-up by key brings it back (`thaw`), so nothing else need know. `freeze` is called at the end of an event only, so what an
/// event has found stays in the tables until then.
struct MemoryIndex {
    /// A sealed memfd.
    struct Buffer {
        let variant: VariantKey
        let bytes: Int
        /// The size of its raster; nil for an original.
        let geometry: PixelGeometry?
        /// When it was last requested.
        let usedAt: Instant
        /// Whether it was ever the answer to a request.
        let wasRequested: Bool
        /// Whether it counts against the budget; otherwise it is evicted and stays for its holders.
        let isResident: Bool
        /// The holds: one for each client that leases it, for each client that it is being sent to inline, and for each job
        /// that needs it.
        let holders: Int
        /// Where it lies in a segment; nil with a memfd.
        let place: Segments.Place?
    }

    /// The entries of an original's bytes: at least one original and one buffer, except between `insert` of the
    /// original and `insert` of its first buffer.
    private struct Content: KeyedRecord {
        let key: ContentKey
        var bytes: Int
        var header: ImageHeader?
        /// The bytes of its originals' texts.
        var textBytes = 0
        /// Whether any of its originals came from the disk tier, and so any of its buffers may have.
        var isFromDisk = false
        /// The originals with these bytes, the oldest first.
        var originals = SlotList()
        /// The variants, the oldest first.
        var buffers = SlotList()
    }

    /// A key that leads to a content.
    private struct OriginalEntry: KeyedRecord {
        let key: OriginalKey
        let content: Int
        var origin: OriginStatement
        /// The bytes of the texts of both that are charged.
        let textBytes: Int
        var isFromDisk: Bool
        var isOnDisk: Bool
        let staysOffDisk: Bool
        /// The neighbours in the list of the originals of one URL.
        var previousAtURL: Int?
        var nextAtURL: Int?
    }

    /// A buffer as `Buffer` describes it.
    private struct BufferEntry: KeyedRecord {
        let key: BufferID
        let content: Int
        let form: Form
        let bytes: Int
        let geometry: PixelGeometry?
        var usedAt: Instant
        var wasRequested = false
        var isResident = true
        var holders = 0
        /// Whether it has no memfd at present: its bytes are in the broker's own memory until it is held.
        var isPacked = false
        /// Whether it is in `packing`, and whether it was used since it entered it.
        var isQueued = false
        var wasUsed = false
        /// Where it lies in a segment; nil for any other.
        var place: Segments.Place?

        /// The bytes that it counts while it is resident.
        var charge: Int { place == nil ? bytes : SegmentSpace.units(of: bytes) * SegmentSpace.unit }
    }

    /// A buffer in a segment that was removed while it was held: its bytes stay until its last hold ends.
    private struct Orphan {
        let place: Segments.Place
        let charge: Int
        var holders: Int
    }

    /// Pools of `order`; those of the owners of segments follow.
    private enum Pool {
        static let memfds = 0
        static let packed = 1
        static let firstOfOwner = 2
    }

    /// The originals of a buffer that was evicted.
    typealias Evicted = Set<OriginalKey>

    /// The budget in bytes; `evictToFit` applies a changed one.
    var limit: Int
    /// The maximum number of buffers that are not packed, because each takes a descriptor.
    let maximumEntries: Int

    // Entries of these tables refer to each other by their slots.
    private var originals = SlotTable<OriginalEntry>()
    private var contents = SlotTable<Content>()
    private var buffers = SlotTable<BufferEntry>()
    /// The slots of buffers by content and form.
    private var variants = HashIndex()
    /// The first original of each URL's list, by the URL.
    private var urls = HashIndex()
    /// The slots of resident buffers in the order of eviction, in pools: those with a memfd, those that are packed, and those in the
    /// segments of each owner.
    private var order = EvictionQueue()
    private var segments: Segments
    private var pools: [SegmentOwner: Int] = [:]
    private var freePools: [Int] = []
    private var orphans: [BufferID: Orphan] = [:]
    private var orphanBytes = 0
    /// The buffers that lie in segments, resident or not.
    private var placedBuffers = 0
    private var endedSegments: [Segments.Ended] = []
    /// The owners of places that have become free, who may have segments that they do not need.
    private var ownersWithRoom: Set<SegmentOwner> = []
    private var unheldResidents = 0
    /// Those of them that lie in segments.
    private var unheldPlaced = 0
    private var packing = PackingQueue()
    /// The number of buffers in `packing`, without those that are gone.
    private var queuedBuffers = 0
    private var newlyPacked: [BufferID] = []
    private var frozen = FrozenContents()
    /// Packed buffers whose contents may have become such that they can be frozen.
    private var freezable: [BufferID] = []
    /// The number of originals that belong to each user alone.
    private var owned: [UInt32: Int] = [:]
    /// Whether `evictToFit` records what it evicts for `takeEvicted`.
    var notesEvictions = false
    private var evicted: [Evicted] = []
    private var validity: ValiditySlots
    /// The sentences about the buffers with damage, which are few and live briefly.
    private var damages: [BufferID: String] = [:]

    /// The bytes of resident buffers.
    private(set) var residentBytes = 0
    /// The charged bytes of the texts of keys and responses, and those of lists in headers: an index full of long URLs is full
    /// too.
    private(set) var textBytes = 0
    /// The bytes of held buffers, resident or not.
    private(set) var heldBytes = 0
    /// Restored buffers that clients hold who are not restored yet: they are not packed, because a frozen one cannot be held.
    private var awaited: Set<BufferID> = []
    /// The bytes of evicted buffers that are still held.
    private(set) var evictedBytes = 0
    /// The number of evicted buffers that are still held.
    var evictedBuffers: Int { buffers.count - order.count }
    /// The bytes that running jobs have filled or are about to fill, which the owner of the jobs keeps up to date.
    var reservedBytes = 0
    /// The number of buffers that are packed, those of frozen contents included.
    var packedBuffers: Int { order.count(in: Pool.packed) + frozen.bufferCount }
    /// The number of contents that are frozen.
    var frozenContents: Int { frozen.count }
    /// The number of evictions since the start.
    private(set) var evictions = 0
    /// Those for want of descriptors alone.
    private(set) var descriptorEvictions = 0
    /// The last evictions, and the number of images that were decoded again after them.
    private(set) var recentEvictions = RecentEvictions()
    /// Changes whenever the answer to a request may have changed.
    private(set) var revision = 0

    /// The nanoseconds of all suspensions: responses age in them, while deadlines, slots and the uses of images stand still.
    private var suspended: Int64 = 0

    init(limit: Int, maximumEntries: Int, slots: Int = 0, segments: Segments = Segments()) {
        self.segments = segments
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

    /// The time of the clock by which responses age.
    func agingTime(_ instant: Instant) -> Instant { Instant(nanoseconds: instant.nanoseconds + suspended) }

    /// When the monotonic clock has this time, unless the machine is suspended before.
    func monotonicTime(_ instant: Instant) -> Instant {
        let (time, overflow) = instant.nanoseconds.subtractingReportingOverflow(suspended)
        return overflow ? instant : Instant(nanoseconds: time)
    }

    // MARK: Finding

    /// The number of resident buffers.
    var entries: Int { order.count + frozen.bufferCount }

    /// All buffers, resident or not.
    var bufferIDs: [BufferID] { buffers.map(\.key) + frozen.flatMap { $0.buffers.map(\.id) } }

    /// Returns the record of a buffer that is held, or was found in this event; nil for one of a frozen content.
    func record(of buffer: BufferID) -> Buffer? {
        guard let slot = buffers.slot(of: buffer) else { return nil }
        let entry = buffers[slot]
        return Buffer(
            variant: variant(of: entry), bytes: entry.bytes, geometry: entry.geometry, usedAt: entry.usedAt,
            wasRequested: entry.wasRequested, isResident: entry.isResident, holders: entry.holders, place: entry.place)
    }

    /// Where a buffer lies; nil for one with a memfd, packed, or unknown.
    func place(of buffer: BufferID) -> Segments.Place? {
        placedBuffers == 0 ? nil : buffers.slot(of: buffer).flatMap { buffers[$0].place }
    }

    /// The owner of a segment and its bytes; nil for one that has ended.
    func segment(_ number: Int) -> (owner: SegmentOwner, bytes: Int)? { segments[number] }

    mutating func original(_ key: OriginalKey) -> OriginalFacts? {
        guard let slot = originalSlot(of: key) else { return nil }
        return original(in: slot)
    }

    private func original(in slot: Int) -> OriginalFacts {
        let entry = originals[slot]
        return OriginalFacts(
            content: contents[entry.content].key, bytes: contents[entry.content].bytes, origin: entry.origin,
            isFromDisk: entry.isFromDisk, isOnDisk: entry.isOnDisk, staysOffDisk: entry.staysOffDisk)
    }

    /// Returns whether any original belongs to `uid` alone.
    func hasAny(ownedBy uid: UInt32) -> Bool { owned[uid] != nil }

    /// Returns the header of the image with these bytes; nil when it was not read yet.
    mutating func header(of content: ContentKey) -> ImageHeader? {
        contentSlot(of: content).flatMap { contents[$0].header ?? content.pixels?.header }
    }

    /// Returns the buffer of a variant. That of stored pixels in their own form is the original.
    mutating func buffer(_ variant: VariantKey) -> BufferID? {
        contentSlot(of: variant.content).flatMap { buffer(variant, in: $0) }
    }

    private func buffer(_ variant: VariantKey, in content: Int) -> BufferID? {
        if let slot = slot(of: variant.form, in: content) { return buffers[slot].key }
        guard let pixels = variant.content.pixels, case .pixels(let transform) = variant.form,
            pixels.areResult(of: transform)
        else { return nil }
        return slot(of: .original, in: content).map { buffers[$0].key }
    }

    /// Returns the buffer that answers requests for a variant: one without damage, or a damaged one if the variant accepts that.
    mutating func answer(to variant: VariantKey) -> BufferID? {
        guard variant.form.acceptsDamage else { return buffer(variant) }
        return buffer(variant.ofSound) ?? buffer(variant)
    }

    /// Returns the sentence about a buffer's damage; nil for one without.
    func damage(of buffer: BufferID) -> String? { damages.isEmpty ? nil : damages[buffer] }

    /// Whether a buffer has no memfd at present.
    func isPacked(_ buffer: BufferID) -> Bool { packedBuffers > 0 && buffers[buffer]?.isPacked != false }

    /// Returns whether anything made of these bytes is damaged.
    func hasDamage(_ content: ContentKey) -> Bool {
        damages.keys.contains { record(of: $0)?.variant.content == content }
    }

    private func slot(of form: Form, in content: Int) -> Int? {
        // Most contents have one form, or are asked for the last one.
        if let last = contents[content].buffers.last, buffers[last].form == form { return last }
        return variants.slot(hash: Self.hash(content, form)) {
            buffers[$0].content == content && buffers[$0].form == form
        }
    }

    private static func hash(_ content: Int, _ form: Form) -> Int {
        var hasher = Hasher()
        hasher.combine(content)
        hasher.combine(form)
        return hasher.finalize()
    }

    private static func hash(_ entry: BufferEntry) -> Int { hash(entry.content, entry.form) }

    /// Returns whether anything made of these bytes can be found.
    mutating func isKnown(_ content: ContentKey) -> Bool { contentSlot(of: content) != nil }

    /// Returns the originals with no variant requested since `time`, except frozen ones (`removeFrozen`).
    func keys(unusedSince time: Instant) -> [OriginalKey] {
        let used = Set(buffers.lazy.filter { $0.usedAt > time }.map(\.content))
        return originals.filter { !used.contains($0.content) }.map(\.key)
    }

    /// Returns the bytes of the resident buffers that only this original leads to, which is not frozen.
    func bytes(of key: OriginalKey) -> Int {
        guard let original = originals[key], contents[original.content].originals.count == 1 else { return 0 }
        return contents[original.content].buffers.lazy.map { buffers[$0] }.filter(\.isResident)
            .reduce(0) { $0 + $1.bytes }
    }

    /// Returns the originals that were loaded from `url`.
    mutating func keys(at url: SourceURL) -> [OriginalKey] {
        thaw(at: url)
        return unfrozenKeys(at: url)
    }

    private func unfrozenKeys(at url: SourceURL) -> [OriginalKey] {
        var keys: [OriginalKey] = []
        var next = firstOriginal(at: url)
        while let slot = next {
            keys.append(originals[slot].key)
            next = originals[slot].nextAtURL
        }
        return keys
    }

    private func firstOriginal(at url: SourceURL) -> Int? {
        urls.slot(hash: url.hashValue) { originals[$0].key.url == url }
    }

    /// Returns the originals with these bytes.
    mutating func keys(of content: ContentKey) -> [OriginalKey] {
        contentSlot(of: content).map { contents[$0].originals.map { originals[$0].key } } ?? []
    }

    /// The forms in which an image is in memory.
    mutating func forms(of content: ContentKey) -> [Form] {
        contentSlot(of: content).map { contents[$0].buffers.map { buffers[$0].form } } ?? []
    }

    /// The contents that are not frozen, all or those of which something came from the disk tier.
    func unfrozenContents(fromDiskOnly: Bool) -> Set<ContentKey> {
        Set(contents.lazy.filter { $0.isFromDisk || !fromDiskOnly }.map(\.key))
    }

    /// Returns the originals for which `isMeant` is true.
    func keys(where isMeant: (OriginalKey) -> Bool) -> [OriginalKey] {
        (originals.map(\.key) + frozen.flatMap { $0.originals.map(\.key) }).filter(isMeant)
    }

    // MARK: Validity

    /// Records that a buffer was requested.
    mutating func touch(_ buffer: BufferID, at now: Instant) {
        guard let slot = buffers.slot(of: buffer) else { return }
        buffers[slot].usedAt = now
        buffers[slot].wasRequested = true
        buffers[slot].wasUsed = true
        order.mark(slot)
    }

    /// Assigns a slot of the validity page to a buffer as the answer to requests for `key`, or returns the one that it has.
    /// Returns nil when the buffer is not held, or not resident, or no slot is left.
    mutating func assignValiditySlot(to buffer: BufferID, for key: OriginalKey) -> ImageReply.Slot? {
        guard let record = buffers[buffer], record.isResident, record.holders > 0, let original = originals[key] else {
            return nil
        }
        return validity.assignSlot(to: buffer, for: key, until: monotonicTime(original.origin.freshUntil))
    }

    /// Ends all validity slots, because the next request for any image may get another answer.
    mutating func endSlots() { validity.endAll() }

    /// Returns the changes to be written to the validity page.
    mutating func takeSlotChanges() -> [ValiditySlots.Change] { validity.takeChanges() }

    /// Returns the originals whose validity slots lead to this buffer.
    func keysWithSlot(for buffer: BufferID) -> [OriginalKey] { validity.keys(of: buffer) }

    // MARK: Adding

    /// Records that `key` leads to these bytes. Unless a buffer of that content exists, the caller must add one next.
    /// Returns the buffers that nothing leads to any more.
    mutating func insert(_ original: OriginalFacts, for key: OriginalKey) -> [BufferID] {
        revision += 1
        // Frozen contents are found by URL, and no other has one of theirs.
        thaw(at: key.url)
        var dropped: [BufferID] = []
        if let old = self.original(key), old.content != original.content { dropped = remove(key) }
        validity.end(key)
        let content =
            contentSlot(of: original.content)
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
            add(entry)
            if let owner = key.owner { owned.change(owner, default: 0) { $0 += 1 } }
        }
        limitKeys(of: content, keeping: key)
        return dropped
    }

    private mutating func add(_ entry: OriginalEntry) {
        let slot = originals.insert(entry)
        contents[entry.content].originals.append(slot)
        linkToURL(slot)
    }

    /// Records that the disk tier has the bytes of an original, which are those in `body`.
    mutating func noteOnDisk(_ key: OriginalKey, _ body: BufferID) {
        guard let slot = originals.slot(of: key), originals[slot].content == buffers[body]?.content else { return }
        originals[slot].isOnDisk = true
    }

    /// Removes one of the originals with the same bytes when there are too many. They share buffers, so the byte budget
    /// does not limit their number.
    private mutating func limitKeys(of content: Int, keeping key: OriginalKey) {
        let slots = contents[content].originals
        guard slots.count > 1,
            slots.count > Self.maximumKeys || originals.count - contents.count > maximumEntries
                || contents[content].textBytes > Self.maximumTextBytes
        else { return }
        let other = slots.last { originals[$0].key != key && originals[$0].key.nonce == 0 }
        if let other { forgetOriginal(other) }
    }

    /// The maximum number of originals with the same bytes.
    private static let maximumKeys = 1024
    /// The bytes of texts that an original may have without charge: hardly any has more.
    private static let freeTextBytes = 1024
    /// The most bytes of texts of several originals with the same bytes.
    private static let maximumTextBytes = 256 << 10

    /// Records the header of an image; a timing or placeholder known before is kept.
    mutating func insert(_ header: ImageHeader, of key: ContentKey) {
        guard let content = contentSlot(of: key) else { return }
        revision += 1
        var header = header
        let known = contents[content].header
        header.timing = header.timing ?? known?.timing
        header.placeholder = header.placeholder ?? known?.placeholder
        textBytes += Self.size(of: header) - Self.size(of: known)
        contents[content].header = header
    }

    /// The bytes of a header's list of times.
    private static func size(of header: ImageHeader?) -> Int {
        (header?.timing?.delaysMs.count ?? 0) * MemoryLayout<Int>.stride
    }

    /// Adds an unheld buffer to a known content. `microseconds` is the time to make it again. Does not evict: the caller
    /// calls `evictToFit`.
    mutating func insert(
        _ buffer: BufferID, as variant: VariantKey, bytes: Int, geometry: PixelGeometry? = nil, at now: Instant,
        worth microseconds: Int = 0, uses: Int = 1, damage: String? = nil, isPacked: Bool = false,
        at place: Segments.Place? = nil
    ) {
        guard let content = contentSlot(of: variant.content) else { return }
        if let damage { damages[buffer] = damage }
        revision += 1
        let slot = add(
            BufferEntry(
                key: buffer, content: content, form: variant.form, bytes: bytes, geometry: geometry, usedAt: now,
                place: place))
        order.insert(slot, microseconds: microseconds, bytes: charge(of: slot), uses: uses, in: pool(of: place))
        residentBytes += buffers[slot].charge
        countUnheld(slot, 1)
        if place != nil { placedBuffers += 1 } else if isPacked { pack(slot) } else { queueForPacking(slot) }
    }

    private mutating func add(_ entry: BufferEntry) -> Int {
        let slot = buffers.insert(entry)
        contents[entry.content].buffers.append(slot)
        variants.insert(slot, hash: Self.hash(entry))
        return slot
    }

    /// Notes that an image was decoded, not read from disk.
    mutating func noteDecoding(of variant: VariantKey) {
        recentEvictions.decoded(variant.hashValue)
    }

    /// The bytes that count for a buffer in the order of eviction. It also takes one of `maximumEntries` descriptors, or is packed:
    /// its share of the budget counts as further bytes. So do the texts of its originals.
    private func charge(of slot: Int) -> Int {
        charge(of: buffers[slot].bytes, texts: contents[buffers[slot].content].textBytes)
    }

    private func charge(of bytes: Int, texts: Int) -> Int {
        let share = limit / max(1, maximumEntries)
        let extra = (bytes > Self.largestPacked ? share : min(share, Self.packedRecordBytes)) + texts
        let (size, overflowed) = bytes.addingReportingOverflow(extra)
        return overflowed ? .max : size
    }

    // MARK: Handing over

    /// Returns the contents for another index, frozen ones and those with packed buffers first.
    /// Originals that no request can name are left out, as are buffers with damage and those with fewer than `least` bytes.
    func kept(atLeast least: Int = 0, at now: Instant) -> [KeptContent] {
        var (packed, others): ([KeptContent], [KeptContent]) = ([], [])
        if least <= Self.largestPacked { packed = frozen.map { kept($0, atLeast: least, at: now) } }
        packed.removeAll(where: \.buffers.isEmpty)
        for content in contents {
            // Those in segments have no memfd of their own, which `least` asks for.
            let slots = content.buffers.filter {
                buffers[$0].bytes >= least && damages[buffers[$0].key] == nil
                    && (least == 0 || buffers[$0].place == nil)
            }
            if slots.isEmpty { continue }
            let keys = content.originals.map { originals[$0].key }.filter { $0.nonce == 0 }
            if keys.isEmpty { continue }
            var kept = KeptContent(
                digest: content.key.digest.hexadecimal, owner: content.key.owner, pixels: content.key.pixels,
                bytes: content.bytes, header: content.header)
            kept.originals = keys.compactMap { key in
                originals.slot(of: key).map { KeptOriginal(key, original(in: $0)) }
            }
            kept.buffers = slots.map { keptBuffer($0, at: now) }
            if slots.contains(where: { buffers[$0].isPacked }) { packed.append(kept) } else { others.append(kept) }
        }
        return packed + others
    }

    private func keptBuffer(_ slot: Int, at now: Instant) -> KeptBuffer {
        let entry = buffers[slot]
        let charge = charge(of: slot)
        // An evicted buffer that is still held is not in the order.
        let worth = order.worth(of: slot, bytes: charge)
        var kept = KeptBuffer(
            number: entry.key.number, transform: entry.form.transform, encoding: entry.form.encoding,
            bytes: entry.bytes, geometry: entry.geometry, microseconds: worth?.microseconds ?? 0,
            uses: worth?.uses ?? 1, idleMs: Self.idleMs(entry.usedAt, at: now), wasRequested: entry.wasRequested)
        kept.segment = entry.place
        return kept
    }

    /// The segments for another index, and the last number that one had.
    var keptSegments: (all: [KeptSegment], last: Int) { (segments.all, segments.last) }

    /// Takes over the segments of another process, before its contents.
    mutating func restore(_ kept: [KeptSegment], last: Int) { segments.restore(kept, last: last) }

    /// Ends the segments of another process that have no images.
    mutating func endEmptySegments() { endedSegments += segments.endEmpty() }

    private func kept(_ content: FrozenContent, atLeast least: Int, at now: Instant) -> KeptContent {
        var kept = KeptContent(
            digest: content.key.digest.hexadecimal, owner: content.key.owner, pixels: content.key.pixels,
            bytes: content.bytes, header: content.header)
        kept.originals = content.originals.map { KeptOriginal($0.key, $0.original) }
        kept.buffers = content.buffers.filter { $0.bytes >= least }.map { buffer in
            let worth = EvictionQueue.worth(buffer.value, bytes: charge(of: buffer.bytes, texts: 0))
            return KeptBuffer(
                number: buffer.id.number, transform: buffer.form.transform, encoding: buffer.form.encoding,
                bytes: buffer.bytes, geometry: buffer.geometry, microseconds: worth.microseconds, uses: worth.uses,
                idleMs: Self.idleMs(buffer.usedAt, at: now), wasRequested: buffer.wasRequested)
        }
        return kept
    }

    private static func idleMs(_ usedAt: Instant, at now: Instant) -> Int {
        min(max(0, now.microseconds(since: usedAt) / 1000), KeptBuffer.mostIdleMs)
    }

    /// Takes over a content with its header, originals and buffers. Its key is not known, and those of its originals and buffers
    /// are neither. Buffers without a memfd stay packed, except those that will be `held`. Returns the buffers that are not needed.
    mutating func restore(
        _ content: OriginalFacts, _ header: ImageHeader?, _ keys: [(key: OriginalKey, original: OriginalFacts)],
        _ kept: [KeptBuffer], held: Set<Int>, at now: Instant
    ) -> [BufferID] {
        for (key, original) in keys { _ = insert(original, for: key) }
        if let header { insert(header, of: content.content) }
        for buffer in kept {
            let id = BufferID(number: buffer.number)
            let usedAt = Instant(nanoseconds: now.nanoseconds - Int64(buffer.idleMs) * 1_000_000)
            if let place = buffer.segment, !segments.restore(id, bytes: buffer.bytes, at: place) { continue }
            if held.contains(buffer.number) { awaited.insert(id) }
            insert(
                id, as: VariantKey(content: content.content, form: buffer.form), bytes: buffer.bytes,
                geometry: buffer.geometry, at: usedAt, worth: buffer.microseconds, uses: buffer.uses,
                isPacked: buffer.hasContents && buffer.bytes <= Self.largestPacked && !held.contains(buffer.number),
                at: buffer.segment)
            if buffer.wasRequested, let slot = buffers.slot(of: id) { buffers[slot].wasRequested = true }
        }
        let dropped = dropSpareBody(of: content.content)
        if let slot = contents.slot(of: content.content), isFreezable(slot) { freeze(content: slot) }
        return dropped
    }

    // MARK: Holding

    /// Holds a buffer. A packed one gets a memfd again with that.
    mutating func hold(_ buffer: BufferID) {
        guard let slot = buffers.slot(of: buffer) else { return }
        if !awaited.isEmpty { awaited.remove(buffer) }
        buffers[slot].holders += 1
        let record = buffers[slot]
        if record.holders == 1 {
            if record.isPacked {
                buffers[slot].isPacked = false
                order.move(slot, to: Pool.memfds)
            }
            if let place = record.place { segments.setHeld(true, at: place) }
            heldBytes += record.bytes
            if record.isResident { countUnheld(slot, -1) } else { evictedBytes += record.bytes }
        }
    }

    /// Ends one hold. Returns true when the buffer is removed with it: it was evicted before, or is a spare original.
    mutating func unhold(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer) else {
            unholdOrphan(buffer)
            return false
        }
        buffers[slot].holders -= 1
        let record = buffers[slot]
        if record.holders > 0 { return false }
        if let place = record.place { segments.setHeld(false, at: place) }
        validity.end(buffer)
        heldBytes -= record.bytes
        if record.isResident {
            countUnheld(slot, 1)
            order.release(slot)
            if dropIfSpare(slot) { return true }
            queueForPacking(slot)
            return false
        }
        evictedBytes -= record.bytes
        forgetBuffer(slot)
        return true
    }

    /// Removes the bytes of an original if they are spare. Returns the buffer that was removed.
    mutating func dropSpareBody(of content: ContentKey) -> [BufferID] {
        guard let body = buffer(VariantKey(content: content, form: .original)), let slot = buffers.slot(of: body) else {
            return []
        }
        return dropIfSpare(slot) ? [body] : []
    }

    private mutating func dropIfSpare(_ slot: Int) -> Bool {
        let record = buffers[slot]
        guard isSpare(record) else { return false }
        order.remove(slot)
        residentBytes -= record.charge
        unheldResidents -= 1
        forgetBuffer(slot)
        return true
    }

    /// Returns whether a buffer is an original that memory need not keep: it is encoded, it has no holder, no client has
    /// requested the encoded bytes, and the disk tier has them under every key that leads to them.
    private func isSpare(_ record: BufferEntry) -> Bool {
        !record.wasRequested && record.holders == 0 && record.isResident && record.form == .original
            && contents[record.content].key.pixels == nil
            && contents[record.content].originals.allSatisfy { originals[$0].isOnDisk }
    }

    private mutating func countUnheld(_ slot: Int, _ change: Int) {
        unheldResidents += change
        if buffers[slot].place != nil { unheldPlaced += change }
    }

    // MARK: Segments

    /// The part of the budget that new segments leave free, so that what jobs reserve for a moment evicts nothing.
    private static let partWithoutSegments = 16
    /// The most images that are evicted for a new one.
    private static let mostEvictedForPlace = 256
    /// The most bytes that are moved at once out of segments that are to end.
    private static let mostMoved = 1 << 20

    /// Gives a new buffer a place in the segments of an owner, for which others of that owner may be evicted; no place if it must have a
    /// memfd. Returns also the buffers that were removed.
    mutating func place(
        _ buffer: BufferID, bytes: Int, for owner: SegmentOwner
    ) -> (placement: Segments.Placement?, dropped: [BufferID]) {
        var dropped: [BufferID] = []
        for _ in 0..<Self.mostEvictedForPlace {
            let room = limit - limit / Self.partWithoutSegments - residentCharge - evictedBytes
            if let placement = segments.insert(buffer, bytes: bytes, for: owner, mostNew: room) {
                moved(placement.moves)
                return (placement, dropped + placement.dropped.compactMap { lostPlace($0) })
            }
            guard let pool = pools[owner],
                let slot = order.evict(from: pool, sparesHeld: true, isHeld: { buffers[$0].holders != 0 })
            else { break }
            if let buffer = evicted(slot) { dropped.append(buffer) }
        }
        return (nil, dropped)
    }

    private mutating func moved(_ moves: [Segments.Move]) {
        if !moves.isEmpty { revision += 1 }
        for move in moves {
            if let slot = buffers.slot(of: move.buffer) { buffers[slot].place = move.to }
        }
    }

    /// Evicts a buffer whose place was given to another.
    private mutating func lostPlace(_ buffer: BufferID) -> BufferID? {
        guard let slot = buffers.slot(of: buffer) else { return nil }
        order.remove(slot)
        let charge = buffers[slot].charge
        countUnheld(slot, -1)
        buffers[slot].place = nil
        placedBuffers -= 1
        unheldResidents += 1
        residentBytes += buffers[slot].charge - charge
        return evicted(slot)
    }

    /// Frees the place of a buffer that is removed, unless someone holds its bytes.
    private mutating func leavePlace(of entry: BufferEntry) {
        guard let place = entry.place else { return }
        placedBuffers -= 1
        if entry.holders > 0 {
            orphans[entry.key] = Orphan(place: place, charge: entry.charge, holders: entry.holders)
            orphanBytes += entry.charge
        } else {
            free(place)
        }
    }

    private mutating func free(_ place: Segments.Place) {
        if let owner = segments[place.segment]?.owner { ownersWithRoom.insert(owner) }
        noteEnd(segments.remove(from: place))
    }

    private mutating func unholdOrphan(_ buffer: BufferID) {
        guard var orphan = orphans[buffer] else { return }
        orphan.holders -= 1
        orphans[buffer] = orphan.holders > 0 ? orphan : nil
        if orphan.holders > 0 { return }
        orphanBytes -= orphan.charge
        segments.setHeld(false, at: orphan.place)
        free(orphan.place)
    }

    private mutating func noteEnd(_ segment: Segments.Ended?) { if let segment { endedSegments.append(segment) } }

    private mutating func pool(of place: Segments.Place?) -> Int {
        guard let place, let owner = segments[place.segment]?.owner else { return Pool.memfds }
        if let pool = pools[owner] { return pool }
        let pool = freePools.popLast() ?? Pool.firstOfOwner + pools.count
        pools[owner] = pool
        return pool
    }

    /// Moves a part of the images out of segments that are to end. Images in the way are removed, except `needed` ones; clients that hold
    /// them have them mapped. Returns also those.
    mutating func moveOut(keeping needed: Set<BufferID>) -> (moves: [Segments.Move], dropped: [BufferID]) {
        let (moves, lost, ended) = segments.moveOut(mostBytes: Self.mostMoved, keeping: needed)
        moved(moves)
        endedSegments += ended
        return (moves, lost.compactMap { giveUpPlace(of: $0) })
    }

    /// Removes a buffer whose segment ends, and frees its place although someone may hold it. Returns it if it was still in the tables.
    private mutating func giveUpPlace(of buffer: BufferID) -> BufferID? {
        if let slot = buffers.slot(of: buffer), buffers[slot].isResident {
            order.remove(slot)
            if let removed = evicted(slot) { return removed }
        }
        let removed = remove(buffer)
        if let orphan = orphans.removeValue(forKey: buffer) {
            orphanBytes -= orphan.charge
            segments.setHeld(false, at: orphan.place)
            free(orphan.place)
        }
        return removed.first
    }

    /// Lets segments end that their owners do not need any more.
    mutating func endSpareSegments() {
        for owner in ownersWithRoom {
            while let ended = segments.endSpare(of: owner) { endedSegments.append(ended) }
        }
        ownersWithRoom = []
    }

    /// Lets the segments end in which these buffers lie, so that their bytes never change.
    mutating func endSegments(of buffers: [BufferID]) {
        for segment in Set(buffers.compactMap { (place(of: $0) ?? orphans[$0]?.place)?.segment }).sorted() {
            noteEnd(segments.end(segment))
        }
    }

    /// Returns the segments that have ended since the last call.
    mutating func takeEndedSegments() -> [Segments.Ended] {
        if endedSegments.isEmpty { return [] }
        defer { endedSegments = [] }
        for (owner, pool) in pools where segments.bytes(of: owner) == 0 {
            pools[owner] = nil
            freePools.append(pool)
        }
        return endedSegments
    }

    /// Ends a segment that could not be made.
    mutating func lost(segment: Int) { noteEnd(segments.end(segment)) }

    /// The bytes of all segments.
    var segmentBytes: Int { segments.totalBytes }

    /// Whether images are still to be moved out of segments, whether that can go on at once, and which of them someone holds.
    var isMovingOut: Bool { segments.isMovingOut }
    var canMoveOut: Bool { segments.canMoveOut }
    var heldInEndingSegments: [BufferID] { segments.heldInEnding }

    /// Whether places have become free since `endSpareSegments`.
    var mayHaveSpareSegments: Bool { !ownersWithRoom.isEmpty }

    // MARK: Packing

    /// The most bytes of a buffer that is packed: to copy it takes some 10 µs.
    private static let largestPacked = 64 << 10
    /// The bytes that a packed buffer counts besides its own, because no descriptors limit the number of its records.
    private static let packedRecordBytes = 1 << 10

    /// The number of buffers that take a descriptor.
    private var descriptors: Int { buffers.count - order.count(in: Pool.packed) - placedBuffers }
    /// The number of resident buffers that do not.
    private var withoutDescriptors: Int { entries - order.count(in: Pool.memfds) }

    /// The most buffers in `packing`: all, while each can have a descriptor; two fewer for each that cannot; at least a quarter as many
    /// as can have one. Each takes the rest of a page and full records of the index, so many of them would take more memory than
    /// they save time.
    private var mostQueued: Int { max(2 * maximumEntries - (entries - placedBuffers), maximumEntries / 4) }

    /// Whether the end of one of a buffer's holds has no other effect: it stays resident, and no buffer must be packed or evicted.
    func isReleasedAlone(_ buffer: BufferID) -> Bool {
        guard let slot = buffers.slot(of: buffer), buffers[slot].isResident, isWithinBudget else { return false }
        return buffers[slot].isQueued || buffers[slot].place != nil || buffers[slot].bytes > Self.largestPacked
            || queuedBuffers < mostQueued
    }

    private mutating func queueForPacking(_ slot: Int) {
        if buffers[slot].isQueued || buffers[slot].place != nil || buffers[slot].bytes > Self.largestPacked { return }
        queuedBuffers += 1
        buffers[slot].isQueued = true
        buffers[slot].wasUsed = false
        packing.add(buffers[slot].key)
        guard packing.count > 2 * buffers.count + 64 else { return }
        packing.filter { [buffers] in buffers.slot(of: $0) != nil }
    }

    /// Packs the least recently used of the small unheld buffers, until the others are at most `maximumEntries`, and the small ones
    /// among them at most `mostQueued`.
    private mutating func packToFit() {
        while descriptors > maximumEntries || queuedBuffers > mostQueued, let buffer = packing.popFirst() {
            guard let slot = buffers.slot(of: buffer) else { continue }
            queuedBuffers -= 1
            buffers[slot].isQueued = false
            if buffers[slot].holders > 0 || !buffers[slot].isResident || awaited.contains(buffer) { continue }
            if buffers[slot].wasUsed {
                queueForPacking(slot)
                continue
            }
            pack(slot)
            newlyPacked.append(buffer)
        }
    }

    private mutating func pack(_ slot: Int) {
        buffers[slot].isPacked = true
        order.move(slot, to: Pool.packed)
        freezable.append(buffers[slot].key)
    }

    /// Returns the buffers that were packed since the last call, except those that were evicted.
    mutating func takePacked() -> [BufferID] {
        if newlyPacked.isEmpty { return [] }
        defer { newlyPacked = [] }
        return newlyPacked.filter { buffers[$0]?.isPacked == true }
    }

    // MARK: Freezing

    /// The most contents that one event freezes.
    private static let mostFrozenAtOnce = 64

    /// Freezes contents of which all buffers are packed. Called at the end of an event.
    mutating func freeze() {
        for _ in 0..<Self.mostFrozenAtOnce {
            guard let buffer = freezable.popLast() else { break }
            guard let content = buffers[buffer]?.content, isFreezable(content) else { continue }
            freeze(content: content)
        }
    }

    /// Whether a content can be frozen: it has few parts, which are packed, undamaged and without charged texts, and its URLs
    /// lead to nothing else.
    private func isFreezable(_ content: Int) -> Bool {
        let entry = contents[content]
        return entry.buffers.count <= FrozenContent.mostParts && entry.originals.count <= FrozenContent.mostParts
            && entry.textBytes == 0 && entry.header?.timing == nil
            && entry.buffers.allSatisfy { buffers[$0].isPacked && damages[buffers[$0].key] == nil }
            && entry.originals.allSatisfy { slot in
                let original = originals[slot]
                return original.key.nonce == 0 && original.key.cacheKey == nil && original.previousAtURL == nil
                    && original.nextAtURL == nil
            }
    }

    private mutating func freeze(content: Int) {
        let entry = contents[content]
        frozen.insert(
            FrozenContent(
                key: entry.key, bytes: entry.bytes, header: entry.header, isFromDisk: entry.isFromDisk,
                originals: entry.originals.map { (originals[$0].key, original(in: $0)) },
                buffers: entry.buffers.map { slot in
                    let buffer = buffers[slot]
                    return FrozenContent.Buffer(
                        id: buffer.key, form: buffer.form, bytes: buffer.bytes, geometry: buffer.geometry,
                        usedAt: buffer.usedAt, wasRequested: buffer.wasRequested,
                        value: order.value(of: slot) ?? EvictionQueue.Value(cost: 0, uses: 1))
                }))
        for slot in entry.buffers.reversed() {
            order.remove(slot)
            takeOut(slot)
        }
        for slot in entry.originals.reversed() {
            unlinkFromURL(slot)
            originals.remove(at: slot)
        }
        contents.remove(at: content)
    }

    /// Returns the slot of an original, which is not frozen any more.
    private mutating func originalSlot(of key: OriginalKey) -> Int? {
        if let slot = originals.slot(of: key) { return slot }
        guard let (slot, content) = frozen.find(key.url), content.originals.contains(where: { $0.key == key }) else {
            return nil
        }
        thaw(content, slot)
        return originals.slot(of: key)
    }

    /// Returns the slot of a content, which is not frozen any more.
    private mutating func contentSlot(of key: ContentKey) -> Int? {
        if let slot = contents.slot(of: key) { return slot }
        guard let (slot, content) = frozen.find(key) else { return nil }
        return thaw(content, slot)
    }

    private mutating func thaw(at url: SourceURL) {
        if let (slot, content) = frozen.find(url) { thaw(content, slot) }
    }

    /// Puts a frozen content into the tables again, as it was before.
    @discardableResult private mutating func thaw(_ frozenContent: FrozenContent, _ slot: Int) -> Int {
        frozen.remove(frozenContent, at: slot)
        let content = contents.insert(
            Content(
                key: frozenContent.key, bytes: frozenContent.bytes, header: frozenContent.header,
                isFromDisk: frozenContent.isFromDisk))
        for (key, original) in frozenContent.originals {
            add(
                OriginalEntry(
                    key: key, content: content, origin: original.origin, textBytes: 0,
                    isFromDisk: original.isFromDisk, isOnDisk: original.isOnDisk,
                    staysOffDisk: original.staysOffDisk))
        }
        for buffer in frozenContent.buffers {
            let slot = add(
                BufferEntry(
                    key: buffer.id, content: content, form: buffer.form, bytes: buffer.bytes,
                    geometry: buffer.geometry, usedAt: buffer.usedAt, wasRequested: buffer.wasRequested,
                    isPacked: true))
            order.insert(slot, buffer.value, in: Pool.packed)
        }
        if let buffer = frozenContent.buffers.first { freezable.append(buffer.id) }
        return content
    }

    /// Removes the frozen contents for which `isMeant` is true without thawing them, and passes each to `visit`. Returns the number
    /// of their originals, and their buffers.
    mutating func removeFrozen(
        where isMeant: (FrozenContent) -> Bool, visit: (FrozenContent) -> Void = { _ in }
    ) -> (originals: Int, bytes: Int, dropped: [BufferID]) {
        var removed: (originals: Int, bytes: Int, dropped: [BufferID]) = (0, 0, [])
        var owned: [OriginalKey] = []
        frozen.remove(where: isMeant) { content in
            removed.originals += content.originals.count
            removed.bytes += content.bufferBytes
            removed.dropped += content.buffers.map(\.id)
            for (key, _) in content.originals where key.owner != nil { owned.append(key) }
            visit(content)
        }
        if removed.originals > 0 || !removed.dropped.isEmpty { revision += 1 }
        forget(bytes: removed.bytes, buffers: removed.dropped.count, originals: owned)
        return removed
    }

    /// Takes what frozen contents had, which were removed, out of the sums.
    private mutating func forget(bytes: Int, buffers: Int, originals: some Sequence<OriginalKey>) {
        residentBytes -= bytes
        unheldResidents -= buffers
        for key in originals { forgetOwner(of: key) }
    }

    // MARK: Removing

    /// The bytes that count against `limit`, except those of evicted buffers.
    private var residentCharge: Int {
        residentBytes + reservedBytes + textBytes + order.count(in: Pool.packed) * Self.packedRecordBytes
            + frozen.charge + segments.restBytes + orphanBytes
    }

    /// Whether resident, evicted-but-held and reserved bytes are together at most `limit`, and all buffers that are not packed,
    /// resident or evicted, at most `maximumEntries`.
    var isWithinBudget: Bool { residentCharge + evictedBytes <= limit && descriptors <= maximumEntries }

    /// Whether bytes are a reason to evict another buffer: resident and reserved bytes and texts are more than `limit`; or they
    /// are so together with the evicted buffers that are still held, and the unheld ones take more than half of `limit`.
    /// Evicting another held buffer would free nothing then.
    private var areBytesShort: Bool {
        if residentCharge > limit { return true }
        let unheldBytes = residentBytes + evictedBytes - heldBytes
        return unheldResidents > 0 && residentCharge + evictedBytes > limit && unheldBytes > limit / 2
    }

    /// Whether descriptors are a reason to evict another buffer that has one: resident buffers have more than
    /// `maximumEntries`; or all have, and an unheld one is among them.
    private var areDescriptorsShort: Bool {
        let resident = order.count(in: Pool.memfds)
        return resident > maximumEntries || descriptors > maximumEntries && unheldMemfds > 0
    }

    /// The number of resident buffers with a memfd that nobody holds.
    private var unheldMemfds: Int { unheldResidents - packedBuffers - unheldPlaced }

    private var mustEvict: Bool {
        areBytesShort && entries > 0 || areDescriptorsShort && order.count(in: Pool.memfds) > 0
    }

    /// Packs small buffers (`takePacked`), then evicts for as long as `mustEvict`: frozen and packed ones only for their bytes and
    /// before all others, held ones only when all resident ones are held. Returns the buffers that were removed: those without a holder.
    mutating func evictToFit() -> [BufferID] {
        packToFit()
        var dropped: [BufferID] = []
        while mustEvict {
            if areBytesShort, let content = frozen.evict() {
                evicted(content)
                dropped += content.buffers.map(\.id)
                continue
            }
            let isForDescriptors = !areBytesShort
            guard
                let slot = isForDescriptors
                    ? evictMemfd() : order.evict(from: Pool.packed, isHeld: { _ in false }) ?? evictForBytes()
            else { break }
            if isForDescriptors { descriptorEvictions += 1 }
            let owner = buffers[slot].place.flatMap { segments[$0.segment]?.owner }
            if let buffer = evicted(slot) { dropped.append(buffer) }
            // The place of an evicted buffer is free, but its memory is not until a segment ends.
            if let owner { segments.endSpare(of: owner).map { endedSegments.append($0) } }
        }
        return dropped
    }

    /// Notes the eviction of a resident buffer that was taken out of the order. Returns it if it is removed: it has no holder.
    private mutating func evicted(_ slot: Int) -> BufferID? {
        let record = buffers[slot]
        evictions += 1
        recentEvictions.evicted(VariantKey(content: contents[record.content].key, form: record.form).hashValue)
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

    private mutating func evicted(_ content: FrozenContent) {
        evictions += content.buffers.count
        revision += 1
        for buffer in content.buffers {
            recentEvictions.evicted(VariantKey(content: content.key, form: buffer.form).hashValue)
            if notesEvictions { evicted.append(Set(content.originals.map(\.key))) }
        }
        forget(bytes: content.bufferBytes, buffers: content.buffers.count, originals: content.originals.lazy.map(\.key))
    }

    private mutating func evictMemfd() -> Int? {
        let anyUnheld = unheldMemfds > 0
        return order.evict(from: Pool.memfds) { anyUnheld && buffers[$0].holders != 0 }
    }

    /// Takes out the buffer that is worth least, of those with a memfd and those in segments; a held one only when all are held.
    private mutating func evictForBytes() -> Int? {
        let anyUnheld = unheldResidents > packedBuffers
        let all = [Pool.memfds] + pools.values
        // Held ones stand aside, so that the next lowest is another.
        while true {
            let priorities = all.compactMap { pool in order.lowestPriority(in: pool).map { (pool, $0) } }
            guard let (pool, _) = priorities.min(by: { $0.1 < $1.1 }) else { break }
            if let slot = order.evictFirst(from: pool, isHeld: { anyUnheld && buffers[$0].holders != 0 }) {
                return slot
            }
        }
        for pool in all { if let slot = order.evictHeld(from: pool) { return slot } }
        return nil
    }

    /// Returns the evictions since the last call, if `notesEvictions`.
    mutating func takeEvicted() -> [Evicted] {
        defer { evicted = [] }
        return evicted
    }

    /// Removes an original and, when no other has the same bytes, everything made of them. They are no later hit, even
    /// while they are held. Returns the buffers that were removed.
    mutating func remove(_ key: OriginalKey) -> [BufferID] {
        guard let original = originalSlot(of: key) else { return [] }
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

    /// Removes a buffer, and with the last one of a content also the originals that led to it. It is no later hit, even while it is
    /// held. Returns it if it was there.
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

    /// Removes a buffer, which is neither resident nor held, from the tables; with the last buffer of a content also the
    /// originals that led to it.
    private mutating func forgetBuffer(_ slot: Int) {
        revision += 1
        let content = buffers[slot].content
        takeOut(slot)
        if let other = contents[content].buffers.last {
            if buffers[other].isPacked { freezable.append(buffers[other].key) }
            return
        }
        // From the last to the first, so that each removal from the list is short.
        for original in contents[content].originals.reversed() { forgetOriginal(original) }
        textBytes -= Self.size(of: contents.remove(at: content).header)
    }

    /// Removes a buffer from the tables and from its content.
    private mutating func takeOut(_ slot: Int) {
        if buffers[slot].isQueued { queuedBuffers -= 1 }
        variants.remove(slot, hash: Self.hash(buffers[slot]))
        if !damages.isEmpty { damages[buffers[slot].key] = nil }
        if buffers[slot].place != nil { leavePlace(of: buffers[slot]) }
        contents[buffers.remove(at: slot).content].buffers.remove(slot)
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

    /// Takes an original out of the list of its URL.
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

    /// Removes an original from the tables and from its content.
    private mutating func forgetOriginal(_ slot: Int) {
        unlinkFromURL(slot)
        let original = originals.remove(at: slot)
        textBytes -= original.textBytes
        contents[original.content].textBytes -= original.textBytes
        validity.end(original.key)
        contents[original.content].originals.remove(slot)
        forgetOwner(of: original.key)
    }

    private mutating func forgetOwner(of key: OriginalKey) {
        if let owner = key.owner, let count = owned[owner] { owned[owner] = count == 1 ? nil : count - 1 }
    }

    // MARK: Invariants

    /// Returns the first invariant that does not hold; nil when all hold. Visits every record once or twice.
    func brokenInvariant() -> String? {
        if let broken = brokenBuffers() ?? brokenContents() ?? brokenOriginals() { return broken }
        if let broken = order.brokenInvariant() { return "order of eviction: \(broken)" }
        if let broken = frozen.brokenInvariant() { return "frozen contents: \(broken)" }
        if frozen.contains(where: { content in
            contents.slot(of: content.key) != nil
                || content.originals.contains { firstOriginal(at: $0.key.url) != nil }
                || content.buffers.contains { buffers.slot(of: $0.id) != nil || damages[$0.id] != nil }
        }) {
            return "a frozen content that is in the tables, too"
        }
        if let broken = segments.brokenInvariant() { return "segments: \(broken)" }
        if let broken = brokenPlaces() { return broken }
        if damages.keys.contains(where: { !(record(of: $0)?.variant.form.acceptsDamage ?? false) }) {
            return "damage of a buffer that may have none"
        }
        let owners = keys { _ in true }.compactMap(\.owner).reduce(into: [:]) { $0[$1, default: 0] += 1 }
        if owners != owned { return "owners" }
        if reservedBytes < 0 { return "reserved bytes" }
        if mustEvict, reservedBytes <= limit { return "more than the budget" }
        return validity.brokenInvariant { key, buffer in
            guard let record = buffers[buffer], record.isResident, record.holders > 0 else { return false }
            return originals[key]?.content == record.content
        }
    }

    private func brokenBuffers() -> String? {
        var (resident, unheld, queued, packed) = (frozen.bufferCount, frozen.bufferCount, 0, 0)
        var (bytes, held, evicted) = (frozen.reduce(0) { $0 + $1.bufferBytes }, 0, 0)
        for buffer in buffers {
            if buffer.holders > 0 { held += buffer.bytes }
            if buffer.isResident {
                resident += 1
                bytes += buffer.charge
                if buffer.holders == 0 { unheld += 1 }
            } else {
                evicted += buffer.bytes
                if buffer.holders == 0 { return "an evicted buffer without a holder" }
            }
            if buffer.isQueued { queued += 1 }
            if buffer.isPacked {
                packed += 1
                if buffer.holders > 0 || !buffer.isResident || buffer.bytes > Self.largestPacked {
                    return "a packed buffer that may not be"
                }
            } else if buffer.isResident, buffer.holders == 0, !buffer.isQueued, buffer.bytes <= Self.largestPacked,
                buffer.place == nil, !awaited.contains(buffer.key)
            {
                return "a buffer that is never packed"
            }
            if self.buffer(variant(of: buffer), in: buffer.content) != buffer.key {
                return "a buffer that cannot be found"
            }
            if isSpare(buffer) { return "a spare original" }
        }
        if bytes != residentBytes { return "resident bytes" }
        if held != heldBytes { return "held bytes" }
        if evicted != evictedBytes { return "evicted bytes" }
        if resident != entries { return "order of eviction" }
        if unheld != unheldResidents { return "unheld residents" }
        if queued != queuedBuffers { return "number of queued buffers" }
        if queuedBuffers > packing.count { return "a queued buffer that is not in the queue" }
        if queuedBuffers > mostQueued { return "too many buffers that may be packed" }
        return packed == order.count(in: Pool.packed) ? nil : "number of packed buffers"
    }

    private func brokenPlaces() -> String? {
        var (placed, unheld) = (0, 0)
        for buffer in buffers {
            guard let place = buffer.place else { continue }
            placed += 1
            if buffer.isResident, buffer.holders == 0 { unheld += 1 }
            guard let piece = segments.piece(at: place), piece.buffer == buffer.key,
                Int(piece.count) * SegmentSpace.unit == buffer.charge, piece.isHeld == (buffer.holders > 0)
            else { return "a place of another buffer" }
            if buffer.isPacked || buffer.isQueued { return "a packed buffer in a segment" }
        }
        for (buffer, orphan) in orphans {
            guard let piece = segments.piece(at: orphan.place), piece.buffer == buffer, piece.isHeld,
                buffers.slot(of: buffer) == nil
            else { return "a place of a removed buffer" }
        }
        if orphans.values.reduce(0, { $0 + $1.charge }) != orphanBytes { return "bytes of removed buffers" }
        if placed != placedBuffers || unheld != unheldPlaced { return "number of buffers in segments" }
        return segments.imageCount == placed + orphans.count ? nil : "an image in a segment without a buffer"
    }

    private func brokenContents() -> String? {
        var (texts, ownBuffers, ownOriginals) = (0, 0, 0)
        for content in contents {
            texts += Self.size(of: content.header) + content.textBytes
            ownBuffers += content.buffers.count
            ownOriginals += content.originals.count
            if content.originals.reduce(0, { $0 + originals[$1].textBytes }) != content.textBytes {
                return "bytes of a content's texts"
            }
            if content.originals.isEmpty || content.buffers.isEmpty { return "an empty content" }
        }
        if texts != textBytes { return "bytes of texts" }
        if ownBuffers != buffers.count { return "a buffer without content" }
        return ownOriginals == originals.count ? nil : "number of originals"
    }

    private func brokenOriginals() -> String? {
        var byURL: [SourceURL: Set<OriginalKey>] = [:]
        for original in originals {
            if !contents[original.content].originals.contains(where: { originals[$0].key == original.key }) {
                return "an original without content"
            }
            if original.key.url != original.origin.url { return "an original under another URL" }
            byURL[original.key.url, default: []].insert(original.key)
        }
        if urls.count != byURL.count { return "number of URLs" }
        return byURL.contains { Set(unfrozenKeys(at: $0)) != $1 || unfrozenKeys(at: $0).count != $1.count }
            ? "originals of a URL" : nil
    }

    private func variant(of record: BufferEntry) -> VariantKey {
        VariantKey(content: contents[record.content].key, form: record.form)
    }
}

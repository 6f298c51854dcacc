internal import HTTPValues
internal import IPCProtocol
internal import SharedCache
internal import SystemValues

/// Images that a client keeps, each with the slot of the broker's validity page that tells whether a request would
/// get the same image again. Used by one thread at a time, like its connection.
///
/// Look-up data holds no references, because retaining and releasing three references would take longer than the rest
/// of a hit. So `entries` and `images` are separate arrays.
struct KeptImages {
    /// The look-up data of an image.
    private struct Entry {
        /// The hash of its URL.
        let hash: UInt64
        /// The options of the request; nil when they are not plain, and the full options must be compared.
        let plain: GetOptions.Plain?
        let slot: ImageReply.Slot
        /// Whether it is in no segment, and takes a descriptor.
        let takesDescriptor: Bool
        /// The next entry in the same bucket of the table.
        var next: Link
        /// Whether it was used since the hand last passed, and since the last report to the broker.
        var isUsed = false
        var isUnreported = false
    }

    /// The rest of an entry.
    private struct Kept {
        let url: String
        let options: GetOptions
        let image: BrokerImage
    }

    /// An index of `entries` plus 1; 0 for no entry.
    private typealias Link = Int32

    private let limits: (images: Int, bytes: Int, descriptors: Int)
    private let page: ValidityView
    /// The first entry of each bucket, by the hash of the URL. Not a dictionary, whose hash takes as long as the rest
    /// of a hit: there are few entries, and a process that provokes collisions slows only itself.
    private var table: [Link]
    /// All entries, in the order in which the hand of the eviction algorithm (CLOCK) visits them.
    private var entries: [Entry] = []
    /// The rest of each entry, in the same order.
    private var images: [Kept] = []
    private var hand = 0
    private var bytes = 0
    /// The number of images that take a descriptor.
    private var descriptors = 0
    /// The number of hits since the last report to the broker.
    private var unreportedHits = 0
    private var reportedAt = ValidityView.now

    init(_ limits: (images: Int, bytes: Int, descriptors: Int), _ page: ValidityView) {
        (self.limits, self.page) = (limits, page)
        var buckets = 64
        while buckets < 2 * min(limits.images, 1 << 20) { buckets *= 2 }
        table = Array(repeating: 0, count: buckets)
    }

    var isEmpty: Bool { entries.isEmpty }

    /// Returns the image that a `get` would return, and whether a report of such uses to the broker is due; nil when
    /// the broker must be asked.
    mutating func image(at url: String, _ options: GetOptions) -> (image: BrokerImage, isReportDue: Bool)? {
        guard let index = index(of: url, hash: Self.hash(of: url), options) else { return nil }
        let now = ValidityView.now
        guard page.isValid(entries[index].slot, at: now) else { return nil }
        entries[index].isUsed = true
        entries[index].isUnreported = true
        unreportedHits += 1
        return (images[index].image, now &- reportedAt >= Self.tenthsBetweenReports)
    }

    private func index(of url: String, hash: UInt64, _ options: GetOptions) -> Int? {
        let plain = options.plain
        var link = table[bucket(of: hash)]
        while link != 0 {
            let index = Int(link) - 1
            if entries[index].hash == hash, entries[index].plain == plain, images[index].url.hasSameBytes(as: url),
                plain != nil
                    || images[index].options == options
                        && images[index].options.cacheKey.hasSameBytes(as: options.cacheKey)
            {
                return index
            }
            link = entries[index].next
        }
        return nil
    }

    private func bucket(of hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (table.count - 1) }

    private static func hash(of url: String) -> UInt64 {
        let hash = unsafe url.utf8.withContiguousStorageIfAvailable {
            unsafe FoldedHash.hash(UnsafeRawBufferPointer($0))
        }
        if let hash { return hash }
        return unsafe Array(url.utf8).withUnsafeBytes { unsafe FoldedHash.hash($0) }
    }

    /// Keeps the image of a request, if it has a slot, instead of an earlier image of the same request.
    mutating func keep(_ image: BrokerImage, at url: String, _ options: GetOptions) {
        let hash = Self.hash(of: url)
        if let index = index(of: url, hash: hash, options) { remove(at: index) }
        let size = image.reply.bytes
        let takesDescriptor = image.buffer != nil
        guard let slot = image.reply.slot, limits.images > 0, size <= limits.bytes,
            !takesDescriptor || limits.descriptors > 0
        else { return }
        while entries.count >= limits.images || bytes > limits.bytes - size { evictOne() }
        if takesDescriptor {
            if descriptors >= limits.descriptors { evictOne(thatTakesDescriptor: true) }
            descriptors += 1
        }
        let bucket = bucket(of: hash)
        entries.append(
            Entry(
                hash: hash, plain: options.plain, slot: slot, takesDescriptor: takesDescriptor, next: table[bucket]))
        images.append(Kept(url: url, options: options, image: image))
        table[bucket] = Link(entries.count)
        bytes += size
    }

    /// Removes half of the images; their leases are released with the next message. Returns whether there were any.
    mutating func makeRoom() -> Bool {
        let count = (entries.count + 1) / 2
        for _ in 0..<count { evictOne() }
        return count > 0
    }

    /// Removes the images in a segment that has ended, so that the broker can use its memory for others. Their leases
    /// are released with the next message.
    mutating func removeImages(inSegment number: Int) {
        for index in entries.indices.reversed() where images[index].image.reply.segment == number { remove(at: index) }
    }

    /// Removes the first entry that was not used since the hand last passed, of all or of those that take a descriptor.
    private mutating func evictOne(thatTakesDescriptor: Bool = false) {
        while true {
            if hand >= entries.count { hand = 0 }
            if !thatTakesDescriptor || entries[hand].takesDescriptor {
                if !entries[hand].isUsed { return remove(at: hand) }
                entries[hand].isUsed = false
            }
            hand += 1
        }
    }

    /// Removes an entry; the last entry moves to its index.
    private mutating func remove(at index: Int) {
        relink(index, to: entries[index].next)
        bytes -= images[index].image.reply.bytes
        if entries[index].takesDescriptor { descriptors -= 1 }
        let last = entries.count - 1
        if index != last {
            relink(last, to: Link(index + 1))
            entries.swapAt(index, last)
            images.swapAt(index, last)
        }
        entries.removeLast()
        images.removeLast()
    }

    /// Replaces the link to an entry by `link`.
    private mutating func relink(_ index: Int, to link: Link) {
        let bucket = bucket(of: entries[index].hash)
        if table[bucket] == Link(index + 1) {
            table[bucket] = link
            return
        }
        var before = Int(table[bucket]) - 1
        while entries[before].next != Link(index + 1) { before = Int(entries[before].next) - 1 }
        entries[before].next = link
    }

    // MARK: Reports to the broker

    /// The minimum time between reports, in tenths of a second.
    private static let tenthsBetweenReports: UInt32 = 10
    /// The maximum of buffers in one report, because a frame has a limit; the rest is in the next one.
    private static let buffersInOneReport = 10_000

    /// Takes the report of uses that the broker did not see; nil when there were none, or within a second of the last
    /// report. Also removes the images that are no longer valid.
    mutating func takeTouch() -> ClientMessage? {
        let now = ValidityView.now
        if now &- reportedAt < Self.tenthsBetweenReports { return nil }
        reportedAt = now
        for index in entries.indices.reversed() where !page.isValid(entries[index].slot, at: now) { remove(at: index) }
        if unreportedHits == 0 { return nil }
        var buffers: [Int] = []
        for index in entries.indices where entries[index].isUnreported && buffers.count < Self.buffersInOneReport {
            entries[index].isUnreported = false
            if let buffer = images[index].image.reply.buffer { buffers.append(buffer) }
        }
        defer { unreportedHits = 0 }
        return .touch(buffers: buffers, hits: unreportedHits)
    }
}

extension ValidityView {
    // Not a method of `KeptImages`, all of which would be copied for the call.
    fileprivate func isValid(_ slot: ImageReply.Slot, at now: UInt32) -> Bool {
        isValid(slot: slot.number, generation: slot.generation, at: now)
    }
}

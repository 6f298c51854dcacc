internal import Digests
internal import IPCProtocol
internal import SharedCache

/// Pictures that a client keeps mapped, with the slot of the broker's validity page that says whether each is still what a
/// request for it would get. Used by one thread at a time, like its connection.
///
/// To be found and valid takes a picture less time than counting three references would. So what is looked at for that is
/// apart from what has references.
struct KeptImages {
    /// What is looked at to find a picture.
    private struct Entry {
        /// The hash of its URL.
        let hash: UInt64
        /// The options that it was asked for with; nil where they are not plain, and must be looked at in full.
        let plain: GetOptions.Plain?
        let slot: ImageReply.Slot
        /// Another one in the same place of the table.
        var next: Link
        /// Whether it was asked for since the hand came by, and since the broker was told.
        var isUsed = false
        var isUntold = false
    }

    /// The rest of it.
    private struct Picture {
        let url: String
        let options: GetOptions
        let image: BrokerImage
    }

    /// An index of `entries` and 1 more; 0 for none.
    private typealias Link = Int32

    private let limits: ImageBroker.Keeping
    private let page: ValidityView
    /// The entries by the hashes of their URLs; others in the same place hang on the first. Not a dictionary, whose hash
    /// takes as long as all the rest of a hit: there are few entries, and whoever made them fall together would slow himself.
    private var table: [Link]
    /// All entries, in no order but that in which a hand goes round to find one to give up.
    private var entries: [Entry] = []
    /// As many, in the same order.
    private var pictures: [Picture] = []
    private var hand = 0
    private var bytes = 0
    /// Hits that the broker does not know of.
    private var untoldHits = 0
    private var toldAt = ValidityView.now

    init(_ limits: ImageBroker.Keeping, page: ValidityView) {
        self.limits = limits
        self.page = page
        var places = 64
        while places < 2 * min(limits.images, 1 << 20) { places *= 2 }
        table = Array(repeating: 0, count: places)
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The picture that a `get` would bring, and whether the broker should be told soon of such uses; nil when it has to be
    /// asked.
    mutating func image(at url: String, _ options: GetOptions) -> (image: BrokerImage, isTellingDue: Bool)? {
        guard let index = index(of: url, hash: Self.hash(of: url), options) else { return nil }
        let now = ValidityView.now
        guard page.isValid(entries[index].slot, at: now) else { return nil }
        entries[index].isUsed = true
        entries[index].isUntold = true
        untoldHits += 1
        return (pictures[index].image, now &- toldAt >= Self.tenthsBetweenTouches)
    }

    private func index(of url: String, hash: UInt64, _ options: GetOptions) -> Int? {
        let plain = options.plain
        var link = table[place(of: hash)]
        while link != 0 {
            let index = Int(link) - 1
            if entries[index].hash == hash, entries[index].plain == plain, pictures[index].url == url,
                plain != nil || pictures[index].options == options
            {
                return index
            }
            link = entries[index].next
        }
        return nil
    }

    private func place(of hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (table.count - 1) }

    private static func hash(of url: String) -> UInt64 {
        let hash = unsafe url.utf8.withContiguousStorageIfAvailable {
            unsafe FoldedHash.hash(UnsafeRawBufferPointer($0))
        }
        if let hash { return hash }
        return unsafe Array(url.utf8).withUnsafeBytes { unsafe FoldedHash.hash($0) }
    }

    /// Keeps what a request was answered with, if a slot came with it, in place of what it was answered with before.
    mutating func keep(_ image: BrokerImage, at url: String, _ options: GetOptions) {
        let hash = Self.hash(of: url)
        if let index = index(of: url, hash: hash, options) { remove(at: index) }
        let size = image.description.bytes
        guard let slot = image.description.slot, limits.images > 0, size <= limits.bytes else { return }
        while entries.count >= limits.images || bytes > limits.bytes - size { giveOneUp() }
        let place = place(of: hash)
        entries.append(Entry(hash: hash, plain: options.plain, slot: slot, next: table[place]))
        pictures.append(Picture(url: url, options: options, image: image))
        table[place] = Link(entries.count)
        bytes += size
    }

    /// Gives up everything: the leases go back with the next message.
    mutating func removeAll() {
        for place in table.indices { table[place] = 0 }
        entries = []
        pictures = []
        bytes = 0
    }

    /// Gives up the first entry that was not used since the hand last came by.
    private mutating func giveOneUp() {
        while true {
            if hand >= entries.count { hand = 0 }
            if !entries[hand].isUsed { return remove(at: hand) }
            entries[hand].isUsed = false
            hand += 1
        }
    }

    /// Removes an entry; the last one takes its index.
    private mutating func remove(at index: Int) {
        relink(index, to: entries[index].next)
        bytes -= pictures[index].image.description.bytes
        let last = entries.count - 1
        if index != last {
            relink(last, to: Link(index + 1))
            entries.swapAt(index, last)
            pictures.swapAt(index, last)
        }
        entries.removeLast()
        pictures.removeLast()
    }

    /// Makes whatever leads to an entry lead to `link` instead.
    private mutating func relink(_ index: Int, to link: Link) {
        let place = place(of: entries[index].hash)
        if table[place] == Link(index + 1) {
            table[place] = link
            return
        }
        var before = Int(table[place]) - 1
        while entries[before].next != Link(index + 1) { before = Int(entries[before].next) - 1 }
        entries[before].next = link
    }

    // MARK: Telling the broker

    /// A second.
    private static let tenthsBetweenTouches: UInt32 = 10
    /// As a frame has its limit; the others are told of the next time.
    private static let buffersInOneTouch = 10_000

    /// What the broker is to be told of uses that it did not see; nil when there were none, or within a second of the
    /// last time. What is not valid any more is given up by the way.
    mutating func takeTouch() -> ClientMessage? {
        let now = ValidityView.now
        if now &- toldAt < Self.tenthsBetweenTouches { return nil }
        toldAt = now
        for index in entries.indices.reversed() where !page.isValid(entries[index].slot, at: now) { remove(at: index) }
        if untoldHits == 0 { return nil }
        var buffers: [Int] = []
        for index in entries.indices where entries[index].isUntold && buffers.count < Self.buffersInOneTouch {
            entries[index].isUntold = false
            if let buffer = pictures[index].image.description.buffer { buffers.append(buffer) }
        }
        defer { untoldHits = 0 }
        return .touch(buffers: buffers, hits: untoldHits)
    }
}

extension ValidityView {
    // Not a method of the whole, all of which would be copied for it.
    fileprivate func isValid(_ slot: ImageReply.Slot, at now: UInt32) -> Bool {
        isValid(slot: slot.number, generation: slot.generation, at: now)
    }
}

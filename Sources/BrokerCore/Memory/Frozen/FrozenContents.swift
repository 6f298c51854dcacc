import HTTPValues
import IPCProtocol

/// The frozen contents: each is a record of bytes, found by the content and by the URLs of its originals. No two have an original
/// of the same URL. They are evicted in an order of their own.
struct FrozenContents: Sequence {
    private var records = SegmentStore()
    private var contents = HashIndex()
    private var urls = HashIndex()
    private var order = EvictionQueue()
    /// The number of their buffers.
    private(set) var bufferCount = 0
    /// The bytes that the records count.
    private(set) var charge = 0

    /// The number of contents.
    var count: Int { records.count }
    var isEmpty: Bool { count == 0 }

    /// The bytes that a content counts besides its record, for the tables here and of the buffers' bytes.
    private static let tableBytes = 256

    /// Adds a content. Neither it nor any of its URLs is in the table.
    mutating func insert(_ content: FrozenContent) {
        let record = content.record
        let slot = records.insert(record)
        contents.insert(slot, hash: content.key.hashValue)
        for (key, _) in content.originals { urls.insert(slot, hash: key.url.hashValue) }
        if let value = content.value { order.insert(slot, value) }
        bufferCount += content.buffers.count
        charge += record.count + Self.tableBytes
    }

    /// Returns a content and its slot.
    func find(_ key: ContentKey) -> (slot: Int, content: FrozenContent)? {
        if isEmpty { return nil }
        return contents.slot(hash: key.hashValue) { read($0).key == key }.map { ($0, read($0)) }
    }

    /// Returns the content of which an original was loaded from `url`, and its slot.
    func find(_ url: SourceURL) -> (slot: Int, content: FrozenContent)? {
        if isEmpty { return nil }
        let slot = urls.slot(hash: url.hashValue) { read($0).originals.contains { $0.key.url == url } }
        return slot.map { ($0, read($0)) }
    }

    private func read(_ slot: Int) -> FrozenContent { FrozenContent(records[slot]) }

    /// Removes a content.
    mutating func remove(_ content: FrozenContent, at slot: Int) {
        order.remove(slot)
        forget(content, slot)
        records.compact()
    }

    /// Removes the content that is the first to be evicted.
    mutating func evict() -> FrozenContent? {
        guard let slot = order.evict(isHeld: { _ in false }) else { return nil }
        let content = read(slot)
        forget(content, slot)
        records.compact()
        return content
    }

    /// Removes the contents for which `isMeant` is true, and passes each to `visit`: together they would take far more memory than
    /// their records.
    mutating func remove(where isMeant: (FrozenContent) -> Bool, visit: (FrozenContent) -> Void) {
        for slot in records.slots {
            let content = read(slot)
            if !isMeant(content) { continue }
            order.remove(slot)
            forget(content, slot)
            visit(content)
        }
        records.compact()
    }

    /// Takes a content out of the tables. Its record is dead until the records are compacted.
    private mutating func forget(_ content: FrozenContent, _ slot: Int) {
        contents.remove(slot, hash: content.key.hashValue)
        for (key, _) in content.originals { urls.remove(slot, hash: key.url.hashValue) }
        bufferCount -= content.buffers.count
        charge -= records[slot].count + Self.tableBytes
        records.remove(slot)
    }

    /// All contents, in no particular order.
    func makeIterator() -> some IteratorProtocol<FrozenContent> {
        records.slots.lazy.map { FrozenContent(records[$0]) }.makeIterator()
    }

    /// Returns the first invariant that does not hold; nil when all hold.
    func brokenInvariant() -> String? {
        let all = Array(self)
        if all.count != count || contents.count != count { return "number of contents" }
        if all.reduce(0, { $0 + $1.buffers.count }) != bufferCount { return "number of buffers" }
        let urlCount = all.reduce(0) { $0 + $1.originals.count }
        if urlCount != urls.count || Set(all.flatMap { $0.originals.map(\.key.url) }).count != urlCount {
            return "URLs"
        }
        if records.slots.reduce(0, { $0 + records[$1].count + Self.tableBytes }) != charge { return "bytes" }
        if let broken = records.brokenInvariant() { return "records: \(broken)" }
        if order.count != count { return "order of eviction" }
        if all.contains(where: { content in
            find(content.key) == nil || content.originals.contains { find($0.key.url)?.content.key != content.key }
        }) {
            return "a content that cannot be found"
        }
        return order.brokenInvariant()
    }
}

import HTTPValues
import IPCProtocol
import SystemValues

/// A lookup in the disk tier: queued, or running on the cache process.
struct Lookup {
    let key: LookupKey
    /// The keys that are looked for, in order of preference.
    let keys: [OriginalKey]
    var waiters: JobWaiters
    /// The cache process that runs it; nil while it is queued.
    var worker: WorkerID?
    var startedAt: Instant?
    /// Whether a waiter lets the result stay in memory.
    var mayStay: Bool
    /// Whether the original is in memory, so that only a raster is looked for.
    var isForRaster = false
    /// Whether memory answers without the user's own original, so that only that is looked for.
    var isForOwn = false
    /// The form of the raster that it looks for, once it has started; nil for none.
    var rasterWord: String?
}

struct LookupKey: Hashable {
    let original: OriginalKey
    /// The requesting user, whose own original is preferred to the shared one.
    let uid: UInt32
    let form: Form
}

/// A request to the cache process, lookups aside.
enum DiskRequest {
    /// Saves a buffer, held until then: an original's bytes, or a raster when `as` is nil.
    case save(BufferID, bytes: Int, as: OriginalKey?)
    /// Forgets a URL. The client, if one has asked, is told the number of originals, those in memory included.
    case forget(Requester?, url: String, owner: UInt32?, inMemory: Set<String>)
    /// Asks whether an original is cached.
    case query(Requester?, keys: [OriginalKey], Known)
    /// Removes everything that was made of bytes with these digests.
    case discard(digests: [String])
    /// Empties the tier. The counts are those of memory.
    case clear(Requester?, olderThanSeconds: Int?, removed: Int, bytes: Int)

    /// The facts of a queried original that memory has.
    struct Known {
        let inMemory: Bool
        /// Nil when memory has no such original.
        let isFresh: Bool?
        let headers: [HeaderField]
        let placeholder: Placeholder?
    }

    /// The client that is to be answered, and its request's id.
    typealias Requester = (client: ClientID, id: Int)

    var bytesToSave: Int { if case .save(_, let bytes, _) = self { bytes } else { 0 } }

    /// Whether it must be carried out even when many wait: it is the broker's own, and rare.
    var isDue: Bool {
        switch self {
        case .discard, .clear(nil, _, _, _): true
        case .save, .forget, .query, .clear: false
        }
    }

    /// The most digests that one order names; it is to be shorter than a frame.
    private static let mostDigests = 4096

    /// The order to discard everything made of bytes with these digests; with too many of them, the order to empty the tier.
    static func discarding(_ digests: Set<String>) -> DiskRequest {
        digests.count > mostDigests ? .emptying : .discard(digests: digests.sorted())
    }

    /// The broker's own order to empty the tier.
    static var emptying: DiskRequest { .clear(nil, olderThanSeconds: nil, removed: 0, bytes: 0) }

    /// The same request after its client was answered.
    var withoutRequester: DiskRequest {
        switch self {
        case .save, .discard: self
        case .forget(_, let url, let owner, let inMemory): .forget(nil, url: url, owner: owner, inMemory: inMemory)
        case .query(_, let keys, let known): .query(nil, keys: keys, known)
        case .clear(_, let seconds, let removed, let bytes):
            .clear(nil, olderThanSeconds: seconds, removed: removed, bytes: bytes)
        }
    }
}

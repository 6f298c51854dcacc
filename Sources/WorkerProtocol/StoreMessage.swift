package import DiskRecords
internal import IPCProtocol
package import JSONCoding

// The messages between the broker and the cache process, which keeps the disk tier: frames of the wire protocol over a
// socket pair. The cache process handles keys and digests as text and bytes as descriptors; only the broker interprets
// them.
//
//     broker → find                                cache → found + 1 descriptor (a sealed memfd) | missing
//     broker → keepOriginal, keepRaster + 1 descriptor (sealed)
//                                                   Small contents may come in the frame instead, and a small original
//                                                   that was found, too.
//                                                   cache → kept | notKept
//     broker → touch, update, quarantine, limit
//     broker → query, forget, discard, clear        cache → queried, forgotten, forgotten, cleared
//     cache → state                                whenever something in it changed
//     cache → quarantine                           once, when anything is remembered
//     cache → known                                after each start, once it knows all its entries
//
// Orders are carried out in the sequence of their arrival: a `find` sees each entry whose order to be kept came before
// it. Answers come in the same sequence, with two exceptions. `kept` and `notKept` come after the commit of the
// entries, one for all entries of a commit, and so possibly after the answers to later orders. `cleared` comes when the
// entries are removed. Jobs tell answers apart.

/// The state of the disk tier.
package struct DiskReport: Equatable, Sendable, FieldList {
    /// The mode of the disk tier, as shown by `stats`.
    package enum State: String, CaseIterable, Sendable {
        /// Reads and writes.
        case on
        /// No disk tier: it is disabled, or its directory is unusable.
        case off
        /// Reads only, because the directory is not writable.
        case readOnly = "read-only"
        /// Reads only, because no space is left.
        case full
        /// Unused, because another broker uses the directory.
        case locked
    }

    package var state: State
    /// The reason for the mode, for the log; nil while it is `on`.
    package var reason: String?
    /// The number of originals and rasters.
    package var entries: Int
    /// The size of the originals and rasters in bytes.
    package var bytes: Int
    /// Whether any original may belong to a single user.
    package var mayHaveOwned: Bool

    package init(
        state: State, reason: String? = nil, entries: Int = 0, bytes: Int = 0, mayHaveOwned: Bool = false
    ) {
        self.state = state
        self.reason = reason
        self.entries = entries
        self.bytes = bytes
        self.mayHaveOwned = mayHaveOwned
    }

    package static var blank: DiskReport { DiskReport(state: .off) }

    package mutating func list(_ fields: inout Fields) {
        fields.choice("state", &state)
        fields.string("reason", &reason)
        fields.integer("entries", &entries, in: 0...Int.max)
        fields.integer("bytes", &bytes, in: 0...Int.max)
        fields.boolean("mayHaveOwned", &mayHaveOwned, .optional)
    }
}

/// A message from the broker to the cache process.
package enum StoreOrder: Equatable, Sendable, WorkerMessage {
    /// Finds the raster in form `form` of the first original that exists among `keys`, else that original itself.
    /// Without a form, finds only the original. With `rasterOnly`, finds only the raster, because the requester has the
    /// original.
    case find(job: Int, keys: [String], form: String?, rasterOnly: Bool = false)
    /// Stores an original; carries its bytes.
    case keepOriginal(job: Int, OriginalRecord)
    /// Stores a raster; carries its contents.
    case keepRaster(job: Int, RasterRecord)
    /// Requests the record of the first original that exists among `keys`, without its bytes.
    case query(job: Int, keys: [String])
    /// Marks originals as used, because the memory tier served them.
    case touch(keys: [String])
    /// Updates the record of a stored original that the origin has confirmed.
    case update(OriginalRecord)
    /// Removes the originals of a URL that belong to `owner` or to all users (without an owner: all of them), and the
    /// rasters that only these originals have.
    case forget(job: Int, url: String, owner: UInt32?)
    /// Removes all originals with these digests, and their rasters; answered by `forgotten` without keys.
    case discard(job: Int, digests: [String])
    /// Removes everything, or the entries unused for `olderThanSeconds` seconds.
    case clear(job: Int, olderThanSeconds: Int?)
    /// Replaces the stored quarantine list, which outlives the broker.
    case quarantine([QuarantineRecord])
    /// Replaces the limits: the bytes of originals, those of rasters, and the time without use after which an entry is
    /// removed, nil for never.
    case limit(originals: Int, rasters: Int, maxAgeSeconds: Int?)

    package var mayHaveBytes: Bool {
        switch self {
        case .keepOriginal, .keepRaster: true
        case .find, .query, .touch, .update, .forget, .discard, .clear, .quarantine, .limit: false
        }
    }

    package var type: String {
        switch self {
        case .find: "find"
        case .keepOriginal: "keepOriginal"
        case .keepRaster: "keepRaster"
        case .query: "query"
        case .touch: "touch"
        case .update: "update"
        case .forget: "forget"
        case .discard: "discard"
        case .clear: "clear"
        case .quarantine: "quarantine"
        case .limit: "limit"
        }
    }

    package static let blanks: [StoreOrder] = [
        .find(job: 0, keys: [], form: nil), .keepOriginal(job: 0, .blank), .keepRaster(job: 0, .blank),
        .query(job: 0, keys: []), .touch(keys: []), .update(.blank), .forget(job: 0, url: "", owner: nil),
        .discard(job: 0, digests: []), .clear(job: 0, olderThanSeconds: nil), .quarantine([]),
        .limit(originals: 0, rasters: 0, maxAgeSeconds: nil),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .find(let job, let keys, let form, let rasterOnly):
            self = .find(
                job: fields.job(job), keys: fields.strings("keys", keys), form: fields.string("form", form),
                rasterOnly: fields.value(rasterOnly) { $0.flag("rasterOnly", &$1) })
        case .keepOriginal(let job, let record):
            self = .keepOriginal(job: fields.job(job), fields.object("original", record))
        case .keepRaster(let job, let record):
            self = .keepRaster(job: fields.job(job), fields.object("raster", record))
        case .query(let job, let keys):
            self = .query(job: fields.job(job), keys: fields.strings("keys", keys))
        case .touch(let keys): self = .touch(keys: fields.strings("keys", keys))
        case .update(let record): self = .update(fields.object("original", record))
        case .forget(let job, let url, let owner):
            self = .forget(
                job: fields.job(job), url: fields.string("url", url),
                owner: fields.value(owner) { $0.user("owner", &$1) })
        case .discard(let job, let digests):
            self = .discard(job: fields.job(job), digests: fields.strings("digests", digests))
        case .clear(let job, let seconds):
            self = .clear(
                job: fields.job(job),
                olderThanSeconds: fields.integer("olderThanSeconds", seconds, in: 0...Int.max))
        case .quarantine(let records): self = .quarantine(fields.objects("records", records))
        case .limit(let originals, let rasters, let seconds):
            self = .limit(
                originals: fields.integer("originals", originals, in: 0...Int.max),
                rasters: fields.integer("rasters", rasters, in: 0...Int.max),
                maxAgeSeconds: fields.integer("maxAgeSeconds", seconds, in: 0...Int.max / 1000))
        }
    }
}

/// A message from the cache process.
package enum StoreReport: Equatable, Sendable, WorkerMessage {
    /// The process accepts orders, with its sandbox; nil when the message has none.
    case ready(SandboxReport?, version: String? = ProductVersion.current)
    case state(DiskReport)
    /// The original exists; carries its bytes.
    case foundOriginal(job: Int, OriginalRecord)
    /// The raster exists; carries its contents.
    case foundRaster(job: Int, OriginalRecord, RasterRecord)
    /// The entry is missing or incomplete.
    case missing(job: Int)
    /// The answer to `query`: the record of the first original that exists.
    case queried(job: Int, OriginalRecord?)
    /// Originals and rasters were stored.
    case kept(jobs: [Int])
    /// Originals and rasters were not stored.
    case notKept(jobs: [Int])
    /// The keys of the removed originals.
    case forgotten(job: Int, keys: [String])
    /// The number of originals removed, and the bytes of their files and of their rasters' files.
    case cleared(job: Int, removed: Int, bytes: Int)
    /// The quarantine list stored by an earlier broker.
    case quarantine([QuarantineRecord])
    /// Hashes of the keys of originals that the disk tier has (`KeyHash`). With `isComplete`, all were reported, except
    /// those that this broker has had stored since the process started: no other original exists. Without, that is not
    /// certain, or not any more.
    case known(hashes: [UInt64], isComplete: Bool)

    /// The report to be sent in place of one that no frame can hold: the entry is missing. Nil for reports whose length
    /// is bounded by their fields.
    package var replacement: StoreReport? {
        switch self {
        case .foundOriginal(let job, _), .foundRaster(let job, _, _): .missing(job: job)
        case .queried(let job, _): .queried(job: job, nil)
        case .forgotten(let job, _): .forgotten(job: job, keys: [])
        default: nil
        }
    }

    package var descriptorCount: Int {
        switch self {
        case .foundOriginal, .foundRaster: 1
        default: 0
        }
    }
    package var mayHaveBytes: Bool { descriptorCount > 0 }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .state: "state"
        case .foundOriginal: "foundOriginal"
        case .foundRaster: "foundRaster"
        case .missing: "missing"
        case .queried: "queried"
        case .kept: "kept"
        case .notKept: "notKept"
        case .forgotten: "forgotten"
        case .cleared: "cleared"
        case .quarantine: "quarantine"
        case .known: "known"
        }
    }

    package static let blanks: [StoreReport] = [
        .ready(nil, version: nil), .state(.blank), .foundOriginal(job: 0, .blank),
        .foundRaster(job: 0, .blank, .blank),
        .missing(job: 0), .queried(job: 0, nil), .kept(jobs: []), .notKept(jobs: []), .forgotten(job: 0, keys: []),
        .cleared(job: 0, removed: 0, bytes: 0), .quarantine([]), .known(hashes: [], isComplete: false),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .ready(let sandbox, let version):
            self = .ready(fields.object("sandbox", sandbox), version: fields.string("version", version))
        case .state(let report): self = .state(fields.members(of: report))
        case .foundOriginal(let job, let record):
            self = .foundOriginal(job: fields.job(job), fields.object("original", record))
        case .foundRaster(let job, let original, let raster):
            self = .foundRaster(
                job: fields.job(job), fields.object("original", original), fields.object("raster", raster))
        case .missing(let job): self = .missing(job: fields.job(job))
        case .queried(let job, let record):
            self = .queried(job: fields.job(job), fields.object("original", record))
        case .kept(let jobs): self = .kept(jobs: fields.jobs(jobs))
        case .notKept(let jobs): self = .notKept(jobs: fields.jobs(jobs))
        case .forgotten(let job, let keys):
            self = .forgotten(job: fields.job(job), keys: fields.strings("keys", keys))
        case .cleared(let job, let removed, let bytes):
            self = .cleared(
                job: fields.job(job), removed: fields.integer("removed", removed, in: 0...Int.max),
                bytes: fields.integer("bytes", bytes, in: 0...Int.max))
        case .quarantine(let records): self = .quarantine(fields.objects("records", records))
        case .known(let hashes, let isComplete):
            self = .known(
                hashes: fields.value(hashes) { $0.keyHashes("hashes", &$1) },
                isComplete: fields.value(isComplete) { $0.boolean("complete", &$1) })
        }
    }
}

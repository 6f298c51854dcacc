package import DiskRecords
package import JSONCoding

// The messages between the broker and the cache process, which keeps the disk tier: frames of the wire protocol over a
// socket pair. The cache process handles keys and digests as text and bytes as descriptors; only the broker interprets
// them.
//
//     broker → find                                cache → found + 1 descriptor (a sealed memfd) | missing
//     broker → keepOriginal, keepRaster + 1 descriptor (sealed) cache → kept | notKept
//     broker → touch, update, quarantine
//     broker → query, forget, clear                 cache → queried, forgotten, cleared
//     cache → state                                whenever something in it changed
//     cache → quarantine                           once, when anything is remembered
//
// Requests are answered in the order of their arrival, except `clear`, which takes longer.

/// The state of the disk tier.
package struct DiskReport: Equatable, Sendable {
    /// The current mode of the disk tier, as shown by `stats`.
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

    /// The current mode.
    package var state: State
    /// The reason for the mode, for the log; nil while it is `on`.
    package var reason: String?
    /// The number of originals and rasters.
    package var entries: Int
    /// The size of the originals and rasters in bytes.
    package var bytes: Int
    /// Whether any original may belong to a single user.
    package var mayHaveOwned: Bool

    /// Creates a report of a mode with its figures.
    package init(
        state: State, reason: String? = nil, entries: Int = 0, bytes: Int = 0, mayHaveOwned: Bool = false
    ) {
        self.state = state
        self.reason = reason
        self.entries = entries
        self.bytes = bytes
        self.mayHaveOwned = mayHaveOwned
    }
}

/// A message from the broker to the cache process.
package enum StoreOrder: Equatable, Sendable {
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
    /// Removes everything, or the entries unused for `olderThanSeconds` seconds.
    case clear(job: Int, olderThanSeconds: Int?)
    /// Replaces the stored quarantine list, which outlives the broker.
    case quarantine([QuarantineRecord])
}

/// A message from the cache process.
package enum StoreReport: Equatable, Sendable {
    /// The process accepts orders, with its sandbox; nil when the message has none.
    case ready(SandboxReport?)
    /// The state of the disk tier.
    case state(DiskReport)
    /// The original exists; carries its bytes.
    case foundOriginal(job: Int, OriginalRecord)
    /// The raster exists; carries its contents.
    case foundRaster(job: Int, OriginalRecord, RasterRecord)
    /// The entry is missing or incomplete.
    case missing(job: Int)
    /// The answer to `query`: the record of the first original that exists.
    case queried(job: Int, OriginalRecord?)
    /// The original or raster was stored.
    case kept(job: Int)
    /// The original or raster was not stored.
    case notKept(job: Int)
    /// The keys of the removed originals.
    case forgotten(job: Int, keys: [String])
    /// The number of originals removed, and the bytes of their files and of their rasters' files.
    case cleared(job: Int, removed: Int, bytes: Int)
    /// The quarantine list stored by an earlier broker.
    case quarantine([QuarantineRecord])
}

extension StoreOrder: WorkerMessage {
    package var descriptorCount: Int {
        switch self {
        case .keepOriginal, .keepRaster: 1
        case .find, .query, .touch, .update, .forget, .clear, .quarantine: 0
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
        case .clear: "clear"
        case .quarantine: "quarantine"
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .find(let job, let keys, let form, let rasterOnly):
            writer.member("job", job)
            writer.array("keys", of: keys)
            writer.member("form", form)
            if rasterOnly { writer.member("rasterOnly", true) }
        case .keepOriginal(let job, let record):
            writer.member("job", job)
            writer.object("original", record.writeMembers)
        case .keepRaster(let job, let record):
            writer.member("job", job)
            writer.object("raster", record.writeMembers)
        case .query(let job, let keys):
            writer.member("job", job)
            writer.array("keys", of: keys)
        case .update(let record): writer.object("original", record.writeMembers)
        case .clear(let job, let seconds):
            writer.member("job", job)
            writer.member("olderThanSeconds", seconds)
        case .touch(let keys): writer.array("keys", of: keys)
        case .forget(let job, let url, let owner):
            writer.member("job", job)
            writer.member("url", url)
            writer.member("owner", owner.map { Int($0) })
        case .quarantine(let records): writer.array("records", of: records) { $1.writeMembers(to: &$0) }
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        let members = try StoreMembers(from: &reader)
        switch type {
        case "touch":
            self = .touch(keys: members.keys)
            return
        case "update":
            guard let record = members.original else { return nil }
            self = .update(record)
            return
        case "quarantine":
            self = .quarantine(members.records)
            return
        default: break
        }
        guard let job = members.job else { return nil }
        switch type {
        case "find":
            self = .find(job: job, keys: members.keys, form: members.form, rasterOnly: members.rasterOnly)
        case "query": self = .query(job: job, keys: members.keys)
        case "clear": self = .clear(job: job, olderThanSeconds: members.olderThanSeconds)
        case "keepOriginal":
            guard let record = members.original else { return nil }
            self = .keepOriginal(job: job, record)
        case "keepRaster":
            guard let record = members.raster else { return nil }
            self = .keepRaster(job: job, record)
        case "forget":
            guard let url = members.url else { return nil }
            self = .forget(job: job, url: url, owner: members.owner)
        default: return nil
        }
    }
}

extension StoreReport: WorkerMessage {
    package var descriptorCount: Int {
        switch self {
        case .foundOriginal, .foundRaster: 1
        default: 0
        }
    }

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
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .ready(let sandbox): if let sandbox { writer.object("sandbox", sandbox.writeMembers) }
        case .state(let report):
            writer.member("state", report.state.rawValue)
            writer.member("reason", report.reason)
            writer.member("entries", report.entries)
            writer.member("bytes", report.bytes)
            writer.member("mayHaveOwned", report.mayHaveOwned)
        case .foundOriginal(let job, let record):
            writer.member("job", job)
            writer.object("original", record.writeMembers)
        case .foundRaster(let job, let original, let raster):
            writer.member("job", job)
            writer.object("original", original.writeMembers)
            writer.object("raster", raster.writeMembers)
        case .missing(let job), .kept(let job), .notKept(let job): writer.member("job", job)
        case .queried(let job, let record):
            writer.member("job", job)
            if let record { writer.object("original", record.writeMembers) }
        case .cleared(let job, let removed, let bytes):
            writer.member("job", job)
            writer.member("removed", removed)
            writer.member("bytes", bytes)
        case .forgotten(let job, let keys):
            writer.member("job", job)
            writer.array("keys", of: keys)
        case .quarantine(let records): writer.array("records", of: records) { $1.writeMembers(to: &$0) }
        }
    }

    package init?(type: String, members reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        if type == "ready" {
            self = .ready(try SandboxReport.read(fromReady: &reader).0)
            return
        }
        let members = try StoreMembers(from: &reader)
        switch type {
        case "quarantine":
            self = .quarantine(members.records)
            return
        case "state":
            guard let state = members.state, let entries = members.entries, let bytes = members.bytes else {
                return nil
            }
            self = .state(
                DiskReport(
                    state: state, reason: members.reason, entries: entries, bytes: bytes,
                    mayHaveOwned: members.mayHaveOwned))
            return
        default: break
        }
        guard let job = members.job else { return nil }
        switch type {
        case "foundOriginal":
            guard let record = members.original else { return nil }
            self = .foundOriginal(job: job, record)
        case "foundRaster":
            guard let original = members.original, let raster = members.raster else { return nil }
            self = .foundRaster(job: job, original, raster)
        case "missing": self = .missing(job: job)
        case "queried": self = .queried(job: job, members.original)
        case "cleared":
            guard let removed = members.removed, let bytes = members.bytes else { return nil }
            self = .cleared(job: job, removed: removed, bytes: bytes)
        case "kept": self = .kept(job: job)
        case "notKept": self = .notKept(job: job)
        case "forgotten": self = .forgotten(job: job, keys: members.keys)
        default: return nil
        }
    }
}

/// The members of all these messages.
private struct StoreMembers {
    var job: Int?
    var form: String?
    var rasterOnly = false
    var url: String?
    var owner: UInt32?
    var keys: [String] = []
    var records: [QuarantineRecord] = []
    var original: OriginalRecord?
    var raster: RasterRecord?
    var removed: Int?
    var olderThanSeconds: Int?
    var mayHaveOwned = false
    var state: DiskReport.State?
    var reason: String?
    var entries: Int?
    var bytes: Int?

    init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "job": job = try reader.integer(name, in: 0...Int.max)
            case "rasterOnly": rasterOnly = try reader.boolean(name) ?? false
            case "form": form = try reader.string(name)
            case "url": url = try reader.string(name)
            case "owner": owner = try reader.integer(name, in: 0...Int(UInt32.max)).map { UInt32($0) }
            case "keys":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let key = try reader.string(name) { keys.append(key) }
                }
            case "records":
                try reader.array(name) { (reader) throws(JSONReader.MalformedJSON) in
                    if let record = try QuarantineRecord(from: &reader, field: name) { records.append(record) }
                }
            case "original": original = try OriginalRecord(from: &reader, field: name)
            case "raster": raster = try RasterRecord(from: &reader, field: name)
            case "removed": removed = try reader.integer(name, in: 0...Int.max)
            case "olderThanSeconds": olderThanSeconds = try reader.integer(name, in: 0...Int.max)
            case "mayHaveOwned": mayHaveOwned = try reader.boolean(name) ?? false
            case "state": state = try reader.choice(name)
            case "reason": reason = try reader.string(name)
            case "entries": entries = try reader.integer(name, in: 0...Int.max)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            default: try reader.skip()
            }
        }
    }
}

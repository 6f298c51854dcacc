package import DiskRecords
internal import HTTPValues
package import IPCProtocol
package import JSONCoding

// The messages between the broker and the process of the shared tier: frames of the wire protocol over a socket pair.
//
//     broker → find      tier → found-small | found + 1 descriptor (a sealed memfd) | noted | leased | busy | unavailable
//     broker → keep + 1 descriptor (sealed)    tier → kept
//       (small contents come in the frame instead)
//     broker → note                     tier → kept
//     broker → renew, release, remove, reject
//     tier → servers                    when a figure has changed, at most once a second
//
// The lookups that have arrived together are sent together, and answered before anything is written. All other orders are
// carried out in the sequence of their arrival, but leases are ended together when nothing else is to be done.

/// A message from the broker to the process of the shared tier.
package enum TierOrder: Equatable, Sendable {
    /// Finds a record. If it is missing, takes the lease with this token; without a token, takes no lease.
    case find(job: Int, key: String, token: String?)
    /// Prolongs the lease, if it still has this token.
    case renew(key: String, token: String)
    /// Ends the lease, if it still has this token.
    case release(key: String, token: String)
    /// Writes an original or a variant, then ends the lease with this token; carries the bytes.
    case keep(job: Int, SharedRecord, token: String?)
    /// Writes a record without bytes, then ends the lease with this token.
    case note(job: Int, SharedRecord, token: String?)
    /// Removes the records with these keys.
    case remove(keys: [String])
    /// Counts a record whose bytes are not those that it states as rejected, and removes it.
    case reject(key: String)
}

/// A message from the process of the shared tier.
package enum TierReport: Equatable, Sendable {
    /// The process accepts orders, with its sandbox; nil when the message has none.
    case ready(SandboxReport?, version: String? = ProductVersion.current)
    /// The original or the variant exists, and its bytes are few. The frame's bytes are the record's metadata, of this length, and the
    /// contents. Whoever can reach the servers may have written both, and the process has read neither.
    case foundSmall(job: Int, metadata: Int)
    /// The original or the variant exists; carries its bytes.
    case found(job: Int, SharedRecord)
    /// A record without bytes exists.
    case noted(job: Int, SharedRecord)
    /// The record is missing, and the lease was taken.
    case leased(job: Int)
    /// There is no record, and another broker has the lease.
    case busy(job: Int)
    /// There is no record and no lease: the server does not answer, or no token was given.
    case unavailable(job: Int)
    /// The record was written, or not.
    case kept(job: Int, isKept: Bool)
    /// The servers with their figures since the start of the process.
    case servers([StatsReport.SharedServer])
}

extension TierOrder: WorkerMessage {
    package var descriptorCount: Int { if case .keep = self { 1 } else { 0 } }
    package var mayHaveBytes: Bool { if case .keep = self { true } else { false } }

    package var type: String {
        switch self {
        case .find: "find"
        case .renew: "renew"
        case .release: "release"
        case .keep: "keep"
        case .note: "note"
        case .remove: "remove"
        case .reject: "reject"
        }
    }

    package static let blanks: [TierOrder] = [
        .find(job: 0, key: "", token: nil), .renew(key: "", token: ""), .release(key: "", token: ""),
        .keep(job: 0, .blank, token: nil), .note(job: 0, .blank, token: nil), .remove(keys: []),
        .reject(key: ""),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .find(var job, var key, var token):
            fields.job(&job)
            fields.digest("key", &key)
            fields.string("token", &token)
            self = .find(job: job, key: key, token: token)
        case .renew(var key, var token):
            fields.digest("key", &key)
            fields.string("token", &token)
            self = .renew(key: key, token: token)
        case .release(var key, var token):
            fields.digest("key", &key)
            fields.string("token", &token)
            self = .release(key: key, token: token)
        case .keep(var job, var record, var token):
            fields.job(&job)
            fields.object("record", &record)
            fields.string("token", &token)
            self = .keep(job: job, record, token: token)
        case .note(var job, var record, var token):
            fields.job(&job)
            fields.object("record", &record)
            fields.string("token", &token)
            self = .note(job: job, record, token: token)
        case .remove(var keys):
            fields.strings("keys", &keys)
            self = .remove(keys: keys)
        case .reject(var key):
            fields.digest("key", &key)
            self = .reject(key: key)
        }
    }
}

extension TierReport: WorkerMessage {
    package var descriptorCount: Int { if case .found = self { 1 } else { 0 } }
    package var mayHaveBytes: Bool { if case .foundSmall = self { true } else { false } }

    package var type: String {
        switch self {
        case .ready: "ready"
        case .foundSmall: "found-small"
        case .found: "found"
        case .noted: "noted"
        case .leased: "leased"
        case .busy: "busy"
        case .unavailable: "unavailable"
        case .kept: "kept"
        case .servers: "servers"
        }
    }

    package static let blanks: [TierReport] = [
        .ready(nil, version: nil), .foundSmall(job: 0, metadata: 0), .found(job: 0, .blank), .noted(job: 0, .blank),
        .leased(job: 0), .busy(job: 0), .unavailable(job: 0), .kept(job: 0, isKept: false), .servers([]),
    ]

    package mutating func list(_ fields: inout Fields) {
        switch self {
        case .ready(var sandbox, var version):
            fields.object("sandbox", &sandbox)
            fields.string("version", &version)
            self = .ready(sandbox, version: version)
        case .foundSmall(var job, var metadata):
            fields.job(&job)
            fields.integer("metadata", &metadata, in: 0...Frame.maximumLength)
            self = .foundSmall(job: job, metadata: metadata)
        case .found(var job, var record):
            fields.job(&job)
            fields.object("record", &record)
            self = .found(job: job, record)
        case .noted(var job, var record):
            fields.job(&job)
            fields.object("record", &record)
            self = .noted(job: job, record)
        case .leased(var job):
            fields.job(&job)
            self = .leased(job: job)
        case .busy(var job):
            fields.job(&job)
            self = .busy(job: job)
        case .unavailable(var job):
            fields.job(&job)
            self = .unavailable(job: job)
        case .kept(var job, var isKept):
            fields.job(&job)
            fields.boolean("kept", &isKept)
            self = .kept(job: job, isKept: isKept)
        case .servers(var servers):
            fields.objects("servers", &servers)
            self = .servers(servers)
        }
    }
}

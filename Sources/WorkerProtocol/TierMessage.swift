package import DiskRecords
internal import HTTPValues
package import IPCProtocol
package import JSONCoding

// The messages between the broker and the process of the shared tier: frames of the wire protocol over a socket pair.
//
//     broker → find tier → found-small | found + 1 descriptor (a sealed memfd) | noted | leased | busy | unavailable
//     broker → keep + 1 descriptor (sealed)    tier → kept
//       (small contents come in the frame instead)
//     broker → note                     tier → kept
//     broker → renew, release, remove, reject
//     tier → servers                    when a figure has changed, at most once a second
//
// The lookups that have arrived together are sent together, and answered before anything is written. All other orders
// are carried out in the sequence of their arrival, but leases are ended together when nothing else is to be done.

/// A message from the broker to the process of the shared tier.
package enum TierOrder: Equatable, Sendable, WorkerMessage {
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
        case .find(let job, let key, let token):
            self = .find(job: fields.job(job), key: fields.digest("key", key), token: fields.string("token", token))
        case .renew(let key, let token):
            self = .renew(key: fields.digest("key", key), token: fields.string("token", token))
        case .release(let key, let token):
            self = .release(key: fields.digest("key", key), token: fields.string("token", token))
        case .keep(let job, let record, let token):
            self = .keep(
                job: fields.job(job), fields.object("record", record), token: fields.string("token", token))
        case .note(let job, let record, let token):
            self = .note(
                job: fields.job(job), fields.object("record", record), token: fields.string("token", token))
        case .remove(let keys): self = .remove(keys: fields.strings("keys", keys))
        case .reject(let key): self = .reject(key: fields.digest("key", key))
        }
    }
}

/// A message from the process of the shared tier.
package enum TierReport: Equatable, Sendable, WorkerMessage {
    /// The process accepts orders, with its sandbox; nil when the message has none.
    case ready(SandboxReport?, version: String? = ProductVersion.current)
    /// The original or the variant exists, and its bytes are few. The frame's bytes are the record's metadata, of this
    /// length, and the contents. Whoever can reach the servers may have written both, and the process has read neither.
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
        case .ready(let sandbox, let version):
            self = .ready(fields.object("sandbox", sandbox), version: fields.string("version", version))
        case .foundSmall(let job, let metadata):
            self = .foundSmall(
                job: fields.job(job),
                metadata: fields.integer("metadata", metadata, in: 0...Frame.maximumLength))
        case .found(let job, let record):
            self = .found(job: fields.job(job), fields.object("record", record))
        case .noted(let job, let record):
            self = .noted(job: fields.job(job), fields.object("record", record))
        case .leased(let job): self = .leased(job: fields.job(job))
        case .busy(let job): self = .busy(job: fields.job(job))
        case .unavailable(let job): self = .unavailable(job: fields.job(job))
        case .kept(let job, let isKept):
            self = .kept(job: fields.job(job), isKept: fields.value(isKept) { $0.boolean("kept", &$1) })
        case .servers(let servers): self = .servers(fields.objects("servers", servers))
        }
    }
}

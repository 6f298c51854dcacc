import DiskRecords
import LinuxSystem
import SharedCache
import WorkerProtocol

/// Carries out commands on the servers. It decides nothing: the broker says when a lease is taken, prolonged and released.
final class Tier {
    /// An answer to a lookup.
    enum Answer {
        case original(SharedRecord, SealedBuffer)
        case noted(SharedRecord)
        case leased, busy, unavailable
    }

    /// A lookup that waits for its turn.
    struct Lookup {
        let job: Int
        let key: String
        let token: String?
    }

    /// The time for which a lease is taken and prolonged, in seconds.
    static let leaseSeconds = 10

    private let ring: ServerRing
    private let connections: [TierConnection]
    private let envelope: RecordEnvelope

    init(ring: ServerRing, connections: [TierConnection], envelope: RecordEnvelope) {
        (self.ring, self.connections, self.envelope) = (ring, connections, envelope)
        for (connection, share) in zip(connections, ring.shares(count: connections.count)) {
            connection.counts.share = share
        }
    }

    /// Whether the address of a server is not known.
    var hasUnknownAddress: Bool { connections.contains { !$0.hasAddress } }

    /// The servers with their figures.
    var figures: [TierServer] { connections.map(\.figures) }

    /// The names of items. A record and its lease are on the same server, so that one cannot be lost without the other.
    private static func recordName(_ key: String) -> String { "imgbroker1:" + key }
    private static func leaseName(_ key: String) -> String { "imgbroker1-lease:" + key }
    private func connection(of key: String) -> TierConnection { connections[ring.server(of: Self.recordName(key))] }

    // MARK: Lookups

    /// Answers lookups, those of one server with one message. A lease is taken for each that finds nothing; then its record is
    /// looked for once more, because another broker may have written it and released the lease meanwhile.
    func find(_ lookups: [Lookup], answer: (Int, Answer) -> Void) {
        let places = Dictionary(grouping: lookups) { ring.server(of: Self.recordName($0.key)) }
        for (place, lookups) in places.sorted(by: { $0.key < $1.key }) {
            let connection = connections[place]
            let missing = find(lookups, on: connection, isRepeated: false, answer: answer)
            var leased: [Lookup] = []
            for lookup in missing {
                guard let token = lookup.token else {
                    answer(lookup.job, .unavailable)
                    continue
                }
                switch connection.add(Self.leaseName(lookup.key), token, seconds: Self.leaseSeconds) {
                case .done: leased.append(lookup)
                case .refused: answer(lookup.job, .busy)
                case .missing, .failed: answer(lookup.job, .unavailable)
                }
            }
            var found: Set<Int> = []
            let late = find(leased, on: connection, isRepeated: true) { job, other in
                found.insert(job)
                answer(job, other)
            }
            for lookup in late { answer(lookup.job, .leased) }
            for lookup in leased where found.contains(lookup.job) {
                if let token = lookup.token { release(key: lookup.key, token: token) }
            }
        }
    }

    /// Answers the lookups whose record exists, and returns the others.
    private func find(
        _ lookups: [Lookup], on connection: TierConnection, isRepeated: Bool, answer: (Int, Answer) -> Void
    ) -> [Lookup] {
        // Two lookups of one key are two requests of the broker that do not share a download.
        var waiting = Dictionary(grouping: lookups) { Self.recordName($0.key) }
        let now = WallClock.milliseconds
        let outcome = unsafe connection.get(waiting.keys.sorted()) { name, item in
            guard let found = waiting[name], let key = found.first?.key else { return }
            guard let content = unsafe envelope.read(item.bytes, of: key, unixMs: now) else {
                connection.counts.rejected += 1
                return
            }
            waiting[name] = nil
            connection.counts.hits += found.count
            connection.counts.bytesRead += unsafe item.bytes.count
            for lookup in found {
                if case .original = content.record.content {
                    let body = unsafe UnsafeRawBufferPointer(rebasing: item.bytes[content.body])
                    if let buffer = try? unsafe SealedBuffer(copying: body, name: "imgbroker-shared") {
                        answer(lookup.job, .original(content.record, buffer))
                    } else {
                        answer(lookup.job, .unavailable)
                    }
                } else {
                    answer(lookup.job, .noted(content.record))
                }
            }
        }
        let missing = lookups.filter { waiting[Self.recordName($0.key)] != nil }
        if !isRepeated { connection.counts.misses += missing.count }
        guard outcome != .failed else {
            // A lease stays on its server, and is of no use without it.
            for lookup in missing { answer(lookup.job, .unavailable) }
            return []
        }
        return missing
    }

    // MARK: Leases

    /// Prolongs a lease if it still has this token.
    func renew(key: String, token: String) { change(key, token, seconds: Self.leaseSeconds) }

    /// Ends a lease if it still has this token.
    func release(key: String, token: String) { change(key, token, seconds: 0) }

    private func change(_ key: String, _ token: String, seconds: Int) {
        let connection = connection(of: key)
        let name = Self.leaseName(key)
        var version: UInt64?
        _ = unsafe connection.get([name]) { _, item in
            if unsafe item.bytes.elementsEqual(token.utf8) { version = unsafe item.version }
        }
        guard let version else { return }
        _ = connection.replace(name, token, seconds: seconds, version: version)
    }

    // MARK: Writing

    /// Writes a record, then ends the lease with the token. Returns whether the record was written.
    func write(_ record: SharedRecord, body: SealedBuffer?, token: String?) -> Bool {
        defer { if let token { release(key: record.key, token: token) } }
        guard let bytes = encoded(record, body) else { return false }
        let milliseconds = record.expires - WallClock.milliseconds
        guard milliseconds > 0 else { return false }
        let connection = connection(of: record.key)
        // Beyond 30 days the server would take the number for a date.
        let seconds = min((milliseconds + 999) / 1000, SharedRecord.longestLifetime / 1000)
        let outcome = unsafe bytes.withUnsafeBytes {
            unsafe connection.set(Self.recordName(record.key), $0, seconds: seconds)
        }
        guard outcome == .done else { return false }
        connection.counts.writes += 1
        connection.counts.bytesWritten += bytes.count
        return true
    }

    private func encoded(_ record: SharedRecord, _ body: SealedBuffer?) -> [UInt8]? {
        guard let body else { return unsafe envelope.write(record, body: UnsafeRawBufferPointer(start: nil, count: 0)) }
        guard let sized = try? SealedBuffer(verifying: body.descriptor, size: record.bytes),
            let mapping = try? Mapping(sized)
        else { return nil }
        return unsafe mapping.withBytes { unsafe envelope.write(record, body: $0) }
    }

    /// Removes the records with these keys.
    func remove(keys: [String]) {
        for key in keys { _ = connection(of: key).remove(Self.recordName(key)) }
    }
}

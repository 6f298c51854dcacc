import DiskRecords
import IPCProtocol
import LinuxSystem
import SharedCache
import WorkerProtocol

/// Carries out commands on the servers. It decides nothing: the broker says when a lease is taken, prolonged and released.
final class Tier {
    /// An answer to a lookup.
    enum Answer {
        /// The record, and its bytes: small ones to be sent in a frame, others in a buffer.
        case found(SharedRecord, [UInt8])
        case foundLarge(SharedRecord, SealedBuffer)
        case noted(SharedRecord)
        case leased, busy, unavailable
    }

    /// A lease as its item is named and valued.
    struct Lease {
        let key: String
        let token: String
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
    /// The leases that are to be ended.
    private var unneeded: [Lease] = []

    init(ring: ServerRing, connections: [TierConnection], envelope: RecordEnvelope) {
        (self.ring, self.connections, self.envelope) = (ring, connections, envelope)
        for (connection, share) in zip(connections, ring.shares(count: connections.count)) {
            connection.counts.share = share
        }
    }

    /// Whether the address of a server is not known.
    var hasUnknownAddress: Bool { connections.contains { !$0.hasAddress } }

    /// The servers with their figures.
    var figures: [StatsReport.SharedServer] { connections.map(\.figures) }

    /// The names of items. A record and its lease are on the same server, so that one cannot be lost without the other.
    private static func recordName(_ key: String) -> String { "imgbroker1:" + key }
    private static func leaseName(_ key: String) -> String { "imgbroker1-lease:" + key }
    private func connection(of key: String) -> TierConnection { connections[ring.server(of: Self.recordName(key))] }

    // MARK: Lookups

    /// Answers lookups, those of one server with one message. For those that find nothing a lease is claimed, all with one message, and
    /// then leases and records are read: a claim has succeeded if the lease has its token, and another broker may have written the
    /// record meanwhile. So a batch takes two round trips, however many lookups it has.
    func find(_ lookups: [Lookup], answer: (Int, Answer) -> Void) {
        let places = Dictionary(grouping: lookups) { ring.server(of: Self.recordName($0.key)) }
        for (place, lookups) in places.sorted(by: { $0.key < $1.key }) {
            let connection = connections[place]
            let missing = find(lookups, on: connection, answer: answer)
            connection.counts.misses += missing.count
            claim(missing, on: connection, answer: answer)
        }
    }

    private func claim(_ lookups: [Lookup], on connection: TierConnection, answer: (Int, Answer) -> Void) {
        var claims: [Lookup] = []
        for lookup in lookups {
            if let token = lookup.token,
                connection.claim(Self.leaseName(lookup.key), token, seconds: Self.leaseSeconds) == .done
            {
                claims.append(lookup)
            } else {
                answer(lookup.job, .unavailable)
            }
        }
        if claims.isEmpty { return }
        var holders: [String: String] = [:]
        var leased: Set<Int> = []
        let missing = find(claims, on: connection, leases: { holders[$0] = $1 }, answer: answer)
        for lookup in missing {
            let holder = holders[Self.leaseName(lookup.key)]
            if holder == lookup.token { leased.insert(lookup.job) }
            answer(lookup.job, holder == nil ? .unavailable : holder == lookup.token ? .leased : .busy)
        }
        // A record came late, or it is not known whether the lease was taken, because there was no answer.
        for lookup in claims
        where !leased.contains(lookup.job) && holders[Self.leaseName(lookup.key)] ?? lookup.token == lookup.token {
            if let token = lookup.token { release(key: lookup.key, token: token) }
        }
    }

    /// Answers the lookups whose record exists, and returns the others. With `leases` their leases are read with the same message.
    private func find(
        _ lookups: [Lookup], on connection: TierConnection, leases: ((_ name: String, _ token: String) -> Void)? = nil,
        answer: (Int, Answer) -> Void
    ) -> [Lookup] {
        // Two lookups of one key are two requests of the broker that do not share a download.
        var waiting = Dictionary(grouping: lookups) { Self.recordName($0.key) }
        let now = WallClock.milliseconds
        let leaseNames = leases == nil ? [] : Set(lookups.map { Self.leaseName($0.key) })
        let outcome = unsafe connection.get(waiting.keys.sorted() + leaseNames.sorted()) { name, item in
            guard let found = waiting[name], let key = found.first?.key else {
                // A server may send anything.
                guard leaseNames.contains(name), let token = unsafe Self.token(in: item.bytes) else { return }
                leases?(name, token)
                return
            }
            guard let content = unsafe envelope.read(item.bytes, of: key, unixMs: now) else {
                if leases == nil { connection.counts.rejected += 1 }
                return
            }
            waiting[name] = nil
            connection.counts.hits += found.count
            connection.counts.bytesRead += unsafe item.bytes.count
            for lookup in found { answer(lookup.job, unsafe Self.answer(content, in: item.bytes)) }
        }
        let missing = lookups.filter { waiting[Self.recordName($0.key)] != nil }
        guard outcome != .failed else {
            // A lease stays on its server, and is of no use without it.
            for lookup in missing { answer(lookup.job, .unavailable) }
            return []
        }
        return missing
    }

    private static func answer(_ content: RecordEnvelope.Content, in bytes: UnsafeRawBufferPointer) -> Answer {
        let (record, range) = (content.record, content.body)
        if range.isEmpty { return .noted(record) }
        if range.count <= TierReport.mostBytesInFrame { return .found(record, unsafe Array(bytes[range])) }
        let body = unsafe UnsafeRawBufferPointer(rebasing: bytes[range])
        guard let buffer = try? unsafe SealedBuffer(copying: body, name: "imgbroker-shared") else {
            return .unavailable
        }
        return .foundLarge(record, buffer)
    }

    // MARK: Leases

    /// Prolongs a lease if it still has this token.
    func renew(key: String, token: String) { change([Lease(key: key, token: token)], seconds: Self.leaseSeconds) }

    /// Has a lease ended, by `releaseUnneeded`.
    func release(key: String, token: String) { unneeded.append(Lease(key: key, token: token)) }

    /// The number of leases that are to be ended.
    var unneededLeases: Int { unneeded.count }

    /// Ends the leases that are not needed, if they still have their tokens. Without an answer of their server it is tried once more; then
    /// they end by themselves, after 10 s.
    func releaseUnneeded() {
        let leases = unneeded
        unneeded = []
        change(leases, seconds: 0)
    }

    /// Changes the leases that still have their tokens, those of one server with one message.
    private func change(_ leases: [Lease], seconds: Int) {
        for (place, leases) in Dictionary(grouping: leases, by: { ring.server(of: Self.recordName($0.key)) }) {
            let connection = connections[place]
            if change(leases, on: connection, seconds: seconds) == .failed, connection.isUsable {
                _ = change(leases, on: connection, seconds: seconds)
            }
        }
    }

    private func change(_ leases: [Lease], on connection: TierConnection, seconds: Int) -> TierConnection.Outcome {
        // Of two lookups of one key, either may have the lease.
        let tokens = Dictionary(grouping: leases) { Self.leaseName($0.key) }
        var versions: [(name: String, token: String, version: UInt64)] = []
        let outcome = unsafe connection.get(tokens.keys.sorted()) { name, item in
            guard let token = unsafe Self.token(in: item.bytes) else { return }
            let isOurs = tokens[name]?.contains { $0.token == token } == true
            if isOurs { versions.append((name, token, unsafe item.version)) }
        }
        for (name, token, version) in versions {
            if connection.replace(name, token, seconds: seconds, version: version) == .failed { return .failed }
        }
        return outcome
    }

    /// The token that is the value of a lease; nil for a value that is none, because it is too long.
    private static func token(in bytes: UnsafeRawBufferPointer) -> String? {
        bytes.count > longestToken ? nil : unsafe String(decoding: bytes, as: UTF8.self)
    }

    private static let longestToken = 64

    // MARK: Writing

    /// Writes a record. Returns whether it was written.
    func write(_ record: SharedRecord, body: Body) -> Bool {
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

    /// The bytes of a record that is to be written.
    enum Body {
        case bytes([UInt8])
        case file(FileDescriptor)
    }

    private func encoded(_ record: SharedRecord, _ body: Body) -> [UInt8]? {
        switch body {
        case .bytes(let bytes): return unsafe bytes.withUnsafeBytes { unsafe envelope.write(record, body: $0) }
        case .file(let file):
            guard let buffer = try? SealedBuffer(verifying: file, size: record.bytes),
                let mapping = try? Mapping(buffer)
            else { return nil }
            return unsafe mapping.withBytes { unsafe envelope.write(record, body: $0) }
        }
    }

    /// Removes the records with these keys.
    func remove(keys: [String]) {
        for key in keys { _ = connection(of: key).remove(Self.recordName(key)) }
    }
}

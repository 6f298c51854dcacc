internal import CMemcached
import DiskRecords
import IPCProtocol
import LinuxSystem
import SharedCache
import WorkerProtocol

/// Carries out commands on the servers. It decides nothing: the broker says when a lease is taken, prolonged and
/// released.
final class Tier {
    /// An answer to a lookup. Pointers are valid until the closure that gets the answer returns.
    @safe enum Answer {
        /// The text of the record's metadata, of this length, and its bytes, both small enough for a frame.
        case foundSmall(metadata: Int, UnsafeRawBufferPointer)
        indirect case found(SharedRecord, SealedBuffer)
        indirect case noted(SharedRecord)
        case leased, busy, unavailable
    }

    /// A lease as its item is named and valued.
    struct Lease {
        let key, token: String
    }

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
    private var unneeded: [Lease] = []

    init(ring: ServerRing, connections: [TierConnection], envelope: RecordEnvelope) {
        (self.ring, self.connections, self.envelope) = (ring, connections, envelope)
        for (connection, share) in zip(connections, ring.shares(count: connections.count)) {
            connection.counts.share = share
        }
    }

    var hasUnknownAddress: Bool { connections.contains { !$0.hasAddress } }

    var figures: [StatsReport.SharedServer] { connections.map(\.figures) }

    /// The names of items. A record and its lease are on the same server, so that one cannot be lost without the other.
    private static let recordPrefix: StaticString = "imgbroker1:"
    private static let leasePrefix: StaticString = "imgbroker1-lease:"
    private static func recordName(_ key: String) -> String { "\(recordPrefix)\(key)" }
    private static func leaseName(_ key: String) -> String { "\(leasePrefix)\(key)" }
    private func place(of key: String) -> Int { connections.count == 1 ? 0 : ring.server(of: Self.recordName(key)) }
    private func connection(of key: String) -> TierConnection { connections[place(of: key)] }

    // MARK: Lookups

    /// Answers lookups, those of one server with one message. For those that find nothing a lease is claimed, all with
    /// one message, and then leases and records are read: a claim has succeeded if the lease has its token, and another
    /// broker may have written the record meanwhile. So a batch takes two round trips, however many lookups it has.
    func find(_ lookups: [Lookup], answer: (Int, Answer) -> Void) {
        if connections.count == 1 { return find(lookups, on: connections[0], answer: answer) }
        let places = lookups.map { place(of: $0.key) }
        for (place, connection) in connections.enumerated() where places.contains(place) {
            find(lookups.indices.filter { places[$0] == place }.map { lookups[$0] }, on: connection, answer: answer)
        }
    }

    private func find(_ lookups: [Lookup], on connection: TierConnection, answer: (Int, Answer) -> Void) {
        let missing = read(lookups, on: connection, answer: answer).missing.map { lookups[$0] }
        connection.counts.misses += missing.count
        if !missing.isEmpty { claim(missing, on: connection, answer: answer) }
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
        let found = read(claims, on: connection, readingLeases: true, answer: answer)
        var isLeased = [Bool](repeating: false, count: claims.count)
        for place in found.missing {
            let (job, token, holder) = (claims[place].job, claims[place].token, found.holders[place])
            isLeased[place] = holder == token
            answer(job, holder == nil ? .unavailable : holder == token ? .leased : .busy)
        }
        // A record came late, or it is not known whether the lease was taken, because there was no answer.
        for (place, claim) in claims.enumerated() where !isLeased[place] {
            if let token = claim.token, found.holders[place] ?? token == token { release(key: claim.key, token: token) }
        }
    }

    /// Answers the lookups whose record exists. Returns the places of the others, and with `readingLeases` the holders
    /// of all leases, which are read with the same message. After a failure the others are answered, too.
    private func read(
        _ lookups: [Lookup], on connection: TierConnection, readingLeases: Bool = false, answer: (Int, Answer) -> Void
    ) -> (missing: [Int], holders: [String?]) {
        let count = lookups.count
        var names = ItemNames(expecting: readingLeases ? 2 * count : count, length: Self.longestName)
        for lookup in lookups { names.append(Self.recordPrefix, lookup.key) }
        if readingLeases { for lookup in lookups { names.append(Self.leasePrefix, lookup.key) } }
        var isMissing = [Bool](repeating: true, count: count)
        var holders = [String?](repeating: nil, count: names.count - count)
        let outcome = unsafe connection.get(names) { place, item in
            guard place < count else {
                holders[place - count] = unsafe Self.token(in: item.bytes)
                return
            }
            if !isMissing[place] { return }
            guard let found = unsafe self.answer(of: item.bytes, as: lookups[place].key) else {
                if !readingLeases { connection.counts.rejected += 1 }
                return
            }
            isMissing[place] = false
            connection.counts.hits += 1
            connection.counts.bytesRead += unsafe item.bytes.count
            answer(lookups[place].job, found)
        }
        let missing = lookups.indices.filter { isMissing[$0] }
        guard outcome == .failed else { return (missing, holders) }
        // A lease stays on its server, and is of no use without it.
        for place in missing { answer(lookups[place].job, .unavailable) }
        return ([], holders)
    }

    /// The longest name of an item: of a lease, whose key has 64 digits.
    private static let longestName = leasePrefix.utf8CodeUnitCount + 64

    /// The answer that a record is; nil for one that is rejected.
    private func answer(of bytes: UnsafeRawBufferPointer, as key: String) -> Answer? {
        guard let parts = unsafe envelope.parts(of: bytes) else { return nil }
        let size = unsafe parts.body.count
        if (1...SmallContents.mostBytes).contains(size) {
            return unsafe .foundSmall(metadata: parts.text.count, parts.both)
        }
        guard let record = unsafe envelope.metadata(of: parts, as: key, unixMs: WallClock.milliseconds) else {
            return nil
        }
        if size == 0 { return .noted(record) }
        guard let buffer = try? unsafe SealedBuffer(copying: parts.body, name: "imgbroker-shared") else {
            return .unavailable
        }
        return .found(record, buffer)
    }

    // MARK: Leases

    /// Prolongs a lease if it still has this token.
    func renew(key: String, token: String) { change([Lease(key: key, token: token)], seconds: Self.leaseSeconds) }

    /// Has a lease ended, by `releaseUnneeded`.
    func release(key: String, token: String) { unneeded.append(Lease(key: key, token: token)) }

    var unneededLeases: Int { unneeded.count }

    /// Ends the leases that are not needed, if they still have their tokens. Without an answer of their server it is
    /// tried once more; then they end by themselves, after 10 s.
    func releaseUnneeded() {
        let leases = unneeded
        unneeded = []
        change(leases, seconds: 0)
    }

    /// Changes the leases that still have their tokens, those of one server with one message.
    private func change(_ leases: [Lease], seconds: Int) {
        for (place, leases) in Dictionary(grouping: leases, by: { place(of: $0.key) }) {
            let connection = connections[place]
            if change(leases, on: connection, seconds: seconds) == .failed, connection.isUsable {
                _ = change(leases, on: connection, seconds: seconds)
            }
        }
    }

    private func change(_ leases: [Lease], on connection: TierConnection, seconds: Int) -> TierConnection.Outcome {
        // Of two lookups of one key, either may have the lease.
        let tokens = Dictionary(grouping: leases, by: \.key)
        var versions: [(key: String, token: String, version: UInt64)] = []
        let keys = tokens.keys.sorted()
        var names = ItemNames(expecting: keys.count, length: Self.longestName)
        for key in keys { names.append(Self.leasePrefix, key) }
        let outcome = unsafe connection.get(names) { place, item in
            guard let token = unsafe Self.token(in: item.bytes) else { return }
            let isOurs = tokens[keys[place]]?.contains { $0.token == token } == true
            if isOurs { versions.append((keys[place], token, unsafe item.version)) }
        }
        for (key, token, version) in versions {
            let name = Self.leaseName(key)
            if connection.replace(name, token, seconds: seconds, version: version) == .failed { return .failed }
        }
        return outcome
    }

    /// The token that is the value of a lease; nil for a value that is too long for one.
    private static func token(in bytes: UnsafeRawBufferPointer) -> String? {
        bytes.count > longestToken ? nil : unsafe String(decoding: bytes, as: UTF8.self)
    }

    private static let longestToken = 64

    // MARK: Writing

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

    /// Removes a record whose bytes are not those that it states.
    func reject(key: String) {
        connection(of: key).counts.rejected += 1
        remove(keys: [key])
    }

    func remove(keys: [String]) {
        for key in keys { _ = connection(of: key).remove(Self.recordName(key)) }
    }
}

/// The ring that determines the server of each key (ketama). It has the servers' names, so that all brokers with the
/// same list find the same places, also where the names have other addresses.
@safe final class ServerRing {
    /// It never connects.
    private let raw: UnsafeMutablePointer<memcached_st>

    /// The ring of these servers; nil when memory is short.
    init?(_ servers: [ServerName]) {
        guard let ring = unsafe memcached_create(nil) else { return nil }
        unsafe raw = ring
        guard unsafe memcached_behavior_set(ring, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1) == MEMCACHED_SUCCESS,
            servers.allSatisfy({ unsafe memcached_server_add(ring, $0.host, $0.port) == MEMCACHED_SUCCESS })
        else { return nil }
    }

    deinit { unsafe memcached_free(raw) }

    func server(of key: String) -> Int { unsafe Int(memcached_generate_hash(raw, key, key.utf8.count)) }

    /// The parts of all keys that the servers have, in thousandths, as found with sample keys.
    func shares(count: Int) -> [Int] {
        var counts = [Int](repeating: 0, count: count)
        let samples = 10_000
        for sample in 0..<samples { counts[server(of: "sample \(sample)")] += 1 }
        return counts.map { $0 * 1000 / samples }
    }
}

import Digests
import DiskRecords
import IPCProtocol

/// Pictures on which decoders have died: they are refused for a while, so that nobody can bring the pool down with one
/// picture asked for again and again. By content, not by URL: what is served there may be mended. And by the decoders'
/// build: another one may have mended them. Times are of the day, as the list outlives the process.
struct Quarantine {
    private struct Entry {
        var record: QuarantineRecord
        /// Larger for what was added or asked for later.
        var use: Int
    }

    static let firstMilliseconds = 10 * 60 * 1000
    static let longestMilliseconds = 24 * 3600 * 1000
    static let maximumEntries = 1024

    private var entries: [ContentDigest: Entry] = [:]
    private var uses = 0

    var count: Int { entries.count }

    /// Refuses the picture for ten minutes, and four times as long each further time, up to a day.
    mutating func add(_ digest: ContentDigest, build: String, unixMs: Int) {
        let last = entries[digest].flatMap { $0.record.build == build ? $0.record.milliseconds : nil }
        let milliseconds = last.map { min($0 * 4, Self.longestMilliseconds) } ?? Self.firstMilliseconds
        insert(
            QuarantineRecord(
                digest: digest.hexadecimal, build: build, until: unixMs + milliseconds, milliseconds: milliseconds),
            digest)
    }

    /// Whether the picture is refused now by decoders of this build.
    func refuses(_ digest: ContentDigest, build: String, unixMs: Int) -> Bool {
        guard let record = entries[digest]?.record, record.build == build else { return false }
        // Further ahead than any was ever put: the clock was set back.
        return record.until > unixMs && record.until <= unixMs + Self.longestMilliseconds
    }

    /// Notes that a picture was refused: what is asked for is forgotten last.
    mutating func noteUse(of digest: ContentDigest) {
        uses += 1
        entries[digest]?.use = uses
    }

    // MARK: Outliving the process

    /// What is worth remembering, the least used first. What has expired is for as long as a day: a picture that was
    /// dangerous before is refused for longer the next time.
    func records(unixMs: Int) -> [QuarantineRecord] {
        entries.values.filter { $0.record.until + Self.longestMilliseconds > unixMs }.sorted { $0.use < $1.use }
            .map(\.record)
    }

    /// Takes what was remembered. What is known already is newer.
    mutating func restore(_ records: [QuarantineRecord], unixMs: Int) {
        for record in records {
            guard let digest = ContentDigest(hexadecimal: record.digest), entries[digest] == nil,
                record.until + Self.longestMilliseconds > unixMs, record.milliseconds <= Self.longestMilliseconds
            else { continue }
            insert(record, digest)
        }
    }

    private mutating func insert(_ record: QuarantineRecord, _ digest: ContentDigest) {
        uses += 1
        entries[digest] = Entry(record: record, use: uses)
        if entries.count > Self.maximumEntries, let oldest = entries.min(by: { $0.value.use < $1.value.use }) {
            entries[oldest.key] = nil
        }
    }
}

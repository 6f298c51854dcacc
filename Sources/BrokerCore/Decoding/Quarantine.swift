import Digests
import DiskRecords
import WorkerProtocol

/// The images that decoders have died on. They are refused for a while, so that one image requested repeatedly cannot
/// take down the pool. They are known by content, because a URL may serve a repaired image, and by the decoders' build,
/// because another build may decode them. Times are those of the day, because the list outlives the process.
/// `Decoding.workerExited` adds an image after its second death, and `DecodeRefusals` asks for it.
struct Quarantine {
    static let firstMilliseconds = 10 * 60 * 1000
    static let longestMilliseconds = 24 * 3600 * 1000
    static let maximumEntries = 1024
    /// The most digests that an order states.
    static let mostStated = 16

    /// `use` is larger for entries that were added or requested later.
    private var entries: [ContentDigest: (record: QuarantineRecord, use: Int)] = [:]
    private var uses = 0
    /// What decoders of a build refuse, from a time on until another one; nil after a change of the entries.
    private var answer: (build: String, from: Int, until: Int, refused: [String]?)?

    var count: Int { entries.count }

    /// Refuses an image for ten minutes, and four times as long each further time, up to a day.
    mutating func add(_ digest: ContentDigest, build: String, unixMs: Int) {
        let last = entries[digest].flatMap { $0.record.build == build ? $0.record.milliseconds : nil }
        let milliseconds = last.map { min($0 * 4, Self.longestMilliseconds) } ?? Self.firstMilliseconds
        insert(
            QuarantineRecord(
                digest: digest.hexadecimal, build: build, until: unixMs + milliseconds, milliseconds: milliseconds),
            digest)
    }

    func refuses(_ digest: ContentDigest, build: String, unixMs: Int) -> Bool {
        guard let record = entries[digest]?.record, record.build == build else { return false }
        // A time further ahead means that the clock was set back.
        return record.until > unixMs && record.until <= unixMs + Self.longestMilliseconds
    }

    /// The beginnings of the refused digests; nil when they are too many. Every small image asks.
    mutating func refusedDigests(build: String, unixMs: Int) -> [String]? {
        if let answer, answer.build == build, (answer.from..<answer.until).contains(unixMs) { return answer.refused }
        let records = entries.filter { refuses($0.key, build: build, unixMs: unixMs) }
        let refused = records.keys.map { String($0.hexadecimal.prefix(EarlyDecode.prefixLength)) }.sorted()
        let until = records.values.map(\.record.until).min() ?? .max
        let stated = refused.count > Self.mostStated ? nil : refused
        answer = (build, unixMs, until, stated)
        return stated
    }

    mutating func noteUse(of digest: ContentDigest) {
        uses += 1
        entries.change(digest) { $0.use = uses }
    }

    /// The entries to save, the least used first; expired ones for another day, as they lengthen the next time.
    func records(unixMs: Int) -> [QuarantineRecord] {
        entries.values.filter { $0.record.until + Self.longestMilliseconds > unixMs }.sorted { $0.use < $1.use }
            .map(\.record)
    }

    /// Takes saved entries. Entries that exist already are newer.
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
        answer = nil
        entries[digest] = (record, uses)
        if entries.count > Self.maximumEntries, let oldest = entries.min(by: { $0.value.use < $1.value.use }) {
            entries[oldest.key] = nil
        }
    }
}

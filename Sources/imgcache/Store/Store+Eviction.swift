import LinuxSystem
import SystemValues
import WorkerProtocol

// The least recently used entries are evicted while a kind is over its limit, and those that are over the maximum age.
// Each call does a little, so that messages are answered in between.
extension Store {
    /// The size to which a kind is evicted once it is over its limit. The distance to the limit keeps each new entry
    /// from evicting one.
    func target(_ kind: EntryKind) -> Int { options.limit(kind) / 20 * 19 }

    /// Starts eviction of a kind if it is over its limit.
    func noteSize(of kind: EntryKind) {
        if total(kind).bytes > options.limit(kind) { shrinking.insert(kind) }
    }

    /// The time of the next eviction or age check; nil when none is due before something changes.
    var nextEviction: Instant? {
        guard index != nil, obstacle?.state != .readOnly else { return nil }
        if !shrinking.isEmpty || mayOverrun || needsVacuum { return .now }
        return options.maxAge == nil ? nil : nextAgeCheck
    }

    /// Whether there is work that no message asks for.
    var hasWork: Bool { reconciliation != nil || needsEviction || needsClearing }

    private var needsEviction: Bool { nextEviction.map { $0 <= .now } ?? false }

    func evict(until deadline: Instant) {
        while needsEviction, Instant.now < deadline {
            if let kind = shrinking.first {
                shrink(kind, until: deadline)
            } else if mayOverrun {
                endOverrun(until: deadline)
            } else if needsVacuum {
                vacuum()
            } else {
                evictOld(until: deadline)
            }
        }
    }

    private func shrink(_ kind: EntryKind, until deadline: Instant) {
        while total(kind).bytes > target(kind) {
            guard let oldest = oldest(kind), discard(oldest.name) != .failed else { break }
            if Instant.now >= deadline { return }
        }
        shrinking.remove(kind)
    }

    // MARK: The size on disk

    /// What may be on disk beyond the limits, apart from the logs of the databases: empty databases, directories, and
    /// files of a fixed size.
    private static let allowance = 2 << 20
    /// The bytes of free pages that stay in the database of small entries, to be used again: a fixed part, and a share.
    private static let sparePages = 1 << 20
    private static let spareShare = 16
    /// The bytes of free pages that are returned at once.
    private static let vacuumBytes = 1 << 18

    /// The bytes on disk: files in blocks, a directory for each of the first files, and the databases without free
    /// pages.
    private func bytesOnDisk() -> (used: Int, free: Int) {
        let files = (index?.totals ?? [:]).values
        let rows = withIndex { try $0.databaseBytes() } ?? (used: 0, free: 0)
        let contents = withSmall { try $0.databaseBytes() } ?? (used: 0, free: 0)
        let directories = min(files.reduce(0) { $0 + $1.entries }, 512) * CacheIndex.block
        return (files.reduce(0) { $0 + $1.bytes } + directories + rows.used + contents.used, contents.free)
    }

    /// Evicts the least recently used entries while all files and databases together are over the limits: the size of
    /// an entry leaves out its row, and its directory.
    private func endOverrun(until deadline: Instant) {
        let (limit, overflow) = options.totalLimit.addingReportingOverflow(Self.allowance)
        let hasLimit = !overflow
        var isOver = false
        while true {
            let (used, free) = bytesOnDisk()
            freeBytes = free
            guard hasLimit, used > (isOver ? limit - options.totalLimit / 20 : limit) else { break }
            isOver = true
            let candidates = EntryKind.allCases.compactMap { self.oldest($0) }
            guard let oldest = candidates.min(by: { $0.used < $1.used }), discard(oldest.name) != .failed else { break }
            if Instant.now >= deadline { return }
        }
        mayOverrun = false
    }

    private var needsVacuum: Bool {
        guard obstacle == nil, small != nil else { return false }
        return freeBytes > Self.sparePages + EntryKind.allCases.reduce(0) { $0 + total($1).bytes } / Self.spareShare
    }

    private func vacuum() {
        let bytes = min(freeBytes, Self.vacuumBytes)
        freeBytes -= bytes
        withSmall { try $0.vacuum(bytes: bytes) }
    }

    private func evictOld(until deadline: Instant) {
        guard let maxAge = options.maxAge else { return }
        followClock()
        guard hasPlausibleClock else {
            nextAgeCheck = Instant.now.adding(milliseconds: 1000)
            return
        }
        let expired = now - maxAge
        for kind in EntryKind.allCases {
            while let oldest = oldest(kind), oldest.used <= expired {
                guard discard(oldest.name) != .failed else { return }
                if Instant.now >= deadline { return }
            }
        }
        nextAgeCheck = Instant.now.adding(milliseconds: min(max(maxAge / 10, 100), 60_000))
    }
}

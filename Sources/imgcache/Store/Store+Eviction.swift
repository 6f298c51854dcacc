import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

// The least recently used entries are evicted while a kind is over its limit, and those that are over the maximum age.
// Each call does a little, so that messages are answered in between.
extension Store {
    /// The size to which a kind is evicted once it is over its limit. The distance to the limit keeps each new entry
    /// from evicting one.
    func target(_ kind: EntryKind) -> Int {
        options.limit(kind) / 20 * 19
    }

    /// Starts eviction of a kind if it is over its limit.
    func noteSize(of kind: EntryKind) {
        if let total = index?.totals[kind], total.bytes > options.limit(kind) { shrinking.insert(kind) }
    }

    /// The time of the next eviction or age check; nil when none is due before something changes.
    var nextEviction: Instant? {
        guard index != nil, obstacle?.state != .readOnly else { return nil }
        if !shrinking.isEmpty { return .now }
        return options.maxAge == nil ? nil : nextAgeCheck
    }

    /// Whether there is work that no message asks for.
    var hasWork: Bool { reconciliation != nil || needsEviction || needsClearing }

    private var needsEviction: Bool { nextEviction.map { $0 <= .now } ?? false }

    /// Evicts until no entry is due, or `deadline` is past.
    func evict(until deadline: Instant) {
        while needsEviction, Instant.now < deadline {
            if let kind = shrinking.first { shrink(kind, until: deadline) } else { evictOld(until: deadline) }
        }
    }

    private func shrink(_ kind: EntryKind, until deadline: Instant) {
        while let total = index?.totals[kind], total.bytes > target(kind) {
            guard let oldest = oldest(kind), discard(oldest.name) != .failed else { break }
            if Instant.now >= deadline { return }
        }
        shrinking.remove(kind)
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

    /// The least recently used entry of a kind.
    func oldest(_ kind: EntryKind) -> (name: EntryName, used: Int)? {
        withIndex { (index) throws(SQLiteError) in try index.oldest(kind) } ?? nil
    }
}

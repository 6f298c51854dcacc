import LinuxSystem
import SystemValues
import WorkerProtocol

// Cleared entries count as removed at once. Their files are removed a few at a time, so that messages are answered in
// between.
extension Store {
    /// Takes the order to clear entries that were not used for `seconds`; nil clears everything. Without a job, it has
    /// no answer.
    func clear(job: Int?, olderThanSeconds seconds: Int?) {
        if obstacle?.isOutOfReach == true { return clears.answer(job: job) }
        if let seconds, seconds > 0 {
            let (age, isTooLong) = seconds.multipliedReportingOverflow(by: 1000)
            clears.insert(job: job, usedUntil: isTooLong ? 0 : max(0, now - age))
        } else {
            // Entries may have times in the future if the clock was wrong; they are covered too.
            clears.insertAll(job: job, until: max(now, latestUse))
        }
        // No waiter waits while nothing can be removed.
        if !canClear || clears.isStalled { clears.stall() }
    }

    private var canClear: Bool { index != nil && (obstacle == nil || obstacle?.state == .full) }

    var needsClearing: Bool { !clears.isEmpty && !clears.isStalled }

    /// Carries out orders until all are complete or `deadline` is past.
    func clear(until deadline: Instant) {
        if needsClearing, canClear, let cutoff = clears.next { clearSmall(usedUntil: cutoff) }
        while needsClearing, let cutoff = clears.next, Instant.now < deadline {
            let errors = databaseErrors
            if !canClear {
                clears.stall()
            } else if let (name, size) = firstUsed(until: cutoff) {
                clear(name, size: size, forOrder: 0)
            } else if reconciliation != nil {
                // There may be more among the files that the index does not know yet.
                reconcile(until: deadline)
            } else if !usesIndexOfAll {
                // Small entries that can only be read would be found again.
                clears.stall()
            } else if databaseErrors == errors {
                // A database that was replaced after damage is no obstacle.
                if commitSmall() { clears.finishFirst() } else if obstacle != nil { clears.stall() }
            }
        }
    }

    /// Replaces the database of small entries by an empty one if the order covers all of them. On a full disk no row
    /// could be removed, because that needs room in the log.
    private func clearSmall(usedUntil cutoff: Int) {
        guard let totals = small?.totals, totals.values.contains(where: { $0.entries > 0 }),
            let latest = withSmall({ try $0.latestUse() }), latest <= cutoff
        else { return }
        let sums = EntryKind.allCases.map { kind in
            (kind, withSmall { try $0.sumOfSizes(kind) } ?? 0)
        }
        guard replaceSmall() else { return }
        for (kind, bytes) in sums {
            clears.count(kind, entries: totals[kind]?.entries ?? 0, bytes: bytes, forOrder: 0)
        }
    }

    private func firstUsed(until cutoff: Int) -> (EntryName, size: Int)? {
        for kind in EntryKind.allCases.reversed() {
            guard let oldest = oldest(kind), oldest.used <= cutoff else { continue }
            return (oldest.name, size(of: oldest.name) ?? 0)
        }
        return nil
    }

    func clear(_ name: EntryName, size: Int, forOrder order: Int) {
        switch discard(name) {
        case .removed: clears.count(name.kind, bytes: size, forOrder: order)
        case .absent: break
        case .failed: if obstacle != nil { clears.stall() }
        }
    }

    /// The index of the order that covers an entry; nil for none. A covered entry counts as removed.
    func orderToClear(_ entry: EntryFile, _ name: EntryName) -> Int? {
        guard !clears.isEmpty else { return nil }
        return clears.orderCovering(created: entry.trailer.created, used: lastUse(of: name), modified: entry.modified)
    }
}

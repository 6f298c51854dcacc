import IPCProtocol
import LinuxSystem

// What is cleared counts as gone at once. Its files are removed a few at a time, so that messages are answered in
// between.
extension Store {
    /// Takes the order to clear what was not used for so many seconds; nil: everything.
    func clear(job: Int, olderThanSeconds seconds: Int?) {
        switch obstacle?.state {
        // Nothing that is there is this process's.
        case .locked, .off: return clears.answer(job: job)
        case .readOnly, .full, .on, nil: break
        }
        if let seconds, seconds > 0 {
            let (age, isTooLong) = seconds.multipliedReportingOverflow(by: 1000)
            clears.insert(job: job, usedUntil: isTooLong ? 0 : max(0, now - age))
        } else {
            // Whatever the clock said when they came, those that are there are meant.
            let used = withIndex { (index) throws(SQLiteError) in try index.latestUse() }
            clears.insertAll(job: job, until: max(now, used ?? 0))
        }
        // While nothing can be removed nobody waits for it.
        if !canClear || clears.isStalled { clears.stall() }
    }

    private var canClear: Bool {
        index != nil && (obstacle == nil || obstacle?.state == .full)
    }

    /// Whether something is left to clear that can be.
    var needsClearing: Bool { !clears.isEmpty && !clears.isStalled }

    /// Carries out orders to clear, until all are or `deadline` is past.
    func clear(until deadline: Instant) {
        while needsClearing, let cutoff = clears.next, Instant.now < deadline {
            if !canClear {
                clears.stall()
            } else if let (name, size) = firstUsed(until: cutoff) {
                clear(name, size: size, forOrder: 0)
            } else if reconciliation != nil {
                // Among the files that the index does not know yet there may be more.
                reconcile(until: deadline)
            } else {
                clears.finishFirst()
            }
        }
    }

    private func firstUsed(until cutoff: Int) -> (EntryName, size: Int)? {
        for kind in EntryKind.allCases.reversed() {
            guard let oldest = oldest(kind), oldest.used <= cutoff else { continue }
            let size = withIndex { (index) throws(SQLiteError) in try index.size(of: oldest.name) } ?? nil
            return (oldest.name, size ?? 0)
        }
        return nil
    }

    /// Removes an entry that an order means.
    func clear(_ name: EntryName, size: Int, forOrder order: Int) {
        switch discard(name) {
        case .removed: clears.count(name.kind, bytes: size, forOrder: order)
        case .absent: break
        case .failed: clears.stall()
        }
    }

    /// The order for which an entry is to be removed, and counts as gone already; nil when there is none.
    func orderToClear(_ entry: EntryFile, _ name: EntryName) -> Int? {
        guard !clears.isEmpty else { return nil }
        let used = withIndex { (index) throws(SQLiteError) in try index.lastUse(of: name) } ?? nil
        return clears.orderMeaning(created: entry.trailer.created, used: used, modified: entry.status.modified)
    }
}

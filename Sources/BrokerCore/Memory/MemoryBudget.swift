/// The bytes that images may take in memory: the limit of the settings, and fewer for a while after memory was short.
///
/// A shortage shrinks the budget below the bytes in use, so that images are evicted at once. Without a further one it
/// grows back by a sixteenth of the limit every 10 s.
struct MemoryBudget {
    /// The signs that memory is short.
    enum Shortage {
        /// The kernel killed a worker for want of memory: a quarter of the bytes in use is given up.
        case kill
        /// Processes wait for memory (PSI): an eighth is given up, down to a quarter of the limit.
        case pressure
    }

    static let growthMilliseconds = 10_000

    private(set) var limit: Int
    private(set) var bytes: Int

    init(limit: Int) {
        self.limit = limit
        bytes = limit
    }

    var isShrunk: Bool { bytes < limit }

    /// Shrinks the budget below `inUse`, down to a part of the limit. Returns whether that evicts anything.
    mutating func shrink(by shortage: Shortage, inUse: Int) -> Bool {
        let used = min(bytes, inUse)
        let (target, least) =
            switch shortage {
            case .kill: (used - used / 4, limit / 16)
            case .pressure: (used - used / 8, limit / 4)
            }
        let shrunk = max(target, least)
        guard shrunk < used else { return false }
        bytes = shrunk
        return true
    }

    /// Replaces the limit. A budget that is shrunk stays so, and at most as large as the new limit.
    mutating func replaceLimit(by newLimit: Int) {
        bytes = isShrunk ? min(bytes, newLimit) : newLimit
        limit = newLimit
    }

    mutating func grow() { bytes = min(limit, bytes + max(limit / 16, 1)) }
}

import DiskRecords

/// Removed URLs with entries that may still be on the disk.
struct ForgottenURLs {
    private struct Order {
        /// nil for all users.
        let owner: UInt32?
        let time: Int
        let hasFailed: Bool
    }

    private var orders: [String: [Order]] = [:]
    private var latest = 0

    /// A creation time for new entries, at least `now`, that no order covers.
    func timeAfter(_ now: Int) -> Int { max(now, latest + 1) }

    /// Marks entries of a URL as removed: those that are public or belong to `owner` (without an owner: all of them)
    /// and were written until `time`. `hasFailed` marks an order whose files could not be removed.
    mutating func insert(url: String, owner: UInt32?, at time: Int, hasFailed: Bool) {
        latest = max(latest, time)
        let failed = hasFailed || (orders[url] ?? []).contains { $0.owner == owner && $0.hasFailed }
        orders[url, default: []].removeAll { $0.owner == owner }
        orders[url, default: []].append(Order(owner: owner, time: time, hasFailed: failed))
    }

    func contains(_ trailer: EntryTrailer) -> Bool {
        guard !orders.isEmpty, case .original(let record) = trailer.content else { return false }
        return (orders[record.url] ?? []).contains {
            trailer.created <= $0.time && ($0.owner == nil || record.owner == nil || record.owner == $0.owner)
        }
    }

    mutating func takeFailed() -> [(url: String, owner: UInt32?)] {
        let failed = orders.flatMap { url, orders in orders.filter(\.hasFailed).map { (url, $0.owner) } }
        orders = orders.mapValues { $0.filter { !$0.hasFailed } }
        return failed
    }

    /// Removes the other orders. Called when the reconciliation has seen all files.
    mutating func removeCompleted() {
        orders = orders.mapValues { $0.filter(\.hasFailed) }.filter { !$0.value.isEmpty }
    }
}

import IPCProtocol

/// Removed URLs with entries that may still be on the disk.
struct ForgottenURLs {
    private struct Order {
        /// nil for all users.
        let owner: UInt32?
        let time: Int
        let isLasting: Bool
    }

    private var orders: [String: [Order]] = [:]
    private var latest = 0

    /// A creation time for new entries, at least `now`, that no order covers.
    func timeAfter(_ now: Int) -> Int {
        max(now, latest + 1)
    }

    /// Marks entries of a URL as removed: those that are public or belong to `owner` (without an owner: all of them) and
    /// were written until `time`. `isLasting` marks an order whose files could not be removed.
    mutating func insert(url: String, owner: UInt32?, at time: Int, isLasting: Bool) {
        latest = max(latest, time)
        let lasting = isLasting || (orders[url] ?? []).contains { $0.owner == owner && $0.isLasting }
        orders[url, default: []].removeAll { $0.owner == owner }
        orders[url, default: []].append(Order(owner: owner, time: time, isLasting: lasting))
    }

    /// Whether an order covers an entry.
    func contains(_ trailer: EntryTrailer) -> Bool {
        guard !orders.isEmpty, case .original(let record) = trailer.content else { return false }
        return (orders[record.url] ?? []).contains {
            trailer.created <= $0.time && ($0.owner == nil || record.owner == nil || record.owner == $0.owner)
        }
    }

    /// Takes the orders whose files could not be removed.
    mutating func takeLasting() -> [(url: String, owner: UInt32?)] {
        let lasting = orders.flatMap { url, orders in orders.filter(\.isLasting).map { (url, $0.owner) } }
        orders = orders.mapValues { $0.filter { !$0.isLasting } }
        return lasting
    }

    /// Removes the other orders. Called when the reconciliation has seen all files.
    mutating func removeCarriedOut() {
        orders = orders.mapValues { $0.filter(\.isLasting) }.filter { !$0.value.isEmpty }
    }
}

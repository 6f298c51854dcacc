import IPCProtocol

/// URLs of which entries may still lie on disk although they were to be forgotten.
struct ForgottenURLs {
    private struct Order {
        /// nil: all.
        let owner: UInt32?
        let time: Int
        let isLasting: Bool
    }

    private var orders: [String: [Order]] = [:]
    private var latest = 0

    /// A time of writing by which an entry of `now` is not taken for one that was to be forgotten.
    func timeAfter(_ now: Int) -> Int {
        max(now, latest + 1)
    }

    /// Notes that the entries of a URL that belong to `owner` or to all (without an owner: all of them) and were written
    /// until `time` are not to be found. Lasting are orders that cannot be carried out.
    mutating func insert(url: String, owner: UInt32?, at time: Int, isLasting: Bool) {
        latest = max(latest, time)
        let lasting = isLasting || (orders[url] ?? []).contains { $0.owner == owner && $0.isLasting }
        orders[url, default: []].removeAll { $0.owner == owner }
        orders[url, default: []].append(Order(owner: owner, time: time, isLasting: lasting))
    }

    /// Whether an entry was to be forgotten.
    func contains(_ trailer: EntryTrailer) -> Bool {
        guard !orders.isEmpty, case .original(let record) = trailer.content else { return false }
        return (orders[record.url] ?? []).contains {
            trailer.created <= $0.time && ($0.owner == nil || record.owner == nil || record.owner == $0.owner)
        }
    }

    /// Takes out the orders that could not be carried out.
    mutating func takeLasting() -> [(url: String, owner: UInt32?)] {
        let lasting = orders.flatMap { url, orders in orders.filter(\.isLasting).map { (url, $0.owner) } }
        orders = orders.mapValues { $0.filter { !$0.isLasting } }
        return lasting
    }

    /// All files have been seen: orders that could be carried out have been.
    mutating func removeCarriedOut() {
        orders = orders.mapValues { $0.filter(\.isLasting) }.filter { !$0.value.isEmpty }
    }
}

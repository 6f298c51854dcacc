import IPCProtocol

/// The origins whose transfers take most time together, in bounded memory.
///
/// The space-saving algorithm: when the table is full, a new origin takes the place of the one with the least time, and inherits
/// that time for the order only. So an origin that takes more than a 64th of all time is always in the table.
struct BusiestOrigins {
    static let capacity = 64
    /// The longest name that is kept, in bytes; a host's name has at most 253.
    private static let longestName = 300
    /// The order is decided by `weight`: the time of a row's origin, and that of the origins whose place it took.
    private var rows: [(host: StatsReport.Host, weight: Int)] = []

    mutating func count(_ origin: String, microseconds: Int, bytes: Int, hasFailed: Bool) {
        guard origin.utf8.count <= Self.longestName else { return }
        let milliseconds = max(microseconds, 0) / 1000
        let index = index(of: origin)
        rows[index].weight = StatsReport.saturating(rows[index].weight, milliseconds)
        rows[index].host.transfers += 1
        if hasFailed { rows[index].host.failed += 1 }
        rows[index].host.bytes = StatsReport.saturating(rows[index].host.bytes, bytes)
        rows[index].host.milliseconds = StatsReport.saturating(rows[index].host.milliseconds, milliseconds)
        rows[index].host.maxMilliseconds = max(rows[index].host.maxMilliseconds, milliseconds)
    }

    /// The origins with most time, the first one most, at most `count`.
    func first(_ count: Int) -> [StatsReport.Host] {
        let sorted = rows.map(\.host).sorted { ($1.milliseconds, $0.origin) < ($0.milliseconds, $1.origin) }
        return Array(sorted.prefix(count))
    }

    private mutating func index(of origin: String) -> Int {
        if let known = rows.firstIndex(where: { $0.host.origin == origin }) { return known }
        var host = StatsReport.Host()
        host.origin = origin
        if rows.count < Self.capacity {
            rows.append((host, 0))
            return rows.count - 1
        }
        let least = rows.indices.min { rows[$0].weight < rows[$1].weight } ?? 0
        rows[least].host = host
        return least
    }
}

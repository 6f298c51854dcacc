import IPCProtocol
import WorkerProtocol

/// The counters of the broker's life.
struct Counters {
    /// Of all clients.
    private(set) var requests = RequestCounters()
    /// Of the clients of each user: what one user may see.
    private var users: [UInt32: RequestCounters] = [:]
    /// The requests of the programs that are counted by themselves. A request of any other client costs a comparison
    /// with nil.
    private var programs: [StatsReport.Program: (row: StatsReport.ProgramRequests, durations: LatencyHistogram)] = [:]
    /// Exited workers of all kinds, retired ones aside.
    var workerDeaths: [DeathCause: Int] = [:]
    /// Downloads, decodings, and what they have brought.
    private(set) var figures: [StatsReport.Figure: Int] = [:]
    /// Responses of origins by status, of which there are fewer than a thousand.
    var originResponses: [Int: Int] = [:]
    /// Loads, and the parts of them that were measured.
    private var spans: [StatsReport.Distribution: LatencyHistogram] = [:]

    /// The most users that are counted for themselves. Beyond, another one's counters begin at zero again.
    private static let maximumUsers = 1024

    /// Changes the counters of all clients and those of a user; nil for a client that is gone or was not let in.
    mutating func add(for user: UInt32?, _ change: (inout RequestCounters) -> Void) {
        change(&requests)
        guard let user else { return }
        change(&users[user, default: RequestCounters()])
        if users.count > Self.maximumUsers, let other = users.keys.first(where: { $0 != user }) { users[other] = nil }
    }

    mutating func count(_ figure: StatsReport.Figure, _ amount: Int = 1) { figures[figure, default: 0] += amount }

    /// Counts how a program's `get` ended, and the time until its answer. A cancelled one has no such time.
    mutating func count(_ outcome: StatsReport.Figure, microseconds: Int, of program: StatsReport.Program) {
        programs.change(program, default: (StatsReport.ProgramRequests(), LatencyHistogram())) {
            $0.row[outcome] += 1
            if outcome != .cancelled { $0.durations.record(microseconds: microseconds) }
        }
    }

    mutating func record(_ span: StatsReport.Distribution, microseconds: Int) {
        spans[span, default: LatencyHistogram()].record(microseconds: microseconds)
    }

    func requests(of user: UInt32) -> RequestCounters { users[user] ?? RequestCounters() }

    /// The users whose jobs have taken most time, the first one most, at most `count`.
    func busiestUsers(_ count: Int) -> [(uid: UInt32, counters: RequestCounters)] {
        let sorted = users.map { (uid: $0.key, counters: $0.value) }
            .sorted { ($1.counters.workMicroseconds, $0.uid) < ($0.counters.workMicroseconds, $1.uid) }
        return Array(sorted.prefix(count))
    }

    func fill(_ report: inout StatsReport) {
        requests.fill(&report)
        for (figure, count) in figures { report[figure] = count }
        report.workerDeaths = workerDeaths
        report.originResponses = originResponses
        report.programs = programs.mapValues { row, durations in
            var row = row
            row.durations = durations.distribution ?? StatsReport.Histogram()
            return row
        }
        if let loads = spans[.load] { report[.loadMilliseconds] = loads.quantiles(unit: 1000) }
        if let decodes = spans[.decode] { report[.decodeMilliseconds] = decodes.quantiles(unit: 1000) }
        for (span, times) in spans { report.histograms[span] = times.distribution }
    }
}

/// The counters of what clients asked for: all clients', or one user's.
struct RequestCounters {
    var requests = 0
    var staleServed = 0
    var prefetched = 0
    /// Hits that clients found on the validity page, as far as they have reported.
    private(set) var mappedHits = 0
    /// The bytes of bodies, and the microseconds of transfers and decodings. A job counts for the user of its first
    /// waiter.
    var bytesDownloaded = 0
    var downloadMicroseconds = 0
    var decodeMicroseconds = 0
    /// Errors of all message types.
    var failures: [ErrorCode: Int] = [:]

    private(set) var memoryHits = 0
    private var otherOutcomes: [StatsReport.Figure: Int] = [:]

    var outcomes: [StatsReport.Figure: Int] { otherOutcomes.merging([.memoryHits: memoryHits]) { $1 } }

    /// The microseconds of its jobs.
    var workMicroseconds: Int { downloadMicroseconds + decodeMicroseconds }

    func row(of uid: UInt32) -> StatsReport.User {
        var row = StatsReport.User()
        row.uid = Int(uid)
        row.requests = requests
        row.failed = otherOutcomes[.failed] ?? 0
        row.bytes = bytesDownloaded
        row.downloadMilliseconds = downloadMicroseconds / 1000
        row.decodeMilliseconds = decodeMicroseconds / 1000
        return row
    }

    mutating func count(_ outcome: StatsReport.Figure) {
        if outcome == .memoryHits { memoryHits += 1 } else { otherOutcomes[outcome, default: 0] += 1 }
    }

    mutating func count(mappedHits hits: Int) { mappedHits = StatsReport.saturating(mappedHits, hits) }

    func fill(_ report: inout StatsReport) {
        report[.requests] = requests
        report[.staleServed] = staleServed
        report[.prefetched] = prefetched
        report[.mappedHits] = mappedHits
        for (outcome, count) in outcomes { report[outcome] = count }
        report.failures = failures
    }
}

/// The origins whose transfers take most time together, in bounded memory.
///
/// The space-saving algorithm: when the table is full, a new origin takes the place of the one with the least time, and
/// inherits that time for the order only. So an origin that takes more than a 64th of all time is always in the table.
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

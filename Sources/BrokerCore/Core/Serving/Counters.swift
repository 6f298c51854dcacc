import IPCProtocol
import WorkerProtocol

/// The counters of the broker's life.
struct Counters {
    /// Of all clients.
    private(set) var requests = RequestCounters()
    /// Of the clients of each user: what one user may see.
    private var users: [UInt32: RequestCounters] = [:]
    var programs = ProgramCounters()
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
        report.programs = programs.rows
        if let loads = spans[.load] { report[.loadMilliseconds] = loads.quantiles(unit: 1000) }
        if let decodes = spans[.decode] { report[.decodeMilliseconds] = decodes.quantiles(unit: 1000) }
        for (span, times) in spans { report.histograms[span] = times.distribution }
    }
}

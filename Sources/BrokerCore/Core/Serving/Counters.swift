import IPCProtocol
import WorkerProtocol

/// The counters of the broker's life.
struct Counters {
    /// Of all clients.
    private(set) var requests = RequestCounters()
    /// Of the clients of each user: what one user may see.
    private var users: [UInt32: RequestCounters] = [:]
    var programs = ProgramCounters()
    var revalidated = 0
    /// Exited workers of all kinds, retired ones aside.
    var workerDeaths: [DeathCause: Int] = [:]
    var bytesDownloaded = 0
    var downloads = 0
    var pixelsDecoded = 0
    var decodes = 0
    /// Partial images shown.
    var partialDecodes = 0
    /// Decodings of images whose colour profile could not be used.
    var ignoredProfiles = 0
    /// Responses of origins by status, of which there are fewer than a thousand.
    var originResponses: [Int: Int] = [:]
    var loads = LatencyHistogram()
    var transfers = LatencyHistogram()
    var decodeTimes = LatencyHistogram()
    /// The other parts of loads that were measured.
    var spans: [StatsReport.Distribution: LatencyHistogram] = [:]

    /// The most users that are counted for themselves. Beyond, another one's counters begin at zero again.
    private static let maximumUsers = 1024

    /// Changes the counters of all clients and those of a user; nil for a client that is gone or was not let in.
    mutating func add(for user: UInt32?, _ change: (inout RequestCounters) -> Void) {
        change(&requests)
        guard let user else { return }
        change(&users[user, default: RequestCounters()])
        if users.count > Self.maximumUsers, let other = users.keys.first(where: { $0 != user }) { users[other] = nil }
    }

    /// The counters of a user's requests.
    func requests(of user: UInt32) -> RequestCounters { users[user] ?? RequestCounters() }

    /// The users whose jobs have taken most time, the first one most, at most `count`.
    func busiestUsers(_ count: Int) -> [(uid: UInt32, counters: RequestCounters)] {
        let sorted = users.map { (uid: $0.key, counters: $0.value) }
            .sorted { ($1.counters.workMicroseconds, $0.uid) < ($0.counters.workMicroseconds, $1.uid) }
        return Array(sorted.prefix(count))
    }

    /// Writes the counters into a report.
    func fill(_ report: inout StatsReport) {
        requests.fill(&report)
        report[.revalidated] = revalidated
        report.workerDeaths = workerDeaths
        report[.bytesDownloaded] = bytesDownloaded
        report[.downloads] = downloads
        report[.pixelsDecoded] = pixelsDecoded
        report[.decodes] = decodes
        report[.partialDecodes] = partialDecodes
        report[.ignoredProfiles] = ignoredProfiles
        report[.loadMilliseconds] = loads.quantiles(unit: 1000)
        report[.decodeMilliseconds] = decodeTimes.quantiles(unit: 1000)
        report.originResponses = originResponses
        report.programs = programs.rows
        report.histograms[.load] = loads.distribution
        report.histograms[.download] = transfers.distribution
        report.histograms[.decode] = decodeTimes.distribution
        for (span, times) in spans { report.histograms[span] = times.distribution }
    }
}

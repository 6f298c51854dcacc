import IPCProtocol
import WorkerProtocol

/// The counters of the broker's life.
struct Counters {
    var requests = 0
    var revalidated = 0
    var staleServed = 0
    var prefetched = 0
    /// Hits that clients found on the validity page, as far as they have reported.
    var mappedHits = 0
    var failures: [ErrorCode: Int] = [:]
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
    var loads = LatencyHistogram()
    var decodeTimes = LatencyHistogram()

    /// Requests answered from memory.
    private(set) var memoryHits = 0
    private var otherOutcomes: [StatsReport.Figure: Int] = [:]

    /// How `get`s ended.
    var outcomes: [StatsReport.Figure: Int] { otherOutcomes.merging([.memoryHits: memoryHits]) { $1 } }

    /// Counts how a `get` ended.
    mutating func count(_ outcome: StatsReport.Figure) {
        if outcome == .memoryHits { memoryHits += 1 } else { otherOutcomes[outcome, default: 0] += 1 }
    }

    /// Writes the counters into a report.
    func fill(_ report: inout StatsReport) {
        report[.requests] = requests
        report[.revalidated] = revalidated
        report[.staleServed] = staleServed
        report[.prefetched] = prefetched
        report[.mappedHits] = mappedHits
        for (outcome, count) in outcomes { report[outcome] = count }
        report.failures = failures
        report.workerDeaths = workerDeaths
        report[.bytesDownloaded] = bytesDownloaded
        report[.downloads] = downloads
        report[.pixelsDecoded] = pixelsDecoded
        report[.decodes] = decodes
        report[.partialDecodes] = partialDecodes
        report[.ignoredProfiles] = ignoredProfiles
        report[.loadMilliseconds] = loads.quantiles(unit: 1000)
        report[.decodeMilliseconds] = decodeTimes.quantiles(unit: 1000)
    }
}

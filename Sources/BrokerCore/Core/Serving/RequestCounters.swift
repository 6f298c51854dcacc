import IPCProtocol

/// The counters of what clients asked for: all clients', or one user's.
struct RequestCounters {
    var requests = 0
    var staleServed = 0
    var prefetched = 0
    /// Hits that clients found on the validity page, as far as they have reported.
    private(set) var mappedHits = 0
    /// The bytes of bodies, and the microseconds of transfers and decodings. A job counts for the user of its first waiter.
    var bytesDownloaded = 0
    var downloadMicroseconds = 0
    var decodeMicroseconds = 0
    /// Errors of all message types.
    var failures: [ErrorCode: Int] = [:]

    private(set) var memoryHits = 0
    private var otherOutcomes: [StatsReport.Figure: Int] = [:]

    /// How `get`s ended.
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

    mutating func count(mappedHits hits: Int) {
        mappedHits = StatsReport.saturating(mappedHits, hits)
    }

    func fill(_ report: inout StatsReport) {
        report[.requests] = requests
        report[.staleServed] = staleServed
        report[.prefetched] = prefetched
        report[.mappedHits] = mappedHits
        for (outcome, count) in outcomes { report[outcome] = count }
        report.failures = failures
    }
}

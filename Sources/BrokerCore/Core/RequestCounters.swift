import IPCProtocol

/// The counters of what clients asked for: all clients', or one user's.
struct RequestCounters {
    var requests = 0
    var staleServed = 0
    var prefetched = 0
    /// Hits that clients found on the validity page, as far as they have reported.
    private(set) var mappedHits = 0
    /// Errors of all message types.
    var failures: [ErrorCode: Int] = [:]

    /// Requests answered from memory.
    private(set) var memoryHits = 0
    private var otherOutcomes: [StatsReport.Figure: Int] = [:]

    /// How `get`s ended.
    var outcomes: [StatsReport.Figure: Int] { otherOutcomes.merging([.memoryHits: memoryHits]) { $1 } }

    /// Counts how a `get` ended.
    mutating func count(_ outcome: StatsReport.Figure) {
        if outcome == .memoryHits { memoryHits += 1 } else { otherOutcomes[outcome, default: 0] += 1 }
    }

    mutating func count(mappedHits hits: Int) {
        let (sum, overflowed) = mappedHits.addingReportingOverflow(hits)
        mappedHits = overflowed ? .max : sum
    }

    /// Writes the counters into a report.
    func fill(_ report: inout StatsReport) {
        report[.requests] = requests
        report[.staleServed] = staleServed
        report[.prefetched] = prefetched
        report[.mappedHits] = mappedHits
        for (outcome, count) in outcomes { report[outcome] = count }
        report.failures = failures
    }
}

import IPCProtocol
import SystemValues

/// The counters of the programs that are counted by themselves. A request of any other client costs a comparison with nil.
struct ProgramCounters {
    private struct Counts {
        var row = StatsReport.ProgramRequests()
        var durations = LatencyHistogram()
    }

    private var counts: [StatsReport.Program: Counts] = [:]

    /// Counts how a program's `get` ended, and the time until its answer. A cancelled one has no such time.
    mutating func count(_ outcome: StatsReport.Figure, microseconds: Int, of program: StatsReport.Program) {
        counts[program, default: Counts()].row[outcome] += 1
        if outcome != .cancelled { counts[program]?.durations.record(microseconds: microseconds) }
    }

    /// The rows of the report: of programs that have made requests.
    var rows: [StatsReport.Program: StatsReport.ProgramRequests] {
        counts.mapValues { counts in
            var row = counts.row
            row.durations = counts.durations.distribution ?? StatsReport.Histogram()
            return row
        }
    }
}

import IPCProtocol
import SystemValues

/// A part of a job that has ended.
struct JobStep {
    let name: StatsReport.Distribution
    let startedAt: Instant
    let microseconds: Int

    init(_ name: StatsReport.Distribution, from start: Instant, microseconds: Int) {
        (self.name, startedAt, self.microseconds) = (name, start, max(0, microseconds))
    }

    /// A job and the parts that its worker reports, which have followed one another in the order given. What the worker reports
    /// beyond the job's own time is cut off.
    static func job(
        _ name: StatsReport.Distribution, from start: Instant, to end: Instant,
        parts: [(StatsReport.Distribution, Int)] = []
    ) -> [JobStep] {
        let all = max(0, end.microseconds(since: start))
        var (steps, passed) = ([JobStep(name, from: start, microseconds: all)], 0)
        for (part, reported) in parts where reported > 0 {
            let time = min(reported, all - passed)
            steps.append(JobStep(part, from: start.adding(microseconds: passed), microseconds: time))
            passed += time
        }
        return steps
    }
}

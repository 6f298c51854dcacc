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

extension Waiter {
    /// Adds the parts of a job that has ended at `end`, and the time before its start as waiting.
    mutating func trace(_ steps: [JobStep], until end: Instant) {
        guard request.options.trace, trace.count + steps.count + 2 <= TraceSpan.most else { return }
        if let start = steps.first?.startedAt, tracedUntil < start {
            add(StatsReport.Distribution.queue.rawValue, from: tracedUntil, start.microseconds(since: tracedUntil))
        }
        for step in steps { add(step.name.rawValue, from: step.startedAt, step.microseconds) }
        tracedUntil = max(tracedUntil, end)
    }

    private mutating func add(_ name: String, from start: Instant, _ microseconds: Int) {
        let longest = TraceSpan.longest
        trace.append(
            TraceSpan(
                name, start: min(max(start.microseconds(since: receivedAt), -longest), longest),
                microseconds: min(max(microseconds, 0), longest)))
    }

    /// The spans for the reply that is made now; the shell adds how long that takes. Empty unless asked for.
    func spans(at now: Instant) -> [TraceSpan] {
        guard request.options.trace else { return [] }
        var waiter = self
        if tracedUntil < now {
            waiter.add(StatsReport.Distribution.queue.rawValue, from: tracedUntil, now.microseconds(since: tracedUntil))
        }
        waiter.add(StatsReport.Distribution.reply.rawValue, from: now, 0)
        return waiter.trace
    }
}

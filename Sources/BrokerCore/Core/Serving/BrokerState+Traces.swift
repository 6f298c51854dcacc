import IPCProtocol
import SystemValues
import WorkerProtocol

// Where the time of loads goes: counted for all, and reported to the requests that ask for it.
extension BrokerState {
    /// Counts a job that has ended now and the parts that its worker reports, which have followed one another, and adds
    /// them to the traces of its waiters. Parts beyond the job's own time are cut off.
    mutating func ended(
        _ name: StatsReport.Distribution, from start: Instant, parts: [(StatsReport.Distribution, Int)] = [],
        queuedAt: Instant? = nil, for waiters: JobWaiters, countingWhole: Bool = true
    ) {
        let all = max(0, now.instant.microseconds(since: start))
        var (steps, passed): ([JobStep], Int) = ([(name, start, all)], 0)
        for (part, reported) in parts where reported > 0 {
            let time = min(reported, all - passed)
            steps.append((part, start.adding(microseconds: passed), time))
            passed += time
        }
        if let queuedAt { counters.record(.queue, microseconds: start.microseconds(since: queuedAt)) }
        for step in countingWhole ? steps[...] : steps.dropFirst() {
            counters.record(step.name, microseconds: step.microseconds)
        }
        guard requests.areTraced else { return }
        for waiter in waiters { requests.trace(steps, until: now.instant, of: waiter.id) }
    }

    static func parts(_ times: DecodeTimes) -> [(StatsReport.Distribution, Int)] {
        [
            (.codec, times.codec), (.scale, times.scale), (.steps, times.steps), (.encode, times.encode),
            (.seal, times.seal),
        ]
    }

    static func parts(_ times: FetchTimes) -> [(StatsReport.Distribution, Int)] {
        [
            (.dns, times.dns), (.connect, times.connect), (.tls, times.tls), (.firstByte, times.firstByte),
            (.body, times.body),
        ]
    }
}

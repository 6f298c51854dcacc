import IPCProtocol
import SystemValues

extension BrokerState {
    /// The first rows of the table of workers: those with the job that has run longest, then those without a job.
    var workerProcesses: [StatsReport.Worker] {
        var oldest: [WorkerID: RunningJob] = [:]
        for job in downloads.runningJobs + decoding.runningJobs(download: { downloads[$0] }) {
            if let other = oldest[job.worker], other.startedAt <= job.startedAt { continue }
            oldest[job.worker] = job
        }
        let sorted = supervision.all.sorted { left, right in
            let (leftStart, rightStart) = (oldest[left.worker.id]?.startedAt, oldest[right.worker.id]?.startedAt)
            guard leftStart == rightStart else { return (leftStart ?? .latest) < (rightStart ?? .latest) }
            let (leftJobs, rightJobs) = (left.worker.jobs.count, right.worker.jobs.count)
            return (rightJobs, left.worker.id) < (leftJobs, right.worker.id)
        }
        return sorted.prefix(StatsReport.mostRows).map { kind, worker, pid in
            var row = StatsReport.Worker()
            row.kind = kind.name
            row.pid = pid
            row.state = worker.stateName
            row.jobs = worker.jobs.count
            guard let job = oldest[worker.id] else { return row }
            row.milliseconds = max(0, now.instant.microseconds(since: job.startedAt) / 1000)
            // Images that clients brought have the name of a file or a user in its place.
            row.origin = job.origin.flatMap { $0.hasPrefix("http") ? $0 : nil }
            row.uid = job.user.map { Int($0) }
            return row
        }
    }
}

extension Instant {
    /// After all others.
    fileprivate static let latest = Instant(nanoseconds: .max)
}

extension WorkerPool.Worker {
    /// The state's name in the report.
    fileprivate var stateName: String {
        if !isReady { return "starting" }
        if isRetiring || isCondemned || hasHungUp || isExiting { return "ending" }
        return jobs.isEmpty ? "idle" : "busy"
    }
}

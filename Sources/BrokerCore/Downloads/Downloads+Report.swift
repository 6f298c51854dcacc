import SystemValues

// Figures of the downloads for the report and the tests, and the invariants.
extension Downloads {
    func hasKeptBody(of job: JobID) -> Bool { keptBodies.contains { $0.value.job == job } }

    var runningJobs: [RunningJob] {
        downloads.values.compactMap { download -> RunningJob? in
            download.transfer.map { ($0.worker, $0.startedAt, download.origin, download.waiters.first?.uid) }
        }
    }

    var running: [JobID: WorkerID] { downloads.compactMapValues { $0.transfer?.worker } }
    var keptBodyJobs: Set<JobID> { Set(keptBodies.values.map(\.job)) }
    var heldBodies: [BufferID] { downloads.values.compactMap(\.revalidatedBody) }
    /// The complete bodies, which the index does not have yet.
    var completeBodies: [BufferID] { downloads.values.compactMap(\.body) }
    /// The active downloads: all but those that are stopping.
    var active: [JobID: Download] { downloads.filter { !$0.value.isStopping } }
    var stopping: Set<JobID> { Set(downloads.filter(\.value.isStopping).keys) }

    func brokenInvariant() -> String? {
        let active = active
        if active.values.contains(where: \.waiters.isEmpty) { return "a download without waiters" }
        if jobByKey.count != active.count || jobByKey.contains(where: { active[$1]?.key != $0 }) {
            return "two downloads of one key"
        }
        let queuedJobs = active.filter { if case .queued = $0.value.state { true } else { false } }
        if queued != queuedJobs.count { return "queue" }
        if queuedJobs.contains(where: { !queue.contains($0.key) && !suspects.contains($0.key) }) { return "queue" }
        if silent.contains(where: { downloads[$0]?.transfer?.isAlone != false }) {
            return "a silent transfer that is gone"
        }
        let sharing = downloads.filter { $0.value.transfer?.isAlone == false }
        if queue.runningIDs != Set(sharing.keys) { return "running jobs" }
        if let broken = queue.brokenInvariant() ?? suspects.brokenInvariant() { return "queue: \(broken)" }
        if let broken = held.brokenInvariant() { return broken }
        if held.waiting != Set(active.filter(\.value.isHeld).keys) { return "held downloads" }
        let released = downloads.filter {
            if case .queued = $0.value.state { true } else { $0.value.transfer != nil }
        }
        if !held.released.isSubset(of: released.keys) { return "a released download that is gone" }
        var received = downloads.values.reduce(into: [:]) { $0[$1.user, default: 0] += $1.received }
        for kept in keptBodies.values { received[kept.user, default: 0] += kept.received }
        if received.filter({ $0.value != 0 }) != reservedBytesOfUsers { return "reserved bytes of users" }
        if received.values.reduce(0, +) != reservedBytes { return "reserved bytes" }
        if downloads.values.contains(where: { $0.isStopping && !$0.waiters.isEmpty }) {
            return "a stopping download with waiters"
        }
        return nil
    }
}

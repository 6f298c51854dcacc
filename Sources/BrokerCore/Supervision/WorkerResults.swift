/// What running workers have contributed to the cache, so that it can be discarded if one of them turns out to be compromised. A
/// worker is retired after `BrokerLimits.jobsOfAWorker` jobs, which bounds its contents.
struct WorkerResults {
    private var contents: [WorkerID: Set<ContentKey>] = [:]

    /// Notes that a worker has downloaded, confirmed, identified or decoded these bytes.
    mutating func note(_ content: ContentKey, of worker: WorkerID) {
        contents.change(worker, default: []) { $0.insert(content) }
    }

    /// Takes out the contents of a worker that exited.
    mutating func take(of worker: WorkerID) -> Set<ContentKey> { contents.removeValue(forKey: worker) ?? [] }

    /// The workers with contents.
    var workers: Set<WorkerID> { Set(contents.keys) }
}

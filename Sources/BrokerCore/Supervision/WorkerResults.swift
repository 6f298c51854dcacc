/// What running workers have contributed to the cache, so that it can be discarded if one of them turns out to be
/// compromised.
///
/// Download and decode workers are retired (`BrokerLimits.jobsOfAWorker`) long before `BrokerLimits.contentsOfAWorker`
/// is reached. The process of the shared tier is not.
struct WorkerResults {
    /// The contents to which one worker has contributed; nil when there were too many, so that it may have contributed
    /// to anything.
    typealias Contents = Set<ContentKey>?

    private let limit: Int
    private var contents: [WorkerID: Contents] = [:]

    /// Notes at most `limit` contents of each worker.
    init(limit: Int) { self.limit = limit }

    /// Notes that a worker has downloaded, confirmed, identified or decoded these bytes.
    mutating func note(_ content: ContentKey, of worker: WorkerID) {
        let limit = limit
        contents.change(worker, default: []) {
            $0?.insert(content)
            if $0?.count ?? 0 > limit { $0 = nil }
        }
    }

    mutating func take(of worker: WorkerID) -> Contents { contents.removeValue(forKey: worker) ?? [] }

    var workers: Set<WorkerID> { Set(contents.keys) }
}

/// What running workers have contributed to the cache, so that it can be discarded if one of them turns out to be compromised.
///
/// Download and decode workers are retired (`BrokerLimits.jobsOfAWorker`) long before `BrokerLimits.contentsOfAWorker` is reached.
/// The process of the shared tier is not.
struct WorkerResults {
    struct Contents: Equatable {
        /// The contents; none when there were too many.
        fileprivate(set) var keys: Set<ContentKey> = []
        /// Whether all are noted. Otherwise it may have contributed to anything.
        fileprivate(set) var isComplete = true
    }

    private let limit: Int
    private var contents: [WorkerID: Contents] = [:]

    /// Notes at most `limit` contents of each worker.
    init(limit: Int) { self.limit = limit }

    /// Notes that a worker has downloaded, confirmed, identified or decoded these bytes.
    mutating func note(_ content: ContentKey, of worker: WorkerID) {
        let limit = limit
        contents.change(worker, default: Contents()) {
            if !$0.isComplete { return }
            $0.keys.insert(content)
            if $0.keys.count > limit { $0 = Contents(keys: [], isComplete: false) }
        }
    }

    mutating func take(of worker: WorkerID) -> Contents { contents.removeValue(forKey: worker) ?? Contents() }

    var workers: Set<WorkerID> { Set(contents.keys) }
}

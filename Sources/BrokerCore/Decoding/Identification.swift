import SystemValues

/// The computation of the digest of complete bytes, a download's or a client's, by a decode worker. The worker does nothing else
/// with them before the broker knows the digest, because bytes that have killed decoders are known by it.
struct Identification {
    /// Where it is on its worker.
    struct Run {
        let worker: WorkerID
        /// When the worker has taken too long.
        let deadline: Instant
    }

    let body: BufferID
    let owner: JobOwner
    /// Nil while it is queued.
    var run: Run?
    /// Whether the digest is still needed.
    var isWanted = true
    /// The workers that died with it by their own making.
    var crashes = 0

    /// The workers that may die with it. Their deaths have another cause than bytes that are not looked at.
    static let fatalCrashes = 3
}

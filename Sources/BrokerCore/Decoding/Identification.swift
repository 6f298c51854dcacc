import SystemValues
import WorkerProtocol

/// The computation of the digest of complete bytes, a download's or a client's, by a decode worker. The worker does nothing else
/// with them before their digest is known, because bytes that have killed decoders are known by it. A small image may be
/// decoded in the same job, if its digest is none of those.
struct Identification {
    /// A decoding in the same job.
    struct Early {
        let form: Form
        let order: DecodeJob
        let responsible: Responsible
        let reserved: Int
    }

    /// Where it is on its worker.
    struct Run {
        let worker: WorkerID
        /// When the worker has taken too long.
        let deadline: Instant
        let startedAt: Instant
        /// Nil when the bytes are only identified.
        var early: Early?
    }

    let body: BufferID
    /// Nil while it is queued.
    var run: Run?
    /// Whether the digest is still needed.
    var isWanted = true
    /// The workers that died with it by their own making.
    var crashes = 0
    /// Those of them that died of decoding the bytes in the same job.
    var decoderCrashes = 0
    /// Whether the bytes are only identified from now on, because a worker has died of more.
    var isAlone = false

    /// The workers that may die with it. Their deaths have another cause than bytes that are not looked at.
    static let fatalCrashes = 3
}

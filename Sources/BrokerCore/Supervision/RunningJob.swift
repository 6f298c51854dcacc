import SystemValues

/// A job on a worker, as the table of workers shows it.
struct RunningJob {
    let worker: WorkerID
    let startedAt: Instant
    /// The origin of the image, or another text for an image without one.
    let origin: String?
    let user: UInt32?
}

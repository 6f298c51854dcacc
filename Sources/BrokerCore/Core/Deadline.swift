import SystemValues

/// Something that is looked at when its time has come. What it is about may have ended meanwhile.
enum Deadline {
    /// A request's total time is up.
    case total(WaiterID)
    /// A request may have waited too long for a byte.
    case silence(WaiterID)
    /// A decode worker may have exceeded the time for its job.
    case decode(WorkerID, JobID)
    /// A job that others wait behind may take too long for that: the worker has ended as many jobs as before.
    case brief(WorkerID, JobID, ended: Int)
    /// A job may have used up its processor time.
    case processorTime(WorkerID, JobID)
    case lookup(JobID)
    case diskRequest(JobID)
    /// The shared tier is waited for no longer, asked again, or told that a lease is needed on.
    case shared(JobID)
    case retry(JobID)
    /// Downloads may be released that have waited because their origin asked for it.
    case hold(line: Int)
    /// A worker has not stopped a transfer.
    case stop(JobID)
    /// The origin of a transfer may have been silent for so long that the transfer gives way to others.
    case yield(JobID, startedAt: Instant)
    /// A transfer that is retried alone may have lived long enough.
    case suspicion(WorkerID, JobID)
    /// A body has been kept for long enough, under the job of its download.
    case keptBody(JobID)
    /// A damaged image has been kept for long enough.
    case damage(BufferID)
    /// A file was not examined in time for a `query` or `remove`.
    case file(FileID)
    /// A read of a file may take too long for others.
    case read(JobID)
    /// A file that could not be read is tried again.
    case readAgain(JobID)
    /// More URLs of a prefetch may be begun.
    case prefetch(PrefetchID)
    /// Another partial image may be made of a download.
    case nextPart(JobID)
    case memoryGrowth
    /// More images may be moved out of segments.
    case moveOut
    /// Owners of segments may have some that they do not need.
    case spareSegments
    case reportUse
    case workerStart(WorkerID)
    case workerExit(WorkerID)
    /// A worker of a family may have had no job for long: it has ended as many jobs as before.
    case idleLoader(WorkerID, ended: Int)
    /// The download workers may have had no job for long: they have ended as many as before.
    case idleFetchers(ended: Int)
    /// A missing worker may be started.
    case restart
    case frame(ClientID, begunAt: Instant)
    case drain
}

/// The time of an event, by the steady clock and by that of the day, which HTTP uses.
struct Moment {
    let instant: Instant
    /// Milliseconds since 1970.
    let unixMs: Int
}

import SystemValues

/// A job for which the shared tier is asked: a download, which this broker may make for the others, or a decoding into an encoded
/// variant, which each broker makes for itself if there is no record.
struct SharedLoad {
    enum Stage: Equatable {
        /// The lookup waits for its turn; the job waits for it. → `asking`.
        case queued
        /// The lookup was sent; the job waits for it. → `holding`, `waiting`, `late`; ends with a record.
        case asking(JobID)
        /// Another broker has the lease; the download waits. → `queued` (polls), ends when the waiters have no more patience.
        case waiting
        /// The lookup was not answered in time, and the job goes on as well. The first good answer wins. → `holding`; ends
        /// with a record or with the job.
        case late(JobID)
        /// This broker has the lease, and asks the origin. Ends with the download.
        case holding
    }

    /// A lease as the servers know it, to be ended with or without a record.
    struct Lease: Equatable {
        let key: String
        let token: String
    }

    let key: String
    /// The lease's value while this broker has it, which no other download has; nil for a decoding, which takes no lease.
    let token: String?
    let beganAt: Instant
    var stage: Stage
    /// Whether another broker was found to have the lease, so that the download waits anyway, and a late answer costs nothing.
    var isPolling = false
    /// When the stage changes without an answer: the hedge, the next poll, or the next renewal.
    var due: Instant
    /// When the lease was last taken or prolonged.
    var renewedAt: Instant

    var lookup: JobID? {
        switch stage {
        case .asking(let lookup): lookup
        case .late(let lookup): lookup
        case .queued, .waiting, .holding: nil
        }
    }

    var lease: Lease? { token.map { Lease(key: key, token: $0) } }

    /// Whether the job waits for the tier.
    var isFirst: Bool {
        switch stage {
        case .queued, .asking, .waiting: true
        case .late, .holding: false
        }
    }
}

/// An answer to a lookup in the shared tier, as far as it concerns leases.
package enum SharedAnswer {
    /// There is a record that answers the request.
    case record
    /// The record is missing, and this broker has the lease now.
    case leased
    /// The record is missing, and another broker has the lease.
    case busy
    /// Neither a record nor a lease: the server does not answer, or the record is of no use.
    case nothing
}

import IPCProtocol
import SystemValues

/// A waiter as the job that it waits for knows it: what the job needs to schedule itself and to time out. `Requests` has
/// the waiter itself.
struct JobWaiter {
    let id: WaiterID
    let client: ClientID
    let uid: UInt32
    var priority: GetOptions.Priority
    /// The longest silence of the origin that it accepts, in milliseconds.
    let silenceMs: Int
    /// When it gives up.
    let deadline: Instant
    var isAdmin = false
    /// The retries that it accepts; nil for the broker's.
    var retries: Int?
    /// Whether it waits for an origin that asked not to be contacted for a time.
    var isPatient = true
    /// When it began to wait.
    var since = Instant(nanoseconds: 0)

    /// Returns the retries that it accepts of a broker that makes at most `limit`.
    func retries(of limit: Int) -> Int { min(retries ?? limit, limit) }

    /// The owner of a job that it starts.
    var owner: JobOwner { JobOwner(user: JobOwner.User(uid: uid, isAdmin: isAdmin), client: client) }
}

/// The client that a job is scheduled for, and its user. Jobs without one are scheduled as those of one more user.
struct JobOwner {
    /// A user to the queue. An administrator has no share of running jobs.
    struct User: Hashable {
        var uid: UInt32?
        var isAdmin = false
    }

    var user = User()
    var client: ClientID?
}

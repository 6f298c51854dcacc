import IPCProtocol
import SystemValues

/// A waiter as the job that it waits for knows it: what the job needs to schedule itself and to time out. `Requests` has
/// the waiter itself.
struct JobWaiter {
    let id: WaiterID
    let client: ClientID
    let uid: UInt32
    let priority: GetOptions.Priority
    /// The longest silence of the origin that it accepts, in milliseconds.
    let silenceMs: Int
    /// When it gives up.
    let deadline: Instant
    var isAdmin = false
    /// When it began to wait.
    var since = Instant(nanoseconds: 0)

    /// The owner of a job that it starts.
    var owner: JobOwner { JobOwner(user: JobOwner.User(uid: uid, isAdmin: isAdmin), client: client) }
}

extension [JobWaiter] {
    /// The highest priority; nil when there are no waiters.
    var priority: GetOptions.Priority? { lazy.map(\.priority).max() }

    mutating func remove(_ id: WaiterID) { removeAll { $0.id == id } }
}

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

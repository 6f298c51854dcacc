/// The running jobs within a limit, of which users have fair shares (`FairShare`).
struct RunningShares {
    var limit: Int
    /// The number of running jobs of all users.
    private(set) var total = 0
    private(set) var users: [JobOwner.User: Int] = [:]

    init(limit: Int) { self.limit = limit }

    var isFull: Bool { total >= limit }

    /// Whether a user may have one more job, after `freed` others have ended; the last place if it has none.
    func permits(_ user: JobOwner.User, freed: Int = 0) -> Bool {
        guard !user.isAdmin, let own = users[user] else { return true }
        return FairShare.permits(1, own: own, left: limit - 1 - total + freed, FairShare.ofUser)
    }

    mutating func add(_ user: JobOwner.User) {
        total += 1
        users.change(user, default: 0) { $0 += 1 }
    }

    mutating func remove(_ user: JobOwner.User) {
        guard let own = users[user] else { return }
        total -= 1
        users[user] = own == 1 ? nil : own - 1
    }
}

/// Fair shares of a bounded resource: a client may have at most as much as remains free, a user four times that. A
/// single client so gets half of the resource, a single user four fifths; with more of them, each gets less. (Dynamic
/// thresholds: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
package enum FairShare {
    package static let ofClient = 1
    package static let ofUser = 4

    /// Whether a holder of `own` may have `amount` more, when `left` remains free afterwards.
    package static func permits(_ amount: Int, own: Int, left: Int, _ multiple: Int) -> Bool {
        guard left > 0, own <= Int.max - amount else { return false }
        // Compared without the product, which could overflow.
        return (own + amount + multiple - 1) / multiple <= left
    }

    /// The largest amount that `permits` allows a holder of `own` when `left` is free before; 0 for none. `own` and
    /// `left` are parts of one resource.
    static func room(own: Int, left: Int, _ multiple: Int) -> Int {
        // What remains free is a part of both: a half for a client, a fifth for a user, rounded up.
        max(0, left - (left + own - 1) / (multiple + 1) - 1)
    }
}

/// A bounded resource that clients take and give back.
package struct SharedPool {
    /// Why a request for more is refused.
    package enum Refusal {
        /// The client or its user has its fair share.
        case share
        /// Too little remains even for a client that has nothing.
        case exhausted
    }

    /// The size of the resource. It may become less than is taken.
    package var limit: Int
    /// The amount that all clients have.
    package private(set) var taken = 0
    private var users: [UInt32: Int] = [:]

    package init(limit: Int) {
        self.limit = limit
    }

    /// The amount that a user's clients have.
    package func taken(by user: UInt32) -> Int { users[user] ?? 0 }

    /// The reason to refuse `amount` to a client that has `own`; nil when it may have it. Administrators have a share
    /// as clients but not as users, because a personal machine has one user only, and an administrator can stop the
    /// broker anyway.
    package func refusal(of amount: Int, own: Int, user: UInt32, isAdmin: Bool) -> Refusal? {
        let left = limit - taken - amount
        if !isAdmin, !FairShare.permits(amount, own: taken(by: user), left: left, FairShare.ofUser) {
            return taken(by: user) == 0 ? .exhausted : .share
        }
        if FairShare.permits(amount, own: own, left: left, FairShare.ofClient) { return nil }
        return own == 0 ? .exhausted : .share
    }

    /// The largest amount that is not refused to a client that has `own`; 0 for none.
    package func room(own: Int, user: UInt32, isAdmin: Bool) -> Int {
        let left = limit - taken
        let ofClient = FairShare.room(own: own, left: left, FairShare.ofClient)
        return isAdmin ? ofClient : min(ofClient, FairShare.room(own: taken(by: user), left: left, FairShare.ofUser))
    }

    package mutating func take(_ amount: Int, for user: UInt32) {
        taken += amount
        users.change(user, default: 0) { $0 += amount }
    }

    package mutating func give(_ amount: Int, from user: UInt32) {
        taken -= amount
        let left = taken(by: user) - amount
        users[user] = left == 0 ? nil : left
    }
}

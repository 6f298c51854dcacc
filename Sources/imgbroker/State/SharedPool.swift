import IPCProtocol

/// How much of something scarce one may have, so that others find some: a client no more than what is left, a user four
/// times that. Alone, a client so gets half and a user four fifths; as others come, there is less left and so less for
/// each. (Dynamic thresholds, as switches share their buffers.)
enum FairShare {
    static let ofClient = 1
    static let ofUser = 4

    /// Whether who has `own` already may have `amount` more, when `left` is what nobody has then.
    static func permits(_ amount: Int, own: Int, left: Int, _ multiple: Int) -> Bool {
        guard left > 0, own <= Int.max - amount else { return false }
        // Compared without the product, which could overflow.
        return (own + amount + multiple - 1) / multiple <= left
    }
}

/// Something that clients take and give back, of which there is only so much.
struct SharedPool {
    /// Why somebody gets nothing.
    enum Refusal {
        /// The client has its share, or its user has.
        case share
        /// All have so much that nothing is left, not even for somebody who has nothing.
        case exhausted
    }

    /// How much there is.
    let limit: Int
    /// What everybody has.
    private(set) var taken = 0
    private var users: [UInt32: Int] = [:]

    init(limit: Int) {
        self.limit = limit
    }

    /// What a user's clients have together.
    func taken(by user: UInt32) -> Int { users[user] ?? 0 }

    /// Why a client that has `own` may not have `amount` more; nil when it may. Administrators are bound as clients and
    /// not as users: on one's own machine there is only one user, and who may stop the broker can crowd it, too.
    func refusal(of amount: Int, own: Int, user: UInt32, isAdmin: Bool) -> Refusal? {
        let left = limit - taken - amount
        if !isAdmin, !FairShare.permits(amount, own: taken(by: user), left: left, FairShare.ofUser) {
            return taken(by: user) == 0 ? .exhausted : .share
        }
        if FairShare.permits(amount, own: own, left: left, FairShare.ofClient) { return nil }
        return own == 0 ? .exhausted : .share
    }

    mutating func take(_ amount: Int, for user: UInt32) {
        taken += amount
        users[user, default: 0] += amount
    }

    mutating func give(_ amount: Int, from user: UInt32) {
        taken -= amount
        let left = taken(by: user) - amount
        users[user] = left == 0 ? nil : left
    }
}

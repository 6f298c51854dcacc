import IPCProtocol

/// The jobs that wait for a worker: those that were started before, then users by round-robin, and each user's by
/// priority and client (`UserQueue`), in the order of their arrival or in reverse.
///
/// A user may have its fair share of `limit` running jobs. Jobs may belong to a group (an origin) with a limit of its
/// own, of which a user has its fair share too. Beyond these, jobs are set aside and delay no others: a user at its
/// share is passed over, and the jobs of a full group wait in the group until one of its running jobs ends. A job that
/// was started before is bounded by its group's limit alone, because its user had the share.
///
/// No operation takes time in proportion to the waiting jobs. The users at their shares, which some visit, are fewer
/// than the running jobs.
struct JobQueue {
    typealias User = JobOwner.User

    private struct Entry {
        var level: Int
        let owner: JobOwner
        let group: String?
        let rank: Int
        /// Whether it was started before.
        let isFront: Bool
        /// The owner that it was taken from by `join`, for as long as the new one may run it.
        var lender: JobOwner?
        var isAside = false

        var standing: RoundRobinQueue.Standing {
            // Those at the front have one line.
            RoundRobinQueue.Standing(client: isFront ? nil : owner.client, rank: rank)
        }
    }

    private struct Group {
        var running: RunningShares
        /// The running jobs when the limit was last changed, which may be more than it is now.
        var runningBefore = 0
        /// The jobs set aside.
        var front = RoundRobinQueue()
        var asides: [User: UserQueue] = [:]
        /// The users of `asides`.
        var turns = TurnOrder<User>()
        /// The user whose first jobs were brought back for the free place.
        var offeree: User?

        var isUnused: Bool { running.total == 0 && front.isEmpty && asides.isEmpty }

        /// The next user with a job set aside whose share allows it to run; one that is passed over only if there is no
        /// other.
        mutating func nextUser(isPassedOver: (User) -> Bool) -> User? {
            var refused: [User] = []
            var second: User?
            defer { for user in refused { turns.enter(user) } }
            while let user = turns.first() {
                if running.permits(user) {
                    if !isPassedOver(user) { return user }
                    second = second ?? user
                }
                turns.pauseFirst()
                refused.append(user)
            }
            return second
        }
    }

    /// The most running jobs of one group.
    let groupLimit: Int
    let order: BrokerLimits.QueueOrder

    private var entries: [JobID: Entry] = [:]
    /// The jobs that were started before. Includes those set aside.
    private var front = RoundRobinQueue()
    private var users: [User: UserQueue] = [:]
    private var turns = TurnOrder<User>()
    private var groups: [String: Group] = [:]
    /// The limits of the groups to which `groupLimit` does not apply.
    private var groupLimits: [String: Int] = [:]
    /// The groups that have brought back jobs of a user.
    private var offers: [User: Set<String>] = [:]
    /// The running jobs, if their number is limited.
    private var runningJobs: [JobID: (user: User, group: String?)] = [:]
    private var running: RunningShares
    /// The users with waiting jobs that were found at their share since a job ended.
    private var resting: Set<User> = []
    /// The jobs with a lender, by the user that has them now.
    private var lent: [User: Set<JobID>] = [:]
    private var lastRank = 0

    /// Creates a queue for workers that run at most `limit` jobs; the caller pops a job only when one of them can take
    /// it.
    init(limit: Int = .max, groupLimit: Int = .max, order: BrokerLimits.QueueOrder = .fifo) {
        running = RunningShares(limit: limit)
        self.groupLimit = groupLimit
        self.order = order
    }

    /// The number of waiting jobs.
    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    func contains(_ job: JobID) -> Bool { entries[job] != nil }
    private var isLimited: Bool { running.limit != .max || groupLimit != .max }

    // MARK: Waiting

    /// Adds a job, or puts it before all others if it had been started before.
    mutating func push(
        _ job: JobID, priority: GetOptions.Priority, owner: JobOwner, group: String? = nil, atFront: Bool = false
    ) {
        remove(job)
        lastRank += 1
        let entry = Entry(
            level: UserQueue.level(of: priority), owner: owner, group: group,
            rank: atFront || order == .lifo ? -lastRank : lastRank, isFront: atFront)
        insert(job, entry)
    }

    /// Changes the priority of a waiting job. Among its client's jobs it keeps the place of its arrival.
    mutating func change(_ job: JobID, to priority: GetOptions.Priority) {
        let level = UserQueue.level(of: priority)
        guard let entry = entries[job], entry.level != level else { return }
        if entry.isFront {
            entries.change(job) { $0.level = level }
        } else {
            remove(job)
            // It is not set aside in its new place; `pop` sets it aside again if it may not run.
            insert(
                job,
                Entry(
                    level: level, owner: entry.owner, group: entry.group, rank: entry.rank, isFront: false,
                    lender: entry.lender))
        }
    }

    /// Notes that another client waits for a job too. The job becomes that one's if its user may run it, and the other
    /// may not or has more jobs waiting, so that a request does not wait for another user's turns. It returns when the
    /// new user may not run it.
    mutating func join(_ job: JobID, _ owner: JobOwner) {
        let user = owner.user
        guard let entry = entries[job], user != entry.owner.user, !resting.contains(user), running.permits(user),
            entry.group.flatMap({ groups[$0] })?.running.permits(user) ?? true,
            resting.contains(entry.owner.user)
                || users[user]?.count ?? 0 < users[entry.owner.user]?.count ?? 0
        else { return }
        let lender = entry.lender ?? entry.owner
        give(job, to: owner, from: lender.user == user ? nil : lender)
    }

    /// Makes a waiting job another owner's, unless it was started before.
    private mutating func give(_ job: JobID, to owner: JobOwner, from lender: JobOwner? = nil) {
        guard let entry = entries[job], !entry.isFront else { return }
        remove(job)
        insert(
            job,
            Entry(
                level: entry.level, owner: owner, group: entry.group, rank: entry.rank, isFront: false, lender: lender))
    }

    private mutating func endLoan(of job: JobID, _ entry: Entry) {
        if entry.lender == nil { return }
        lent.change(entry.owner.user) { $0.remove(job) }
        if lent[entry.owner.user]?.isEmpty == true { lent[entry.owner.user] = nil }
    }

    private mutating func insert(_ job: JobID, _ entry: Entry) {
        entries[job] = entry
        if entry.lender != nil { lent[entry.owner.user, default: []].insert(job) }
        if entry.isFront { return front.insert(job, entry.standing) }
        let user = entry.owner.user
        users.change(user, default: UserQueue()) { $0.insert(job, entry.standing, at: entry.level) }
        if !resting.contains(user) { turns.enter(user) }
    }

    mutating func remove(_ job: JobID) {
        guard let entry = entries.removeValue(forKey: job) else { return }
        let user = entry.owner.user
        endLoan(of: job, entry)
        if entry.isFront {
            front.remove(job)
        } else {
            users.change(user) { $0.remove(job, at: entry.level) }
            forgetIfEmpty(user)
        }
        guard let group = entry.group, groups[group] != nil else { return }
        if !entry.isAside {
            // It may have been brought back in place of another job of its group.
            return offerPlace(of: group)
        }
        if entry.isFront {
            groups.change(group) { $0.front.remove(job) }
        } else {
            groups.change(group) { $0.asides.change(user) { $0.remove(job, at: entry.level) } }
            if groups[group]?.asides[user]?.isEmpty == true {
                groups.change(group) {
                    $0.asides[user] = nil
                    $0.turns.remove(user)
                }
            }
        }
        forgetIfUnused(group)
    }

    // MARK: Running

    /// Removes the next job that may run now, of a user for whom `isPermitted` is true, and counts it as running. The
    /// others are passed over until `reconsider` or until a job ends.
    mutating func pop(of isPermitted: (User) -> Bool = { _ in true }) -> JobID? {
        while let job = first(of: isPermitted), let entry = entries[job] {
            if let group = entry.group, !mayRun(entry, in: group) {
                if let lender = entry.lender, groups[group]?.running.permits(entry.owner.user, freed: 1) == false {
                    give(job, to: lender)
                } else {
                    setAside(job, entry, of: group)
                }
            } else {
                start(job, entry)
                return job
            }
        }
        return nil
    }

    /// The job that `pop` removes next, and the user whose it is, in a queue without groups.
    mutating func next() -> (job: JobID, user: User)? {
        guard let job = first(of: { _ in true }), let entry = entries[job] else { return nil }
        return (job, entry.owner.user)
    }

    /// The next job of a user below its share, whether or not its group lets it run.
    private mutating func first(of isPermitted: (User) -> Bool) -> JobID? {
        while let job = front.first(), let entry = entries[job] {
            if isPermitted(entry.owner.user) { return job }
            // From now on it waits like others of its priority, so that it does not hold up those of other users.
            remove(job)
            insert(
                job,
                Entry(level: entry.level, owner: entry.owner, group: entry.group, rank: entry.rank, isFront: false))
        }
        while let user = turns.first() {
            if !running.permits(user) || !isPermitted(user) {
                rest(user)
            } else if let job = users[user]?.first() {
                return job
            } else {
                turns.pauseFirst()
            }
        }
        return nil
    }

    private func mayRun(_ entry: Entry, in group: String) -> Bool {
        guard let running = groups[group]?.running else { return true }
        return !running.isFull && (entry.isFront || running.permits(entry.owner.user))
    }

    private mutating func start(_ job: JobID, _ entry: Entry) {
        let user = entry.owner.user
        entries[job] = nil
        endLoan(of: job, entry)
        if entry.isFront {
            front.serve(job)
        } else {
            users.change(user) { $0.serve(job, at: entry.level) }
            turns.moveToEnd(user)
            forgetIfEmpty(user)
        }
        guard isLimited else { return }
        runningJobs[job] = (user, entry.group)
        running.add(user)
        guard let group = entry.group else { return }
        groups.change(group, default: Group(running: RunningShares(limit: groupLimits[group] ?? groupLimit))) {
            $0.running.add(user)
            $0.turns.moveToEnd(user)
        }
        offerPlace(of: group)
    }

    mutating func jobEnded(_ job: JobID) {
        guard let (user, group) = runningJobs.removeValue(forKey: job) else { return }
        running.remove(user)
        reconsider()
        guard let group else { return }
        groups.change(group) { $0.running.remove(user) }
        offerPlace(of: group)
    }

    /// Puts the users in line again that were passed over.
    mutating func reconsider() {
        for user in resting { turns.enter(user) }
        resting = []
    }

    /// Sets the most running jobs of a group from now on; nil for `groupLimit`. Jobs that run already go on.
    mutating func limit(_ group: String, to limit: Int?) {
        if groupLimits[group] != limit {
            // Each is learnt again when it is needed.
            if groupLimits.count >= Self.mostGroupLimits { groupLimits = [:] }
            groupLimits[group] = limit
        }
        let limit = limit ?? groupLimit
        guard let before = groups[group]?.running.limit, before != limit else { return }
        groups.change(group) {
            $0.running.limit = limit
            $0.runningBefore = $0.running.total
        }
        offerPlace(of: group)
    }

    private static let mostGroupLimits = 1024

    /// The user that a running job counts for.
    func user(ofRunning job: JobID) -> User? { runningJobs[job]?.user }

    /// Puts the user of a running job behind the others, so that the place of the job goes to another user.
    mutating func yieldTurn(of job: JobID) {
        guard let (user, group) = runningJobs[job] else { return }
        turns.moveToEnd(user)
        if let group { groups.change(group) { $0.turns.moveToEnd(user) } }
    }

    /// Whether another user's job would run if this running one ended. `isWorkerFree` says whether a worker can take a
    /// job all the same.
    mutating func isAwaited(_ job: JobID, isWorkerFree: Bool) -> Bool {
        guard let (user, group) = runningJobs[job] else { return false }
        if !isWorkerFree, isInLine(besides: user) { return true }
        let isResting = resting.contains {
            $0 != user && users[$0]?.inLine ?? 0 > 0 && running.permits($0, freed: 1)
        }
        if isResting { return true }
        guard let group = group.flatMap({ groups[$0] }) else { return false }
        return group.front.jobs.contains { entries[$0]?.owner.user != user }
            || group.asides.keys.contains {
                $0 != user && group.running.permits($0, freed: 1) && running.permits($0, freed: 1)
            }
    }

    /// Whether a job of another user below its share waits for a worker alone.
    private mutating func isInLine(besides user: User) -> Bool {
        if front.jobs.contains(where: { entries[$0]?.isAside == false && entries[$0]?.owner.user != user }) {
            return true
        }
        var isPassedOver = false
        defer { if isPassedOver { turns.enter(user) } }
        while let other = turns.first() {
            if other != user, users[other]?.inLine ?? 0 > 0 {
                if running.permits(other) { return true }
                rest(other)
                continue
            }
            if other == user { isPassedOver = true }
            turns.pauseFirst()
        }
        return false
    }

    // MARK: Setting aside

    /// Passes over the first user, which is at its share, until a job ends. What it has taken from others is theirs
    /// again.
    private mutating func rest(_ user: User) {
        turns.pauseFirst()
        resting.insert(user)
        for job in lent[user]?.sorted() ?? [] {
            if let lender = entries[job]?.lender { give(job, to: lender) }
        }
        // Its offers may now be for another user.
        for group in offers[user] ?? [] where groups[group]?.asides.contains(where: { $0.key != user }) == true {
            offerPlace(of: group)
        }
    }

    private mutating func setAside(_ job: JobID, _ entry: Entry, of group: String) {
        let user = entry.owner.user
        entries.change(job) { $0.isAside = true }
        if entry.isFront {
            front.setAside(job)
            groups.change(group) { $0.front.insert(job, entry.standing) }
        } else {
            users.change(user) { $0.setAside(job, at: entry.level) }
            groups.change(group) {
                $0.asides.change(user, default: UserQueue()) { $0.insert(job, entry.standing, at: entry.level) }
                $0.turns.enter(user)
            }
        }
    }

    /// Brings back jobs of a group that has a free place: the first one at the front, and the first of each priority of
    /// the next user whose share allows it, because the order of priorities is decided among all of the user's jobs.
    private mutating func offerPlace(of name: String) {
        // Taken out, because a copy would have to be changed.
        guard var group = groups.removeValue(forKey: name) else { return }
        defer {
            if group.isUnused { withdrawOffer(&group, name) } else { groups[name] = group }
        }
        withdrawOffer(&group, name)
        if group.running.isFull { return }
        if let job = group.front.first() {
            group.front.serve(job)
            entries.change(job) { $0.isAside = false }
            front.bringBack(job)
        }
        guard let user = group.nextUser(isPassedOver: { !running.permits($0) }) else { return }
        for job in group.asides[user]?.takeFirsts() ?? [] {
            guard let level = entries[job]?.level else { continue }
            entries.change(job) { $0.isAside = false }
            users.change(user) { $0.bringBack(job, at: level) }
        }
        if !resting.contains(user) { turns.enter(user) }
        if group.asides[user]?.isEmpty == true {
            group.asides[user] = nil
            group.turns.remove(user)
        }
        group.offeree = user
        offers.change(user, default: []) { $0.insert(name) }
    }

    private mutating func withdrawOffer(_ group: inout Group, _ name: String) {
        guard let user = group.offeree.take() else { return }
        offers.change(user) { $0.remove(name) }
        if offers[user]?.isEmpty == true { offers[user] = nil }
    }

    private mutating func forgetIfUnused(_ name: String) {
        guard groups[name]?.isUnused == true, var group = groups.removeValue(forKey: name) else { return }
        withdrawOffer(&group, name)
    }

    private mutating func forgetIfEmpty(_ user: User) {
        guard users[user]?.isEmpty == true else { return }
        users[user] = nil
        turns.remove(user)
        resting.remove(user)
    }

    // MARK: Invariants

    /// The jobs that run, if their number is limited.
    var runningIDs: Set<JobID> { Set(runningJobs.keys) }

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant() -> String? {
        if users.values.contains(where: \.isEmpty) { return "a user without jobs" }
        if turns.count != users.count || !resting.isSubset(of: users.keys) { return "users" }
        let asides = entries.values.filter(\.isAside)
        if front.count + users.values.reduce(0, { $0 + $1.count }) != entries.count { return "number of jobs" }
        if front.inLine + users.values.reduce(0, { $0 + $1.inLine }) != entries.count - asides.count {
            return "number of jobs in line"
        }
        let inGroups = groups.values.reduce(0) { $0 + $1.front.count + $1.asides.values.reduce(0) { $0 + $1.count } }
        if inGroups != asides.count { return "number of jobs set aside" }
        if running.total != runningJobs.count || running.users != Self.counts(runningJobs.values.map(\.user)) {
            return "running jobs"
        }
        for (name, group) in groups {
            if group.isUnused { return "a group without jobs" }
            let inGroup = runningJobs.values.filter { $0.group == name }
            if group.running.total != inGroup.count || group.running.users != Self.counts(inGroup.map(\.user)) {
                return "running jobs of a group"
            }
            if group.running.total > max(group.running.limit, group.runningBefore) {
                return "too many running jobs of a group"
            }
            if group.turns.count != group.asides.count { return "users of a group" }
            if group.offeree.map({ offers[$0]?.contains(name) != true }) == true { return "an offer" }
            let inLine = entries.values.filter { $0.group == name && !$0.isAside }
            if group.running.isFull { continue }
            if !group.front.isEmpty, !inLine.contains(where: \.isFront) { return "a free place without a job" }
            if group.asides.keys.contains(where: { group.running.permits($0) }),
                !inLine.contains(where: { $0.owner.user == group.offeree })
            {
                return "a free place without a job"
            }
        }
        if offers.reduce(0, { $0 + $1.value.count }) != groups.values.count(where: { $0.offeree != nil }) {
            return "offers"
        }
        if lent.reduce(0, { $0 + $1.value.count }) != entries.values.count(where: { $0.lender != nil }) {
            return "jobs with a lender"
        }
        return nil
    }

    private static func counts(_ users: [User]) -> [User: Int] { users.reduce(into: [:]) { $0[$1, default: 0] += 1 } }
}

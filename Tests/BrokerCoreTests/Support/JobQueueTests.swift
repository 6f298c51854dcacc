import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

struct JobQueueTests {
    @Test func `jobs run by priority, then by arrival, and a group holds up only itself`() {
        var queue = JobQueue(groupLimit: 2)
        for number in 1...4 { queue.push(job(number), priority: .normal, owner: owner(1), group: "a") }
        queue.push(job(5), priority: .low, owner: owner(1), group: "b")
        queue.push(job(6), priority: .high, owner: owner(1), group: "c")
        expectNext(6, 1, 2, 5, nil, in: &queue)
        queue.change(job(4), to: .high)
        expectNext(nil, in: &queue)
        expectNext(4, in: &queue, afterEndOf: 1)
        queue.push(job(1), priority: .normal, owner: owner(1), group: "a", atFront: true)
        expectNext(1, in: &queue, afterEndOf: 2)
        queue.jobEnded(job(4))
        queue.remove(job(3))
        expectNext(nil, in: &queue)
        #expect(queue.isEmpty)
    }

    @Test func `users without permission are passed over, and keep their turns`() {
        var queue = JobQueue(limit: 10)
        for number in 1...2 { queue.push(job(number), priority: .normal, owner: owner(1, of: 1)) }
        queue.push(job(3), priority: .normal, owner: owner(2, of: 2))
        queue.push(job(4), priority: .normal, owner: owner(1, of: 1), atFront: true)
        expectNext(3, nil, in: &queue, of: 2)
        queue.push(job(5), priority: .normal, owner: owner(2, of: 2))
        queue.reconsider()
        expectNext(4, 5, 1, 2, nil, in: &queue)
    }

    @Test func `a job that was started before holds up no other of another user`() {
        var queue = JobQueue(limit: 10, groupLimit: 1)
        queue.push(job(4), priority: .normal, owner: owner(2, of: 2), atFront: true)
        for (number, group) in [(1, "a"), (2, "a"), (3, "b")] {
            queue.push(job(number), priority: .normal, owner: owner(1, of: 1), group: group, atFront: true)
        }
        queue.push(job(5), priority: .normal, owner: owner(1, of: 1))
        expectNext(4, nil, in: &queue, of: 2)
        queue.reconsider()
        // Still before the others of its user, and one of a group at a time.
        expectNext(3, 2, 5, nil, in: &queue)
        expectNext(1, nil, in: &queue, afterEndOf: 2)
    }

    // MARK: Clients

    @Test func `clients are served by round-robin within an origin too`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...9 { queue.push(job(number), priority: .normal, owner: owner(1), group: "a") }
        expectNext(1, nil, in: &queue)
        queue.push(job(10), priority: .normal, owner: owner(2), group: "a")
        queue.push(job(11), priority: .normal, owner: owner(2), group: "a")
        expectNext(nil, in: &queue)
        #expect(oneByOne(&queue, after: 1).prefix(5) == [2, 10, 3, 11, 4])
    }

    @Test func `a job that had been started comes before all others`() {
        var queue = JobQueue()
        queue.push(job(1), priority: .normal, owner: owner(1))
        queue.push(job(3), priority: .normal, owner: owner(2), atFront: true)
        queue.push(job(2), priority: .normal, owner: owner(2), atFront: true)
        queue.push(job(4), priority: .high, owner: owner(3))
        queue.change(job(2), to: .low)
        expectNext(2, 3, 4, 1, nil, in: &queue)
    }

    // MARK: Users

    @Test func `a priority counts within its user's jobs`() {
        var queue = JobQueue()
        queue.push(job(1), priority: .low, owner: owner(1, of: 1))
        queue.push(job(2), priority: .low, owner: owner(1, of: 1))
        queue.push(job(3), priority: .high, owner: owner(2, of: 2))
        queue.push(job(4), priority: .normal, owner: owner(2, of: 2))
        queue.push(job(5), priority: .high, owner: owner(3, of: 2))
        // Jobs without a user are those of one more.
        queue.push(job(6), priority: .low, owner: JobOwner())
        expectNext(1, 3, 6, 2, 5, 4, nil, in: &queue)
    }

    @Test func `users take turns at a full origin`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...9 { queue.push(job(number), priority: .high, owner: owner(number, of: 1), group: "a") }
        expectNext(1, nil, in: &queue)
        for number in 11...12 { queue.push(job(number), priority: .low, owner: owner(11, of: 2), group: "a") }
        queue.push(job(21), priority: .low, owner: owner(21, of: 3), group: "a")
        expectNext(nil, in: &queue)
        #expect(oneByOne(&queue, after: 1) == [2, 11, 21, 3, 12, 4, 5, 6, 7, 8, 9])
    }

    @Test func `a job that a user with fewer jobs waits for too is that one's`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...9 { queue.push(job(number), priority: .normal, owner: owner(1, of: 1), group: "a") }
        queue.push(job(10), priority: .normal, owner: owner(2, of: 2), group: "b")
        expectNext(1, 10, nil, in: &queue)
        queue.join(job(8), owner(2, of: 2))
        expectNext(nil, in: &queue)
        expectNext(2, nil, in: &queue, afterEndOf: 1)
        expectNext(8, nil, in: &queue, afterEndOf: 2)
        // The other user has more jobs waiting.
        queue.push(job(11), priority: .normal, owner: owner(2, of: 3), group: "b")
        queue.join(job(11), owner(1, of: 1))
        expectNext(11, nil, in: &queue, afterEndOf: 10)
    }

    /// The waiter of a user.
    private func waiter(of uid: UInt32) -> JobWaiter {
        JobWaiter(
            id: WaiterID(number: Int(uid)), client: ClientID(number: Int(uid)), uid: uid, priority: .normal,
            silenceMs: 1000, deadline: Instant(nanoseconds: .max))
    }

    /// A queue in which the first user has this many running jobs of at most four, and as many waiting as are left of
    /// five.
    private func queue(running: Int) -> JobQueue {
        var queue = JobQueue(limit: 5)
        for number in 1...5 { queue.push(job(number), priority: .normal, owner: waiter(of: 1).owner) }
        for number in 1...running { expectNext(number, in: &queue) }
        return queue
    }

    @Test func `a job is not that of a user who may not run it, though it has fewer`() {
        var queue = queue(running: 4)
        for number in 11...12 { queue.push(job(number), priority: .normal, owner: waiter(of: 2).owner) }
        queue.join(job(12), waiter(of: 1).owner)
        expectNext(11, in: &queue)
        expectNext(12, in: &queue, afterEndOf: 11)
    }

    @Test func `a job that was another user's is so again when its user is at its share`() {
        var queue = queue(running: 3)
        for number in 11...13 { queue.push(job(number), priority: .normal, owner: waiter(of: 2).owner) }
        // By way of a third user, who has left.
        queue.push(job(21), priority: .normal, owner: waiter(of: 3).owner)
        queue.join(job(13), waiter(of: 3).owner)
        for number in 22...24 { queue.push(job(number), priority: .normal, owner: waiter(of: 3).owner) }
        queue.join(job(13), waiter(of: 1).owner)
        for number in 21...24 { queue.remove(job(number)) }
        queue.change(job(13), to: .low)
        expectNext(4, 11, in: &queue)
        expectNext(12, in: &queue, afterEndOf: 11)
        expectNext(13, in: &queue, afterEndOf: 12)
    }

    @Test func `a job that was another user's is so again when its group is full for its user`() {
        var queue = JobQueue(limit: 100, groupLimit: 5)
        for number in 1...5 { queue.push(job(number), priority: .normal, owner: waiter(of: 1).owner, group: "a") }
        for number in 1...3 { expectNext(number, in: &queue) }
        for number in 11...13 { queue.push(job(number), priority: .normal, owner: waiter(of: 2).owner, group: "a") }
        queue.join(job(13), waiter(of: 1).owner)
        queue.change(job(4), to: .high)
        expectNext(4, 11, nil, in: &queue)
        queue.remove(job(12))
        expectNext(13, nil, in: &queue, afterEndOf: 11)
    }

    @Test func `a job of a user at its share is that of a joiner who has more`() {
        var queue = JobQueue(limit: 20)
        for number in 1...17 { queue.push(job(number), priority: .normal, owner: waiter(of: 1).owner) }
        for number in 1...16 { expectNext(number, in: &queue) }
        for number in 21...23 { queue.push(job(number), priority: .normal, owner: waiter(of: 2).owner) }
        expectNext(21, in: &queue)
        queue.join(job(17), waiter(of: 2).owner)
        expectNext(17, in: &queue)
    }

    // MARK: Shares

    @Test func `a user gets four times the running jobs that remain, an administrator all`() {
        for limit in 1...64 {
            var queue = JobQueue(limit: limit)
            for number in 1...100 { queue.push(job(number), priority: .high, owner: owner(1, of: 1, isAdmin: false)) }
            var running = 0
            while running < limit, queue.pop() != nil { running += 1 }
            #expect(running == max(1, limit * 4 / 5))
            // Another user is not delayed.
            queue.push(job(201), priority: .low, owner: owner(2, of: 2, isAdmin: false))
            if limit > 1 { expectNext(201, in: &queue) }
            for number in 301...400 { queue.push(job(number), priority: .low, owner: owner(3, of: 3)) }
            while running < limit, queue.pop() != nil { running += 1 }
            #expect(running == limit)
            #expect(queue.brokenInvariant() == nil)
        }
    }

    @Test func `a user at its share is brought back when a job ends`() {
        var queue = JobQueue(limit: 10)
        for number in 1...20 { queue.push(job(number), priority: .normal, owner: owner(1, of: 1, isAdmin: false)) }
        expectNext(1, 2, 3, 4, 5, 6, 7, 8, nil, in: &queue)
        queue.push(job(21), priority: .normal, owner: owner(2, of: 2, isAdmin: false))
        expectNext(21, nil, in: &queue)
        // One place remains free, so the user may have four of the rest.
        expectNext(nil, in: &queue, afterEndOf: 1)
        expectNext(9, nil, in: &queue, afterEndOf: 21)
    }

    @Test func `a group can be given another limit while its jobs run`() {
        var queue = JobQueue(groupLimit: 2)
        for number in 1...9 { queue.push(job(number), priority: .normal, owner: owner(1), group: "a") }
        for number in 11...19 { queue.push(job(number), priority: .low, owner: owner(1), group: "b") }
        expectNext(1, 2, 11, 12, nil, in: &queue)
        queue.limit("a", to: 5)
        expectNext(3, 4, 5, nil, in: &queue)
        queue.limit("a", to: nil)
        for number in 1...3 { queue.jobEnded(job(number)) }
        // Two of them still run.
        expectNext(nil, in: &queue)
        expectNext(6, nil, in: &queue, afterEndOf: 4)
        // It is remembered while no job runs.
        queue.limit("c", to: 3)
        for number in 21...29 { queue.push(job(number), priority: .high, owner: owner(1), group: "c") }
        expectNext(21, 22, 23, nil, in: &queue)
        // Also by a group whose jobs run, when very many are remembered.
        for number in 0..<2000 { queue.limit("other \(number)", to: 3) }
        queue.limit("c", to: nil)
        expectNext(nil, in: &queue, afterEndOf: 21)
    }

    @Test func `a user has its share of an origin, and others of the rest`() {
        var queue = JobQueue(groupLimit: 6)
        for number in 1...9 {
            queue.push(job(number), priority: .high, owner: owner(1, of: 1, isAdmin: false), group: "a")
        }
        expectNext(1, 2, 3, 4, nil, in: &queue)
        queue.push(job(10), priority: .normal, owner: owner(1, of: 1, isAdmin: false), group: "b")
        queue.push(job(11), priority: .low, owner: owner(2, of: 2, isAdmin: false), group: "a")
        expectNext(10, 11, nil, in: &queue)
        // A fifth one would leave one place.
        expectNext(nil, in: &queue, afterEndOf: 11)
        expectNext(5, nil, in: &queue, afterEndOf: 1)
        // An administrator may have the last place.
        for number in 21...22 { queue.push(job(number), priority: .low, owner: owner(3, of: 3), group: "a") }
        expectNext(21, 22, nil, in: &queue)
    }

    @Test func `an origin's free place goes to another when its next user is at the share of all`() {
        var queue = JobQueue(limit: 10, groupLimit: 1)
        let (first, second) = (owner(1, of: 1, isAdmin: false), owner(2, of: 2, isAdmin: false))
        queue.push(job(1), priority: .normal, owner: first, group: "a")
        expectNext(1, nil, in: &queue)
        queue.push(job(2), priority: .low, owner: first, group: "a")
        queue.push(job(3), priority: .normal, owner: second, group: "a")
        expectNext(nil, in: &queue)
        for number in 11...20 { queue.push(job(number), priority: .high, owner: first) }
        // The place is offered to the first user, which takes its share with other jobs.
        expectNext(11, 12, 13, 14, 15, 16, 17, 18, 3, nil, in: &queue, afterEndOf: 1)
    }

    // MARK: Priorities

    @Test func `a lower priority is not starved at a busy origin`() {
        var queue = JobQueue(groupLimit: 1)
        queue.push(job(1), priority: .high, owner: owner(1), group: "a")
        queue.push(job(1000), priority: .low, owner: owner(2), group: "a")
        expectNext(1, nil, in: &queue)
        // Each time the origin is free, another high-priority job has just arrived.
        var (rounds, running) = (0, job(1))
        for number in 2..<100 {
            queue.push(job(number), priority: .high, owner: owner(1), group: "a")
            queue.jobEnded(running)
            rounds += 1
            guard let next = queue.pop(), next != job(1000) else { break }
            running = next
            if number % 2 == 0 { expectNext(nil, in: &queue) }
        }
        #expect(rounds == 8)
    }

    /// A queue with jobs of one group, of which the first one runs.
    private func deferred(_ count: Int, _ priority: GetOptions.Priority = .normal) -> JobQueue {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...count { queue.push(job(number), priority: priority, owner: JobOwner(), group: "a") }
        expectNext(1, nil, in: &queue)
        return queue
    }

    @Test(arguments: [(GetOptions.Priority.normal, [4, 3, 2]), (.low, [4, 2, 3])])
    func `a job that is set aside may become the first or the last of its group`(
        priority: GetOptions.Priority, order: [Int]
    ) {
        var queue = deferred(4, priority)
        queue.change(job(2), to: .low)
        queue.change(job(4), to: .high)
        #expect(oneByOne(&queue, after: 1) == order && queue.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a group's free place is not lost when the job that was to have it is lowered or cancelled`(
        isCancelled: Bool
    ) {
        var queue = deferred(3)
        queue.jobEnded(job(1))
        if isCancelled { queue.remove(job(2)) } else { queue.change(job(2), to: .low) }
        expectNext(3, in: &queue)
    }

    // MARK: Histories

    @Test(
        arguments: [BrokerLimits.QueueOrder.fifo, .lifo],
        [RandomRun.Bounds(), .init(group: 2), .init(all: 8, group: 3)])
    func `random steps have the result of a plain list`(order: BrokerLimits.QueueOrder, bounds: RandomRun.Bounds) {
        for seed in 0..<10 {
            var run = RandomRun(order: order, bounds: bounds, users: 1 + seed % 5, seed: UInt64(seed))
            for _ in 0..<800 { run.step() }
            run.drain()
        }
    }

    /// Nearly all jobs belong to one origin, so they are deferred by its limit.
    @Test(.timeLimit(.minutes(10)), arguments: [1, 5000]) func `a full queue of one origin is worked off`(users: Int) {
        var queue = JobQueue(limit: 64, groupLimit: 6)
        for number in 0..<16_384 {
            let group = number % 100 == 0 ? "b\(number)" : "a"
            let owner = owner(number % 5000, of: UInt32(number % users), isAdmin: false)
            queue.push(job(number), priority: .normal, owner: owner, group: group)
        }
        while let job = queue.pop() { if job.number % 100 == 0 { queue.jobEnded(job) } }
        for number in stride(from: 1, to: 16_384, by: 3) { queue.remove(job(number)) }
        for number in stride(from: 2, to: 16_384, by: 3) { queue.change(job(number), to: .low) }
        for _ in 0..<16_384 where !queue.isEmpty {
            if let ended = queue.runningIDs.first { queue.jobEnded(ended) }
            while queue.pop() != nil {}
        }
        #expect(queue.isEmpty)
    }
}

private func job(_ number: Int) -> JobID { JobID(number: number) }

/// The owner of a job, by default of one user without a share.
private func owner(_ client: Int, of uid: UInt32 = 1000, isAdmin: Bool = true) -> JobOwner {
    JobOwner(user: JobOwner.User(uid: uid, isAdmin: isAdmin), client: ClientID(number: client))
}

/// Checks the next jobs, after the end of another, or of the only user with permission, if one is given; nil for none.
private func expectNext(
    _ expected: Int?..., in queue: inout JobQueue, afterEndOf ended: Int? = nil, of user: UInt32? = nil,
    at location: SourceLocation = #_sourceLocation
) {
    if let ended { queue.jobEnded(job(ended)) }
    for expected in expected {
        let next = queue.pop { user == nil || $0.uid == user }
        #expect(next?.number == expected, sourceLocation: location)
    }
    #expect(queue.brokenInvariant() == nil, sourceLocation: location)
}

/// Ends the running job and starts the next until none is left; returns the order.
private func oneByOne(_ queue: inout JobQueue, after first: Int) -> [Int] {
    var order: [Int] = []
    queue.jobEnded(job(first))
    while let next = queue.pop() {
        order.append(next.number)
        #expect(queue.pop() == nil)
        queue.jobEnded(next)
    }
    return order
}

/// Runs the same steps on a queue and on a plain list.
struct RandomRun {
    struct Bounds {
        var all = Int.max
        var group = Int.max
    }

    private struct Waiting {
        let job: JobID
        var priority: GetOptions.Priority
        let owner: JobOwner
        let group: String?
        let isFront: Bool
        let arrival: Int

        var user: JobOwner.User { owner.user }
    }

    /// A priority of a user's jobs.
    private struct Line: Hashable {
        let user: JobOwner.User
        let priority: GetOptions.Priority
    }

    private let order: BrokerLimits.QueueOrder
    private let bounds: Bounds
    private let users: Int
    private var queue: JobQueue
    private var random: SplitMix64
    private var list: [Waiting] = []
    private var running: [Waiting] = []
    private var passed: [Line: Int] = [:]
    /// The round-robin order of users, and of each line's clients, next one first.
    private var userTurns: [JobOwner.User] = []
    private var turns: [Line: [ClientID?]] = [:]
    private var last = 0

    init(order: BrokerLimits.QueueOrder, bounds: Bounds, users: Int, seed: UInt64) {
        (self.order, self.bounds, self.users) = (order, bounds, users)
        queue = JobQueue(limit: bounds.all, groupLimit: bounds.group, order: order)
        random = SplitMix64(state: seed)
    }

    mutating func step() {
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3: push()
        case 4:
            guard let index = list.indices.randomElement(using: &random) else { break }
            let gone = list.remove(at: index)
            queue.remove(gone.job)
            settle()
        case 5:
            guard let index = list.indices.randomElement(using: &random) else { break }
            let priority = GetOptions.Priority.allCases.randomElement(using: &random) ?? .low
            queue.change(list[index].job, to: priority)
            if priority == list[index].priority { break }
            if list[index].isFront {
                list[index].priority = priority
                break
            }
            var changed = list.remove(at: index)
            settle()
            changed.priority = priority
            add(changed)
        case 6...7: end()
        default: pop()
        }
        #expect(queue.count == list.count)
        if let broken = queue.brokenInvariant() { complain("\(broken)") }
    }

    mutating func drain() {
        #expect(list.allSatisfy { queue.contains($0.job) })
        for _ in 0..<2 * last where !list.isEmpty {
            pop()
            end()
        }
        #expect(list.isEmpty)
        #expect(queue.isEmpty)
    }

    private mutating func push() {
        last += 1
        let group = bounds.group == .max ? nil : ["a", "b", "c", nil].randomElement(using: &random) ?? nil
        let uid = UInt32.random(in: 1...UInt32(users), using: &random)
        let waiting = Waiting(
            job: job(last), priority: GetOptions.Priority.allCases.randomElement(using: &random) ?? .low,
            // The first user is an administrator.
            owner: owner(Int.random(in: 1...4, using: &random), of: uid, isAdmin: uid == 1), group: group,
            isFront: random.once(in: 10), arrival: last)
        queue.push(
            waiting.job, priority: waiting.priority, owner: waiting.owner, group: group, atFront: waiting.isFront)
        add(waiting)
    }

    private mutating func add(_ waiting: Waiting) {
        list.append(waiting)
        if waiting.isFront { return }
        let line = Line(user: waiting.user, priority: waiting.priority)
        if self.line(line).count == 1 { passed[line] = 0 }
        if !userTurns.contains(waiting.user) { userTurns.append(waiting.user) }
        if turns[line]?.contains(waiting.owner.client) != true { turns[line, default: []].append(waiting.owner.client) }
    }

    private func line(_ line: Line) -> [Waiting] {
        list.filter { $0.user == line.user && $0.priority == line.priority && !$0.isFront }
    }

    /// Removes users and clients without waiting jobs from the round-robin orders.
    private mutating func settle() {
        for line in turns.keys {
            let left = Set(self.line(line).map(\.owner.client))
            turns[line]?.removeAll { !left.contains($0) }
        }
        let left = Set(list.filter { !$0.isFront }.map(\.user))
        userTurns.removeAll { !left.contains($0) }
    }

    private mutating func end() {
        guard let index = running.indices.randomElement(using: &random) else { return }
        queue.jobEnded(running.remove(at: index).job)
    }

    private func mayRun(_ waiting: Waiting) -> Bool {
        func isWithinShare(_ running: [Waiting], _ limit: Int) -> Bool {
            let own = running.count { $0.user == waiting.user }
            return waiting.user.isAdmin || waiting.isFront || own == 0
                || own + 1 <= 4 * min(limit - 1 - running.count, 1 << 20)
        }
        let inGroup = running.filter { $0.group == waiting.group }
        return isWithinShare(running, bounds.all)
            && (waiting.group == nil || inGroup.count < bounds.group && isWithinShare(inGroup, bounds.group))
    }

    private mutating func pop() {
        if running.count >= bounds.all { return }
        let eligible = list.filter { mayRun($0) }
        let popped = queue.pop()
        if eligible.isEmpty {
            #expect(popped == nil)
            return
        }
        guard let taken = eligible.first(where: { $0.job == popped }) else {
            return complain("\(popped.map(\.description) ?? "nothing") came, which may not run")
        }
        let line = Line(user: taken.user, priority: taken.priority)
        #expect(taken.isFront == eligible.contains(where: \.isFront))
        if !taken.isFront {
            // A group's free place is offered to one user after the other.
            if bounds.group == .max || users == 1 { #expect(taken.priority == priority(of: taken.user, eligible)) }
            if bounds.group == .max { #expect(taken.job == expected()) }
        }
        list.removeAll { $0.job == taken.job }
        running.append(taken)
        settle()
        if taken.isFront { return }
        if let place = userTurns.firstIndex(of: taken.user) { userTurns.append(userTurns.remove(at: place)) }
        if let place = turns[line]?.firstIndex(of: taken.owner.client), let client = turns[line]?.remove(at: place) {
            turns[line]?.append(client)
        }
        passed[line] = 0
        for lower in GetOptions.Priority.allCases where lower < taken.priority {
            let lower = Line(user: taken.user, priority: lower)
            if !self.line(lower).isEmpty { passed[lower, default: 0] += 1 }
        }
    }

    private func priority(of user: JobOwner.User, _ eligible: [Waiting]) -> GetOptions.Priority? {
        let isStarving = GetOptions.Priority.allCases.filter { passed[Line(user: user, priority: $0), default: 0] >= 8 }
        return (isStarving + GetOptions.Priority.allCases.reversed()).first { priority in
            eligible.contains { $0.user == user && $0.priority == priority && !$0.isFront }
        }
    }

    /// The job that comes next where there are no groups.
    private func expected() -> JobID? {
        let eligible = list.filter { mayRun($0) && !$0.isFront }
        guard let user = userTurns.first(where: { user in eligible.contains { $0.user == user } }),
            let priority = priority(of: user, eligible)
        else { return nil }
        let line = Line(user: user, priority: priority)
        let own = self.line(line).filter { $0.owner.client == turns[line]?.first }.sorted { $0.arrival < $1.arrival }
        return order == .fifo ? own.first?.job : own.last?.job
    }
}

struct JobWaitersTests {
    /// Few are searched for, and more are found by a table; those that have left are taken out in bulk.
    @Test(arguments: [10, 100]) func `random steps have the result of a plain list`(most: Int) {
        var random = SplitMix64(state: UInt64(most))
        var (waiters, list): (JobWaiters, [JobWaiter]) = ([], [])
        for number in 1...2000 {
            if list.isEmpty || list.count < most && random.once(in: 2) {
                let waiter = jobWaiter(number, priority: random.pick(GetOptions.Priority.allCases))
                waiters.append(waiter)
                list.append(waiter)
            } else {
                let place = Int.random(in: list.indices, using: &random)
                let id = list[place].id
                if random.once(in: 3) {
                    list[place].priority = random.pick(GetOptions.Priority.allCases)
                    waiters.setPriority(list[place].priority, of: id)
                } else {
                    list.remove(at: place)
                    waiters.remove(id)
                    #expect(!waiters.contains(id))
                }
            }
            #expect(
                waiters.map(\.id) == list.map(\.id) && waiters.count == list.count && waiters.isEmpty == list.isEmpty
                    && waiters.first?.id == list.first?.id && waiters.last?.id == list.last?.id
                    && waiters.priority == list.map(\.priority).max() && list.allSatisfy { waiters.contains($0.id) })
        }
    }
}

/// The basic data structures of the state.
struct QueueTests {
    @Test func `deadlines come in the order of their instants`() {
        var random = SplitMix64(state: 3)
        var queue = MinHeap<Instant, Int>()
        let times = (0..<500).map { _ in Int64.random(in: 0...1000, using: &random) }
        for time in times { queue.add(Int(time), at: Instant(nanoseconds: time)) }
        #expect(queue.popDue(at: Instant(nanoseconds: -1)) == nil)
        var popped: [Int] = []
        while let next = queue.popDue(at: Instant(nanoseconds: 1000)) { popped.append(next) }
        #expect(popped == times.map(Int.init).sorted())
    }

    @Test func `a histogram's quantiles are right to six per cent`() {
        var histogram = LatencyHistogram()
        for value in 1...10_000 { histogram.record(microseconds: value) }
        let quantiles = histogram.quantiles(unit: 1)
        #expect(abs(quantiles.p50 - 5000) < 320)
        #expect(abs(quantiles.p90 - 9000) < 570)
        #expect(abs(quantiles.p99 - 9900) < 630)
        #expect(quantiles.max == 10_000)
        var small = LatencyHistogram()
        for _ in 0..<3 { small.record(microseconds: 5) }
        #expect(small.quantiles(unit: 1).p50 == 5)
        small.record(microseconds: .max)
        #expect(small.quantiles(unit: 1).max == Double(Int.max))
        #expect(LatencyHistogram().quantiles(unit: 1) == StatsReport.Quantiles())
    }
}

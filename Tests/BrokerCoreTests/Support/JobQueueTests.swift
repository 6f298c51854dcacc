import IPCProtocol
import Testing

@testable import BrokerCore

struct JobQueueTests {
    @Test func `jobs run by priority, then by arrival, and a group holds up only itself`() {
        var queue = JobQueue(groupLimit: 2)
        for number in 1...4 { queue.push(job(number), priority: .normal, client: nil, group: "a") }
        queue.push(job(5), priority: .low, client: nil, group: "b")
        queue.push(job(6), priority: .high, client: nil, group: "c")
        expectNext(6, 1, 2, 5, nil, in: &queue)
        queue.change(job(4), to: .high)
        expectNext(nil, in: &queue)
        queue.jobEnded(inGroup: "a")
        expectNext(4, in: &queue)
        queue.push(job(1), priority: .normal, client: nil, group: "a", atFront: true)
        queue.jobEnded(inGroup: "a")
        expectNext(1, in: &queue)
        queue.jobEnded(inGroup: "a")
        queue.remove(job(3))
        expectNext(nil, in: &queue)
        #expect(queue.isEmpty)
    }

    @Test func `clients are served by round-robin, however many jobs one has`() {
        var queue = JobQueue()
        for number in 1...4 { queue.push(job(number), priority: .normal, client: client(1)) }
        queue.push(job(5), priority: .normal, client: client(2))
        queue.push(job(6), priority: .normal, client: client(3))
        queue.push(job(7), priority: .normal, client: client(2))
        expectNext(1, 5, 6, 2, 7, 3, in: &queue)
        // A returning client is queued behind the waiting ones.
        queue.push(job(8), priority: .normal, client: client(3))
        expectNext(4, 8, nil, in: &queue)
    }

    @Test func `clients are served by round-robin within an origin too`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...9 { queue.push(job(number), priority: .normal, client: client(1), group: "a") }
        expectNext(1, nil, in: &queue)
        queue.push(job(10), priority: .normal, client: client(2), group: "a")
        queue.push(job(11), priority: .normal, client: client(2), group: "a")
        expectNext(nil, in: &queue)
        var order: [Int] = []
        for _ in 0..<5 {
            queue.jobEnded(inGroup: "a")
            if let next = queue.pop() { order.append(next.number) }
        }
        #expect(order == [2, 10, 3, 11, 4])
    }

    @Test func `the newest of a client's jobs comes first in the order lifo`() {
        var queue = JobQueue(order: .lifo)
        for number in 1...3 { queue.push(job(number), priority: .normal, client: client(1)) }
        for number in 4...5 { queue.push(job(number), priority: .normal, client: client(2)) }
        queue.push(job(6), priority: .normal, client: client(2), atFront: true)
        expectNext(6, 3, 5, 2, 4, 1, nil, in: &queue)
    }

    @Test func `a job that had been started comes before all others of its priority`() {
        var queue = JobQueue()
        queue.push(job(1), priority: .normal, client: client(1))
        queue.push(job(3), priority: .normal, client: client(2), atFront: true)
        queue.push(job(2), priority: .normal, client: client(2), atFront: true)
        queue.push(job(4), priority: .high, client: client(3))
        expectNext(4, 2, 3, 1, nil, in: &queue)
    }

    @Test func `at most eight jobs of a higher priority run before one of a lower`() {
        var queue = JobQueue()
        queue.push(job(1000), priority: .low, client: client(1))
        queue.push(job(1001), priority: .low, client: client(1))
        for number in 0..<40 { queue.push(job(number), priority: .high, client: client(2)) }
        var places: [Int] = []
        for place in 0..<42 where (queue.pop()?.number ?? 0) >= 1000 { places.append(place) }
        #expect(places == [8, 17])
    }

    @Test func `a lower priority is not starved at a busy origin`() {
        var queue = JobQueue(groupLimit: 1)
        queue.push(job(1), priority: .high, client: client(1), group: "a")
        queue.push(job(1000), priority: .low, client: client(2), group: "a")
        expectNext(1, nil, in: &queue)
        // Each time the origin is free, another high-priority job has just arrived.
        var rounds = 0
        for number in 2..<100 {
            queue.push(job(number), priority: .high, client: client(1), group: "a")
            queue.jobEnded(inGroup: "a")
            rounds += 1
            if queue.pop() == job(1000) { break }
            if number % 2 == 0 { expectNext(nil, in: &queue) }
        }
        #expect(rounds == 8)
    }

    @Test func `a priority goes up and down`() {
        var queue = JobQueue()
        for number in 1...4 { queue.push(job(number), priority: .normal, client: client(1)) }
        queue.change(job(3), to: .high)
        queue.change(job(1), to: .low)
        queue.change(job(5), to: .high)
        expectNext(3, 2, 4, 1, nil, in: &queue)
        for number in 1...3 { queue.push(job(number), priority: .normal, client: client(1)) }
        queue.change(job(1), to: .low)
        queue.change(job(1), to: .normal)
        expectNext(1, 2, 3, nil, in: &queue)
    }

    @Test func `a job that is set aside may become the first or the last of its group`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...4 { queue.push(job(number), priority: .normal, client: nil, group: "a") }
        expectNext(1, nil, in: &queue)
        queue.change(job(2), to: .low)
        queue.change(job(4), to: .high)
        for number in [4, 3, 2] {
            queue.jobEnded(inGroup: "a")
            expectNext(number, nil, in: &queue)
        }
    }

    @Test func `a group's free place is not lost when the job that was to have it gets a lower priority`() {
        var queue = JobQueue(groupLimit: 1)
        for number in 1...3 { queue.push(job(number), priority: .normal, client: nil, group: "a") }
        expectNext(1, nil, in: &queue)
        queue.jobEnded(inGroup: "a")
        queue.change(job(2), to: .low)
        expectNext(3, in: &queue)
    }

    @Test(arguments: [BrokerLimits.QueueOrder.fifo, .lifo], [Int.max, 2])
    func `random steps have the result of a plain list`(order: BrokerLimits.QueueOrder, groupLimit: Int) {
        for seed in 0..<6 {
            var run = RandomRun(order: order, groupLimit: groupLimit, seed: UInt64(seed))
            for _ in 0..<800 { run.step() }
            run.drain()
        }
    }

    /// Nearly all jobs belong to one origin, so they are deferred by its limit.
    @Test(.timeLimit(.minutes(10))) func `a full queue of one origin is worked off`() {
        var queue = JobQueue(groupLimit: 6)
        for number in 0..<16_384 {
            let group = number % 100 == 0 ? "b\(number)" : "a"
            queue.push(job(number), priority: .normal, client: client(number % 5000), group: group)
        }
        while queue.pop() != nil {}
        for number in stride(from: 1, to: 16_384, by: 3) { queue.remove(job(number)) }
        for number in stride(from: 2, to: 16_384, by: 3) { queue.change(job(number), to: .low) }
        for _ in 0..<16_384 where !queue.isEmpty {
            queue.jobEnded(inGroup: "a")
            while queue.pop() != nil {}
        }
        #expect(queue.isEmpty)
    }
}

private func job(_ number: Int) -> JobID { JobID(number: number) }
private func client(_ number: Int) -> ClientID { ClientID(number: number) }

private func expectNext(
    _ expected: Int?..., in queue: inout JobQueue, at location: SourceLocation = #_sourceLocation
) {
    for expected in expected {
        let next = queue.pop()
        #expect(next?.number == expected, sourceLocation: location)
    }
}

/// Runs the same steps on a queue and on a plain list.
private struct RandomRun {
    struct Waiting {
        let job: JobID
        var priority: GetOptions.Priority
        let client: ClientID
        let group: String?
        let isFront: Bool
        let arrival: Int
    }

    let order: BrokerLimits.QueueOrder
    let groupLimit: Int
    var queue: JobQueue
    var random: SplitMix64
    var list: [Waiting] = []
    var running: [Waiting] = []
    var passed: [GetOptions.Priority: Int] = [:]
    /// The round-robin order of clients for each priority, next one first.
    var turns: [GetOptions.Priority: [ClientID]] = [:]
    var last = 0

    init(order: BrokerLimits.QueueOrder, groupLimit: Int, seed: UInt64) {
        (self.order, self.groupLimit) = (order, groupLimit)
        queue = JobQueue(groupLimit: groupLimit, order: order)
        random = SplitMix64(state: seed)
    }

    mutating func step() {
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3: push()
        case 4:
            guard let index = list.indices.randomElement(using: &random) else { break }
            let gone = list.remove(at: index)
            queue.remove(gone.job)
            settle(gone.priority)
        case 5:
            guard let index = list.indices.randomElement(using: &random) else { break }
            let priority = GetOptions.Priority.allCases.randomElement(using: &random) ?? .low
            let before = list[index].priority
            queue.change(list[index].job, to: priority)
            if priority == before { break }
            var changed = list.remove(at: index)
            settle(before)
            changed.priority = priority
            add(changed)
        case 6...7: end()
        default: pop()
        }
        #expect(queue.count == list.count)
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
        let group = groupLimit == .max ? nil : ["a", "b", "c", nil].randomElement(using: &random) ?? nil
        let waiting = Waiting(
            job: job(last), priority: GetOptions.Priority.allCases.randomElement(using: &random) ?? .low,
            client: client(Int.random(in: 1...4, using: &random)), group: group,
            isFront: Int.random(in: 0..<10, using: &random) == 0, arrival: last)
        queue.push(
            waiting.job, priority: waiting.priority, client: waiting.client, group: group, atFront: waiting.isFront)
        add(waiting)
    }

    private mutating func add(_ waiting: Waiting) {
        if !list.contains(where: { $0.priority == waiting.priority }) { passed[waiting.priority] = 0 }
        if !waiting.isFront, turns[waiting.priority]?.contains(waiting.client) != true {
            turns[waiting.priority, default: []].append(waiting.client)
        }
        list.append(waiting)
    }

    /// Removes clients without waiting jobs from the round-robin order.
    private mutating func settle(_ priority: GetOptions.Priority) {
        let left = Set(list.filter { $0.priority == priority && !$0.isFront }.map(\.client))
        turns[priority]?.removeAll { !left.contains($0) }
    }

    private mutating func end() {
        guard let index = running.indices.randomElement(using: &random) else { return }
        queue.jobEnded(inGroup: running.remove(at: index).group)
    }

    private mutating func pop() {
        let full = Dictionary(grouping: running, by: \.group).filter { $0.key != nil && $0.value.count >= groupLimit }
        let eligible = list.filter { full[$0.group] == nil }
        let popped = queue.pop()
        let isStarving = GetOptions.Priority.allCases.filter { passed[$0, default: 0] >= 8 }
        let priority = (isStarving + GetOptions.Priority.allCases.reversed()).first { priority in
            eligible.contains { $0.priority == priority }
        }
        guard let priority else {
            #expect(popped == nil)
            return
        }
        guard let taken = eligible.first(where: { $0.job == popped }) else {
            Issue.record("\(popped.map(\.description) ?? "nothing") came, which may not run")
            return
        }
        #expect(taken.priority == priority)
        // Deferred jobs alternate within their origin, not across all origins.
        if groupLimit == .max { #expect(taken.job == expected(priority)) }
        list.removeAll { $0.job == taken.job }
        running.append(taken)
        settle(priority)
        if !taken.isFront, let place = turns[priority]?.firstIndex(of: taken.client) {
            turns[priority]?.remove(at: place)
            turns[priority]?.append(taken.client)
        }
        passed[priority] = 0
        for lower in GetOptions.Priority.allCases
        where lower < priority && list.contains(where: { $0.priority == lower }) {
            passed[lower, default: 0] += 1
        }
    }

    private func expected(_ priority: GetOptions.Priority) -> JobID? {
        let line = list.filter { $0.priority == priority }
        if let front = line.filter(\.isFront).max(by: { $0.arrival < $1.arrival }) { return front.job }
        let own = line.filter { $0.client == turns[priority]?.first }.sorted { $0.arrival < $1.arrival }
        return order == .fifo ? own.first?.job : own.last?.job
    }
}

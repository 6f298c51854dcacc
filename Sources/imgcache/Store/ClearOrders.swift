/// Clear orders that are not complete yet. Entries that an order covers count as removed from the moment it was taken.
struct ClearOrders {
    private struct Order {
        /// The job to answer; nil when it was answered, or nothing waits.
        var job: Int?
        /// Whether all entries that existed then are covered, and not only unused ones.
        let isForAll: Bool
        /// Entries last used at this time or before are covered.
        let usedUntil: Int
        var removed = 0
        var bytes = 0
    }

    private var orders: [Order] = []
    private var answers: [(job: Int, removed: Int, bytes: Int)] = []
    private var latest = 0
    /// Whether a file could not be removed. Clearing continues when the obstacle is gone.
    var isStalled = false

    /// A time for new entries, at least `now`, that no pending order covers.
    func timeAfter(_ now: Int) -> Int { max(now, latest + 1) }

    /// Takes the order to clear everything that was written or used until `time`; without a job, it has no answer.
    mutating func insertAll(job: Int?, until time: Int) {
        latest = max(latest, time)
        orders.append(Order(job: job, isForAll: true, usedUntil: time))
    }

    /// Takes the order to clear everything last used at `time` or before.
    mutating func insert(job: Int?, usedUntil time: Int) {
        orders.append(Order(job: job, isForAll: false, usedUntil: time))
    }

    /// Answers an order that can never be carried out.
    mutating func answer(job: Int?) { if let job { answers.append((job, 0, 0)) } }

    var isEmpty: Bool { orders.isEmpty }

    var next: Int? { orders.first?.usedUntil }

    var latestUse: Int? { orders.map(\.usedUntil).max() }

    /// The index of the first order that covers an entry. `created` is when the entry was written, `used` its last use
    /// according to the index, and `modified` the file's time, which stands for the last use where the index has none.
    func orderCovering(created: Int, used: Int?, modified: Int) -> Int? {
        orders.firstIndex { order in
            if let used, used <= order.usedUntil { return true }
            return order.isForAll ? created <= order.usedUntil : (used ?? modified) <= order.usedUntil
        }
    }

    /// Counts entries of a kind that were removed for an order.
    mutating func count(_ kind: EntryKind, entries: Int = 1, bytes: Int, forOrder index: Int) {
        orders[index].removed += kind == .originals ? entries : 0
        orders[index].bytes += bytes
    }

    mutating func finishFirst() {
        answer(0)
        orders.removeFirst()
    }

    /// Answers all orders although files are left, which count as removed: no waiter should wait for the obstacle.
    mutating func stall() {
        isStalled = true
        for index in orders.indices { answer(index) }
    }

    private mutating func answer(_ index: Int) {
        guard let job = orders[index].job else { return }
        answers.append((job, orders[index].removed, orders[index].bytes))
        orders[index].job = nil
    }

    mutating func takeAnswers() -> [(job: Int, removed: Int, bytes: Int)] {
        defer { answers = [] }
        return answers
    }
}

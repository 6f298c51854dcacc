/// Orders to clear that are not carried out yet. What they mean counts as gone from the moment they were taken.
struct ClearOrders {
    private struct Order {
        /// To whom the answer is due; nil when it has been given.
        var job: Int?
        /// Whether everything is meant that was there.
        let isForAll: Bool
        /// What was last used then or before is meant.
        let usedUntil: Int
        var removed = 0
        var bytes = 0
    }

    private var orders: [Order] = []
    private var answers: [(job: Int, removed: Int, bytes: Int)] = []
    private var latest = 0
    /// Something could not be removed. It is tried again when there is hope.
    var isStalled = false

    /// A time by which what happens at `now` is not taken for something that was to be cleared.
    func timeAfter(_ now: Int) -> Int {
        max(now, latest + 1)
    }

    /// Takes the order to clear everything that was written or used until `time`.
    mutating func insertAll(job: Int, until time: Int) {
        latest = max(latest, time)
        orders.append(Order(job: job, isForAll: true, usedUntil: time))
    }

    /// Takes the order to clear what was last used at `time` or before.
    mutating func insert(job: Int, usedUntil time: Int) {
        orders.append(Order(job: job, isForAll: false, usedUntil: time))
    }

    /// Answers an order of which nothing can be carried out, ever.
    mutating func answer(job: Int) {
        answers.append((job, 0, 0))
    }

    var isEmpty: Bool { orders.isEmpty }

    /// By which last use entries are meant by the first order; nil when there is none.
    var next: Int? { orders.first?.usedUntil }

    /// By which last use entries are meant by any order; nil when there is none.
    var latestUse: Int? { orders.map(\.usedUntil).max() }

    /// Which order, counted from the first, means an entry that was written at `created` and last used at `used`, so the index says, or else
    /// last changed at `modified`.
    func orderMeaning(created: Int, used: Int?, modified: Int) -> Int? {
        orders.firstIndex { order in
            if let used, used <= order.usedUntil { return true }
            return order.isForAll ? created <= order.usedUntil : (used ?? modified) <= order.usedUntil
        }
    }

    /// Counts a file that was removed for an order.
    mutating func count(_ kind: EntryKind, bytes: Int, forOrder index: Int) {
        orders[index].removed += kind == .originals ? 1 : 0
        orders[index].bytes += bytes
    }

    /// The first order has been carried out.
    mutating func finishFirst() {
        answer(0)
        orders.removeFirst()
    }

    /// Something cannot be removed: what is left stays as if it were gone, and nobody waits for it.
    mutating func stall() {
        isStalled = true
        for index in orders.indices { answer(index) }
    }

    private mutating func answer(_ index: Int) {
        guard let job = orders[index].job else { return }
        answers.append((job, orders[index].removed, orders[index].bytes))
        orders[index].job = nil
    }

    /// The answers that have become due.
    mutating func takeAnswers() -> [(job: Int, removed: Int, bytes: Int)] {
        defer { answers = [] }
        return answers
    }
}

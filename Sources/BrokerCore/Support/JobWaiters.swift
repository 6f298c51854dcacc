import IPCProtocol
import SystemValues

/// The waiters of a job by arrival. Each joins, leaves and changes in constant time: there may be thousands.
struct JobWaiters: Sequence, ExpressibleByArrayLiteral {
    /// Nil for those that have left, which are fewer than half.
    private var slots: [JobWaiter?] = []
    /// The slots of the waiters, if there are more than `few`.
    private var places: [WaiterID: Int] = [:]
    private var gone = 0
    /// The first slot that is not nil.
    private var head = 0
    /// The number of waiters with each priority.
    private var counts = SIMD4<Int32>()

    /// A search in so many takes as long as a look into a table.
    private static let few = 16

    init(_ waiters: some Sequence<JobWaiter>) { for waiter in waiters { append(waiter) } }
    init(arrayLiteral waiters: JobWaiter...) { self.init(waiters) }

    var count: Int { slots.count - gone }
    var isEmpty: Bool { count == 0 }
    var first: JobWaiter? { isEmpty ? nil : slots[head] }
    var last: JobWaiter? { slots.last { $0 != nil } ?? nil }

    /// The highest priority; nil when there are no waiters.
    var priority: GetOptions.Priority? { GetOptions.Priority.allCases.last { counts[UserQueue.level(of: $0)] > 0 } }

    func contains(_ id: WaiterID) -> Bool { place(of: id) != nil }

    private func place(of id: WaiterID) -> Int? {
        slots.count > Self.few ? places[id] : slots.firstIndex { $0?.id == id }
    }

    mutating func append(_ waiter: JobWaiter) {
        slots.append(waiter)
        counts[UserQueue.level(of: waiter.priority)] += 1
        if slots.count == Self.few + 1 {
            index()
        } else if slots.count > Self.few {
            places[waiter.id] = slots.count - 1
        }
    }

    mutating func remove(_ id: WaiterID) {
        guard let place = place(of: id), let waiter = slots[place] else { return }
        counts[UserQueue.level(of: waiter.priority)] -= 1
        slots[place] = nil
        places[id] = nil
        gone += 1
        if gone * 2 >= slots.count {
            slots.removeAll { $0 == nil }
            (gone, head) = (0, 0)
            index()
        }
        while head < slots.count, slots[head] == nil { head += 1 }
    }

    mutating func setPriority(_ priority: GetOptions.Priority, of id: WaiterID) {
        guard let place = place(of: id), let old = slots[place]?.priority else { return }
        slots[place]?.priority = priority
        counts[UserQueue.level(of: old)] -= 1
        counts[UserQueue.level(of: priority)] += 1
    }

    private mutating func index() {
        places = [:]
        if slots.count <= Self.few { return }
        for (place, waiter) in slots.enumerated() { if let waiter { places[waiter.id] = place } }
    }

    func makeIterator() -> some IteratorProtocol<JobWaiter> { slots[head...].lazy.compactMap { $0 }.makeIterator() }
}

/// The parts of a waiter that its job needs to schedule itself and to time out.
struct JobWaiter {
    let id: WaiterID
    let client: ClientID
    let uid: UInt32
    var priority: GetOptions.Priority
    /// The longest silence of the origin that it accepts, in milliseconds.
    let silenceMs: Int
    /// When it gives up.
    let deadline: Instant
    var isAdmin = false
    /// The retries that it accepts; nil for the broker's.
    var retries: Int?
    /// Whether it waits for an origin that asked not to be contacted for a time.
    var isPatient = true
    /// When it began to wait.
    var since = Instant(nanoseconds: 0)

    /// Returns the retries that it accepts of a broker that makes at most `limit`.
    func retries(of limit: Int) -> Int { min(retries ?? limit, limit) }

    /// The owner of a job that it starts.
    var owner: JobOwner { JobOwner(user: JobOwner.User(uid: uid, isAdmin: isAdmin), client: client) }
}

/// The client that a job is scheduled for, and its user. Jobs without one are scheduled as those of one more user.
struct JobOwner {
    /// A user to the queue. An administrator has no share of running jobs.
    struct User: Hashable {
        var uid: UInt32?
        var isAdmin = false

        /// The kernel tells the uid.
        func _rawHashValue(seed: Int) -> Int {
            multiplicativeHash(uid.map { Int($0) << 1 | (isAdmin ? 1 : 0) } ?? -1, seed: seed)
        }
    }

    var user = User()
    var client: ClientID?
}

import IPCProtocol
import SystemValues

/// The shared tier as the broker sees it: the lookups that go before downloads and before decodings into encoded
/// variants, the leases by which one broker downloads for all, and the records that are being written.
///
/// The tier helps and never hinders: a lookup that is not answered within `hedgeMs` is overtaken by its job, another
/// broker's lease is waited for no longer than half of the waiters' time, and without a process or a server everything
/// goes on as if there were no tier. The caller says whether the process is usable (`Supervision`).
package struct SharedTier {
    /// A step for the caller; they are carried out in order.
    enum Outcome: Equatable {
        /// The job, which has waited since then, goes on without the tier: to its origin or to a worker.
        case goOn(JobID, since: Instant)
        /// `timePassed` is to be called then.
        case wake(JobID, at: Instant)
        case renew(key: String, token: String)
        case release(key: String, token: String)
        case unresponsive
    }

    typealias Lease = SharedLoad.Lease

    /// The time after which a lookup is overtaken by its job.
    static let hedgeMs = 250
    /// The time after which a process that has not answered is replaced.
    static let patienceMs = 5_000
    /// The time between two renewals of a lease, which the process of the tier takes and prolongs for 10 s.
    static let renewalMs = 3_000
    /// The pause before the lease of another broker is looked at again: at least, and what chance adds at most.
    static let pollMs = (least: 25, added: 225)
    /// The most lookups that are unanswered at once: each may bring a body.
    static let maximumLookups = 256
    /// The most bytes that are being written; more are not shared.
    static let maximumWriting = 64 << 20
    /// The most records that wait to be removed, and those that one order names; it is to be shorter than a frame.
    static let maximumRemovals = 65_536
    static let removalsTogether = 4096

    /// By job.
    private var loads: [JobID: SharedLoad] = [:]
    var queue = JobQueue(limit: maximumLookups)
    /// The jobs of the unanswered lookups.
    private var jobs: [JobID: JobID] = [:]
    /// The unanswered lookups whose load has ended, with the leases that they may bring and that are not needed.
    private var orphans: [JobID: Lease?] = [:]
    /// The records that are being written, and the places and bytes that their users have of the bounds.
    private var writes: [JobID: (buffer: BufferID?, bytes: Int, user: JobOwner.User)] = [:]
    private var places: RunningShares
    private var writingBytes = 0
    private var bytesOfUsers: [JobOwner.User: Int] = [:]
    /// The keys of the records that wait to be removed.
    private var removals: ArraySlice<String> = []
    private var random: SplitMix64
    /// The part of the tokens that tells this broker from others.
    private let name: String
    private var lastToken = 0

    init(seed: UInt64, maximumWrites: Int = BrokerLimits().maxSharedWrites) {
        places = RunningShares(limit: maximumWrites)
        random = SplitMix64(state: seed)
        name = String(random.next(), radix: 16) + String(random.next(), radix: 16)
    }

    subscript(job: JobID) -> SharedLoad? { loads[job] }

    // MARK: Lookups

    /// Queues the lookup for a job, which waits for it: with a lease to take for a download, without one for a
    /// decoding.
    mutating func begin(
        _ job: JobID, key: String, takesLease: Bool = true, owner: JobOwner, priority: GetOptions.Priority,
        at now: Instant
    ) -> [Outcome] {
        lastToken += 1
        // A download waits for its turn no longer than it would for its transfer, which waits for the same. A decoding
        // may be what the lookups wait for.
        let due = takesLease ? Self.never : now.adding(milliseconds: Self.hedgeMs)
        loads[job] = SharedLoad(
            key: key, token: takesLease ? "\(name)-\(lastToken)" : nil, beganAt: now, stage: .queued, due: due,
            renewedAt: now)
        queue.push(job, priority: priority, owner: owner)
        return takesLease ? [] : [.wake(job, at: due)]
    }

    private static let never = Instant(nanoseconds: .max)

    /// Sends the lookup of a job that was popped. Returns its key, the token of the lease to take, and when it is
    /// overtaken.
    mutating func start(
        _ job: JobID, as lookup: JobID, at now: Instant
    ) -> (key: String, token: String?, due: Instant)? {
        guard let load = loads[job], load.stage == .queued else { return nil }
        // A decoding has waited for its turn already.
        let patience = now.adding(milliseconds: load.isPolling ? Self.patienceMs : Self.hedgeMs)
        let due = min(load.token == nil ? load.due : Self.never, patience)
        loads.change(job) { ($0.stage, $0.due) = (.asking(lookup), due) }
        jobs[lookup] = job
        return (load.key, load.token, due)
    }

    /// The job of a lookup that still matters.
    func job(of lookup: JobID) -> JobID? { jobs[lookup] }

    /// Takes an answer. With a record the load ends, and the caller makes it the job's result.
    mutating func answered(_ lookup: JobID, _ answer: SharedAnswer, at now: Instant) -> [Outcome] {
        if let orphan = orphans.removeValue(forKey: lookup) {
            guard answer == .leased, let lease = orphan else { return [] }
            return [.release(key: lease.key, token: lease.token)]
        }
        guard let job = jobs.removeValue(forKey: lookup), let load = loads[job] else { return [] }
        if load.isFirst { queue.jobEnded(job) }
        switch answer {
        case .record:
            loads[job] = nil
            return []
        case .leased where load.token != nil:
            loads.change(job) {
                $0.stage = .holding
                ($0.renewedAt, $0.due) = (now, now.adding(milliseconds: Self.renewalMs))
            }
            let wake = Outcome.wake(job, at: now.adding(milliseconds: Self.renewalMs))
            return load.isFirst ? [wake, .goOn(job, since: load.beganAt)] : [wake]
        case .busy where load.isFirst && load.token != nil:
            let pause = Self.pollMs.least + Int(random.next() % UInt64(Self.pollMs.added + 1))
            let next = now.adding(milliseconds: pause)
            loads.change(job) { ($0.stage, $0.due, $0.isPolling) = (.waiting, next, true) }
            return [.wake(job, at: next)]
        case .leased, .busy, .nothing:
            loads[job] = nil
            return load.isFirst ? [.goOn(job, since: load.beganAt)] : []
        }
    }

    /// Goes on with a load whose time has come. It waits for others until `patience`; `lastByte` is the origin's.
    mutating func timePassed(
        _ job: JobID, patience: Instant?, lastByte: Instant?, owner: JobOwner, priority: GetOptions.Priority,
        at now: Instant
    ) -> [Outcome] {
        guard let load = loads[job], load.due <= now else { return [] }
        func wake(in milliseconds: Int) -> Outcome {
            let due = now.adding(milliseconds: milliseconds)
            loads.change(job) { $0.due = due }
            return .wake(job, at: due)
        }
        switch load.stage {
        case .queued:
            _ = end(job)
            return [.goOn(job, since: load.beganAt)]
        case .asking where load.isPolling, .late: return [.unresponsive]
        case .asking(let lookup):
            loads.change(job) { $0.stage = .late(lookup) }
            // The next lookup gets its turn.
            queue.jobEnded(job)
            return [.goOn(job, since: load.beganAt), wake(in: Self.patienceMs - Self.hedgeMs)]
        case .waiting:
            guard let patience, now < patience else {
                loads[job] = nil
                return [.goOn(job, since: load.beganAt)]
            }
            loads.change(job) { ($0.stage, $0.due) = (.queued, Self.never) }
            queue.push(job, priority: priority, owner: owner)
            return []
        case .holding:
            // Only while bytes flow, so that a broker that hangs does not keep others waiting.
            let isActive = lastByte.map { $0 > load.renewedAt } ?? false
            if isActive { loads.change(job) { $0.renewedAt = now } }
            let renewal = load.lease.map { Outcome.renew(key: $0.key, token: $0.token) }
            return (isActive ? [renewal].compactMap { $0 } : []) + [wake(in: Self.renewalMs)]
        }
    }

    // MARK: Ends

    /// Takes out the load of a job. Returns the lease if this broker has it.
    mutating func end(_ job: JobID) -> Lease? {
        guard let load = loads.removeValue(forKey: job) else { return nil }
        switch load.stage {
        case .queued: queue.remove(job)
        case .asking(let lookup), .late(let lookup):
            if load.isFirst { queue.jobEnded(job) }
            jobs[lookup] = nil
            orphans[lookup] = .some(load.lease)
        case .waiting: break
        case .holding: return load.lease
        }
        return nil
    }

    /// Goes on without the process, which exited. Returns the buffers that were being written.
    mutating func processExited() -> (outcomes: [Outcome], buffers: [BufferID]) {
        var outcomes: [Outcome] = []
        for (job, load) in loads.sorted(by: { $0.key < $1.key }) where load.stage != .holding {
            if load.isFirst { outcomes.append(.goOn(job, since: load.beganAt)) }
            _ = end(job)
        }
        (jobs, orphans) = ([:], [:])
        let buffers = writes.keys.sorted().compactMap { written($0) }
        return (outcomes, buffers)
    }

    // MARK: Removing

    /// Queues the removal of records. Returns whether there was room for all.
    mutating func enqueue(removing keys: Set<String>) -> Bool {
        let room = Self.maximumRemovals - removals.count
        removals.append(contentsOf: keys.sorted().prefix(room))
        return keys.count <= room
    }

    var hasRemovals: Bool { !removals.isEmpty }

    mutating func popRemovals() -> [String]? {
        if !hasRemovals { return nil }
        let keys = removals.prefix(Self.removalsTogether)
        removals.removeFirst(keys.count)
        // A slice keeps what was taken from it.
        if removals.isEmpty { removals = [] }
        return Array(keys)
    }

    // MARK: Writing

    /// Whether a record with this many bytes may be written for a user, within its shares of both.
    func mayWrite(_ bytes: Int, for user: JobOwner.User) -> Bool {
        let left = Self.maximumWriting - writingBytes - bytes
        guard !places.isFull, places.permits(user), left >= 0 else { return false }
        let own = user.isAdmin ? 0 : bytesOfUsers[user] ?? 0
        return bytes == 0 || FairShare.permits(bytes, own: own, left: left, FairShare.ofUser)
    }

    /// Notes that a record is being written, with the bytes of a buffer or without.
    mutating func beginWriting(_ buffer: BufferID?, bytes: Int, for user: JobOwner.User, as job: JobID) {
        writes[job] = (buffer, bytes, user)
        places.add(user)
        writingBytes += bytes
        bytesOfUsers[user, default: 0] += bytes
    }

    /// Takes out a record that was written, or was not. Returns its buffer.
    mutating func written(_ job: JobID) -> BufferID? {
        guard let write = writes.removeValue(forKey: job) else { return nil }
        places.remove(write.user)
        writingBytes -= write.bytes
        bytesOfUsers[write.user, default: 0] -= write.bytes
        if places.users[write.user] == nil { bytesOfUsers[write.user] = nil }
        return write.buffer
    }

    func needs(_ buffer: BufferID) -> Bool { writes.values.contains { $0.buffer == buffer } }

    // MARK: Invariants

    var buffersBeingWritten: [BufferID] { writes.values.compactMap(\.buffer) }
    var runningJobs: Int { jobs.count + orphans.count + writes.count }
    var waitingJobs: Set<JobID> { Set(loads.filter(\.value.isFirst).keys) }
    var allJobs: Set<JobID> { Set(loads.keys) }

    func brokenInvariant() -> String? {
        let lookups = Set(loads.values.compactMap(\.lookup))
        if lookups != Set(jobs.keys) { return "a lookup without a load" }
        if jobs.contains(where: { loads[$1]?.lookup != $0 }) { return "a lookup of another load" }
        if queue.count != loads.values.count(where: { $0.stage == .queued }) { return "queue of lookups" }
        if let broken = queue.brokenInvariant() { return "queue of lookups: \(broken)" }
        if writingBytes != writes.values.reduce(0, { $0 + $1.bytes }) { return "bytes being written" }
        if places.total != writes.count || bytesOfUsers.keys != places.users.keys
            || bytesOfUsers.contains(where: { user, bytes in
                bytes != writes.values.reduce(0) { $0 + ($1.user == user ? $1.bytes : 0) }
            })
        {
            return "shares of what is being written"
        }
        return nil
    }
}

/// A job for which the shared tier is asked: a download, which this broker may make for the others, or a decoding into
/// an encoded variant, which each broker makes for itself if there is no record.
struct SharedLoad {
    enum Stage: Equatable {
        /// The lookup waits for its turn; the job waits for it. → `asking`.
        case queued
        /// The lookup was sent; the job waits for it. → `holding`, `waiting`, `late`; ends with a record.
        case asking(JobID)
        /// Another broker has the lease; the download waits. → `queued` (polls), ends when the waiters have no more
        /// patience.
        case waiting
        /// Late: the job goes on as well, and the first good answer wins. → `holding`; ends with a record or the job.
        case late(JobID)
        /// This broker has the lease, and asks the origin. Ends with the download.
        case holding
    }

    /// A lease as the servers know it, to be ended with or without a record.
    struct Lease: Equatable {
        let key: String
        let token: String
    }

    let key: String
    /// The lease's value while this broker has it, which no other download has; nil for a decoding, which takes no
    /// lease.
    let token: String?
    let beganAt: Instant
    var stage: Stage
    /// Whether another broker was found to have the lease, so that the download waits anyway, and a late answer costs
    /// nothing.
    var isPolling = false
    /// When the stage changes without an answer: the hedge, the next poll, or the next renewal.
    var due: Instant
    /// When the lease was last taken or prolonged.
    var renewedAt: Instant

    var lookup: JobID? {
        switch stage {
        case .asking(let lookup): lookup
        case .late(let lookup): lookup
        case .queued, .waiting, .holding: nil
        }
    }

    var lease: Lease? { token.map { Lease(key: key, token: $0) } }

    /// Whether the job waits for the tier.
    var isFirst: Bool {
        switch stage {
        case .queued, .asking, .waiting: true
        case .late, .holding: false
        }
    }
}

/// An answer to a lookup in the shared tier, as far as it concerns leases.
package enum SharedAnswer {
    /// There is a record that answers the request.
    case record
    /// The record is missing, and this broker has the lease now.
    case leased
    /// The record is missing, and another broker has the lease.
    case busy
    /// Neither a record nor a lease: the server does not answer, or the record is of no use.
    case nothing
}

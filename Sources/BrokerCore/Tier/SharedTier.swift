import IPCProtocol
import SystemValues

/// The shared tier as the broker sees it: the lookups that go before downloads, the leases by which one broker downloads for
/// all, and the records that are being written.
///
/// The tier helps and never hinders: a lookup that is not answered within `hedgeMs` is overtaken by the download, another
/// broker's lease is waited for no longer than half of the waiters' time, and without a process or a server everything goes
/// on as if there were no tier. The caller says whether the process is usable (`Supervision`).
package struct SharedTier {
    /// A step for the caller; they are carried out in order.
    enum Outcome: Equatable {
        /// The download goes to the origin now.
        case download(JobID)
        /// `timePassed` is to be called then.
        case wake(JobID, at: Instant)
        /// The lease is to be prolonged.
        case renew(key: String, token: String)
        /// The lease is to be ended.
        case release(key: String, token: String)
        /// The process has not answered a lookup for `patienceMs`.
        case unresponsive(lookup: JobID)
    }

    /// A lease that was taken out of its load, to be ended with or without a record.
    struct Lease: Equatable {
        let key: String
        let token: String
    }

    /// The time after which a lookup is overtaken by the download.
    static let hedgeMs = 250
    /// The time after which a process that has not answered is replaced.
    static let patienceMs = 5_000
    /// The time for which a lease is taken and prolonged, which the process of the tier counts, too.
    static let leaseMs = 10_000
    /// The time between two renewals.
    static let renewalMs = 3_000
    /// The pause before the lease of another broker is looked at again: at least, and what chance adds at most.
    static let pollMs = (least: 25, added: 225)
    /// The most lookups that are unanswered at once: each may bring a body.
    static let maximumLookups = 256
    /// The most bytes that are being written; more are not shared.
    static let maximumWriting = 64 << 20

    /// By download.
    private var loads: [JobID: SharedLoad] = [:]
    private var queue = JobQueue(limit: maximumLookups)
    /// The downloads of the unanswered lookups.
    private var downloads: [JobID: JobID] = [:]
    /// The unanswered lookups whose load has ended: their lease is not needed.
    private var orphans: [JobID: Lease] = [:]
    /// The buffers that are being written, and their bytes; nil for records without bytes.
    private var writes: [JobID: (buffer: BufferID, bytes: Int)?] = [:]
    private var writingBytes = 0
    private var random: SplitMix64
    /// The part of the tokens that tells this broker from others.
    private let name: String
    private var lastToken = 0

    init(seed: UInt64) {
        random = SplitMix64(state: seed)
        name = String(random.next(), radix: 16) + String(random.next(), radix: 16)
    }

    subscript(download: JobID) -> SharedLoad? { loads[download] }

    // MARK: Lookups

    /// Queues the lookup for a download, which waits for it.
    mutating func begin(
        _ download: JobID, key: String, owner: JobOwner, priority: GetOptions.Priority, at now: Instant
    ) {
        lastToken += 1
        loads[download] = SharedLoad(
            key: key, token: "\(name)-\(lastToken)", beganAt: now, stage: .queued, due: Self.never, renewedAt: now)
        queue.push(download, priority: priority, owner: owner)
    }

    /// When a lookup is overtaken that waits for its turn: it waits no longer than a download would, which waits for the same.
    private static let never = Instant(nanoseconds: .max)

    var hasQueued: Bool { !queue.isEmpty }
    mutating func popQueued() -> JobID? { queue.pop() }

    /// Sends the lookup of a download that was popped. Returns its key, the token of the lease to take, and when it is overtaken.
    mutating func start(_ download: JobID, as lookup: JobID, at now: Instant) -> (lease: Lease, due: Instant)? {
        guard let load = loads[download], load.stage == .queued else { return nil }
        let due = now.adding(milliseconds: load.isPolling ? Self.patienceMs : Self.hedgeMs)
        loads.change(download) { ($0.stage, $0.due) = (.asking(lookup), due) }
        downloads[lookup] = download
        return (Lease(key: load.key, token: load.token), due)
    }

    /// The download of a lookup that still matters.
    func download(of lookup: JobID) -> JobID? { downloads[lookup] }

    /// Takes an answer. With a record the load ends, and the caller makes it the download's result.
    mutating func answered(_ lookup: JobID, _ answer: SharedAnswer, at now: Instant) -> [Outcome] {
        if let lease = orphans.removeValue(forKey: lookup) {
            return answer == .leased ? [.release(key: lease.key, token: lease.token)] : []
        }
        guard let download = downloads.removeValue(forKey: lookup), let load = loads[download] else { return [] }
        if load.isFirst { queue.jobEnded(download) }
        switch answer {
        case .record:
            loads[download] = nil
            return []
        case .leased:
            loads.change(download) {
                $0.stage = .holding
                ($0.renewedAt, $0.due) = (now, now.adding(milliseconds: Self.renewalMs))
            }
            let wake = Outcome.wake(download, at: now.adding(milliseconds: Self.renewalMs))
            return load.isFirst ? [wake, .download(download)] : [wake]
        case .busy where load.isFirst:
            let pause = Self.pollMs.least + Int(random.next() % UInt64(Self.pollMs.added + 1))
            let next = now.adding(milliseconds: pause)
            loads.change(download) { ($0.stage, $0.due, $0.isPolling) = (.waiting, next, true) }
            return [.wake(download, at: next)]
        case .busy, .nothing:
            loads[download] = nil
            return load.isFirst ? [.download(download)] : []
        }
    }

    /// Goes on with a load whose time has come. `patience` is when its first waiter has no more time for another broker's lease; `lastByte`
    /// when the origin was last heard from.
    mutating func timePassed(
        _ download: JobID, patience: Instant?, lastByte: Instant?, owner: JobOwner, priority: GetOptions.Priority,
        at now: Instant
    ) -> [Outcome] {
        guard let load = loads[download], load.due <= now else { return [] }
        func wake(in milliseconds: Int) -> Outcome {
            let due = now.adding(milliseconds: milliseconds)
            loads.change(download) { $0.due = due }
            return .wake(download, at: due)
        }
        switch load.stage {
        case .queued: return []
        case .asking(let lookup) where load.isPolling: return [.unresponsive(lookup: lookup)]
        case .asking(let lookup):
            loads.change(download) { $0.stage = .late(lookup) }
            // The next lookup gets its turn.
            queue.jobEnded(download)
            return [.download(download), wake(in: Self.patienceMs - Self.hedgeMs)]
        case .late(let lookup): return [.unresponsive(lookup: lookup)]
        case .waiting:
            guard let patience, now < patience else {
                loads[download] = nil
                return [.download(download)]
            }
            loads.change(download) { ($0.stage, $0.due) = (.queued, Self.never) }
            queue.push(download, priority: priority, owner: owner)
            return []
        case .holding:
            // Only while bytes flow, so that a broker that hangs does not keep others waiting.
            let isActive = lastByte.map { $0 > load.renewedAt } ?? false
            if isActive { loads.change(download) { $0.renewedAt = now } }
            let renewal = Outcome.renew(key: load.key, token: load.token)
            return (isActive ? [renewal] : []) + [wake(in: Self.renewalMs)]
        }
    }

    /// Lets another waiter's owner and priority count for a queued lookup.
    mutating func join(_ download: JobID, _ owner: JobOwner) { queue.join(download, owner) }

    // MARK: Ends

    /// Takes out the load of a download. Returns the lease if this broker has it.
    mutating func end(_ download: JobID) -> Lease? {
        guard let load = loads.removeValue(forKey: download) else { return nil }
        let lease = Lease(key: load.key, token: load.token)
        switch load.stage {
        case .queued: queue.remove(download)
        case .asking(let lookup), .late(let lookup):
            if load.isFirst { queue.jobEnded(download) }
            downloads[lookup] = nil
            orphans[lookup] = lease
        case .waiting: break
        case .holding: return lease
        }
        return nil
    }

    /// Goes on without the process, which exited: downloads that waited for it go to their origins. Returns the buffers that
    /// are not being written any more.
    mutating func processExited() -> (outcomes: [Outcome], buffers: [BufferID]) {
        var outcomes: [Outcome] = []
        for (download, load) in loads.sorted(by: { $0.key < $1.key }) where load.stage != .holding {
            if load.isFirst { outcomes.append(.download(download)) }
            _ = end(download)
        }
        (downloads, orphans) = ([:], [:])
        let buffers = writes.sorted { $0.key < $1.key }.compactMap { $0.value?.buffer }
        (writes, writingBytes) = ([:], 0)
        return (outcomes, buffers)
    }

    // MARK: Writing

    /// Whether this many bytes more may be written.
    func mayWrite(_ bytes: Int) -> Bool {
        writingBytes + bytes <= Self.maximumWriting && writes.count < Self.maximumWrites
    }
    /// The most records that are being written, each of which may take a descriptor of the process: `SandboxPolicy.tier` permits twice
    /// as many. Further ones are not shared.
    private static let maximumWrites = 512

    /// Notes that a record is being written, with the bytes of a buffer or without.
    mutating func beginWriting(_ buffer: BufferID?, bytes: Int, as job: JobID) {
        writes[job] = .some(buffer.map { ($0, bytes) })
        writingBytes += buffer == nil ? 0 : bytes
    }

    /// Takes out a record that was written, or was not. Returns its buffer.
    mutating func written(_ job: JobID) -> BufferID? {
        guard let write = writes.removeValue(forKey: job), let (buffer, bytes) = write else { return nil }
        writingBytes -= bytes
        return buffer
    }

    /// Whether a buffer is being written.
    func needs(_ buffer: BufferID) -> Bool { writes.values.contains { $0?.buffer == buffer } }

    // MARK: Invariants

    /// The buffers that are being written, once for each record.
    var buffersBeingWritten: [BufferID] { writes.values.compactMap { $0?.buffer } }
    /// The number of jobs that run on the process.
    var runningJobs: Int { downloads.count + orphans.count + writes.count }
    /// The number of lookups that wait for their turn.
    var queuedLookups: Int { queue.count }
    /// The downloads that wait for the tier.
    var waitingDownloads: Set<JobID> { Set(loads.filter(\.value.isFirst).keys) }
    /// The downloads with a load.
    var allDownloads: Set<JobID> { Set(loads.keys) }
    /// About how many deadlines still matter: one for each load.
    var deadlineCount: Int { loads.count }

    /// The first rule that does not hold; nil when all do.
    func brokenInvariant() -> String? {
        let lookups = Set(loads.values.compactMap(\.lookup))
        if lookups != Set(downloads.keys) { return "a lookup without a load" }
        if downloads.contains(where: { loads[$1]?.lookup != $0 }) { return "a lookup of another load" }
        if queue.count != loads.values.count(where: { $0.stage == .queued }) { return "queue of lookups" }
        if let broken = queue.brokenInvariant() { return "queue of lookups: \(broken)" }
        if writingBytes != writes.values.reduce(0, { $0 + ($1?.bytes ?? 0) }) { return "bytes being written" }
        return nil
    }
}

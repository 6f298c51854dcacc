import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The downloads: one for each original, however many requests wait for it.
///
/// It owns the queue, retries and continuations, the beginnings of bodies that are kept for later, and the state of
/// each origin. It keeps no bytes: the shell has the product of each job (`JobID`).
///
/// A download lasts until a decode worker has computed the digest of its bytes (`Decoding.identify`), because nothing
/// can be made of bytes without a name. The bytes that a client stores are a download that begins there.
package struct Downloads {
    /// A step for the caller; they are carried out in order.
    enum Outcome {
        /// The worker no longer runs the job.
        case freed(JobID, WorkerID)
        /// The worker is to stop the transfer.
        case stop(JobID, WorkerID)
        /// The job's product is discarded.
        case discard(JobID)
        /// The digest of these bytes is not needed any more; the buffer is dropped.
        case drop(JobID, BufferID)
        /// A body is no longer held for revalidation.
        case unhold(BufferID)
        /// `retryDue`, `holdDue` or `keptBodyDue` is to be called then.
        case deadline(Deadline, at: Instant)
        /// `stopOverdue` is to be called when the worker has not stopped by then.
        case stopDeadline(JobID)
        /// The download has ended without a body.
        case ended(JobID)
    }

    /// How a queued download begins.
    enum Start {
        case transfer(FetchJob)
        /// The origin must not be asked for this many milliseconds.
        case hostUnavailable(milliseconds: Int)
        /// It waits, because the origin asked for it; `holdDue` is to be called at the end of that time. Nil if others
        /// have to be answered first.
        case held(HostTable.Key, Hold?)
    }

    var limits: BrokerLimits
    /// Whether the broker ends: no transfer is made again, and no beginning of a body is kept.
    var isDraining = false
    private(set) var downloads: [JobID: Download] = [:]
    /// The active downloads by key.
    private(set) var jobByKey: [DownloadKey: JobID] = [:]
    private(set) var keptBodies: [OriginalKey: KeptBody] = [:]
    var queue: JobQueue
    /// Downloads that are to be retried alone.
    var suspects = JobQueue()
    /// The running transfers that were silent for `yieldSilenceMs` when that was last checked.
    private(set) var silent: Set<JobID> = []
    /// The transfer that was last to give way.
    private var yielding: JobID?
    private var hosts = HostTable()
    private(set) var held = HeldDownloads()
    /// The cookies of each user who has used any.
    private var cookies: [UInt32: CookieStore] = [:]
    private var random: SplitMix64
    /// The bytes received of bodies that are neither complete nor discarded.
    private(set) var reservedBytes = 0
    /// Of these, those of each user's downloads and of what is kept of them.
    private(set) var reservedBytesOfUsers: [UInt32: Int] = [:]

    init(limits: BrokerLimits, seed: UInt64) {
        self.limits = limits
        queue = JobQueue(
            limit: limits.fetchers * limits.transfersPerFetcher, groupLimit: limits.transfersPerOrigin,
            order: limits.queueOrder)
        random = SplitMix64(state: seed)
    }

    /// An active download: one that is queued, running or backing off, but not stopping.
    subscript(job: JobID) -> Download? { downloads[job].flatMap { $0.isStopping ? nil : $0 } }

    /// The number of downloads that wait because their origins asked for it.
    var heldCount: Int { held.count }
    var queued: Int { queue.count + suspects.count }
    func isStopping(_ job: JobID) -> Bool { downloads[job]?.isStopping == true }
    func hasActive(_ key: DownloadKey) -> Bool { jobByKey[key] != nil }

    func needs(_ buffer: BufferID) -> Bool {
        downloads.values.contains { $0.body == buffer || $0.revalidatedBody == buffer }
    }

    // MARK: Joining and beginning

    /// Lets a waiter join a download of its original. A forced one joins only a download that will bring the body from
    /// the origin. Returns the job, and when the origin was last heard from if the transfer is running.
    mutating func join(
        _ original: OriginalKey, isForced: Bool, _ waiter: JobWaiter
    ) -> (job: JobID, lastActivity: Instant?)? {
        let forced = jobByKey[DownloadKey(original: original, isForced: true)]
        let plain = jobByKey[DownloadKey(original: original, isForced: false)]
        let bringsBody = plain.flatMap { downloads[$0] }.map { $0.revalidating == nil && $0.shared == nil } ?? false
        guard let job = isForced ? forced ?? (bringsBody ? plain : nil) : plain ?? forced else { return nil }
        downloads.change(job) { $0.waiters.append(waiter) }
        queue.join(job, waiter.owner)
        suspects.join(job, waiter.owner)
        if let priority = downloads[job]?.priority, priority < waiter.priority {
            setPriority(of: job, waiter.priority)
        }
        return (job, downloads[job]?.transfer?.lastActivity)
    }

    /// Queues a download, unless `isParked`. It takes over the id of a kept body that it continues.
    mutating func enqueue(_ download: Download, isParked: Bool = false, newJob: () -> JobID, at now: Instant) -> JobID {
        var download = download
        let mayContinue = download.revalidating == nil && keptBodies[download.original]?.url == download.url
        let kept = mayContinue ? keptBodies.removeValue(forKey: download.original) : nil
        let job = kept?.job ?? newJob()
        if let kept {
            // Its bytes are the new user's now.
            reserve(-kept.received, for: kept.user)
            reserve(kept.received, for: download.user)
            download.received = kept.received
            download.writers = kept.writers
            download.response = kept.response
            download.validator = kept.validator
            download.total = kept.total
            // A client that has left may have been shown a partial image just now.
            download.rendered.notBefore = now.adding(milliseconds: Self.partialPauseMs)
        }
        if isParked { download.state = .parked }
        downloads[job] = download
        jobByKey[download.key] = job
        if !isParked { push(job) }
        return job
    }

    mutating func unpark(_ job: JobID, at now: Instant) {
        guard self[job]?.isParked == true else { return }
        downloads.change(job) { ($0.state, $0.queuedAt) = (.queued, now) }
        push(job)
    }

    /// Notes that the shared tier has the body: `body`, which `worker` has written. A transfer is stopped.
    mutating func receivedShared(
        _ job: JobID, _ body: BufferID, bytes: Int, _ response: ResponseRecord, by worker: WorkerID,
        _ shared: Download.SharedBody
    ) -> [Outcome] {
        guard let download = self[job], download.body == nil else { return [] }
        var outcomes: [Outcome] = []
        if let transfer = download.transfer {
            outcomes = [.stop(job, transfer.worker), .discard(job)] + unassign(job)
        } else {
            if download.received > 0 { outcomes.append(.discard(job)) }
            takeOut(job)
        }
        downloads.change(job) {
            $0.response = response
            $0.state = .received(body, by: nil)
            $0.validator = nil
            $0.resumedFrom = 0
            $0.writers = [worker]
            $0.shared = shared
        }
        setReceived(of: job, 0)
        setReceived(of: job, bytes)
        if let held = downloads[job]?.revalidatedBody.take() { outcomes.append(.unhold(held)) }
        return outcomes
    }

    /// Adds the bytes in `body`, which a client has stored, as a download that is received.
    mutating func insert(_ download: Download, _ body: BufferID, bytes: Int, as job: JobID) {
        downloads[job] = download
        downloads.change(job) { $0.state = .received(body, by: nil) }
        setReceived(of: job, bytes)
        jobByKey[download.key] = job
    }

    mutating func setPriority(_ priority: GetOptions.Priority, of waiter: WaiterID, in job: JobID) {
        downloads.change(job) { $0.waiters.setPriority(priority, of: waiter) }
        if let highest = downloads[job]?.waiters.priority { setPriority(of: job, highest) }
    }

    private mutating func setPriority(of job: JobID, _ priority: GetOptions.Priority) {
        downloads.change(job) { $0.priority = priority }
        queue.change(job, to: priority)
        suspects.change(job, to: priority)
        held.change(job, to: priority)
    }

    private mutating func setReceived(of job: JobID, _ received: Int) {
        guard let (before, user) = downloads[job].map({ ($0.received, $0.user) }) else { return }
        reserve(received - before, for: user)
        downloads.change(job) {
            $0.received = received
            if received == 0 { $0.rendered.startOver() }
        }
    }

    private mutating func reserve(_ bytes: Int, for user: UInt32) {
        if bytes == 0 { return }
        reservedBytes += bytes
        let own = reservedBytesOfUsers[user, default: 0] + bytes
        reservedBytesOfUsers[user] = own == 0 ? nil : own
    }

    // MARK: Running

    mutating func start(_ job: JobID, on worker: WorkerID, at now: Instant) -> Start? {
        guard let download = self[job] else { return nil }
        let origin = download.hostKey
        for key in [origin] + (download.patience.map { [$0] } ?? []) {
            guard let most = hosts.mostTransfers(of: key, at: now), !held.admits(job, key, most: most) else { continue }
            if !download.isSuspect { queue.jobEnded(job) }
            return .held(key, hold(job, for: key, at: now))
        }
        if let wait = hosts.admit(origin, at: now) {
            if !download.isSuspect { queue.jobEnded(job) }
            return .hostUnavailable(milliseconds: wait)
        }
        downloads.change(job) { $0.start(on: worker, at: now) }
        let key = download.original
        let jar = key.cookies ? key.owner.flatMap { cookies[$0]?.lines } ?? [] : nil
        return .transfer(download.order(job, maxBytes: limits.maxDownloadBytes, cookies: jar))
    }

    /// Notes a response header. Returns the download, if it is active.
    mutating func responded(
        _ job: JobID, _ response: ResponseRecord, validator: String?, total: Int?, isMultiplexed: Bool? = nil,
        at now: Instant
    ) -> Download? {
        guard let download = downloads[job] else { return nil }
        answered(download, status: response.status, at: now)
        if let isMultiplexed {
            queue.limit(download.origin, to: isMultiplexed ? limits.multiplexedTransfersPerOrigin : nil)
        }
        downloads.change(job) {
            $0.response = $0.complete(response)
            $0.validator = validator
            $0.total = total
            $0.transfer?.lastActivity = now
            $0.transfer?.hasResponded = true
            // Only a part continues the body; any other response begins it anew.
            if response.status != 206 { $0.resumedFrom = 0 }
        }
        silent.remove(job)
        if response.status != 206 { setReceived(of: job, 0) }
        return self[job]
    }

    mutating func redirected(_ job: JobID, to origin: String, at now: Instant) {
        guard let download = downloads[job] else { return }
        answered(download, status: 302, at: now)
        downloads.change(job) {
            $0.transfer?.redirectedTo = origin
            $0.transfer?.lastActivity = now
        }
        silent.remove(job)
    }

    /// Notes an answer of the origin at which the transfer is, and of the one that has redirected there.
    private mutating func answered(_ download: Download, status: Int, at now: Instant) {
        answered(download.hostKey, status: status, at: now)
        if download.transfer?.redirectedTo != nil { answered(download.currentHostKey, status: status, at: now) }
    }

    private mutating func answered(_ key: HostTable.Key, status: Int, retryAfterMs: Int? = nil, at now: Instant) {
        hosts.answered(key, status: status, retryAfterMs: retryAfterMs, at: now)
        held.mayRelease(key)
    }

    /// Notes a failure for the origin at which the transfer was when it failed.
    private mutating func blame(_ download: Download, _ error: WireError, at now: Instant) {
        let key = download.currentHostKey
        if download.transfer?.redirectedTo != nil { hosts.abandoned(download.hostKey) }
        if let status = error.httpStatus {
            answered(key, status: status, retryAfterMs: error.retryAfterMs, at: now)
        } else {
            hosts.failed(key, error, at: now)
        }
    }

    /// Notes received bytes, which are in memory of the broker's. Returns the download, if it is active.
    mutating func progressed(_ job: JobID, received: Int, at now: Instant) -> Download? {
        guard let download = self[job] else { return nil }
        setReceived(of: job, min(max(received, download.received), limits.maxDownloadBytes))
        downloads.change(job) { $0.transfer?.lastActivity = now }
        silent.remove(job)
        return self[job]
    }

    // MARK: Patience

    /// Until when a download waits for its origin, and the line in which it does, if that has no deadline for this
    /// time.
    typealias Hold = (until: Instant, line: Int?)

    /// Lets a queued download wait until its origin may be asked. Returns nil if others have to be answered first.
    private mutating func hold(_ job: JobID, for key: HostTable.Key, at now: Instant) -> Hold? {
        guard let download = downloads[job] else { return nil }
        downloads.change(job) { ($0.state, $0.patience) = (.held(since: now), key) }
        held.hold(job, key, priority: download.priority, client: download.owner.client)
        return hosts.holdEnd(of: key, at: now).map { ($0, held.look(at: key, again: $0)) }
    }

    /// Until when a download waits for an origin that asked not to be contacted, and that origin.
    func hold(of job: JobID, at now: Instant) -> (until: Instant, origin: String)? {
        guard let download = self[job], case .held = download.state, let key = download.patience else { return nil }
        return hosts.holdEnd(of: key, at: now).map { ($0, key.origin) }
    }

    /// Whether the origin asked this user not to contact it.
    func isHeld(_ origin: String, for user: UInt32, at now: Instant) -> Bool {
        hosts.holdEnd(of: HostTable.Key(origin: origin, user: user), at: now) != nil
    }

    func isHeld(line: Int) -> Bool { held.key(ofLine: line) != nil }

    /// Notes that the time of an origin, for which this line waits, may be over. Returns when that must be checked
    /// again.
    mutating func holdDue(line: Int, at now: Instant) -> Instant? {
        guard let key = held.key(ofLine: line) else { return nil }
        if let until = hosts.holdEnd(of: key, at: now) { return held.look(at: key, again: until).map { _ in until } }
        held.mayRelease(key)
        return nil
    }

    /// Queues the next download that has waited for its origin and may be started. Returns it, and since when it has
    /// waited.
    mutating func releaseNext(at now: Instant) -> (download: Download, since: Instant)? {
        guard let job = held.release(most: { hosts.mostTransfers(of: $0, at: now) ?? .max }),
            let download = downloads[job], case .held(let since) = download.state
        else { return nil }
        downloads.change(job) { ($0.state, $0.queuedAt) = (.queued, now) }
        push(job)
        return (download, since)
    }

    // MARK: Giving way

    /// Notes whether the origin of a transfer has been silent for `yieldSilenceMs`. Returns when that must be checked
    /// again; nil when the transfer has ended, or gives way to none because it has a worker to itself.
    mutating func checkSilence(of job: JobID, startedAt: Instant, at now: Instant) -> Instant? {
        guard let transfer = self[job]?.transfer, transfer.startedAt == startedAt, !transfer.isAlone else { return nil }
        let limit = transfer.lastActivity.adding(milliseconds: limits.yieldSilenceMs)
        if limit > now { return limit }
        silent.insert(job)
        return now.adding(milliseconds: limits.yieldSilenceMs)
    }

    /// A silent transfer that another user's job waits for, and the user that it counts for. They give way one at a
    /// time: until the worker has stopped one, it is not known what still waits.
    mutating func nextToYield(isWorkerFree: @autoclosure () -> Bool) -> (job: JobID, user: JobOwner.User)? {
        if silent.isEmpty || queue.isEmpty || yielding.map(isStopping) == true { return nil }
        let isFree = isWorkerFree()
        for job in silent.sorted() where self[job] != nil {
            guard let user = queue.user(ofRunning: job), queue.isAwaited(job, isWorkerFree: isFree) else { continue }
            silent.remove(job)
            queue.yieldTurn(of: job)
            yielding = job
            return (job, user)
        }
        return nil
    }

    // MARK: Ends

    /// Takes a download out, in any state. The caller takes its product unless it is told to discard it.
    mutating func end(_ job: JobID) -> [Outcome] {
        guard let download = downloads[job] else { return [] }
        var outcomes: [Outcome] = []
        if download.transfer != nil {
            outcomes += unassign(job)
        } else if let body = download.body {
            outcomes.append(.drop(job, body))
        } else {
            takeOut(job)
        }
        downloads[job] = nil
        jobByKey[download.key] = nil
        if keptBodies[download.original]?.job != job { reserve(-download.received, for: download.user) }
        if let body = download.revalidatedBody { outcomes.append(.unhold(body)) }
        outcomes.append(.ended(job))
        return outcomes
    }

    /// Notes that the origin confirmed the cached original.
    mutating func confirmed(_ job: JobID, at now: Instant) {
        if let download = downloads[job] { answered(download, status: 304, at: now) }
    }

    /// Notes that a transfer has ended well: its worker has no more to do with the bytes, which are `body` now.
    mutating func received(_ job: JobID, _ body: BufferID, bytes: Int, _ response: ResponseRecord) -> [Outcome] {
        guard let download = downloads[job], let transfer = download.transfer else { return [] }
        var outcomes = unassign(job)
        downloads.change(job) {
            $0.response = download.complete(response)
            $0.state = .received(body, by: transfer)
            $0.validator = nil
        }
        setReceived(of: job, bytes)
        if let held = downloads[job]?.revalidatedBody.take() { outcomes.append(.unhold(held)) }
        return outcomes
    }

    /// Takes out a download whose bytes were identified.
    mutating func identified(_ job: JobID) -> (download: Download, body: BufferID, transfer: Download.Transfer?)? {
        guard let download = downloads[job], case .received(let body, let transfer) = download.state else { return nil }
        downloads[job] = nil
        jobByKey[download.key] = nil
        reserve(-download.received, for: download.user)
        return (download, body, transfer)
    }

    /// Lets nothing come of the bytes that a compromised worker has written, before its downloads are taken back
    /// (`workerExited`). Those that wait, or ran on it, start over. The caller has the waiters of those in `restarting`
    /// download anew: the bytes are complete, or another worker continues them. They have ended.
    mutating func discard(writtenBy worker: WorkerID) -> (restarting: [Download], outcomes: [Outcome]) {
        var restarting: [Download] = []
        var outcomes: [Outcome] = []
        for (job, download) in downloads.sorted(by: { $0.key < $1.key }) where download.writers.contains(worker) {
            switch download.state {
            case .stopping: downloads.change(job) { $0.isCompromised = true }
            case .running(let transfer) where transfer.worker != worker:
                outcomes += [.stop(job, transfer.worker), .discard(job)] + end(job)
                restarting.append(download)
            case .received:
                outcomes += end(job)
                restarting.append(download)
            case .parked, .queued, .backingOff, .held, .running:
                // The product of one that runs is discarded with its worker.
                if download.transfer == nil, download.resumption != nil { outcomes.append(.discard(job)) }
                downloads.change(job) {
                    $0.validator = nil
                    $0.response = nil
                    $0.total = nil
                }
                setReceived(of: job, 0)
            }
        }
        return (restarting, outcomes)
    }

    /// Notes a failed transfer of `received` bytes. Returns what follows if the download goes on, continued where it
    /// was cut short or retried after a pause; nil if it has failed.
    mutating func failed(_ job: JobID, _ error: WireError, received: Int, at now: Instant) -> [Outcome]? {
        guard let before = self[job] else { return nil }
        blame(before, error, at: now)
        setReceived(of: job, before.validator == nil ? 0 : min(max(received, 0), limits.maxDownloadBytes))
        guard let download = downloads[job], !isDraining else { return nil }
        if HostTable.asksForPatience(error.httpStatus, error.retryAfterMs) {
            let key = download.currentHostKey
            guard let until = hosts.holdEnd(of: key, at: now),
                download.waiters.contains(where: { $0.isPatient && $0.deadline > until })
            else { return nil }
            let outcomes = startOver(job) + unassign(job)
            let line = hold(job, for: key, at: now)?.line
            return outcomes + (line.map { [.deadline(.hold(line: $0), at: until)] } ?? [])
        }
        let wasCutShort = error.code == .transferFailed || error.code == .timeout
        if wasCutShort, download.resumption != nil, download.received > download.resumedFrom,
            download.resumptions < limits.resumptions
        {
            return requeue(job)
        }
        let retries = download.waiters.map { $0.retries(of: limits.retries) }.max() ?? 0
        guard
            RetryPolicy.mayRetry(error, receivedBytes: download.received, attempt: download.attempts, limit: retries)
        else { return nil }
        let at = now.adding(milliseconds: RetryPolicy.delayMs(attempt: download.attempts, random: random.next()))
        guard let deadline = download.waiters.map(\.deadline).max(), at < deadline,
            hosts.takeRetry(download.hostKey)
        else { return nil }
        // A continuation counts as an attempt once it has failed.
        if download.resumption != nil { downloads.change(job) { $0.attempts += 1 } }
        let outcomes = startOver(job) + unassign(job)
        downloads.change(job) { $0.state = .backingOff(until: at) }
        return outcomes + [.deadline(.retry(job), at: at)]
    }

    /// Discards the received bytes, unless the body can be continued.
    private mutating func startOver(_ job: JobID) -> [Outcome] {
        guard let download = downloads[job], download.resumption == nil else { return [] }
        setReceived(of: job, 0)
        return [.discard(job)]
    }

    /// Queues a download whose pause is over; returns for how many milliseconds its origin must not be asked, if so.
    mutating func retryDue(_ job: JobID, at now: Instant) -> Int? {
        guard let download = downloads[job], let at = download.retryAt, at <= now else { return nil }
        downloads.change(job) { $0.state = .queued }
        if let wait = hosts.refusal(of: download.hostKey, at: now) { return wait }
        push(job)
        return nil
    }

    /// Ends a download that fails for good. What it received of a body that can be continued is kept.
    mutating func fail(_ job: JobID, at now: Instant) -> [Outcome] {
        let key = downloads[job]?.currentHostKey
        let kept = keepBody(of: job, at: now)
        let outcomes = (kept ?? [.discard(job)]) + end(job)
        // The origin may have asked for more patience, of those that wait behind this download, too.
        guard let key, let until = hosts.holdEnd(of: key, at: now), let line = held.look(at: key, again: until) else {
            return outcomes
        }
        return outcomes + [.deadline(.hold(line: line), at: until)]
    }

    /// Takes a waiter out. A download without waiters is stopped; its body is kept if it can be continued.
    mutating func leave(_ job: JobID, _ waiter: WaiterID, at now: Instant) -> [Outcome] {
        downloads.change(job) { $0.waiters.remove(waiter) }
        guard let download = self[job] else { return [] }
        if let priority = download.waiters.priority {
            setPriority(of: job, priority)
            return []
        }
        if let transfer = download.transfer {
            let stop = Outcome.stop(job, transfer.worker)
            if download.resumption == nil { return [stop, .discard(job)] + end(job) }
            downloads.change(job) { ($0.state, $0.revalidatedBody) = (.stopping(transfer), nil) }
            jobByKey[download.key] = nil
            return [stop, .stopDeadline(job), .ended(job)] + (download.revalidatedBody.map { [.unhold($0)] } ?? [])
        }
        let kept = keepBody(of: job, at: now)
        let isWasted = kept == nil && download.received > 0 && download.body == nil
        return (kept ?? (isWasted ? [.discard(job)] : [])) + end(job)
    }

    /// Ends a download that was to stop, and has. `received` bytes of its body are kept, if it can be continued.
    mutating func stopped(_ job: JobID, received: Int, at now: Instant) -> [Outcome] {
        guard let download = downloads[job], download.isStopping else { return [] }
        setReceived(of: job, min(max(received, 0), limits.maxDownloadBytes))
        let outcomes = unassign(job)
        let kept = keepBody(of: job, at: now)
        if kept == nil { setReceived(of: job, 0) }
        downloads[job] = nil
        return outcomes + (kept ?? [.discard(job)])
    }

    func overdueStop(_ job: JobID) -> WorkerID? { isStopping(job) ? downloads[job]?.transfer?.worker : nil }

    /// Puts the download of a worker that exited back in the queue. One that shared its worker is not blamed for a
    /// death of the worker's own making, but is retried alone. One that is poisonous fails, because its worker crashed
    /// repeatedly.
    mutating func workerExited(
        _ job: JobID, ownMaking: Bool, wasAlone: Bool, at now: Instant
    ) -> (isPoisonous: Bool, outcomes: [Outcome]) {
        guard let download = downloads[job] else { return (false, []) }
        let hasResponded = download.transfer?.hasResponded == true
        if download.isStopping {
            let received = hasResponded ? download.received : 0
            return (false, stopped(job, received: received, at: now))
        }
        var outcomes: [Outcome] = []
        // A continuation may have begun anew before it said so.
        if download.resumption == nil || !hasResponded {
            outcomes.append(.discard(job))
            downloads.change(job) { $0.validator = nil }
            setReceived(of: job, 0)
        }
        outcomes += unassign(job)
        if ownMaking {
            downloads.change(job) { $0.isSuspect = true }
            if wasAlone { downloads.change(job) { $0.crashes += 1 } }
        }
        if downloads[job]?.crashes ?? 0 >= Self.fatalCrashes { return (true, outcomes) }
        push(job, atFront: true)
        return (false, outcomes)
    }

    /// Puts a download back that its worker was not told of, as if it had not been started.
    mutating func notStarted(_ job: JobID, at now: Instant) -> [Outcome] {
        guard let download = downloads[job] else { return [] }
        if download.isStopping { return stopped(job, received: download.received, at: now) }
        downloads.change(job) {
            if download.resumption == nil { $0.attempts -= 1 } else { $0.resumptions -= 1 }
        }
        return requeue(job)
    }

    private mutating func requeue(_ job: JobID) -> [Outcome] {
        let outcomes = unassign(job)
        push(job, atFront: true)
        return outcomes
    }

    private mutating func push(_ job: JobID, atFront: Bool = false) {
        guard let download = downloads[job] else { return }
        if download.isSuspect {
            return suspects.push(job, priority: download.priority, owner: download.owner, atFront: atFront)
        }
        queue.push(job, priority: download.priority, owner: download.owner, group: download.origin, atFront: atFront)
    }

    /// Takes a download that waits for its turn or its origin out of the queues.
    private mutating func takeOut(_ job: JobID) {
        queue.remove(job)
        suspects.remove(job)
        held.remove(job)
        held.ended(job)
    }

    /// Takes a transfer from its worker. Where it has failed, its origin has been blamed.
    private mutating func unassign(_ job: JobID) -> [Outcome] {
        guard let download = downloads[job], let transfer = download.transfer else { return [] }
        if !transfer.isAlone { queue.jobEnded(job) }
        hosts.abandoned(download.hostKey)
        silent.remove(job)
        held.ended(job)
        downloads.change(job) { $0.state = .queued }
        return [.freed(job, transfer.worker)]
    }

    /// A download fails after this many workers died while it was their only job.
    private static let fatalCrashes = 3

    // MARK: Origins

    /// The milliseconds for which the origin must not be asked, if a request until `deadline` fails for that.
    func delay(of origin: String, for user: UInt32, until deadline: Instant, at now: Instant) -> Int? {
        let key = HostTable.Key(origin: origin, user: user)
        if let refusal = hosts.refusal(of: key, at: now) { return refusal }
        guard let end = hosts.holdEnd(of: key, at: now), deadline <= end else { return nil }
        return end.milliseconds(after: now)
    }

    /// Counts the origin of a silent transfer as unreachable, once for a transfer, if it has been silent for
    /// `Limits.patienceMs`: a client's impatience must not close an origin to others.
    mutating func blameSilence(of job: JobID, _ error: WireError, at now: Instant) {
        guard let download = self[job], let transfer = download.transfer, !transfer.hasResponded, !transfer.isBlamed,
            transfer.startedAt.adding(milliseconds: limits.patienceMs) <= now
        else { return }
        downloads.change(job) { $0.transfer?.isBlamed = true }
        blame(download, error, at: now)
    }

    mutating func apply(_ changes: CookieChanges, of key: OriginalKey) {
        guard key.cookies, let owner = key.owner, !changes.isEmpty else { return }
        cookies[owner, default: CookieStore()].apply(changes)
    }

    // MARK: Kept bodies

    /// Keeps the beginning of a body for a later request; its bytes stay reserved. Returns nil if it cannot be
    /// continued, is too long or not cacheable, or there is one already.
    private mutating func keepBody(of job: JobID, at now: Instant) -> [Outcome]? {
        guard let download = downloads[job], keptBodies[download.original] == nil, !isDraining,
            limits.maxKeptBodies > 0, download.received <= limits.maxKeptBodyBytes,
            let kept = download.kept(as: job, until: now.adding(milliseconds: limits.keptBodyMs), limits.caching)
        else { return nil }
        keptBodies[download.original] = kept
        // `end` leaves these bytes reserved.
        var outcomes = [Outcome.deadline(.keptBody(job), at: kept.until)]
        while keptBodies.count > limits.maxKeptBodies
            || keptBodies.values.reduce(0, { $0 + $1.received }) > limits.maxKeptBodyBytes,
            let oldest = keptBodies.filter({ $0.key != download.original })
                .min(by: { ($0.value.until, $0.value.job) < ($1.value.until, $1.value.job) })?.key
        {
            outcomes += dropKeptBodies { $0 == oldest }
        }
        return outcomes
    }

    mutating func dropKeptBodies(where matches: (OriginalKey) -> Bool) -> [Outcome] {
        var outcomes: [Outcome] = []
        for (key, kept) in keptBodies.sorted(by: { $0.value.job < $1.value.job }) where matches(key) {
            keptBodies[key] = nil
            reserve(-kept.received, for: kept.user)
            outcomes.append(.discard(kept.job))
        }
        return outcomes
    }

    mutating func keptBodyDue(of job: JobID, at now: Instant) -> [Outcome] {
        guard let key = keptBodies.first(where: { $0.value.job == job && $0.value.until <= now })?.key else {
            return []
        }
        return dropKeptBodies { $0 == key }
    }

    // MARK: Partial images

    /// The least pause between two partial decodings of a body, in milliseconds.
    static let partialPauseMs = 200
    /// The least pause between two attempts to read a body's header, in milliseconds.
    static let headerPauseMs = 20

    mutating func changeParts(of job: JobID, _ change: (inout PartialProgress) -> Void) {
        downloads.change(job) { change(&$0.rendered) }
    }

    /// The download that a partial decoding belongs to; nil when its body was discarded meanwhile.
    func download(of part: JobID, _ job: JobID) -> Download? {
        guard let download = self[job], download.rendered.job == part, download.transfer?.hasResponded == true
        else { return nil }
        return download
    }
}

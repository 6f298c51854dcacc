import HTTPCaching
import IPCProtocol
import SystemValues
import WorkerProtocol

/// Everything the broker decides: events go in, actions come out. A value without descriptors, clocks or memory of its
/// own; time and everything from outside are inputs, so a test can drive it through any history.
struct BrokerState {
    struct Client {
        let uid: UInt32
        let isAdmin: Bool
        /// Its unanswered `get`s by their id.
        var pending: [Int: WaiterID] = [:]
        /// Its unanswered `prefetch`es by their id.
        var prefetches: [Int: PrefetchID] = [:]
        /// Its other unanswered requests, those that wait for the disk tier or a decoder.
        var errands: Set<Int> = []
        /// Those of its `store`s that are being decoded.
        var stores: Set<WaiterID> = []
        /// What its unanswered requests weigh.
        var weight = 0
        /// Its `subscribe`s: the events and the request's name.
        var subscriptions: [(events: Set<BrokerEvent.Name>, id: Int)] = []
        /// When the frame began that is still arriving.
        var frameBegunAt: Instant?
        /// Whether it has the validity page.
        var hasPage = false

        /// Its unanswered requests of every kind.
        var unanswered: Int { pending.count + prefetches.count + errands.count }
    }

    enum Reminder {
        /// A request's time is up.
        case total(WaiterID)
        /// A request may have heard nothing for too long.
        case idle(WaiterID)
        case decode(WorkerID, JobID)
        /// A job may have used up its processor time.
        case processorTime(WorkerID, JobID)
        case lookup(JobID)
        case errand(JobID)
        case retry(JobID)
        /// A worker has not ended a transfer that it was to stop.
        case stopping(JobID)
        case partial(OriginalKey)
        /// What is there of a body may be shown again.
        case nextPart(JobID)
        case touch
        case workerStart(WorkerID)
        case workerEnd(WorkerID)
        case restart
        case frame(ClientID, begunAt: Instant)
        case drained
    }

    let limits: Limits
    /// Whether a download from this numeric address may be believed.
    let isAllowedAddress: (String) -> Bool
    let startedAt: Instant

    /// What confined the last worker of each kind that became ready.
    var sandboxes: [WorkerKind: SandboxReport] = [:]
    var clients: [ClientID: Client] = [:]
    var waiters: [WaiterID: Waiter] = [:]
    var fetches: [JobID: FetchFlight] = [:]
    var fetchByKey: [FetchKey: JobID] = [:]
    /// Downloads that nobody waits for any more, until their worker writes no more.
    var stopping: [JobID: FetchFlight] = [:]
    /// What was begun of bodies that nobody waits for at present.
    var partials: [OriginalKey: PartialBody] = [:]
    var prefetches: [PrefetchID: Prefetch] = [:]
    var decodes: [JobID: DecodeFlight] = [:]
    var decodeByVariant: [VariantKey: JobID] = [:]
    /// Decodings of what is there of bodies on their way.
    var partialFlights: [JobID: PartialFlight] = [:]
    var lookups: [JobID: LookupFlight] = [:]
    var lookupByKey: [LookupKey: JobID] = [:]
    var errands: [JobID: DiskErrand] = [:]
    /// Those that wait for the cache process to be there.
    var queuedErrands: [JobID: DiskErrand] = [:]
    /// Originals that the disk tier is to keep when it has less to do.
    var unkept: ArraySlice<OriginalKey> = []
    /// How many cache processes have died, by their own making, with an errand that is asked again.
    var errandCrashes: [JobID: Int] = [:]
    /// Decodings whose header is read and that wait for room, the first come first.
    var parkedDecodes: [JobID] = []
    var lookupQueue = JobQueue()
    /// The encoded bytes of all decodings, counted for each.
    var decodingBytes = 0
    var fetchQueue: JobQueue
    /// Downloads that are to be tried again alone.
    var suspectQueue = JobQueue()
    var decodeQueue: JobQueue
    var fetchPool: WorkerPool
    var decodePool: WorkerPool
    var cachePool: WorkerPool
    var index: MemoryIndex
    var leases = LeaseTable()
    var repeats = RepeatedRequests()
    var lastHit: Hit?
    /// What clients have of what there is only so much of.
    var connectionPool: SharedPool
    var requestPool: SharedPool
    var subscriptionPool: SharedPool
    /// Buffers whose bytes are being sent inline: held like leases, but the client has no descriptor of them.
    var sendings = LeaseTable()
    /// Buffers that were removed while a decoding or the disk tier still needs them.
    var removedInUse: Set<BufferID> = []
    /// Buffers that ended downloads held: let go of when whoever waited for them has gone on, at the end of the event.
    var heldForWaiters: [BufferID] = []
    /// Originals used by way of memory since the disk tier was last told.
    var touched: Set<OriginalKey> = []
    /// Users' own originals that the disk tier does not have, as far as that is known.
    var notOwnOnDisk: Set<OriginalKey> = []
    /// Whether the disk tier was to be asked for users' own originals after the last event.
    var askedForOwn = false
    /// How often the disk tier has not answered in time since it last did.
    var missedDiskAnswers = 0
    var disk = DiskReport(state: .off)
    var quarantine = Quarantine()
    /// Whether the disk tier does not know the latest of it.
    var isQuarantineUnsaved = false
    /// What the decoders call their build.
    var decoderBuild = ""
    var crashBudget = CrashBudget()
    var failedList = FailedList()
    var hosts = HostTable()
    /// The cookies of each user who has used any.
    var jars: [UInt32: CookieJar] = [:]
    /// Clients that want to be told of events.
    var subscribers: Set<ClientID> = []
    /// The workers' processes, for those who are told of their end.
    var pids: [WorkerID: Int] = [:]
    /// Whether new loads wait.
    var isSuspended = false
    private var random: SplitMix64
    var reminders = DeadlineQueue<Reminder>()
    var counters = Counters()
    var isDraining = false
    /// What has not been sent by now is not waited for.
    var isDrainOver = false

    private var prefetchIDs = IdentifierSource<PrefetchKind>()
    private var waiterIDs = IdentifierSource<WaiterKind>()
    private var jobIDs = IdentifierSource<JobKind>()
    private var workerIDs = IdentifierSource<WorkerProcessKind>()
    private var bufferIDs = IdentifierSource<BufferKind>()

    /// The time of the event at hand, also as milliseconds since 1970, and what it leads to.
    var now: Instant
    var unixMs = 0
    var actions: [Action] = []

    /// A broker without clients or workers. `seed` is any number: what is left to chance follows from it.
    init(
        limits: Limits = Limits(), isAllowedAddress: @escaping (String) -> Bool = { _ in true }, seed: UInt64 = 1,
        at now: Instant
    ) {
        random = SplitMix64(state: seed)
        self.limits = limits
        self.isAllowedAddress = isAllowedAddress
        self.now = now
        startedAt = now
        fetchQueue = JobQueue(groupLimit: limits.transfersPerOrigin, order: limits.queueOrder)
        decodeQueue = JobQueue(order: limits.queueOrder)
        fetchPool = WorkerPool(kind: .fetch, size: limits.fetchers, capacity: limits.transfersPerFetcher)
        decodePool = WorkerPool(kind: .decode, size: limits.workers, capacity: 1)
        cachePool = WorkerPool(kind: .cache, size: limits.usesDisk ? 1 : 0, spares: 0, capacity: .max)
        index = MemoryIndex(
            limit: limits.memoryBytes, maximumEntries: limits.memoryEntries, slots: limits.validitySlots)
        connectionPool = SharedPool(limit: limits.maxClients)
        requestPool = SharedPool(limit: limits.maxRequests)
        subscriptionPool = SharedPool(limit: limits.maxSubscriptions)
    }

    /// When `timePassed` is due; nil when nothing is waited for.
    var nextReminder: Instant? { reminders.next }

    /// Takes one event and returns what is to be done about it. The time is given twice, by the clock that runs evenly and
    /// by that of the day, which HTTP speaks of.
    mutating func handle(_ event: Event, at time: Instant, unixMs: Int) -> [Action] {
        now = time
        self.unixMs = unixMs
        lastHit = nil
        // Those of the last event; their memory is used again if the caller has let go of them.
        actions.removeAll(keepingCapacity: actions.capacity <= Self.keptActions)
        switch event {
        case .clientConnected(let client, let uid, let isAdmin): clientConnected(client, uid: uid, isAdmin: isAdmin)
        case .clientDisconnected(let client): clientDisconnected(client)
        case .messageReceived(let client, let message): messageReceived(message, from: client)
        case .messageRejected(let client, let id, let error): messageRejected(id, of: client, with: error)
        case .storeReceived(let client, let request, let bytes): store(request, bytes: bytes, from: client)
        case .streamBroken(let client, let error):
            reject(nil, of: client, with: error)
            actions.append(.close(client))
        case .frameBegun(let client):
            clients[client]?.frameBegunAt = now
            remind(.frame(client, begunAt: now), in: limits.frameDeadlineMs)
        case .frameCompleted(let client): clients[client]?.frameBegunAt = nil
        case .payloadSent(let client, let buffer):
            if sendings.release(buffer, from: client) { unhold(buffer) }
        case .workerStarted(let worker, let pid): pids[worker] = pid
        case .workerReady(let worker, let sandbox, let build): workerReady(worker, sandbox, build: build)
        case .workerMisbehaved(let worker, let detail): workerMisbehaved(worker, detail)
        case .workerHungUp(let worker): workerHungUp(worker)
        case .workerEnding(let worker, let job): workerEnding(worker, job)
        case .workerExited(let worker, let exit): workerExited(worker, exit)
        case .fetchProgressed(let worker, let job, let received, let expected):
            fetchProgressed(worker, job, received: received, expected: expected)
        case .fetchFinished(let worker, let job, let result): fetchFinished(worker, job, result)
        case .fetchResponded(let worker, let job, let response, let validator, let total):
            fetchResponded(worker, job, response, validator: validator, total: total)
        case .fetchNotModified(let worker, let job, let confirmation): fetchNotModified(worker, job, confirmation)
        case .fetchFailed(let worker, let job, let failure): fetchFailed(worker, job, failure)
        case .fetchStopped(let worker, let job, let received): fetchStopped(worker, job, received: received)
        case .headerRead(let worker, let job, let plan): headerRead(worker, job, plan)
        case .decodeFinished(let worker, let job, let result): decodeFinished(worker, job, result)
        case .decodeFailed(let worker, let job, let error): decodeFailed(worker, job, error)
        case .processorTimeUsed(let worker, let job, let milliseconds):
            processorTimeUsed(worker, job, milliseconds: milliseconds)
        case .workerMeasured(let worker, let bytes):
            decodePool.measured(worker, residentBytes: bytes)
            fetchPool.measured(worker, residentBytes: bytes)
        case .diskReported(let report): diskReported(report)
        case .foundOriginal(let worker, let job, let record): found(worker, job, record, nil)
        case .foundRaster(let worker, let job, let record, let raster): found(worker, job, record, raster)
        case .notFound(let worker, let job): notFound(worker, job)
        case .diskQueried(let worker, let job, let record): diskQueried(worker, job, record)
        case .cleared(let worker, let job, let removed, let bytes): cleared(worker, job, removed: removed, bytes: bytes)
        case .keepingEnded(let worker, let job, let isKept): keepingEnded(worker, job, isKept: isKept)
        case .forgotten(let worker, let job, let keys): forgotten(worker, job, keys)
        case .quarantineRemembered(let records): quarantine.restore(records, unixMs: unixMs)
        case .timePassed: break
        case .shutdownRequested: shutdownRequested()
        }
        remindOfDue()
        admitParked()
        // First the jobs: starting a worker takes a millisecond, and a spare may be there.
        assignJobs()
        while let buffer = heldForWaiters.popLast() { unhold(buffer) }
        // What was let go of may be too much.
        drop(index.evictToFit())
        tellOfEvictions()
        endDoubtfulSlots()
        startWorkers()
        retireWorkers()
        if isDraining, waiters.isEmpty, isDrainOver || sendings.isEmpty && errands.isEmpty && queuedErrands.isEmpty {
            actions.append(.exit)
        }
        assert(brokenInvariant(fast: true) == nil, brokenInvariant(fast: true) ?? "")
        return actions
    }

    /// The memory of more actions than this is not kept.
    private static let keptActions = 64

    // MARK: Shared steps

    mutating func remind(_ reminder: Reminder, in milliseconds: Int) {
        reminders.add(reminder, at: now.adding(milliseconds: milliseconds))
        // Those of what has ended may lie far ahead.
        let live =
            2 * (waiters.count + decodes.count + partialFlights.count) + 3 * fetches.count + lookups.count
            + errands.count
        reminders.sweep(live: live + queuedErrands.count + partials.count + clients.count + 64) { reminder in
            switch reminder {
            case .total(let waiter), .idle(let waiter): waiters[waiter] != nil
            case .decode(_, let job), .processorTime(_, let job):
                decodes[job] != nil || partialFlights[job] != nil
            case .lookup(let job): lookups[job] != nil
            case .errand(let job): errands[job] != nil || queuedErrands[job] != nil
            case .retry(let job): fetches[job]?.retryAt != nil
            case .stopping(let job): stopping[job] != nil
            case .partial(let key): partials[key] != nil
            case .nextPart(let job): fetches[job] != nil
            case .frame(let client, let begunAt): clients[client]?.frameBegunAt == begunAt
            case .touch, .workerStart, .workerEnd, .restart, .drained: true
            }
        }
    }

    mutating func newWaiterID() -> WaiterID { waiterIDs.next() }
    mutating func newPrefetchID() -> PrefetchID { prefetchIDs.next() }
    mutating func anyNumber() -> UInt64 { random.next() }
    mutating func newJobID() -> JobID { jobIDs.next() }
    mutating func newWorkerID() -> WorkerID { workerIDs.next() }
    mutating func newBufferID() -> BufferID { bufferIDs.next() }

    /// Closes buffers that nothing leads to any more and nobody here needs.
    mutating func drop(_ buffers: [BufferID]) {
        for buffer in buffers { actions.append(.dropBuffer(buffer)) }
    }

    /// Closes buffers that were removed, whoever leases them; those that a job here still needs, when it has ended.
    mutating func dropRemoved(_ buffers: [BufferID]) {
        for buffer in buffers {
            if isInUse(buffer) { removedInUse.insert(buffer) } else { drop([buffer]) }
        }
    }

    /// Ends a hold, and closes the buffer if it was the last reason to keep it.
    mutating func unhold(_ buffer: BufferID) {
        if index.unhold(buffer) {
            drop([buffer])
        } else if removedInUse.contains(buffer), !isInUse(buffer) {
            removedInUse.remove(buffer)
            drop([buffer])
        }
    }

    private func isInUse(_ buffer: BufferID) -> Bool {
        decodes.values.contains { $0.body == buffer } || heldForWaiters.contains(buffer)
            || fetches.values.contains { $0.given == buffer || $0.revalidatedBody == buffer }
            || errands.values.contains { if case .keep(buffer, _, _) = $0 { true } else { false } }
    }

    private mutating func remindOfDue() {
        while let reminder = reminders.popDue(at: now) {
            switch reminder {
            case .total(let waiter): totalTimePassed(waiter)
            case .idle(let waiter): idleTimePassed(waiter)
            case .decode(let worker, let job): decodeTimePassed(worker, job)
            case .processorTime(let worker, let job):
                if decodePool.isRunning(job, on: worker) { actions.append(.measureProcessorTime(worker, job)) }
            case .lookup(let job): lookupTimePassed(job)
            case .errand(let job): errandTimePassed(job)
            case .retry(let job): retryTimePassed(job)
            case .stopping(let job): stoppingTimePassed(job)
            case .partial(let key): partialTimePassed(key)
            case .nextPart(let job): decodePart(of: job)
            case .touch: reportUse()
            case .workerStart(let worker): startTimePassed(worker)
            case .workerEnd(let worker): endTimePassed(worker)
            case .frame(let client, let begunAt):
                guard clients[client]?.frameBegunAt == begunAt else { break }
                reject(nil, of: client, with: WireError(.badFrame, "A frame was not completed in time."))
                actions.append(.close(client))
            case .drained where isDraining:
                endAll()
            case .drained, .restart: break
            }
        }
    }

    /// Ends all requests: there is no more time.
    private mutating func endAll() {
        isDrainOver = true
        failAll(WireError(.shuttingDown, "The broker is ending."))
    }

    /// Ends all requests with an error; the prefetches first, as they would begin others.
    mutating func failAll(_ error: WireError) {
        for prefetch in prefetches.keys.sorted() { fail(prefetch, error) }
        for waiter in waiters.keys.sorted() { fail(waiter, error) }
    }

    private mutating func shutdownRequested() {
        if isDraining {
            // Asked twice: at once, then.
            return endAll()
        }
        isDraining = true
        isSuspended = false
        index.endSlots()
        actions.append(.stopListening)
        remind(.drained, in: limits.drainMs)
    }
}

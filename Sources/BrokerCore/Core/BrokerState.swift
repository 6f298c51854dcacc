import HTTPCaching
import HTTPValues
import IPCProtocol
package import SystemValues
import WorkerProtocol

/// The broker's state: the machines, and the events and actions that connect them.
///
/// Events go in, actions come out. It is a value without descriptors, clocks or memory of its own: time and everything
/// from outside are inputs, so a test can drive it through any history. The shell enters by `handle`, and by
/// `answerRepeated` for the one fast path. Each machine owns its tables and returns outcomes; the extensions of this
/// type carry an outcome from one machine to the next. The comment at the head of each says which machines it connects.
package struct BrokerState {
    /// Whether the broker goes on.
    enum Shutdown {
        /// → `draining`.
        case none
        /// Unanswered requests may still end. → `overdue`.
        case draining
        /// Unsent replies are not waited for any more.
        case overdue
    }

    private(set) var limits: BrokerLimits
    /// Whether a download from this numeric address may be accepted.
    private(set) var isAllowedAddress: (String) -> Bool
    let startedAt: Instant

    var clients: Clients
    var requests = Requests()
    var downloads: Downloads
    var files: FileReads
    var decoding: Decoding
    var disk: DiskTier
    var tier: SharedTier
    /// The servers of the shared tier as its process has last reported them.
    var sharedServers: [StatsReport.SharedServer] = []
    var supervision: Supervision
    var results: WorkerResults
    var memory: MemoryIndex
    private(set) var memoryBudget: MemoryBudget
    /// When evictions for want of descriptors were logged last.
    var notedDescriptorsAt: Instant?
    var recentFailures = RecentFailures()
    /// The originals that have replaced others and are not decoded yet, by their bytes.
    var trials: [ContentKey: [OriginalKey: Replacement]] = [:]
    var counters = Counters()
    var busiestOrigins = BusiestOrigins()
    /// The last workers that died, the latest first.
    var lastDeaths: [(at: Instant, death: StatsReport.Death)] = []
    var deadlines = MinHeap<Instant, Deadline>()
    /// The deadlines that still mattered when they were last swept.
    private var sweptDeadlines = 0
    /// The jobs whose lookup in the shared tier is late unless its answer waits to be received: that one has come in
    /// time, however long the broker was kept from running. The next `timePassed` tells.
    private var overdueLookups: [JobID] = []
    var repeats: RepeatedRequests
    /// The text of the `get` that `handle` is about to take, from `answerRepeated`.
    var repeatable: (client: ClientID, text: RepeatableText)?

    /// Whether new loads wait for `resume`.
    var isSuspended = false
    private(set) var shutdown = Shutdown.none
    /// Buffers that were removed while a job still needs them.
    private(set) var removedInUse: Set<BufferID> = []
    private var isMovingOutScheduled = false
    private var isEndOfSpareSegmentsScheduled = false
    /// Whether users may have been passed over for want of room for their originals.
    var passesOver = false
    /// Whether loads may have become possible while jobs were assigned.
    var assignsAgain = false
    /// Buffers that ended downloads held: released at the end of the event, when their waiters have gone on.
    var heldUntilEnd: [BufferID] = []
    /// Whether, at the end of the last event, the disk tier might have users' own originals and could be queried for
    /// them.
    private var diskMayHaveOwned = false

    var jobIDs = IdentifierSource<JobKind>()
    var bufferIDs = IdentifierSource<BufferKind>()

    /// The time of the current event, and the actions that it has led to.
    var now: Moment
    var actions: [Action] = []
    // Stored, because the shell reads them after every event, and a getter of another module takes a copy of the whole
    // state.
    /// When `timePassed` is due; nil when nothing is waited for.
    package private(set) var nextDeadline: Instant?
    /// The number of requests answered from memory.
    package private(set) var memoryHits = 0
    /// Changes whenever the images in memory may have changed.
    package private(set) var keptRevision = 0

    /// A broker without clients or workers. All randomness follows from `seed`.
    package init(
        limits: BrokerLimits, isAllowedAddress: @escaping (String) -> Bool = { _ in true }, seed: UInt64,
        at now: Instant
    ) {
        self.limits = limits
        self.isAllowedAddress = isAllowedAddress
        self.now = Moment(instant: now, unixMs: 0)
        startedAt = now
        repeats = RepeatedRequests(seed: seed)
        clients = Clients(limits: limits)
        downloads = Downloads(limits: limits, seed: seed)
        files = FileReads(limits: limits)
        decoding = Decoding(limits: limits)
        disk = DiskTier(limits: limits)
        tier = SharedTier(seed: seed, maximumWrites: limits.maxSharedWrites)
        supervision = Supervision(limits: limits)
        results = WorkerResults(limit: limits.contentsOfAWorker)
        memoryBudget = MemoryBudget(limit: limits.memoryBytes)
        memory = MemoryIndex(
            limit: limits.memoryBytes, maximumEntries: limits.memoryEntries, slots: limits.validitySlots,
            segments: Segments(least: limits.leastSegmentBytes, most: limits.mostSegmentBytes),
            recordBytes: limits.recordBytes)
        deadlines.add(.idleFetchers(ended: 0), at: now.adding(milliseconds: limits.fetcherIdleMs))
    }

    // MARK: Events

    /// Takes one event and returns the actions to perform, in order.
    package mutating func handle(_ event: consuming Event, at time: Instant, unixMs: Int) -> [Action] {
        now = Moment(instant: time, unixMs: unixMs)
        // The memory of the last event's actions is used again if the caller no longer has them.
        actions.removeAll(keepingCapacity: actions.capacity <= Self.keptActions)
        let hasHeardTier = if case .timePassed = event { true } else { false }
        receive(event)
        finishEvent(hasHeardTier: hasHeardTier)
        return actions
    }

    private mutating func receive(_ event: consuming Event) {
        switch consume event {
        case .clientConnected(let client, let uid, let isAdmin, let seesFigures, let namespace):
            clientConnected(client, uid: uid, isAdmin: isAdmin, seesFigures: seesFigures, namespace: namespace)
        case .clientDisconnected(let client, let isForced): clientDisconnected(client, isForced: isForced)
        case .connectionLingers(let uid): clients.connectionLingers(of: uid)
        case .connectionClosed(let uid): clients.connectionClosed(of: uid)
        case .messageReceived(let client, let message): messageReceived(message, from: client)
        case .messageRejected(let client, let id, let error): messageRejected(id, of: client, with: error)
        case .storeReceived(let client, let request, let bytes): store(request, bytes: bytes, from: client)
        case .fileRequested(let client, let message, let file): fileRequested(message, file, from: client)
        case .fileExamined(let file, let result): fileExamined(file, result)
        case .fileLost(let file): fileLost(file)
        case .fileRead(let job): fileRead(job)
        case .fileReadFailed(let job, let failure): fileReadFailed(job, failure)
        case .streamBroken(let client, let error):
            reject(nil, of: client, with: error)
            actions.append(.close(client))
        case .frameBegun(let client):
            clients.frameBegan(client, at: now.instant)
            schedule(.frame(client, begunAt: now.instant), in: limits.frameDeadlineMs)
        case .frameCompleted(let client): clients.frameBegan(client, at: nil)
        case .payloadSent(let client, let buffer): if clients.release(buffer, from: client, .sending) { unhold(buffer) }
        case .workerStarted(let worker, let pid): supervision.notePID(pid, of: worker)
        case .workerReady(let worker, let sandbox, let version, let build):
            workerReady(worker, sandbox, version: version, build: build)
        case .workerMisbehaved(let worker, let detail): workerMisbehaved(worker, detail)
        case .workerHungUp(let worker): workerHungUp(worker)
        case .workerExiting(let worker, let job): workerExiting(worker, before: job)
        case .workerExited(let worker, let exit): workerExited(worker, exit)
        case .fetchRedirected(let worker, let job, let root): fetchRedirected(worker, job, to: root)
        case .fetchProgressed(let worker, let job, let received, let expected):
            fetchProgressed(worker, job, received: received, expected: expected)
        case .fetchFinished(let worker, let job, let result): fetchFinished(worker, job, result)
        case .fetchResponded(let worker, let job, let response, let validator, let total, let isMultiplexed):
            fetchResponded(worker, job, response, validator: validator, total: total, isMultiplexed: isMultiplexed)
        case .fetchNotModified(let worker, let job, let confirmation): fetchNotModified(worker, job, confirmation)
        case .fetchFailed(let worker, let job, let failure): fetchFailed(worker, job, failure)
        case .fetchStopped(let worker, let job, let received): fetchStopped(worker, job, received: received)
        case .identified(let worker, let job, let digest, let early, let format):
            identified(worker, job, digest, early, format)
        case .decodeForeign(let worker, let job, let format): decodeForeign(worker, job, format)
        case .headerRead(let worker, let job, let plan): headerRead(worker, job, plan)
        case .decodedAtOnce(let worker, let job, let result): decodedAtOnce(worker, job, result)
        case .decodeFinished(let worker, let job, let result): decodeFinished(worker, job, result)
        case .decodeFailed(let worker, let job, let error): decodeFailed(worker, job, error)
        case .processorTimeUsed(let worker, let job, let milliseconds):
            processorTimeUsed(worker, job, milliseconds: milliseconds)
        case .workerMeasured(let worker, let bytes): supervision.measured(worker, residentBytes: bytes)
        case .diskReported(let report): diskReported(report)
        case .originalsKnown(let hashes, let isComplete): disk.originalsKnown(hashes, isComplete: isComplete)
        case .foundOriginal(let worker, let job, let record): found(worker, job, record, nil)
        case .foundRaster(let worker, let job, let record, let raster): found(worker, job, record, raster)
        case .notFound(let worker, let job, let isCertain): notFound(worker, job, isCertain: isCertain)
        case .diskQueried(let worker, let job, let record): diskAnswered(worker, job, record)
        case .cleared(let worker, let job, let removed, let bytes):
            diskAnswered(worker, job, removed: min(max(removed, 0), 1 << 40), bytes: min(max(bytes, 0), 1 << 60))
        case .savesFinished(let worker, let jobs, let isSaved): savesFinished(worker, jobs, isSaved: isSaved)
        case .forgotten(let worker, let job, let keys): diskAnswered(worker, job, forgotten: Set(keys))
        case .sharedFound(let worker, let job, let record): sharedFound(worker, job, record)
        case .sharedUnreadable(let worker, let job): sharedUnreadable(worker, job)
        case .sharedNoted(let worker, let job, let record): sharedNoted(worker, job, record)
        case .sharedAnswered(let worker, let job, let answer): sharedAnswered(worker, job, answer)
        case .sharedWritten(let worker, let job): sharedWritten(worker, job)
        case .sharedServersReported(let servers): sharedServers = Array(servers.prefix(StatsReport.SharedServer.most))
        case .quarantineLoaded(let records): decoding.refusals.restore(records, unixMs: now.unixMs)
        case .placeLost(let buffer, let segment):
            dropRemoved(memory.remove(buffer))
            if let segment { memory.lost(segment: segment) }
        case .machineSuspended(let milliseconds): memory.wasSuspended(milliseconds: milliseconds)
        case .reloaded(let result, let requester): reloaded(result, for: requester)
        case .clientLeftBehind(let client): clientLeftBehind(client)
        case .upgradeEnded(let client, let id, let error): upgradeEnded(client, id: id, error)
        case .memoryPressure: _ = shrinkMemory(by: .pressure)
        case .timePassed: break
        case .shutdownRequested: shutdownRequested()
        }
    }

    /// Does what may be due. `hasHeardTier`: all answers of the shared tier's process by now were received.
    private mutating func finishEvent(hasHeardTier: Bool) {
        meetDeadlines(hasHeardTier: hasHeardTier)
        admitDecodings()
        // Before workers are started, because a start takes a millisecond, and a spare may be ready.
        assignJobs()
        // Decodings that fail there free memory, and may lead to other loads.
        while exchange(&assignsAgain, with: false) { assignJobs() }
        while let buffer = heldUntilEnd.popLast() { unhold(buffer) }
        evictToFit()
        endSegments()
        tellOfEvictions()
        endDoubtfulSlots()
        startWorkers()
        retireWorkers()
        if isFinished { actions.append(.exit) }
        // Clients must find the validity page changed before they hear of what changed it.
        let changes = memory.takeSlotChanges()
        if !changes.isEmpty { actions.insert(.updateValidity(changes), at: 0) }
        updateSummary()
        // Only the event that followed `answerRepeated` has that text.
        repeatable = nil
        assert(brokenOutcomes() == nil, brokenOutcomes() ?? "")
    }

    private static let keptActions = 64

    /// Updates the properties that the shell reads.
    mutating func updateSummary() {
        nextDeadline = overdueLookups.isEmpty ? deadlines.next : now.instant
        memoryHits = counters.requests.memoryHits
        keptRevision = memory.revision
    }

    // MARK: Steps that the machines' connections share

    mutating func reply(_ reply: Reply, _ attachment: Action.Attachment = .nothing, to client: ClientID) {
        actions.append(.reply(client, reply, attachment))
    }

    /// Tells the process of a tier something that it does not answer, if it can be told.
    mutating func notify(_ kind: WorkerKind, _ action: (WorkerID) -> Action) {
        if let worker = supervision[kind].available { actions.append(action(worker)) }
    }

    /// Answers a request with an error. `url` is for the log.
    mutating func reject(_ id: Int?, of client: ClientID, with error: WireError, url: SourceURL? = nil) {
        counters.add(for: clients.user(of: client)) { $0.failures[error.code, default: 0] += 1 }
        logFailure(error, id, of: client, url: url)
        reply(.error(id: id, error), to: client)
    }

    /// Tells the subscribers that may know: administrators, and the users that the event is about.
    mutating func tell(_ event: BrokerEvent, uids: Set<UInt32>) {
        for (client, id) in clients.recipients(of: event.name, about: uids) { reply(.event(id: id, event), to: client) }
    }

    /// Whether a lookup in the disk tier may find something.
    var canLookUp: Bool { limits.usesDisk && !supervision[.cache].isDown }

    // MARK: Memory

    /// The memory that jobs have filled, or are about to fill, before it is in the index.
    var reservedBytes: Int { downloads.reservedBytes + files.reservedBytes + decoding.reservedBytes }

    /// Whether jobs may reserve this many bytes more: reserved bytes alone count against the budget. Resident buffers
    /// can be evicted; if they are leased, they are charged to their holders then, who so cannot keep others from being
    /// served.
    func hasRoom(for bytes: Int) -> Bool { reservedBytes + bytes <= memory.limit }

    /// Gives back memory that the requests of a busy time have taken. Changes nothing else.
    package mutating func releaseMemory() {
        requests.releaseMemory()
        files.releaseMemory()
        decoding.releaseMemory()
    }

    /// Evicts until the budget holds (`MemoryIndex.evictToFit`), and closes the buffers that are removed.
    mutating func evictToFit() {
        memory.reservedBytes = reservedBytes
        let before = memory.descriptorEvictions
        drop(memory.evictToFit())
        if memory.descriptorEvictions != before { noteDescriptorEvictions() }
        for buffer in memory.takeUnshared() { actions.append(.unshare(buffer)) }
    }

    /// Reports the segments that have ended to those that have them.
    private mutating func endSegments() {
        for segment in memory.takeEndedSegments() {
            actions.append(.endSegment(segment.number))
            for client in clients.ended(segment.number, bytes: segment.bytes) {
                reply(.segmentEnded(segment.number), to: client)
            }
        }
        if memory.segments.isMovingOut, !isMovingOutScheduled {
            isMovingOutScheduled = true
            schedule(.moveOut, in: memory.segments.canMoveOut ? Self.moveOutMilliseconds : Self.segmentMilliseconds)
        }
        if memory.mayHaveSpareSegments, !isEndOfSpareSegmentsScheduled {
            isEndOfSpareSegmentsScheduled = true
            schedule(.spareSegments, in: Self.segmentMilliseconds)
        }
    }

    /// The pause between two parts of the images that are moved out of a segment.
    private static let moveOutMilliseconds = 10
    /// How long an unneeded segment stays, and one that only held images keep from its end.
    private static let segmentMilliseconds = 1000

    /// Gives up a part of the images in memory. Returns whether that makes room; otherwise they take hardly any.
    mutating func shrinkMemory(by shortage: MemoryBudget.Shortage) -> Bool {
        let inUse = memory.residentBytes + memory.evictedBytes + reservedBytes
        let wasShrunk = memoryBudget.isShrunk
        guard memoryBudget.shrink(by: shortage, inUse: inUse) else { return false }
        memory.limit = memoryBudget.bytes
        if !wasShrunk {
            schedule(.memoryGrowth, in: MemoryBudget.growthMilliseconds)
            let (bytes, limit) = (memoryBudget.bytes >> 20, memoryBudget.limit >> 20)
            let fields = [LogField("mebibytes", bytes), LogField("limit", limit)]
            log(.warning, .memory, fields, "memory is short: images may take less for the time being")
        }
        return true
    }

    private mutating func growMemory() {
        memoryBudget.grow()
        memory.limit = memoryBudget.bytes
        if memoryBudget.isShrunk {
            schedule(.memoryGrowth, in: MemoryBudget.growthMilliseconds)
        } else {
            log(.notice, .memory, [LogField("mebibytes", memoryBudget.limit >> 20)], "images may take all of it again")
        }
    }

    // MARK: Settings

    /// Puts new settings into force, and answers the client that has asked for it, if one has.
    private mutating func reloaded(
        _ result: Result<Reconfiguration, WireError>, for requester: (client: ClientID, id: Int)?
    ) {
        if let requester { clients.ended(requester.id, of: requester.client) }
        switch result {
        case .success(let new):
            apply(new)
            if let requester { reply(.reloaded(id: requester.id, new.report), to: requester.client) }
        case .failure(let error): if let requester { reject(requester.id, of: requester.client, with: error) }
        }
    }

    private mutating func apply(_ new: Reconfiguration) {
        // What failed for want of a program may succeed.
        if new.limits.families != limits.families { _ = recentFailures.clear(url: nil) }
        limits = new.limits
        // What clients hold now stays; without room beside it, nobody could load until they let go.
        let held = memory.heldBytes + memory.bytesOfHolds + clients.endedSegmentBytes
        limits.maxEvictedBytes = max(limits.maxEvictedBytes, held + 64 << 20)
        isAllowedAddress = new.isAllowedAddress
        clients.limits = limits
        downloads.limits = limits
        decoding.limits = limits
        disk.limits = limits
        // `finishEvent` evicts down to it.
        memoryBudget.replaceLimit(by: limits.memoryBytes)
        memory.limit = memoryBudget.bytes
        // The same request may have another answer from now on.
        memory.endSlots()
        repeats.removeAll()
        supervision.retireLoaders(except: limits.families)
        guard new.replacesFetchers else { return }
        for worker in supervision.replaceFetchers() {
            condemn(worker, .outside, "its transfers went on with settings that were replaced several times")
        }
    }

    /// Closes buffers that are in no table and that no job needs.
    mutating func drop(_ buffers: [BufferID]) {
        for buffer in buffers { actions.append(.dropBuffer(buffer)) }
    }

    /// Closes buffers that were removed from the index, leased or not; those that a job still needs, when it has ended.
    mutating func dropRemoved(_ buffers: [BufferID]) {
        // One walk over all jobs, where a walk for each of many buffers would take long.
        let needed = buffers.count > 8 ? Set(neededBuffers) : nil
        for buffer in buffers {
            if needed?.contains(buffer) ?? isNeeded(buffer) { removedInUse.insert(buffer) } else { drop([buffer]) }
        }
    }

    /// Ends a hold, and closes the buffer if that was the last reason to keep it.
    mutating func unhold(_ buffer: BufferID) {
        if memory.unhold(buffer) {
            drop([buffer])
        } else if removedInUse.contains(buffer), !isNeeded(buffer) {
            removedInUse.remove(buffer)
            drop([buffer])
        }
    }

    private var neededBuffers: [BufferID] {
        decoding.bodies + heldUntilEnd + downloads.heldBodies + downloads.completeBodies + disk.buffersBeingSaved
            + tier.buffersBeingWritten
    }

    private func isNeeded(_ buffer: BufferID) -> Bool {
        decoding.needs(buffer) || heldUntilEnd.contains(buffer) || downloads.needs(buffer) || disk.needs(buffer)
            || tier.needs(buffer)
    }

    /// The present time of the clock by which responses age.
    var agingNow: Instant { memory.agingTime(now.instant) }

    /// The response of an origin, as of now.
    func statement(_ response: ResponseRecord, for key: OriginalKey, varyKey: String?) -> OriginStatement {
        OriginStatement(
            response, for: key, varyKey: varyKey, settings: limits.caching, at: agingNow, unixMs: now.unixMs)
    }

    /// The encoded bytes of an original, if they are in memory.
    mutating func body(of original: OriginalFacts) -> BufferID? {
        memory.buffer(VariantKey(content: original.content, form: .original))
    }

    /// Reports evictions; those of shared originals to administrators alone, as their users are not known.
    private mutating func tellOfEvictions() {
        if !clients.hasSubscribers { return }
        for keys in memory.takeEvicted() {
            for key in keys.sorted(by: { $0.url.text < $1.url.text }) {
                let url = key.url.isFile ? nil : key.url.text
                tell(BrokerEvent(.evicted, url: url), uids: key.owner.map { [$0] } ?? [])
            }
        }
    }

    /// Ends all validity slots once requests must query the disk tier for users' own originals first.
    private mutating func endDoubtfulSlots() {
        let mayHaveOwned = disk.report.mayHaveOwned && canLookUp
        if mayHaveOwned, !diskMayHaveOwned { memory.endSlots() }
        diskMayHaveOwned = mayHaveOwned
    }

    // MARK: Deadlines

    mutating func schedule(_ deadline: Deadline, in milliseconds: Int) {
        deadlines.add(deadline, at: now.instant.adding(milliseconds: milliseconds))
        // The deadlines of what has ended may lie far ahead, so they are swept out when they are many.
        if deadlines.isSweepDue(live: sweptDeadlines + 64) { sweepDeadlines() }
    }

    // Apart, because it takes a copy of the state.
    private mutating func sweepDeadlines() {
        let state = self
        deadlines.sweep { state.stillMatters($1) }
        sweptDeadlines = deadlines.count
    }

    /// Whether a deadline in the queue may still have an effect.
    private func stillMatters(_ deadline: Deadline) -> Bool {
        switch deadline {
        case .total(let waiter), .silence(let waiter): requests[waiter] != nil
        case .decode(_, let job), .brief(_, let job, _), .processorTime(_, let job): decoding.contains(job)
        case .lookup(let job): disk[job] != nil
        case .diskRequest(let job): disk.contains(request: job)
        case .shared(let job): tier[job] != nil
        case .retry(let job): downloads[job]?.retryAt != nil
        case .hold(let line): downloads.isHeld(line: line)
        case .stop(let job): downloads.isStopping(job)
        case .yield(let job, let startedAt): downloads[job]?.transfer?.startedAt == startedAt
        case .suspicion(let worker, let job): supervision.isRunning(job, on: worker)
        case .keptBody(let job): downloads.hasKeptBody(of: job)
        case .damage(let buffer): memory.damage(of: buffer) != nil
        case .file(let file): files.asker(of: file) != nil
        case .read(let job): files.isRunning(job)
        case .readAgain(let job): files.isPausing(job)
        case .prefetch(let prefetch): requests[prefetch] != nil
        case .nextPart(let job): downloads[job] != nil
        case .frame(let client, let begunAt): clients[client]?.frameBegunAt == begunAt
        case .idleLoader(let worker, _): supervision.contains(worker)
        case .memoryGrowth, .moveOut, .spareSegments, .reportUse, .workerStart, .workerExit, .idleFetchers, .restart,
            .drain:
            true
        }
    }

    private mutating func meetDeadlines(hasHeardTier: Bool) {
        if hasHeardTier { for job in exchange(&overdueLookups, with: []) { sharedTimePassed(job) } }
        while let deadline = deadlines.popDue(at: now.instant) {
            switch deadline {
            case .total(let waiter): totalTimePassed(waiter)
            case .silence(let waiter): silenceTimePassed(waiter)
            case .decode(let worker, let job):
                if supervision.isRunning(job, on: worker), decoding.isOverdue(job, at: now.instant) {
                    condemn(worker, .deadline, "it was at one image for \(limits.decodeDeadlineMs) ms")
                }
            case .brief(let worker, let job, let ended): briefTimePassed(worker, job, ended: ended)
            case .processorTime(let worker, let job):
                if supervision.isRunning(job, on: worker) { actions.append(.measureProcessorTime(worker, job)) }
            case .lookup(let job): lookupTimePassed(job)
            case .diskRequest(let job): diskRequestTimePassed(job)
            case .shared(let job): if hasHeardTier { sharedTimePassed(job) } else { overdueLookups.append(job) }
            case .retry(let job):
                if let wait = downloads.retryDue(job, at: now.instant), let download = downloads[job] {
                    downloadFailed(job, hostUnavailable(download.origin, milliseconds: wait))
                }
            case .hold(let line):
                if let next = downloads.holdDue(line: line, at: now.instant) {
                    deadlines.add(.hold(line: line), at: next)
                }
            case .stop(let job):
                if let worker = downloads.overdueStop(job) {
                    condemn(worker, .deadline, "it did not stop a transfer")
                }
            case .yield(let job, let startedAt):
                if let next = downloads.checkSilence(of: job, startedAt: startedAt, at: now.instant) {
                    deadlines.add(.yield(job, startedAt: startedAt), at: next)
                }
            case .suspicion(let worker, let job):
                // It keeps its worker, in whose place another one is started for the next suspect.
                if supervision.isRunning(job, on: worker), !supervision.replaceExclusive(worker) {
                    schedule(.suspicion(worker, job), in: limits.suspicionMs)
                }
            case .keptBody(let job): carryOut(downloads.keptBodyDue(of: job, at: now.instant))
            case .damage(let buffer): damageTimePassed(buffer)
            case .file(let file):
                guard case .other? = files.asker(of: file) else { break }
                fileExamined(file, .failure(WireError(.timeout, "The file system did not answer.")))
            case .read(let job): readTimePassed(job)
            case .readAgain(let job): files.pauseOver(job, at: now.instant)
            case .prefetch(let prefetch): beginMore(of: prefetch)
            case .nextPart(let job): renderPart(of: job)
            case .memoryGrowth: growMemory()
            case .moveOut:
                isMovingOutScheduled = false
                let (moves, removed) = memory.moveOut(keeping: Set(memory.segments.heldInEnding.filter(isNeeded)))
                if !moves.isEmpty { actions.append(.move(moves)) }
                dropRemoved(removed)
            case .spareSegments:
                isEndOfSpareSegmentsScheduled = false
                memory.endSpareSegments()
            case .reportUse: reportUse()
            case .workerStart(let worker):
                if supervision[worker]?.isReady == false {
                    condemn(worker, .notStarted, "it was not ready within \(limits.workerStartDeadlineMs) ms")
                }
            case .workerExit(let worker): condemn(worker, .deadline, "it did not end with its socket")
            case .idleLoader(let worker, let ended): supervision.retireIdle(worker, ended: ended)
            case .idleFetchers(let ended): fetcherIdleTimePassed(ended: ended)
            case .frame(let client, let begunAt):
                guard clients[client]?.frameBegunAt == begunAt else { break }
                reject(nil, of: client, with: WireError(.badFrame, "A frame was not completed in time."))
                actions.append(.close(client))
            case .drain: if isDraining { endAll() }
            case .restart: break
            }
        }
    }

    // MARK: Shutdown

    package var isDraining: Bool { if case .none = shutdown { false } else { true } }

    private var isFinished: Bool {
        guard isDraining, requests.isEmpty else { return false }
        if case .overdue = shutdown { return true }
        return clients.isSendingNothing && disk.isIdle
    }

    /// Starts to drain; a second request ends everything at once.
    private mutating func shutdownRequested() {
        if isDraining { return endAll() }
        shutdown = .draining
        downloads.isDraining = true
        isSuspended = false
        memory.endSlots()
        actions.append(.stopListening)
        schedule(.drain, in: limits.drainMs)
    }

    private mutating func endAll() {
        shutdown = .overdue
        failAll(Self.shutdownError)
    }

    private static let shutdownError = WireError(.shuttingDown, "The broker is ending.")

    /// The reason to begin no request; nil until a shutdown was requested.
    var shutdownRefusal: WireError? { isDraining ? Self.shutdownError : nil }

    /// Ends all requests with an error; the prefetches first, because they would begin others.
    mutating func failAll(_ error: WireError) {
        for prefetch in requests.prefetchIDsInOrder { failPrefetch(prefetch, error) }
        for id in requests.ids { leaveJobAndFail(id, error) }
    }
}

import Digests
import IPCProtocol
import SystemValues
import WorkerProtocol

// Workers: queued jobs are assigned to them, and their exits lead back to their jobs.
extension BrokerState {
    // MARK: Assignment

    mutating func assignJobs() {
        repeat { assignLoads() } while !isSuspended && stopSilentTransfer()
        // While decoders do not start, queued images are refused rather than left to wait for the next decoder.
        if decoding.hasQueued, supervision.areDecodersBroken(at: now.instant) {
            while let job = decoding.popQueued() {
                assignsAgain = true
                if decoding.isIdentification(job) {
                    decoding.refuse(identification: job)
                    downloadFailed(job, DecodeRefusals.brokenDecoders)
                } else {
                    _ = refuseQueued(job)
                }
            }
        }
        while let next = decoding.nextQueued(),
            case let brief = next.isBrief && mayBeAmongOthers(next.job) ? next.user : nil,
            let worker = brief.map({ supervision[.decode].available(forBriefJobOf: $0) })
                ?? supervision[.decode].available,
            let job = decoding.popQueued()
        {
            if decoding.isIdentification(job) {
                startIdentifying(job, on: worker, brief: brief)
            } else {
                let isRetry = decoding[job]?.crashes ?? 0 > 0
                let before = decoding.workerBefore(job).flatMap { supervision[$0]?.isIdle == true ? $0 : nil }
                startDecode(
                    job, on: isRetry ? supervision[.decode].freshest ?? worker : before ?? worker, brief: brief)
            }
        }
        for family in decoding.queuedFamilies { assignJobs(of: family) }
        // A job may leave while the start of its worker is put off.
        for family in supervision.neededFamilies where decoding.queued(of: family) == 0 {
            supervision.want(family, for: 0)
        }
        // A small image does not wait until a large one is decoded.
        if decoding.isHoldingUpSmall, let spare = supervision[.decode].freshest, let job = decoding.popSmall() {
            startIdentifying(job, on: spare, isSpare: true)
        }
    }

    /// Assigns the queued decodings of a family to its workers, and has them started. The plain family keeps all its
    /// places (`--workers`); the others share those that it leaves free, and one more while they have none.
    private mutating func assignJobs(of family: CodecFamily) {
        let isInstalled = limits.families.contains(family)
        if !isInstalled || supervision.areDecodersBroken(family, at: now.instant) {
            while let job = decoding.popQueued(of: family) {
                if isInstalled { _ = refuseQueued(job) } else { failMissing(job) }
                assignsAgain = true
            }
        }
        if !isInstalled { return }
        while hasPlaceForLoader, let worker = supervision[.loader(family)].available,
            let job = decoding.popQueued(of: family)
        {
            let isRetry = decoding[job]?.crashes ?? 0 > 0
            startDecode(job, on: isRetry ? supervision[.loader(family)].freshest ?? worker : worker)
        }
        let waiting = decoding.queued(of: family)
        if waiting > 0 { supervision.want(family, for: waiting) }
    }

    private var hasPlaceForLoader: Bool {
        let running = supervision.runningLoaderJobs
        return running == 0 || running + supervision[.decode].runningJobs < limits.workers
    }

    /// Retires a worker of a family other than the plain one that has no job for a while.
    mutating func watchIdleLoader(_ worker: WorkerID) {
        guard case .loader? = supervision.kind(of: worker) else { return }
        schedule(.idleLoader(worker, ended: supervision[worker]?.jobsEnded ?? 0), in: limits.familyIdleMs)
    }

    /// Lets the download workers go if they have had no job since they had ended `ended`; else looks again later.
    mutating func fetcherIdleTimePassed(ended: Int) {
        let isIdle = supervision[.fetch].jobsEnded == ended && downloads.queued == 0
        if !isIdle || !supervision.restFetchers() { watchIdleFetchers() }
    }

    private mutating func watchIdleFetchers() {
        schedule(.idleFetchers(ended: supervision[.fetch].jobsEnded), in: limits.fetcherIdleMs)
    }

    /// Assigns queued lookups and downloads.
    private mutating func assignLoads() {
        startDiskRequests()
        if exchange(&passesOver, with: false) {
            disk.lookupQueue.reconsider()
            tier.queue.reconsider()
            files.queue.reconsider()
            downloads.queue.reconsider()
            downloads.suspects.reconsider()
        }
        while !disk.lookupQueue.isEmpty, let worker = supervision[.cache].available,
            let job = disk.lookupQueue.pop(of: usersWithRoom())
        {
            startLookup(job, on: worker)
        }
        removeFromSharedTier()
        while downloads.heldCount > 0, let (download, since) = downloads.releaseNext(at: now.instant) {
            ended(.held, from: since, for: download.waiters)
        }
        if isSuspended { return }
        while !tier.queue.isEmpty, let worker = supervision[.tier].available,
            let job = tier.queue.pop(of: usersWithRoom())
        {
            startSharedLookup(job, on: worker)
        }
        if downloads.queued > 0, supervision.wakeFetchers(at: now.instant) {
            watchIdleFetchers()
        }
        // One at a time, on a spare if there is one, because no other job waits for the spare.
        while !downloads.suspects.isEmpty, !supervision[.fetch].hasExclusive,
            let worker = supervision[.fetch].freshest, let job = downloads.suspects.pop(of: usersWithRoom())
        {
            startDownload(job, on: worker)
        }
        startReads()
        while !downloads.queue.isEmpty, let worker = supervision[.fetch].available,
            let job = downloads.queue.pop(of: usersWithRoom())
        {
            startDownload(job, on: worker)
        }
    }

    /// Says for which users more originals may be fetched, from the network or from disk: `JobQueue.pop` passes over
    /// the others.
    mutating func usersWithRoom() -> (JobOwner.User) -> Bool {
        if hasRoomForOriginals { return { _ in true } }
        passesOver = true
        return userHasRoom
    }

    /// Whether more originals may be fetched for a user. Originals that wait for a decoder cannot be evicted, and files
    /// that are read: while they fill half of the memory, more are fetched only for users who have at most an eighth of
    /// them, and while they fill three quarters, who have none. Each decoding that ends makes room.
    var userHasRoom: (JobOwner.User) -> Bool {
        if hasRoomForOriginals { return { _ in true } }
        let (load, loads, reserved) = (decoding.load, decoding.loads, downloads.reservedBytesOfUsers)
        let all = downloads.reservedBytes + files.reservedBytes + load.bytes
        let isFull = reservedBytes + load.bytes >= memory.limit / 4 * 3
        return { user in
            let own = user.uid.flatMap { loads[$0] } ?? Decoding.Load()
            let bytes = (user.uid.flatMap { reserved[$0] } ?? 0) + own.bytes
            return all > 0 && bytes * 8 <= all && own.decodings * 8 <= load.decodings && (bytes == 0 || !isFull)
        }
    }

    private var hasRoomForOriginals: Bool {
        let half = memory.limit / 2
        let identifications = decoding.identificationCount
        if reservedBytes >= half, supervision[.fetch].runningJobs > 0 || identifications > 0 { return false }
        let count = decoding.count + identifications
        return count == 0 || decoding.load.bytes < half && count < limits.memoryEntries / 2
    }

    // MARK: Starts

    mutating func startWorkers() {
        if isDraining, requests.isEmpty { return }
        let started = supervision.startMissing(at: now.instant)
        if started.isEmpty { return }
        for (kind, worker) in started {
            actions.append(.startWorker(kind, worker))
            schedule(.workerStart(worker), in: limits.workerStartDeadlineMs)
        }
        for kind in WorkerKind.all { scheduleRestart(of: kind) }
    }

    /// Starts a missing worker that may not be started now when it may.
    private mutating func scheduleRestart(of kind: WorkerKind) {
        if let at = supervision[kind].nextStart, at > now.instant { deadlines.add(.restart, at: at) }
    }

    mutating func workerReady(_ worker: WorkerID, _ sandbox: SandboxReport?, version: String?, build: String?) {
        switch supervision.becameReady(worker, sandbox, version: version) {
        case .accepted:
            if let build, let family = supervision.kind(of: worker)?.family {
                decoding.refusals.becameReady(build: build, of: family)
            }
            watchIdleLoader(worker)
        case .ignored: break
        case .repeated: workerMisbehaved(worker, "it said twice that it is ready")
        case .wrongVersion(let text): condemn(worker, .notStarted, text)
        case .refused(let message):
            log(.warning, .sandbox, [], message)
            condemn(worker, .unconfined, "its sandbox is too weak")
        }
    }

    // MARK: Ends

    /// Condemns a worker and kills it; its jobs are dealt with when it has exited.
    mutating func condemn(_ worker: WorkerID, _ cause: DeathCause, _ detail: String) {
        if supervision.condemn(worker, cause, detail) { actions.append(.killWorker(worker)) }
    }

    mutating func workerMisbehaved(_ worker: WorkerID, _ detail: String) { condemn(worker, .protocol, detail) }

    /// Gives a worker without a socket no more jobs; those it has are dealt with when it has exited.
    mutating func workerHungUp(_ worker: WorkerID) {
        supervision.hungUp(worker)
        schedule(.workerExit(worker), in: limits.workerEndDeadlineMs)
    }

    /// Gives the job of a worker that was found exiting to another one. Its exit is reported later.
    mutating func workerExiting(_ worker: WorkerID, before job: JobID) {
        guard let kind = supervision.foundExiting(worker, before: job, at: now.instant) else { return }
        schedule(.workerExit(worker), in: limits.workerEndDeadlineMs)
        if kind == .fetch {
            carryOut(downloads.notStarted(job, at: now.instant))
        } else {
            supervision.unassign(job, from: worker)
            decodeWorkerExited([job], .outside)
        }
    }

    mutating func workerExited(_ worker: WorkerID, _ exit: WorkerExit) {
        let jobs = supervision[worker]?.jobs ?? []
        // Which of several jobs has ended it shows when each is done again by itself. Those that nobody waits for are
        // not done again, so they are to blame for a crash at once.
        let isShared = supervision.hasSeveralBriefJobs(worker)
        let suspects = isShared ? jobs.filter { !decoding.isWanted($0) } : jobs
        let responsible = isShared && suspects.isEmpty ? nil : decoding.responsible(for: suspects, on: worker)
        decoding.forget(worker)
        // While evicting makes room, a job is not to blame for the kernel's choice of a process.
        let isSpared = exit.isMemoryShort && !supervision.isCondemned(worker) && shrinkMemory(by: .kill)
        guard
            let exit = supervision.exited(
                worker, exit, isForgiven: isSpared || isShared && suspects.isEmpty, isOfImage: responsible != nil,
                isDraining: isDraining, at: now.instant)
        else { return }
        let reason = exit.wasRetired ? "let go" : exit.death.reason
        tell(BrokerEvent(.worker, pid: exit.pid, reason: reason), uids: [])
        let cause = exit.death.cause
        if !exit.wasRetired {
            counters.workerDeaths[cause, default: 0] += 1
            note(exit)
            if !isDraining { logExit(exit) }
        }
        let contents = results.take(of: worker)
        if cause.isCompromise { discardResults(of: worker, exit.kind, contents) }
        let ownMaking = cause.isOwnMaking && !isSpared && !isShared
        switch exit.kind {
        case .fetch: downloadWorkerExited(exit.jobs, ownMaking: ownMaking)
        case .decode, .loader:
            if exit.respawnsForkServer { actions.append(.respawnForkServer) }
            if let responsible, cause.isOwnMaking, cause != .cpu, !isSpared, !exit.wasRetired,
                !isShared || cause != .deadline
            {
                charge(responsible, exit.kind.family ?? .plain)
            }
            decodeWorkerExited(exit.jobs, ownMaking ? cause : .outside, isShared: isShared)
        case .cache: cacheWorkerExited(exit.jobs, ownMaking: ownMaking)
        case .tier: tierWorkerExited(exit.jobs)
        }
        scheduleRestart(of: exit.kind)
    }

    private mutating func charge(_ responsible: Responsible, _ family: CodecFamily) {
        guard let pause = decoding.refusals.charge(responsible, family, at: now.instant) else { return }
        log(
            .warning, .pause,
            [
                LogField("family", family.rawValue), LogField("user", Int(responsible.user)),
                LogField("cause", pause.scope.texts.kind), LogField("milliseconds", pause.milliseconds),
            ], "decoders died on \(pause.scope.texts.images): no more of them are decoded for the time being")
    }

    /// Adds a death to those that the statistics list.
    private mutating func note(_ exit: Supervision.Exit) {
        var death = StatsReport.Death()
        (death.kind, death.pid) = (exit.kind.name, exit.pid)
        (death.cause, death.reason) = (exit.death.cause, exit.death.reason)
        lastDeaths.insert((at: now.instant, death: death), at: 0)
        if lastDeaths.count > StatsReport.mostRows { lastDeaths.removeLast() }
    }

    /// Notes that a worker has contributed to the facts of some bytes; one that has exited is compromised no more.
    mutating func note(_ content: ContentKey, of worker: WorkerID) {
        if supervision.contains(worker) { results.note(content, of: worker) }
    }

    /// Discards what a compromised worker has contributed. Leases stay; failures, which are few, may be invented.
    private mutating func discardResults(of worker: WorkerID, _ kind: WorkerKind, _ contents: WorkerResults.Contents) {
        _ = recentFailures.clear(url: nil)
        switch kind {
        case .fetch:
            discard(contents)
            carryOut(downloads.dropKeptBodies { _ in true })
            downloadAgain(writtenBy: worker)
        case .tier:
            discard(contents)
            downloadAgain(writtenBy: worker)
        case .decode, .loader: discard(contents)
        case .cache:
            removeFromMemory(memory.contentKeys(fromDiskOnly: true))
            ask(.emptying)
        }
    }

    /// Discards everything made of some bytes, wherever memory knows of it; everything, if not all are noted.
    private mutating func discard(_ noted: WorkerResults.Contents) {
        let contents = noted ?? memory.contentKeys(fromDiskOnly: false)
        removeShared(sharedKeys(of: contents), later: true)
        removeFromMemory(contents)
        // Also while the cache process is restarted: the files stay, and the next process finds them.
        if limits.usesDisk {
            if noted == nil {
                ask(.emptying)
            } else if !contents.isEmpty {
                ask(.discard(digests: contents.map(\.digest.hexadecimal)))
            }
        }
        endLookups(again: true)
    }

    /// Removes everything made of some bytes from memory, and detaches their decodings, so that none comes back.
    private mutating func removeFromMemory(_ contents: Set<ContentKey>) {
        for content in contents { rejectTrial(of: content) }
        for key in contents.flatMap({ memory.keys(of: $0) }) { dropRemoved(memory.remove(key)) }
        decoding.detach(contents)
    }

    /// Closes the sockets of retired workers that have no job left, so that they exit.
    mutating func retireWorkers() {
        for worker in supervision.takeFinished() {
            actions.append(.retireWorker(worker))
            schedule(.workerExit(worker), in: limits.workerEndDeadlineMs)
        }
    }
}

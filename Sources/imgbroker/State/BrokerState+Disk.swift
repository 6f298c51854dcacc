import Digests
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// The disk tier: asked before the origin, given what is worth keeping. It may be slow, full or gone; then there is only
// no hit.
extension BrokerState {
    /// Whether a look into the disk tier may find something.
    var canLookUp: Bool { limits.usesDisk && !cachePool.isDown }

    // MARK: Looking up

    /// Lets a waiter join a look into the disk tier, or starts one.
    mutating func lookUp(for id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let request = LookupKey(key: waiter.key, uid: waiter.uid, form: form(of: waiter.request))
        if let job = lookupByKey[request], let flight = lookups[job] {
            waiters[id]?.stage = .lookingUp(job)
            waiters[id]?.hasJoined = true
            lookups[job]?.waiters.append(id)
            lookups[job]?.mayStay = flight.mayStay || waiter.mayEnterMemory
            return
        }
        let job = newJobID()
        lookups[job] = LookupFlight(
            request: request, keys: keys(of: waiter), waiters: [id], mayStay: waiter.mayEnterMemory)
        lookupByKey[request] = job
        waiters[id]?.stage = .lookingUp(job)
        lookupQueue.push(job, priority: waiter.request.options.priority, client: waiter.client)
        remind(.lookup(job), in: limits.lookupDeadlineMs)
    }

    mutating func startLookup(_ job: JobID, on worker: WorkerID) {
        guard let flight = lookups[job] else { return }
        cachePool.assign(job, to: worker)
        lookups[job]?.worker = worker
        // Whose own original may be there does not know yet which one is meant.
        let mayBeOwn = flight.keys.count > 1 && disk.mayHaveOwned && !notOwnOnDisk.contains(flight.keys[0])
        let hasBody = !mayBeOwn && body(of: flight) != nil
        lookups[job]?.isForRaster = hasBody
        actions.append(
            .find(worker, job, keys: flight.keys.map(\.word), form: flight.request.form.rasterWord, rasterOnly: hasBody)
        )
    }

    /// The original that a look is about, where it is in memory already.
    private func body(of flight: LookupFlight) -> BufferID? {
        flight.keys.lazy.compactMap { index.original($0) }.first.flatMap {
            index.buffer(VariantKey(digest: $0.digest, form: .original))
        }
    }

    mutating func found(_ worker: WorkerID, _ job: JobID, _ record: OriginalRecord, _ raster: RasterRecord?) {
        guard cachePool.isRunning(job, on: worker), let flight = lookups[job] else { return }
        guard let digest = ContentDigest(hexadecimal: record.digest),
            let key = flight.keys.first(where: { $0.word == record.key }),
            raster.map({ isWhatWasAsked($0, of: record, as: flight.request.form) }) ?? true
        else { return notFound(worker, job) }
        // What memory knows is what came last.
        let known = index.original(key)
        let origin = known?.origin ?? statement(record.response, for: key, varyKey: record.varyKey)
        if known.map({ $0.digest != digest }) ?? (origin.policy.storability == .never) { return notFound(worker, job) }
        missedDiskAnswers = 0
        _ = endLookup(job)
        noteOwn(flight, found: key)

        let original = MemoryIndex.Original(
            digest: digest, bytes: record.bytes, origin: origin, isFromDisk: true, isOnDisk: true)
        // What has a name of the asker's own stays that of the URL that it was loaded from, whoever asks: it is removed by that.
        let url = known?.origin.url ?? (try? SourceURL(record.url)) ?? key.url
        dropRemoved(index.insert(original, for: key.cacheKey == nil ? key : key.loaded(from: url)))
        let buffer: BufferID
        let variant = VariantKey(digest: digest, form: raster == nil ? .original : flight.request.form)
        // What memory had all along was only not known to be the one that is meant.
        let source: ImageReply.Source = known != nil && index.buffer(variant) != nil ? .memory : .disk
        if let raster {
            if let known = index.buffer(variant) {
                buffer = known
                actions.append(.discard(job))
            } else {
                buffer = newBufferID()
                actions.append(.publish(job, buffer))
                index.insert(
                    buffer, as: variant, bytes: raster.bytes, geometry: raster.geometry, at: now)
            }
            index.insert(raster.header, of: digest)
        } else {
            buffer = takeBody(of: job, digest, bytes: record.bytes)
        }
        // Held, so that serving the first waiter cannot evict it before the last one is served.
        index.hold(buffer)
        for waiter in flight.waiters {
            waiters[waiter]?.hasLookedOnDisk = true
            waiters[waiter]?.key = key
            waiters[waiter]?.source = source
            waiters[waiter]?.keptIn = source
            proceed(waiter)
        }
        if known == nil, !flight.mayStay { dropRemoved(index.remove(key)) }
        unhold(buffer)
        drop(index.dropSpareBody(of: digest))
        drop(index.evictToFit())
    }

    /// Whether a raster is of this original and form, and as long as its pixels.
    private func isWhatWasAsked(_ raster: RasterRecord, of record: OriginalRecord, as form: Form) -> Bool {
        raster.original == record.digest && raster.form == form.rasterWord
            && (form.encoding != nil || raster.bytes == raster.geometry.bytes)
    }

    mutating func notFound(_ worker: WorkerID, _ job: JobID) {
        guard cachePool.isRunning(job, on: worker), let flight = endLookup(job) else { return }
        missedDiskAnswers = 0
        if !flight.isForRaster { noteOwn(flight, found: nil) }
        actions.append(.discard(job))
        // Only what was made of the original was looked for, and that has left the memory meanwhile.
        let looksAgain = flight.isForRaster && body(of: flight) == nil
        goOn(flight, looksAgain: looksAgain)
    }

    /// Remembers that the disk tier has no original of the user's own, so that it need not be asked again.
    private mutating func noteOwn(_ flight: LookupFlight, found key: OriginalKey?) {
        guard flight.keys.count > 1, key != flight.keys[0], disk.mayHaveOwned else { return }
        if notOwnOnDisk.count >= limits.memoryEntries {
            notOwnOnDisk = []
            index.endSlots()
        }
        notOwnOnDisk.insert(flight.keys[0])
    }

    mutating func lookupTimePassed(_ job: JobID) {
        guard let flight = endLookup(job) else { return }
        actions.append(.log(.warning("the disk tier did not answer within \(limits.lookupDeadlineMs) ms")))
        goOn(flight)
        missDiskAnswer()
    }

    /// Takes a look out of the tables, queued or running.
    mutating func endLookup(_ job: JobID) -> LookupFlight? {
        guard let flight = lookups.removeValue(forKey: job) else { return nil }
        if lookupByKey[flight.request] == job { lookupByKey[flight.request] = nil }
        if let worker = flight.worker { cachePool.unassign(job, from: worker) } else { lookupQueue.remove(job) }
        return flight
    }

    /// Ends the looks for originals that are not to be found any more.
    mutating func endLookups(where isMeant: (OriginalKey) -> Bool) {
        for job in lookups.filter({ $0.value.keys.contains(where: isMeant) }).keys.sorted() {
            if let ended = endLookup(job) { goOn(ended) }
        }
    }

    /// Lets those who waited for a look go on without it.
    mutating func goOn(_ flight: LookupFlight, looksAgain: Bool = false) {
        for waiter in flight.waiters {
            waiters[waiter]?.hasJoined = false
            waiters[waiter]?.hasLookedOnDisk = !looksAgain
            proceed(waiter)
        }
    }

    // MARK: Keeping

    /// Gives an original to the disk tier; when that has enough to do, as soon as it has less, if the original is still
    /// in memory then.
    mutating func keep(_ body: BufferID, as key: OriginalKey, _ original: MemoryIndex.Original) {
        // What is too large for it at any time is nothing for the disk tier.
        if original.bytes > limits.maxKeepingBytes { return }
        guard let worker = keeper(of: original.bytes) else {
            if canLookUp, unkept.count < limits.memoryEntries { unkept.append(key) }
            return
        }
        if key.owner != nil { notOwnOnDisk.remove(key) }
        let job = runErrand(.keep(body, bytes: original.bytes, as: key), on: worker)
        index.hold(body)
        actions.append(.keepOriginal(worker, job, record(of: original, key), body))
    }

    /// Tells the disk tier what the origin says now of an original that it may have.
    mutating func updateOnDisk(_ original: MemoryIndex.Original, _ key: OriginalKey) {
        guard canLookUp, let worker = cachePool.available else { return }
        actions.append(.update(worker, record(of: original, key)))
    }

    private func record(of original: MemoryIndex.Original, _ key: OriginalKey) -> OriginalRecord {
        OriginalRecord(
            key: key.word, url: key.url.text, owner: key.owner, digest: original.digest.hexadecimal,
            bytes: original.bytes, response: original.origin.response, varyKey: original.origin.varyKey)
    }

    /// Gives a result to the disk tier, if it took longer to make than it would take to read: 5 ns a byte, against
    /// about 1 ns for a copy with its digest.
    mutating func keepRaster(
        _ buffer: BufferID, _ variant: VariantKey, _ plan: DecodePlan, bytes: Int, microseconds: Int
    ) {
        guard let form = variant.form.rasterWord, microseconds * 1000 >= bytes * 5, let worker = keeper(of: bytes)
        else { return }
        let record = RasterRecord(
            original: variant.digest.hexadecimal, form: form, header: plan.header, geometry: plan.result, bytes: bytes)
        let job = runErrand(.keep(buffer, bytes: bytes, as: nil), on: worker)
        index.hold(buffer)
        actions.append(.keepRaster(worker, job, record, buffer))
    }

    /// The worker that can keep so many bytes more; nil while it has more than enough to do, or cannot keep anything.
    private func keeper(of bytes: Int) -> WorkerID? {
        guard canLookUp, disk.state != .locked, disk.state != .off else { return nil }
        let waiting = errands.values.reduce(0) { if case .keep(_, let bytes, _) = $1 { $0 + bytes } else { $0 } }
        return waiting + bytes <= limits.maxKeepingBytes ? cachePool.available : nil
    }

    mutating func keepingEnded(_ worker: WorkerID, _ job: JobID, isKept: Bool) {
        guard case .keep(let buffer, _, let key)? = endErrand(job, on: worker) else { return }
        if isKept, let key { index.noteOnDisk(key, buffer) }
        unhold(buffer)
        keepNext()
    }

    /// Keeps originals that the disk tier could not take when they came.
    private mutating func keepNext() {
        while let key = unkept.first {
            guard let original = index.original(key), !original.isOnDisk, let body = body(of: original) else {
                unkept.removeFirst()
                continue
            }
            if keeper(of: original.bytes) == nil { return }
            unkept.removeFirst()
            keep(body, as: key, original)
        }
    }

    // MARK: Errands

    private mutating func runErrand(_ errand: DiskErrand, on worker: WorkerID) -> JobID {
        let job = newJobID()
        errands[job] = errand
        cachePool.assign(job, to: worker)
        return job
    }

    /// Asks the disk tier for something that a client waits for; when its process is not there, as soon as it is.
    mutating func ask(_ errand: DiskErrand) {
        let job = newJobID()
        queuedErrands[job] = errand
        // To empty a large cache takes a while.
        let isClear = if case .clear = errand { true } else { false }
        remind(.errand(job), in: isClear ? limits.clearDeadlineMs : limits.lookupDeadlineMs)
        // What is not asked for is still answered in time, if too much waits.
        if queuedErrands.count > limits.maxPendingRequests {
            queuedErrands[job] = nil
            answer(errand)
        }
    }

    mutating func startErrands() {
        while let job = queuedErrands.keys.min(), let worker = cachePool.available,
            let errand = queuedErrands.removeValue(forKey: job)
        {
            errands[job] = errand
            cachePool.assign(job, to: worker)
            switch errand {
            case .keep: break
            case .forget(_, let url, let owner, _): actions.append(.forget(worker, job, url: url, owner: owner))
            case .query(_, let keys, _): actions.append(.queryDisk(worker, job, keys: keys.map(\.word)))
            case .clear(_, let seconds, _, _): actions.append(.clear(worker, job, olderThanSeconds: seconds))
            }
        }
    }

    /// Answers without the disk tier, which has not answered in time. What was to be forgotten still is, later.
    mutating func errandTimePassed(_ job: JobID) {
        guard let errand = errands[job] ?? queuedErrands[job] else { return }
        answer(errand)
        // What was asked for is done all the same, but its answer is nobody's any more.
        if errands[job] != nil {
            errands[job] = errand.withoutAsker
            missDiskAnswer()
        } else if case .query = errand {
            queuedErrands[job] = nil
        } else {
            queuedErrands[job] = errand.withoutAsker
        }
    }

    /// Ends a cache process that has not answered several times in a row: it hangs, or its disk does.
    private mutating func missDiskAnswer() {
        missedDiskAnswers += 1
        guard missedDiskAnswers >= 3, let worker = cachePool.available else { return }
        missedDiskAnswers = 0
        end(worker, of: \.cachePool, .deadline, "it did not answer")
    }

    private mutating func endErrand(_ job: JobID, on worker: WorkerID) -> DiskErrand? {
        guard cachePool.isRunning(job, on: worker) else { return nil }
        missedDiskAnswers = 0
        cachePool.unassign(job, from: worker)
        return errands.removeValue(forKey: job)
    }

    mutating func diskQueried(_ worker: WorkerID, _ job: JobID, _ record: OriginalRecord?) {
        if let errand = endErrand(job, on: worker) { answer(errand, record) }
    }

    mutating func forgotten(_ worker: WorkerID, _ job: JobID, _ keys: [String]) {
        if let errand = endErrand(job, on: worker) { answer(errand, forgotten: Set(keys)) }
    }

    mutating func cleared(_ worker: WorkerID, _ job: JobID, removed: Int, bytes: Int) {
        if let errand = endErrand(job, on: worker) {
            answer(errand, removed: min(max(removed, 0), 1 << 40), bytes: min(max(bytes, 0), 1 << 60))
        }
    }

    /// Answers the client with what the disk tier has said; with nothing, when it has not.
    private mutating func answer(
        _ errand: DiskErrand, _ record: OriginalRecord? = nil, forgotten: Set<String> = [], removed: Int = 0,
        bytes: Int = 0
    ) {
        switch errand {
        case .keep(let buffer, _, _): unhold(buffer)
        case .forget(let asker, _, _, let inMemory):
            guard let (client, id) = asker, endErrand(id, of: client) else { return }
            reply(.removed(id: id, count: inMemory.union(forgotten).count), to: client)
        case .query(let asker, let keys, let found):
            guard let (client, id) = asker, endErrand(id, of: client) else { return }
            let onDisk = record.flatMap { record in
                keys.first { $0.word == record.key }.map { key in
                    self.isFresh(statement(record.response, for: key, varyKey: record.varyKey), for: key)
                }
            }
            let fresh = found.isFresh ?? onDisk ?? false
            let status = CacheStatus(
                memory: found.inMemory, disk: onDisk != nil, fresh: fresh, placeholder: found.placeholder)
            reply(.queried(id: id, status), to: client)
        case .clear(let asker, _, let removedBefore, let bytesBefore):
            guard let (client, id) = asker, endErrand(id, of: client) else { return }
            reply(.cleared(id: id, removed: removedBefore + removed, bytes: bytesBefore + bytes), to: client)
        }
    }

    // MARK: Use

    /// Notes that an original was used by way of memory, for the disk tier's own order of age.
    mutating func noteUse(of key: OriginalKey) {
        guard canNoteUse else { return }
        if touched.isEmpty { remind(.touch, in: 1000) }
        touched.insert(key)
    }

    /// Whether there is a disk tier to be told, and room in what it is told next.
    var canNoteUse: Bool { limits.usesDisk && touched.count < 1000 }

    mutating func reportUse() {
        if let worker = cachePool.available { actions.append(.touch(worker, keys: touched.map(\.word).sorted())) }
        touched = []
    }

    // MARK: The worker

    mutating func diskReported(_ report: DiskReport) {
        if (report.state, report.reason) != (disk.state, disk.reason) {
            actions.append(
                .log(
                    report.state == .on
                        ? .notice("the disk tier is on")
                        : .warning("the disk tier is \(report.state.rawValue): \(report.reason ?? "no reason given")")))
        }
        disk = report
        if report.state == .on { saveQuarantine() }
    }

    /// What the cache process was asked for is answered without it, or its successor asked: but not again and again for
    /// what it dies of.
    mutating func cacheWorkerEnded(_ jobs: Set<JobID>, ownMaking: Bool) {
        unkept = []
        // A reason that the next one gives as well is not said again.
        disk = DiskReport(state: .off, reason: disk.state == .off ? disk.reason : nil)
        for job in jobs.sorted() {
            actions.append(.discard(job))
            switch errands.removeValue(forKey: job) {
            case .keep(let buffer, _, _): unhold(buffer)
            case .some(let errand):
                if ownMaking { errandCrashes[job, default: 0] += 1 }
                if errandCrashes[job, default: 0] < 2 {
                    queuedErrands[job] = errand
                } else {
                    actions.append(.log(.warning("the disk tier has crashed twice on one order, which is dropped")))
                    answer(errand)
                }
            case nil: break
            }
            if let flight = endLookup(job) { goOn(flight) }
        }
        errandCrashes = errandCrashes.filter { queuedErrands[$0.key] != nil }
        // Those that are queued wait for the next one, unless there is none to be expected.
        if !cachePool.isDown { return }
        for job in lookups.keys.sorted() { if let flight = endLookup(job) { goOn(flight) } }
    }
}

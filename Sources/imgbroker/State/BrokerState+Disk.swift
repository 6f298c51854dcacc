import IPCProtocol
import LinuxSystem

// The disk tier: asked before the origin, given what is worth keeping. It may be slow, full or gone; then there is only
// no hit.
extension BrokerState {
    /// Whether a look into the disk tier may find something.
    var canLookUp: Bool { limits.usesDisk && !cachePool.isDown }

    // MARK: Looking up

    /// Lets a waiter join a look into the disk tier, or starts one.
    mutating func lookUp(for id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let request = LookupKey(key: waiter.key, form: form(of: waiter.request))
        if let job = lookupByKey[request] {
            waiters[id]?.stage = .lookingUp(job)
            waiters[id]?.hasJoined = true
            lookups[job]?.waiters.append(id)
            return
        }
        let job = newJobID()
        lookups[job] = LookupFlight(request: request, waiters: [id])
        lookupByKey[request] = job
        waiters[id]?.stage = .lookingUp(job)
        lookupQueue.push(job, priority: waiter.request.options.priority, client: waiter.client)
        remind(.lookup(job), in: limits.lookupDeadlineMs)
    }

    mutating func startLookup(_ job: JobID, on worker: WorkerID) {
        guard let flight = lookups[job] else { return }
        cachePool.assign(job, to: worker)
        lookups[job]?.worker = worker
        let request = flight.request
        let body = index.original(request.key).flatMap {
            index.buffer(VariantKey(digest: $0.digest, form: .original))
        }
        actions.append(
            .find(worker, job, key: request.key.word, form: request.form.rasterWord, rasterOnly: body != nil))
    }

    mutating func found(_ worker: WorkerID, _ job: JobID, _ record: OriginalRecord, _ raster: RasterRecord?) {
        guard cachePool.isRunning(job, on: worker), let flight = lookups[job] else { return }
        guard let digest = ContentDigest(hexadecimal: record.digest), record.key == flight.request.key.word,
            raster == nil || raster?.original == record.digest && raster?.form == flight.request.form.rasterWord
        else { return notFound(worker, job) }
        missedDiskAnswers = 0
        _ = endLookup(job)
        for waiter in flight.waiters { waiters[waiter]?.source = .disk }

        let original = MemoryIndex.Original(
            digest: digest, contentType: record.response.contentType, etag: record.response.etag, isFromDisk: true)
        dropRemoved(index.insert(original, for: flight.request.key))
        guard let raster else {
            let body = takeBody(of: job, original, bytes: record.bytes)
            return serve(flight.waiters, original, from: body)
        }
        let variant = VariantKey(digest: digest, form: flight.request.form)
        let buffer: BufferID
        if let known = index.buffer(variant) {
            buffer = known
            actions.append(.discard(job))
        } else {
            buffer = newBufferID()
            actions.append(.publish(job, buffer))
            index.insert(buffer, as: variant, bytes: raster.geometry.bytes, geometry: raster.geometry)
        }
        index.insert(raster.header, of: digest)
        index.hold(buffer)
        for waiter in flight.waiters.compactMap({ waiters[$0] }) {
            deliver(buffer, raster.geometry, original, raster.header, to: waiter)
        }
        unhold(buffer)
        drop(index.evictToFit())
    }

    mutating func notFound(_ worker: WorkerID, _ job: JobID) {
        guard cachePool.isRunning(job, on: worker), let flight = endLookup(job) else { return }
        missedDiskAnswers = 0
        actions.append(.discard(job))
        goOnWithoutDisk(flight)
    }

    mutating func lookupTimePassed(_ job: JobID) {
        guard let flight = endLookup(job) else { return }
        actions.append(.log(.warning("the disk tier did not answer within \(limits.lookupDeadlineMs) ms")))
        goOnWithoutDisk(flight)
        missDiskAnswer()
    }

    /// Takes a look out of the tables, queued or running.
    mutating func endLookup(_ job: JobID) -> LookupFlight? {
        guard let flight = lookups.removeValue(forKey: job) else { return nil }
        lookupByKey[flight.request] = nil
        if let worker = flight.worker { cachePool.unassign(job, from: worker) } else { lookupQueue.remove(job) }
        return flight
    }

    mutating func goOnWithoutDisk(_ flight: LookupFlight) {
        for id in flight.waiters {
            guard let waiter = waiters[id] else { continue }
            waiters[id]?.stage = nil
            waiters[id]?.hasJoined = false
            // Another request may have brought it into memory meanwhile.
            let original = index.original(waiter.key)
            if let original, let (buffer, header) = cached(waiter.key, flight.request.form) {
                deliver(buffer, size(of: buffer, header), original, header, to: waiter)
            } else if let original,
                let body = index.buffer(VariantKey(digest: original.digest, form: .original))
            {
                decode(VariantKey(digest: original.digest, form: flight.request.form), of: body, for: id)
            } else if waiter.request.options.cache == .onlyIfCached {
                deny(waiter, notCached(waiter))
            } else {
                fetch(for: id)
            }
        }
    }

    // MARK: Keeping

    /// Gives a downloaded original to the disk tier.
    mutating func keep(_ body: BufferID, as key: OriginalKey, _ result: FetchResult) {
        guard let worker = keeper(of: result.bytes) else { return }
        let record = OriginalRecord(
            key: key.word, url: key.url.text, owner: key.owner, digest: result.digest, bytes: result.bytes,
            response: result.response ?? ResponseRecord(requestedAt: 0, receivedAt: 0))
        let job = runErrand(.keep(body, bytes: result.bytes), on: worker)
        index.hold(body)
        actions.append(.keepOriginal(worker, job, record, body))
    }

    /// Gives pixels to the disk tier, if they took longer to make than they would take to read: 5 ns a byte, against
    /// about 1 ns for a copy with its digest.
    mutating func keepRaster(_ buffer: BufferID, _ variant: VariantKey, _ plan: DecodePlan, microseconds: Int) {
        guard let form = variant.form.rasterWord, microseconds * 1000 >= plan.result.bytes * 5,
            let worker = keeper(of: plan.result.bytes)
        else { return }
        let record = RasterRecord(
            original: variant.digest.hexadecimal, form: form, header: plan.header, geometry: plan.result)
        let job = runErrand(.keep(buffer, bytes: plan.result.bytes), on: worker)
        index.hold(buffer)
        actions.append(.keepRaster(worker, job, record, buffer))
    }

    /// The worker that can keep so many bytes more; nil while it has more than enough to do, or cannot keep anything.
    private func keeper(of bytes: Int) -> WorkerID? {
        guard canLookUp, disk.state != .locked, disk.state != .off else { return nil }
        let waiting = errands.values.reduce(0) { if case .keep(_, let bytes) = $1 { $0 + bytes } else { $0 } }
        return waiting + bytes <= limits.maxKeepingBytes ? cachePool.available : nil
    }

    mutating func keepingEnded(_ worker: WorkerID, _ job: JobID) {
        if case .keep(let buffer, _)? = endErrand(job, on: worker) { unhold(buffer) }
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
        remind(.errand(job), in: limits.lookupDeadlineMs)
        // What is not asked for is still answered in time, if too much waits.
        if queuedErrands.count > limits.maxPendingRequests {
            queuedErrands[job] = nil; answer(errand, isOnDisk: false, forgotten: [])
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
            case .forget(_, _, let url, let owner, _): actions.append(.forget(worker, job, url: url, owner: owner))
            case .query(_, _, let key, _): actions.append(.queryDisk(worker, job, key: key))
            }
        }
    }

    /// Answers without the disk tier, which has not answered in time. What was to be forgotten still is, later.
    mutating func errandTimePassed(_ job: JobID) {
        guard let errand = errands[job] ?? queuedErrands[job] else { return }
        answer(errand, isOnDisk: false, forgotten: [])
        if case .query = errand { queuedErrands[job] = nil }
        if errands[job] != nil { missDiskAnswer() }
    }

    /// Ends a cache process that has not answered several times in a row: it hangs, or its disk does.
    private mutating func missDiskAnswer() {
        missedDiskAnswers += 1
        guard missedDiskAnswers >= 3, let worker = cachePool.available else { return }
        missedDiskAnswers = 0
        actions.append(.log(.warning("the disk tier does not answer: its process is ended")))
        kill(worker, of: \.cachePool)
    }

    private mutating func endErrand(_ job: JobID, on worker: WorkerID) -> DiskErrand? {
        guard cachePool.isRunning(job, on: worker) else { return nil }
        missedDiskAnswers = 0
        cachePool.unassign(job, from: worker)
        return errands.removeValue(forKey: job)
    }

    mutating func diskQueried(_ worker: WorkerID, _ job: JobID, _ found: Bool) {
        if let errand = endErrand(job, on: worker) { answer(errand, isOnDisk: found, forgotten: []) }
    }

    mutating func forgotten(_ worker: WorkerID, _ job: JobID, _ keys: [String]) {
        if let errand = endErrand(job, on: worker) { answer(errand, isOnDisk: false, forgotten: Set(keys)) }
    }

    private mutating func answer(_ errand: DiskErrand, isOnDisk: Bool, forgotten: Set<String>) {
        switch errand {
        case .keep(let buffer, _): unhold(buffer)
        case .forget(let client, let id, _, _, let inMemory):
            guard clients[client]?.errands.remove(id) != nil else { return }
            reply(.removed(id: id, count: inMemory.union(forgotten).count), to: client)
        case .query(let client, let id, _, let inMemory):
            guard clients[client]?.errands.remove(id) != nil else { return }
            reply(.queried(id: id, memory: inMemory, disk: isOnDisk, fresh: inMemory || isOnDisk), to: client)
        }
    }

    // MARK: Use

    /// Notes that an original was used by way of memory, for the disk tier's own order of age.
    mutating func noteUse(of key: OriginalKey) {
        guard limits.usesDisk, touched.count < 1000 else { return }
        if touched.isEmpty { remind(.touch, in: 1000) }
        touched.insert(key)
    }

    mutating func reportUse() {
        if let worker = cachePool.available { actions.append(.touch(worker, keys: touched.map(\.word).sorted())) }
        touched = []
    }

    // MARK: The worker

    mutating func diskReported(_ report: DiskReport) {
        if report.state != disk.state, report.state != .on {
            actions.append(
                .log(.warning("the disk tier is \(report.state.rawValue): \(report.reason ?? "no reason given")")))
        } else if report.state != disk.state {
            actions.append(.log(.notice("the disk tier is on")))
        }
        disk = report
    }

    /// What the cache process was asked for is answered without it.
    mutating func cacheWorkerEnded(_ jobs: Set<JobID>) {
        disk = DiskReport(state: .off)
        for job in jobs.sorted() {
            actions.append(.discard(job))
            switch errands.removeValue(forKey: job) {
            case .keep(let buffer, _): unhold(buffer)
            case .some(let errand): queuedErrands[job] = errand
            case nil: break
            }
            if let flight = endLookup(job) { goOnWithoutDisk(flight) }
        }
        // Those that are queued wait for the next one, unless there is none to be expected.
        if !cachePool.isDown { return }
        for job in lookups.keys.sorted() { if let flight = endLookup(job) { goOnWithoutDisk(flight) } }
    }
}

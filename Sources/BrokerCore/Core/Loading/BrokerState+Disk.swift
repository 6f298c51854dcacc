import Digests
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Lookups of requests, and answers of the cache process: what it found, saved, forgot and cleared, and what follows
// when it does not answer.
extension BrokerState {
    // MARK: Lookups

    /// Lets a waiter join a lookup in the disk tier, or queues one.
    mutating func lookUp(for id: WaiterID) {
        guard let waiter = requests[id] else { return }
        let key = LookupKey(original: waiter.key, uid: waiter.uid, form: form(of: waiter.request).ofSound.ofImage)
        let jobWaiter = jobWaiter(for: waiter)
        if let job = disk.join(key, jobWaiter, mayStay: waiter.mayEnterMemory) {
            return requests.wait(id, for: .lookingUp(job), joining: true)
        }
        if disk.lacks(waiter.keys) {
            // As after a lookup that found nothing.
            requests.lookupEnded(id, again: false)
            return advance(id)
        }
        let job = jobIDs.next()
        disk.enqueue(key, keys: waiter.keys, jobWaiter, mayStay: waiter.mayEnterMemory, as: job)
        requests.wait(id, for: .lookingUp(job))
        schedule(.lookup(job), in: limits.lookupDeadlineMs)
    }

    mutating func startLookup(_ job: JobID, on worker: WorkerID) {
        guard let lookup = disk[job] else { return }
        supervision.assign(job, to: worker)
        let hasBody = !disk.isAmbiguous(lookup) && hasBody(lookup)
        // Without the original in memory, it is the shared one that most users have.
        let known = hasBody ? lookup.keys.first { memory.original($0) != nil } : nil
        let owner = (known ?? lookup.keys.last)?.owner
        let rasterWord = lookup.key.form.rasterWord(of: owner)
        // What memory answers anyway is not read from disk only because the user may have an own original there.
        let isForOwn = disk.isAmbiguous(lookup) && hasVariant(lookup)
        let keys = isForOwn ? lookup.keys.prefix(1) : lookup.keys[...]
        disk.start(
            lookup: job, on: worker, isForRaster: hasBody, isForOwn: isForOwn, rasterWord: rasterWord, at: now.instant)
        actions.append(.find(worker, job, keys: keys.map(\.word), form: rasterWord, rasterOnly: hasBody))
    }

    /// Whether memory has the variant of the shared original that a lookup is for.
    private mutating func hasVariant(_ lookup: Lookup) -> Bool {
        guard let shared = lookup.keys.last.flatMap({ memory.original($0) }) else { return false }
        return memory.buffer(VariantKey(content: shared.content, form: lookup.key.form)) != nil
    }

    /// Whether the original that a lookup is for is in memory already.
    private mutating func hasBody(_ lookup: Lookup) -> Bool {
        for key in lookup.keys {
            if let original = memory.original(key) { return body(of: original) != nil }
        }
        return false
    }

    mutating func found(_ worker: WorkerID, _ job: JobID, _ record: OriginalRecord, _ raster: RasterRecord?) {
        guard supervision.isRunning(job, on: worker) else { return }
        // Of any other job of the process, nothing can have been found.
        guard let lookup = disk[job] else { return actions.append(.discard(job)) }
        guard let digest = ContentDigest(hexadecimal: record.digest),
            let key = lookup.keys.first(where: { $0.word == record.key }),
            raster.map({ isMatch($0, of: record, lookup) }) ?? true,
            // Of a file, only the identity is kept.
            !key.url.isFile || raster != nil && digest == key.fileDigest,
            record.pixels.map({ $0.refusal(bytes: record.bytes) == nil && raster == nil }) ?? true
        else { return notFound(worker, job) }
        // Memory knows the newer original.
        let known = memory.original(key)
        let origin = known?.origin ?? statement(record.response, for: key, varyKey: record.varyKey)
        let content = ContentKey(digest: digest, owner: key.owner, pixels: record.pixels)
        if known.map({ $0.content != content }) ?? (origin.policy.storability == .never) {
            return notFound(worker, job)
        }
        disk.lookupAnswered()
        _ = endLookup(job)
        if disk.noteMissingOwned(lookup, found: key) { memory.endSlots() }

        let original = OriginalFacts(
            content: content, bytes: record.bytes, origin: origin, isFromDisk: true, isOnDisk: true)
        // An entry with a cache key keeps the URL that it was loaded from; `remove` finds it by that.
        let url = known?.origin.url ?? (try? SourceURL(record.url)) ?? key.url
        dropRemoved(memory.insert(original, for: key.cacheKey == nil ? key : key.loaded(from: url)))
        let variant = VariantKey(content: content, form: raster == nil ? .original : lookup.key.form)
        // If memory had the variant, it only did not know that this original was meant.
        let source: ImageReply.Source = known != nil && memory.buffer(variant) != nil ? .memory : .disk
        let buffer = adopt(raster, job, variant, bytes: record.bytes, for: lookup.waiters)
        // Held, so that serving the first waiter cannot evict it before the last one is served.
        memory.hold(buffer, bytes: raster?.bytes ?? record.bytes)
        for id in lookup.waiters.map(\.id) {
            requests.foundOnDisk(id, key, source: source)
            advance(id)
        }
        if known == nil, !lookup.mayStay { dropRemoved(memory.remove(key)) }
        unhold(buffer)
        drop(memory.dropSpareBody(of: content))
        evictToFit()
    }

    /// Makes the product of a lookup a buffer, unless memory has the variant already.
    private mutating func adopt(
        _ raster: RasterRecord?, _ job: JobID, _ variant: VariantKey, bytes: Int, for waiters: JobWaiters
    ) -> BufferID {
        defer { if let raster { memory.insert(raster.header, of: variant.content) } }
        if let known = memory.buffer(variant) {
            actions.append(.discard(job))
            return known
        }
        guard let raster else {
            return adopt(publishOriginal(job, bytes: bytes), variant.content, bytes: bytes, since: nil)
        }
        let buffer = bufferIDs.next()
        let home = publish(job, as: buffer, bytes: raster.bytes, for: waiters)
        memory.insert(
            buffer, as: variant, bytes: raster.bytes, geometry: raster.geometry, at: now.instant,
            isHandedOut: hasGet(waiters), in: home)
        return buffer
    }

    private func isMatch(_ raster: RasterRecord, of record: OriginalRecord, _ lookup: Lookup) -> Bool {
        raster.original == record.digest && raster.form == lookup.rasterWord
            && (lookup.key.form.encoding != nil || raster.bytes == lookup.key.form.bytes(of: raster.geometry))
    }

    mutating func notFound(_ worker: WorkerID, _ job: JobID, isCertain: Bool = true) {
        guard supervision.isRunning(job, on: worker), let lookup = endLookup(job) else { return }
        disk.lookupAnswered()
        // If everything remembered before was forgotten for it, requests must query the disk tier again.
        if isCertain, !lookup.isForRaster, disk.noteMissingOwned(lookup, found: nil) { memory.endSlots() }
        actions.append(.discard(job))
        // Only a raster, or only the user's own original, was looked for, and the rest has left the memory meanwhile.
        let looksAgain = lookup.isForRaster && !hasBody(lookup) || lookup.isForOwn && !hasVariant(lookup)
        goOn(lookup, looksAgain: looksAgain)
    }

    /// Whether the disk tier certainly has no original of the user's own with this key, which is remembered as after a
    /// lookup.
    mutating func certainlyLacks(owned key: OriginalKey) -> Bool {
        guard disk.lacks([key]) else { return false }
        if disk.noteMissing(owned: key) { memory.endSlots() }
        return true
    }

    /// Ends a lookup that the cache process has not answered in time, or that waits for such a process. One that waits
    /// for memory goes on waiting.
    mutating func lookupTimePassed(_ job: JobID) {
        guard let waiting = disk[job] else { return }
        let since = waiting.startedAt ?? (supervision[.cache].available == nil ? nil : now.instant)
        if let due = since?.adding(milliseconds: limits.lookupDeadlineMs), due > now.instant {
            return deadlines.add(.lookup(job), at: due)
        }
        guard let lookup = endLookup(job) else { return }
        log(.warning, .disk, [], "the disk tier did not answer within \(limits.lookupDeadlineMs) ms")
        goOn(lookup)
        if lookup.worker != nil { missedDiskAnswer() }
    }

    /// Takes a lookup out, and from its worker.
    private mutating func endLookup(_ job: JobID) -> Lookup? {
        guard let lookup = disk.end(lookup: job) else { return nil }
        if let worker = lookup.worker { supervision.unassign(job, from: worker) }
        if let startedAt = lookup.startedAt {
            ended(.disk, from: startedAt, queuedAt: lookup.waiters.first?.since, for: lookup.waiters)
        }
        return lookup
    }

    /// Ends lookups for originals, or with `again` repeats those that run: what they find may have been discarded.
    mutating func endLookups(again: Bool = false, where matches: (OriginalKey) -> Bool = { _ in true }) {
        for job in disk.lookups(where: matches) where !again || disk[job]?.worker != nil {
            if let lookup = endLookup(job) { goOn(lookup, looksAgain: again) }
        }
    }

    /// Lets the waiters of a lookup go on without a result.
    private mutating func goOn(_ lookup: Lookup, looksAgain: Bool = false) {
        for id in lookup.waiters.map(\.id) {
            requests.lookupEnded(id, again: looksAgain)
            advance(id)
        }
    }

    // MARK: Saving

    /// Has the disk tier save an original; when it has too much to save, later, if the original is still in memory
    /// then.
    mutating func save(_ body: BufferID, as key: OriginalKey, _ original: OriginalFacts) {
        // One above the bound would wait for ever.
        if original.bytes > limits.maxSavingBytes { return }
        guard let worker = worker(toSave: original.bytes) else {
            if canLookUp { disk.postpone(key) }
            return
        }
        beginSaving(body, bytes: original.bytes, as: key, on: worker) {
            .saveOriginal(worker, $0, Self.record(of: original, key), body)
        }
    }

    /// Saves a variant on disk, if it took longer to make than to read: 5 ns a byte (1 ns for a copy).
    mutating func saveRaster(
        _ buffer: BufferID, _ variant: VariantKey, _ plan: DecodePlan, bytes: Int, microseconds: Int
    ) {
        // Rasters are found by the digest of their original, which is that of stored pixels in any layout.
        let keys = memory.keys(of: variant.content)
        guard variant.content.pixels == nil, let form = variant.form.rasterWord(of: variant.content.owner),
            microseconds * 1000 >= bytes * 5, keys.contains(where: { memory.original($0)?.staysOffDisk == false }),
            let worker = worker(toSave: bytes)
        else { return }
        if let key = keys.first(where: \.url.isFile) { saveIdentity(key, with: buffer, on: worker) }
        let record = RasterRecord(
            original: variant.content.digest.hexadecimal, form: form, header: plan.header, geometry: plan.result,
            bytes: bytes)
        beginSaving(buffer, bytes: bytes, as: nil, on: worker) { .saveRaster(worker, $0, record, buffer) }
    }

    mutating func beginSaving(
        _ buffer: BufferID, bytes: Int, as key: OriginalKey?, on worker: WorkerID, _ action: (JobID) -> Action
    ) {
        let job = jobIDs.next()
        disk.beginSaving(buffer, bytes: bytes, as: key, job: job)
        supervision.assign(job, to: worker)
        memory.hold(buffer, bytes: bytes)
        actions.append(action(job))
    }

    static func record(of original: OriginalFacts, _ key: OriginalKey) -> OriginalRecord {
        var record = OriginalRecord(
            key: key.word, url: key.url.text, owner: key.owner, digest: original.content.digest.hexadecimal,
            bytes: original.bytes, response: original.origin.response, varyKey: original.origin.varyKey)
        record.pixels = original.content.pixels
        return record
    }

    /// The cache process, if it may be given this many bytes more to save.
    private func worker(toSave bytes: Int) -> WorkerID? {
        canLookUp && disk.maySave(bytes) ? supervision[.cache].available : nil
    }

    mutating func savesFinished(_ worker: WorkerID, _ jobs: [JobID], isSaved: Bool) {
        for job in jobs {
            guard case .save(let buffer, _, let key)? = answered(job, on: worker) else { continue }
            if isSaved, let key { memory.noteOnDisk(key, buffer) }
            unhold(buffer)
            // Of a file, the buffer is a raster, and the bytes can be read again.
            if let key, key.url.isFile, let original = memory.original(key) {
                drop(memory.dropSpareBody(of: original.content))
            }
        }
        savePostponed()
    }

    private mutating func savePostponed() {
        while let key = disk.nextUnsaved {
            guard let original = memory.original(key), !original.isOnDisk, let body = body(of: original) else {
                disk.dropNextUnsaved()
                continue
            }
            if worker(toSave: original.bytes) == nil { return }
            disk.dropNextUnsaved()
            save(body, as: key, original)
        }
    }

    // MARK: Forgetting

    /// Removes an original that is of no use any more, from disk too.
    mutating func forget(_ key: OriginalKey) {
        dropRemoved(memory.remove(key))
        forgetOnDisk(key)
    }

    /// Removes an original from disk; with a user's own, the shared one too.
    mutating func forgetOnDisk(_ key: OriginalKey) {
        guard canLookUp else { return }
        // No user has the last uid (POSIX: it means "unchanged").
        ask(.forget(nil, url: key.url.text, owner: key.owner ?? .max, inMemory: []))
    }

    // MARK: Requests

    /// Asks the disk tier. `assignJobs` starts the request, once the process is ready.
    mutating func ask(_ request: DiskRequest) {
        let job = jobIDs.next()
        if let refused = disk.enqueue(request, as: job) { return answer(refused) }
        schedule(.diskRequest(job), in: disk.patienceMs(for: request))
    }

    mutating func startDiskRequests() {
        while disk.hasQueued, let worker = supervision[.cache].available, let (job, request) = disk.startNext() {
            supervision.assign(job, to: worker)
            switch request {
            case .save: break
            case .forget(_, let url, let owner, _): actions.append(.forget(worker, job, url: url, owner: owner))
            case .discard(let digests): actions.append(.discardOnDisk(worker, job, digests: digests))
            case .query(_, let keys, _): actions.append(.queryDisk(worker, job, keys: keys.map(\.word)))
            case .clear(_, let seconds, _, _): actions.append(.clear(worker, job, olderThanSeconds: seconds))
            }
        }
    }

    /// Answers a request without the disk tier, which has not answered in time.
    mutating func diskRequestTimePassed(_ job: JobID) {
        guard let (request, isMissed) = disk.requestTimedOut(job) else { return }
        answer(request)
        if isMissed { missedDiskAnswer() }
    }

    /// Kills a cache process that has not answered several times in a row.
    private mutating func missedDiskAnswer() {
        let worker = supervision[.cache].available
        if disk.countMissedAnswer(canReplace: worker != nil), let worker {
            condemn(worker, .deadline, "it did not answer")
        }
    }

    private mutating func answered(_ job: JobID, on worker: WorkerID) -> DiskRequest? {
        guard supervision.isRunning(job, on: worker) else { return nil }
        supervision.unassign(job, from: worker)
        return disk.answered(job)
    }

    mutating func diskAnswered(
        _ worker: WorkerID, _ job: JobID, _ record: OriginalRecord? = nil, forgotten: Set<String> = [],
        removed: Int = 0, bytes: Int = 0
    ) {
        if let request = answered(job, on: worker) {
            answer(request, record, forgotten: forgotten, removed: removed, bytes: bytes)
        }
    }

    /// Answers the client with what the disk tier has said, if anything.
    private mutating func answer(
        _ request: DiskRequest, _ record: OriginalRecord? = nil, forgotten: Set<String> = [], removed: Int = 0,
        bytes: Int = 0
    ) {
        switch request {
        case .save(let buffer, _, _): unhold(buffer)
        case .discard: break
        case .forget(let requester, _, _, let inMemory):
            guard let requester, clients.ended(requester.id, of: requester.client) else { return }
            reply(.removed(id: requester.id, count: inMemory.union(forgotten).count), to: requester.client)
        case .query(let requester, let keys, let known):
            guard let requester, clients.ended(requester.id, of: requester.client) else { return }
            let onDisk = record.flatMap { record in
                keys.first { $0.word == record.key }.map { key in
                    self.isFresh(statement(record.response, for: key, varyKey: record.varyKey), for: known.headers)
                }
            }
            let status = CacheStatus(
                memory: known.inMemory, disk: onDisk != nil, fresh: known.isFresh ?? onDisk ?? false,
                placeholder: known.placeholder)
            reply(.queried(id: requester.id, status), to: requester.client)
        case .clear(let requester, _, let removedBefore, let bytesBefore):
            guard let requester, clients.ended(requester.id, of: requester.client) else { return }
            let reply = Reply.cleared(id: requester.id, removed: removedBefore + removed, bytes: bytesBefore + bytes)
            self.reply(reply, to: requester.client)
        }
    }

    /// Notes that an original was used by way of memory, for the disk tier's order of eviction.
    mutating func noteUse(of key: OriginalKey) {
        if disk.notesUse, disk.noteUse(of: key) { schedule(.reportUse, in: 1000) }
    }

    mutating func reportUse() {
        let keys = disk.takeUsed()
        notify(.cache) { .touch($0, keys: keys) }
    }

    // MARK: The process

    mutating func diskReported(_ report: DiskReport) {
        if disk.reported(report) {
            let reason = report.reason ?? "no reason given"
            let isOn = report.state == .on
            log(
                isOn ? .notice : .warning, .disk, [LogField("state", report.state.rawValue)],
                isOn ? "the disk tier is on" : "the disk tier is \(report.state.rawValue): \(reason)")
        }
        if report.state == .on { saveQuarantine() }
    }

    /// Goes on without a cache process that exited: its requests are asked of the next one, its lookups have ended.
    mutating func cacheWorkerExited(_ jobs: Set<JobID>, ownMaking: Bool) {
        disk.processExited()
        for job in jobs.sorted() {
            actions.append(.discard(job))
            if let request = disk.lost(job, ownMaking: ownMaking) {
                let isSave = if case .save = request { true } else { false }
                let message = "the disk tier has crashed twice on one order, which is dropped"
                if !isSave { log(.warning, .disk, [], message) }
                answer(request)
            }
            if let lookup = endLookup(job) { goOn(lookup) }
        }
        disk.forgetCrashes()
        // The queued lookups wait for the next process, unless none is to be expected.
        if supervision[.cache].isDown { endLookups() }
    }
}

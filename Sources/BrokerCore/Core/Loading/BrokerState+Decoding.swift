import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
package import WorkerProtocol

// Decodings for requests, and reports of decode workers: headers, which are admitted when memory allows, results, and
// failures.
extension BrokerState {
    // MARK: Start

    /// Lets a waiter join the decoding of a variant, or queues one of the encoded bytes in `body`.
    mutating func decode(_ variant: VariantKey, of body: BufferID, for id: WaiterID) {
        guard let waiter = requests[id] else { return }
        let jobWaiter = jobWaiter(for: waiter)
        if let job = decoding.join(variant, jobWaiter) {
            tier.queue.join(job, jobWaiter.owner)
            waitersChanged(of: job)
            return requests.wait(id, for: .decoding(job), joining: true)
        }
        let responsible = waiter.responsible(servedBy: waiter.original?.origin.response.servedBy)
        if let error = decodingRefusal(of: variant, from: responsible) {
            return failImage(waiter, error)
        }
        let job = jobIDs.next()
        let sharedKey = sharedKey(of: variant, for: waiter)
        let bytes = memory.record(of: body)?.bytes ?? 0
        decoding.enqueue(
            variant, of: body, bytes: bytes, responsible: responsible, asksTier: sharedKey != nil,
            isBrief: isBrief(variant, bytes: bytes), jobWaiter, as: job)
        requests.wait(id, for: .decoding(job))
        memory.hold(body, bytes: bytes)
        if let sharedKey { askTier(for: job, key: sharedKey, takesLease: false, jobWaiter) }
    }

    /// Whether a worker may decode a body among others. Its room is decided when it is given to a worker.
    private func isBrief(_ variant: VariantKey, bytes: Int) -> Bool {
        guard let transform = variant.form.transform, variant.form.encoding == nil else { return false }
        let pixels = memory.header(of: variant.content)?.geometry.pixels ?? 0
        return transform.frames == .one(0) && transform.metadata.isEmpty && bytes <= limits.earlyBodyBytes
            && pixels <= Decoding.earlyPixels
    }

    mutating func decodingRefusal(of variant: VariantKey, from responsible: Responsible?) -> WireError? {
        let family = decoding.family(of: variant.content)
        return decoding.refusals.refusal(
            of: variant, family, from: responsible, decodeSeconds: limits.decodeSeconds,
            areDecodersBroken: supervision.areDecodersBroken(family, at: now.instant), at: now)
    }

    /// Hands a queued decoding to a worker, unless decoders have died on its image while it waited. With `brief`, the
    /// worker may get others of that user, to do one after the other.
    mutating func startDecode(_ job: JobID, on worker: WorkerID, brief: JobOwner.User? = nil) {
        if refuseQueued(job) { return }
        guard let decode = decoding[job] else { return }
        supervision.assign(job, to: worker, brief: brief)
        if brief != nil { watchBrief(job, on: worker) }
        let (known, room) = (knownHeader(for: decode), roomAtOnce(for: decode))
        guard var order = decoding.start(job, on: worker, known: known, room: room, at: now.instant) else { return }
        order.isAmongOthers = brief != nil
        watchDecoder(job, on: worker)
        logJob("decode", .started, job, for: decode.waiters)
        if room > 0 { evictToFit() }
        actions.append(.startDecode(worker, order, body: decode.body, room: room))
    }

    /// The room for the result of a small body, which is granted before its header is read: all that is not worth a
    /// memfd. 0 for other bodies, for an image that is known not to fit, and while others wait for memory, because it
    /// would be granted before theirs.
    private func roomAtOnce(for decode: Decode) -> Int {
        let (room, form) = (limits.mostSegmentImageBytes, decode.variant.form)
        guard let transform = form.transform, decode.bodyBytes <= limits.earlyBodyBytes, !decoding.isParking,
            hasRoom(for: room)
        else { return 0 }
        if form.encoding == nil, let header = memory.header(of: decode.variant.content),
            let plan = transform.plan(for: header), plan.result.bytes(in: transform.pixelFormat) > room
        {
            return 0
        }
        return room
    }

    /// Whether a queued job may be one of several of a worker's: an identification, or a decoding with room at once,
    /// where the decodings would not take more than an eighth of the memory.
    func mayBeAmongOthers(_ job: JobID) -> Bool {
        guard let decode = decoding[job] else { return true }
        let room = roomAtOnce(for: decode)
        return room > 0 && decoding.reservedBytes + room <= memory.limit / 8
    }

    /// Hands a queued identification to a worker, and with it the decoding of a body that is small. With `isSpare`, the
    /// worker is one more than work otherwise; with `brief`, it may get others of that user, to do one after the other.
    mutating func startIdentifying(
        _ job: JobID, on worker: WorkerID, isSpare: Bool = false, brief: JobOwner.User? = nil
    ) {
        let (form, responsible, room) = earlyForm(of: job)
        guard
            let (body, early) = decoding.start(
                identification: job, on: worker, as: form, responsible: responsible, room: room, at: now)
        else { return }
        supervision.assign(job, to: worker, exclusively: isSpare, brief: brief)
        watchDecoder(job, on: worker)
        if brief != nil { watchBrief(job, on: worker) }
        if early != nil { evictToFit() }
        actions.append(.identify(worker, job, body, early: early, room: room))
    }

    /// The form in which small bytes are wanted first, those that their cost is counted for, and the room for the
    /// result. Nil for other bytes, for encoded images and animations, where damage is accepted, without room for the
    /// result, and where the bytes may be those that are in memory already.
    private mutating func earlyForm(of job: JobID) -> (form: Form?, responsible: Responsible?, room: Int) {
        guard let download = downloads[job], download.received <= limits.earlyBodyBytes,
            case let room = earlyRoom(ofBody: download.received), hasRoom(for: room),
            memory.original(download.original) == nil,
            let waiter = download.waiters.first(where: { requests[$0.id] != nil }).flatMap({ requests[$0.id] }),
            waiter.purpose != .refresh,
            case .pixels(let transform) = form(of: waiter.request), transform.frames == .one(0),
            !transform.acceptsDamage, transform.metadata.isEmpty
        else { return (nil, nil, 0) }
        if case .store(let request) = waiter.purpose, request.pixels != nil { return (nil, nil, 0) }
        return (.pixels(transform), waiter.responsible(servedBy: download.response?.servedBy), room)
    }

    /// The room for what a small body is decoded to: the least, where the decodings would take more than an eighth of
    /// the memory.
    private func earlyRoom(ofBody bytes: Int) -> Int {
        let room = limits.earlyResultBytes(ofBody: bytes)
        return decoding.reservedBytes + room <= memory.limit / 8 ? room : limits.leastEarlyResultBytes
    }

    /// Ends a queued decoding whose image is refused; returns whether it is. The second attempt at an image that a
    /// worker died of is made in spite of a pause, because it decides whether the image is quarantined. Where others
    /// have joined who are not paused, it goes on and is charged to the first of them.
    mutating func refuseQueued(_ job: JobID) -> Bool {
        guard let decode = decoding[job],
            let error = decodingRefusal(of: decode.variant, from: decode.crashes > 0 ? nil : decode.responsible)
        else { return false }
        if decodingRefusal(of: decode.variant, from: nil) == nil {
            // Each user once, because one may have any number of requests for the image.
            var users: Set = [decode.responsible.user]
            for waiter in decode.waiters.compactMap({ requests[$0.id] }) where users.insert(waiter.uid).inserted {
                let other = waiter.responsible(servedBy: waiter.original?.origin.response.servedBy)
                if decodingRefusal(of: decode.variant, from: other) != nil { continue }
                decoding.charge(job, to: other)
                return false
            }
        }
        rejectTrial(of: decode)
        if let end = decoding.end(job) { free(end, job) }
        for waiter in decode.waiters.compactMap({ requests[$0.id] }) { failImage(waiter, error) }
        return true
    }

    /// The header of the image that is decoded, if it is in memory.
    private mutating func knownHeader(for decode: Decode) -> ImageHeader? {
        decode.isDetached ? nil : memory.header(of: decode.variant.content)
    }

    /// Ends the trial of bytes that are no image. Returns the keys of the originals that are cached again.
    @discardableResult private mutating func rejectTrial(of decode: Decode) -> Set<OriginalKey> {
        decode.isDetached ? [] : rejectTrial(of: decode.variant.content)
    }

    /// Bounds the time of a decoding that begins.
    mutating func watchDecoder(_ job: JobID, on worker: WorkerID) {
        schedule(.decode(worker, job), in: limits.decodeDeadlineMs)
        // A decoder has one thread, so its processor time cannot be used up earlier.
        schedule(.processorTime(worker, job), in: 1000 * limits.decodeSeconds)
    }

    // MARK: Headers and admission

    mutating func headerRead(_ worker: WorkerID, _ job: JobID, _ plan: DecodePlan) {
        if decoding[part: job] != nil { return partHeaderRead(worker, job, plan) }
        guard supervision.isRunning(job, on: worker), decoding.expectsHeader(job), let decode = decoding[job] else {
            return reportedUnasked(worker, "a header")
        }
        var plan = plan
        plan.header.placeholder = knownHeader(for: decode)?.placeholder
        let outcome = decoding.headerRead(job, plan)
        if case .wrongPlan = outcome {
            return workerMisbehaved(worker, "it planned another result than was ordered")
        }
        if !decode.isDetached {
            memory.insert(plan.header, of: decode.variant.content)
            note(decode.variant.content, of: worker)
        }
        switch outcome {
        case .wrongPlan: break
        case .described where decode.variant.form.isHeader:
            finish(job) { broker, waiter, original in
                broker.describe(plan.header, original.origin, bytes: original.bytes, to: waiter, of: original)
            }
        case .described: finish(job, plan.header, in: decode.body, bytes: decode.bodyBytes, plan.header.geometry)
        case .parked:
            if supervision.endBrief(worker) {
                // The others, which have their memory, would wait until it has its own. Its worker waits for an answer.
                actions.append(.refuseOutput(worker, job))
                if decode.reserved > 0 { actions.append(.discard(job)) }
                supervision.unassign(job, from: worker)
                if let end = decoding.putBack(job) { free(end, job) }
            }
            admitDecodings()
        case .refused(let error):
            actions.append(.refuseOutput(worker, job))
            decodeFailed(worker, job, error)
        }
    }

    mutating func admitDecodings() {
        while decoding.isParking {
            let free = memory.limit - reservedBytes
            guard let admitted = decoding.admitNext(hasRoom: { $0 <= free }, at: now.instant) else { return }
            schedule(.decode(admitted.worker, admitted.job), in: limits.decodeDeadlineMs)
            evictToFit()
            actions.append(
                .provideOutput(admitted.worker, admitted.job, bytes: admitted.bytes, isExact: admitted.isExact))
        }
    }

    // MARK: Results

    /// Whether `result` can be that of a job on a worker; only then is it sealed. `mutating` as `isRunning`.
    package mutating func expects(_ result: DecodeResult, of job: JobID, on worker: WorkerID) -> Bool {
        supervision.isRunning(job, on: worker) && decoding.expects(result, of: job)
    }

    /// Condemns a decode worker for a report that no job of its calls for, unless it is gone or condemned already. No
    /// job is taken from a decode worker while it works on it, so no report of an honest one comes too late.
    mutating func reportedUnasked(_ worker: WorkerID, _ report: String) {
        if supervision[worker]?.isCondemned == false {
            workerMisbehaved(worker, "it reported \(report) without being asked")
        }
    }

    /// Takes the result of a decoding whose worker has needed no answer to its header.
    mutating func decodedAtOnce(_ worker: WorkerID, _ job: JobID, _ early: EarlyResult) {
        guard expects(early, of: job, on: worker), let decode = decoding[job] else {
            return reportedUnasked(worker, "a result")
        }
        var plan = early.plan
        plan.header.placeholder = knownHeader(for: decode)?.placeholder
        if let error = decoding.decodedAtOnce(job, plan) { return decodeFailed(worker, job, error) }
        if !decode.isDetached { note(decode.variant.content, of: worker) }
        decodeFinished(worker, job, early.result)
    }

    mutating func decodeFinished(_ worker: WorkerID, _ job: JobID, _ result: DecodeResult) {
        if decoding[part: job] != nil { return partFinished(worker, job, result) }
        guard expects(result, of: job, on: worker), let decode = decoding[job], let run = decode.run,
            var plan = decode.plan
        else { return reportedUnasked(worker, "a result") }
        counters.add(for: decode.waiters.first?.uid) {
            $0.decodeMicroseconds += now.instant.microseconds(since: run.startedAt)
        }
        ended(
            .decode, from: run.startedAt, parts: Self.parts(result.times),
            queuedAt: decode.queuedAt ?? decode.waiters.first?.since, for: decode.waiters, countingWhole: false)
        logJob("decode", .finished, job, for: decode.waiters)
        let isDamaged = result.damage != nil && Self.isBadOriginal(damagedIn: decode.variant.form)
        if isDamaged { rejectTrial(of: decode) }
        decoding.stopped(decode, job, on: worker, plan)
        let (buffer, staysInMemory) = publish(
            job, as: decode.variant, &plan, result, since: run.startedAt, for: decode.waiters,
            isDetached: decode.isDetached)
        if isDamaged, staysInMemory {
            for key in memory.keys(of: decode.variant.content) where key.nonce == 0 { forgetOnDisk(key) }
        }
        finish(
            job, plan.header, in: buffer, bytes: result.bytes, plan.result, damage: result.damage,
            isPreview: result.isPreview)
        if !staysInMemory { drop([buffer]) }
    }

    /// Answers the waiters of a decoding that has not begun with a variant that another broker has made.
    mutating func finish(_ job: JobID, with raster: RasterRecord, product: JobID) {
        guard let decode = decoding[job] else { return }
        let variant = decode.variant.ofSound
        let staysInMemory = !decode.isDetached && memory.isKnown(variant.content)
        var buffer = staysInMemory ? memory.buffer(variant) : nil
        if buffer != nil {
            actions.append(.discard(product))
        } else {
            let own = bufferIDs.next()
            if staysInMemory {
                memory.insert(raster.header, of: variant.content)
                let home = publish(product, as: own, bytes: raster.bytes, for: decode.waiters)
                memory.insert(
                    own, as: variant, bytes: raster.bytes, geometry: raster.geometry, at: now.instant,
                    isHandedOut: hasGet(decode.waiters), in: home)
            } else {
                actions.append(.publish(product, own, inBroker: false))
            }
            buffer = own
        }
        guard let buffer else { return }
        finish(job, raster.header, in: buffer, bytes: raster.bytes, raster.geometry)
        if !staysInMemory { drop([buffer]) }
    }

    /// Whether damage that was accepted in a form means that the original is no good image.
    private static func isBadOriginal(damagedIn form: Form) -> Bool { !form.isOfOtherFrames }

    /// Removes an image that was accepted in spite of its damage, and its original if that is no good image.
    mutating func damageTimePassed(_ buffer: BufferID) {
        guard memory.damage(of: buffer) != nil, let variant = memory.record(of: buffer)?.variant else { return }
        if Self.isBadOriginal(damagedIn: variant.form) {
            for key in memory.keys(of: variant.content) where key.nonce == 0 { dropRemoved(memory.remove(key)) }
        }
        dropRemoved(memory.remove(buffer))
    }

    private static let damagedMilliseconds = 60_000

    /// Makes the product of a job the raster of a variant, unless that exists: the disk tier may have had it under
    /// another URL, and been faster. Returns the buffer, and whether it stays in memory: the original may have been
    /// removed or replaced by now, or its name discarded, and then the result is for its waiters alone.
    private mutating func publish(
        _ job: JobID, as variant: VariantKey, _ plan: inout DecodePlan, _ result: DecodeResult, since start: Instant,
        for waiters: JobWaiters, isDetached: Bool = false
    ) -> (buffer: BufferID, staysInMemory: Bool) {
        // An image without damage is that of requests that accept none, too.
        var variant = result.damage == nil ? variant.ofSound : variant
        // Without a preview, the result is that of other requests, too.
        if !result.isPreview { variant = variant.ofImage }
        plan.header.timing = result.timing
        // A placeholder shows the whole image.
        if result.damage == nil { plan.header.placeholder = plan.header.placeholder ?? result.placeholder }
        // The frames that are there are not those of the image.
        let isHeaderWanted = result.damage == nil || memory.header(of: variant.content) == nil
        if !isDetached, isHeaderWanted { memory.insert(plan.header, of: variant.content) }
        if !isDetached, let known = memory.buffer(variant) {
            actions.append(.discard(job))
            return (known, true)
        }
        let buffer = bufferIDs.next()
        // Its worker may have had others before it.
        let (elapsed, worked) = (now.instant.microseconds(since: start), result.times.total)
        let microseconds = worked > 0 ? min(elapsed, worked) : elapsed
        let staysInMemory = !isDetached && memory.isKnown(variant.content)
        let home = staysInMemory ? publish(job, as: buffer, bytes: result.bytes, for: waiters) : .memfd
        if !staysInMemory { actions.append(.publish(job, buffer, inBroker: false)) }
        counters.count(.decodes)
        memory.noteDecoding(of: variant)
        let frames = variant.form.transform.map { plan.header.count(of: $0.frames, as: variant.form.encoding) } ?? 1
        counters.count(.pixelsDecoded, plan.result.pixels * frames)
        if result.ignoredProfile { counters.count(.ignoredProfiles) }
        counters.record(.decode, microseconds: microseconds)
        if !staysInMemory { return (buffer, false) }
        memory.insert(
            buffer, as: variant, bytes: result.bytes, geometry: plan.result, at: now.instant, worth: microseconds,
            isHandedOut: hasGet(waiters), damage: result.damage, in: home)
        if result.damage != nil {
            schedule(.damage(buffer), in: Self.damagedMilliseconds)
            return (buffer, true)
        }
        saveRaster(buffer, variant, plan, bytes: result.bytes, microseconds: microseconds)
        shareVariant(buffer, variant, plan, bytes: result.bytes, for: waiters.first?.owner.user ?? JobOwner.User())
        return (buffer, true)
    }

    /// Whether one of the waiters is a client's `get`, which is answered with the result.
    func hasGet(_ waiters: JobWaiters) -> Bool { waiters.contains { requests[$0.id]?.purpose == .get } }

    /// Makes the product of a job a buffer: a small one in a segment of the client that waits longest, if that maps
    /// any.
    mutating func publish(_ job: JobID, as buffer: BufferID, bytes: Int, for waiters: JobWaiters) -> MemoryIndex.Home {
        if bytes <= limits.mostSegmentImageBytes, let client = waiters.first.flatMap({ requests[$0.id]?.client }),
            let owner = clients.segmentOwner(of: client)
        {
            memory.reservedBytes = reservedBytes
            let (placement, dropped) = memory.place(buffer, bytes: bytes, for: owner)
            drop(dropped)
            if let placement {
                actions.append(.place(job, buffer, bytes: bytes, placement))
                return .segment(placement.place)
            }
        }
        let isInBroker = limits.mostSegmentImageBytes > 0 && Self.isKeptInBroker(bytes)
        actions.append(.publish(job, buffer, inBroker: isInBroker))
        return isInBroker ? .broker : .memfd
    }

    /// Whether bytes are kept in the broker's own memory, without a descriptor; stored pixels keep their memfd.
    static func isKeptInBroker(_ bytes: Int, pixels: StoredPixels? = nil) -> Bool {
        bytes <= SmallContents.mostBytes && pixels == nil
    }

    mutating func publishOriginal(_ job: JobID, bytes: Int) -> BufferID {
        let buffer = bufferIDs.next()
        actions.append(.publish(job, buffer, inBroker: Self.isKeptInBroker(bytes)))
        return buffer
    }

    /// Whether a worker may end a decoding, or one that goes along with an identification, with `early`; only then is
    /// the result sealed.
    package mutating func expects(_ early: EarlyResult, of job: JobID, on worker: WorkerID) -> Bool {
        supervision.isRunning(job, on: worker) && decoding.expects(early, of: job)
    }

    /// The result of a decoding that went along with an identification.
    struct EarlyVariant {
        let job: JobID
        let form: Form
        var plan: DecodePlan
        let result: DecodeResult
        let startedAt: Instant
        let waiters: JobWaiters
    }

    /// Stores an early result, before the waiters for the original that was just stored are served.
    mutating func publish(_ early: EarlyVariant?, of content: ContentKey) {
        guard var early else { return }
        let variant = VariantKey(content: content, form: early.form)
        early.plan.header.placeholder = memory.header(of: content)?.placeholder
        // An encoded variant, which could be shared, is not made early.
        _ = publish(early.job, as: variant, &early.plan, early.result, since: early.startedAt, for: early.waiters)
        acceptTrial(of: content)
    }

    /// Answers all waiters of a decoding with a buffer.
    private mutating func finish(
        _ job: JobID, _ header: ImageHeader, in buffer: BufferID, bytes: Int, _ geometry: PixelGeometry,
        damage: String? = nil, isPreview: Bool = false
    ) {
        finish(job) { broker, waiter, original in
            broker.deliver(
                buffer, bytes: bytes, geometry, original, header, to: waiter, damage: damage, isPreview: isPreview)
        }
        drop(memory.dropSpare(buffer))
        evictToFit()
    }

    /// Ends a decoding after `answer` was called for each waiter.
    private mutating func finish(_ job: JobID, answer: (inout Self, Waiter, OriginalFacts) -> Void) {
        guard let decode = decoding[job] else { return }
        if !decode.isDetached { acceptTrial(of: decode.variant.content) }
        // Requests that come while these are answered are too late for this decoding.
        decoding.close(job)
        for waiter in decode.waiters.compactMap({ requests[$0.id] }) {
            if let original = waiter.original { answer(&self, waiter, original) }
        }
        if let end = decoding.end(job) { free(end, job) }
    }

    mutating func decodeFailed(_ worker: WorkerID, _ job: JobID, _ error: WireError) {
        if decoding[part: job] != nil { return partFailed(worker, job, error) }
        if supervision.isRunning(job, on: worker), let identification = decoding.end(identification: job) {
            supervision.unassign(job, from: worker)
            if identification.run?.early != nil { actions.append(.discard(job)) }
            return downloadFailed(job, error)
        }
        guard supervision.isRunning(job, on: worker), let end = decoding.end(job) else {
            return reportedUnasked(worker, "a failure")
        }
        logJob("decode", .failed, job, for: end.waiters, reason: error.code.rawValue)
        let restored = Self.isOfAllForms(error, in: end.variant.form) ? rejectTrial(of: end) : []
        free(end, job)
        actions.append(.discard(job))
        for waiter in end.waiters { imageFailed(waiter.id, error, restored: restored) }
    }

    /// Hands a decoding to the family of the image's format, as a worker of the plain one has found another's.
    mutating func decodeForeign(_ worker: WorkerID, _ job: JobID, _ format: ImageFormat) {
        guard supervision.isRunning(job, on: worker), decoding.expectsHeader(job), let decode = decoding[job],
            decode.family == .plain, CodecFamily(format) != .plain, decode.variant.content.pixels == nil
        else { return reportedUnasked(worker, "a format") }
        if decode.reserved > 0 { actions.append(.discard(job)) }
        if let end = decoding.hand(job, to: format) { return free(end, job) }
        supervision.unassign(job, from: worker)
    }

    /// Ends a decoding whose family is not installed.
    mutating func failMissing(_ job: JobID) {
        guard let end = decoding.end(job) else { return }
        let (family, name) = (end.family, decoding.foreignFormat(of: end.variant.content)?.name ?? "")
        let error = WireError(
            .unsupportedFormat,
            "\(name) needs the program \(family.program), which is not installed: it is in the package \(family.package)."
        )
        let restored = Self.isOfAllForms(error, in: end.variant.form) ? rejectTrial(of: end) : []
        free(end, job)
        for waiter in end.waiters { imageFailed(waiter.id, error, restored: restored) }
    }

    /// Frees the worker of a decoding that was taken out, and releases its body.
    mutating func free(_ decode: Decode, _ job: JobID) {
        if let worker = decode.run?.worker {
            supervision.unassign(job, from: worker)
            watchIdleLoader(worker)
        }
        leaveTier(job)
        endTrialWithoutJob(of: decode.variant.content)
        unhold(decode.body)
    }

    // MARK: Time and lost workers

    private mutating func watchBrief(_ job: JobID, on worker: WorkerID) {
        schedule(.brief(worker, job, ended: supervision[worker]?.jobsEnded ?? 0), in: limits.briefDeadlineMs)
    }

    /// Gives no more jobs to a worker that has ended none meanwhile; if it has several, it is killed.
    mutating func briefTimePassed(_ worker: WorkerID, _ job: JobID, ended: Int) {
        guard supervision.isRunning(job, on: worker) else { return }
        if supervision[worker]?.jobsEnded != ended { return watchBrief(job, on: worker) }
        guard supervision.endBrief(worker) else { return }
        let detail = "it was at one of several small images for \(limits.briefDeadlineMs) ms"
        if supervision.condemn(worker, .deadline, detail, isForgiven: true) { actions.append(.killWorker(worker)) }
    }

    /// Kills a worker that has used up its job's processor time, or looks again when it may have. The kernel's limit
    /// (RLIMIT_CPU) would need a privilege that root may lack where the workers are another user's.
    mutating func processorTimeUsed(_ worker: WorkerID, _ job: JobID, milliseconds: Int) {
        guard supervision.isRunning(job, on: worker) else { return }
        let left = 1000 * limits.decodeSeconds - milliseconds
        if left > 0 { return schedule(.processorTime(worker, job), in: max(left, 10)) }
        condemn(worker, .cpu, "it used \(milliseconds) ms of a processor for one image")
    }

    /// Queues the decodings of a worker that exited once more, or refuses their images.
    mutating func decodeWorkerExited(_ jobs: Set<JobID>, _ cause: DeathCause, isShared: Bool = false) {
        for job in jobs.sorted() {
            partWorkerExited(job, cause)
            if decoding.early(of: job) != nil { actions.append(.discard(job)) }
            let waiters = downloads[job]?.waiters ?? []
            let ended = decoding.workerExited(identification: job, cause, waiters: waiters, atFront: !isShared)
            if ended != nil {
                downloadFailed(job, WireError(.decoderCrashed, "Decoders died before they had read the image."))
            }
            guard decoding[job] != nil else { continue }
            actions.append(.discard(job))
            guard let (ended, refusal, isQuarantined) = decoding.workerExited(job, cause, isShared: isShared, at: now)
            else { continue }
            if isQuarantined { saveQuarantine() }
            guard let ended else { continue }
            if refusal != nil { rejectTrial(of: ended) }
            free(ended, job)
            guard let refusal else { continue }
            for waiter in ended.waiters.compactMap({ requests[$0.id] }) { failImage(waiter, refusal) }
        }
    }

    /// Has the disk tier save the quarantine, if its process can take it; it is saved again when the tier is on.
    mutating func saveQuarantine() {
        guard decoding.refusals.isQuarantineUnsaved, let worker = supervision[.cache].available else { return }
        let records = decoding.refusals.saveQuarantine(isOn: disk.report.state == .on, unixMs: now.unixMs)
        actions.append(.saveQuarantine(worker, records))
    }
}

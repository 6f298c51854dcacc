import Digests
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Decodings: one for each result, however many ask for it and by whatever URL.
extension BrokerState {
    /// Lets a waiter join the making of a result, or starts it from the encoded bytes in `body`.
    mutating func decode(_ variant: VariantKey, of body: BufferID, for id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let priority = waiter.request.options.priority
        if let job = decodeByVariant[variant], let flight = decodes[job] {
            waiters[id]?.stage = .decoding(job)
            waiters[id]?.hasJoined = true
            decodes[job]?.waiters.append(id)
            if flight.priority < priority {
                decodes[job]?.priority = priority
                decodeQueue.change(job, to: priority)
            }
            return
        }
        let origins = blamed(for: waiter)
        if let error = refusal(of: variant.digest, from: origins) {
            waiters[id]?.stage = nil
            return refuse(waiter, error)
        }
        let job = newJobID()
        decodes[job] = DecodeFlight(
            variant: variant, origins: origins, body: body, bodyBytes: index.buffers[body]?.bytes ?? 0, waiters: [id],
            priority: priority)
        decodeByVariant[variant] = job
        decodingBytes += decodes[job]?.bodyBytes ?? 0
        waiters[id]?.stage = .decoding(job)
        index.hold(body)
        decodeQueue.push(job, priority: priority, client: waiter.client)
    }

    /// Why a picture is not decoded now; nil when it may be.
    private mutating func refusal(of digest: ContentDigest, from origins: [String]) -> WireError? {
        if quarantine.refuses(digest, build: decoderBuild, unixMs: unixMs) {
            quarantine.noteUse(of: digest)
            return WireError(.decoderCrashed, "Decoders have died on this image; it is refused for a while.")
        }
        for origin in origins {
            guard let wait = crashBudget.refusal(of: origin, at: now) else { continue }
            let message =
                "Too many decoders have died on pictures of \(origin); no more of them is decoded for a while."
            return WireError(.decoderUnavailable, message, retryAfterMs: wait)
        }
        if decodePool.isBroken(at: now) {
            let message = "Decoders keep crashing; no new picture is decoded for a while."
            return WireError(.decoderUnavailable, message, retryAfterMs: 10_000)
        }
        return nil
    }

    func isOverBudget(_ origin: String) -> Bool { crashBudget.refusal(of: origin, at: now) != nil }

    /// Counts a decoder that has died of what these origins have sent.
    mutating func blame(_ origins: [String]) {
        for origin in origins where !isOverBudget(origin) { crashBudget.note(origin, at: now) }
    }

    /// Whose doing a picture is: the origin's that has sent it or, where somebody gave it for whatever URL, that user's.
    /// An origin that was asked and has led to another is not to blame for what is there. But what it leads to is blamed
    /// together, or who leads to ever other names would never be refused.
    private func blamed(for waiter: Waiter) -> [String] {
        if case .store = waiter.purpose { return ["user \(waiter.uid)"] }
        return blamed(
            asked: waiter.request.url.origin, servedBy: waiter.original?.origin.response.servedBy)
    }

    /// The same of what one origin was asked for and another one, perhaps, has sent.
    func blamed(asked: String, servedBy: String?) -> [String] {
        guard let servedBy, let server = try? SourceURL(servedBy), server.origin != asked else { return [asked] }
        return [server.origin, "what \(asked) redirects to"]
    }

    /// Ends a decoding that waits for a worker, if workers have died on it, or on its like, while it waited.
    mutating func refuseQueued(_ job: JobID) -> Bool {
        guard let flight = decodes[job], let error = refusal(of: flight.variant.digest, from: flight.origins) else {
            return false
        }
        _ = endDecode(job)
        for waiter in flight.waiters.compactMap({ waiters[$0] }) { refuse(waiter, error) }
        return true
    }

    /// Hands a queued decoding to a worker.
    mutating func startDecode(_ job: JobID, on worker: WorkerID) {
        if refuseQueued(job) { return }
        guard let flight = decodes[job] else { return }
        decodePool.assign(job, to: worker)
        decodes[job]?.worker = worker
        decodes[job]?.startedAt = now
        decodes[job]?.deadline = now.adding(milliseconds: limits.decodeDeadlineMs)
        remindOfDecoding(job, on: worker)
        var order = DecodeJob(
            id: job.number, maxPixels: limits.maxPixels, maxSourcePixels: limits.maxSourcePixels,
            maxWorkingBytes: limits.maxWorkingBytes)
        if let transform = flight.variant.form.transform {
            order.transform = transform
            order.encoding = flight.variant.form.encoding
            // It shows the first frame.
            order.wantsPlaceholder =
                (transform.frames == .all || transform.frames == .one(0))
                && index.header(of: flight.variant.digest)?.placeholder == nil
        } else {
            order.purpose = .describe
        }
        actions.append(.startDecode(worker, order, body: flight.body))
    }

    /// Sees to it that a decoding that begins comes to an end.
    mutating func remindOfDecoding(_ job: JobID, on worker: WorkerID) {
        remind(.decode(worker, job), in: limits.decodeDeadlineMs)
        // It has one thread, so the time cannot be used up any sooner.
        remind(.processorTime(worker, job), in: 1000 * limits.decodeSeconds)
    }

    mutating func headerRead(_ worker: WorkerID, _ job: JobID, _ plan: DecodePlan) {
        if partialFlights[job] != nil { return partHeaderRead(worker, job, plan) }
        guard let flight = running(job, on: worker), flight.plan == nil else {
            return reportedUnasked(worker, "a header")
        }
        var plan = plan
        plan.header.placeholder = index.header(of: flight.variant.digest)?.placeholder
        guard let transform = flight.variant.form.transform else {
            decodes[job]?.plan = plan
            index.insert(plan.header, of: flight.variant.digest)
            return finish(job, in: flight.body, bytes: flight.bodyBytes, plan.header.geometry)
        }
        let planned = transform.plan(for: plan.header.geometry, frameCount: plan.header.frameCount)
        if planned?.result != plan.result {
            return workerMisbehaved(worker, "it planned another result than was asked for")
        }
        decodes[job]?.plan = plan
        index.insert(plan.header, of: flight.variant.digest)
        // The worker has looked already; what it says is not what decides.
        let frames = transform.frames.count(of: plan.header.frameCount)
        let output = plan.outputBytes(transform, flight.variant.form.encoding)
        let (bytes, overflow) = output.addingReportingOverflow(plan.workingBytes)
        guard plan.result.pixels * frames <= limits.maxPixels, frames <= FrameSelection.most, !overflow,
            bytes <= limits.workerMemoryBytes
        else {
            actions.append(.refuseOutput(worker, job))
            let size = "\(plan.result.width) × \(plan.result.height)" + (frames > 1 ? " × \(frames)" : "")
            let message = "\(size) pixels are too many, or take too much memory to decode."
            return decodeFailed(worker, job, WireError(.tooManyPixels, message))
        }
        decodes[job]?.deadline = nil
        parkedDecodes.append(job)
        admitParked()
    }

    /// Lets decodings that wait for room begin, as far as there is room; one may always run, or nothing ever would.
    mutating func admitParked() {
        while let job = parkedDecodes.first, let flight = decodes[job], let plan = flight.plan,
            let worker = flight.worker, let transform = flight.variant.form.transform
        {
            let encoding = flight.variant.form.encoding
            let output = plan.outputBytes(transform, encoding)
            // Hardly a picture becomes larger when it is encoded; pages that are not written are none.
            let expected = encoding == nil ? output : plan.result.bytes
            let isAlone = !decodes.values.contains { $0.reserved > 0 }
            guard index.hasRoom(for: expected + plan.workingBytes + decodersBytes) || isAlone else { return }
            parkedDecodes.removeFirst()
            decodes[job]?.reserved = expected
            decodes[job]?.deadline = now.adding(milliseconds: limits.decodeDeadlineMs)
            remind(.decode(worker, job), in: limits.decodeDeadlineMs)
            index.reserve(expected)
            drop(index.evictToFit())
            actions.append(.provideOutput(worker, job, bytes: output, isExact: encoding == nil))
        }
    }

    /// What decoders hold beside their results: memory, too, but none that evicting would give back.
    var decodersBytes: Int {
        let plans =
            decodes.values.lazy.filter { $0.reserved > 0 }.compactMap(\.plan)
            + partialFlights.values.lazy.filter { $0.reserved > 0 }.compactMap(\.plan)
        return plans.reduce(0) { $0 + $1.workingBytes }
    }

    /// Whether a worker is about to fill the result of a job, and this can be it.
    func isDue(_ result: DecodeResult, of job: JobID, on worker: WorkerID) -> Bool {
        if let partial = partialFlights[job], decodePool.isRunning(job, on: worker) {
            return partial.reserved == result.bytes && result.timing == nil
        }
        guard let flight = running(job, on: worker), flight.reserved > 0, let plan = flight.plan,
            let transform = flight.variant.form.transform
        else { return false }
        let encoding = flight.variant.form.encoding
        let most = plan.outputBytes(transform, encoding)
        let frames = transform.frames == .all ? plan.header.frameCount : nil
        return (encoding == nil ? most...most : 1...most).contains(result.bytes)
            && result.timing?.delaysMs.count == frames
    }

    private func running(_ job: JobID, on worker: WorkerID) -> DecodeFlight? {
        decodePool.isRunning(job, on: worker) ? decodes[job] : nil
    }

    /// A worker has one job at a time, and nothing takes it from it: it knows what it may say.
    mutating func reportedUnasked(_ worker: WorkerID, _ report: String) {
        if decodePool.workers[worker]?.isDying == false {
            workerMisbehaved(worker, "it reported \(report) that nobody waits for")
        }
    }

    mutating func decodeFinished(_ worker: WorkerID, _ job: JobID, _ result: DecodeResult) {
        if partialFlights[job] != nil { return partFinished(worker, job, result) }
        guard isDue(result, of: job, on: worker), let flight = running(job, on: worker), var plan = flight.plan,
            let startedAt = flight.startedAt
        else { return reportedUnasked(worker, "a result") }
        let bytes = result.bytes
        plan.header.timing = result.timing
        plan.header.placeholder = plan.header.placeholder ?? result.placeholder
        decodes[job]?.plan = plan
        index.insert(plan.header, of: flight.variant.digest)
        if let known = index.buffer(flight.variant) {
            // The disk tier was faster, by way of another URL.
            actions.append(.discard(job))
            return finish(job, in: known, bytes: bytes, plan.result)
        }
        let buffer = newBufferID()
        let microseconds = now.microseconds(since: startedAt)
        actions.append(.publish(job, buffer))
        counters.decodes += 1
        counters.pixelsDecoded += plan.result.pixels * (result.timing?.delaysMs.count ?? 1)
        if result.ignoredProfile { counters.ignoredProfiles += 1 }
        counters.decodeTimes.record(microseconds: microseconds)
        // The URL may have been removed, or lead to other bytes by now: then this result is for its waiters alone.
        let isKept = index.isKnown(flight.variant.digest)
        if isKept {
            index.insert(buffer, as: flight.variant, bytes: bytes, geometry: plan.result, at: now, worth: microseconds)
            keepRaster(buffer, flight.variant, plan, bytes: bytes, microseconds: microseconds)
        }
        finish(job, in: buffer, bytes: bytes, plan.result)
        if !isKept { drop([buffer]) }
    }

    mutating func decodeFailed(_ worker: WorkerID, _ job: JobID, _ error: WireError) {
        if partialFlights[job] != nil { return partFailed(worker, job, error) }
        guard decodePool.isRunning(job, on: worker), let flight = endDecode(job) else {
            return reportedUnasked(worker, "a failure")
        }
        actions.append(.discard(job))
        for waiter in flight.waiters { pictureFailed(waiter, error) }
    }

    /// Ends a decoding that nobody waits for any more, unless a worker is at it: then it is finished for the next asker.
    mutating func abandonDecodeIfQueued(_ job: JobID) {
        if decodes[job]?.worker == nil { _ = endDecode(job) }
    }

    mutating func decodeTimePassed(_ worker: WorkerID, _ job: JobID) {
        guard decodePool.isRunning(job, on: worker),
            let deadline = decodes[job]?.deadline ?? partialFlights[job]?.deadline, deadline <= now
        else { return }
        end(worker, of: \.decodePool, .deadline, "it was at one picture for \(limits.decodeDeadlineMs) ms")
    }

    /// Ends a worker that has used up its job's processor time; any other is looked at again when it may have. A limit of the
    /// kernel's (RLIMIT_CPU) would need a right that root need not have where the workers are another user's.
    mutating func processorTimeUsed(_ worker: WorkerID, _ job: JobID, milliseconds: Int) {
        guard decodePool.isRunning(job, on: worker) else { return }
        let left = 1000 * limits.decodeSeconds - milliseconds
        if left > 0 { return remind(.processorTime(worker, job), in: max(left, 10)) }
        end(worker, of: \.decodePool, .cpu, "it used \(milliseconds) ms of a processor for one picture")
    }

    /// Gives the job of a worker that is gone to another one, once. A picture that two have died of is refused for a
    /// while, and so is one that has used up its time of the processor: it would do so again.
    mutating func decodeWorkerEnded(_ jobs: Set<JobID>, _ cause: DeathCause) {
        for job in jobs {
            partWorkerEnded(job, cause)
            guard var flight = decodes[job] else { continue }
            actions.append(.discard(job))
            index.unreserve(flight.reserved)
            flight.reserved = 0
            flight.plan = nil
            flight.deadline = nil
            flight.worker = nil
            parkedDecodes.removeAll { $0 == job }
            // What takes long to encode, say, may be quick to decode; that is no reason to refuse its pixels.
            let isFormAlone = cause == .cpu && flight.variant.form.isCostly
            if cause.isOwnMaking {
                flight.crashes += 1
                if !isFormAlone { blame(flight.origins) }
            }
            decodes[job] = flight
            let isPoison = flight.crashes > 1 || cause == .cpu
            if isPoison, !isFormAlone { quarantine(flight.variant.digest) }
            if flight.waiters.isEmpty {
                _ = endDecode(job)
            } else if !isPoison {
                let client = flight.waiters.first.flatMap { waiters[$0]?.client }
                decodeQueue.push(job, priority: flight.priority, client: client, atFront: true)
            } else {
                _ = endDecode(job)
                let message =
                    cause == .cpu
                    ? "This image takes more than \(limits.decodeSeconds) s of a processor."
                    : "The decoder died twice on this image."
                let error = WireError(.decoderCrashed, message)
                for waiter in flight.waiters.compactMap({ waiters[$0] }) { refuse(waiter, error) }
            }
        }
    }

    private mutating func quarantine(_ digest: ContentDigest) {
        quarantine.add(digest, build: decoderBuild, unixMs: unixMs)
        isQuarantineUnsaved = true
        saveQuarantine()
    }

    /// Has the disk tier remember the quarantine, if it does not know the latest of it: now, and again when it can write.
    mutating func saveQuarantine() {
        guard isQuarantineUnsaved, let worker = cachePool.available else { return }
        actions.append(.rememberQuarantine(worker, quarantine.records(unixMs: unixMs)))
        isQuarantineUnsaved = disk.state != .on
    }

    /// Ends a request whose picture is not decoded now; a preview that cannot be had is left out.
    private mutating func refuse(_ waiter: Waiter, _ error: WireError) {
        if waiter.isPreviewing { endPreview(waiter.id) } else { deny(waiter, error) }
    }

    /// Answers everyone who waits for a result.
    private mutating func finish(_ job: JobID, in buffer: BufferID, bytes: Int, _ geometry: PixelGeometry) {
        guard let flight = decodes[job], let header = flight.plan?.header else { return }
        // Whoever asks while these are answered is too late for this flight.
        decodeByVariant[flight.variant] = nil
        for waiter in flight.waiters.compactMap({ waiters[$0] }) {
            guard let original = waiter.original else { continue }
            deliver(buffer, bytes: bytes, geometry, original, header, to: waiter)
        }
        _ = endDecode(job)
        drop(index.evictToFit())
    }

    /// Takes a decoding out of the tables, queued or running, and lets go of what it held.
    private mutating func endDecode(_ job: JobID) -> DecodeFlight? {
        guard let flight = decodes.removeValue(forKey: job) else { return nil }
        if decodeByVariant[flight.variant] == job { decodeByVariant[flight.variant] = nil }
        decodingBytes -= flight.bodyBytes
        index.unreserve(flight.reserved)
        if let worker = flight.worker {
            decodePool.unassign(job, from: worker)
            decodePool.retireIfWorn(worker)
            parkedDecodes.removeAll { $0 == job }
        } else {
            decodeQueue.remove(job)
        }
        unhold(flight.body)
        return flight
    }
}

import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Pictures as far as they have come, for those who want to see them while they are downloaded. They take what is left
// over: one that would have to wait for a worker, or for room, is left out.
extension BrokerState {
    /// The least time from the end of one partial decoding of a body to the beginning of the next.
    static let partialPauseMs = 200
    /// So many times what a partial decoding took passes before the next: they take a fifth of a worker at most.
    private static let partialPauseShare = 4

    /// Decodes what is there of a body, if anybody wants to see it and it is worth a look by now.
    mutating func decodePart(of fetch: JobID) {
        guard let flight = fetches[fetch], flight.worker != nil, flight.hasResponded, !flight.isGiven, !isDraining,
            flight.shown.job == nil, !flight.shown.isOver, flight.shown.isWorthALook(flight.received),
            flight.shown.notBefore.map({ $0 <= now }) ?? true,
            let transform = viewers(of: flight).first?.partialTransform(scaleDownLimit: limits.scaleDownBytes),
            !origins(of: flight).contains(where: isOverBudget), !decodePool.isBroken(at: now),
            // One that the download had before it began anew, say.
            !partialFlights.values.contains(where: { $0.fetch == fetch })
        else { return }
        guard decodeQueue.isEmpty, parkedDecodes.isEmpty, let worker = decodePool.available else {
            return pauseParts(of: fetch, Self.partialPauseMs)
        }
        let job = newJobID()
        decodePool.assign(job, to: worker)
        partialFlights[job] = PartialFlight(
            fetch: fetch, transform: transform, origins: origins(of: flight), worker: worker, startedAt: now,
            deadline: now.adding(milliseconds: limits.decodeDeadlineMs))
        fetches[fetch]?.shown.job = job
        fetches[fetch]?.shown.bytes = flight.received
        remindOfDecoding(job, on: worker)
        var order = DecodeJob(
            id: job.number, transform: transform, maxPixels: limits.maxPixels,
            maxSourcePixels: limits.maxSourcePixels, maxWorkingBytes: limits.maxWorkingBytes)
        order.partialBytes = flight.received
        actions.append(.startPartialDecode(worker, order, of: fetch))
    }

    /// Those who want to see what is there of a body, and may.
    private func viewers(of flight: FetchFlight) -> [Waiter] {
        let waiting = flight.waiters.compactMap { waiters[$0] }
        let wanting = waiting.filter { $0.partialTransform(scaleDownLimit: limits.scaleDownBytes) != nil }
        guard !wanting.isEmpty, let response = flight.response, response.status == 200 else { return [] }
        if statement(response, for: flight.key, varyKey: nil).policy.storability == .shared { return wanting }
        // What is for one user is the first one's; the others are going to ask for themselves.
        return wanting.filter { $0.uid == waiting.first?.uid }
    }

    /// Whose doing the body is.
    private func origins(of flight: FetchFlight) -> [String] {
        blamed(asked: flight.url.origin, servedBy: flight.response?.servedBy)
    }

    private mutating func pauseParts(of fetch: JobID, _ milliseconds: Int) {
        guard fetches[fetch] != nil else { return }
        fetches[fetch]?.shown.notBefore = now.adding(milliseconds: milliseconds)
        remind(.nextPart(fetch), in: milliseconds)
    }

    /// The download for which a partial decoding is still of use: the body is the one that it was begun for.
    private func beneficiary(of job: JobID, _ partial: PartialFlight) -> FetchFlight? {
        guard let flight = fetches[partial.fetch], flight.shown.job == job, flight.hasResponded else { return nil }
        return flight
    }

    // MARK: What the worker says

    mutating func partHeaderRead(_ worker: WorkerID, _ job: JobID, _ plan: DecodePlan) {
        guard decodePool.isRunning(job, on: worker), let partial = partialFlights[job], partial.plan == nil else {
            return reportedUnasked(worker, "a header")
        }
        guard let stage = plan.stage, partial.transform.plan(for: plan.header.geometry)?.result == plan.result else {
            return workerMisbehaved(worker, "it planned another result than was asked for")
        }
        let output = plan.outputBytes(partial.transform, nil)
        let (bytes, overflow) = output.addingReportingOverflow(plan.workingBytes)
        let fits = plan.result.pixels <= limits.maxPixels && !overflow && bytes <= limits.workerMemoryBytes
        guard let flight = beneficiary(of: job, partial), fits, stage > flight.shown.stage,
            index.hasRoom(for: bytes + decodersBytes)
        else {
            actions.append(.refuseOutput(worker, job))
            return endPart(job, isLast: !fits)
        }
        partialFlights[job]?.plan = plan
        partialFlights[job]?.reserved = output
        index.reserve(output)
        drop(index.evictToFit())
        actions.append(.provideOutput(worker, job, bytes: output, isExact: true))
    }

    mutating func partFinished(_ worker: WorkerID, _ job: JobID, _ result: DecodeResult) {
        guard isDue(result, of: job, on: worker), let partial = partialFlights[job], let plan = partial.plan else {
            return reportedUnasked(worker, "a result")
        }
        let viewers = beneficiary(of: job, partial).map(viewers(of:)) ?? []
        let meant = viewers.filter { $0.partialTransform(scaleDownLimit: limits.scaleDownBytes) == partial.transform }
        guard !meant.isEmpty else {
            actions.append(.discard(job))
            return endPart(job)
        }
        let buffer = newBufferID()
        actions.append(.publish(job, buffer))
        counters.partialDecodes += 1
        fetches[partial.fetch]?.shown.stage = plan.stage ?? 0
        let etag = fetches[partial.fetch]?.response?.etag
        for waiter in meant { show(buffer, bytes: result.bytes, plan, etag: etag, to: waiter) }
        endPart(job)
        drop([buffer])
    }

    /// That there is nothing to show yet is no reason not to look again.
    mutating func partFailed(_ worker: WorkerID, _ job: JobID, _ error: WireError) {
        guard decodePool.isRunning(job, on: worker) else { return reportedUnasked(worker, "a failure") }
        actions.append(.discard(job))
        endPart(job, isLast: error.code != .truncated)
    }

    mutating func partWorkerEnded(_ job: JobID, _ cause: DeathCause) {
        guard let partial = partialFlights[job] else { return }
        actions.append(.discard(job))
        if cause.isOwnMaking { blame(partial.origins) }
        endPart(job, isLast: cause.isOwnMaking)
    }

    private mutating func endPart(_ job: JobID, isLast: Bool = false) {
        guard let partial = partialFlights.removeValue(forKey: job) else { return }
        index.unreserve(partial.reserved)
        decodePool.unassign(job, from: partial.worker)
        decodePool.retireIfWorn(partial.worker)
        if fetches[partial.fetch]?.shown.job == job {
            fetches[partial.fetch]?.shown.job = nil
            fetches[partial.fetch]?.shown.isOver = isLast
        }
        let milliseconds = now.microseconds(since: partial.startedAt) / 1000
        pauseParts(of: partial.fetch, max(Self.partialPauseMs, Self.partialPauseShare * milliseconds))
    }

    // MARK: What clients see

    /// Shows a waiter what is there of its picture; where that would be in the way of all of it, it is left out.
    private mutating func show(_ buffer: BufferID, bytes: Int, _ plan: DecodePlan, etag: String?, to waiter: Waiter) {
        // There has to be room for the final one beside it.
        guard refusal(of: 2 * bytes, in: buffer, for: waiter) == nil else { return }
        var image = picture(of: plan.header, as: plan.result, bytes: bytes, for: waiter)
        image.final = false
        image.etag = etag
        let attachment = lend(buffer, to: waiter, in: &image)
        reply(.image(id: waiter.request.id, image), attachment, to: waiter.client)
    }
}

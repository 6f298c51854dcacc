import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Partial images, for clients that want to see an image while it is downloaded. They use idle workers and free memory
// only.
extension BrokerState {
    /// The pause after a partial decoding, as a multiple of its duration: they take a fifth of a worker at most.
    private static let partialPauseShare = 4

    /// Decodes the received beginning of a body, if a client wants it and enough has arrived since the last time.
    mutating func renderPart(of job: JobID) {
        guard let download = downloads[job] else { return }
        let reader = headerReader(of: download)
        guard download.transfer?.hasResponded == true, !isDraining,
            download.rendered.mayBegin(received: download.received, isHeader: reader != nil, at: now.instant),
            let viewer = reader ?? viewers(of: download).first,
            let transform = reader == nil
                ? viewer.partialTransform(scaleDownLimit: limits.scaleDownBytes) : Transform(),
            case let responsible = Responsible(user: viewer.uid, sources: download.responsibleOrigins),
            !decoding.refusals.isPaused(responsible, at: now.instant),
            !supervision.areDecodersBroken(at: now.instant),
            // One that the download had before it began anew.
            !decoding.isRendering(job)
        else { return }
        guard !decoding.hasQueued, !decoding.isParking, let worker = supervision[.decode].available else {
            return pauseParts(of: job, Downloads.partialPauseMs)
        }
        let part = jobIDs.next()
        supervision.assign(part, to: worker)
        downloads.changeParts(of: job) { ($0.job, $0.bytes) = (part, download.received) }
        let decode = PartialDecode(
            download: job, transform: transform, isHeader: reader != nil, responsible: responsible, worker: worker,
            startedAt: now.instant, deadline: now.instant.adding(milliseconds: limits.decodeDeadlineMs))
        let order = decoding.begin(decode, as: part, bytes: download.received)
        watchDecoder(part, on: worker)
        actions.append(.startPartialDecode(worker, order, of: job))
    }

    private func viewers(of download: Download) -> [Waiter] {
        waiters(of: download) { $0.partialTransform(scaleDownLimit: limits.scaleDownBytes) != nil }
    }

    /// The waiters that want something of the beginning of a body, and may have it.
    private func waiters(of download: Download, where wants: (Waiter) -> Bool) -> [Waiter] {
        let waiters = download.waiters.compactMap { requests[$0.id] }
        let wanting = waiters.filter(wants)
        guard !wanting.isEmpty, let response = download.response, response.status == 200 else { return [] }
        if statement(response, for: download.original, varyKey: nil).policy.storability == .shared { return wanting }
        // A response for one user is the first one's; the others are going to download their own.
        return wanting.filter { $0.uid == waiters.first?.uid }
    }

    private mutating func pauseParts(of job: JobID, _ milliseconds: Int) {
        guard downloads[job] != nil else { return }
        let end = now.instant.adding(milliseconds: milliseconds)
        downloads.changeParts(of: job) { $0.notBefore = end }
        schedule(.nextPart(job), in: milliseconds)
    }

    // MARK: Headers

    /// The least rest of a body for which its transfer ends after the image's header, instead of going on.
    private static let leastLeft = 128 << 10

    /// A waiter for a description, if all waiters are, and a longer part of the body is still to come.
    private func headerReader(of download: Download) -> Waiter? {
        guard let total = download.total, total - download.received >= Self.leastLeft,
            download.waiters.allSatisfy({ requests[$0.id]?.readsHeaderOnly == true })
        else { return nil }
        return waiters(of: download, where: \.readsHeaderOnly).first
    }

    /// Answers the waiters for a description. The download ends if it has no others.
    private mutating func partDescribed(_ worker: WorkerID, _ job: JobID, _ plan: DecodePlan, of body: JobID) {
        guard decoding[part: job]?.isDescribed(by: plan) == true else {
            return workerMisbehaved(worker, "it described a body without being able to")
        }
        let download = downloads.download(of: job, body)
        endPart(job, isLast: true)
        guard let download, let response = download.response, let total = download.total else { return }
        let readers = waiters(of: download, where: \.readsHeaderOnly)
        if !readers.isEmpty, readers.count == download.waiters.count {
            tell(.finished, of: download, body, isPartial: true)
        }
        let origin = statement(
            response, for: download.original, varyKey: OriginStatement.varyKey(response, of: download.headers))
        for reader in readers {
            leaveJob(reader)
            describe(plan.header, origin, bytes: total, to: reader)
        }
    }

    // MARK: Reports

    mutating func partHeaderRead(_ worker: WorkerID, _ job: JobID, _ plan: DecodePlan) {
        guard supervision.isRunning(job, on: worker), let part = decoding[part: job], part.plan == nil else {
            return reportedUnasked(worker, "a header")
        }
        if part.isHeader { return partDescribed(worker, job, plan, of: part.download) }
        let (maxPixels, maxBytes) = (limits.maxPixels, limits.workerMemoryBytes)
        guard let stage = plan.stage,
            let (output, needed, fits) = part.check(plan, maxPixels: maxPixels, maxBytes: maxBytes)
        else {
            return workerMisbehaved(worker, "it planned another result than was ordered")
        }
        guard let download = downloads.download(of: job, part.download), fits, stage > download.rendered.stage,
            hasRoom(for: needed + decoding.workingBytes)
        else {
            actions.append(.refuseOutput(worker, job))
            return endPart(job, isLast: !fits)
        }
        decoding.admit(part: job, plan, bytes: output)
        evictToFit()
        actions.append(.provideOutput(worker, job, bytes: output, isExact: true))
    }

    mutating func partFinished(_ worker: WorkerID, _ job: JobID, _ result: DecodeResult) {
        guard expects(result, of: job, on: worker), let part = decoding[part: job], let plan = part.plan else {
            return reportedUnasked(worker, "a result")
        }
        let viewers = downloads.download(of: job, part.download).map(viewers(of:)) ?? []
        let meant = viewers.filter { $0.partialTransform(scaleDownLimit: limits.scaleDownBytes) == part.transform }
        guard !meant.isEmpty else {
            actions.append(.discard(job))
            return endPart(job)
        }
        let buffer = bufferIDs.next()
        actions.append(.publish(job, buffer, inBroker: false))
        counters.count(.partialDecodes)
        downloads.changeParts(of: part.download) { $0.stage = plan.stage ?? 0 }
        let etag = downloads[part.download]?.response?.etag
        for waiter in meant { show(buffer, bytes: result.bytes, plan, etag: etag, to: waiter) }
        endPart(job)
        drop([buffer])
    }

    /// A body too short for a partial image is tried again when more has arrived.
    mutating func partFailed(_ worker: WorkerID, _ job: JobID, _ error: WireError) {
        guard supervision.isRunning(job, on: worker) else { return reportedUnasked(worker, "a failure") }
        actions.append(.discard(job))
        endPart(job, isLast: error.code != .truncated)
    }

    mutating func partWorkerExited(_ job: JobID, _ cause: DeathCause) {
        guard decoding[part: job] != nil else { return }
        actions.append(.discard(job))
        endPart(job, isLast: cause.isOwnMaking)
    }

    private mutating func endPart(_ job: JobID, isLast: Bool = false) {
        guard let part = decoding.end(part: job) else { return }
        supervision.unassign(job, from: part.worker)
        downloads.changeParts(of: part.download) { $0.end(job, isHeader: part.isHeader, isLast: isLast) }
        let milliseconds = now.instant.microseconds(since: part.startedAt) / 1000
        let least = part.isHeader ? Downloads.headerPauseMs : Downloads.partialPauseMs
        pauseParts(of: part.download, max(least, Self.partialPauseShare * milliseconds))
    }

    /// Sends a client a partial image, unless that would leave no room for the complete one.
    private mutating func show(_ buffer: BufferID, bytes: Int, _ plan: DecodePlan, etag: String?, to waiter: Waiter) {
        guard refusal(of: 2 * bytes, in: buffer, to: waiter) == nil else { return }
        var image = waiter.reply(for: plan.header, as: plan.result, bytes: bytes)
        image.final = false
        image.etag = etag
        let attachment = lend(buffer, to: waiter, in: &image)
        reply(.image(id: waiter.request.id, image), attachment, to: waiter.client)
    }
}

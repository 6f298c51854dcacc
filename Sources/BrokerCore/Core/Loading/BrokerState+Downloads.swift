import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Downloads for requests, and reports of download workers: bodies and confirmations, which are cached where they may be
// and served to their waiters, and failures.
extension BrokerState {
    // MARK: Start

    /// Lets a waiter join the download of its original, or queues one; with `original`, to confirm that.
    mutating func download(for id: WaiterID, revalidating original: OriginalFacts? = nil) {
        if requests[id]?.file != nil { return readFile(for: id) }
        requests.setSource(.network, of: id)
        guard let waiter = requests[id] else { return }
        if let refusal = recentFailure(of: waiter) { return failOrServeStale(id, refusal) }
        let url = waiter.request.url
        let jobWaiter = jobWaiter(for: waiter)
        if let wait = downloads.delay(of: url.origin, for: waiter.uid, until: jobWaiter.deadline, at: now.instant) {
            return failOrServeStale(id, hostUnavailable(url.origin, milliseconds: wait))
        }
        if let (job, lastActivity) = downloads.join(waiter.key, isForced: waiter.isForced, jobWaiter) {
            requests.wait(id, for: .downloading(job), joining: true)
            decoding.joined(identification: job, downloads[job]?.waiters ?? [])
            joined(job, waiter, jobWaiter.owner)
            // The tier's answer has come before.
            if downloads[job]?.shared != nil { requests.setSource(.shared, of: id) }
            if let lastActivity {
                let heard = max(lastActivity, now.instant)
                deadlines.add(.silence(id), at: heard.adding(milliseconds: jobWaiter.silenceMs))
            }
            if let (until, origin) = downloads.hold(of: job, at: now.instant) {
                let wait = until.milliseconds(after: now.instant)
                failImpatient(job, hostUnavailable(origin, milliseconds: wait), only: jobWaiter)
            }
            return
        }
        var body: BufferID?
        if let original { body = self.body(of: original) }
        if let original, let body { memory.hold(body, bytes: original.bytes) }
        // As the Fetch standard has it ("HTTP-network-or-cache fetch"), so that no cache on the way answers instead.
        let cacheControl =
            waiter.isForced
            ? "no-cache"
            : waiter.request.options.cache == .noCache
                ? "max-age=0" : waiter.request.options.maxAgeSeconds.map { "max-age=\($0)" }
        let isParked = asksTier(for: waiter)
        let job = enqueue(
            isParked: isParked,
            Download(
                DownloadKey(original: waiter.key, isForced: waiter.isForced), url: url,
                headers: waiter.request.options.headers, credentials: waiter.request.options.credentials,
                cacheControl: cacheControl, waiter: jobWaiter,
                revalidating: original, revalidatedBody: body))
        requests.wait(id, for: .downloading(job))
        if isParked { askTier(for: job, key: waiter.key.word, takesLease: true, jobWaiter) }
    }

    /// Allocates a job's id and lets a download continue with it.
    private mutating func enqueue(isParked: Bool, _ download: Download) -> JobID {
        var ids = jobIDs
        defer { jobIDs = ids }
        return downloads.enqueue(download, isParked: isParked, newJob: { ids.next() }, at: now.instant)
    }

    func hostUnavailable(_ origin: String, milliseconds: Int) -> WireError {
        let seconds = (milliseconds + 999) / 1000
        return WireError(.hostUnavailable, "\(origin) is left alone for \(seconds) s.", retryAfterMs: milliseconds)
    }

    mutating func startDownload(_ job: JobID, on worker: WorkerID) {
        guard let download = downloads[job], let start = downloads.start(job, on: worker, at: now.instant) else {
            return
        }
        switch start {
        case .hostUnavailable(let milliseconds):
            return downloadFailed(job, hostUnavailable(download.origin, milliseconds: milliseconds))
        case .held(let key, let hold):
            guard let (until, line) = hold else { return }
            if let line { deadlines.add(.hold(line: line), at: until) }
            failImpatient(job, hostUnavailable(key.origin, milliseconds: until.milliseconds(after: now.instant)))
        case .transfer(let order):
            supervision.assign(job, to: worker, exclusively: download.isSuspect)
            if download.isSuspect { schedule(.suspicion(worker, job), in: limits.suspicionMs) }
            for waiter in download.waiters { schedule(.silence(waiter.id), in: waiter.silenceMs) }
            schedule(.yield(job, startedAt: now.instant), in: limits.yieldSilenceMs)
            actions.append(.startFetch(worker, order))
            tell(.started, of: download, job)
        }
    }

    /// Ends the requests of a download that waits for its origin whose time does not last beyond that: with the stale
    /// original, if that may be served, else with the error. Those that may be served the stale original do not wait
    /// either. With `joined` only that one, which has joined it now; its own user may not have to wait.
    private mutating func failImpatient(_ job: JobID, _ error: WireError, only joined: JobWaiter? = nil) {
        guard let download = downloads[job], let (end, origin) = downloads.hold(of: job, at: now.instant) else {
            return
        }
        let mustWait = joined.map { downloads.isHeld(origin, for: $0.uid, at: now.instant) } ?? true
        for waiter in joined.map({ [$0] }) ?? download.waiters
        where waiter.deadline <= end || !waiter.isPatient && mustWait
            || staleOriginal(for: waiter.id, after: error, known: download.revalidating) != nil
        {
            carryOut(downloads.leave(job, waiter.id, at: now.instant))
            failOrServeStale(waiter.id, error, revalidating: download.revalidating)
        }
    }

    /// Ends the requests of a download that is to be retried after this many transfers which accept no further retry.
    private mutating func failUnwilling(_ job: JobID, attempts: Int, _ error: WireError) {
        guard let download = downloads[job], download.retryAt != nil else { return }
        for waiter in download.waiters where waiter.retries(of: limits.retries) < attempts {
            carryOut(downloads.leave(job, waiter.id, at: now.instant))
            failOrServeStale(waiter.id, error, revalidating: download.revalidating)
        }
    }

    /// Stops a silent transfer that another user's job waits for, if there is one, and fails its user's requests.
    mutating func stopSilentTransfer() -> Bool {
        guard let (job, user) = downloads.nextToYield(isWorkerFree: supervision[.fetch].available != nil),
            let download = downloads[job]
        else { return false }
        let seconds = Double(limits.yieldSilenceMs) / 1000
        let message =
            "\(download.url.host) sent nothing for \(seconds) s, and other users wait for its transfer to end."
        for waiter in download.waiters {
            carryOut(downloads.leave(job, waiter.id, at: now.instant))
        }
        for waiter in download.waiters where requests[waiter.id] != nil {
            if waiter.owner.user == user {
                failOrServeStale(waiter.id, WireError(.timeout, message), revalidating: download.revalidating)
            } else {
                self.download(for: waiter.id, revalidating: download.revalidating)
            }
        }
        return true
    }

    // MARK: Progress

    mutating func fetchResponded(
        _ worker: WorkerID, _ job: JobID, _ response: ResponseRecord, validator: String?, total: Int?,
        isMultiplexed: Bool?
    ) {
        guard supervision.isRunning(job, on: worker) else { return }
        let download = downloads.responded(
            job, response, validator: validator, total: total, isMultiplexed: isMultiplexed, at: now.instant)
        if let download { tell(.responded, of: download, job) }
    }

    /// Notes the beginning of a body that was received at once.
    private mutating func begun(
        _ worker: WorkerID, _ job: JobID, _ beginning: FetchBeginning, _ response: ResponseRecord
    ) {
        fetchResponded(
            worker, job, response, validator: beginning.validator, total: beginning.total,
            isMultiplexed: beginning.isMultiplexed)
        guard let download = downloads[job] else { return }
        for waiter in download.waiters { reportProgress(download.received, beginning.total, to: waiter.id) }
    }

    mutating func fetchRedirected(_ worker: WorkerID, _ job: JobID, to root: String) {
        guard supervision.isRunning(job, on: worker), let url = try? SourceURL(root) else { return }
        downloads.redirected(job, to: url.origin, at: now.instant)
    }

    mutating func fetchProgressed(_ worker: WorkerID, _ job: JobID, received: Int, expected: Int?) {
        guard supervision.isRunning(job, on: worker),
            let download = downloads.progressed(job, received: received, at: now.instant)
        else { return }
        evictToFit()
        for waiter in download.waiters { reportProgress(download.received, expected, to: waiter.id) }
        renderPart(of: job)
    }

    private mutating func reportProgress(_ received: Int, _ expected: Int?, to id: WaiterID) {
        guard let client = requests[id]?.client else { return }
        for frame in requests.progress(received, of: expected, for: id) { reply(frame, to: client) }
    }

    // MARK: A body

    mutating func fetchFinished(_ worker: WorkerID, _ job: JobID, _ result: FetchResult) {
        guard supervision.isRunning(job, on: worker) else { return }
        if downloads.isStopping(job) { return stopped(job, received: 0) }
        if let beginning = result.beginning { begun(worker, job, beginning, result.response) }
        guard result.bytes <= limits.maxDownloadBytes else {
            return fetchFailed(worker, job, .internal, "The download worker reported nonsense.")
        }
        guard isAllowedAddress(result.remoteAddress) else {
            let message = "\(result.remoteAddress) is not an address that may be loaded from."
            return fetchFailed(worker, job, .forbiddenAddress, message)
        }
        guard let download = downloads[job] else { return }
        count(download, bytes: result.bytes, status: result.response.status)
        noteTransfer(download, result.times)
        tell(.finished, of: download, job)
        downloads.apply(result.cookies, of: download.original)
        let body = publishOriginal(job, bytes: result.bytes)
        carryOut(downloads.received(job, body, bytes: result.bytes, result.response))
        decoding.identify(job, body, bytes: result.bytes, for: download.waiters)
    }

    mutating func identified(
        _ worker: WorkerID, _ job: JobID, _ digest: String, _ early: EarlyResult?, _ format: ImageFormat?
    ) {
        let isForeign = format.map { CodecFamily($0) != .plain && early == nil } ?? true
        let isExpected = early.map { decoding.expects($0, of: job) } ?? isForeign
        // The identification ends only with a digest; otherwise another worker repeats it.
        guard supervision.isRunning(job, on: worker), isExpected, let digest = ContentDigest(hexadecimal: digest),
            let identification = decoding.end(identification: job)
        else { return reportedUnasked(worker, "a digest") }
        supervision.unassign(job, from: worker)
        if let format { decoding.note(format, of: digest) }
        let hasProduct = identification.run?.early != nil
        guard identification.isWanted, let (download, body, transfer) = downloads.identified(job) else {
            if hasProduct { actions.append(.discard(job)) }
            return
        }
        let isDamaged = download.shared.map { $0.digest != digest } ?? false
        if hasProduct, early == nil || isDamaged { actions.append(.discard(job)) }
        if isDamaged { return sharedDamaged(download, body) }
        var made: EarlyVariant?
        if let run = identification.run {
            let parts = early.map { Self.parts($0.result.times) } ?? []
            ended(.identify, from: run.startedAt, parts: parts, for: download.waiters)
            if let order = run.early, let early {
                counters.add(for: download.user) {
                    $0.decodeMicroseconds += now.instant.microseconds(since: run.startedAt)
                }
                made = EarlyVariant(
                    job: job, form: order.form, plan: early.plan, result: early.result, startedAt: run.startedAt,
                    waiters: download.waiters)
            }
        }
        if let response = download.response, let startedAt = transfer?.startedAt ?? download.shared?.since {
            let content = received(job, download, body, digest, made, since: startedAt, response)
            for writer in download.writers { note(content, of: writer) }
            note(content, of: worker)
        } else if download.original.url.isFile {
            fileIdentified(job, download, body, digest, made, by: worker)
        } else {
            storeIdentified(download, body, digest, made, by: worker)
        }
        let decodings = download.waiters.compactMap { requests[$0.id]?.decoding }
        guard let next = decodings.first else { return }
        // The bytes have killed a worker, or are not decoded at once.
        let crashes = identification.decoderCrashes
        if identification.isAlone || hasProduct && early == nil { decodings.forEach { decoding.setAlone($0) } }
        decoding.add(crashes: crashes, to: next)
        if crashes == 0, supervision[worker]?.isIdle == true, supervision[.decode].available != nil,
            decoding.popQueued(next)
        {
            // The worker that has read the bytes decodes them, so that they do not wait in the queue again.
            startDecode(next, on: worker)
        }
    }

    /// Caches a received original where it may be, and serves its waiters.
    private mutating func received(
        _ job: JobID, _ download: Download, _ received: BufferID, _ digest: ContentDigest, _ early: EarlyVariant?,
        since startedAt: Instant, _ response: ResponseRecord
    ) -> ContentKey {
        let bytes = download.received
        let isShared = download.shared != nil
        if !isShared {
            counters.count(.downloads)
            counters.count(.bytesDownloaded, bytes)
        }
        let lease = tier.end(job)
        var waiting = download.waiters
        var key = download.original
        let varyKey = OriginStatement.varyKey(response, of: download.headers)
        var origin = statement(response, for: key, varyKey: varyKey)
        if origin.policy.storability != .shared, key.owner == nil, let uid = waiting.first?.uid {
            key = key.owned(by: uid)
            origin = statement(response, for: key, varyKey: varyKey)
            waiting = onlyFirstUser(of: waiting)
        }
        let content = ContentKey(digest: digest, owner: key.owner)
        carryOut(downloads.dropKeptBodies { $0 == key || $0 == download.original })
        let waiters = waiting.compactMap { requests[$0.id] }
        let isStorable = origin.policy.storability != .never
        let staysInMemory = isStorable && waiters.contains(where: \.mayEnterMemory)
        let entersDisk = isStorable && waiters.contains(where: \.mayEnterDisk)
        // What must not stay is known under a hidden key, for as long as variants are made of it.
        let name = staysInMemory ? key : key.hidden(as: job.number)
        let original = OriginalFacts(content: content, bytes: bytes, origin: origin, staysOffDisk: !entersDisk)
        var isTrial = false
        // The old original is no answer any more, unless all who have loaded the new one wanted the cache left alone.
        if waiters.contains(where: { $0.request.options.cache != .noStore }) {
            let replacement = Replacement(
                key: key, requested: download.original, original: original, staysInMemory: staysInMemory,
                entersDisk: entersDisk, user: download.owner.user,
                known: memory.original(key) ?? memory.original(download.original), job: job)
            isTrial = beginTrial(replacement, of: download)
            if !isTrial { forgetReplaced(replacement) }
        }
        dropRemoved(memory.insert(original, for: name))
        // A body that enters the disk tier need not be downloaded again, so its download's time is not its worth.
        let start = entersDisk && limits.usesDisk ? nil : startedAt
        let body = adopt(received, content, bytes: bytes, since: start)
        publish(early, of: content)
        if entersDisk, !isTrial { save(body, as: key, original) }
        if !isShared {
            if isStorable, !entersDisk || isTrial {
                release(lease)
            } else {
                share(original, as: key, body, for: download.owner.user, ending: lease)
            }
        }
        // The disk tier's original is older than this one.
        if staysInMemory { endLookups { $0 == key } }
        serve(waiting, original, from: body, key: key, reportingProgress: bytes)
        if !staysInMemory { dropRemoved(memory.remove(name)) }
        if isTrial { endTrialWithoutJob(of: content) }
        return content
    }

    /// Downloads anew what a compromised worker has written, alone or with others.
    mutating func downloadAgain(writtenBy worker: WorkerID) {
        let (restarting, outcomes) = downloads.discard(writtenBy: worker)
        carryOut(outcomes)
        for download in restarting {
            for waiter in download.waiters { self.download(for: waiter.id, revalidating: download.revalidating) }
        }
    }

    /// Leaves a response for one user to the first that asked; the others' requests are downloaded anew.
    private mutating func onlyFirstUser(of waiting: JobWaiters) -> JobWaiters {
        guard let uid = waiting.first?.uid else { return waiting }
        for other in waiting where other.uid != uid {
            guard let waiter = requests[other.id] else { continue }
            requests.setKey(waiter.key.owned(by: waiter.uid), of: other.id)
            download(for: other.id)
        }
        return JobWaiters(waiting.filter { $0.uid == uid })
    }

    /// Makes a buffer the body of an original, unless that has one. Its worth is the time since `start`.
    mutating func adopt(_ body: BufferID, _ content: ContentKey, bytes: Int, since start: Instant?) -> BufferID {
        let key = VariantKey(content: content, form: .original)
        if let known = memory.buffer(key) {
            drop([body])
            return known
        }
        let worth = start.map { now.instant.microseconds(since: $0) } ?? 0
        memory.insert(
            body, as: key, bytes: bytes, at: now.instant, worth: worth,
            in: Self.isKeptInBroker(bytes, pixels: content.pixels) ? .broker : .memfd)
        return body
    }

    mutating func serve(
        _ waiting: JobWaiters, _ original: OriginalFacts, from body: BufferID, key: OriginalKey?,
        reportingProgress bytes: Int? = nil
    ) {
        // Held, so that serving the first waiter cannot evict it before the last one is served.
        memory.hold(body, bytes: original.bytes)
        for id in waiting.map(\.id) {
            if let key { requests.setKey(key, of: id) }
            requests.setOriginal(original, of: id)
            if let bytes { reportProgress(bytes, bytes, to: id) }
            guard let waiter = requests[id] else { continue }
            let variant = VariantKey(content: original.content, form: form(of: waiter.request))
            if waiter.purpose == .refresh, trials[original.content] == nil {
                requests.unregister(id)
            } else if let header = description(of: original.content, as: variant.form) {
                describe(header, original.origin, bytes: original.bytes, to: waiter, of: original)
            } else if let header = memory.header(of: original.content), let buffer = memory.answer(to: variant) {
                deliver(buffer, size(of: buffer, header), original, header, to: waiter)
            } else {
                decode(variant, of: body, for: id)
            }
        }
        unhold(body)
        evictToFit()
    }

    /// Has stored bytes decoded.
    private mutating func storeIdentified(
        _ download: Download, _ stored: BufferID, _ digest: ContentDigest, _ early: EarlyVariant?, by worker: WorkerID
    ) {
        guard let waiter = download.waiters.first.flatMap({ requests[$0.id] }),
            case .store(let request) = waiter.purpose
        else {
            if let early { actions.append(.discard(early.job)) }
            return drop([stored])
        }
        // As the key under which it is to be accepted.
        let content = ContentKey(digest: digest, owner: storedKey(for: waiter).owner, pixels: request.pixels)
        note(content, of: worker)
        let original = OriginalFacts(
            content: content, bytes: download.received,
            origin: storedStatement(contentType: request.contentType, for: download.original))
        dropRemoved(memory.insert(original, for: download.original))
        let body = adopt(stored, content, bytes: download.received, since: nil)
        publish(early, of: content)
        serve(download.waiters, original, from: body, key: nil)
    }

    // MARK: A confirmation

    mutating func fetchNotModified(_ worker: WorkerID, _ job: JobID, _ confirmation: FetchConfirmation) {
        guard supervision.isRunning(job, on: worker) else { return }
        if downloads.isStopping(job) { return stopped(job, received: 0) }
        guard let download = downloads[job], let known = download.revalidating else {
            return fetchFailed(worker, job, .internal, "The download worker confirmed an original without being asked.")
        }
        guard isAllowedAddress(confirmation.remoteAddress) else {
            let message = "\(confirmation.remoteAddress) is not an address that may be loaded from."
            return fetchFailed(worker, job, .forbiddenAddress, message)
        }
        count(download, bytes: 0, status: 304)
        noteTransfer(download, confirmation.times)
        downloads.confirmed(job, at: now.instant)
        tell(.finished, of: download, job)
        downloads.apply(confirmation.cookies, of: download.original)
        let lease = tier.end(job)
        carryOut(downloads.end(job))
        actions.append(.discard(job))
        counters.count(.revalidated)
        note(known.content, of: worker)

        let key = download.original
        let response = known.origin.response.refreshed(by: confirmation.response)
        let origin = statement(response, for: key, varyKey: OriginStatement.varyKey(response, of: download.headers))
        let isOther =
            Self.isStrong(known.origin.response.etag) && Self.isStrong(confirmation.response.etag)
            && known.origin.response.etag != confirmation.response.etag
        let isPermitted =
            origin.policy.storability == .shared || origin.policy.storability == .personal && key.owner != nil
        if isOther || !isPermitted {
            // It is another version (RFC 9111, section 4.3.4) or must not be stored as before.
            release(lease)
            if !download.waiters.isEmpty { forget(key) }
            for id in download.waiters.map(\.id) {
                requests.rejectOriginal(of: id)
                self.download(for: id)
            }
            return
        }
        var original = OriginalFacts(content: known.content, bytes: known.bytes, origin: origin)
        (original.isFromDisk, original.isOnDisk) = (known.isFromDisk, known.isOnDisk)
        original.staysOffDisk = known.staysOffDisk
        // It may have been removed or replaced meanwhile.
        let isInIndex = memory.original(key)?.content == known.content
        if isInIndex { dropRemoved(memory.insert(original, for: key)) }
        if canLookUp { notify(.cache) { .update($0, Self.record(of: original, key)) } }
        if known.staysOffDisk {
            release(lease)
        } else {
            share(original, as: key, body(of: known), for: download.owner.user, ending: lease)
        }
        for id in download.waiters.map(\.id) {
            guard let waiter = requests[id] else { continue }
            if waiter.purpose == .refresh {
                requests.unregister(id)
                continue
            }
            requests.serveOriginal(id, as: .confirmed, isInMemory: isInIndex && body(of: known) != nil)
            advance(id)
        }
        drop(memory.dropSpareBody(of: known.content))
    }

    private static func isStrong(_ etag: String?) -> Bool { etag.map { !$0.hasPrefix("W/") } ?? false }

    // MARK: Failures and ends

    private mutating func fetchFailed(_ worker: WorkerID, _ job: JobID, _ code: ErrorCode, _ message: String) {
        fetchFailed(worker, job, FetchFailure(WireError(code, message)))
    }

    mutating func fetchFailed(_ worker: WorkerID, _ job: JobID, _ failure: FetchFailure) {
        guard supervision.isRunning(job, on: worker) else { return }
        if downloads.isStopping(job) { return stopped(job, received: failure.received) }
        guard let download = downloads[job] else { return }
        count(download, bytes: failure.received, status: failure.error.httpStatus, hasFailed: true)
        downloads.apply(failure.cookies, of: download.original)
        if let retry = downloads.failed(job, failure.error, received: failure.received, at: now.instant) {
            carryOut(retry)
            failUnwilling(job, attempts: download.attempts, failure.error)
            return failImpatient(job, failure.error)
        }
        downloadFailed(job, failure.error, response: failure.response)
    }

    /// Ends a download for good. With `sharedSeconds` another broker has noted the failure, for this time.
    mutating func downloadFailed(
        _ job: JobID, _ error: WireError, response: ResponseRecord? = nil, sharedSeconds: Int? = nil
    ) {
        guard let download = downloads[job] else { return }
        let lease = tier.end(job)
        tell(.failed, of: download, job, reason: error.code.rawValue)
        carryOut(downloads.fail(job, at: now.instant))
        let waiters = download.waiters.compactMap { requests[$0.id] }
        // An original that is gone from its origin is removed here, unless all waiters wanted the cache left alone.
        if error.code == .httpStatus, [404, 410].contains(error.httpStatus),
            download.revalidating != nil || download.key.isForced,
            waiters.contains(where: { $0.request.options.cache != .noStore })
        {
            forget(download.original)
        }
        if sharedSeconds == nil {
            shareFailure(error, response, of: download.original, for: download.owner.user, ending: lease)
        }
        var waiting = download.waiters
        if response.map({ FailureTerms($0).isPrivate }) == true, download.original.owner == nil {
            waiting = onlyFirstUser(of: waiting)
        }
        for id in waiting.map(\.id) {
            guard let waiter = requests[id] else { continue }
            if case .store = waiter.purpose {
                fail(waiter, error)
            } else {
                let noted = noteFailure(error, of: waiter, response, sharedSeconds: sharedSeconds)
                failOrServeStale(id, noted, revalidating: download.revalidating)
            }
        }
    }

    mutating func fetchStopped(_ worker: WorkerID, _ job: JobID, received: Int) {
        guard supervision.isRunning(job, on: worker), downloads.isStopping(job) else { return }
        stopped(job, received: received)
    }

    private mutating func stopped(_ job: JobID, received: Int) {
        if let download = downloads[job] { count(download, bytes: received, status: nil, hasFailed: true) }
        carryOut(downloads.stopped(job, received: received, at: now.instant))
    }

    /// Puts the downloads of a worker that exited back in the queue, or fails those that crash every worker.
    mutating func downloadWorkerExited(_ jobs: Set<JobID>, ownMaking: Bool) {
        for job in jobs.sorted(by: >) {
            let (isPoisonous, outcomes) = downloads.workerExited(
                job, ownMaking: ownMaking, wasAlone: jobs.count == 1, at: now.instant)
            carryOut(outcomes)
            if isPoisonous {
                downloadFailed(job, WireError(.transferFailed, "The download worker crashed again and again."))
            }
        }
    }

    private mutating func count(_ download: Download, bytes: Int, status: Int?, hasFailed: Bool = false) {
        guard let transfer = download.transfer else { return }
        let microseconds = now.instant.microseconds(since: transfer.startedAt)
        // A continued transfer brings only the rest. The number is the worker's word.
        let bytes = max(0, min(bytes, limits.maxDownloadBytes) - download.resumedFrom)
        counters.record(.download, microseconds: microseconds)
        if let status, (100...999).contains(status) { counters.originResponses[status, default: 0] += 1 }
        busiestOrigins.count(download.origin, microseconds: microseconds, bytes: bytes, hasFailed: hasFailed)
        counters.add(for: download.user) {
            $0.bytesDownloaded += bytes
            $0.downloadMicroseconds += max(0, microseconds)
        }
    }

    /// Counts the parts of a transfer that has ended well. The whole is counted by `count`.
    private mutating func noteTransfer(_ download: Download, _ times: FetchTimes) {
        guard let transfer = download.transfer else { return }
        ended(
            .download, from: transfer.startedAt, parts: Self.parts(times),
            queuedAt: download.queuedAt ?? download.waiters.first?.since, for: download.waiters, countingWhole: false)
    }

    mutating func tell(
        _ name: BrokerEvent.Name, of download: Download, _ job: JobID, reason: String? = nil, isPartial: Bool = false
    ) {
        logJob("download", name, job, for: download.waiters, url: download.url, reason: reason)
        // The hidden key is that of a `store`, which loads nothing.
        if !clients.hasSubscribers || download.original.nonce != 0 { return }
        var event = BrokerEvent(name, url: download.url.text, reason: reason)
        event.partial = isPartial
        tell(event, uids: Set(download.waiters.map(\.uid)))
    }

    /// Bodies are released at the end of the event only, when their waiters have gone on.
    mutating func carryOut(_ outcomes: [Downloads.Outcome]) {
        for outcome in outcomes {
            switch outcome {
            case .freed(let job, let worker): supervision.unassign(job, from: worker)
            case .stop(let job, let worker): actions.append(.stopFetch(worker, job))
            case .discard(let job): actions.append(.discard(job))
            case .drop(let job, let body):
                decoding.abandon(identification: job)
                drop([body])
            case .unhold(let buffer): heldUntilEnd.append(buffer)
            case .deadline(let deadline, let at): deadlines.add(deadline, at: at)
            case .stopDeadline(let job): schedule(.stop(job), in: limits.stopDeadlineMs)
            case .ended(let job): leaveTier(job)
            }
        }
    }
}

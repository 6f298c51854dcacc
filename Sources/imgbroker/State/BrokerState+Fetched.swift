import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// What comes of downloads: bodies and confirmations, which are kept where they may stay and served to those who wait, and
// failures.
extension BrokerState {
    mutating func fetchResponded(
        _ worker: WorkerID, _ job: JobID, _ response: ResponseRecord, validator: String?, total: Int?
    ) {
        guard fetchPool.isRunning(job, on: worker), var flight = fetches[job] ?? stopping[job], !flight.isGiven
        else { return }
        hosts.answered(flight.url.origin, status: response.status, retryAfterMs: nil, at: now)
        flight.response = Self.complete(response, of: flight)
        // Anything but a part begins from the first byte.
        if response.status != 206 {
            index.unreserve(flight.received)
            flight.received = 0
            flight.resumedFrom = 0
        }
        flight.validator = validator
        flight.total = total
        flight.lastActivity = now
        flight.hasResponded = true
        // What comes of a transfer that is to stop is still a version of the body.
        if stopping[job] != nil {
            stopping[job] = flight
        } else {
            fetches[job] = flight
            tell(.responded, of: flight)
        }
    }

    mutating func fetchProgressed(_ worker: WorkerID, _ job: JobID, received: Int, expected: Int?) {
        guard fetchPool.isRunning(job, on: worker), let flight = fetches[job], !flight.isGiven else { return }
        // The body is in a memfd of ours, so its bytes count.
        let received = min(max(received, flight.received), limits.maxDownloadBytes)
        index.reserve(received - flight.received)
        fetches[job]?.received = received
        fetches[job]?.expected = expected
        fetches[job]?.lastActivity = now
        drop(index.evictToFit())
        for waiter in flight.waiters { reportProgress(received, expected, to: waiter) }
        decodePart(of: job)
    }

    mutating func fetchFinished(_ worker: WorkerID, _ job: JobID, _ result: FetchResult) {
        guard fetchPool.isRunning(job, on: worker) else { return }
        if stopping[job] != nil { return stopped(job, received: 0) }
        guard let digest = ContentDigest(hexadecimal: result.digest), result.bytes <= limits.maxDownloadBytes else {
            return fetchFailed(worker, job, .internal, "The download worker reported nonsense.")
        }
        if fetches[job]?.given != nil { return identified(job, digest, bytes: result.bytes) }
        guard isAllowedAddress(result.remoteAddress) else {
            let message = "\(result.remoteAddress) is not an address that may be loaded from."
            return fetchFailed(worker, job, .forbiddenAddress, message)
        }
        guard let response = result.response else {
            return fetchFailed(worker, job, .internal, "The download worker reported no response.")
        }
        guard let flight = fetches[job] else { return }
        tell(.finished, of: flight)
        take(result.cookies, of: flight.key)
        _ = endFetch(job)
        counters.downloads += 1
        counters.bytesDownloaded += result.bytes
        keepAndServe(job, flight, digest, bytes: result.bytes, Self.complete(response, of: flight))
    }

    /// The response to which a part belongs, as the part's own says less (RFC 9111, section 3.4).
    private static func complete(_ response: ResponseRecord, of flight: FetchFlight) -> ResponseRecord {
        guard response.status == 206 else { return response }
        var whole = flight.response?.refreshed(by: response) ?? response
        whole.status = 200
        return whole
    }

    /// Puts what has come where it may stay, and serves those who wait for it.
    private mutating func keepAndServe(
        _ job: JobID, _ flight: FetchFlight, _ digest: ContentDigest, bytes: Int, _ response: ResponseRecord
    ) {
        var waiting = flight.waiters
        var key = flight.key
        let varyKey = OriginStatement.varyKey(response, of: key)
        var origin = statement(response, for: key, varyKey: varyKey)
        if origin.policy.storability != .shared, key.owner == nil, let uid = waiting.first.flatMap({ waiters[$0]?.uid })
        {
            // It is for one user; the others ask for themselves.
            key = key.owned(by: uid)
            origin = statement(response, for: key, varyKey: varyKey)
            let others = waiting.filter { waiters[$0]?.uid != uid }
            waiting.removeAll { others.contains($0) }
            for other in others {
                guard let waiter = waiters[other] else { continue }
                waiters[other]?.key = waiter.key.owned(by: waiter.uid)
                fetch(for: other)
            }
        }
        dropPartials { $0 == key || $0 == flight.key }
        let isStorable = origin.policy.storability != .never
        let staysInMemory = isStorable && waiting.contains { waiters[$0]?.mayEnterMemory == true }
        // What may not stay is known for as long as it is being made into something, under a name that nobody asks for.
        let name = staysInMemory ? key : key.hidden(as: job.number)
        // Where the new bytes may not enter, the old ones are no answer any more; unless whoever has loaded them wanted
        // the cache to be left alone.
        if waiting.contains(where: { waiters[$0].map { $0.request.options.cache != .noStore } ?? false }) {
            forgetOld(key, flight.key, new: digest, isStorable: isStorable, staysInMemory: staysInMemory, waiting)
        }
        let original = MemoryIndex.Original(digest: digest, bytes: bytes, origin: origin)
        dropRemoved(index.insert(original, for: name))
        let entersDisk = isStorable && waiting.contains { waiters[$0]?.mayEnterDisk == true }
        // What is on disk need not be loaded again.
        let start = entersDisk && limits.usesDisk ? nil : flight.startedAt
        let body = takeBody(of: job, digest, bytes: bytes, since: start)
        if entersDisk { keep(body, as: key, original) }
        // What the disk has of this original is older than what has just come.
        if staysInMemory { endLookups { $0 == key } }
        serve(waiting, original, from: body, key: key) { state, waiter in
            state.reportProgress(bytes, bytes, to: waiter)
        }
        if !staysInMemory { dropRemoved(index.remove(name)) }
    }

    private mutating func forgetOld(
        _ key: OriginalKey, _ asked: OriginalKey, new digest: ContentDigest, isStorable: Bool, staysInMemory: Bool,
        _ waiting: [WaiterID]
    ) {
        let known = index.original(key) ?? index.original(asked)
        if !staysInMemory {
            for key in Set([key, asked]) where index.original(key).map({ $0.digest != digest }) ?? false {
                dropRemoved(index.remove(key))
            }
        }
        // What is kept on disk takes the old one's place there.
        let isKept = waiting.contains { waiters[$0]?.mayEnterDisk == true }
        if !isKept || !isStorable, known.map({ $0.digest != digest }) ?? true { forgetOnDisk(key) }
    }

    /// Makes what a job has brought the body of an original, unless its bytes are in memory already. A download took as
    /// long as since `start`.
    mutating func takeBody(
        of job: JobID, _ digest: ContentDigest, bytes: Int, since start: Instant? = nil
    ) -> BufferID {
        let key = VariantKey(digest: digest, form: .original)
        if let known = index.buffer(key) {
            actions.append(.discard(job))
            return known
        }
        let body = newBufferID()
        actions.append(.publish(job, body))
        index.insert(body, as: key, bytes: bytes, at: now, worth: start.map { now.microseconds(since: $0) } ?? 0)
        return body
    }

    /// Serves waiters whose original has arrived: at once where their result is known, else by decoding.
    mutating func serve(
        _ waiting: [WaiterID], _ original: MemoryIndex.Original, from body: BufferID, key: OriginalKey?,
        before: (inout BrokerState, WaiterID) -> Void = { _, _ in }
    ) {
        // Held, so that serving the first waiter cannot evict it before the last one is served.
        index.hold(body)
        for id in waiting {
            if let key { waiters[id]?.key = key }
            waiters[id]?.original = original
            guard let waiter = waiters[id] else { continue }
            before(&self, id)
            waiters[id]?.stage = nil
            let variant = VariantKey(digest: original.digest, form: form(of: waiter.request))
            if waiter.purpose == .refresh {
                dismiss(id)
            } else if let header = index.header(of: original.digest), let buffer = index.buffer(variant) {
                deliver(buffer, size(of: buffer, header), original, header, to: waiters[id] ?? waiter)
            } else {
                decode(variant, of: body, for: id)
            }
        }
        unhold(body)
        drop(index.evictToFit())
    }

    /// Bytes that a client gave have their name now.
    private mutating func identified(_ job: JobID, _ digest: ContentDigest, bytes: Int) {
        guard bytes == fetches[job]?.received, let flight = fetches[job], let given = flight.given,
            let waiter = flight.waiters.first.flatMap({ waiters[$0] }), case .store(let request) = waiter.purpose
        else {
            return conclude(job, WireError(.internal, "The download worker reported nonsense."))
        }
        fetches[job]?.given = nil
        _ = endFetch(job)
        let original = MemoryIndex.Original(
            digest: digest, bytes: bytes, origin: statement(ofGiven: request, for: flight.key))
        dropRemoved(index.insert(original, for: flight.key))
        let variant = VariantKey(digest: digest, form: .original)
        var body = given
        if let known = index.buffer(variant) {
            drop([given])
            body = known
        } else {
            index.insert(given, as: variant, bytes: bytes, at: now)
        }
        serve(flight.waiters, original, from: body, key: nil)
    }

    mutating func fetchNotModified(_ worker: WorkerID, _ job: JobID, _ confirmation: FetchConfirmation) {
        guard fetchPool.isRunning(job, on: worker) else { return }
        if stopping[job] != nil { return stopped(job, received: 0) }
        guard let flight = fetches[job], let known = flight.revalidating else {
            return fetchFailed(worker, job, .internal, "The download worker confirmed what it was not asked for.")
        }
        guard isAllowedAddress(confirmation.remoteAddress) else {
            let message = "\(confirmation.remoteAddress) is not an address that may be loaded from."
            return fetchFailed(worker, job, .forbiddenAddress, message)
        }
        hosts.answered(flight.url.origin, status: 304, retryAfterMs: nil, at: now)
        tell(.finished, of: flight)
        take(confirmation.cookies, of: flight.key)
        _ = endFetch(job)
        actions.append(.discard(job))
        counters.revalidated += 1

        let response = known.origin.response.refreshed(by: confirmation.response)
        let varyKey = OriginStatement.varyKey(response, of: flight.key)
        let origin = statement(response, for: flight.key, varyKey: varyKey)
        let isOther =
            Self.isStrong(known.origin.response.etag) && Self.isStrong(confirmation.response.etag)
            && known.origin.response.etag != confirmation.response.etag
        let isPermitted =
            origin.policy.storability == .shared
            || origin.policy.storability == .personal && flight.key.owner != nil
        if isOther || !isPermitted { return loadInstead(flight) }
        var original = MemoryIndex.Original(digest: known.digest, bytes: known.bytes, origin: origin)
        (original.isFromDisk, original.isOnDisk) = (known.isFromDisk, known.isOnDisk)
        // It may have been removed meanwhile, or replaced.
        let isThere = index.original(flight.key)?.digest == known.digest
        if isThere { dropRemoved(index.insert(original, for: flight.key)) }
        updateOnDisk(original, flight.key)
        for id in flight.waiters {
            guard let waiter = waiters[id] else { continue }
            if waiter.purpose == .refresh {
                dismiss(id)
                continue
            }
            waiters[id]?.isConfirmed = true
            waiters[id]?.isValidated = true
            // It may have left the memory since it was found on disk.
            if !isThere || body(of: known) == nil { waiters[id]?.hasLookedOnDisk = false }
            // The bytes are where they were kept.
            waiters[id]?.source = waiter.keptIn
            proceed(id)
        }
        drop(index.dropSpareBody(of: known.digest))
    }

    /// Loads what was confirmed, but is another version (RFC 9111, section 4.3.4), or may not be kept as it was.
    private mutating func loadInstead(_ flight: FetchFlight) {
        if let uid = flight.waiters.first.flatMap({ waiters[$0]?.uid }) { forget(flight.key, of: uid) }
        for id in flight.waiters {
            waiters[id]?.stage = nil
            waiters[id]?.mustLoad = true
            fetch(for: id)
        }
    }

    private static func isStrong(_ etag: String?) -> Bool {
        etag.map { !$0.hasPrefix("W/") } ?? false
    }

    private mutating func fetchFailed(_ worker: WorkerID, _ job: JobID, _ code: ErrorCode, _ message: String) {
        fetchFailed(worker, job, FetchFailure(WireError(code, message)))
    }

    mutating func fetchFailed(_ worker: WorkerID, _ job: JobID, _ failure: FetchFailure) {
        guard fetchPool.isRunning(job, on: worker) else { return }
        if stopping[job] != nil { return stopped(job, received: failure.received) }
        guard let flight = fetches[job] else { return }
        take(failure.cookies, of: flight.key)
        if !flight.isGiven { noteOutcome(failure.error, of: flight.url.origin) }
        settleReceived(job, failure.received)
        if continues(job, after: failure.error, from: worker) { return }
        conclude(job, failure.error, response: failure.response)
    }

    /// Ends a download for good: those who wait hear of it, unless what is cached will do.
    mutating func conclude(_ job: JobID, _ error: WireError, response: ResponseRecord? = nil) {
        guard let flight = fetches[job] else { return }
        tell(.failed, of: flight, reason: error.code.rawValue)
        if !keepPartial(of: job, flight) { actions.append(.discard(job)) }
        _ = endFetch(job)
        // What is gone from the origin does not live on here; unless whoever has asked wanted the cache to be left alone.
        if error.code == .httpStatus, [404, 410].contains(error.httpStatus),
            flight.revalidating != nil || flight.request.isForced,
            flight.waiters.contains(where: { waiters[$0].map { $0.request.options.cache != .noStore } ?? false }),
            let uid = flight.waiters.first.flatMap({ waiters[$0]?.uid })
        {
            forget(flight.key, of: uid)
        }
        let lifetime = response.flatMap { CachePolicy.statedLifetime(ofFailure: $0) }
        for id in flight.waiters {
            guard let waiter = waiters[id] else { continue }
            if case .store = waiter.purpose {
                deny(waiter, error)
            } else {
                settle(id, listed(error, waiter, lifetime: lifetime), revalidating: flight.revalidating)
            }
        }
    }

    private mutating func noteOutcome(_ error: WireError, of origin: String) {
        if let status = error.httpStatus {
            hosts.answered(origin, status: status, retryAfterMs: error.retryAfterMs, at: now)
        } else {
            hosts.failed(origin, error, at: now)
        }
    }

    private mutating func take(_ changes: CookieChanges, of key: OriginalKey) {
        guard key.cookies, let owner = key.owner, !changes.isEmpty else { return }
        jars[owner, default: CookieJar()].apply(changes)
    }

    /// Ends the request of the broker itself.
    private mutating func dismiss(_ id: WaiterID) {
        waiters[id] = nil
    }
}

import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// What is cached and what that is worth for a request: the way of every request, step by step.
extension BrokerState {
    /// The stored original for a request: the asking user's own comes before one for all.
    func stored(for waiter: Waiter) -> (key: OriginalKey, original: MemoryIndex.Original)? {
        if waiter.key.owner == nil, index.hasAny(ownedBy: waiter.uid) {
            let own = waiter.key.owned(by: waiter.uid)
            if let original = index.original(own) { return (own, original) }
        }
        return index.original(waiter.key).map { (waiter.key, $0) }
    }

    /// Whether the disk tier may have the user's own original, which comes before one for all, though memory has none.
    func mayHaveOwnOnDisk(_ waiter: Waiter) -> Bool {
        guard disk.mayHaveOwned, waiter.key.owner == nil, !waiter.hasLookedOnDisk, canLookUp else { return false }
        let own = waiter.key.owned(by: waiter.uid)
        return index.original(own) == nil && !notOwnOnDisk.contains(own)
    }

    /// What a request may do with what is stored.
    func decision(for waiter: Waiter, _ original: MemoryIndex.Original) -> CacheDecision {
        if waiter.isConfirmed { return .use(isStale: false) }
        if waiter.mustLoad { return .load }
        let mode = waiter.request.options.cache
        guard original.origin.matches(waiter.key) else { return CacheDecision.decide(mode: mode, stored: nil) }
        return CacheDecision.decide(
            mode: mode, stored: (original.origin.policy, original.origin.age(at: now)))
    }

    /// Takes a request, which is at no stage, one step on.
    mutating func proceed(_ id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        waiters[id]?.stage = nil
        waiters[id]?.isPreviewing = false
        let mode = waiter.request.options.cache
        if !waiter.isConfirmed, waiter.mustLoad || mode == .reload || mode == .noStore {
            // What is loaded anew takes the place of the user's own.
            if let (key, _) = stored(for: waiter) { waiters[id]?.key = key }
            return fetch(for: id)
        }
        if mayHaveOwnOnDisk(waiter) { return lookUp(for: id) }
        guard let (key, original) = stored(for: waiter) else {
            if canLookUp, !waiter.hasLookedOnDisk { return lookUp(for: id) }
            if mode == .onlyIfCached { return deny(waiter, notCached(waiter)) }
            // What was confirmed was removed meanwhile.
            waiters[id]?.isConfirmed = false
            return fetch(for: id)
        }
        waiters[id]?.key = key
        switch decision(for: waiter, original) {
        case .use: produce(original, for: id)
        case .useAndRefresh:
            refresh(key, original, for: waiter)
            produce(original, for: id)
        case .revalidate where waiter.request.options.staleFirst && mode == .noCache && !waiter.hasPreviewed:
            waiters[id]?.isPreviewing = true
            produce(original, for: id)
        case .revalidate: fetch(for: id, revalidating: original)
        case .load: fetch(for: id)
        case .refuse: deny(waiter, notCached(waiter))
        }
    }

    /// Makes the answer from what is stored.
    private mutating func produce(_ original: MemoryIndex.Original, for id: WaiterID) {
        waiters[id]?.original = original
        guard let waiter = waiters[id] else { return }
        let form = form(of: waiter.request)
        let variant = VariantKey(digest: original.digest, form: form)
        if let header = index.header(of: original.digest), let buffer = index.buffer(variant) {
            return deliver(buffer, size(of: buffer, header), original, header, to: waiter)
        }
        let body = body(of: original)
        let mayHaveRaster = original.isFromDisk && form.rasterWord != nil
        if canLookUp, !waiter.hasLookedOnDisk, body == nil || mayHaveRaster { return lookUp(for: id) }
        if let body {
            // What is cached is served all the same, unless it is what has failed.
            if let refusal = refusal(of: waiter), refusal.cause.map(Self.imageErrors.contains) == true {
                return deny(waiter, refusal)
            }
            decode(variant, of: body, for: id)
        } else if waiter.isPreviewing {
            endPreview(id)
        } else if waiter.request.options.cache == .onlyIfCached {
            deny(waiter, notCached(waiter))
        } else {
            // What is known is known of bytes that are gone.
            waiters[id]?.isConfirmed = false
            waiters[id]?.mustLoad = true
            fetch(for: id)
        }
    }

    /// What a picture's own bytes cause, whatever becomes of the origin.
    private static let imageErrors: Set<ErrorCode> = [
        .unsupportedFormat, .truncated, .decodeFailed, .emptyImage, .tooManyPixels,
    ]

    /// The bytes of an original, unless they have left the memory, for the disk tier alone perhaps.
    func body(of original: MemoryIndex.Original) -> BufferID? {
        index.buffer(VariantKey(digest: original.digest, form: .original))
    }

    /// Goes on to the answer proper, whether or not the preview could be shown.
    mutating func endPreview(_ id: WaiterID) {
        waiters[id]?.isPreviewing = false
        waiters[id]?.hasPreviewed = true
        proceed(id)
    }

    /// Has what is stale revalidated behind the answer's back; once, however many are answered meanwhile.
    private mutating func refresh(_ key: OriginalKey, _ original: MemoryIndex.Original, for asker: Waiter) {
        guard fetchByKey[FetchKey(key: key, isForced: false)] == nil,
            requestPool.taken < limits.maxRequests / 2, waiters.count < limits.maxRequests, !isDraining
        else { return }
        var options = asker.request.options
        options.cache = .noCache
        options.priority = .low
        options.progress = false
        options.delivery = .none
        options.storage = .both
        let waiter = Waiter(
            id: newWaiterID(), client: asker.client, uid: asker.uid, purpose: .refresh,
            request: GetRequest(id: 0, url: asker.request.url, options: options), key: key, receivedAt: now)
        register(waiter)
        fetch(for: waiter.id, revalidating: original)
    }

    /// Ends a request whose original cannot be had: with what is cached, where that may be used though it is stale (RFC
    /// 5861, section 4), else with the error. `known` is what the origin was asked about, which may be on disk alone by now.
    mutating func settle(_ id: WaiterID, _ error: WireError, revalidating known: MemoryIndex.Original? = nil) {
        guard let waiter = waiters[id] else { return }
        let mode = waiter.request.options.cache
        // What failed before fails for the same reason.
        var reason = error
        if error.code == .blacklisted, let cause = error.cause { reason.code = cause }
        guard !waiter.isConfirmed, !waiter.mustLoad, mode == .default || mode == .noCache, waiter.purpose != .refresh,
            let original = stored(for: waiter)?.original ?? (waiter.keptIn == .disk ? known : nil),
            original.origin.policy.mayServeStale(atAge: original.origin.age(at: now), after: reason)
        else { return deny(waiter, error) }
        waiters[id]?.isConfirmed = true
        if stored(for: waiter).flatMap({ body(of: $0.original) }) == nil { waiters[id]?.hasLookedOnDisk = false }
        waiters[id]?.source = waiter.keptIn
        proceed(id)
    }

    /// Why a request may not be tried; nil when it may.
    func refusal(of waiter: Waiter) -> WireError? {
        if waiter.request.options.retryFailed { return nil }
        let form = form(of: waiter.request)
        return keys(of: waiter).lazy.compactMap { self.failedList.refusal(of: $0, form: form, at: self.now) }.first
    }

    /// Ends a request whose picture is none. What is cached of it goes, and is loaded once more, as the origin may have
    /// mended it.
    mutating func pictureFailed(_ id: WaiterID, _ error: WireError) {
        guard let waiter = waiters[id] else { return }
        if case .store = waiter.purpose { return deny(waiter, error) }
        // What is damaged further on may still have a good first frame, which others are shown.
        let isBadContent =
            !form(of: waiter.request).isOfOtherFrames
            && [.unsupportedFormat, .truncated, .decodeFailed, .emptyImage].contains(error.code)
        if isBadContent { forget(waiter.key, of: waiter.uid) }
        if waiter.isPreviewing {
            waiters[id]?.mustLoad = isBadContent
            return endPreview(id)
        }
        if isBadContent, waiter.source != .network, !waiter.mustLoad,
            ![.onlyIfCached, .forceCache].contains(waiter.request.options.cache)
        {
            waiters[id]?.stage = nil
            waiters[id]?.isConfirmed = false
            waiters[id]?.mustLoad = true
            return fetch(for: id)
        }
        deny(waiter, listed(error, waiter, lifetime: nil))
    }

    /// Notes a failure on the failed list, where it belongs there.
    mutating func listed(_ error: WireError, _ waiter: Waiter, lifetime: Int?) -> WireError {
        var error = error
        error.blacklisted = failedList.note(
            error, key: waiter.key, form: form(of: waiter.request), url: waiter.request.url.text, lifetime: lifetime,
            at: now)
        return error
    }

    /// Forgets an original that has proved to be of no use, on disk too.
    mutating func forget(_ key: OriginalKey, of uid: UInt32) {
        dropRemoved(index.remove(key))
        forgetOnDisk(key)
    }

    /// Forgets what the disk tier has of an original: of one for all only that, of a user's own also the one for all.
    mutating func forgetOnDisk(_ key: OriginalKey) {
        guard canLookUp else { return }
        // No user has the last number (POSIX: it means "unchanged").
        ask(.forget(nil, url: key.url.text, owner: key.owner ?? .max, inMemory: []))
    }

    /// What the origin said of an original, as of now.
    func statement(_ response: ResponseRecord, for key: OriginalKey, varyKey: String?) -> OriginStatement {
        OriginStatement(
            response, for: key, varyKey: varyKey, settings: limits.caching, at: now, unixMs: unixMs)
    }
}

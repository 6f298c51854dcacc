import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

// The ends of requests: each has exactly one.
extension BrokerState {
    mutating func register(_ waiter: Waiter) {
        waiters[waiter.id] = waiter
        switch waiter.purpose {
        case .get:
            clients[waiter.client]?.pending[waiter.request.id] = waiter.id
            takeWeight(waiter.request.weight, of: waiter.client)
        case .store: clients[waiter.client]?.stores.insert(waiter.id)
        case .prefetch, .refresh: break
        }
        remind(.total(waiter.id), in: waiter.request.options.totalTimeoutMs)
    }

    /// Answers a request with a buffer. The waiter may be registered or not.
    mutating func deliver(
        _ buffer: BufferID, bytes: Int? = nil, _ geometry: PixelGeometry, _ original: MemoryIndex.Original,
        _ header: ImageHeader, to waiter: Waiter
    ) {
        let bytes = bytes ?? index.buffers[buffer]?.bytes ?? 0
        if let refusal = refusal(of: bytes, in: buffer, for: waiter) { return deny(waiter, refusal) }
        index.touch(buffer, at: now)
        if waiter.source == .memory { noteUse(of: waiter.key) }
        if waiter.source != .memory || waiter.request.options.retryFailed {
            failedList.succeeded(waiter.key, form: form(of: waiter.request))
        }
        guard waiter.purpose == .get else { return delivered(original, to: waiter) }

        var image = picture(of: header, as: geometry, bytes: bytes, for: waiter)
        image.etag = original.origin.etag
        image.expires = original.origin.policy.expires
        // What has come just now, or was confirmed, is as good as it gets, however short its life.
        image.stale = waiter.source != .network && !waiter.isValidated && original.origin.isStale(at: now)
        image.final = !waiter.isPreviewing
        image.placeholder = header.placeholder
        if image.pixels != nil, waiter.request.options.variant.frames == .all { image.timing = header.timing }
        let attachment = lend(buffer, to: waiter, in: &image)
        if waiter.isRepeatable, image.buffer != nil { image.slot = index.slot(of: buffer, for: waiter.key) }
        if !waiter.isPreviewing { unregister(waiter) }
        if image.final { countAnswer(to: waiter, isStale: image.stale) }
        reply(.image(id: waiter.request.id, image), attachment, to: waiter.client)
        if waiter.isPreviewing { endPreview(waiter.id) }
    }

    /// What a waiter is told of a picture, and of the bytes that it is given.
    func picture(
        of header: ImageHeader, as geometry: PixelGeometry, bytes: Int, for waiter: Waiter
    ) -> ImageReply {
        let options = waiter.request.options
        var image = ImageReply(
            source: waiter.source, url: waiter.request.url.text, width: geometry.width, height: geometry.height,
            pixels: nil, bytes: bytes,
            contentType: (options.representation.format?.imageFormat ?? header.format).contentType,
            originalWidth: header.geometry.width, originalHeight: header.geometry.height,
            frameCount: header.frameCount, etag: nil)
        if options.representation == .pixels {
            image.pixels = ImageReply.Pixels(
                stride: geometry.stride, pixelFormat: options.variant.pixelFormat, alpha: options.variant.alpha)
        }
        return image
    }

    /// Gives a waiter a buffer in the way that it wants.
    mutating func lend(_ buffer: BufferID, to waiter: Waiter, in image: inout ImageReply) -> Action.Attachment {
        switch waiter.request.options.delivery {
        case .fd:
            image.buffer = buffer.number
            guard leases.grant(buffer, bytes: image.bytes, to: waiter.client, of: waiter.uid) else { return .nothing }
            index.hold(buffer)
            image.descriptors = 1
            return .descriptor(buffer)
        case .inline:
            if sendings.grant(buffer, bytes: image.bytes, to: waiter.client, of: waiter.uid) { index.hold(buffer) }
            image.payload = image.bytes
            return .payload(buffer, count: image.bytes)
        case .none: return .nothing
        }
    }

    /// Why a client may not be given a buffer; nil when it may.
    func refusal(of bytes: Int, in buffer: BufferID, for waiter: Waiter) -> WireError? {
        let client = waiter.client
        switch waiter.request.options.delivery {
        case .fd where !leases.holds(client, buffer):
            return refusal(ofHolding: bytes, client, waiter.uid)
        case .inline:
            if bytes > limits.maxInlineBytes {
                let message = "\(bytes) bytes are more than an inline payload may have (\(limits.maxInlineBytes))."
                return WireError(.tooLarge, message)
            }
            if sendings.holds(client, buffer) { return nil }
            let unsent = sendings.held(by: client).bytes
            if unsent == 0 || unsent + bytes <= limits.maxInlineBytes {
                return refusal(ofHolding: bytes, client, waiter.uid)
            }
            let message = "\(unsent) bytes of inline pictures wait for this client to receive them."
            return WireError(.quotaExceeded, message)
        case .fd, .none: return nil
        }
    }

    private mutating func countAnswer(to waiter: Waiter, isStale: Bool) {
        if waiter.hasJoined {
            counters.count(.coalesced)
        } else {
            counters.count(Self.outcomes[waiter.source] ?? .memoryHits)
        }
        if isStale { counters.staleServed += 1 }
        if waiter.source == .network {
            counters.loads.record(microseconds: now.microseconds(since: waiter.receivedAt))
        }
    }

    private static let outcomes: [ImageReply.Source: StatsReport.Figure] = [
        .memory: .memoryHits, .disk: .diskHits, .network: .networkLoads, .shared: .sharedHits,
    ]

    /// Ends a request that nobody but the broker waits for.
    private mutating func delivered(_ original: MemoryIndex.Original, to waiter: Waiter) {
        unregister(waiter)
        switch waiter.purpose {
        case .get, .refresh: break
        case .prefetch(let prefetch): ended(waiter.id, of: prefetch, hasFailed: false)
        case .store(let request): believe(original, request, from: waiter)
        }
    }

    /// Answers a request, registered or not, with an error. Its flight, if any, is the caller's business.
    mutating func deny(_ waiter: Waiter, _ error: WireError) {
        unregister(waiter)
        switch waiter.purpose {
        case .get:
            counters.count(error.code == .cancelled ? .cancelled : .failed)
            reject(waiter.request.id, of: waiter.client, with: error)
        case .prefetch(let prefetch): ended(waiter.id, of: prefetch, hasFailed: true)
        case .refresh: break
        case .store(let request): disbelieve(request, error, from: waiter)
        }
    }

    /// Answers a registered request with an error; it leaves its flight.
    mutating func fail(_ waiter: WaiterID, _ error: WireError) {
        guard let waiter = waiters[waiter] else { return }
        unregister(waiter)
        leave(waiter)
        deny(waiter, error)
    }

    /// Ends a request that nobody is there for any more.
    mutating func forsake(_ waiter: WaiterID) {
        guard let waiter = waiters[waiter] else { return }
        unregister(waiter)
        leave(waiter)
        if waiter.purpose == .get { counters.count(.cancelled) }
        if case .store = waiter.purpose { dropRemoved(index.remove(waiter.key)) }
    }

    private mutating func unregister(_ waiter: Waiter) {
        guard waiters.removeValue(forKey: waiter.id) != nil else { return }
        switch waiter.purpose {
        case .get:
            clients[waiter.client]?.pending[waiter.request.id] = nil
            giveWeight(waiter.request.weight, of: waiter.client)
        case .store: clients[waiter.client]?.stores.remove(waiter.id)
        case .prefetch, .refresh: break
        }
    }

    /// Takes a waiter out of its flight, whose priority is then that of those who are left. A download that nobody waits
    /// for any more is stopped; a decoding is only when it has not begun.
    private mutating func leave(_ waiter: Waiter) {
        switch waiter.stage {
        case .lookingUp(let job):
            lookups[job]?.waiters.removeAll { $0 == waiter.id }
            if lookups[job]?.waiters.isEmpty == true { _ = endLookup(job) }
        case .fetching(let job):
            fetches[job]?.waiters.removeAll { $0 == waiter.id }
            guard let left = fetches[job]?.waiters, let priority = priority(of: left) else {
                return abandonFetch(job)
            }
            setPriority(of: job, priority)
        case .decoding(let job):
            decodes[job]?.waiters.removeAll { $0 == waiter.id }
            guard let left = decodes[job]?.waiters, let priority = priority(of: left) else {
                return abandonDecodeIfQueued(job)
            }
            decodes[job]?.priority = priority
            decodeQueue.change(job, to: priority)
        case nil: break
        }
    }

    /// The highest priority among requests; nil when there are none.
    private func priority(of waiting: [WaiterID]) -> GetOptions.Priority? {
        waiting.lazy.compactMap { waiters[$0]?.request.options.priority }.max()
    }

    // MARK: Time

    mutating func totalTimePassed(_ waiter: WaiterID) {
        guard let late = waiters[waiter] else { return }
        let seconds = Double(late.request.options.totalTimeoutMs) / 1000
        fail(waiter, WireError(.timeout, "\(late.request.url.host): not loaded within \(seconds) s."))
    }

    /// A download's silence is measured from the last byte, or from its start.
    mutating func idleTimePassed(_ waiter: WaiterID) {
        guard let late = waiters[waiter], case .fetching(let job) = late.stage,
            let lastActivity = fetches[job]?.lastActivity
        else { return }
        let deadline = lastActivity.adding(milliseconds: late.request.options.timeoutMs)
        if deadline > now { return reminders.add(.idle(waiter), at: deadline) }
        let seconds = Double(late.request.options.timeoutMs) / 1000
        let error = WireError(.timeout, "\(late.request.url.host) sent nothing for \(seconds) s.")
        blame(job, error)
        leave(late)
        waiters[waiter]?.stage = nil
        settle(waiter, error)
    }

    /// Counts a silent origin as one that cannot be reached, once for a transfer, and only when it had time enough:
    /// nobody's impatience closes it to others.
    private mutating func blame(_ job: JobID, _ error: WireError) {
        guard let flight = fetches[job], !flight.isGiven, !flight.hasResponded, !flight.isBlamed,
            let startedAt = flight.startedAt, startedAt.adding(milliseconds: limits.patienceMs) <= now
        else { return }
        fetches[job]?.isBlamed = true
        hosts.failed(flight.url.origin, error, at: now)
    }
}

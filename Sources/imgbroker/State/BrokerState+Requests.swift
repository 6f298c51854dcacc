import IPCProtocol
import LinuxSystem

// What clients ask for.
extension BrokerState {
    mutating func messageReceived(_ message: ClientMessage, from client: ClientID) {
        guard let asking = clients[client] else { return }
        if let id = message.id, asking.pending[id] != nil || asking.errands.contains(id) {
            return reject(nil, of: client, with: WireError(.badRequest, "id \(id) is that of a pending request."))
        }
        switch message {
        case .hello(let id, _): reply(.hello(id: id, hello), to: client)
        case .get(let request): get(request, from: client, asking)
        case .cancel(let id, let request):
            if let waiter = asking.pending[request] {
                fail(waiter, WireError(.cancelled, "The request was cancelled."))
            }
            reply(.ok(id: id), to: client)
        case .release(let buffers): for buffer in buffers { release(Identifier(number: buffer), from: client) }
        case .query(let request): query(request, from: client, asking)
        case .remove(let id, let url): remove(url, id: id, from: client, asking)
        case .stats(let id): reply(.stats(id: id, report), to: client)
        default: break
        }
    }

    mutating func clientDisconnected(_ client: ClientID) {
        guard let gone = clients[client] else { return }
        for waiter in gone.pending.values.sorted() {
            // Nobody is there to be told, but the request has ended all the same.
            if let ended = remove(waiter) { leave(ended) }
            counters.count(.cancelled)
        }
        clients[client] = nil
        for buffer in leases.releaseAll(from: client) + sendings.releaseAll(from: client) { unhold(buffer) }
    }

    mutating func reject(_ id: Int?, of client: ClientID, with error: WireError) {
        counters.failures[error.code, default: 0] += 1
        reply(.error(id: id, error), to: client)
    }

    mutating func release(_ buffer: BufferID, from client: ClientID) {
        if leases.release(buffer, from: client) { unhold(buffer) }
    }

    mutating func reply(_ reply: Reply, _ attachment: Action.Attachment = .nothing, to client: ClientID) {
        actions.append(.reply(client, reply, attachment))
    }

    // MARK: get

    private mutating func get(_ request: GetRequest, from client: ClientID, _ asking: Client) {
        counters.requests += 1
        let waiter = Waiter(
            id: newWaiterID(), client: client, request: request, key: OriginalKey(request, uid: asking.uid),
            receivedAt: now)
        if isDraining { return deny(waiter, WireError(.shuttingDown, "The broker is ending.")) }

        let form = form(of: request)
        let original = request.options.cache == .reload ? nil : index.original(waiter.key)
        if let original, let (buffer, header) = cached(waiter.key, form) {
            return deliver(buffer, size(of: buffer, header), original, header, to: waiter)
        }
        let body = original.flatMap { index.buffer(VariantKey(digest: $0.digest, form: .original)) }
        let mayHaveRaster = original?.isFromDisk == true && form.rasterWord != nil
        let mayBeOnDisk = (body == nil || mayHaveRaster) && request.options.cache != .reload && canLookUp
        if request.options.cache == .onlyIfCached, body == nil, !mayBeOnDisk { return deny(waiter, notCached(waiter)) }
        if asking.pending.count + asking.errands.count >= limits.maxPendingRequests {
            let message = "\(asking.pending.count) requests of this client are pending already."
            return deny(waiter, WireError(.quotaExceeded, message))
        }
        if lookupQueue.count + fetchQueue.count + decodeQueue.count >= limits.maxQueuedJobs {
            return deny(waiter, WireError(.overloaded, "\(limits.maxQueuedJobs) jobs are waiting already."))
        }
        waiters[waiter.id] = waiter
        clients[client]?.pending[request.id] = waiter.id
        remind(.total(waiter.id), in: request.options.totalTimeoutMs)
        if let original, let body, !mayBeOnDisk {
            decode(VariantKey(digest: original.digest, form: form), of: body, for: waiter.id)
        } else if mayBeOnDisk {
            lookUp(for: waiter.id)
        } else {
            fetch(for: waiter.id)
        }
    }

    func form(of request: GetRequest) -> Form {
        Form(request.options, scaleDownLimit: limits.scaleDownBytes)
    }

    func notCached(_ waiter: Waiter) -> WireError {
        WireError(.notCached, "\(waiter.request.url.text) is not cached.")
    }

    /// The size of what is in a buffer, as shown.
    func size(of buffer: BufferID, _ header: ImageHeader) -> PixelGeometry {
        index.buffers[buffer]?.geometry ?? header.geometry
    }

    private mutating func query(_ request: GetRequest, from client: ClientID, _ asking: Client) {
        let key = OriginalKey(request, uid: asking.uid)
        let isInMemory = cached(key, form(of: request)) != nil
        guard canLookUp, asking.errands.count < limits.maxPendingRequests else {
            return reply(.queried(id: request.id, memory: isInMemory, disk: false, fresh: isInMemory), to: client)
        }
        clients[client]?.errands.insert(request.id)
        ask(.query(client, id: request.id, key: key.word, inMemory: isInMemory))
    }

    private mutating func remove(_ url: SourceURL, id: Int, from client: ClientID, _ asking: Client) {
        let keys = index.keys { $0.url == url && ($0.owner ?? asking.uid) == asking.uid }
        for key in keys { dropRemoved(index.remove(key)) }
        // What a look under way would find is what is being removed.
        for (job, flight) in lookups.sorted(by: { $0.key < $1.key })
        where flight.request.key.url == url && (flight.request.key.owner ?? asking.uid) == asking.uid {
            if let ended = endLookup(job) { goOnWithoutDisk(ended) }
        }
        guard canLookUp else { return reply(.removed(id: id, count: keys.count), to: client) }
        clients[client]?.errands.insert(id)
        let words = Set(keys.map(\.word))
        ask(.forget(client, id: id, url: url.text, owner: asking.uid, inMemory: words))
    }

    /// The buffer and the header of a result that is in memory.
    func cached(_ key: OriginalKey, _ form: Form) -> (BufferID, ImageHeader)? {
        guard let original = index.original(key), let header = index.header(of: original.digest),
            let buffer = index.buffer(VariantKey(digest: original.digest, form: form))
        else { return nil }
        return (buffer, header)
    }

    // MARK: Ends of a get

    /// Answers a request with a buffer. The waiter may be registered or not.
    mutating func deliver(
        _ buffer: BufferID, bytes: Int? = nil, _ geometry: PixelGeometry, _ original: MemoryIndex.Original,
        _ header: ImageHeader, to waiter: Waiter
    ) {
        let options = waiter.request.options
        let bytes = bytes ?? index.buffers[buffer]?.bytes ?? 0
        if options.delivery == .fd, !leases.holds(waiter.client, buffer),
            leases.bytes(heldBy: waiter.client) + bytes > limits.maxLeasedBytes
                || leases.count(heldBy: waiter.client) >= limits.maxLeasedBuffers
        {
            let (count, held) = (leases.count(heldBy: waiter.client), leases.bytes(heldBy: waiter.client))
            let message = "This client leases \(count) buffers with \(held) bytes already."
            return deny(waiter, WireError(.quotaExceeded, message))
        }
        let unsent = sendings.bytes(heldBy: waiter.client)
        if options.delivery == .inline, unsent > 0, unsent + bytes > limits.maxInlineBytes {
            let message = "\(unsent) bytes of inline pictures wait for this client to receive them."
            return deny(waiter, WireError(.quotaExceeded, message))
        }
        if options.delivery == .inline, bytes > limits.maxInlineBytes {
            let message = "\(bytes) bytes are more than an inline payload may have (\(limits.maxInlineBytes))."
            return deny(waiter, WireError(.tooLarge, message))
        }
        var image = ImageReply(
            source: waiter.source, url: waiter.request.url.text, width: geometry.width, height: geometry.height,
            pixels: nil, bytes: bytes, contentType: header.format.contentType, originalWidth: header.geometry.width,
            originalHeight: header.geometry.height, frameCount: header.frameCount, etag: original.etag)
        if options.representation == .pixels {
            image.pixels = ImageReply.Pixels(
                stride: geometry.stride, pixelFormat: options.variant.pixelFormat, alpha: options.variant.alpha)
        }
        var attachment = Action.Attachment.nothing
        switch options.delivery {
        case .fd:
            image.buffer = buffer.number
            if leases.grant(buffer, bytes: bytes, to: waiter.client) {
                index.hold(buffer)
                image.descriptors = 1
                attachment = .descriptor(buffer)
            }
        case .inline:
            if sendings.grant(buffer, bytes: bytes, to: waiter.client) { index.hold(buffer) }
            image.payload = bytes
            attachment = .payload(buffer, count: bytes)
        case .none: break
        }
        index.touch(buffer)
        if waiter.source == .memory { noteUse(of: waiter.key) }
        unregister(waiter)
        if waiter.hasJoined {
            counters.count(.coalesced)
        } else {
            counters.count(Self.outcomes[waiter.source] ?? .memoryHits)
        }
        if waiter.source == .network {
            counters.loads.record(microseconds: now.microseconds(since: waiter.receivedAt))
        }
        reply(.image(id: waiter.request.id, image), attachment, to: waiter.client)
    }

    private static let outcomes: [ImageReply.Source: StatsReport.Figure] = [
        .memory: .memoryHits, .disk: .diskHits, .network: .networkLoads, .shared: .sharedHits,
    ]

    /// Answers a request, registered or not, with an error. Its flight, if any, is the caller's business.
    mutating func deny(_ waiter: Waiter, _ error: WireError) {
        unregister(waiter)
        counters.count(error.code == .cancelled ? .cancelled : .failed)
        reject(waiter.request.id, of: waiter.client, with: error)
    }

    /// Answers a registered request with an error; it leaves its flight.
    mutating func fail(_ waiter: WaiterID, _ error: WireError) {
        guard let waiter = waiters[waiter] else { return }
        leave(waiter)
        deny(waiter, error)
    }

    private mutating func remove(_ waiter: WaiterID) -> Waiter? {
        guard let removed = waiters[waiter] else { return nil }
        unregister(removed)
        return removed
    }

    private mutating func unregister(_ waiter: Waiter) {
        if waiters.removeValue(forKey: waiter.id) != nil {
            clients[waiter.client]?.pending[waiter.request.id] = nil
        }
    }

    /// Takes a waiter out of its flight. A download that nobody waits for any more is stopped; a decoding is only when
    /// it has not begun.
    private mutating func leave(_ waiter: Waiter) {
        switch waiter.stage {
        case .lookingUp(let job):
            lookups[job]?.waiters.removeAll { $0 == waiter.id }
            if lookups[job]?.waiters.isEmpty == true { _ = endLookup(job) }
        case .fetching(let job):
            fetches[job]?.waiters.removeAll { $0 == waiter.id }
            if fetches[job]?.waiters.isEmpty == true { abandonFetch(job) }
        case .decoding(let job):
            decodes[job]?.waiters.removeAll { $0 == waiter.id }
            if decodes[job]?.waiters.isEmpty == true { abandonDecodeIfQueued(job) }
        case nil: break
        }
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
        fail(waiter, WireError(.timeout, "\(late.request.url.host) sent nothing for \(seconds) s."))
    }
}

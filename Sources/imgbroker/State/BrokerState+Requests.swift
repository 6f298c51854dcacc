import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

// What clients ask for.
extension BrokerState {
    mutating func messageReceived(_ message: ClientMessage, from client: ClientID) {
        guard let asking = clients[client] else { return }
        if let id = message.id, isPending(id, of: asking) {
            return reject(nil, of: client, with: WireError(.badRequest, "id \(id) is that of a pending request."))
        }
        if message.isAdministrative, !asking.isAdmin {
            return reject(message.id, of: client, with: WireError(.forbidden, "Only administrators may do this."))
        }
        switch message {
        case .hello(let id, _, let validity): greet(client, id: id, withPage: validity)
        case .get(let request): get(request, from: client, asking)
        case .cancel(let id, let request): cancel(request, id: id, from: client, asking)
        case .release(let buffers): for buffer in buffers { release(Identifier(number: buffer), from: client) }
        case .touch(let buffers, let hits): touch(buffers, hits: hits, from: client)
        case .query(let request): query(request, from: client, asking)
        case .prefetch(let request): prefetch(request, from: client, asking)
        // It comes with bytes, as an event of its own.
        case .store: break
        case .remove(let id, let url): remove(url, id: id, from: client, asking)
        case .stats(let id): reply(.stats(id: id, report), to: client)
        case .subscribe(let id, let events): subscribe(to: events, id: id, from: client)
        case .clear(let id, let tier, let seconds): clear(tier, olderThanSeconds: seconds, id: id, from: client)
        case .failedList(let id, let url): listFailed(url, id: id, from: client)
        case .failedClear(let id, let url):
            failedList.removeExpired(at: now)
            reply(.removed(id: id, count: failedList.clear(url: url?.text)), to: client)
        case .suspend(let id):
            isSuspended = true
            reply(.ok(id: id), to: client)
        case .resume(let id):
            isSuspended = false
            reply(.ok(id: id), to: client)
        case .cancelAll(let id):
            cancelAll()
            reply(.ok(id: id), to: client)
        }
    }

    /// Answers what is wrong; a request that is pending under the same name is another, and gets its own answer.
    mutating func messageRejected(_ id: Int?, of client: ClientID, with error: WireError) {
        let isTaken = id.flatMap { id in clients[client].map { isPending(id, of: $0) } } ?? false
        reject(isTaken ? nil : id, of: client, with: error)
    }

    /// Whether an answer to a request of this name is still owed.
    func isPending(_ id: Int, of client: Client) -> Bool {
        client.pending[id] != nil || client.errands.contains(id) || client.prefetches[id] != nil
    }

    mutating func clientDisconnected(_ client: ClientID) {
        guard let gone = clients[client] else { return }
        // Nobody is there to be told, but the requests have ended all the same.
        for prefetch in gone.prefetches.values.sorted() { forsake(prefetch) }
        for waiter in gone.pending.values.sorted() { forsake(waiter) }
        for waiter in gone.stores.sorted() { forsake(waiter) }
        if let left = clients.removeValue(forKey: client)?.weight { requestPool.give(left, from: gone.uid) }
        connectionPool.give(1, from: gone.uid)
        subscriptionPool.give(gone.subscriptions.count, from: gone.uid)
        unsubscribe(client)
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
            id: newWaiterID(), client: client, uid: asking.uid, purpose: .get, request: request,
            key: OriginalKey(request, uid: asking.uid), receivedAt: now)
        if isDraining { return deny(waiter, WireError(.shuttingDown, "The broker is ending.")) }
        if let refusal = refusal(of: request.options) { return deny(waiter, refusal) }

        // What is in memory and good needs neither a place in a queue nor a deadline.
        if let hit = memoryHit(for: waiter) {
            var waiter = waiter
            waiter.key = hit.key
            waiter.isRepeatable = asking.hasPage && !request.options.retryFailed
            deliver(hit.buffer, size(of: hit.buffer, hit.header), hit.original, hit.header, to: waiter)
            return noteHit(request, of: asking.uid, hit.key, hit.original)
        }
        if let refusal = refusal(ofWeight: request.weight, from: asking) { return deny(waiter, refusal) }
        register(waiter)
        proceed(waiter.id)
    }

    /// What a request gets at once, without a look at anything but the memory; nil when there is no such thing.
    func memoryHit(
        for waiter: Waiter
    ) -> (key: OriginalKey, original: MemoryIndex.Original, header: ImageHeader, buffer: BufferID)? {
        guard !mayHaveOwnOnDisk(waiter), let (key, original) = stored(for: waiter),
            decision(for: waiter, original) == .use(isStale: false), let header = index.header(of: original),
            let buffer = index.buffer(of: original, as: form(of: waiter.request))
        else { return nil }
        return (key, original, header, buffer)
    }

    /// Why nobody may ask so; nil when anybody may.
    func refusal(of options: GetOptions) -> WireError? {
        guard options.allowInvalidCertificates, !limits.allowsInvalidCertificates else { return nil }
        return WireError(.forbidden, "This broker does not load from servers whose certificate cannot be verified.")
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

    private mutating func cancel(_ request: Int, id: Int, from client: ClientID, _ asking: Client) {
        let error = WireError(.cancelled, "The request was cancelled.")
        if let waiter = asking.pending[request] { fail(waiter, error) }
        if let prefetch = asking.prefetches[request] { fail(prefetch, error) }
        reply(.ok(id: id), to: client)
    }

    private mutating func cancelAll() {
        failAll(WireError(.cancelled, "An administrator has cancelled all requests."))
    }

    // MARK: query and remove

    private mutating func query(_ request: GetRequest, from client: ClientID, _ asking: Client) {
        let waiter = Waiter(
            id: WaiterID(number: 0), client: client, uid: asking.uid, purpose: .get, request: request,
            key: OriginalKey(request, uid: asking.uid), receivedAt: now)
        var (isInMemory, isFresh): (Bool, Bool?) = (false, nil)
        var placeholder: Placeholder?
        if let (key, original) = stored(for: waiter) {
            placeholder = index.header(of: original.digest)?.placeholder
            isInMemory = index.buffer(VariantKey(digest: original.digest, form: form(of: request))) != nil
            isFresh = self.isFresh(original.origin, for: key)
        }
        guard canLookUp else {
            let status = CacheStatus(
                memory: isInMemory, disk: false, fresh: isFresh ?? false, placeholder: placeholder)
            return reply(.queried(id: request.id, status), to: client)
        }
        if let refusal = refusal(ofWeight: 1, from: asking) { return reject(request.id, of: client, with: refusal) }
        beginErrand(request.id, of: client)
        let found = DiskErrand.Found(inMemory: isInMemory, isFresh: isFresh, placeholder: placeholder)
        ask(.query((client, request.id), keys: keys(of: waiter), found))
    }

    /// Whether a request could be answered without asking the origin.
    func isFresh(_ origin: OriginStatement, for key: OriginalKey) -> Bool {
        !origin.isStale(at: now) && !origin.policy.alwaysRevalidate && origin.matches(key)
    }

    /// Under which keys a request's original may be found, the first being the first to be taken.
    func keys(of waiter: Waiter) -> [OriginalKey] {
        waiter.key.owner == nil ? [waiter.key.owned(by: waiter.uid), waiter.key] : [waiter.key]
    }

    private mutating func remove(_ url: SourceURL, id: Int, from client: ClientID, _ asking: Client) {
        if canLookUp, let refusal = refusal(ofWeight: 1, from: asking) {
            return reject(id, of: client, with: refusal)
        }
        // An administrator removes everybody's.
        let owner = asking.isAdmin ? nil : asking.uid
        let isMeant = { (key: OriginalKey) in
            key.nonce == 0 && key.url == url && (owner == nil || key.owner == nil || key.owner == owner)
        }
        let keys = index.keys(at: url).filter(isMeant)
        for key in keys { dropRemoved(index.remove(key)) }
        dropPartials(where: isMeant)
        // What a look under way would find is what is being removed.
        endLookups(where: isMeant)
        guard canLookUp else { return reply(.removed(id: id, count: keys.count), to: client) }
        beginErrand(id, of: client)
        ask(.forget((client, id), url: url.text, owner: owner, inMemory: Set(keys.map(\.word))))
    }
}

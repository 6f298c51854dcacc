import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Messages of clients: each is answered here, or becomes a request that waits.
extension BrokerState {
    // MARK: Connections

    mutating func clientConnected(
        _ client: ClientID, uid: UInt32, isAdmin: Bool, seesFigures: Bool, namespace: UInt64?
    ) {
        let refusal = clients.connected(
            client, uid: uid, isAdmin: isAdmin, seesFigures: seesFigures, namespace: namespace)
        guard let refusal else { return }
        reject(nil, of: client, with: refusal)
        actions.append(.close(client))
    }

    mutating func clientDisconnected(_ client: ClientID, isForced: Bool) {
        guard let departing = clients[client] else { return }
        let detached = departing.detached
        for prefetch in departing.prefetches { abandon(prefetch, among: detached) }
        for waiter in departing.gets
        where !detached.contains(requests[waiter]?.request.id ?? -1) || !detach(waiter) {
            abandon(waiter)
        }
        for waiter in departing.stores.sorted() { abandon(waiter) }
        let buffers = clients.removed(client)
        // It may still read what it has leased.
        if isForced { memory.endSegments(of: buffers) }
        noteEvictionsForSubscribers()
        for buffer in buffers { unhold(buffer) }
    }

    private mutating func noteEvictionsForSubscribers() {
        memory.notesEvictions = clients.hasSubscribers
        if !memory.notesEvictions { _ = memory.takeEvicted() }
    }

    // MARK: Messages

    mutating func messageReceived(_ message: ClientMessage, from client: ClientID) {
        guard let asking = clients[client] else { return }
        if let refusal = asking.refusal(ofID: message.id) { return reject(nil, of: client, with: refusal) }
        if message.isAdministrative, !asking.isAdmin {
            return reject(message.id, of: client, with: WireError(.forbidden, "Only administrators may do this."))
        }
        switch message {
        case .hello(let id, let name, let validity, let segments):
            if let name { clients.states(client, program: StatsReport.Program(client: name)) }
            if segments, limits.mostSegmentImageBytes > 0 { clients.mapsSegments(client, in: asking.namespace) }
            greet(client, id: id, withPage: validity)
        case .get(let request): get(request, from: client, asking)
        case .cancel(let id, let request): cancel(request, id: id, from: client, asking)
        case .update(let id, let request, let priority, let isDetached):
            update(request, id: id, priority, isDetached: isDetached, from: client, asking)
        case .release(let buffers):
            for buffer in buffers where clients.release(BufferID(number: buffer), from: client) {
                unhold(BufferID(number: buffer))
            }
        case .touch(let buffers, let hits): touch(buffers, hits: hits, from: client)
        case .forgetSegments(let segments): clients.forget(segments, by: client)
        case .query(var request):
            if let refusal = expandPreset(of: &request.options, for: asking) {
                return reject(request.id, of: client, with: refusal)
            }
            query(request, from: client, asking)
        case .prefetch(let request): prefetch(request, from: client, asking)
        // Its bytes come with it, so it is an event of its own.
        case .store: break
        // A helper has its file.
        case .removeFile: break
        case .remove(let id, let url): remove(url, id: id, from: client, asking)
        case .stats(let id): reply(.stats(id: id, asking.seesFigures ? report : report(for: asking.uid)), to: client)
        case .subscribe(let id, let events): subscribe(to: events, id: id, from: client)
        case .clear(let id, let tier, let seconds): clear(tier, olderThanSeconds: seconds, id: id, from: client)
        case .failedList(let id, let url): listRecentFailures(url, id: id, from: client)
        case .failedClear(let id, let url):
            recentFailures.removeExpired(at: now.instant)
            reply(.removed(id: id, count: recentFailures.clear(url: url?.text)), to: client)
        case .suspend(let id):
            isSuspended = true
            reply(.ok(id: id), to: client)
        case .resume(let id):
            isSuspended = false
            reply(.ok(id: id), to: client)
        case .reload(let id): ask(.reload(client, id: id), id: id, for: client, asking)
        case .upgrade(let id): ask(.upgrade(client, id: id), id: id, for: client, asking)
        case .cancelAll(let id):
            failAll(WireError(.cancelled, "An administrator has cancelled all requests."))
            reply(.ok(id: id), to: client)
        }
    }

    /// Answers a malformed message. A pending request with its id still gets its own answer.
    mutating func messageRejected(_ id: Int?, of client: ClientID, with error: WireError) {
        let isTaken = clients[client]?.refusal(ofID: id) != nil
        reject(isTaken ? nil : id, of: client, with: error)
    }

    /// Has the shell carry out a request, which an event of its own answers.
    private mutating func ask(_ action: Action, id: Int, for client: ClientID, _ asking: Clients.Client) {
        if let refusal = shutdownRefusal ?? clients.refusal(ofWeight: 1, from: asking) {
            return reject(id, of: client, with: refusal)
        }
        clients.began(id, .other, weight: 1, of: client)
        actions.append(action)
    }

    private mutating func greet(_ client: ClientID, id: Int, withPage: Bool) {
        guard withPage, limits.validitySlots > 0 else { return reply(.hello(id: id, hello), to: client) }
        clients.receivedPage(client)
        var hello = hello
        hello.slots = limits.validitySlots
        reply(.hello(id: id, hello), .page, to: client)
    }

    /// Notes hits that a client found on the validity page.
    private mutating func touch(_ buffers: [Int], hits: Int, from client: ClientID) {
        // Each once, however often it is named.
        for number in Set(buffers) {
            let buffer = BufferID(number: number)
            guard clients.holds(client, buffer) else { continue }
            memory.touch(buffer, at: now.instant)
            if disk.notesUse { for key in memory.keysWithSlot(for: buffer) { noteUse(of: key) } }
        }
        counters.add(for: clients.user(of: client)) { $0.count(mappedHits: hits) }
    }

    private mutating func cancel(_ request: Int, id: Int, from client: ClientID, _ asking: Clients.Client) {
        let error = WireError(.cancelled, "The request was cancelled.")
        switch asking.requests[request]?.kind {
        case .get(let waiter):
            if asking.detached.contains(request), let left = requests[waiter], detach(waiter) {
                reject(request, of: client, with: error, url: left.request.url)
            } else {
                leaveJobAndFail(waiter, error)
            }
        case .prefetch(let prefetch):
            abandon(prefetch, among: asking.detached)
            reject(request, of: client, with: error)
        case .other, nil:
            clients.unsubscribe(client, from: request)
            noteEvictionsForSubscribers()
        }
        reply(.ok(id: id), to: client)
    }

    /// Changes a pending request. As for `cancel`, an unknown or finished one is no error.
    private mutating func update(
        _ request: Int, id: Int, _ priority: GetOptions.Priority?, isDetached: Bool, from client: ClientID,
        _ asking: Clients.Client
    ) {
        let kind = asking.requests[request]?.kind
        let (get, prefetch) = (kind?.waiter, kind?.prefetch)
        if isDetached, let get, requests[get]?.file != nil {
            let message = "detach must be absent: request \(request) is for a file, whose descriptor is the client's."
            return reject(id, of: client, with: WireError(.badRequest, message))
        }
        if let priority {
            if let get { setPriority(priority, of: get) }
            if let prefetch {
                requests.setPriority(priority, of: prefetch)
                for waiter in requests[prefetch]?.running.sorted() ?? [] { setPriority(priority, of: waiter) }
            }
        }
        if isDetached, get != nil || prefetch != nil { clients.detach(request, of: client) }
        reply(.ok(id: id), to: client)
    }

    private static let mostDetached = 64

    /// Lets the loading of a request go on without its client, with low priority; false when too many do.
    private mutating func detach(_ id: WaiterID) -> Bool {
        // A description costs little, and of its original nothing may be kept.
        guard let waiter = requests[id], waiter.file == nil, !isDraining, waiter.request.options.delivery != .header,
            requests.detach(id, atMost: Self.mostDetached)
        else { return false }
        if waiter.purpose == .get {
            clients.ended(waiter.request.id, of: waiter.client)
            countEnd(of: waiter, .cancelled)
        }
        setPriority(.low, of: id)
        return true
    }

    private mutating func subscribe(to events: Set<BrokerEvent.Name>, id: Int, from client: ClientID) {
        if let refusal = clients.subscribe(client, to: events, id: id) {
            return reject(id, of: client, with: refusal)
        }
        noteEvictionsForSubscribers()
        reply(.ok(id: id), to: client)
    }

    private mutating func listRecentFailures(_ url: SourceURL?, id: Int, from client: ClientID) {
        // As many as fit one frame, with room to spare.
        var bytes = 0
        let entries = recentFailures.entries(at: now.instant).filter { entry in
            url.map { entry.url.hasSameBytes(as: $0.text) } ?? true
        }.prefix {
            bytes += $0.url.utf8.count * 3 + 100
            return bytes < Frame.maximumLength
        }
        let found = entries.map {
            let seconds = ($0.expires.microseconds(since: now.instant) + 999_999) / 1_000_000
            return FailedEntry(url: $0.url, code: $0.error.code, expires: now.unixMs / 1000 + seconds)
        }
        reply(.failedEntries(id: id, found), to: client)
    }

    // MARK: query, remove and clear

    mutating func query(_ request: GetRequest, from client: ClientID, _ asking: Clients.Client) {
        let waiter = Waiter(
            id: WaiterID(number: 0), client: client, uid: asking.uid, purpose: .get, request: request,
            key: OriginalKey(request, uid: asking.uid), receivedAt: now.instant)
        var (isInMemory, isFresh): (Bool, Bool?) = (false, nil)
        var placeholder: Placeholder?
        if let (_, original) = stored(for: waiter) {
            placeholder = memory.header(of: original.content)?.placeholder
            isInMemory = memory.answer(to: VariantKey(content: original.content, form: form(of: request))) != nil
            isFresh = self.isFresh(original.origin, for: request.options.headers)
        }
        guard canLookUp else {
            let status = CacheStatus(memory: isInMemory, disk: false, fresh: isFresh ?? false, placeholder: placeholder)
            return reply(.queried(id: request.id, status), to: client)
        }
        if let refusal = clients.refusal(ofWeight: request.weight, from: asking) {
            return reject(request.id, of: client, with: refusal)
        }
        let known = DiskRequest.Known(
            inMemory: isInMemory, isFresh: isFresh, headers: request.options.headers, placeholder: placeholder)
        ask(.query(began(request.id, weight: request.weight, of: client), keys: waiter.keys, known))
    }

    mutating func remove(_ url: SourceURL, id: Int, from client: ClientID, _ asking: Clients.Client) {
        if canLookUp, let refusal = clients.refusal(ofWeight: url.weight, from: asking) {
            return reject(id, of: client, with: refusal)
        }
        // An administrator removes every user's.
        let owner = asking.isAdmin ? nil : asking.uid
        let matches = { (key: OriginalKey) in
            key.nonce == 0 && key.url == url && (owner == nil || key.owner == nil || key.owner == owner)
        }
        let keys = memory.keys(at: url).filter(matches)
        for key in keys { dropRemoved(memory.remove(key)) }
        carryOut(downloads.dropKeptBodies(where: matches))
        // A lookup in flight would find the original that is being removed.
        endLookups(where: matches)
        removeShared(
            Set(keys.filter(\.isShareable).map(\.word))
                .union([OriginalKey(GetRequest(id: 0, url: url), uid: asking.uid).word]), later: false)
        guard canLookUp else { return reply(.removed(id: id, count: keys.count), to: client) }
        let requester = began(id, weight: url.weight, of: client)
        ask(.forget(requester, url: url.text, owner: owner, inMemory: Set(keys.map(\.word))))
    }

    /// Empties a tier, or takes what was unused for that long out of it, for an administrator: `messageReceived` has
    /// checked that.
    private mutating func clear(_ tier: CacheTier, olderThanSeconds: Int?, id: Int, from client: ClientID) {
        var (removed, bytes) = (0, 0)
        if tier.includesDisk, canLookUp, let asking = clients[client],
            let refusal = clients.refusal(ofWeight: 1, from: asking)
        {
            return reject(id, of: client, with: refusal)
        }
        if tier.includesMemory {
            let seconds = olderThanSeconds ?? 0
            let time = Instant(nanoseconds: now.instant.nanoseconds - Int64(seconds) * 1_000_000_000)
            let keys = seconds == 0 ? memory.keys { $0.nonce == 0 } : memory.keys(unusedSince: time)
            for key in keys where key.nonce == 0 {
                bytes += memory.bytes(of: key)
                removed += 1
                dropRemoved(memory.remove(key))
            }
            if olderThanSeconds == nil { carryOut(downloads.dropKeptBodies { _ in true }) }
        }
        guard tier.includesDisk, canLookUp else {
            return reply(.cleared(id: id, removed: removed, bytes: bytes), to: client)
        }
        endLookups()
        let requester = began(id, of: client)
        ask(.clear(requester, olderThanSeconds: olderThanSeconds, removed: removed, bytes: bytes))
    }

    /// Notes a request that waits for the disk tier.
    private mutating func began(_ id: Int, weight: Int = 1, of client: ClientID) -> DiskRequest.Requester {
        clients.began(id, .other, weight: weight, of: client)
        return (client, id)
    }

    // MARK: prefetch

    private mutating func prefetch(_ request: PrefetchRequest, from client: ClientID, _ asking: Clients.Client) {
        if let shutdownRefusal { return reject(request.id, of: client, with: shutdownRefusal) }
        var request = request
        if let refusal = expandPreset(of: &request.options, for: asking) ?? refusal(of: request.options) {
            return reject(request.id, of: client, with: refusal)
        }
        let pending = asking.prefetches.count
        if pending >= limits.maxPrefetches {
            let message = "\(pending) prefetches of this client are pending already."
            return reject(request.id, of: client, with: WireError(.quotaExceeded, message))
        }
        if let refusal = clients.refusal(ofWeight: request.weight, from: asking) {
            return reject(request.id, of: client, with: refusal)
        }
        let prefetch = Prefetch(request, of: client, uid: asking.uid)
        let id = requests.begin(prefetch)
        clients.began(request.id, .prefetch(id), weight: prefetch.weight, of: client)
        beginMore(of: id)
    }

    /// The most URLs of a prefetch that one event begins, so that it takes less than a millisecond.
    private static let prefetchesInOneEvent = 64

    /// Begins as many URLs of a prefetch as may be loaded concurrently; a later event goes on after many of them.
    mutating func beginMore(of id: PrefetchID) {
        guard requests.beginAdvancing(id) else { return }
        var begun = 0
        while let waiter = requests.beginNext(of: id, atMost: limits.prefetchesAtOnce, at: now.instant) {
            schedule(.total(waiter.id), in: waiter.request.options.totalTimeoutMs)
            advance(waiter.id)
            begun += 1
            if begun == Self.prefetchesInOneEvent {
                schedule(.prefetch(id), in: 1)
                break
            }
        }
        requests.endAdvancing(id)
        guard let prefetch = requests[id], prefetch.running.isEmpty, prefetch.remaining.isEmpty else { return }
        // An empty list has no progress of its own.
        if prefetch.total == 0 { reply(prefetch.progress, to: prefetch.client) }
        _ = end(id)
        reply(.ok(id: prefetch.request), to: prefetch.client)
    }

    /// Counts a URL of a prefetch that is loaded, or has failed, and begins the next.
    mutating func ended(_ waiter: WaiterID, of id: PrefetchID, hasFailed: Bool) {
        guard let prefetch = requests.ended(waiter, of: id, hasFailed: hasFailed) else { return }
        if !hasFailed { counters.add(for: clients.user(of: prefetch.client)) { $0.prefetched += 1 } }
        reply(prefetch.progress, to: prefetch.client)
        beginMore(of: id)
    }

    mutating func failPrefetch(_ id: PrefetchID, _ error: WireError) {
        guard let prefetch = requests[id] else { return }
        abandon(id)
        reject(prefetch.request, of: prefetch.client, with: error)
    }

    /// Ends a prefetch without a frame. If it is `among` the detached requests, the URLs that were begun are loaded.
    private mutating func abandon(_ id: PrefetchID, among detached: Set<Int> = []) {
        guard let prefetch = end(id) else { return }
        for waiter in prefetch.running.sorted() where !detached.contains(prefetch.request) || !detach(waiter) {
            abandon(waiter)
        }
    }

    private mutating func end(_ id: PrefetchID) -> Prefetch? {
        guard let prefetch = requests.end(id) else { return nil }
        clients.ended(prefetch.request, of: prefetch.client)
        return prefetch
    }

    // MARK: store

    /// Takes the bytes of a `store`, which the shell has sealed. A decode worker computes their digest, then
    /// they are decoded under a hidden key, so that no request finds them before they are accepted.
    mutating func store(_ request: StoreRequest, bytes: Int, from client: ClientID) {
        guard let asking = clients[client] else { return }
        if let refusal = asking.refusal(ofID: request.id) { return reject(nil, of: client, with: refusal) }
        if let refusal = refusal(of: request, bytes: bytes, from: asking) {
            return reject(request.id, of: client, with: refusal)
        }
        clients.began(request.id, .other, weight: request.weight, of: client)

        let buffer = bufferIDs.next()
        actions.append(.adopt(client, buffer, inBroker: Self.isKeptInBroker(bytes, pixels: request.pixels)))
        var options = GetOptions()
        options.delivery = .none
        if let pixels = request.pixels {
            // Pixels need not be decoded at all.
            options.variant.pixelFormat = pixels.pixelFormat
            if pixels.pixelFormat.hasAlpha { options.variant.alpha = pixels.alpha }
        } else {
            // A large image need not be decoded at full size to be accepted.
            options.variant.scaleDown = true
        }
        let job = jobIDs.next()
        let get = GetRequest(id: 0, url: request.url, options: options)
        let key = OriginalKey(get, uid: asking.uid).hidden(as: job.number)
        let waiter = requests.makeWaiter(.store(request), get, key: key, of: client, uid: asking.uid, at: now.instant)
        register(waiter)
        requests.wait(waiter.id, for: .downloading(job))
        let download = Download(
            DownloadKey(original: key, isForced: false), url: request.url, waiter: jobWaiter(for: waiter))
        downloads.insert(download, buffer, bytes: bytes, as: job)
        decoding.identify(job, buffer, bytes: bytes, for: download.waiters)
        evictToFit()
    }

    private func refusal(of request: StoreRequest, bytes: Int, from client: Clients.Client) -> WireError? {
        if let shutdownRefusal { return shutdownRefusal }
        if bytes == 0 { return WireError(.emptyImage, "There are no bytes.") }
        if let pixels = request.pixels {
            if let refusal = pixels.refusal(bytes: bytes) { return refusal }
            if pixels.geometry.pixels > limits.maxPixels {
                let size = "\(pixels.geometry.width) × \(pixels.geometry.height)"
                let message = "The image has \(size) pixels; --max-pixels permits \(limits.maxPixels)."
                return WireError(.tooManyPixels, message)
            }
        } else if bytes > limits.maxDownloadBytes {
            let message = "The image has \(bytes) bytes; --max-download permits \(limits.maxDownloadBytes)."
            return WireError(.tooLarge, message)
        }
        if let refusal = clients.refusal(ofWeight: request.weight, from: client)
            ?? clients.refusal(ofStoreFrom: client)
        {
            return refusal
        }
        return hasRoom(for: bytes) ? nil : WireError(.overloaded, "There is no room for the bytes at present.")
    }

    /// The response assumed for stored bytes, and for a file, which has another key once changed: a fresh one.
    func storedStatement(contentType: String?, for key: OriginalKey) -> OriginStatement {
        let response = Self.storedResponse(contentType: contentType, at: now.unixMs)
        return statement(response, for: key, varyKey: nil)
    }

    private static func storedResponse(contentType: String?, at unixMs: Int) -> ResponseRecord {
        ResponseRecord(
            requestedAt: unixMs, receivedAt: unixMs, cacheControl: "max-age=31536000", contentType: contentType)
    }

    /// Whether a response is that of stored bytes, which no origin has sent.
    static func isStored(_ response: ResponseRecord) -> Bool {
        response == storedResponse(contentType: response.contentType, at: response.receivedAt)
    }

    /// Lets requests find stored bytes that were decoded: the user's, or every user's if an administrator stored them.
    mutating func accept(_ original: OriginalFacts, _ request: StoreRequest, from waiter: Waiter) {
        let key = storedKey(for: waiter)
        guard memory.original(waiter.key) != nil, let body = body(of: original) else {
            let error = WireError(.overloaded, "The bytes have left the memory before they were decoded.")
            return rejectStored(request, error, from: waiter)
        }
        let accepted = OriginalFacts(
            content: original.content, bytes: original.bytes,
            origin: storedStatement(contentType: request.contentType, for: key))
        dropRemoved(memory.insert(accepted, for: key))
        dropRemoved(memory.remove(waiter.key))
        if request.entersDisk { save(body, as: key, accepted) } else { forgetOnDisk(key) }
        recentFailures.succeeded(key, form: form(of: waiter.request))
        guard clients.ended(request.id, of: waiter.client) else { return }
        reply(.ok(id: request.id), to: waiter.client)
    }

    /// The key under which stored bytes will be found: the user's, or every user's if an administrator stores them.
    func storedKey(for waiter: Waiter) -> OriginalKey {
        let shared = OriginalKey(waiter.request, uid: waiter.uid)
        return clients[waiter.client]?.isAdmin == true ? shared : shared.owned(by: waiter.uid)
    }

    mutating func rejectStored(_ request: StoreRequest, _ error: WireError, from waiter: Waiter) {
        dropRemoved(memory.remove(waiter.key))
        guard clients.ended(request.id, of: waiter.client) else { return }
        reject(request.id, of: waiter.client, with: error, url: waiter.request.url)
    }
}

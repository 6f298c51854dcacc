import HTTPValues
import IPCProtocol

// Originals that clients give. Nobody finds them before they are decoded: until then they are kept under a hidden key.
extension BrokerState {
    /// Takes the bytes of a `store`, which the shell has sealed.
    mutating func store(_ request: StoreRequest, bytes: Int, from client: ClientID) {
        guard let asking = clients[client] else { return }
        func refuse(_ code: ErrorCode, _ message: String) {
            reject(request.id, of: client, with: WireError(code, message))
        }
        if isPending(request.id, of: asking) {
            let message = "id \(request.id) is that of a pending request."
            return reject(nil, of: client, with: WireError(.badRequest, message))
        }
        if isDraining { return refuse(.shuttingDown, "The broker is ending.") }
        if bytes == 0 { return refuse(.emptyImage, "There are no bytes.") }
        if bytes > limits.maxDownloadBytes {
            return refuse(.tooLarge, "\(bytes) bytes are more than \(limits.maxDownloadBytes).")
        }
        if let refusal = refusal(ofWeight: 1, from: asking) { return reject(request.id, of: client, with: refusal) }
        if !index.hasRoom(for: bytes) { return refuse(.overloaded, "There is no room for the bytes at present.") }
        beginErrand(request.id, of: client)

        let buffer = newBufferID()
        actions.append(.adopt(client, buffer))
        var options = GetOptions()
        options.delivery = .none
        // Whoever gives a large picture need not have it decoded at full size.
        options.variant.scaleDown = true
        let job = newJobID()
        let get = GetRequest(id: 0, url: request.url, options: options)
        let key = OriginalKey(get, uid: asking.uid).hidden(as: job.number)
        var waiter = Waiter(
            id: newWaiterID(), client: client, uid: asking.uid, purpose: .store(request), request: get, key: key,
            receivedAt: now)
        waiter.stage = .fetching(job)
        register(waiter)
        var flight = FetchFlight(
            request: FetchKey(key: key, isForced: false), url: request.url, credentials: nil, waiters: [waiter.id],
            priority: .normal)
        flight.given = buffer
        flight.received = bytes
        index.reserve(bytes)
        fetches[job] = flight
        fetchByKey[flight.request] = job
        fetchQueue.push(job, priority: .normal, client: client)
        drop(index.evictToFit())
    }

    /// What is said of bytes that no origin has sent: they are good until something better comes.
    func statement(ofGiven request: StoreRequest, for key: OriginalKey) -> OriginStatement {
        let response = ResponseRecord(
            requestedAt: unixMs, receivedAt: unixMs, cacheControl: "max-age=31536000", contentType: request.contentType)
        return statement(response, for: key, varyKey: nil)
    }

    /// Lets everybody find what was given, who may: the user, or all when an administrator has given it.
    mutating func believe(_ original: MemoryIndex.Original, _ request: StoreRequest, from waiter: Waiter) {
        let shared = OriginalKey(waiter.request, uid: waiter.uid)
        let key = clients[waiter.client]?.isAdmin == true ? shared : shared.owned(by: waiter.uid)
        guard index.original(waiter.key) != nil,
            let body = index.buffer(VariantKey(digest: original.digest, form: .original))
        else {
            let error = WireError(.overloaded, "The bytes have left the memory before they were decoded.")
            return disbelieve(request, error, from: waiter)
        }
        let believed = MemoryIndex.Original(
            digest: original.digest, bytes: original.bytes, origin: statement(ofGiven: request, for: key))
        dropRemoved(index.insert(believed, for: key))
        dropRemoved(index.remove(waiter.key))
        keep(body, as: key, believed)
        failedList.succeeded(key, form: form(of: waiter.request))
        guard endErrand(request.id, of: waiter.client) else { return }
        reply(.ok(id: request.id), to: waiter.client)
    }

    /// Answers a `store` of what is no picture.
    mutating func disbelieve(_ request: StoreRequest, _ error: WireError, from waiter: Waiter) {
        dropRemoved(index.remove(waiter.key))
        guard endErrand(request.id, of: waiter.client) else { return }
        reject(request.id, of: waiter.client, with: error)
    }
}

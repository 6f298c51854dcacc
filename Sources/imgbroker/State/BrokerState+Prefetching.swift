import IPCProtocol

// Prefetches: many URLs behind one request, a few at a time, so that they take nobody's place.
extension BrokerState {
    mutating func prefetch(_ request: PrefetchRequest, from client: ClientID, _ asking: Client) {
        if isDraining { return reject(request.id, of: client, with: WireError(.shuttingDown, "The broker is ending.")) }
        if let refusal = refusal(of: request.options) { return reject(request.id, of: client, with: refusal) }
        if asking.prefetches.count >= limits.maxPrefetches {
            let message = "\(asking.prefetches.count) prefetches of this client are pending already."
            return reject(request.id, of: client, with: WireError(.quotaExceeded, message))
        }
        let weight = request.weight
        if let refusal = refusal(ofWeight: weight, from: asking) {
            return reject(request.id, of: client, with: refusal)
        }
        let id = newPrefetchID()
        var options = request.options
        options.delivery = .none
        options.progress = false
        options.staleFirst = false
        prefetches[id] = Prefetch(
            client: client, request: request.id, uid: asking.uid, options: options, total: request.urls.count,
            left: request.urls[...], weight: weight)
        clients[client]?.prefetches[request.id] = id
        takeWeight(weight, of: client)
        advance(id)
    }

    /// Begins as many URLs as may be loaded at once. Those that are in memory end at once.
    private mutating func advance(_ id: PrefetchID) {
        guard prefetches[id]?.isAdvancing == false else { return }
        prefetches[id]?.isAdvancing = true
        while let prefetch = prefetches[id], prefetch.running.count < limits.prefetchesAtOnce,
            let url = prefetches[id]?.left.popFirst()
        {
            let request = GetRequest(id: 0, url: url, options: prefetch.options)
            let waiter = Waiter(
                id: newWaiterID(), client: prefetch.client, uid: prefetch.uid, purpose: .prefetch(id),
                request: request, key: OriginalKey(request, uid: prefetch.uid), receivedAt: now)
            prefetches[id]?.running.insert(waiter.id)
            register(waiter)
            proceed(waiter.id)
        }
        prefetches[id]?.isAdvancing = false
        guard let prefetch = prefetches[id], prefetch.running.isEmpty, prefetch.left.isEmpty else { return }
        // An empty list has no progress of its own.
        if prefetch.total == 0 {
            reply(.prefetched(id: prefetch.request, done: 0, failed: 0, total: 0), to: prefetch.client)
        }
        end(id)
        reply(.ok(id: prefetch.request), to: prefetch.client)
    }

    /// Notes that one URL of a prefetch is loaded, or has failed.
    mutating func ended(_ waiter: WaiterID, of id: PrefetchID, hasFailed: Bool) {
        guard prefetches[id]?.running.remove(waiter) != nil else { return }
        if hasFailed { prefetches[id]?.failed += 1 } else { prefetches[id]?.done += 1 }
        if !hasFailed { counters.prefetched += 1 }
        guard let prefetch = prefetches[id] else { return }
        reply(
            .prefetched(id: prefetch.request, done: prefetch.done, failed: prefetch.failed, total: prefetch.total),
            to: prefetch.client)
        advance(id)
    }

    /// Ends a prefetch with an error.
    mutating func fail(_ id: PrefetchID, _ error: WireError) {
        guard let prefetch = prefetches[id] else { return }
        forsake(id)
        reject(prefetch.request, of: prefetch.client, with: error)
    }

    /// Ends a prefetch without a word.
    mutating func forsake(_ id: PrefetchID) {
        guard let prefetch = prefetches[id] else { return }
        end(id)
        for waiter in prefetch.running.sorted() { forsake(waiter) }
    }

    private mutating func end(_ id: PrefetchID) {
        guard let prefetch = prefetches.removeValue(forKey: id) else { return }
        clients[prefetch.client]?.prefetches[prefetch.request] = nil
        giveWeight(prefetch.weight, of: prefetch.client)
    }
}

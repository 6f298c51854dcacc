import IPCProtocol
import LinuxSystem

// Downloads: one for each original, however many ask for it.
extension BrokerState {
    /// Lets a waiter join the download of its original, or starts one.
    mutating func fetch(for id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        waiters[id]?.source = .network
        let priority = waiter.request.options.priority
        if let job = fetchByKey[waiter.key], let flight = fetches[job] {
            waiters[id]?.stage = .fetching(job)
            waiters[id]?.hasJoined = true
            fetches[job]?.waiters.append(id)
            if flight.priority < priority {
                fetches[job]?.priority = priority
                fetchQueue.change(job, to: priority)
            }
            if let startedAt = flight.startedAt {
                let patience = waiter.request.options.timeoutMs
                reminders.add(.idle(id), at: max(flight.lastActivity ?? startedAt, now).adding(milliseconds: patience))
            }
            return
        }
        let job = newJobID()
        fetches[job] = FetchFlight(
            key: waiter.key, credentials: waiter.request.options.credentials, waiters: [id], priority: priority)
        fetchByKey[waiter.key] = job
        waiters[id]?.stage = .fetching(job)
        fetchQueue.push(job, priority: priority, client: waiter.client, group: waiter.key.url.origin)
    }

    /// Hands a queued download to a worker.
    mutating func startFetch(_ job: JobID, on worker: WorkerID) {
        guard let flight = fetches[job] else { return }
        fetchPool.assign(job, to: worker)
        fetches[job]?.worker = worker
        fetches[job]?.startedAt = now
        fetches[job]?.lastActivity = now
        for waiter in flight.waiters {
            if let patience = waiters[waiter]?.request.options.timeoutMs { remind(.idle(waiter), in: patience) }
        }
        let order = FetchJob(
            id: job.number, url: flight.key.url.text, headers: flight.key.headers, credentials: flight.credentials,
            maxBytes: limits.maxDownloadBytes)
        actions.append(.startFetch(worker, order))
    }

    mutating func fetchProgressed(_ worker: WorkerID, _ job: JobID, received: Int, expected: Int?) {
        guard fetchPool.isRunning(job, on: worker), let flight = fetches[job] else { return }
        // The body is in a memfd of ours, so its bytes count.
        let received = min(max(received, flight.received), limits.maxDownloadBytes)
        index.reserve(received - flight.received)
        fetches[job]?.received = received
        fetches[job]?.expected = expected
        fetches[job]?.lastActivity = now
        drop(index.evictToFit())
        for waiter in flight.waiters { reportProgress(received, expected, to: waiter) }
    }

    mutating func fetchFinished(_ worker: WorkerID, _ job: JobID, _ result: FetchResult) {
        guard fetchPool.isRunning(job, on: worker) else { return }
        guard let digest = ContentDigest(hexadecimal: result.digest), result.bytes <= limits.maxDownloadBytes else {
            return fetchFailed(worker, job, WireError(.internal, "The download worker reported nonsense."))
        }
        guard isAllowedAddress(result.remoteAddress) else {
            let message = "\(result.remoteAddress) is not an address that may be loaded from."
            return fetchFailed(worker, job, WireError(.forbiddenAddress, message))
        }
        guard let flight = endFetch(job) else { return }
        counters.downloads += 1
        counters.bytesDownloaded += result.bytes

        let original = MemoryIndex.Original(
            digest: digest, contentType: result.response?.contentType, etag: result.response?.etag)
        dropRemoved(index.insert(original, for: flight.key))
        let body = takeBody(of: job, original, bytes: result.bytes)
        keep(body, as: flight.key, result)
        // What the disk has of this original is older than what has just come.
        for (look, other) in lookups.sorted(by: { $0.key < $1.key }) where other.request.key == flight.key {
            if let ended = endLookup(look) { goOnWithoutDisk(ended) }
        }
        serve(flight.waiters, original, from: body) { state, waiter in
            state.reportProgress(result.bytes, result.bytes, to: waiter)
        }
    }

    /// Makes what a job has brought the body of an original, unless its bytes are in memory already.
    mutating func takeBody(of job: JobID, _ original: MemoryIndex.Original, bytes: Int) -> BufferID {
        let key = VariantKey(digest: original.digest, form: .original)
        if let known = index.buffer(key) {
            actions.append(.discard(job))
            return known
        }
        let body = newBufferID()
        actions.append(.publish(job, body))
        index.insert(body, as: key, bytes: bytes)
        return body
    }

    /// Serves waiters whose original has arrived: at once where their result is known, else by decoding.
    mutating func serve(
        _ waiting: [WaiterID], _ original: MemoryIndex.Original, from body: BufferID,
        before: (inout BrokerState, WaiterID) -> Void = { _, _ in }
    ) {
        // Held, so that serving the first waiter cannot evict it before the last one is served.
        index.hold(body)
        for id in waiting {
            guard let waiter = waiters[id] else { continue }
            before(&self, id)
            let variant = VariantKey(digest: original.digest, form: form(of: waiter.request))
            if let header = index.header(of: original.digest), let buffer = index.buffer(variant) {
                deliver(buffer, size(of: buffer, header), original, header, to: waiter)
            } else {
                decode(variant, of: body, for: id)
            }
        }
        unhold(body)
        drop(index.evictToFit())
    }

    mutating func fetchFailed(_ worker: WorkerID, _ job: JobID, _ error: WireError) {
        guard fetchPool.isRunning(job, on: worker), let flight = endFetch(job) else { return }
        actions.append(.discard(job))
        for waiter in flight.waiters.compactMap({ waiters[$0] }) { deny(waiter, error) }
    }

    /// Ends a download that nobody waits for any more.
    mutating func abandonFetch(_ job: JobID) {
        guard let flight = fetches[job] else { return }
        if let worker = flight.worker {
            actions.append(.stopFetch(worker, job))
            actions.append(.discard(job))
        }
        _ = endFetch(job)
    }

    /// Puts the downloads of a worker that is gone back in the queue, or fails those that nobody should try again.
    mutating func fetchWorkerEnded(_ jobs: Set<JobID>, ownMaking: Bool) {
        for job in jobs.sorted(by: >) {
            guard var flight = fetches[job] else { continue }
            actions.append(.discard(job))
            index.unreserve(flight.received)
            flight.received = 0
            flight.worker = nil
            flight.startedAt = nil
            flight.lastActivity = nil
            if ownMaking { flight.crashes += 1 }
            fetches[job] = flight
            fetchQueue.jobEnded(inGroup: flight.key.url.origin)
            if flight.crashes < 3 {
                let client = flight.waiters.first.flatMap { waiters[$0]?.client }
                fetchQueue.push(
                    job, priority: flight.priority, client: client, group: flight.key.url.origin, atFront: true)
            } else {
                fetches[job] = nil
                fetchByKey[flight.key] = nil
                let error = WireError(.transferFailed, "The download worker crashed again and again.")
                for waiter in flight.waiters.compactMap({ waiters[$0] }) { deny(waiter, error) }
            }
        }
    }

    /// Takes a download out of the tables, queued or running.
    private mutating func endFetch(_ job: JobID) -> FetchFlight? {
        guard let flight = fetches.removeValue(forKey: job) else { return nil }
        fetchByKey[flight.key] = nil
        index.unreserve(flight.received)
        if let worker = flight.worker {
            fetchPool.unassign(job, from: worker)
            fetchPool.retireIfWorn(worker)
            fetchQueue.jobEnded(inGroup: flight.key.url.origin)
        } else {
            fetchQueue.remove(job)
        }
        return flight
    }

    /// Tells a waiter that wants to know; the first frame always says that nothing was received yet.
    mutating func reportProgress(_ received: Int, _ expected: Int?, to id: WaiterID) {
        guard let waiter = waiters[id], waiter.request.options.progress else { return }
        if !waiter.hasProgress {
            waiters[id]?.hasProgress = true
            reply(.progress(id: waiter.request.id, received: 0, expected: expected), to: waiter.client)
            if received == 0 { return }
        }
        reply(.progress(id: waiter.request.id, received: received, expected: expected), to: waiter.client)
    }
}

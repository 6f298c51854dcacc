import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Downloads: one for each original, however many ask for it.
extension BrokerState {
    /// Lets a waiter join the download of its original, or starts one; with `original`, the origin is asked whether that is
    /// still good.
    mutating func fetch(for id: WaiterID, revalidating original: MemoryIndex.Original? = nil) {
        waiters[id]?.source = .network
        guard let waiter = waiters[id] else { return }
        if let refusal = refusal(of: waiter) { return settle(id, refusal) }
        let origin = waiter.request.url.origin
        if let wait = hosts.refusal(of: origin, at: now) { return settle(id, hostUnavailable(origin, wait)) }

        let mode = waiter.request.options.cache
        let isForced = waiter.mustLoad || mode == .reload || mode == .noStore
        let priority = waiter.request.options.priority
        if let job = joinableFetch(waiter.key, isForced: isForced), let flight = fetches[job] {
            waiters[id]?.stage = .fetching(job)
            waiters[id]?.hasJoined = true
            fetches[job]?.waiters.append(id)
            if flight.priority < priority {
                setPriority(of: job, priority)
            }
            if let startedAt = flight.startedAt {
                let patience = waiter.request.options.timeoutMs
                reminders.add(.idle(id), at: max(flight.lastActivity ?? startedAt, now).adding(milliseconds: patience))
            }
            return
        }
        let request = FetchKey(key: waiter.key, isForced: isForced)
        let partial = original == nil ? takePartial(waiter.key, of: waiter.request.url) : nil
        let job = partial?.job ?? newJobID()
        var flight = FetchFlight(
            request: request, url: waiter.request.url, credentials: waiter.request.options.credentials, waiters: [id],
            priority: priority, revalidating: original)
        flight.revalidatedBody = original.flatMap { body(of: $0) }
        if let body = flight.revalidatedBody { index.hold(body) }
        // As the Fetch standard does ("HTTP-network-or-cache fetch"), so that no cache on the way answers instead.
        flight.cacheControl = isForced ? "no-cache" : mode == .noCache ? "max-age=0" : nil
        if let partial {
            flight.received = partial.received
            flight.response = partial.response
            flight.validator = partial.validator
            flight.total = partial.total
            // What is there may have been shown just now, to somebody who has left.
            flight.shown.notBefore = now.adding(milliseconds: Self.partialPauseMs)
        }
        fetches[job] = flight
        fetchByKey[request] = job
        waiters[id]?.stage = .fetching(job)
        fetchQueue.push(job, priority: priority, client: waiter.client, group: origin)
    }

    /// The download under way whose outcome a request may share: whoever wants the body itself is not served by the word
    /// that what is cached is good.
    private func joinableFetch(_ key: OriginalKey, isForced: Bool) -> JobID? {
        let forced = fetchByKey[FetchKey(key: key, isForced: true)]
        let plain = fetchByKey[FetchKey(key: key, isForced: false)]
        if isForced { return forced ?? plain.flatMap { fetches[$0]?.revalidating == nil ? $0 : nil } }
        return plain ?? forced
    }

    func hostUnavailable(_ origin: String, _ milliseconds: Int) -> WireError {
        let seconds = (milliseconds + 999) / 1000
        return WireError(
            .hostUnavailable, "\(origin) is left alone for \(seconds) s.", retryAfterMs: milliseconds)
    }

    /// Hands a queued download to a worker.
    mutating func startFetch(_ job: JobID, on worker: WorkerID) {
        guard let flight = fetches[job] else { return }
        if !flight.isGiven, let wait = hosts.admit(flight.url.origin, at: now) {
            if !flight.isSuspect { fetchQueue.jobEnded(inGroup: flight.url.origin) }
            return conclude(job, hostUnavailable(flight.url.origin, wait))
        }
        fetchPool.assign(job, to: worker, alone: flight.isSuspect)
        fetches[job]?.isAlone = flight.isSuspect
        fetches[job]?.worker = worker
        fetches[job]?.startedAt = now
        fetches[job]?.lastActivity = now
        fetches[job]?.hasResponded = false
        fetches[job]?.isBlamed = false
        if let buffer = flight.given {
            return actions.append(.identify(worker, job, buffer, bytes: flight.received))
        }
        for waiter in flight.waiters {
            if let patience = waiters[waiter]?.request.options.timeoutMs { remind(.idle(waiter), in: patience) }
        }
        let resumption = flight.resumption
        if resumption == nil {
            fetches[job]?.attempts += 1
        } else {
            fetches[job]?.resumptions += 1
            fetches[job]?.resumedFrom = flight.received
        }
        let owner = flight.key.owner
        var headers = flight.key.headers
        if let cacheControl = flight.cacheControl, !headers.contains(where: { $0.name == "cache-control" }) {
            headers.append(HeaderField(name: "cache-control", value: cacheControl))
        }
        let order = FetchJob(
            id: job.number, url: flight.url.text, headers: headers, credentials: flight.credentials,
            maxBytes: limits.maxDownloadBytes,
            conditions: resumption == nil ? flight.revalidating?.origin.response.conditions : nil,
            resumption: resumption, cookies: flight.key.cookies ? owner.flatMap { jars[$0]?.lines } ?? [] : nil,
            allowInvalidCertificates: flight.key.allowInvalidCertificates)
        actions.append(.startFetch(worker, order))
        tell(.started, of: flight)
    }

    // MARK: Ends

    /// Ends a download that nobody waits for any more. What it has brought of a body that can be continued is kept, once
    /// its worker writes no more.
    mutating func abandonFetch(_ job: JobID) {
        guard let flight = fetches[job] else { return }
        if let worker = flight.worker {
            actions.append(.stopFetch(worker, job))
            if flight.resumption != nil {
                stopping[job] = flight
                remind(.stopping(job), in: limits.stopDeadlineMs)
                fetches[job] = nil
                fetchByKey[flight.request] = nil
                if let body = flight.revalidatedBody { heldForWaiters.append(body) }
                return
            }
            actions.append(.discard(job))
        } else if !keepPartial(of: job, flight), flight.received > 0, !flight.isGiven {
            actions.append(.discard(job))
        }
        _ = endFetch(job)
    }

    /// Puts the downloads of a worker that is gone back in the queue, or fails those that nobody should try again. One
    /// that was not alone is not blamed for the worker's end, but is so from then on.
    mutating func fetchWorkerEnded(_ jobs: Set<JobID>, ownMaking: Bool) {
        for job in jobs.sorted(by: >) {
            if let flight = stopping[job] {
                stopped(job, received: flight.hasResponded ? flight.received : 0)
                continue
            }
            guard var flight = fetches[job] else { continue }
            if !flight.isGiven { hosts.abandoned(flight.url.origin) }
            // One that was to continue a body may have begun anew.
            if flight.resumption == nil || !flight.hasResponded, !flight.isGiven {
                flight.validator = nil
                actions.append(.discard(job))
                index.unreserve(flight.received)
                flight.received = 0
            }
            fetches[job] = flight
            unassign(job, flight)
            if ownMaking {
                fetches[job]?.isSuspect = true
                if jobs.count == 1 { flight.crashes += 1 }
                fetches[job]?.crashes = flight.crashes
            }
            if flight.crashes < 3 {
                requeue(job)
            } else {
                conclude(job, WireError(.transferFailed, "The download worker crashed again and again."))
            }
        }
    }

    /// Puts a download back that its worker was not told of, as if it had not been handed out.
    mutating func fetchNotBegun(_ job: JobID) {
        if let flight = stopping[job] { return stopped(job, received: flight.received) }
        guard let flight = fetches[job] else { return }
        if !flight.isGiven {
            hosts.abandoned(flight.url.origin)
            if flight.resumption == nil { fetches[job]?.attempts -= 1 } else { fetches[job]?.resumptions -= 1 }
        }
        requeue(job)
    }

    /// Puts a download that had been handed out back at the front of the queue.
    mutating func requeue(_ job: JobID) {
        guard let flight = fetches[job] else { return }
        unassign(job, flight)
        enqueue(job, atFront: true)
    }

    /// Puts a download in the line that it belongs to.
    mutating func enqueue(_ job: JobID, atFront: Bool = false) {
        guard let flight = fetches[job] else { return }
        let client = flight.waiters.first.flatMap { waiters[$0]?.client }
        if flight.isSuspect {
            return suspectQueue.push(job, priority: flight.priority, client: client, atFront: atFront)
        }
        let group = !flight.isGiven ? flight.url.origin : nil
        fetchQueue.push(job, priority: flight.priority, client: client, group: group, atFront: atFront)
    }

    /// Gives a download another priority, queued or not.
    mutating func setPriority(of job: JobID, _ priority: GetOptions.Priority) {
        fetches[job]?.priority = priority
        fetchQueue.change(job, to: priority)
        suspectQueue.change(job, to: priority)
    }

    /// Takes a running download from its worker.
    mutating func unassign(_ job: JobID, _ flight: FetchFlight) {
        guard let worker = flight.worker else { return }
        fetchPool.unassign(job, from: worker)
        fetchPool.retireIfWorn(worker)
        if !flight.isGiven, !flight.isAlone { fetchQueue.jobEnded(inGroup: flight.url.origin) }
        fetches[job]?.worker = nil
        fetches[job]?.startedAt = nil
        fetches[job]?.lastActivity = nil
    }

    /// Takes a download out of the tables, queued or running.
    mutating func endFetch(_ job: JobID) -> FetchFlight? {
        guard let flight = fetches[job] else { return nil }
        if flight.worker != nil {
            unassign(job, flight)
            if !flight.isGiven { hosts.abandoned(flight.url.origin) }
        } else {
            fetchQueue.remove(job)
            suspectQueue.remove(job)
        }
        fetches[job] = nil
        fetchByKey[flight.request] = nil
        if partials[flight.key]?.job != job { index.unreserve(flight.received) }
        if let given = flight.given { drop([given]) }
        if let body = flight.revalidatedBody { heldForWaiters.append(body) }
        return flight
    }

    /// Tells a waiter that wants to know; the first frame always says that nothing was received yet.
    mutating func reportProgress(_ received: Int, _ expected: Int?, to id: WaiterID) {
        guard let waiter = waiters[id], waiter.purpose == .get, waiter.request.options.progress else { return }
        if !waiter.hasProgress {
            waiters[id]?.hasProgress = true
            reply(.progress(id: waiter.request.id, received: 0, expected: expected), to: waiter.client)
            if received == 0 { return }
        }
        reply(.progress(id: waiter.request.id, received: received, expected: expected), to: waiter.client)
    }
}

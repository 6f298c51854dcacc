import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

// Second tries: a body that was cut short is continued, a transfer that failed is tried again, and what was begun of a
// body is kept for a while for whoever asks next.
extension BrokerState {
    /// Sees to it that a flight counts as received what its worker says is there.
    mutating func settleReceived(_ job: JobID, _ received: Int) {
        guard let flight = fetches[job], !flight.isGiven else { return }
        let received = flight.validator == nil ? 0 : min(max(received, 0), limits.maxDownloadBytes)
        index.unreserve(flight.received)
        index.reserve(received)
        fetches[job]?.received = received
    }

    /// Whether a download that has failed goes on: continued where the body was cut short, or from the start after a
    /// while, unless all who wait have given up by then.
    mutating func continues(_ job: JobID, after error: WireError, from worker: WorkerID) -> Bool {
        guard let flight = fetches[job], !flight.isGiven, !isDraining else { return false }
        let wasCutShort = error.code == .transferFailed || error.code == .timeout
        if wasCutShort, flight.resumption != nil, flight.received > flight.resumedFrom,
            flight.resumptions < limits.resumptions
        {
            requeue(job)
            return true
        }
        guard
            RetryPolicy.mayRetry(
                error, receivedBytes: flight.received, attempt: flight.attempts, limit: limits.retries)
        else { return false }
        let delay = RetryPolicy.delayMs(attempt: flight.attempts, random: anyNumber())
        let at = now.adding(milliseconds: delay)
        let deadline = flight.waiters.compactMap { id in
            waiters[id].map { $0.receivedAt.adding(milliseconds: $0.request.options.totalTimeoutMs) }
        }.max()
        guard let deadline, at < deadline, hosts.mayRetry(flight.url.origin) else { return false }
        if flight.resumption == nil {
            actions.append(.discard(job))
            index.unreserve(flight.received)
            fetches[job]?.received = 0
        } else {
            // A continuation counts once it has failed.
            fetches[job]?.attempts += 1
        }
        unassign(job, flight)
        fetches[job]?.retryAt = at
        reminders.add(.retry(job), at: at)
        return true
    }

    mutating func retryTimePassed(_ job: JobID) {
        guard let flight = fetches[job], let at = flight.retryAt, at <= now else { return }
        fetches[job]?.retryAt = nil
        if let wait = hosts.refusal(of: flight.url.origin, at: now) {
            return conclude(job, hostUnavailable(flight.url.origin, wait))
        }
        enqueue(job)
    }

    // MARK: Bodies that nobody waits for

    /// A transfer that was to be stopped has: what it has brought is kept for who asks next.
    mutating func fetchStopped(_ worker: WorkerID, _ job: JobID, received: Int) {
        guard fetchPool.isRunning(job, on: worker), stopping[job] != nil else { return }
        stopped(job, received: received)
    }

    mutating func stoppingTimePassed(_ job: JobID) {
        guard let worker = stopping[job]?.worker else { return }
        end(worker, of: \.fetchPool, .deadline, "it did not stop a transfer")
    }

    mutating func stopped(_ job: JobID, received: Int) {
        guard var flight = stopping.removeValue(forKey: job) else { return }
        index.unreserve(flight.received)
        flight.received = min(max(received, 0), limits.maxDownloadBytes)
        index.reserve(flight.received)
        unassign(job, flight)
        hosts.abandoned(flight.url.origin)
        if !keepPartial(of: job, flight) {
            actions.append(.discard(job))
            index.unreserve(flight.received)
        }
    }

    /// Keeps the beginning of a body for the next request; false when it is none, or there is no room for it. What is
    /// kept stays reserved.
    mutating func keepPartial(of job: JobID, _ flight: FetchFlight) -> Bool {
        guard let validator = flight.validator, let response = flight.response, flight.received > 0, !flight.isGiven,
            limits.maxPartials > 0,
            flight.received <= limits.maxPartialBytes, partials[flight.key] == nil, !isDraining
        else { return false }
        // What nobody may keep, or one user alone, is not kept for others, not even in parts.
        let storability = statement(response, for: flight.key, varyKey: nil).policy.storability
        guard storability == .shared || storability == .personal && flight.key.owner != nil else { return false }
        let until = now.adding(milliseconds: limits.partialMs)
        partials[flight.key] = PartialBody(
            job: job, url: flight.url, received: flight.received, response: response, validator: validator,
            total: flight.total,
            until: until)
        reminders.add(.partial(flight.key), at: until)
        while partials.count > limits.maxPartials
            || partials.values.reduce(0, { $0 + $1.received }) > limits.maxPartialBytes,
            let oldest = partials.filter({ $0.key != flight.key })
                .min(by: { ($0.value.until, $0.value.job) < ($1.value.until, $1.value.job) })?.key
        {
            dropPartials { $0 == oldest }
        }
        return true
    }

    /// What is kept of a body's beginning, which is then the taker's.
    mutating func takePartial(_ key: OriginalKey, of url: SourceURL) -> PartialBody? {
        partials[key]?.url == url ? partials.removeValue(forKey: key) : nil
    }

    mutating func dropPartials(where isMeant: (OriginalKey) -> Bool) {
        for (key, partial) in partials.sorted(by: { $0.value.job < $1.value.job }) where isMeant(key) {
            partials[key] = nil
            index.unreserve(partial.received)
            actions.append(.discard(partial.job))
        }
    }

    mutating func partialTimePassed(_ key: OriginalKey) {
        if let partial = partials[key], partial.until <= now { dropPartials { $0 == key } }
    }
}

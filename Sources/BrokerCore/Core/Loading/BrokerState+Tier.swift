import Digests
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// The shared tier: lookups before downloads and decodings, the leases under which this broker downloads for others, and
// the records that it writes for them.
extension BrokerState {
    /// The time for which others load for themselves what must not be shared, in milliseconds.
    private static let unsharedMs = 60_000
    /// How far another broker's clock may be ahead, in milliseconds.
    private static let toleratedLead = 60_000

    /// The seconds for which others may use an encoded variant: that of a compromised worker must not stay.
    private static let longestVariant = 3600

    // MARK: Lookups

    private func mayUseTier(_ waiter: Waiter) -> Bool {
        waiter.key.isShareable && !waiter.isForced && !waiter.hasDamagedRecord
            && waiter.request.options.cache != .noCache && waiter.request.options.maxAgeSeconds == nil
    }

    func asksTier(for waiter: Waiter) -> Bool {
        limits.usesSharedTier && mayUseTier(waiter) && !isDraining && supervision[.tier].available != nil
    }

    /// The key in the shared tier of a variant that a request waits for; nil for one that is not looked for there.
    func sharedKey(of variant: VariantKey, for waiter: Waiter) -> String? {
        // While nothing may be loaded, no lookup is sent, and a decoding would wait in vain.
        guard limits.sharesVariants, !isSuspended, userHasRoom(jobWaiter(for: waiter).owner.user),
            waiter.request.options.cache != .onlyIfCached,
            let original = waiter.original, isShared(original, as: waiter.key), asksTier(for: waiter)
        else { return nil }
        return Self.recordForm(of: variant).map { Self.sharedKey(of: variant, form: $0) }
    }

    /// Queues the lookup for a job that waits for it: a download, which takes a lease, or a decoding. `assignJobs`
    /// sends it.
    mutating func askTier(for job: JobID, key: String, takesLease: Bool, _ waiter: JobWaiter) {
        carryOut(
            tier.begin(
                job, key: key, takesLease: takesLease, owner: waiter.owner, priority: waiter.priority, at: now.instant))
    }

    /// The form of a variant as in records; nil for a variant that is not shared: only images that are encoded again
    /// are.
    private static func recordForm(of variant: VariantKey) -> String? {
        guard variant.form.encoding != nil, variant.content.owner == nil, variant.content.pixels == nil else {
            return nil
        }
        return variant.form.ofSound.rasterWord(of: nil)
    }

    /// The key of a variant's record: as for the disk tier, of the original's bytes and the form.
    private static func sharedKey(of variant: VariantKey, form: String) -> String {
        SHA256.digest(of: "variant \(variant.content.digest.hexadecimal) \(form)").hexadecimal
    }

    /// Whether other brokers may have an original and its variants: an origin has sent it, for all.
    private func isShared(_ original: OriginalFacts, as key: OriginalKey) -> Bool {
        key.isShareable && original.origin.policy.storability == .shared
            && !Self.isStored(original.origin.response)
    }

    /// Lets a request join a download; one that wants the origin's own answer ends the lookup in the tier.
    mutating func joined(_ job: JobID, _ waiter: Waiter, _ owner: JobOwner) {
        guard let load = tier[job] else { return }
        if mayUseTier(waiter) || load.stage == .holding {
            tier.queue.join(job, owner)
            return waitersChanged(of: job)
        }
        leaveTier(job)
        if load.isFirst { carryOut([.goOn(job, since: load.beganAt)]) }
    }

    mutating func startSharedLookup(_ job: JobID, on worker: WorkerID) {
        let lookup = jobIDs.next()
        guard let (key, token, due) = tier.start(job, as: lookup, at: now.instant) else { return }
        deadlines.add(.shared(job), at: due)
        supervision.assign(lookup, to: worker)
        actions.append(.findShared(worker, lookup, key: key, token: token))
    }

    // MARK: Answers

    mutating func sharedFound(_ worker: WorkerID, _ lookup: JobID, _ record: SharedRecord) {
        guard endLookup(lookup, on: worker) else { return }
        if let load = tier.job(of: lookup).flatMap({ tier[$0] }), !record.isUsable(as: load.key, unixMs: now.unixMs) {
            actions.append(.discard(lookup))
            return reject(lookup)
        }
        if case .variant(let raster) = record.content { return sharedVariantFound(worker, lookup, raster) }
        guard let job = tier.job(of: lookup), let load = tier[job], let download = downloads[job],
            download.body == nil, let (response, digest) = usable(record, for: download)
        else {
            actions.append(.discard(lookup))
            return carryOut(tier.answered(lookup, .nothing, at: now.instant))
        }
        takeRecord(lookup, for: job, load)
        if download.transfer != nil { tell(.finished, of: download, job) }
        let body = publishOriginal(lookup, bytes: record.bytes)
        carryOut(
            downloads.receivedShared(
                job, body, bytes: record.bytes, response, by: worker,
                (load.beganAt, digest)))
        for waiter in download.waiters { requests.setSource(.shared, of: waiter.id) }
        decoding.identify(job, body, bytes: record.bytes, for: download.waiters)
    }

    mutating func sharedUnreadable(_ worker: WorkerID, _ lookup: JobID) {
        if endLookup(lookup, on: worker) { reject(lookup) }
    }

    /// Goes on without a record that does not fit, and has it removed.
    private mutating func reject(_ lookup: JobID) {
        if let load = tier.job(of: lookup).flatMap({ tier[$0] }) { notify(.tier) { .rejectShared($0, key: load.key) } }
        carryOut(tier.answered(lookup, .nothing, at: now.instant))
    }

    /// Takes an encoded variant, in place of the result of its decoding.
    private mutating func sharedVariantFound(_ worker: WorkerID, _ lookup: JobID, _ raster: RasterRecord) {
        guard limits.sharesVariants, let job = tier.job(of: lookup), let load = tier[job], let decode = decoding[job],
            decode.run == nil, let form = Self.recordForm(of: decode.variant), raster.form == form,
            raster.original == decode.variant.content.digest.hexadecimal
        else {
            actions.append(.discard(lookup))
            return carryOut(tier.answered(lookup, .nothing, at: now.instant))
        }
        takeRecord(lookup, for: job, load)
        note(decode.variant.content, of: worker)
        for waiter in decode.waiters where requests[waiter.id]?.isLoaded == false {
            requests.setSource(.shared, of: waiter.id)
        }
        finish(job, with: raster, product: lookup)
    }

    /// The response and the stated digest of a record; nil unless it answers all requests of a download.
    private func usable(_ record: SharedRecord, for download: Download) -> (ResponseRecord, ContentDigest)? {
        guard case .original(let digest, let bytes, var response, let varyKey) = record.content,
            let digest = ContentDigest(hexadecimal: digest), bytes <= limits.maxDownloadBytes, response.status == 200,
            response.receivedAt <= now.unixMs + Self.toleratedLead,
            varyKey.hasSameBytes(as: OriginStatement.varyKey(response, of: download.headers)),
            download.waiters.allSatisfy({ requests[$0.id].map { mayUseTier($0) } ?? true })
        else { return nil }
        // A clock that is a little ahead must not make the response look older than any.
        response.receivedAt = min(response.receivedAt, now.unixMs)
        response.requestedAt = min(response.requestedAt, response.receivedAt)
        let origin = statement(response, for: download.original, varyKey: varyKey)
        let isFresh =
            origin.policy.storability == .shared && !origin.policy.alwaysRevalidate
            && !origin.isStale(at: agingNow)
        return isFresh ? (response, digest) : nil
    }

    /// Loads bytes from the origin that a record states wrongly; `imgtier` computes no digest of its own.
    mutating func sharedDamaged(_ download: Download, _ body: BufferID) {
        drop([body])
        notify(.tier) { .rejectShared($0, key: download.original.word) }
        for id in download.waiters.map(\.id) {
            requests.noteDamagedRecord(of: id)
            self.download(for: id, revalidating: download.revalidating)
        }
    }

    mutating func sharedNoted(_ worker: WorkerID, _ lookup: JobID, _ record: SharedRecord) {
        guard endLookup(lookup, on: worker) else { return }
        let seconds = (record.expires - now.unixMs + 999) / 1000
        guard let job = tier.job(of: lookup), let load = tier[job], let download = downloads[job],
            download.body == nil, download.transfer == nil, case .failure(let status) = record.content,
            record.key == load.key, seconds > 0,
            download.waiters.allSatisfy({
                requests[$0.id].map { mayUseTier($0) && !$0.request.options.retryFailed } ?? true
            })
        else { return carryOut(tier.answered(lookup, .nothing, at: now.instant)) }
        takeRecord(lookup, for: job, load)
        let error = WireError(
            .httpStatus, "\(download.url.host) answered \(status), to another broker.", httpStatus: status)
        downloadFailed(job, error, sharedSeconds: seconds)
    }

    mutating func sharedAnswered(_ worker: WorkerID, _ lookup: JobID, _ answer: SharedAnswer) {
        guard endLookup(lookup, on: worker) else { return }
        carryOut(tier.answered(lookup, answer, at: now.instant))
    }

    /// Ends the load of a job whose result is a record.
    private mutating func takeRecord(_ lookup: JobID, for job: JobID, _ load: SharedLoad) {
        if load.isFirst { noteWait(of: job, since: load.beganAt) }
        carryOut(tier.answered(lookup, .record, at: now.instant))
    }

    private mutating func noteWait(of job: JobID, since start: Instant) {
        let waiters = downloads[job]?.waiters ?? decoding[job]?.waiters ?? []
        ended(.shared, from: start, for: waiters)
    }

    private mutating func endLookup(_ lookup: JobID, on worker: WorkerID) -> Bool {
        guard supervision.isRunning(lookup, on: worker) else { return false }
        supervision.unassign(lookup, from: worker)
        return true
    }

    mutating func sharedTimePassed(_ job: JobID) {
        let download = downloads[job]
        let waiters = download?.waiters ?? decoding[job]?.waiters ?? []
        let patience = waiters.map { $0.since.adding(microseconds: $0.deadline.microseconds(since: $0.since) / 2) }
        carryOut(
            tier.timePassed(
                job, patience: patience.min(), lastByte: download?.transfer?.lastActivity ?? now.instant,
                owner: waiters.first?.owner ?? JobOwner(), priority: waiters.priority ?? .normal, at: now.instant))
    }

    // MARK: Writing

    /// Shares an original, and ends the lease under which the origin was asked; notes what must not be shared.
    mutating func share(
        _ original: OriginalFacts, as key: OriginalKey, _ body: BufferID?, for user: JobOwner.User,
        ending lease: SharedTier.Lease?
    ) {
        guard limits.usesSharedTier else { return }
        guard let remaining = sharedLifetime(of: original, as: key),
            (1...SharedRecord.largestBody).contains(original.bytes), original.content.pixels == nil
        else {
            if let lease { write(.unshared, milliseconds: Self.unsharedMs, key: lease.key, for: user, ending: lease) }
            return
        }
        guard let body, memory.original(key) != nil, memory.record(of: body) != nil else { return release(lease) }
        let content = SharedRecord.Content.original(
            digest: original.content.digest.hexadecimal, bytes: original.bytes, original.origin.response,
            varyKey: original.origin.varyKey)
        write(content, milliseconds: remaining * 1000, key: key.word, body, original.bytes, for: user, ending: lease)
    }

    /// The time in seconds for which other brokers may use an original and its variants; nil for none.
    private func sharedLifetime(of original: OriginalFacts, as key: OriginalKey) -> Int? {
        let remaining = original.origin.policy.lifetime - original.origin.age(at: agingNow)
        return isShared(original, as: key) && !original.origin.policy.alwaysRevalidate && remaining > 0
            ? remaining : nil
    }

    mutating func shareVariant(
        _ buffer: BufferID, _ variant: VariantKey, _ plan: DecodePlan, bytes: Int, for user: JobOwner.User
    ) {
        guard limits.sharesVariants, let form = Self.recordForm(of: variant),
            (1...SharedRecord.largestBody).contains(bytes)
        else { return }
        let lifetimes = memory.keys(of: variant.content).compactMap { key in
            memory.original(key).flatMap { $0.staysOffDisk ? nil : sharedLifetime(of: $0, as: key) }
        }
        guard let remaining = lifetimes.max() else { return }
        let raster = RasterRecord(
            original: variant.content.digest.hexadecimal, form: form, header: plan.header, geometry: plan.result,
            bytes: bytes)
        write(
            .variant(raster), milliseconds: min(remaining, Self.longestVariant) * 1000,
            key: Self.sharedKey(of: variant, form: form), buffer, bytes, for: user, ending: nil)
    }

    /// Shares a failure that is remembered here, and ends the lease under which the origin was asked.
    mutating func shareFailure(
        _ error: WireError, _ response: ResponseRecord?, of key: OriginalKey, for user: JobOwner.User,
        ending lease: SharedTier.Lease?
    ) {
        guard limits.usesSharedTier, key.isShareable else { return }
        let terms = response.map { FailureTerms($0) }
        guard error.code == .httpStatus, let status = error.httpStatus, (400...599).contains(status),
            let seconds = RecentFailures.lifetime(
                of: error, stated: terms?.lifetime, mayLengthen: terms?.mayLengthen ?? true), seconds > 0
        else { return release(lease) }
        let isPrivate = terms?.isPrivate == true
        write(
            isPrivate ? .unshared : .failure(status: status),
            milliseconds: isPrivate ? Self.unsharedMs : seconds * 1000, key: key.word, for: user, ending: lease)
    }

    /// Has others load an original for themselves, because its bytes are no image.
    mutating func shareNothing(of key: OriginalKey, for user: JobOwner.User) {
        guard limits.usesSharedTier, key.isShareable else { return }
        write(.unshared, milliseconds: Self.unsharedMs, key: key.word, for: user, ending: nil)
    }

    func sharedKeys(of contents: Set<ContentKey>) -> Set<String> {
        guard limits.usesSharedTier else { return [] }
        return contents.reduce(into: []) { keys, content in
            keys.formUnion(memory.keys(of: content).lazy.filter(\.isShareable).map(\.word))
            for form in memory.forms(of: content) {
                let variant = VariantKey(content: content, form: form)
                if let form = Self.recordForm(of: variant) { keys.insert(Self.sharedKey(of: variant, form: form)) }
            }
        }
    }

    /// Removes records from the shared tier: with `later`, as soon as its process can do it; otherwise only if it can
    /// now.
    mutating func removeShared(_ keys: Set<String>, later: Bool) {
        guard limits.usesSharedTier, later || supervision[.tier].available != nil else { return }
        if !tier.enqueue(removing: keys) {
            log(.warning, .worker, [], "too many shared records are to be removed; some stay until they expire")
        }
        removeFromSharedTier()
    }

    mutating func removeFromSharedTier() {
        guard tier.hasRemovals, let worker = supervision[.tier].available else { return }
        while let keys = tier.popRemovals() { actions.append(.removeShared(worker, keys: keys)) }
    }

    /// Writes a record, with the bytes of a buffer or without, and ends a lease; only the latter if no record can be
    /// written now.
    private mutating func write(
        _ content: SharedRecord.Content, milliseconds: Int, key: String, _ body: BufferID? = nil, _ bytes: Int = 0,
        for user: JobOwner.User, ending lease: SharedTier.Lease?
    ) {
        guard let worker = supervision[.tier].available, tier.mayWrite(bytes, for: user) else { return release(lease) }
        let job = jobIDs.next()
        let expires = now.unixMs + min(milliseconds, SharedRecord.longestLifetime)
        if let body { memory.hold(body, bytes: bytes) }
        tier.beginWriting(body, bytes: bytes, for: user, as: job)
        supervision.assign(job, to: worker)
        actions.append(
            .writeShared(worker, job, SharedRecord(key: key, content, expires: expires), token: lease?.token, body))
    }

    mutating func sharedWritten(_ worker: WorkerID, _ job: JobID) {
        guard supervision.isRunning(job, on: worker) else { return }
        supervision.unassign(job, from: worker)
        if let buffer = tier.written(job) { unhold(buffer) }
    }

    // MARK: Ends

    /// Ends the load of a job that has ended or goes on without the tier, and its lease.
    mutating func leaveTier(_ job: JobID) { release(tier.end(job)) }

    mutating func release(_ lease: SharedTier.Lease?) {
        if let lease { carryOut([.release(key: lease.key, token: lease.token)]) }
    }

    mutating func tierWorkerExited(_ jobs: Set<JobID>) {
        for job in jobs.sorted() { actions.append(.discard(job)) }
        let (outcomes, buffers) = tier.processExited()
        carryOut(outcomes)
        for buffer in buffers { unhold(buffer) }
        for place in sharedServers.indices { sharedServers[place].state = "ejected" }
    }

    mutating func carryOut(_ outcomes: [SharedTier.Outcome]) {
        for outcome in outcomes {
            switch outcome {
            case .goOn(let job, let start):
                noteWait(of: job, since: start)
                if !decoding.goOn(job, at: now.instant) { downloads.unpark(job, at: now.instant) }
            case .wake(let job, let at): deadlines.add(.shared(job), at: at)
            case .renew(let key, let token): notify(.tier) { .renewLease($0, key: key, token: token) }
            case .release(let key, let token): notify(.tier) { .releaseLease($0, key: key, token: token) }
            case .unresponsive:
                if let worker = supervision[.tier].available { condemn(worker, .deadline, "it did not answer") }
            }
        }
    }
}

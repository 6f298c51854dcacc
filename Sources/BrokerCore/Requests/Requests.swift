import HTTPValues
import IPCProtocol
import SystemValues

/// The unanswered requests: what each waits for and what it knows about the cached original.
///
/// A request is registered, advances through stages until it has its answer, and is taken out; its terminal frame is
/// the caller's. The decisions that depend on a request alone are members of `Waiter`. Requests for the same image meet
/// in their job: `Downloads.join`, `Decoding.join` and so on.
package struct Requests {
    private var waiters: [WaiterID: Waiter] = [:]
    private var prefetches: [PrefetchID: Prefetch] = [:]
    private(set) var gets = 0
    private var traced = 0
    private var detached: [UInt32: Int] = [:]
    private var waiterIDs = IdentifierSource<WaiterKind>()
    private var prefetchIDs = IdentifierSource<PrefetchKind>()

    var isEmpty: Bool { waiters.isEmpty }
    var count: Int { waiters.count }
    /// The number of those whose file is being looked at.
    var opening: Int { waiters.values.count { $0.stage == .opening } }
    subscript(id: WaiterID) -> Waiter? { waiters[id] }
    subscript(id: PrefetchID) -> Prefetch? { prefetches[id] }
    /// All waiters in the order of their arrival.
    var ids: [WaiterID] { waiters.keys.sorted() }
    var prefetchIDsInOrder: [PrefetchID] { prefetches.keys.sorted() }

    /// A waiter that is not registered yet.
    mutating func makeWaiter(
        _ purpose: Waiter.Purpose, _ request: GetRequest, key: OriginalKey, of client: ClientID, uid: UInt32,
        at now: Instant
    ) -> Waiter {
        Waiter(
            id: waiterIDs.next(), client: client, uid: uid, purpose: purpose, request: request, key: key,
            receivedAt: now)
    }

    mutating func register(_ waiter: Waiter) {
        if waiter.request.options.trace { traced += 1 }
        if waiter.purpose == .get { gets += 1 }
        waiters[waiter.id] = waiter
    }

    @discardableResult mutating func unregister(_ id: WaiterID) -> Bool {
        guard let waiter = waiters.removeValue(forKey: id) else { return false }
        if waiter.request.options.trace { traced -= 1 }
        if waiter.purpose == .get { gets -= 1 }
        if waiter.purpose == .detached { countDetached(of: waiter.uid, -1) }
        return true
    }

    // MARK: Changes by the client

    mutating func setPriority(_ priority: GetOptions.Priority, of id: WaiterID) {
        waiters.change(id) { $0.request.options.priority = priority }
    }

    /// Changes the priority of a prefetch. That of the waiters that it has begun is not changed.
    mutating func setPriority(_ priority: GetOptions.Priority, of id: PrefetchID) {
        prefetches.change(id) { $0.options.priority = priority }
    }

    /// Lets a waiter go on without its client, whom it answers no more; false when the user has `limit` such waiters.
    mutating func detach(_ id: WaiterID, atMost limit: Int) -> Bool {
        guard let waiter = waiters[id], detached[waiter.uid, default: 0] < limit else { return false }
        countDetached(of: waiter.uid, 1)
        if waiter.purpose == .get { gets -= 1 }
        waiters.change(id) {
            $0.purpose = .detached
            $0.request.options.delivery = .none
            $0.request.options.progress = false
            $0.request.options.progressive = false
            $0.request.options.staleFirst = false
        }
        return true
    }

    private mutating func countDetached(of uid: UInt32, _ change: Int) {
        let count = detached[uid, default: 0] + change
        detached[uid] = count == 0 ? nil : count
    }

    mutating func takeAlternative(_ id: WaiterID) -> Bool {
        waiters.change(id) { $0.takeAlternative() } ?? false
    }

    /// Whether any of them asks where its time goes.
    var areTraced: Bool { traced > 0 }

    mutating func trace(_ steps: [JobStep], until end: Instant, of id: WaiterID) {
        waiters.change(id) { $0.trace(steps, until: end) }
    }

    // MARK: Stages

    /// Takes a waiter back to `deciding`, for `advance`: a preview that is being produced is pending again.
    mutating func decideAnew(_ id: WaiterID) {
        waiters.change(id) {
            $0.stage = .deciding
            if $0.preview == .showing { $0.preview = .pending }
        }
    }

    /// Lets a waiter wait for a job, which another request had started if `joining`.
    mutating func wait(_ id: WaiterID, for stage: Waiter.Stage, joining: Bool = false) {
        waiters.change(id) {
            $0.stage = stage
            if joining { $0.isCoalesced = true }
        }
    }

    // MARK: The original

    mutating func setKey(_ key: OriginalKey, of id: WaiterID) { waiters.change(id) { $0.key = key } }
    mutating func setOriginal(_ original: OriginalFacts, of id: WaiterID) {
        waiters.change(id) { $0.original = original }
    }
    mutating func setSource(_ source: ImageReply.Source, of id: WaiterID) { waiters.change(id) { $0.source = source } }

    /// Names the contents of a waiter's file. Those of a file that was changed only recently have a key of their own
    /// and stay nowhere, because the next change may leave the file's times as they are.
    mutating func nameFile(_ facts: FileFacts, of id: WaiterID) {
        waiters.change(id) {
            $0.identity = facts.identity
            $0.request.url = facts.identity.url
            $0.key = OriginalKey($0.request, uid: $0.uid)
            $0.isLocalFile = facts.isLocal
            guard facts.isRecent, $0.request.options.cache != .onlyIfCached else { return }
            $0.key = $0.key.hidden(as: id.number)
            $0.request.options.cache = .noStore
        }
    }

    mutating func foundOnDisk(_ id: WaiterID, _ key: OriginalKey, source: ImageReply.Source) {
        waiters.change(id) {
            $0.hasQueriedDisk = true
            $0.key = key
            $0.source = source
            $0.cachedIn = source
        }
    }

    /// Notes that a lookup ended without a result; with `again`, the disk tier is to be queried once more.
    mutating func lookupEnded(_ id: WaiterID, again: Bool) {
        waiters.change(id) {
            $0.isCoalesced = false
            $0.hasQueriedDisk = !again
        }
    }

    /// Notes that the cached original is served. When its body has left the memory, the disk tier is queried again.
    mutating func serveOriginal(_ id: WaiterID, as trust: Waiter.Trust, isInMemory: Bool) {
        waiters.change(id) {
            $0.trust = trust
            if !isInMemory { $0.hasQueriedDisk = false }
            $0.source = $0.cachedIn
        }
    }

    /// Notes that the confirmed original was removed meanwhile.
    mutating func lostOriginal(_ id: WaiterID) {
        waiters.change(id) { if $0.trust != .rejected { $0.trust = .unchecked } }
    }

    /// Notes that the cached original is no answer: the waiter must load another one. Sends nothing.
    mutating func rejectOriginal(of id: WaiterID) { waiters.change(id) { $0.trust = .rejected } }

    /// Notes that the shared tier's bytes are not those that their record states.
    mutating func noteDamagedRecord(of id: WaiterID) { waiters.change(id) { $0.hasDamagedRecord = true } }

    // MARK: Previews and progress

    mutating func beginPreview(_ id: WaiterID) { waiters.change(id) { $0.preview = .showing } }
    mutating func endPreview(_ id: WaiterID) { waiters.change(id) { $0.preview = .done } }

    /// The `progress` frames for a waiter that wants them; the first one always says that 0 bytes were received.
    mutating func progress(_ received: Int, of expected: Int?, for id: WaiterID) -> [Reply] {
        guard let waiter = waiters[id], waiter.purpose == .get, waiter.request.options.progress else { return [] }
        let now = Reply.progress(id: waiter.request.id, received: received, expected: expected)
        if waiter.hasReportedProgress { return [now] }
        waiters.change(id) { $0.hasReportedProgress = true }
        let first = Reply.progress(id: waiter.request.id, received: 0, expected: expected)
        return received == 0 ? [first] : [first, now]
    }

    // MARK: Prefetches

    mutating func begin(_ prefetch: Prefetch) -> PrefetchID {
        let id = prefetchIDs.next()
        prefetches[id] = prefetch
        return id
    }

    /// Registers a waiter for the next URL of a prefetch; nil when enough are running or none remains.
    mutating func beginNext(of id: PrefetchID, atMost limit: Int, at now: Instant) -> Waiter? {
        guard let prefetch = prefetches[id], prefetch.running.count < limit,
            let url = prefetches[id]?.remaining.popFirst()
        else { return nil }
        let request = GetRequest(id: 0, url: url, options: prefetch.options)
        let waiter = makeWaiter(
            .prefetch(id), request, key: OriginalKey(request, uid: prefetch.uid), of: prefetch.client,
            uid: prefetch.uid, at: now)
        prefetches.change(id) { $0.running.insert(waiter.id) }
        register(waiter)
        return waiter
    }

    /// Marks a prefetch as being advanced; false when it is already, or is gone.
    mutating func beginAdvancing(_ id: PrefetchID) -> Bool {
        guard prefetches[id]?.isAdvancing == false else { return false }
        prefetches.change(id) { $0.isAdvancing = true }
        return true
    }

    mutating func endAdvancing(_ id: PrefetchID) { prefetches.change(id) { $0.isAdvancing = false } }

    /// Counts an ended URL of a prefetch; nil when the prefetch has ended.
    mutating func ended(_ waiter: WaiterID, of id: PrefetchID, hasFailed: Bool) -> Prefetch? {
        guard prefetches[id]?.running.remove(waiter) != nil else { return nil }
        prefetches.change(id) { if hasFailed { $0.failed += 1 } else { $0.done += 1 } }
        return prefetches[id]
    }

    mutating func end(_ id: PrefetchID) -> Prefetch? { prefetches.removeValue(forKey: id) }

    mutating func releaseMemory() {
        waiters.releaseIfEmpty()
        prefetches.releaseIfEmpty()
    }

    /// `isOwned` says whether the waiter's client knows it, and `waits` whether its job does.
    func brokenInvariant(isOwned: (Waiter) -> Bool, waits: (Waiter) -> Bool) -> String? {
        if detached.values.reduce(0, +) != waiters.values.count(where: { $0.purpose == .detached }) {
            return "the number of detached waiters"
        }
        if gets != waiters.values.count(where: { $0.purpose == .get }) { return "the number of unanswered gets" }
        for waiter in waiters.values {
            if case .prefetch(let id) = waiter.purpose, prefetches[id]?.running.contains(waiter.id) != true {
                return "a waiter without a prefetch"
            }
            if !isOwned(waiter) { return "a waiter without a client" }
            if waiter.stage == .deciding { return "a waiter without a job" }
            if !waits(waiter) { return "a waiter that its job does not know" }
        }
        for (id, prefetch) in prefetches {
            if prefetch.isAdvancing { return "a prefetch that is being advanced" }
            if prefetch.running.contains(where: { waiters[$0]?.purpose != .prefetch(id) }) {
                return "a prefetch whose waiter is gone"
            }
        }
        return nil
    }
}

/// A client's `prefetch`: a list of URLs, of which a few are loaded concurrently.
struct Prefetch {
    let client: ClientID
    let request: Int
    let uid: UInt32
    var options: GetOptions
    let total: Int
    /// The URLs that are not begun yet.
    var remaining: ArraySlice<SourceURL>
    /// Its weight among the client's requests.
    let weight: Int
    var running: Set<WaiterID> = []
    var done = 0
    var failed = 0
    /// Whether a call of `advance` is beginning URLs.
    var isAdvancing = false

    init(_ request: PrefetchRequest, of client: ClientID, uid: UInt32) {
        var options = request.options
        options.delivery = .none
        options.progress = false
        options.staleFirst = false
        (self.client, self.request, self.uid, self.options) = (client, request.id, uid, options)
        (total, remaining, weight) = (request.urls.count, request.urls[...], request.weight)
    }

    var progress: Reply { .prefetched(id: request, done: done, failed: failed, total: total) }
}

import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The disk tier as the broker sees it: lookups, requests to the cache process, and what it has said of itself.
///
/// It may be slow, full or missing; then a lookup finds nothing, and everything else goes on. The caller says whether
/// the cache process is usable (`Supervision`).
package struct DiskTier {
    var limits: BrokerLimits
    private var lookups: [JobID: Lookup] = [:]
    private var lookupByKey: [LookupKey: JobID] = [:]
    var lookupQueue = JobQueue()
    private var running: [JobID: DiskRequest] = [:]
    private var savingBytes = 0
    /// Requests that wait for a cache process.
    private var queued: [JobID: DiskRequest] = [:]
    /// The cache processes that died by their own making with a request that is asked again.
    private var crashes: [JobID: Int] = [:]
    /// The originals that are postponed: to be saved when the cache process has less to save.
    private var unsaved: ArraySlice<OriginalKey> = []
    /// Originals used by way of memory since the disk tier was last told.
    private(set) var used: Set<OriginalKey> = []
    /// The digests of the keys of users' own originals that the disk tier is known not to have.
    private var missingOwned: Set<ContentDigest> = []
    /// The originals that may be on disk.
    private var known = KnownOriginals()
    /// Lookups and requests in a row that were not answered in time.
    private var missedAnswers = 0
    /// The latest report of the cache process about itself.
    private(set) var report = DiskReport(state: .off)

    init(limits: BrokerLimits) { self.limits = limits }

    // MARK: Lookups

    subscript(job: JobID) -> Lookup? { lookups[job] }

    /// Whether the disk tier may have an original of the user's own, which is preferred to the shared one.
    func mayHave(owned key: OriginalKey) -> Bool { report.mayHaveOwned && !missingOwned.contains(key.digest) }

    func lacks(_ keys: [OriginalKey]) -> Bool { known.isComplete && !keys.contains(where: known.mayContain) }

    mutating func originalsKnown(_ hashes: [UInt64], isComplete: Bool) { known.report(hashes, isComplete: isComplete) }

    mutating func join(_ key: LookupKey, _ waiter: JobWaiter, mayStay: Bool) -> JobID? {
        guard let job = lookupByKey[key] else { return nil }
        lookups.change(job) {
            $0.waiters.append(waiter)
            $0.mayStay = $0.mayStay || mayStay
        }
        lookupQueue.join(job, waiter.owner)
        updatePriority(of: job)
        return job
    }

    mutating func enqueue(_ key: LookupKey, keys: [OriginalKey], _ waiter: JobWaiter, mayStay: Bool, as job: JobID) {
        lookups[job] = Lookup(key: key, keys: keys, waiters: [waiter], mayStay: mayStay)
        lookupByKey[key] = job
        lookupQueue.push(job, priority: waiter.priority, owner: waiter.owner)
    }

    mutating func setPriority(_ priority: GetOptions.Priority, of waiter: WaiterID, in job: JobID) {
        lookups.change(job) { $0.waiters.setPriority(priority, of: waiter) }
        updatePriority(of: job)
    }

    /// Gives a lookup the highest priority of its waiters.
    private mutating func updatePriority(of job: JobID) {
        if let highest = lookups[job]?.waiters.priority { lookupQueue.change(job, to: highest) }
    }

    /// Whether memory cannot know which original a lookup will find, because the user may have an own one on disk.
    func isAmbiguous(_ lookup: Lookup) -> Bool { lookup.keys.count > 1 && mayHave(owned: lookup.keys[0]) }

    /// Starts a lookup, with `isForRaster` for a raster only, with `isForOwn` for the user's own original only.
    mutating func start(
        lookup job: JobID, on worker: WorkerID, isForRaster: Bool, isForOwn: Bool, rasterWord: String?,
        at now: Instant
    ) {
        lookups.change(job) {
            $0.worker = worker
            $0.startedAt = now
            $0.rasterWord = rasterWord
            $0.isForRaster = isForRaster
            $0.isForOwn = isForOwn
        }
    }

    /// Takes a lookup out, queued or running.
    mutating func end(lookup job: JobID) -> Lookup? {
        guard let lookup = lookups.removeValue(forKey: job) else { return nil }
        if lookupByKey[lookup.key] == job { lookupByKey[lookup.key] = nil }
        if lookup.worker == nil { lookupQueue.remove(job) }
        return lookup
    }

    /// Takes a waiter out of a lookup; returns the lookup if it has ended with it.
    mutating func leave(lookup job: JobID, _ waiter: WaiterID) -> Lookup? {
        lookups.change(job) { $0.waiters.remove(waiter) }
        updatePriority(of: job)
        return lookups[job]?.waiters.isEmpty == true ? end(lookup: job) : nil
    }

    func lookups(where matches: (OriginalKey) -> Bool = { _ in true }) -> [JobID] {
        lookups.filter { $0.value.keys.contains(where: matches) }.keys.sorted()
    }

    /// Remembers that the user has no own original on disk, if `key` says so. As `noteMissing`.
    mutating func noteMissingOwned(_ lookup: Lookup, found key: OriginalKey?) -> Bool {
        guard lookup.keys.count > 1, key != lookup.keys[0] else { return false }
        return noteMissing(owned: lookup.keys[0])
    }

    /// Remembers that this original is not on disk. Returns whether all others were forgotten for want of room.
    mutating func noteMissing(owned key: OriginalKey) -> Bool {
        guard report.mayHaveOwned else { return false }
        let isFull = missingOwned.count >= limits.memoryEntries
        if isFull { missingOwned = [] }
        missingOwned.insert(key.digest)
        return isFull
    }

    // MARK: Saving

    func maySave(_ bytes: Int) -> Bool {
        guard report.state != .locked, report.state != .off else { return false }
        return savingBytes + bytes <= limits.maxSavingBytes
    }

    mutating func beginSaving(_ buffer: BufferID, bytes: Int, as key: OriginalKey?, job: JobID) {
        if let key {
            known.insert(key)
            if key.owner != nil { missingOwned.remove(key.digest) }
        }
        setRunning(.save(buffer, bytes: bytes, as: key), job)
    }

    /// Sets the request that runs as `job`, or takes it out, and returns the one that was there.
    @discardableResult
    private mutating func setRunning(_ request: DiskRequest?, _ job: JobID) -> DiskRequest? {
        let old = exchange(&running[job], with: request)
        savingBytes += (request?.bytesToSave ?? 0) - (old?.bytesToSave ?? 0)
        return old
    }

    /// The most originals that are remembered to be saved later: their keys may be long.
    private static let maximumUnsaved = 4096

    mutating func postpone(_ key: OriginalKey) {
        if unsaved.count < Self.maximumUnsaved { unsaved.append(key) }
    }

    var nextUnsaved: OriginalKey? { unsaved.first }
    mutating func dropNextUnsaved() { unsaved.removeFirst() }

    /// Whether a buffer is being saved.
    func needs(_ buffer: BufferID) -> Bool {
        running.values.contains { if case .save(buffer, _, _) = $0 { true } else { false } }
    }

    // MARK: Requests

    /// Queues a request. Returns it instead if too many wait: then it is answered without the disk tier.
    mutating func enqueue(_ request: DiskRequest, as job: JobID) -> DiskRequest? {
        if queued.count >= limits.maxPendingRequests, !request.isDue { return request }
        guard case .discard(let digests) = request else {
            queued[job] = request
            return nil
        }
        let (other, earlier) = queuedDiscard ?? (job, digests: [])
        queued[other] = nil
        queued[job] = .discarding(Set(earlier).union(digests))
        return nil
    }

    /// The queued order to discard, with which later ones are merged, so that they are not many.
    private var queuedDiscard: (JobID, digests: [String])? {
        queued.lazy.compactMap { job, request in
            if case .discard(let digests) = request { (job, digests) } else { nil }
        }.first
    }

    /// The time that a request may take, in milliseconds. Emptying a large cache takes longer.
    func patienceMs(for request: DiskRequest) -> Int {
        if case .clear = request { limits.clearDeadlineMs } else { limits.lookupDeadlineMs }
    }

    var hasQueued: Bool { !queued.isEmpty }

    mutating func startNext() -> (job: JobID, request: DiskRequest)? {
        guard let job = queued.keys.min(), let request = queued.removeValue(forKey: job) else { return nil }
        setRunning(request, job)
        return (job, request)
    }

    /// Takes the request that the cache process has answered, and resets the count of missed answers.
    mutating func answered(_ job: JobID) -> DiskRequest? {
        missedAnswers = 0
        return setRunning(nil, job)
    }

    /// Resets the count of missed answers, because the cache process has answered a lookup, which `end(lookup:)` takes
    /// out.
    mutating func lookupAnswered() { missedAnswers = 0 }

    /// Takes the client from a request that was not answered in time, and returns the request, so that the caller
    /// answers the client. The disk tier still carries the request out, unless it is a queued query. `isMissed` says
    /// whether the cache process had received the request, and so has missed an answer. Returns nil when the request
    /// has ended.
    mutating func requestTimedOut(_ job: JobID) -> (request: DiskRequest, isMissed: Bool)? {
        if let request = running[job] {
            setRunning(request.withoutRequester, job)
            return (request, true)
        }
        guard let request = queued[job] else { return nil }
        if case .query = request { queued[job] = nil } else { queued[job] = request.withoutRequester }
        return (request, false)
    }

    /// Counts an answer that the cache process has missed. Returns whether the process is to be replaced, because it
    /// has missed three in a row: it or its disk hangs. With `canReplace` false it is not, and the count goes on.
    mutating func countMissedAnswer(canReplace: Bool) -> Bool {
        missedAnswers += 1
        guard missedAnswers >= Self.toleratedMisses, canReplace else { return false }
        missedAnswers = 0
        return true
    }

    private static let toleratedMisses = 3

    // MARK: Use

    /// Whether uses are worth noting: a disk tier exists, and little enough was noted since it was last told.
    var notesUse: Bool { limits.usesDisk && used.count < Self.maximumUsed }

    /// Notes a use by way of memory. Returns whether it is the first since `takeUsed`.
    mutating func noteUse(of key: OriginalKey) -> Bool {
        let isFirst = used.isEmpty
        used.insert(key)
        return isFirst
    }

    mutating func takeUsed() -> [String] { exchange(&used, with: []).map(\.word).sorted() }

    private static let maximumUsed = 1000

    // MARK: The process

    /// Takes what the cache process says of itself; returns whether that is news.
    mutating func reported(_ new: DiskReport) -> Bool {
        defer { report = new }
        return (new.state, new.reason) != (report.state, report.reason)
    }

    mutating func processExited() {
        unsaved = []
        known = KnownOriginals()
        // A reason that the next process gives as well is not logged again.
        report = DiskReport(state: .off, reason: report.state == .off ? report.reason : nil)
    }

    /// Takes back the request of a process that exited: it is asked again, but not of a third process after two died of
    /// it. The broker's own orders are never given up: the tier is emptied instead, which takes many short steps.
    /// Returns one that is not asked again.
    mutating func lost(_ job: JobID, ownMaking: Bool) -> DiskRequest? {
        guard let request = setRunning(nil, job) else { return nil }
        if case .save = request { return request }
        if ownMaking { crashes[job, default: 0] += 1 }
        let isFatal = crashes[job, default: 0] >= 2
        if isFatal, !request.isDue { return request }
        if isFatal, case .discard = request {
            queued[job] = .emptying
        } else {
            queued[job] = request
        }
        return nil
    }

    mutating func forgetCrashes() { crashes = crashes.filter { queued[$0.key] != nil } }

    // MARK: Invariants

    /// Whether a request, other than a lookup, is queued or running.
    func contains(request job: JobID) -> Bool { running[job] != nil || queued[job] != nil }
    var isIdle: Bool { running.isEmpty && queued.isEmpty }
    /// The number of jobs that run on the cache process.
    var runningJobs: Int { running.count + lookups.values.count { $0.worker != nil } }
    /// The buffers that are being saved, once for each request.
    var buffersBeingSaved: [BufferID] {
        running.values.compactMap { if case .save(let buffer, _, _) = $0 { buffer } else { nil } }
    }

    func brokenInvariant() -> String? {
        if lookups.values.contains(where: \.waiters.isEmpty) { return "a lookup without waiters" }
        if lookupByKey.count != lookups.count || lookupByKey.contains(where: { lookups[$1]?.key != $0 }) {
            return "two lookups of one key"
        }
        if lookupQueue.count != lookups.values.count(where: { $0.worker == nil }) { return "queue of lookups" }
        if lookups.contains(where: { $0.value.worker == nil && !lookupQueue.contains($0.key) }) {
            return "queue of lookups"
        }
        if let broken = lookupQueue.brokenInvariant() { return "queue of lookups: \(broken)" }
        if queued.values.contains(where: { $0.bytesToSave > 0 }) { return "a queued request to save" }
        if savingBytes != running.values.reduce(0, { $0 + $1.bytesToSave }) { return "bytes to save" }
        return nil
    }
}

/// A lookup in the disk tier: queued, or running on the cache process.
struct Lookup {
    let key: LookupKey
    /// The keys that are looked for, in order of preference.
    let keys: [OriginalKey]
    var waiters: JobWaiters
    /// The cache process that runs it; nil while it is queued.
    var worker: WorkerID?
    var startedAt: Instant?
    /// Whether a waiter lets the result stay in memory.
    var mayStay: Bool
    /// Whether the original is in memory, so that only a raster is looked for.
    var isForRaster = false
    /// Whether memory answers without the user's own original, so that only that is looked for.
    var isForOwn = false
    /// The form of the raster that it looks for, once it has started; nil for none.
    var rasterWord: String?
}

struct LookupKey: Hashable {
    let original: OriginalKey
    /// The requesting user, whose own original is preferred to the shared one.
    let uid: UInt32
    let form: Form
}

/// A request to the cache process, lookups aside.
enum DiskRequest {
    /// Saves a buffer, held until then: an original's bytes, or a raster when `as` is nil.
    case save(BufferID, bytes: Int, as: OriginalKey?)
    /// Forgets a URL. The client, if one has asked, is told the number of originals, those in memory included.
    case forget(Requester?, url: String, owner: UInt32?, inMemory: Set<String>)
    /// Asks whether an original is cached.
    case query(Requester?, keys: [OriginalKey], Known)
    /// Removes everything that was made of bytes with these digests.
    case discard(digests: [String])
    /// Empties the tier. The counts are those of memory.
    case clear(Requester?, olderThanSeconds: Int?, removed: Int, bytes: Int)

    /// The facts of a queried original that memory has.
    struct Known {
        let inMemory: Bool
        /// Nil when memory has no such original.
        let isFresh: Bool?
        let headers: [HeaderField]
        let placeholder: Placeholder?
    }

    /// The client that is to be answered, and its request's id.
    typealias Requester = (client: ClientID, id: Int)

    var bytesToSave: Int { if case .save(_, let bytes, _) = self { bytes } else { 0 } }

    /// Whether it must be carried out even when many wait: it is the broker's own, and rare.
    var isDue: Bool {
        switch self {
        case .discard, .clear(nil, _, _, _): true
        case .save, .forget, .query, .clear: false
        }
    }

    /// The most digests that one order names; it is to be shorter than a frame.
    private static let mostDigests = 4096

    /// The order to discard everything made of bytes with these digests; with too many of them, the order to empty the
    /// tier.
    static func discarding(_ digests: Set<String>) -> DiskRequest {
        digests.count > mostDigests ? .emptying : .discard(digests: digests.sorted())
    }

    /// The broker's own order to empty the tier.
    static var emptying: DiskRequest { .clear(nil, olderThanSeconds: nil, removed: 0, bytes: 0) }

    /// The same request after its client was answered.
    var withoutRequester: DiskRequest {
        switch self {
        case .save, .discard: self
        case .forget(_, let url, let owner, let inMemory): .forget(nil, url: url, owner: owner, inMemory: inMemory)
        case .query(_, let keys, let known): .query(nil, keys: keys, known)
        case .clear(_, let seconds, let removed, let bytes):
            .clear(nil, olderThanSeconds: seconds, removed: removed, bytes: bytes)
        }
    }
}

/// Hashes of the keys of all originals that the disk tier may have, so that a certain miss needs no lookup.
///
/// The cache process reports its originals after its start; the broker adds those saved later. Nothing is ever removed:
/// a hash whose original was evicted or removed costs one lookup. Until the process has reported everything, and beyond
/// `maximum`, nothing is certain. `KeyHash.most` of them take about 16 MB.
struct KnownOriginals {
    private let maximum: Int
    // Many small sets, because a large one stops the event loop for tens of milliseconds when it grows.
    private var parts = [Set<UInt64>](repeating: [], count: 256)
    private(set) var count = 0
    /// Whether all keys have been reported.
    private var isReported = false
    /// Whether there were more than `maximum`.
    private var isOverflown = false

    init(maximum: Int = KeyHash.most) { self.maximum = maximum }

    /// Whether a key that is not held is certainly not on disk.
    var isComplete: Bool { isReported && !isOverflown }

    /// Takes hashes of keys that the cache process has. A report that is not the last withdraws an earlier last.
    mutating func report(_ hashes: [UInt64], isComplete: Bool) {
        isReported = isComplete
        for hash in hashes { insert(hash) }
    }

    /// Notes that an original with this key is about to be saved.
    mutating func insert(_ key: OriginalKey) { insert(Self.hash(of: key)) }

    private mutating func insert(_ hash: UInt64) {
        guard !isOverflown else { return }
        let part = Int(hash >> 56)
        if parts[part].insert(hash).inserted { count += 1 }
        guard count > maximum else { return }
        isOverflown = true
        parts = [Set<UInt64>](repeating: [], count: parts.count)
        count = 0
    }

    /// Whether an original with this key may be on disk.
    func mayContain(_ key: OriginalKey) -> Bool {
        if !isComplete { return true }
        let hash = Self.hash(of: key)
        return parts[Int(hash >> 56)].contains(hash)
    }

    /// `KeyHash.hash` of the key's word.
    private static func hash(of key: OriginalKey) -> UInt64 { key.digest.words[0] }
}

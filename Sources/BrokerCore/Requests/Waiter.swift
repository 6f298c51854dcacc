import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

/// A part of a job that has ended.
typealias JobStep = (name: StatsReport.Distribution, startedAt: Instant, microseconds: Int)

/// An unanswered request for an original: a client's `get`, or one that the broker makes itself.
struct Waiter {
    /// Why the original is wanted.
    enum Purpose: Equatable {
        /// A client's `get`.
        case get
        /// A client's `prefetch`.
        case prefetch(PrefetchID)
        /// The broker refreshes a stale original that it has answered with.
        case refresh
        /// The rest of a client's detached `get` or `prefetch`, whose client is gone.
        case detached
        /// A client's `store`: its bytes are decoded before they are accepted.
        case store(StoreRequest)
    }

    /// The job that it waits for, or that has just ended.
    enum Stage: Equatable {
        /// None: `advance` decides what comes next. → any other.
        case deciding
        /// A helper that looks at the file. → `deciding`.
        case opening
        /// A file that is read. → `deciding` (failed), `downloading` (read, its bytes are identified).
        case reading(JobID)
        /// A lookup in the disk tier. → `deciding`.
        case lookingUp(JobID)
        /// A download. → `deciding` (confirmed, failed), `decoding` (received).
        case downloading(JobID)
        /// A decoding. → `deciding` (the image was bad and is loaded anew).
        case decoding(JobID)
    }

    var decoding: JobID? { if case .decoding(let job) = stage { job } else { nil } }

    /// Its knowledge about the cached original.
    enum Trust: Equatable {
        /// Nothing: the cache mode and the original's age decide. → any other.
        case unchecked
        /// The origin failed, and the stale original may be served. → `unchecked`, `rejected`.
        case staleAllowed
        /// The origin has confirmed it just now. → `unchecked`, `rejected`.
        case confirmed
        /// It is no answer: it was no image, or its bytes are gone. Final.
        case rejected
    }

    /// A preview is the cached image, sent ahead of the answer (`staleFirst`).
    enum Preview: Equatable {
        /// → `showing`.
        case pending
        /// It is being produced. → `done`, `pending`.
        case showing
        case done
    }

    let id: WaiterID
    /// The client. A refresh has that of the request that was answered with the stale original: its jobs are queued
    /// with that client's, but it is not told of them, and they go on when it disconnects.
    let client: ClientID
    let uid: UInt32
    /// The program of a client's `get`, if it is counted by itself.
    var program: StatsReport.Program?
    /// Changes to `detached` only.
    var purpose: Purpose
    var request: GetRequest
    /// The weight of the request, as received, among its client's.
    let weight: Int
    /// The local file that is requested.
    var file: FileID?
    /// Its identity, once it is known.
    var identity: FileIdentity?
    var isLocalFile = false
    /// The original; the user's own, once one is known to exist.
    var key: OriginalKey
    let receivedAt: Instant
    var stage = Stage.deciding
    /// Where the answer's bytes come from.
    var source = ImageReply.Source.memory
    /// Where the cached original was found.
    var cachedIn = ImageReply.Source.memory
    /// The original, once it is known.
    var original: OriginalFacts?
    var trust = Trust.unchecked
    /// Whether the shared tier had other bytes than their record states, so that it is not asked again.
    var hasDamagedRecord = false
    var preview = Preview.pending
    /// Whether it joined a job that another request had started.
    var isCoalesced = false
    var hasReportedProgress = false
    var hasQueriedDisk = false
    /// Where its time went, if it asks for that, and until when that is known.
    var trace: [TraceSpan] = []
    var tracedUntil: Instant

    init(
        id: WaiterID, client: ClientID, uid: UInt32, purpose: Purpose, request: GetRequest, key: OriginalKey,
        receivedAt: Instant
    ) {
        (self.id, self.client, self.uid, self.purpose) = (id, client, uid, purpose)
        (self.request, self.key, self.receivedAt, tracedUntil) = (request, key, receivedAt, receivedAt)
        weight = request.weight
    }

    func jobWaiter(isAdmin: Bool, since now: Instant) -> JobWaiter {
        let options = request.options
        return JobWaiter(
            id: id, client: client, uid: uid, priority: options.priority, silenceMs: options.timeoutMs,
            deadline: receivedAt.adding(milliseconds: options.totalTimeoutMs), isAdmin: isAdmin,
            retries: options.retries, isPatient: options.retries != 0 && options.alternatives.isEmpty, since: now)
    }

    /// Goes on with the next alternative URL; false without one. Another origin's has no personal headers.
    mutating func takeAlternative() -> Bool {
        guard let next = request.options.alternatives.first else { return false }
        if next.origin != request.url.origin {
            request.options.credentials = nil
            request.options.headers.removeAll { RequestHeaders.personal.contains($0.name) }
        }
        request.options.alternatives.removeFirst()
        request.url = next
        key = OriginalKey(request, uid: uid)
        (stage, source, cachedIn, trust) = (.deciding, .memory, .memory, .unchecked)
        (original, hasDamagedRecord, isCoalesced, hasQueriedDisk) = (nil, false, false, false)
        return true
    }

    /// Whether the answer's bytes were loaded for it, or for a request that it joined.
    var isLoaded: Bool { source == .network || source == .file }
    /// Whether the user has given the bytes, and no origin.
    var bringsBytes: Bool {
        if case .store = purpose { return true }
        return file != nil
    }
    /// Those that the image's cost in decoders is charged to. `servedBy` is the URL that sent the bytes, if an origin
    /// did.
    func responsible(servedBy: String?) -> Responsible {
        Responsible(
            user: uid,
            sources: bringsBytes
                ? ["user \(uid)"] : Download.responsibleOrigins(asked: request.url.origin, servedBy: servedBy))
    }
    var title: String { request.file.map { $0.name ?? "The file" } ?? request.url.host }

    /// Whether the answer may have a validity slot although it was not in memory: it is of an unchanged file.
    var isOfKeptFile: Bool {
        let options = request.options
        return isLocalFile && key.nonce == 0 && options.cache == .default && mayEnterMemory && !options.retryFailed
            && !options.trace
    }

    /// Whether it wants nothing but a description without metadata blocks.
    var readsHeaderOnly: Bool {
        purpose == .get && request.options.delivery == .header && request.options.metadata.isEmpty
    }

    var mayEnterMemory: Bool { request.options.cache != .noStore && request.options.storage.includesMemory }
    var mayEnterDisk: Bool { request.options.cache != .noStore && request.options.storage.includesDisk }

    /// Whether it wants the body itself: a confirmation of the cached original is no answer.
    var isForced: Bool { trust == .rejected || [.reload, .noStore].contains(request.options.cache) }

    /// The keys under which its original may be found, in order of preference.
    var keys: [OriginalKey] { key.owner == nil && file == nil ? [key.owned(by: uid), key] : [key] }

    func decision(about original: OriginalFacts, at now: Instant) -> CacheDecision {
        switch trust {
        case .staleAllowed, .confirmed: return .use(isStale: false)
        case .rejected: return .load
        case .unchecked: break
        }
        let mode = request.options.cache
        guard original.origin.matches(request.options.headers) else {
            return CacheDecision.decide(mode: mode, stored: nil)
        }
        return CacheDecision.decide(
            mode: mode, stored: (original.origin.policy, original.origin.age(at: now)),
            maximumAge: request.options.maxAgeSeconds)
    }

    /// Whether a failure may be answered with the stale original (RFC 5861, section 4).
    func mayServeStale(_ original: OriginalFacts, after error: WireError, at now: Instant) -> Bool {
        // A failure remembered from before counts as the failure that it was.
        var reason = error
        if error.code == .recentlyFailed, let cause = error.cause { reason.code = cause }
        if let most = request.options.maxAgeSeconds, original.origin.age(at: now) > most { return false }
        return original.origin.policy.mayServeStale(atAge: original.origin.age(at: now), after: reason)
    }

    /// The error for a request that must not ask the origin.
    var notCached: WireError { WireError(.notCached, "\(file == nil ? request.url.text : title) is not cached.") }

    /// The description of an image, before its bytes are attached.
    func reply(for header: ImageHeader, as geometry: PixelGeometry, bytes: Int) -> ImageReply {
        let options = request.options
        let encoded = options.delivery == .header ? nil : options.representation.format?.imageFormat
        var image = ImageReply(
            source: source, url: file == nil ? request.url.text : nil, width: geometry.width, height: geometry.height,
            pixels: nil,
            bytes: bytes,
            contentType: (encoded ?? header.format).contentType,
            originalWidth: header.geometry.width, originalHeight: header.geometry.height,
            frameCount: header.frameCount, etag: nil)
        if options.delivery != .header, options.representation == .pixels {
            let format = options.variant.pixelFormat
            image.pixels = ImageReply.Pixels(
                stride: geometry.stride(in: format), pixelFormat: format,
                alpha: format.hasAlpha ? options.variant.alpha : .opaque)
        }
        return image
    }

    /// The full description of a variant of `original`.
    func reply(
        for header: ImageHeader, as geometry: PixelGeometry, bytes: Int, _ origin: OriginStatement, originalBytes: Int,
        at now: Instant
    ) -> ImageReply {
        var image = reply(for: header, as: geometry, bytes: bytes)
        image.final = preview != .showing
        image.placeholder = header.placeholder
        let frames = request.options.variant.frames
        if image.pixels != nil, frames.hasTiming { image.timing = header.timing?.part(frames) }
        if request.options.delivery == .header, var facts = header.facts {
            image.metadata = facts.metadata
            facts.metadata = MetadataLengths()
            image.description = ImageReply.Description(format: header.format, facts: facts)
            image.description?.length = originalBytes
        }
        // A file has no origin.
        if file != nil { return image }
        image.description?.status = origin.response.status
        image.description?.lastModified = origin.response.lastModified
        image.etag = origin.response.etag
        image.expires = origin.policy.expires
        // A response received or confirmed just now is as fresh as it gets, however short its lifetime.
        image.stale = !isLoaded && trust != .confirmed && origin.isStale(at: now)
        return image
    }

    func partialTransform(scaleDownLimit: Int) -> Transform? {
        let options = request.options
        guard purpose == .get, options.progressive, options.representation == .pixels, options.delivery != .none,
            options.delivery != .header, [.one(0), .all].contains(options.variant.frames)
        else { return nil }
        var transform = options.variant.transform(scaleDownLimit: scaleDownLimit)
        // Animations have no partial images.
        transform.frames = .one(0)
        return Transform(transform, preview: false, metadata: [])
    }

    // MARK: Traces

    /// Adds the parts of a job that has ended at `end`, and the time before its start as waiting.
    mutating func trace(_ steps: [JobStep], until end: Instant) {
        guard request.options.trace, trace.count + steps.count + 2 <= TraceSpan.most else { return }
        if let start = steps.first?.startedAt, tracedUntil < start {
            add(.queue, from: tracedUntil, start.microseconds(since: tracedUntil))
        }
        for step in steps { add(step.name, from: step.startedAt, step.microseconds) }
        tracedUntil = max(tracedUntil, end)
    }

    private mutating func add(_ name: StatsReport.Distribution, from start: Instant, _ microseconds: Int) {
        let longest = TraceSpan.longest
        trace.append(
            TraceSpan(
                name.rawValue, start: min(max(start.microseconds(since: receivedAt), -longest), longest),
                microseconds: min(max(microseconds, 0), longest)))
    }

    /// The spans for the reply that is made now; the shell adds how long that takes. Empty unless asked for.
    func spans(at now: Instant) -> [TraceSpan] {
        guard request.options.trace else { return [] }
        var waiter = self
        if tracedUntil < now { waiter.add(.queue, from: tracedUntil, now.microseconds(since: tracedUntil)) }
        waiter.add(.reply, from: now, 0)
        return waiter.trace
    }
}

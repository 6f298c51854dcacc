import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// The lifecycle of a request: `advance` decides its next step until it is delivered, fails, or is abandoned. Each has
// exactly one of these ends.
extension BrokerState {
    // MARK: get

    mutating func get(_ request: GetRequest, from client: ClientID, _ asking: Clients.Client, file: FileID? = nil) {
        counters.add(for: asking.uid) { $0.requests += 1 }
        var request = request
        let misnamed = expandPreset(of: &request.options, for: asking)
        var waiter = requests.makeWaiter(
            .get, request, key: OriginalKey(request, uid: asking.uid), of: client, uid: asking.uid, at: now.instant)
        waiter.program = asking.program
        if let file { return open(file, for: waiter, shutdownRefusal ?? misnamed, asking) }
        if let refusal = shutdownRefusal ?? misnamed ?? refusal(of: request.options) { return fail(waiter, refusal) }

        // A fresh variant in memory needs neither a place in a queue nor a deadline.
        if let hit = memoryHit(for: waiter) {
            waiter.key = hit.key
            deliver(
                hit.buffer, size(of: hit.buffer, hit.header), hit.original, hit.header, to: waiter,
                offersSlot: asking.hasPage && !request.options.retryFailed && !request.options.trace
                    && request.options.maxAgeSeconds == nil)
            return rememberHit(request, from: client, of: asking.uid, hit)
        }
        if let (key, original, header) = describedHit(for: waiter) {
            waiter.key = key
            return describe(header, original.origin, bytes: original.bytes, to: waiter, of: original)
        }
        if let refusal = clients.refusal(ofWeight: request.weight, from: asking) { return fail(waiter, refusal) }
        register(waiter)
        advance(waiter.id)
    }

    /// Replaces the name of a preset by its variant. Returns the error for a name or variant that is refused.
    func expandPreset(of options: inout GetOptions, for asking: Clients.Client) -> WireError? {
        guard let name = options.preset else {
            guard limits.allowsPresetsOnly, !asking.isAdmin else { return nil }
            return WireError(.forbidden, "This broker serves its presets only: \(presetNames).")
        }
        guard let variant = limits.presets[name] else {
            return WireError(.badRequest, "preset must be one of the broker's: \(presetNames).")
        }
        // The name stays: `rememberHit` asks for it.
        options.variant = variant
        return nil
    }

    private var presetNames: String {
        let names = limits.presets.keys.sorted()
        if names.isEmpty { return "it has none" }
        return names.prefix(8).joined(separator: ", ") + (names.count > 8 ? ", and others" : "")
    }

    /// The error for options that no client of this broker may use.
    func refusal(of options: GetOptions) -> WireError? {
        guard options.allowInvalidCertificates, !limits.allowsInvalidCertificates else { return nil }
        return WireError(.forbidden, "This broker does not load from servers whose certificate cannot be verified.")
    }

    // MARK: Lookup in memory

    /// The stored original for a request: the user's own is preferred to the shared one.
    mutating func stored(for waiter: Waiter) -> (key: OriginalKey, original: OriginalFacts)? {
        if waiter.key.owner == nil, memory.hasAny(ownedBy: waiter.uid) {
            let own = waiter.key.owned(by: waiter.uid)
            if let original = memory.original(own) { return (own, original) }
        }
        return memory.original(waiter.key).map { (waiter.key, $0) }
    }

    /// A variant that answers a request without anything else.
    typealias MemoryHit = (key: OriginalKey, original: OriginalFacts, header: ImageHeader, buffer: BufferID)

    mutating func memoryHit(for waiter: Waiter) -> MemoryHit? {
        guard let (key, original) = fresh(for: waiter),
            original.content.pixels == nil || waiter.request.options.representation != .original,
            let header = memory.header(of: original.content),
            let buffer = memory.answer(to: VariantKey(content: original.content, form: form(of: waiter.request)))
        else { return nil }
        return (key, original, header, buffer)
    }

    /// The original that answers a request without asking its origin.
    private mutating func fresh(for waiter: Waiter) -> (key: OriginalKey, original: OriginalFacts)? {
        guard !mayHaveOwnedOnDisk(waiter), let (key, original) = stored(for: waiter),
            waiter.decision(about: original, at: agingNow) == .use(isStale: false)
        else { return nil }
        return (key, original)
    }

    private mutating func describedHit(
        for waiter: Waiter
    ) -> (key: OriginalKey, original: OriginalFacts, header: ImageHeader)? {
        guard waiter.request.options.delivery == .header, let (key, original) = fresh(for: waiter),
            let header = description(of: original.content, as: form(of: waiter.request))
        else { return nil }
        return (key, original, header)
    }

    /// The header that answers a request for a description without metadata blocks; nil for other forms.
    func description(of content: ContentKey, as form: Form) -> ImageHeader? {
        guard case .header(let kinds) = form, let header = memory.header(of: content), let facts = header.facts,
            facts.metadata.delivered(kinds) == 0
        else { return nil }
        return header
    }

    /// Whether only the disk tier may have the user's own original, which is preferred to the shared one.
    private mutating func mayHaveOwnedOnDisk(_ waiter: Waiter) -> Bool {
        guard disk.report.mayHaveOwned, waiter.key.owner == nil, !waiter.hasQueriedDisk, canLookUp,
            // Files belong to all.
            !waiter.key.url.isFile
        else { return false }
        let own = waiter.key.owned(by: waiter.uid)
        return memory.original(own) == nil && disk.mayHave(owned: own)
    }

    func form(of request: GetRequest) -> Form { Form(request.options, scaleDownLimit: limits.scaleDownBytes) }

    func isFresh(_ origin: OriginStatement, for headers: [HeaderField]) -> Bool {
        !origin.isStale(at: agingNow) && !origin.policy.alwaysRevalidate && origin.matches(headers)
    }

    func size(of buffer: BufferID, _ header: ImageHeader) -> PixelGeometry {
        memory.record(of: buffer)?.geometry ?? header.geometry
    }

    // MARK: Steps

    mutating func register(_ waiter: Waiter) {
        requests.register(waiter)
        switch waiter.purpose {
        case .get: clients.began(waiter.request.id, .get(waiter.id), weight: waiter.weight, of: waiter.client)
        case .store: clients.began(store: waiter.id, of: waiter.client)
        case .prefetch, .refresh, .detached: break
        }
        schedule(.total(waiter.id), in: waiter.request.options.totalTimeoutMs)
    }

    /// Takes a request, which waits for no job, its next step: memory, then the disk tier, then the shared tier and the
    /// origin. A lookup that ends and a confirmation lead back here; a body goes on to `serve`, a variant to `deliver`,
    /// and a failure to `failOrServeStale` or `imageFailed`.
    mutating func advance(_ id: WaiterID) {
        requests.decideAnew(id)
        guard let waiter = requests[id] else { return }
        let mode = waiter.request.options.cache
        let isTrusted = waiter.trust == .confirmed || waiter.trust == .staleAllowed
        if !isTrusted, waiter.isForced {
            // The new original replaces the user's own.
            if let (key, _) = stored(for: waiter) { requests.setKey(key, of: id) }
            return download(for: id)
        }
        if mayHaveOwnedOnDisk(waiter), !certainlyLacks(owned: waiter.key.owned(by: waiter.uid)) {
            return lookUp(for: id)
        }
        guard let (key, original) = stored(for: waiter) else {
            if canLookUp, !waiter.hasQueriedDisk { return lookUp(for: id) }
            if mode == .onlyIfCached { return fail(waiter, waiter.notCached) }
            requests.lostOriginal(id)
            return download(for: id)
        }
        requests.setKey(key, of: id)
        switch waiter.decision(about: original, at: agingNow) {
        case .use: produce(original, for: id)
        case .useAndRefresh:
            refresh(key, original, for: waiter)
            produce(original, for: id)
        case .revalidate where waiter.request.options.staleFirst && mode == .noCache && waiter.preview != .done:
            requests.beginPreview(id)
            produce(original, for: id)
        case .revalidate: download(for: id, revalidating: original)
        case .load: download(for: id)
        case .refuse: fail(waiter, waiter.notCached)
        }
    }

    /// Produces the answer from a stored original.
    private mutating func produce(_ original: OriginalFacts, for id: WaiterID) {
        requests.setOriginal(original, of: id)
        guard let waiter = requests[id] else { return }
        let form = form(of: waiter.request)
        if form == .original, original.content.pixels != nil {
            return fail(waiter, WireError(.unsupportedFormat, "The image was stored as pixels; it has no original."))
        }
        let variant = VariantKey(content: original.content, form: form)
        if let header = description(of: original.content, as: form) {
            return describe(header, original.origin, bytes: original.bytes, to: waiter, of: original)
        }
        if let header = memory.header(of: original.content), let buffer = memory.answer(to: variant) {
            return deliver(buffer, size(of: buffer, header), original, header, to: waiter)
        }
        let body = body(of: original)
        let mayHaveRaster = original.isFromDisk && form.ofImage.rasterWord(of: nil) != nil
        if canLookUp, !waiter.hasQueriedDisk, body == nil || mayHaveRaster { return lookUp(for: id) }
        if let body {
            // A cached original is served even if its URL failed recently, unless its own bytes are the cause.
            if let refusal = recentFailure(of: waiter, content: original.content),
                refusal.cause.map(Self.imageErrors.contains) == true
            {
                return fail(waiter, refusal)
            }
            decode(variant, of: body, for: id)
        } else if waiter.preview == .showing {
            endPreview(id)
        } else if waiter.request.options.cache == .onlyIfCached {
            fail(waiter, waiter.notCached)
        } else {
            // Metadata without a body.
            requests.rejectOriginal(of: id)
            download(for: id)
        }
    }

    /// The errors that the bytes of an image cause, whichever origin serves them.
    private static let imageErrors: Set<ErrorCode> = [
        .unsupportedFormat, .truncated, .decodeFailed, .emptyImage, .tooManyPixels,
    ]

    /// Goes on to the answer proper, whether or not the preview was shown.
    private mutating func endPreview(_ id: WaiterID) {
        requests.endPreview(id)
        advance(id)
    }

    /// Revalidates a stale original after it was served (RFC 5861, section 3): one refresh at a time.
    private mutating func refresh(_ key: OriginalKey, _ original: OriginalFacts, for served: Waiter) {
        guard !downloads.hasActive(DownloadKey(original: key, isForced: false)),
            clients.pendingWeight < limits.maxRequests / 2, requests.count < limits.maxRequests, !isDraining
        else { return }
        var options = served.request.options
        options.cache = .noCache
        options.priority = .low
        options.progress = false
        options.delivery = .none
        options.storage = .both
        options.terms = nil
        let request = GetRequest(id: 0, url: served.request.url, options: options)
        let waiter = requests.makeWaiter(
            .refresh, request, key: key, of: served.client, uid: served.uid, at: now.instant)
        register(waiter)
        download(for: waiter.id, revalidating: original)
    }

    func jobWaiter(for waiter: Waiter) -> JobWaiter {
        waiter.jobWaiter(isAdmin: clients.isAdmin(waiter.client), since: now.instant)
    }

    // MARK: Delivery

    /// Answers a request, registered or not, with a buffer.
    mutating func deliver(
        _ buffer: BufferID, bytes: Int? = nil, _ geometry: PixelGeometry, _ original: OriginalFacts,
        _ header: ImageHeader, to waiter: Waiter, damage: String? = nil, isPreview: Bool = false,
        offersSlot: Bool = false
    ) {
        let damage = damage ?? memory.damage(of: buffer)
        let bytes = bytes ?? memory.record(of: buffer)?.bytes ?? 0
        if let refusal = refusal(of: bytes, in: buffer, to: waiter) { return fail(waiter, refusal) }
        memory.touch(buffer, at: now.instant)
        noteUse(by: waiter, isSound: damage == nil)
        guard waiter.purpose == .get else { return delivered(original, to: waiter) }

        let kinds = form(of: waiter.request).metadata
        let blocks = kinds.isEmpty ? 0 : header.facts?.metadata.delivered(kinds) ?? 0
        var image = waiter.reply(
            for: header, as: geometry, bytes: bytes - blocks, original.origin, originalBytes: original.bytes,
            at: agingNow)
        image.damage = damage
        if waiter.request.options.embedded == .fast {
            image.embedded = memory.record(of: buffer)?.variant.form.prefersPreview ?? isPreview
        }
        if !kinds.isEmpty { image.add(header.facts?.metadata, kinds, of: waiter.request.options.delivery) }
        image.spans = waiter.spans(at: now.instant)
        // The rows of stored pixels may be padded, and need not begin with the memfd.
        if let pixels = original.content.pixels, memory.record(of: buffer)?.variant.form == .original {
            image.pixels?.stride = pixels.stride
            (image.offset, image.bytes) = (pixels.offset, pixels.rowBytes)
        }
        let attachment = lend(buffer, to: waiter, in: &image)
        // The result of the image itself may take the place of a preview's.
        if offersSlot || isRepeatable(waiter, with: buffer), damage == nil, !image.embedded, image.buffer != nil,
            !waiter.request.options.variant.frames.isRange
        {
            image.slot = memory.assignValiditySlot(to: buffer, for: waiter.key)
        }
        send(image, attachment, to: waiter)
    }

    /// Answers a request, registered or not, with a description without metadata blocks. `original` is the stored one.
    mutating func describe(
        _ header: ImageHeader, _ origin: OriginStatement, bytes: Int, to waiter: Waiter,
        of original: OriginalFacts? = nil
    ) {
        noteUse(by: waiter, isSound: original != nil)
        guard waiter.purpose == .get else {
            if let original { delivered(original, to: waiter) } else { unregister(waiter) }
            return
        }
        var image = waiter.reply(for: header, as: header.geometry, bytes: 0, origin, originalBytes: bytes, at: agingNow)
        image.spans = waiter.spans(at: now.instant)
        send(image, .nothing, to: waiter)
    }

    /// Notes that a request has its answer, which if `isSound` shows that the image can be had.
    private mutating func noteUse(by waiter: Waiter, isSound: Bool) {
        if waiter.source == .memory { noteUse(of: waiter.key) }
        guard isSound, waiter.source != .memory || waiter.request.options.retryFailed else { return }
        for key in waiter.keys { recentFailures.succeeded(key, form: form(of: waiter.request)) }
    }

    /// Sends a client an image, which ends its request unless it is a preview.
    private mutating func send(_ image: ImageReply, _ attachment: Action.Attachment, to waiter: Waiter) {
        if waiter.preview != .showing { unregister(waiter) }
        if image.final { countAnswer(to: waiter, isStale: image.stale) }
        reply(.image(id: waiter.request.id, image), attachment, to: waiter.client)
        if waiter.preview == .showing { endPreview(waiter.id) }
    }

    /// Whether the client of a file may keep a buffer: a further request for the unchanged file would get it from
    /// memory.
    private mutating func isRepeatable(_ waiter: Waiter, with buffer: BufferID) -> Bool {
        waiter.isOfKeptFile && clients[waiter.client]?.hasPage == true && memoryHit(for: waiter)?.buffer == buffer
    }

    func refusal(of bytes: Int, in buffer: BufferID, to waiter: Waiter) -> WireError? {
        clients.refusal(
            of: bytes, in: buffer, to: waiter.client, of: waiter.uid, by: waiter.request.options.delivery,
            room: leaseRoom)
    }

    /// The memory and descriptors that only leases keep may still take: of buffers that were evicted or have no record,
    /// of shared ones, and of ended segments.
    var leaseRoom: Clients.Room {
        Clients.Room(
            bytes: limits.maxEvictedBytes - memory.bytesOfHolds - clients.endedSegmentBytes,
            buffers: min(
                limits.maxEvictedBuffers - memory.evictedBuffers - memory.orphanMemfds,
                limits.memoryEntries - memory.sharedBuffers))
    }

    /// Gives a client a buffer in the way that it asked for: as a lease, or as bytes in the reply.
    mutating func lend(_ buffer: BufferID, to waiter: Waiter, in image: inout ImageReply) -> Action.Attachment {
        switch waiter.request.options.delivery {
        case .fd:
            image.buffer = buffer.number
            if image.bufferBytes <= limits.mostSegmentImageBytes, let owner = clients.segmentOwner(of: waiter.client) {
                moveIntoSegment(buffer, of: owner)
            }
            let isFirst = clients.grant(buffer, bytes: image.bufferBytes, to: waiter.client, of: waiter.uid, .lease)
            if isFirst { memory.hold(buffer, bytes: image.bufferBytes) }
            if let place = memory.place(of: buffer), let owner = clients.segmentOwner(of: waiter.client),
                let segment = memory.segments[place.segment], segment.owner == owner
            {
                (image.segment, image.offset) = (place.segment, place.offset)
                if clients.has(waiter.client, segment: place.segment) { return .nothing }
                clients.sent(segment: place.segment, to: waiter.client)
                (image.segmentBytes, image.descriptors) = (segment.bytes, 1)
                return .segment(place.segment)
            }
            if !isFirst { return .nothing }
            share(buffer)
            image.descriptors = 1
            return .descriptor(buffer)
        case .inline, .header:
            if clients.grant(buffer, bytes: image.bufferBytes, to: waiter.client, of: waiter.uid, .sending) {
                memory.hold(buffer, bytes: image.bufferBytes)
            }
            // All connections send from one memfd, which counts.
            share(buffer)
            image.payload = image.bufferBytes
            defer { image.offset = 0 }
            return .payload(buffer, offset: image.offset, count: image.bufferBytes)
        case .none: return .nothing
        }
    }

    private mutating func share(_ buffer: BufferID) {
        if memory.share(buffer) { actions.append(.share(buffer)) }
    }

    /// Moves a buffer out of the broker's own memory, so that the owner's clients need no descriptor for it.
    private mutating func moveIntoSegment(_ buffer: BufferID, of owner: SegmentOwner) {
        memory.reservedBytes = reservedBytes
        let (placement, dropped) = memory.moveIntoSegment(buffer, of: owner)
        drop(dropped)
        if let placement { actions.append(.moveIntoSegment(buffer, placement)) }
    }

    mutating func countEnd(of waiter: Waiter, _ outcome: StatsReport.Figure) {
        counters.add(for: waiter.uid) { $0.count(outcome) }
        guard let program = waiter.program else { return }
        counters.count(outcome, microseconds: now.instant.microseconds(since: waiter.receivedAt), of: program)
    }

    private mutating func countAnswer(to waiter: Waiter, isStale: Bool) {
        let outcome = waiter.isCoalesced ? .coalesced : Self.outcomes[waiter.source] ?? .memoryHits
        countEnd(of: waiter, outcome)
        if isStale { counters.add(for: waiter.uid) { $0.staleServed += 1 } }
        if waiter.isLoaded {
            counters.record(.load, microseconds: now.instant.microseconds(since: waiter.receivedAt))
        }
    }

    private static let outcomes: [ImageReply.Source: StatsReport.Figure] = [
        .memory: .memoryHits, .disk: .diskHits, .network: .networkLoads, .shared: .sharedHits,
        .file: .fileLoads,
    ]

    /// Ends a request that is not a client's `get`.
    private mutating func delivered(_ original: OriginalFacts, to waiter: Waiter) {
        unregister(waiter)
        switch waiter.purpose {
        case .get, .refresh, .detached: break
        case .prefetch(let prefetch): ended(waiter.id, of: prefetch, hasFailed: false)
        case .store(let request): accept(original, request, from: waiter)
        }
    }

    // MARK: Failure

    /// Answers a request, registered or not, with an error, and ends it; one that is registered and has an alternative
    /// URL goes on with that after a failure that may be of the URL. It waits for no job, or its job ends too.
    mutating func fail(_ waiter: Waiter, _ error: WireError) {
        if Self.errorsOfURLs.contains(error.code), requests.takeAlternative(waiter.id) {
            assignsAgain = true
            return advance(waiter.id)
        }
        unregister(waiter)
        switch waiter.purpose {
        case .get:
            countEnd(of: waiter, error.code == .cancelled ? .cancelled : .failed)
            reject(
                waiter.request.id, of: waiter.client, with: error, url: waiter.file == nil ? waiter.request.url : nil)
        case .prefetch(let prefetch): ended(waiter.id, of: prefetch, hasFailed: true)
        case .refresh, .detached: break
        case .store(let request): rejectStored(request, error, from: waiter)
        }
    }

    /// The errors after which another URL may succeed.
    private static let errorsOfURLs: Set<ErrorCode> = [
        .forbiddenAddress, .notCached, .recentlyFailed, .hostUnavailable, .dnsFailed, .connectFailed, .tlsFailed,
        .timeout,
        .tooManyRedirects, .httpStatus, .transferFailed, .tooLarge, .unsupportedFormat, .truncated, .decodeFailed,
        .tooManyPixels, .emptyImage, .decoderCrashed, .decoderUnavailable,
    ]

    mutating func leaveJobAndFail(_ id: WaiterID, _ error: WireError) {
        guard let waiter = requests[id] else { return }
        unregister(waiter)
        leaveJob(waiter)
        fail(waiter, error)
    }

    mutating func abandon(_ id: WaiterID) {
        guard let waiter = requests[id] else { return }
        unregister(waiter)
        leaveJob(waiter)
        if waiter.purpose == .get { countEnd(of: waiter, .cancelled) }
        if case .store = waiter.purpose { dropRemoved(memory.remove(waiter.key)) }
    }

    private mutating func unregister(_ waiter: Waiter) {
        guard requests.unregister(waiter.id) else { return }
        if let file = waiter.file { release(file) }
        switch waiter.purpose {
        case .get: clients.ended(waiter.request.id, of: waiter.client)
        case .store: clients.ended(store: waiter.id, of: waiter.client)
        case .prefetch, .refresh, .detached: break
        }
    }

    /// Gives a request another priority, and the job that it waits for.
    mutating func setPriority(_ priority: GetOptions.Priority, of id: WaiterID) {
        requests.setPriority(priority, of: id)
        guard let waiter = requests[id] else { return }
        switch waiter.stage {
        case .deciding, .opening: break
        case .reading(let job): files.setPriority(priority, of: id, in: job)
        case .lookingUp(let job): disk.setPriority(priority, of: id, in: job)
        case .downloading(let job):
            downloads.setPriority(priority, of: id, in: job)
            waitersChanged(of: job)
        case .decoding(let job):
            decoding.setPriority(priority, of: id, in: job)
            waitersChanged(of: job)
        }
    }

    /// Gives what a download or a decoding waits for the highest priority of its waiters.
    mutating func waitersChanged(of job: JobID) {
        guard let waiters = downloads[job]?.waiters ?? decoding[job]?.waiters, let priority = waiters.priority else {
            return
        }
        decoding.setPriority(ofIdentification: job, for: waiters)
        tier.queue.change(job, to: priority)
    }

    /// Takes a waiter out of its job. A download without waiters is stopped; a decoding only if it has not begun.
    mutating func leaveJob(_ waiter: Waiter) {
        switch waiter.stage {
        case .deciding, .opening: break
        case .reading(let job): if files.leave(job, waiter.id) { giveUpRead(job) }
        case .lookingUp(let job):
            if let worker = disk.leave(lookup: job, waiter.id)?.worker { supervision.unassign(job, from: worker) }
        case .downloading(let job):
            carryOut(downloads.leave(job, waiter.id, at: now.instant))
            waitersChanged(of: job)
        case .decoding(let job):
            if let end = decoding.leave(job, waiter.id) { free(end, job) }
            waitersChanged(of: job)
        }
    }

    /// Ends a request whose original cannot be had: with the stale one, if that may be served (RFC 5861, section 4),
    /// else with the error. `known` is what the origin was asked to confirm, which only the disk tier may still have.
    mutating func failOrServeStale(_ id: WaiterID, _ error: WireError, revalidating known: OriginalFacts? = nil) {
        guard let waiter = requests[id] else { return }
        guard let stale = staleOriginal(for: id, after: error, known: known) else { return fail(waiter, error) }
        requests.serveOriginal(id, as: .staleAllowed, isInMemory: body(of: stale) != nil && stored(for: waiter) != nil)
        advance(id)
    }

    mutating func staleOriginal(for id: WaiterID, after error: WireError, known: OriginalFacts?) -> OriginalFacts? {
        guard let waiter = requests[id] else { return nil }
        let mode = waiter.request.options.cache
        let stored = stored(for: waiter)?.original
        guard waiter.trust == .unchecked, mode == .default || mode == .noCache, waiter.purpose != .refresh,
            let original = stored ?? (waiter.cachedIn == .disk ? known : nil),
            waiter.mayServeStale(original, after: error, at: agingNow)
        else { return nil }
        return original
    }

    /// Ends a request whose image is not decoded now; a preview that cannot be had is left out.
    mutating func failImage(_ waiter: Waiter, _ error: WireError) {
        if waiter.preview == .showing { endPreview(waiter.id) } else { fail(waiter, error) }
    }

    /// Ends a request whose bytes are no image. A cached original is removed and loaded once more, because the origin
    /// may have replaced it. The originals with the keys `restored` are cached again instead.
    mutating func imageFailed(_ id: WaiterID, _ error: WireError, restored: Set<OriginalKey>) {
        guard let waiter = requests[id] else { return }
        if case .store = waiter.purpose { return fail(waiter, error) }
        let isBadOriginal = Self.isOfAllForms(error, in: form(of: waiter.request))
        let known = memory.original(waiter.key)?.content
        // A load that leaves the cache alone says nothing about what is cached.
        let isOfCache = waiter.request.options.cache != .noStore
        if isBadOriginal, isOfCache, !restored.contains(waiter.key),
            known == nil || known == waiter.original?.content
        {
            // An image that was accepted in spite of its damage stays for those who accept it.
            if let known, memory.hasDamage(known) { forgetOnDisk(waiter.key) } else { forget(waiter.key) }
            if waiter.source == .network { shareNothing(of: waiter.key, for: jobWaiter(for: waiter).owner.user) }
        }
        if waiter.preview == .showing {
            if isBadOriginal { requests.rejectOriginal(of: id) }
            return endPreview(id)
        }
        if isBadOriginal, !waiter.isLoaded, waiter.trust != .rejected,
            ![.onlyIfCached, .forceCache].contains(waiter.request.options.cache)
        {
            requests.rejectOriginal(of: id)
            return download(for: id)
        }
        fail(waiter, noteFailure(error, of: waiter, waiter.original?.origin.response))
    }

    /// Whether the bytes are no image in any form: one with damaged later frames may have a good first one.
    static func isOfAllForms(_ error: WireError, in form: Form) -> Bool {
        !form.isOfOtherFrames && [.unsupportedFormat, .truncated, .decodeFailed, .emptyImage].contains(error.code)
    }

    /// The error of a URL that failed recently; nil when it may be tried (`RecentFailures.refusal`).
    func recentFailure(of waiter: Waiter, content: ContentKey? = nil) -> WireError? {
        if waiter.request.options.retryFailed { return nil }
        let form = form(of: waiter.request)
        // Not `lazy`, which would take a copy of the whole state.
        for key in waiter.keys {
            if let refusal = recentFailures.refusal(of: key, form: form, content: content, at: now.instant) {
                return refusal
            }
        }
        return nil
    }

    /// Notes a failure among the recent ones, if its kind and the response that has caused it allow that.
    mutating func noteFailure(
        _ error: WireError, of waiter: Waiter, _ response: ResponseRecord?, sharedSeconds: Int? = nil
    ) -> WireError {
        var error = error
        // No other request has such a key.
        if waiter.key.nonce != 0 { return error }
        let terms = response.map { FailureTerms($0, sendsCookiesFromJar: waiter.key.cookies) }
        let age = response.map { max(0, now.unixMs - $0.receivedAt) / 1000 } ?? 0
        let key = terms?.isPrivate == true ? waiter.key.owned(by: waiter.uid) : waiter.key
        error.recentlyFailed = recentFailures.note(
            error, key: key, form: form(of: waiter.request), url: waiter.request.url.text,
            lifetime: sharedSeconds ?? terms?.lifetime.map { max(0, $0 - age) },
            mayLengthen: terms?.mayLengthen ?? true,
            of: waiter.original?.content, at: now.instant)
        return error
    }

    // MARK: Time

    mutating func totalTimePassed(_ id: WaiterID) {
        guard let late = requests[id] else { return }
        let seconds = Double(late.request.options.totalTimeoutMs) / 1000
        leaveJobAndFail(id, WireError(.timeout, "\(late.title): not loaded within \(seconds) s."))
    }

    /// A download's silence is measured from the last byte, or from its start.
    mutating func silenceTimePassed(_ id: WaiterID) {
        guard let late = requests[id], case .downloading(let job) = late.stage, let download = downloads[job],
            let lastActivity = download.transfer?.lastActivity
        else { return }
        let deadline = lastActivity.adding(milliseconds: late.request.options.timeoutMs)
        if deadline > now.instant { return deadlines.add(.silence(id), at: deadline) }
        let seconds = Double(late.request.options.timeoutMs) / 1000
        let error = WireError(.timeout, "\(late.request.url.host) sent nothing for \(seconds) s.")
        downloads.blameSilence(of: job, error, at: now.instant)
        leaveJob(late)
        failOrServeStale(id, error, revalidating: download.revalidating)
    }
}

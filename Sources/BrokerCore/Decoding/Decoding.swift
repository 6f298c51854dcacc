import Digests
import DiskRecords
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The decodings: one for each variant, however many requests wait for it and by whichever URL; and the identifications
/// of bytes, which are queued and assigned like decodings.
///
/// A decoding is queued, reads the header on a worker, waits for memory, and writes its result. Images that kill
/// decoders are quarantined, and users and origins with many of them are paused.
package struct Decoding {
    var limits: BrokerLimits
    private var decodes: [JobID: Decode] = [:]
    private var jobByVariant: [VariantKey: JobID] = [:]
    private var parts: [JobID: PartialDecode] = [:]
    private var identifications: [JobID: Identification] = [:]
    private var runningIdentifications = 0
    /// Decodings that wait for memory, in the order of their headers.
    private var parked: [JobID] = []
    /// The queued decodings of the plain family, and the queued identifications.
    private var queue: JobQueue
    /// The queued decodings of the other families. Those without any have no queue.
    private var familyQueues: [CodecFamily: JobQueue] = [:]
    /// The formats of other families, by content.
    private var foreignFormats = UseTable<ContentDigest, ImageFormat>()
    /// The queued identifications of small bodies, which are in `queue`, too: they have their turns there, and the
    /// spare worker takes them out of turn. They take a millisecond, and others up to seconds.
    private var smallQueue: JobQueue
    /// The brief decodings that ended at once since one was put back, as far as they count: images that are requested
    /// together are often of one size.
    private var endedAtOnce = enoughAtOnce
    private static let enoughAtOnce = 8
    /// What decoders are kept from, because others died of it or took too long.
    var refusals = DecodeRefusals()
    /// Those that the last image of each worker is charged to: what it has left there may end the worker later.
    private var lastResponsible: [WorkerID: Responsible] = [:]
    /// Where the last decoding of each worker has stopped in an animation.
    private var places: [WorkerID: AnimationPlace] = [:]
    /// The bodies of the decodings, for how many each is needed, and the user of the first of them.
    private var heldBodies: [BufferID: (decodings: Int, bytes: Int, user: UInt32)] = [:]
    /// The decodings, and the bytes of their bodies, of all users and of each.
    private(set) var load = Load()
    private(set) var loads: [UInt32: Load] = [:]
    /// The decodings whose workers may write.
    private var writing: Set<JobID> = []
    /// The bytes that decodings are about to fill.
    private(set) var reservedBytes = 0

    init(limits: BrokerLimits) {
        self.limits = limits
        queue = JobQueue(order: limits.queueOrder)
        smallQueue = JobQueue(order: limits.queueOrder)
    }

    subscript(job: JobID) -> Decode? { decodes[job] }
    subscript(part job: JobID) -> PartialDecode? { parts[job] }
    var count: Int { decodes.count }
    var queued: Int { familyQueues.values.reduce(queue.count) { $0 + $1.count } }

    func needs(_ buffer: BufferID) -> Bool { heldBodies[buffer] != nil }

    func isDecoding(_ content: ContentKey) -> Bool {
        decodes.values.contains { $0.variant.content == content && !$0.isDetached }
    }

    // MARK: Charges

    /// The one that the death of a worker with `jobs` is charged to: of several, that of the oldest; of none, that of
    /// its last image.
    func responsible(for jobs: some Collection<JobID>, on worker: WorkerID) -> Responsible? {
        jobs.sorted().lazy.compactMap { responsible(for: $0) }.first
            ?? (jobs.count < 2 ? lastResponsible[worker] : nil)
    }

    /// The one that a decoding, partial or not, is charged to; nil for another job.
    private func responsible(for job: JobID) -> Responsible? {
        decodes[job]?.responsible ?? parts[job]?.responsible ?? early(of: job)?.responsible
    }

    mutating func charge(_ job: JobID, to responsible: Responsible) { decodes[job]?.responsible = responsible }

    mutating func forget(_ worker: WorkerID) { (lastResponsible[worker], places[worker]) = (nil, nil) }

    /// The worker that can go on with the frames of a queued decoding.
    func workerBefore(_ job: JobID) -> WorkerID? {
        decodes[job].flatMap { decode in places.first { $0.value.precedes(decode) }?.key }
    }

    // MARK: Families

    private static let maximumForeignFormats = 4096

    func family(of content: ContentKey) -> CodecFamily {
        foreignFormats[content.digest].map { CodecFamily($0) } ?? .plain
    }

    func foreignFormat(of content: ContentKey) -> ImageFormat? { foreignFormats[content.digest] }

    /// Notes the format of bytes that another family than the plain one decodes.
    mutating func note(_ format: ImageFormat, of digest: ContentDigest) {
        foreignFormats.use(digest, format)
        if foreignFormats.count > Self.maximumForeignFormats { foreignFormats.popOldest() }
    }

    var queuedFamilies: [CodecFamily] {
        familyQueues.isEmpty ? [] : CodecFamily.optional.filter { familyQueues[$0] != nil }
    }

    func queued(of family: CodecFamily) -> Int { familyQueues[family]?.count ?? 0 }

    mutating func popQueued(of family: CodecFamily) -> JobID? {
        let job = familyQueues[family]?.pop()
        if familyQueues[family]?.isEmpty == true { familyQueues[family] = nil }
        return job
    }

    /// Hands a decoding to the family of `format`. Returns it if it has ended instead, without waiters.
    mutating func hand(_ job: JobID, to format: ImageFormat) -> Decode? {
        guard let decode = decodes[job] else { return nil }
        note(format, of: decode.variant.content.digest)
        if decode.waiters.isEmpty { return end(job) }
        releaseMemory(of: job, decode)
        decodes.change(job) {
            $0.family = CodecFamily(format)
            $0.state = .queued
        }
        enqueue(job, atFront: true)
        return nil
    }

    private mutating func enqueue(_ job: JobID, atFront: Bool = false) {
        guard let decode = decodes[job] else { return }
        let owner = decode.waiters.first?.owner ?? JobOwner()
        changeQueue(of: decode.family) { $0.push(job, priority: decode.priority, owner: owner, atFront: atFront) }
    }

    private mutating func changeQueue(of family: CodecFamily, _ change: (inout JobQueue) -> Void) {
        if family == .plain { return change(&queue) }
        change(&familyQueues[family, default: JobQueue(order: limits.queueOrder)])
        if familyQueues[family]?.isEmpty == true { familyQueues[family] = nil }
    }

    // MARK: Joining and beginning

    /// Lets a waiter join the decoding of a variant; otherwise nil.
    mutating func join(_ variant: VariantKey, _ waiter: JobWaiter) -> JobID? {
        guard let job = jobByVariant[variant], let decode = decodes[job] else { return nil }
        decodes.change(job) { $0.waiters.append(waiter) }
        changeQueue(of: decode.family) { $0.join(job, waiter.owner) }
        if decode.priority < waiter.priority { setPriority(of: job, waiter.priority) }
        return job
    }

    /// Queues a decoding of a body, which the caller holds; with `asksTier` it waits for the shared tier before
    /// (`goOn`).
    mutating func enqueue(
        _ variant: VariantKey, of body: BufferID, bytes: Int, responsible: Responsible, asksTier: Bool = false,
        isBrief: Bool = false, _ waiter: JobWaiter, as job: JobID
    ) {
        decodes[job] = Decode(
            variant: variant, user: responsible.user, responsible: responsible, body: body, bodyBytes: bytes,
            family: family(of: variant.content), waiters: [waiter], priority: waiter.priority,
            isBrief: isBrief)
        jobByVariant[variant] = job
        let user = responsible.user
        count(1, bytes: heldBodies[body] == nil ? bytes : 0, for: user)
        heldBodies.change(body, default: (0, bytes, user)) { $0.decodings += 1 }
        if asksTier { decodes.change(job) { $0.state = .askingTier } } else { enqueue(job) }
    }

    /// Decodings, and the bytes that they need.
    struct Load: Equatable {
        var decodings = 0
        var bytes = 0
    }

    private mutating func count(_ decodings: Int, bytes: Int = 0, for user: UInt32) {
        func add(_ load: inout Load) { (load.decodings, load.bytes) = (load.decodings + decodings, load.bytes + bytes) }
        add(&load)
        loads.change(user, default: Load()) { add(&$0) }
        if loads[user] == Load() { loads[user] = nil }
    }

    /// Queues a decoding that has waited for the shared tier. False for any other job.
    mutating func goOn(_ job: JobID, at now: Instant) -> Bool {
        guard let decode = decodes[job], case .askingTier = decode.state else { return false }
        decodes.change(job) { ($0.state, $0.queuedAt) = (.queued, now) }
        enqueue(job)
        return true
    }

    var askingTier: Set<JobID> { Set(decodes.filter { $0.value.isAskingTier }.keys) }

    mutating func setPriority(_ priority: GetOptions.Priority, of waiter: WaiterID, in job: JobID) {
        decodes.change(job) { $0.waiters.setPriority(priority, of: waiter) }
        if let highest = decodes[job]?.waiters.priority { setPriority(of: job, highest) }
    }

    private mutating func setPriority(of job: JobID, _ priority: GetOptions.Priority) {
        decodes.change(job) { $0.priority = priority }
        changeQueue(of: decodes[job]?.family ?? .plain) { $0.change(job, to: priority) }
    }

    /// Takes a waiter out of a decoding; a queued decoding without waiters is taken out.
    mutating func leave(_ job: JobID, _ waiter: WaiterID) -> Decode? {
        decodes.change(job) { $0.waiters.remove(waiter) }
        guard let decode = decodes[job] else { return nil }
        if let priority = decode.waiters.priority {
            setPriority(of: job, priority)
            return nil
        }
        return decode.run == nil ? end(job) : nil
    }

    // MARK: Identifying

    mutating func identify(_ job: JobID, _ body: BufferID, bytes: Int, for waiters: JobWaiters) {
        identifications[job] = Identification(body: body)
        let (priority, owner) = (waiters.priority ?? .normal, waiters.first?.owner ?? JobOwner())
        queue.push(job, priority: priority, owner: owner)
        if bytes <= limits.earlyBodyBytes { smallQueue.push(job, priority: priority, owner: owner) }
    }

    /// Notes that a request has joined the download whose bytes are identified, the last of these waiters.
    mutating func joined(identification job: JobID, _ waiters: JobWaiters) {
        guard identifications[job] != nil, let waiter = waiters.last else { return }
        queue.join(job, waiter.owner)
        smallQueue.join(job, waiter.owner)
        setPriority(ofIdentification: job, for: waiters)
    }

    mutating func setPriority(ofIdentification job: JobID, for waiters: JobWaiters) {
        guard identifications[job] != nil, let priority = waiters.priority else { return }
        queue.change(job, to: priority)
        smallQueue.change(job, to: priority)
    }

    var identificationCount: Int { identifications.count }

    /// Whether a request still needs an identification or a decoding; true for another job.
    func isWanted(_ job: JobID) -> Bool {
        identifications[job]?.isWanted ?? decodes[job].map { !$0.waiters.isEmpty } ?? true
    }

    func isIdentification(_ job: JobID) -> Bool { identifications[job] != nil }

    /// Starts an identification. Returns the bytes, and the decoding in `form` that may go along, into `room`.
    mutating func start(
        identification job: JobID, on worker: WorkerID, as form: Form?, responsible: Responsible?, room: Int,
        at now: Moment
    ) -> (body: BufferID, early: EarlyDecode?)? {
        guard let identification = identifications[job] else { return nil }
        var run = Identification.Run(
            worker: worker, deadline: now.instant.adding(milliseconds: limits.decodeDeadlineMs),
            startedAt: now.instant)
        var decode: EarlyDecode?
        if let form, let transform = form.transform, !identification.isAlone,
            let responsible, !refusals.isPaused(responsible, at: now.instant),
            let refused = refusals.refusedDigests(unixMs: now.unixMs)
        {
            var order = DecodeJob(
                id: job.number, transform: transform, maxPixels: min(limits.maxPixels, Self.earlyPixels),
                maxSourcePixels: min(limits.maxSourcePixels, Self.earlyPixels),
                maxWorkingBytes: min(limits.maxWorkingBytes, Self.earlyWorkingBytes))
            order.wantsPlaceholder = true
            run.early = (form, order, responsible, room)
            reservedBytes += room
            lastResponsible[worker] = responsible
            decode = EarlyDecode(order, refused: refused)
        }
        identifications.change(job) { $0.run = run }
        runningIdentifications += 1
        return (identification.body, decode)
    }

    /// The bounds of an image that is decoded while it is identified, before its memory was granted.
    static let earlyPixels = 1 << 20
    private static let earlyWorkingBytes = 8 << 20

    /// The decoding that goes along with an identification.
    func early(of job: JobID) -> Identification.Early? { identifications[job]?.run?.early }

    /// Whether a decoding with room for its result, or one that goes along with an identification, may end with
    /// `early`.
    func expects(_ early: EarlyResult, of job: JobID) -> Bool {
        identifications[job]?.expects(early)
            ?? decodes[job]?.expects(early, maxPixels: limits.maxPixels, maxBytes: limits.workerMemoryBytes) ?? false
    }

    /// Counts decoders that died with bytes before those were identified, against their decoding.
    mutating func add(crashes: Int, to job: JobID) { decodes.change(job) { $0.crashes += crashes } }

    mutating func setAlone(_ job: JobID) { decodes.change(job) { $0.isBrief = false } }

    /// Notes that the digest is not needed any more. A running identification goes on, because its worker cannot be
    /// stopped.
    mutating func abandon(identification job: JobID) {
        if identifications[job]?.run != nil {
            identifications.change(job) { $0.isWanted = false }
        } else if identifications.removeValue(forKey: job) != nil {
            queue.remove(job)
            smallQueue.remove(job)
        }
    }

    /// Ends a running identification; nil for another job.
    mutating func end(identification job: JobID) -> Identification? {
        guard let run = identifications[job]?.run else { return nil }
        reservedBytes -= run.early?.reserved ?? 0
        runningIdentifications -= 1
        return identifications.removeValue(forKey: job)
    }

    mutating func refuse(identification job: JobID) { identifications[job] = nil }

    /// Takes back the identification of a worker that exited, and queues it again for these waiters: before all others,
    /// unless it was one of several, which would keep other users waiting. Returns it if it has ended instead.
    mutating func workerExited(
        identification job: JobID, _ cause: DeathCause, waiters: JobWaiters, atFront: Bool
    ) -> Identification? {
        guard var identification = identifications[job] else { return nil }
        if cause.isOwnMaking { identification.crashes += 1 }
        if let early = identification.run?.early {
            reservedBytes -= early.reserved
            if cause.isOwnMaking { identification.isAlone = true }
            // As for other decodings, processor time is the variant's fault and not the image's.
            if cause.isOwnMaking, cause != .cpu { identification.decoderCrashes += 1 }
        }
        if identification.run.take() != nil { runningIdentifications -= 1 }
        guard identification.isWanted, identification.crashes < Identification.fatalCrashes else {
            return identifications.removeValue(forKey: job)
        }
        identifications[job] = identification
        queue.push(
            job, priority: waiters.priority ?? .normal, owner: waiters.first?.owner ?? JobOwner(), atFront: atFront)
        return nil
    }

    // MARK: Running

    var hasQueued: Bool { !queue.isEmpty }

    /// The next queued job. The identification of a small body is brief, unless a worker has died with it; a decoding
    /// may be.
    mutating func nextQueued() -> (job: JobID, user: JobOwner.User, isBrief: Bool)? {
        queue.next().map {
            let mayBeBrief = endedAtOnce >= Self.enoughAtOnce && decodes[$0.job]?.isBrief == true
            return ($0.job, $0.user, smallQueue.contains($0.job) || mayBeBrief)
        }
    }

    mutating func popQueued() -> JobID? {
        let job = queue.pop()
        if let job { smallQueue.remove(job) }
        return job
    }

    /// Whether a small body waits while decodings alone keep the workers busy.
    var isHoldingUpSmall: Bool { runningIdentifications == 0 && !smallQueue.isEmpty }

    mutating func popSmall() -> JobID? {
        let job = smallQueue.pop()
        if let job { queue.remove(job) }
        return job
    }

    /// Pops a queued decoding ahead of its turn; false if it is not queued.
    mutating func popQueued(_ job: JobID) -> Bool {
        guard queue.contains(job) else { return false }
        queue.remove(job)
        return true
    }

    /// Starts a decoding on a worker, which may write a result of up to `room` bytes at once.
    mutating func start(
        _ job: JobID, on worker: WorkerID, known: ImageHeader?, room: Int, at now: Instant
    ) -> DecodeJob? {
        guard let decode = decodes[job] else { return nil }
        let deadline = now.adding(milliseconds: limits.decodeDeadlineMs)
        lastResponsible[worker] = decode.responsible
        let place = places.removeValue(forKey: worker)
        decodes.change(job) {
            $0.state = .running(
                Decode.Run(worker: worker, startedAt: now, phase: .readingHeader(deadline: deadline, room: room)))
        }
        if room > 0 {
            reservedBytes += room
            writing.insert(job)
        }
        var order = DecodeJob(
            id: job.number, maxPixels: limits.maxPixels, maxSourcePixels: limits.maxSourcePixels,
            maxWorkingBytes: limits.maxWorkingBytes)
        decode.complete(&order, known: known, after: place)
        return order
    }

    func expectsHeader(_ job: JobID) -> Bool { if case .readingHeader = decodes[job]?.phase { true } else { false } }

    /// Takes what a worker has read.
    mutating func headerRead(_ job: JobID, _ plan: DecodePlan) -> Decode.HeaderOutcome {
        guard let decode = decodes[job] else { return .wrongPlan }
        let outcome = decode.outcome(
            of: plan, maxPixels: limits.maxPixels, maxBytes: limits.workerMemoryBytes)
        switch outcome {
        case .refused, .wrongPlan: return outcome
        case .parked: parked.append(job)
        case .described: break
        }
        releaseMemory(of: job, decode)
        decodes.change(job) { $0.enter(.parked(plan)) }
        return outcome
    }

    /// Queues a decoding that waits for memory once more, to be done alone. Returns it if nobody waits for it any more.
    mutating func putBack(_ job: JobID) -> Decode? {
        endedAtOnce = 0
        parked.removeAll { $0 == job }
        decodes.change(job) { ($0.state, $0.isBrief) = (.queued, false) }
        if decodes[job]?.waiters.isEmpty == true { return end(job) }
        enqueue(job)
        return nil
    }

    /// Gives back what is reserved for a decoding's result.
    private mutating func releaseMemory(of job: JobID, _ decode: Decode) {
        reservedBytes -= decode.reserved
        writing.remove(job)
    }

    /// Notes the plan of a decoding that has ended with its result at once. Returns the error of one that has too many
    /// pixels.
    mutating func decodedAtOnce(_ job: JobID, _ plan: DecodePlan) -> WireError? {
        if decodes[job]?.isBrief == true { endedAtOnce += 1 }
        let (maxPixels, maxBytes) = (limits.maxPixels, limits.workerMemoryBytes)
        if case .refused(let error) = decodes[job]?.outcome(of: plan, maxPixels: maxPixels, maxBytes: maxBytes) {
            return error
        }
        decodes.change(job) { $0.enter(.writing(plan, reserved: $0.reserved, deadline: Instant(nanoseconds: .max))) }
        return nil
    }

    /// Admits the decoding that has waited longest, if `hasRoom` for it or none else runs.
    /// `bytes` is the size of its output, or the bound of it if it is encoded.
    mutating func admitNext(
        hasRoom: (Int) -> Bool, at now: Instant
    ) -> (job: JobID, worker: WorkerID, bytes: Int, isExact: Bool)? {
        guard let job = parked.first, let decode = decodes[job], let run = decode.run, let plan = decode.plan else {
            return nil
        }
        let encoding = decode.variant.form.encoding
        let output = plan.outputBytes(as: decode.variant.form)
        // An encoded image is hardly ever larger than its pixels, and pages that are not written take no memory.
        let frames = decode.frames(in: plan)
        let likely = frames > 1 ? Encoding.likelyBytes(of: plan.result, frames: frames) : plan.result.bytes
        let expected = encoding == nil ? output : likely + plan.metadataBytes(decode.variant.form.metadata)
        guard hasRoom(expected + plan.workingBytes + workingBytes) || writing.isEmpty else { return nil }
        parked.removeFirst()
        let deadline = now.adding(milliseconds: limits.decodeDeadlineMs)
        decodes.change(job) { $0.enter(.writing(plan, reserved: expected, deadline: deadline)) }
        reservedBytes += expected
        writing.insert(job)
        return (job, run.worker, output, encoding == nil)
    }

    var isParking: Bool { !parked.isEmpty }

    /// The memory that decoders hold beside their results; evicting gives none of it back.
    var workingBytes: Int {
        writing.reduce(0) { $0 + (decodes[$1]?.plan?.workingBytes ?? 0) }
            + parts.values.reduce(0) { $0 + ($1.reserved > 0 ? $1.plan?.workingBytes ?? 0 : 0) }
    }

    /// Whether the worker of a job is about to finish it, and `result` can be its result.
    func expects(_ result: DecodeResult, of job: JobID) -> Bool {
        parts[job]?.expects(result) ?? decodes[job]?.expects(result) ?? false
    }

    /// Notes where the worker of a decoding that has succeeded has stopped in an animation.
    mutating func stopped(_ decode: Decode, _ job: JobID, on worker: WorkerID, _ plan: DecodePlan) {
        guard let frames = decode.variant.form.transform?.frames, frames.isRange else { return }
        let next = frames.indices(of: plan.header.frameCount).upperBound
        places[worker] = AnimationPlace(job: job, content: decode.variant.content, next: next)
    }

    /// Lets no more requests join a decoding whose waiters are being answered.
    mutating func close(_ job: JobID) {
        if let variant = decodes[job]?.variant, jobByVariant[variant] == job { jobByVariant[variant] = nil }
    }

    /// Detaches the decodings of these bytes, whose names are discarded: the next request begins another.
    mutating func detach(_ contents: Set<ContentKey>) {
        for (job, decode) in decodes where contents.contains(decode.variant.content) {
            close(job)
            decodes.change(job) { $0.isDetached = true }
        }
    }

    /// Takes a decoding out, queued or running.
    mutating func end(_ job: JobID) -> Decode? {
        guard let decode = decodes.removeValue(forKey: job) else { return nil }
        if jobByVariant[decode.variant] == job { jobByVariant[decode.variant] = nil }
        count(-1, for: decode.user)
        heldBodies.change(decode.body) { $0.decodings -= 1 }
        if let body = heldBodies[decode.body], body.decodings == 0 {
            count(0, bytes: -body.bytes, for: body.user)
            heldBodies[decode.body] = nil
        }
        releaseMemory(of: job, decode)
        if decode.run == nil {
            changeQueue(of: decode.family) { $0.remove(job) }
        } else {
            parked.removeAll { $0 == job }
        }
        return decode
    }

    /// Whether a decoding has run past the deadline of its phase, or a partial one past its only deadline.
    func isOverdue(_ job: JobID, at now: Instant) -> Bool {
        (decodes[job]?.phase?.deadline ?? parts[job]?.deadline ?? identifications[job]?.run?.deadline)
            .map { $0 <= now } ?? false
    }

    func contains(_ job: JobID) -> Bool { decodes[job] != nil || parts[job] != nil || isIdentification(job) }

    // MARK: Lost workers

    /// Takes back the decoding of a worker that exited, and queues it once more: before all others, unless the worker
    /// died of it, so that another user's image does not wait for a second death, or had others (`isShared`). An image
    /// that two decoders have died of is quarantined. A variant that used up its processor time is refused alone, and
    /// no origin is blamed for it: another variant of the image may cost much less, and the client has chosen this one.
    mutating func workerExited(
        _ job: JobID, _ cause: DeathCause, isShared: Bool, at now: Moment
    ) -> (ended: Decode?, refusal: WireError?, isQuarantined: Bool)? {
        guard var decode = decodes[job] else { return nil }
        releaseMemory(of: job, decode)
        parked.removeAll { $0 == job }
        if cause == .cpu {
            refusals.noteSlow(decode.variant, at: now.instant)
        } else if cause.isOwnMaking {
            decode.crashes += 1
        }
        (decode.state, decode.isBrief) = (.queued, false)
        decodes[job] = decode
        let isQuarantined = decode.crashes > 1
        let isPoison = isQuarantined || cause == .cpu
        if isQuarantined {
            refusals.noteDeadly(decode.variant.content, decode.family, unixMs: now.unixMs)
        }
        if !decode.waiters.isEmpty, !isPoison {
            enqueue(job, atFront: !cause.isOwnMaking && !isShared)
            return (nil, nil, isQuarantined)
        }
        guard let end = end(job) else { return nil }
        if decode.waiters.isEmpty { return (end, nil, isQuarantined) }
        let message =
            cause == .cpu
            ? "This image takes more than \(limits.decodeSeconds) s of a processor."
            : "The decoder died twice on this image."
        return (end, WireError(.decoderCrashed, message), isQuarantined)
    }

    // MARK: Partial images

    func isRendering(_ download: JobID) -> Bool { parts.values.contains { $0.download == download } }

    mutating func begin(_ part: PartialDecode, as job: JobID, bytes: Int) -> DecodeJob {
        parts[job] = part
        lastResponsible[part.worker] = part.responsible
        var order = DecodeJob(
            id: job.number, transform: part.transform, maxPixels: limits.maxPixels,
            maxSourcePixels: limits.maxSourcePixels, maxWorkingBytes: limits.maxWorkingBytes)
        order.partialBytes = bytes
        if part.isHeader { order.purpose = .header }
        return order
    }

    mutating func admit(part job: JobID, _ plan: DecodePlan, bytes: Int) {
        parts.change(job) {
            $0.plan = plan
            $0.reserved = bytes
        }
        reservedBytes += bytes
    }

    mutating func end(part job: JobID) -> PartialDecode? {
        guard let part = parts.removeValue(forKey: job) else { return nil }
        reservedBytes -= part.reserved
        return part
    }

    mutating func releaseMemory() {
        decodes.releaseIfEmpty()
        jobByVariant.releaseIfEmpty()
        identifications.releaseIfEmpty()
    }

    // MARK: Invariants

    /// The decodings and identifications on workers, for the report. `download` finds the download whose bytes a job is
    /// about.
    func runningJobs(download: (JobID) -> Download?) -> [RunningJob] {
        let whole = decodes.values.compactMap { decode -> RunningJob? in
            decode.run.map { ($0.worker, $0.startedAt, decode.responsible.sources.first, decode.waiters.first?.uid) }
        }
        let partial = parts.values.map { part -> RunningJob in
            let user = download(part.download)?.waiters.first?.uid
            return (part.worker, part.startedAt, part.responsible.sources.first, user)
        }
        let identified = identifications.compactMap { job, identification -> RunningJob? in
            let source = download(job)
            return identification.run.map { ($0.worker, $0.startedAt, source?.origin, source?.waiters.first?.uid) }
        }
        return whole + partial + identified
    }

    func running(_ family: CodecFamily) -> [JobID: WorkerID] {
        let own = decodes.filter { $0.value.family == family }.compactMapValues { $0.run?.worker }
        guard family == .plain else { return own }
        return own.merging(parts.mapValues(\.worker)) { $1 }
            .merging(identifications.compactMapValues { $0.run?.worker }) { $1 }
    }
    var wantedIdentifications: [JobID: BufferID] { identifications.filter(\.value.isWanted).mapValues(\.body) }
    var waiterCount: Int { decodes.values.reduce(0) { $0 + $1.waiters.count } }
    var workersWithImages: some Collection<WorkerID> { lastResponsible.keys }
    /// The held bodies, once for each decoding.
    var bodies: [BufferID] { decodes.values.map(\.body) }
    var renderedDownloads: [JobID: JobID] { parts.mapValues(\.download) }

    func brokenInvariant() -> String? {
        if decodes.values.contains(where: { $0.waiters.isEmpty && $0.run == nil }) {
            return "a queued decoding without waiters"
        }
        let joinable = decodes.filter { !$0.value.isDetached }
        if jobByVariant.count != joinable.count || jobByVariant.contains(where: { joinable[$1]?.variant != $0 }) {
            return "two decodings of one variant"
        }
        for family in CodecFamily.allCases {
            var jobs = decodes.filter { $0.value.isQueued && $0.value.family == family }.map(\.key)
            if family == .plain { jobs += identifications.filter { $0.value.run == nil }.map(\.key) }
            let queue = family == .plain ? queue : familyQueues[family] ?? JobQueue()
            if queue.count != jobs.count || !jobs.allSatisfy(queue.contains) { return "queue of \(family.rawValue)" }
            if let broken = queue.brokenInvariant() { return "queue of \(family.rawValue): \(broken)" }
        }
        if foreignFormats.count > Self.maximumForeignFormats { return "formats" }
        if !places.keys.allSatisfy({ lastResponsible[$0] != nil }) { return "places in animations" }
        if identifications.count(where: { smallQueue.contains($0.key) && $0.value.run == nil }) != smallQueue.count {
            return "queue of small bodies"
        }
        if identifications.values.count(where: { $0.run != nil }) != runningIdentifications {
            return "running identifications"
        }
        if identifications.values.contains(where: { !$0.isWanted && $0.run == nil }) {
            return "a queued identification that nobody needs"
        }
        if let broken = smallQueue.brokenInvariant() { return "queue of small bodies: \(broken)" }
        let waiting = decodes.filter { if case .parked = $0.value.phase { true } else { false } }
        if Set(waiting.keys) != Set(parked) || parked.count != waiting.count { return "decodings that wait for memory" }
        let reserved =
            decodes.values.reduce(0) { $0 + $1.reserved } + parts.values.reduce(0) { $0 + $1.reserved }
            + identifications.values.reduce(0) { $0 + ($1.run?.early?.reserved ?? 0) }
        if reserved != reservedBytes { return "reserved bytes" }
        let needed = decodes.values.reduce(into: [:]) { $0[$1.body, default: 0] += 1 }
        if heldBodies.mapValues(\.decodings) != needed { return "bodies" }
        var expected = decodes.values.reduce(into: [:]) { $0[$1.user, default: Load()].decodings += 1 }
        for body in heldBodies.values { expected[body.user, default: Load()].bytes += body.bytes }
        if expected != loads { return "loads of users" }
        let total = Load(decodings: decodes.count, bytes: heldBodies.values.reduce(0) { $0 + $1.bytes })
        if total != load { return "load" }
        if writing != Set(decodes.filter { $0.value.reserved > 0 }.keys) { return "decodings that may write" }
        if Set(parts.values.map(\.download)).count != parts.count { return "two partial decodings of one download" }
        return nil
    }
}

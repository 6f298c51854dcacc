import IPCProtocol
import SystemValues
import WorkerProtocol

/// The decoding of an original into a variant. Without waiters, one that runs is finished for the next request.
struct Decode {
    /// Where a decoding is on its worker.
    struct Run {
        let worker: WorkerID
        let startedAt: Instant
        var phase = Phase.readingHeader(deadline: Instant(nanoseconds: .max), room: 0)
    }

    enum Phase {
        /// Until `deadline`. The worker may go on and write a result that fits `room`. → `parked`, `writing` (with the
        /// result); ends when the image is only described.
        case readingHeader(deadline: Instant, room: Int)
        /// Waits for memory, without a deadline. → `writing`.
        case parked(DecodePlan)
        /// The worker fills its output, until a deadline of its own, counted from the admission. Ends when finished or
        /// failed.
        case writing(DecodePlan, reserved: Int, deadline: Instant)

        var plan: DecodePlan? {
            switch self {
            case .readingHeader: nil
            case .parked(let plan), .writing(let plan, _, _): plan
            }
        }

        var reserved: Int {
            switch self {
            case .readingHeader(_, let room): room
            case .parked: 0
            case .writing(_, let reserved, _): reserved
            }
        }

        /// When the worker has taken too long for this phase; nil while it waits for memory.
        var deadline: Instant? {
            switch self {
            case .readingHeader(let deadline, _), .writing(_, _, let deadline): deadline
            case .parked: nil
            }
        }
    }

    enum State {
        /// Waits for the shared tier, which may have the variant. → `queued`; ends with a variant that was found.
        case askingTier
        /// → `running`; ends with its last waiter.
        case queued
        /// → `queued`, if its worker exits, or it was not as brief as expected.
        case running(Run)
    }

    /// The consequence of a header.
    enum HeaderOutcome {
        /// The worker may write when memory allows (`admitNext`).
        case parked
        /// Only a description was requested: nothing is decoded.
        case described
        /// The result would take too much memory.
        case refused(WireError)
        /// The worker planned another result than was ordered.
        case wrongPlan
    }

    let variant: VariantKey
    /// The user whose request has begun it.
    let user: UInt32
    /// Those that the image's cost in decoders is charged to.
    var responsible: Responsible
    /// The encoded bytes, held for as long as the decoding lasts.
    let body: BufferID
    let bodyBytes: Int
    /// The family of the image's format, as far as it is known: the plain one finds out.
    var family: CodecFamily
    var waiters: JobWaiters
    var priority: GetOptions.Priority
    var state = State.queued
    /// When it was queued after a wait for the shared tier; nil without one.
    var queuedAt: Instant?
    /// The workers that died on it by their own making.
    var crashes = 0
    /// Whether the name of the bytes was discarded: the result is for its waiters alone.
    var isDetached = false
    /// Whether a worker may have it among others, as far as the request and the body tell: it was not put back, and no
    /// worker has died with the body.
    var isBrief: Bool

    var run: Run? { if case .running(let run) = state { run } else { nil } }
    var isQueued: Bool { if case .queued = state { true } else { false } }
    var isAskingTier: Bool { if case .askingTier = state { true } else { false } }
    var phase: Phase? { run?.phase }
    var plan: DecodePlan? { phase?.plan }
    var reserved: Int { phase?.reserved ?? 0 }
    func frames(in plan: DecodePlan) -> Int {
        variant.form.transform.map { plan.header.count(of: $0.frames, as: variant.form.encoding) } ?? 1
    }

    mutating func enter(_ phase: Phase) {
        guard case .running(var run) = state else { return }
        run.phase = phase
        state = .running(run)
    }

    /// Completes the order to a worker that was at `place` in an animation, of an image with this header, if it is
    /// known.
    func complete(_ order: inout DecodeJob, known: ImageHeader?, after place: AnimationPlace?) {
        order.pixels = variant.content.pixels
        if let transform = variant.form.transform {
            order.transform = transform
            order.encoding = variant.form.encoding
            // A placeholder shows the first frame.
            order.wantsPlaceholder = known?.placeholder == nil && [.all, .one(0)].contains(transform.frames)
            order.after = place.flatMap { $0.precedes(self) ? $0.job.number : nil }
        } else if variant.form.isHeader {
            order.purpose = .header
            order.transform.metadata = variant.form.metadata
        } else {
            order.purpose = .describe
        }
    }

    /// Decides what follows from a plan. The worker has checked the limits; the decision is made here all the same.
    func outcome(of plan: DecodePlan, maxPixels: Int, maxBytes: Int) -> HeaderOutcome {
        // What stored pixels are, the client has said.
        let pixels = variant.content.pixels
        guard (plan.header.format == .pixels) == (pixels != nil), CodecFamily(plan.header.format) == family,
            pixels.map({ $0.geometry == plan.header.geometry && plan.header.frameCount == 1 }) ?? true
        else { return .wrongPlan }
        let form = variant.form
        // Without the facts, the place of the blocks would be unknown.
        if form.isHeader || !form.metadata.isEmpty, plan.header.facts == nil { return .wrongPlan }
        guard let transform = form.transform else {
            let isAsOrdered = !form.isHeader || plan.result == plan.header.geometry
            let (bytes, overflow) = plan.metadataBytes(form.metadata).addingReportingOverflow(plan.workingBytes)
            guard isAsOrdered, !overflow, bytes <= maxBytes else { return .wrongPlan }
            return plan.metadataBytes(form.metadata) == 0 ? .described : .parked
        }
        let planned = transform.plan(for: plan.header, as: form.encoding)
        if planned?.result != plan.result { return .wrongPlan }
        let frames = self.frames(in: plan)
        if frames == 0 { return .wrongPlan }
        let output = plan.outputBytes(transform, form.encoding)
        let (bytes, overflow) = output.addingReportingOverflow(plan.workingBytes)
        guard plan.result.pixels * frames <= maxPixels, frames <= FrameSelection.most, !overflow, bytes <= maxBytes
        else {
            let size = "\(plan.result.width) × \(plan.result.height)" + (frames > 1 ? " × \(frames)" : "")
            let message = "\(size) pixels are too many, or take too much memory to decode."
            return .refused(WireError(.tooManyPixels, message))
        }
        return .parked
    }

    /// Whether its worker may have gone on after the header without an answer, and `early` can be its result.
    func expects(_ early: EarlyResult, maxPixels: Int, maxBytes: Int) -> Bool {
        guard case .readingHeader(_, let room) = phase, room > 0 else { return false }
        switch outcome(of: early.plan, maxPixels: maxPixels, maxBytes: maxBytes) {
        case .parked, .refused: break
        case .described, .wrongPlan: return false
        }
        return early.plan.outputBytes(as: variant.form) <= room && expects(early.result, of: early.plan)
    }

    /// Whether its worker is about to finish it, and `result` can be its result.
    func expects(_ result: DecodeResult) -> Bool {
        guard case .writing(let plan, let reserved, _) = phase, reserved > 0 else { return false }
        return expects(result, of: plan)
    }

    private func expects(_ result: DecodeResult, of plan: DecodePlan) -> Bool {
        let form = variant.form
        let most = plan.outputBytes(as: form)
        let least = form.encoding == nil ? most : plan.metadataBytes(form.metadata) + 1
        let frames = form.encoding == nil && form.transform?.frames.hasTiming == true ? plan.header.frameCount : nil
        return least <= most && (least...most).contains(result.bytes)
            && result.timing?.delaysMs.count == frames && (result.damage == nil || form.acceptsDamage)
            && (!result.isPreview || form.prefersPreview && result.damage == nil)
    }
}

/// Where a worker has stopped in an animation. It keeps its decoder for some seconds.
struct AnimationPlace {
    let job: JobID
    let content: ContentKey
    /// The index of the next frame.
    let next: Int

    func precedes(_ decode: Decode) -> Bool {
        guard let frames = decode.variant.form.transform?.frames, frames.isRange else { return false }
        return frames.first == next && decode.variant.content == content
    }
}

extension DecodePlan {
    /// The bytes of the buffer to fill: those of metadata blocks alone for a description.
    func outputBytes(as form: Form) -> Int {
        form.transform.map { outputBytes($0, form.encoding) } ?? metadataBytes(form.metadata)
    }
}

/// The decoding of the beginning of a body in flight. It waits neither for a worker nor for memory.
struct PartialDecode {
    let download: JobID
    let transform: Transform
    /// Whether only the header is read.
    var isHeader = false
    let responsible: Responsible
    let worker: WorkerID
    let startedAt: Instant
    /// When the worker has taken too long, from its start to its result.
    let deadline: Instant
    var plan: DecodePlan?
    var reserved = 0

    /// Checks a partial header. Returns nil when the worker planned another result than was ordered; otherwise
    ///
    /// - `output`: the bytes of the result's pixels;
    /// - `needed`: these and the worker's working memory, in bytes; of use only if `fits`, because it may have
    ///   overflowed;
    /// - `fits`: whether the result is within `maxPixels`, and `needed` within `maxBytes`.
    func check(_ plan: DecodePlan, maxPixels: Int, maxBytes: Int) -> (output: Int, needed: Int, fits: Bool)? {
        guard plan.stage != nil, transform.plan(for: plan.header)?.result == plan.result else { return nil }
        let output = plan.outputBytes(transform, nil)
        let (bytes, overflow) = output.addingReportingOverflow(plan.workingBytes)
        return (output, bytes, plan.result.pixels <= maxPixels && !overflow && bytes <= maxBytes)
    }

    /// Whether a plan can be its description: JPEG is the only format whose header is complete before its pixels.
    func isDescribed(by plan: DecodePlan) -> Bool {
        isHeader && plan.header.facts != nil && plan.header.format == .jpeg && plan.result == plan.header.geometry
    }

    func expects(_ result: DecodeResult) -> Bool {
        reserved == result.bytes && result.timing == nil && result.damage == nil && !result.isPreview
    }
}

/// The computation of the digest of complete bytes, a download's or a client's, by a decode worker. The worker does
/// nothing else with them before their digest is known, because bytes that have killed decoders are known by it. A
/// small image may be decoded in the same job, if its digest is none of those.
struct Identification {
    /// A decoding in the same job, and the bytes reserved for its result.
    typealias Early = (form: Form, order: DecodeJob, responsible: Responsible, reserved: Int)

    /// Where it is on its worker.
    struct Run {
        let worker: WorkerID
        /// When the worker has taken too long.
        let deadline: Instant
        let startedAt: Instant
        /// Nil when the bytes are only identified.
        var early: Early?
    }

    let body: BufferID
    /// Nil while it is queued.
    var run: Run?
    /// Whether the digest is still needed.
    var isWanted = true
    /// The workers that died with it by their own making.
    var crashes = 0
    /// Those of them that died of decoding the bytes in the same job.
    var decoderCrashes = 0
    /// Whether the bytes are only identified from now on, because a worker has died of more.
    var isAlone = false

    /// The workers that may die with it. Their deaths have another cause than bytes that are not looked at.
    static let fatalCrashes = 3

    func expects(_ early: EarlyResult) -> Bool {
        guard let order = run?.early, let transform = order.form.transform else { return false }
        let (plan, result) = (early.plan, early.result)
        return transform.plan(for: plan.header)?.result == plan.result
            && plan.result.pixels <= order.order.maxPixels && result.bytes <= order.reserved
            && result.bytes == plan.outputBytes(transform, nil) && result.timing == nil && result.damage == nil
            && (!result.isPreview || transform.prefersPreview)
    }
}

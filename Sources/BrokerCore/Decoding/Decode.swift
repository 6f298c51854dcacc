import IPCProtocol
import SystemValues
import WorkerProtocol

/// The decoding of an original into a variant. Without waiters, one that runs is finished for the next request.
struct Decode {
    /// Where a decoding is on its worker.
    struct Run {
        let worker: WorkerID
        let startedAt: Instant
        var phase = Phase.readingHeader(deadline: Instant(nanoseconds: .max))
    }

    enum Phase {
        /// Until `deadline`. → `parked`; ends when the image is only described.
        case readingHeader(deadline: Instant)
        /// Waits for memory, without a deadline. → `writing`.
        case parked(DecodePlan)
        /// The worker fills its output, until a deadline of its own, counted from the admission. Ends when finished or failed.
        case writing(DecodePlan, reserved: Int, deadline: Instant)

        var plan: DecodePlan? {
            switch self {
            case .readingHeader: nil
            case .parked(let plan), .writing(let plan, _, _): plan
            }
        }

        var reserved: Int { if case .writing(_, let reserved, _) = self { reserved } else { 0 } }

        /// When the worker has taken too long for this phase; nil while it waits for memory.
        var deadline: Instant? {
            switch self {
            case .readingHeader(let deadline), .writing(_, _, let deadline): deadline
            case .parked: nil
            }
        }
    }

    enum State {
        /// Waits for the shared tier, which may have the variant. → `queued`; ends with a variant that was found.
        case askingTier
        /// → `running`; ends with its last waiter.
        case queued
        /// → `queued` once, if its worker exits.
        case running(Run)
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
}

/// The computation of the digest of complete bytes, a download's or a client's, by a decode worker. The worker does nothing else
/// with them before their digest is known, because bytes that have killed decoders are known by it. A small image may be
/// decoded in the same job, if its digest is none of those.
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
}

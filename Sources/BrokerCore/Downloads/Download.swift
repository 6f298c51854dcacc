import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The identity of a download: a forced one (`reload`, `no-store`) never asks whether the cached one is good.
struct DownloadKey: Hashable {
    let original: OriginalKey
    let isForced: Bool
}

/// A download: queued, running, backing off, stopping or received. It belongs to no client.
struct Download {
    /// A transfer that a worker runs.
    struct Transfer {
        let worker: WorkerID
        let startedAt: Instant
        /// When an origin was last heard from.
        var lastActivity: Instant
        /// The origin that it was redirected to; nil while it is at the requested one.
        var redirectedTo: String?
        /// Whether this transfer received a response header. Before that, a continued one may still start over.
        var hasResponded = false
        /// Whether the origin was counted as failing for this transfer's silence.
        var isBlamed = false
        /// Whether it is the only job of its worker.
        let isAlone: Bool
    }

    typealias SharedBody = (since: Instant, digest: ContentDigest)

    enum State {
        /// The shared tier is asked first. → `queued`, `received`; ends with its last waiter, or with a failure that
        /// the tier has.
        case parked
        /// → `running`; `held`; `received` (from the shared tier); ends with its last waiter.
        case queued
        /// → `queued` (lost worker, continuation), `backingOff`, `held`, `stopping`, `received`; ends when confirmed or
        /// failed.
        case running(Transfer)
        /// Waits to be retried. → `queued`; ends with its last waiter.
        case backingOff(until: Instant)
        /// Waits because its origin asked not to be contacted. → `queued`; ends with its last waiter.
        case held(since: Instant)
        /// It has no waiters; its worker was told to stop. Ends when the worker has.
        case stopping(Transfer)
        /// The bytes are complete, in a buffer that the index does not have yet; a decode worker computes their digest.
        /// A `store` and a record of the shared tier had no transfer. Ends when the digest is known.
        case received(BufferID, by: Transfer?)
    }

    let key: DownloadKey
    /// The URL to request. With a cache key of the client's own it is one of several.
    let url: SourceURL
    /// The headers of the requests that wait for it, which are the same.
    let headers: [HeaderField]
    let credentials: Credentials?
    /// The `Cache-Control` of the request, for caches on the way.
    let cacheControl: String?
    /// The user whose request began it.
    let user: UInt32
    var waiters: JobWaiters
    var priority: GetOptions.Priority
    /// The cached original that the origin is asked to confirm.
    let revalidating: OriginalFacts?
    /// Its bytes, if they are in memory: held, as they may be decoded next.
    var revalidatedBody: BufferID?
    var state = State.queued
    /// When it was queued after a wait for the shared tier or its origin's patience; nil without one.
    var queuedAt: Instant?
    /// The origin for whose patience it has waited: the requested one, or the one that it was redirected to.
    var patience: HostTable.Key?
    /// The bytes received; they are reserved memory.
    var received = 0
    /// When the shared tier was asked for the bytes, if it had them, and their digest in its record.
    var shared: SharedBody?
    /// The workers that have written to the product. Those of them that still run may turn out to be compromised.
    var writers: Set<WorkerID> = []
    /// Whether nothing of the body may be kept, because a compromised worker has written to it.
    var isCompromised = false
    /// The part of the body that was rendered as partial images.
    var rendered = PartialProgress()
    /// The response when the body began, the validator by which it can be continued, and its length.
    var response: ResponseRecord?
    var validator: String?
    var total: Int?
    /// The transfers begun, continuations aside.
    var attempts = 0
    /// The continuations, and the number of bytes at the latest one's start.
    var resumptions = 0
    var resumedFrom = 0
    /// Whether its worker died by its own making: it is retried alone on a worker, so that a next death is its own
    /// doing.
    var isSuspect = false
    /// The workers that died by their own making while it was their only job.
    var crashes = 0

    init(
        _ key: DownloadKey, url: SourceURL, headers: [HeaderField] = [], credentials: Credentials? = nil,
        cacheControl: String? = nil,
        waiter: JobWaiter, revalidating: OriginalFacts? = nil, revalidatedBody: BufferID? = nil
    ) {
        (self.key, self.url, self.headers) = (key, url, headers)
        (self.credentials, self.cacheControl) = (credentials, cacheControl)
        (user, waiters, priority) = (waiter.uid, [waiter], waiter.priority)
        (self.revalidating, self.revalidatedBody) = (revalidating, revalidatedBody)
    }

    var owner: JobOwner { waiters.first?.owner ?? JobOwner() }
    var original: OriginalKey { key.original }
    /// The requested origin, for the user whose request began the download.
    var hostKey: HostTable.Key { HostTable.Key(origin: origin, user: user) }
    /// The origin at which the transfer is, for that user.
    var currentHostKey: HostTable.Key { HostTable.Key(origin: transfer?.redirectedTo ?? origin, user: user) }
    var origin: String { url.origin }
    /// The complete bytes, whose digest is being computed.
    var body: BufferID? { if case .received(let body, _) = state { body } else { nil } }
    /// Whether it waits for the shared tier.
    var isParked: Bool { if case .parked = state { true } else { false } }
    var isStopping: Bool { if case .stopping = state { true } else { false } }
    var isHeld: Bool { if case .held = state { true } else { false } }
    var retryAt: Instant? { if case .backingOff(let until) = state { until } else { nil } }

    /// The transfer, running or stopping.
    var transfer: Transfer? {
        get {
            switch state {
            case .running(let transfer), .stopping(let transfer): transfer
            case .parked, .queued, .backingOff, .held, .received: nil
            }
        }
        set {
            guard let newValue else { return }
            state = isStopping ? .stopping(newValue) : .running(newValue)
        }
    }

    /// The start of a continuation; nil when the next transfer must start over.
    var resumption: FetchJob.Resumption? {
        guard let validator, received > 0 else { return nil }
        return FetchJob.Resumption(offset: received, validator: validator, total: total, url: response?.finalURL)
    }

    mutating func start(on worker: WorkerID, at now: Instant) {
        if resumption == nil {
            attempts += 1
            writers = [worker]
        } else {
            resumptions += 1
            resumedFrom = received
            writers.insert(worker)
        }
        state = .running(Transfer(worker: worker, startedAt: now, lastActivity: now, isAlone: isSuspect))
    }

    /// The order to a worker: a request for the body, or for its rest. `cookies` are those of the user's jar.
    func order(_ job: JobID, maxBytes: Int, cookies: [String]?) -> FetchJob {
        var headers = headers
        if let cacheControl, !headers.contains(where: { $0.name == "cache-control" }) {
            headers.append(HeaderField(name: "cache-control", value: cacheControl))
        }
        let resumption = resumption
        return FetchJob(
            id: job.number, url: url.text, headers: headers, credentials: credentials, maxBytes: maxBytes,
            conditions: resumption == nil ? revalidating?.origin.response.conditions : nil, resumption: resumption,
            cookies: cookies, allowInvalidCertificates: original.allowInvalidCertificates)
    }

    /// The response to which a part belongs, because the part's own is less complete (RFC 9111, section 3.4).
    func complete(_ response: ResponseRecord) -> ResponseRecord {
        guard response.status == 206 else { return response }
        var whole = self.response?.refreshed(by: response) ?? response
        whole.status = 200
        return whole
    }

    /// The beginning of the body for a later request; nil if it cannot be continued or is not cacheable.
    func kept(as job: JobID, until: Instant, _ settings: CacheSettings) -> KeptBody? {
        guard let validator, let response, received > 0, body == nil, !isCompromised else { return nil }
        // The beginning of a response must not be kept for users who may not have the whole.
        let policy = CachePolicy(
            response, isShared: original.owner == nil, sendsCookiesFromJar: original.cookies, settings: settings)
        guard policy.storability == .shared || policy.storability == .personal && original.owner != nil
        else { return nil }
        return KeptBody(
            job: job, url: url, user: user, received: received, writers: writers, response: response,
            validator: validator, total: total, until: until)
    }

    /// The origins that are responsible for the body: the one that sent it, and the one that redirected there.
    var responsibleOrigins: [String] { Self.responsibleOrigins(asked: origin, servedBy: response?.servedBy) }

    /// An origin that redirects is not responsible for what the other one serves. But everything it redirects to is
    /// counted together, because otherwise an origin that redirects to ever new names would never be refused.
    static func responsibleOrigins(asked: String, servedBy: String?) -> [String] {
        guard let servedBy, let server = try? SourceURL(servedBy), server.origin != asked else { return [asked] }
        return [server.origin, "what \(asked) redirects to"]
    }
}

/// The beginning of a body, kept for a later request after its download failed or lost its last waiter.
struct KeptBody {
    /// The job that downloaded it: its product is kept under that id.
    let job: JobID
    /// The URL it came from. With a cache key of the client's own it is one of several.
    let url: SourceURL
    /// The user whose request began the download.
    let user: UInt32
    let received: Int
    let writers: Set<WorkerID>
    let response: ResponseRecord
    let validator: String
    let total: Int?
    let until: Instant
}

/// The part of a body in flight that was rendered as partial images.
struct PartialProgress {
    /// The partial decoding that runs, of which there is at most one.
    var job: JobID?
    /// The number of bytes that the latest one had.
    var bytes = 0
    /// The stage of the latest partial image shown.
    var stage = 0
    /// When the next partial decoding may begin.
    var notBefore: Instant?
    /// Whether the header is not read again: it was, or the format has none before its pixels.
    var isHeaderOver = false
    /// Whether no more are made: the format has no partial images, or the image has cost a decoder.
    var isOver = false

    /// Whether another partial decoding may begin, of `received` bytes.
    func mayBegin(received: Int, isHeader: Bool, at now: Instant) -> Bool {
        job == nil && !(isHeader ? isHeaderOver : isOver) && isWorthwhile(received: received)
            && notBefore.map { $0 <= now } ?? true
    }

    /// Ends a partial decoding; with `isLast` no other one is made of this body.
    mutating func end(_ part: JobID, isHeader: Bool, isLast: Bool) {
        guard job == part else { return }
        job = nil
        if isHeader { isHeaderOver = isLast } else { isOver = isLast }
    }

    private func isWorthwhile(received: Int) -> Bool { received - bytes >= max(Self.leastBytes, bytes / 20) }

    mutating func startOver() {
        job = nil
        bytes = 0
        stage = 0
        isHeaderOver = false
    }

    private static let leastBytes = 1024
}

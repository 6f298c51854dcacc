import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// A request for an original that is not answered yet: a `get`, or what the broker asks itself.
struct Waiter {
    /// Who asks.
    enum Purpose: Equatable {
        /// A client.
        case get
        /// A client's `prefetch`.
        case prefetch(PrefetchID)
        /// The broker, as what it has answered with is stale.
        case refresh
        /// A client's `store`: what it gave is to be decoded before it is believed.
        case store(StoreRequest)
    }

    /// Whose job it waits for.
    enum Stage: Equatable {
        case lookingUp(JobID)
        case fetching(JobID)
        case decoding(JobID)
    }

    let id: WaiterID
    let client: ClientID
    let uid: UInt32
    let purpose: Purpose
    let request: GetRequest
    /// The original: the asking user's own as soon as there proves to be one.
    var key: OriginalKey
    let receivedAt: Instant
    var stage: Stage?
    /// Where the bytes come from.
    var source = ImageReply.Source.memory
    /// Where what is cached was found, should it prove to be good.
    var keptIn = ImageReply.Source.memory
    /// What they are, once that is known.
    var original: MemoryIndex.Original?
    /// Whether a job that another request had started is part of the answer.
    var hasJoined = false
    /// Whether the first `progress` frame was sent.
    var hasProgress = false
    /// Whether the disk tier has been asked.
    var hasLookedOnDisk = false
    /// Whether what is cached is the answer, be it as old as it may: the origin has confirmed it, or has failed.
    var isConfirmed = false
    /// Whether the origin has said just now that what is cached is good.
    var isValidated = false
    /// Whether what is cached is no answer: it proved to be no picture, or its bytes are gone.
    var mustLoad = false
    /// Whether the client may be told where to see that the same request would get the same again.
    var isRepeatable = false
    /// Whether what is cached is on its way to the client ahead of the answer (`staleFirst`), or was.
    var isPreviewing = false
    var hasPreviewed = false

    /// Whether what it brings may stay in memory, and on disk.
    var mayEnterMemory: Bool { request.options.cache != .noStore && request.options.storage.includesMemory }
    var mayEnterDisk: Bool { request.options.cache != .noStore && request.options.storage.includesDisk }
}

/// What makes two downloads the same. One that was asked for as `reload` is never a question whether something cached is
/// still good.
struct FetchKey: Hashable {
    let key: OriginalKey
    let isForced: Bool
}

/// A download that is queued or under way, or waits to be tried again. It belongs to no client.
struct FetchFlight {
    let request: FetchKey
    /// The URL to ask: with a client's own name for the original it is one of several.
    let url: SourceURL
    let credentials: Credentials?
    /// What caches on the way to the origin are told, if anything.
    var cacheControl: String?
    var waiters: [WaiterID] = []
    var priority: GetOptions.Priority
    /// What is cached: the origin is asked whether it is still good.
    var revalidating: MemoryIndex.Original?
    /// Its bytes, if they are in memory: held, as they may be decoded next.
    var revalidatedBody: BufferID?
    /// Bytes that a client gave, instead of an origin.
    var given: BufferID?
    /// The worker that runs it; nil while it is queued.
    var worker: WorkerID?
    var startedAt: Instant?
    /// When something was last heard from the origin.
    var lastActivity: Instant?
    /// Until when it waits to be tried again; nil when it does not.
    var retryAt: Instant?
    var received = 0 { didSet { if received == 0 { shown.startOver() } } }
    /// What of it those who want to see it on its way have seen.
    var shown = ShownPart()
    var expected: Int?
    /// What the origin said when the body began; by what that can be continued, and its length.
    var response: ResponseRecord?
    var validator: String?
    var total: Int?
    /// Transfers begun, those that continue another aside.
    var attempts = 0
    /// Transfers that continued another, and how many bytes were there at the last one's start.
    var resumptions = 0
    var resumedFrom = 0
    /// Whether the transfer under way has seen a body's header: until then its worker may or may not have begun anew.
    var hasResponded = false
    /// Whether the origin was blamed for the silence of the transfer under way.
    var isBlamed = false
    /// Whether it was in the hands of a worker that has died by its own making: it is tried again alone, so that what
    /// happens then is its own doing and nobody else's.
    var isSuspect = false
    /// Whether it runs, or has run last, as such.
    var isAlone = false
    /// How many workers that had nothing else to do have died on it by their own making.
    var crashes = 0

    var key: OriginalKey { request.key }
    /// Whether its bytes are a client's.
    var isGiven: Bool { key.nonce != 0 }
    /// What a next transfer can begin with.
    var resumption: FetchJob.Resumption? {
        guard let validator, received > 0 else { return nil }
        return FetchJob.Resumption(offset: received, validator: validator, total: total)
    }
}

/// The beginning of a body that nobody waits for at present.
struct PartialBody {
    /// The job that has brought it: its product is kept under that name.
    let job: JobID
    /// The URL that it was asked of: with a client's own name for the original there are several.
    let url: SourceURL
    let received: Int
    let response: ResponseRecord
    let validator: String
    let total: Int?
    let until: Instant
}

/// A decoding that is queued or under way. It belongs to no client; one that has lost its last waiter while a worker was
/// at it is finished all the same, for the next asker.
struct DecodeFlight {
    let variant: VariantKey
    /// Whose doing the picture is: what it costs in decoders counts for each of these.
    let origins: [String]
    /// The encoded bytes, held for as long as the flight lasts.
    let body: BufferID
    /// How many they are; the index may have forgotten them by the end.
    let bodyBytes: Int
    var waiters: [WaiterID] = []
    var priority: GetOptions.Priority
    /// The worker that runs it; nil while it is queued.
    var worker: WorkerID?
    var startedAt: Instant?
    var plan: DecodePlan?
    /// Bytes reserved for the result; none while it waits for room.
    var reserved = 0
    /// When the worker has taken too long; nil while it waits for room.
    var deadline: Instant?
    /// How many workers it has seen die by their own making.
    var crashes = 0
}

/// A look into the disk tier that is queued or under way.
struct LookupFlight {
    let request: LookupKey
    /// The words of the keys that are looked for, the first being the first to be taken.
    let keys: [OriginalKey]
    var waiters: [WaiterID] = []
    /// The worker that runs it; nil while it is queued.
    var worker: WorkerID?
    /// Whether any of those who wait lets the result stay in memory.
    var mayStay = false
    /// Whether the original is in memory, so that only what was made of it is looked for.
    var isForRaster = false
}

/// What makes two looks into the disk tier the same.
struct LookupKey: Hashable {
    let key: OriginalKey
    /// The asking user, whose own original comes before one for all.
    let uid: UInt32
    let form: Form
}

/// Something else that the disk tier was asked to do.
enum DiskErrand {
    /// Keep a buffer, held until it is done: an original's bytes, or what was made of some.
    case keep(BufferID, bytes: Int, as: OriginalKey?)
    /// Forget a URL: then the client, if one has asked, is told how many originals were forgotten, those in memory
    /// included.
    case forget(Asker?, url: String, owner: UInt32?, inMemory: Set<String>)
    /// Say what is cached.
    case query(Asker?, keys: [OriginalKey], Found)
    /// Empty the tier.
    case clear(Asker?, olderThanSeconds: Int?, removed: Int, bytes: Int)

    /// What memory has of what is queried.
    struct Found {
        let inMemory: Bool
        /// Nil when the original is not there.
        let isFresh: Bool?
        let placeholder: Placeholder?
    }

    /// Who is to be told, and by which name of the request.
    typealias Asker = (client: ClientID, id: Int)

    /// The same errand when its asker has been told already.
    var withoutAsker: DiskErrand {
        switch self {
        case .keep: self
        case .forget(_, let url, let owner, let inMemory): .forget(nil, url: url, owner: owner, inMemory: inMemory)
        case .query(_, let keys, let found): .query(nil, keys: keys, found)
        case .clear(_, let seconds, let removed, let bytes):
            .clear(nil, olderThanSeconds: seconds, removed: removed, bytes: bytes)
        }
    }
}

/// A client's `prefetch`.
struct Prefetch {
    let client: ClientID
    /// The request's name.
    let request: Int
    let uid: UInt32
    let options: GetOptions
    let total: Int
    /// What was not begun yet.
    var left: ArraySlice<SourceURL>
    /// What it weighs among the client's requests.
    let weight: Int
    var running: Set<WaiterID> = []
    var done = 0
    var failed = 0
    /// Whether URLs are being begun just now.
    var isAdvancing = false
}

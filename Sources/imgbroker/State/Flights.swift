import IPCProtocol
import LinuxSystem

/// A `get` that is not answered yet.
struct Waiter {
    /// Whose job it waits for.
    enum Stage: Equatable {
        case lookingUp(JobID)
        case fetching(JobID)
        case decoding(JobID)
    }

    let id: WaiterID
    let client: ClientID
    let request: GetRequest
    let key: OriginalKey
    let receivedAt: Instant
    var stage: Stage?
    /// Where the bytes come from.
    var source = ImageReply.Source.memory
    /// Whether a job that another request had started is part of the answer.
    var hasJoined = false
    /// Whether the first `progress` frame was sent.
    var hasProgress = false
}

/// A download that is queued or under way. It belongs to no client.
struct FetchFlight {
    let key: OriginalKey
    let credentials: Credentials?
    var waiters: [WaiterID] = []
    var priority: GetOptions.Priority
    /// The worker that runs it; nil while it is queued.
    var worker: WorkerID?
    var startedAt: Instant?
    /// When something was last heard from the origin.
    var lastActivity: Instant?
    var received = 0
    var expected: Int?
    /// How many workers it has seen die by their own making.
    var crashes = 0
}

/// A decoding that is queued or under way. It belongs to no client; one that has lost its last waiter while a worker was
/// at it is finished all the same, for the next asker.
struct DecodeFlight {
    let variant: VariantKey
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
    var crashes = 0
}

/// A look into the disk tier that is queued or under way.
struct LookupFlight {
    let request: LookupKey
    var waiters: [WaiterID] = []
    /// The worker that runs it; nil while it is queued.
    var worker: WorkerID?
}

/// What makes two looks into the disk tier the same.
struct LookupKey: Hashable {
    let key: OriginalKey
    let form: Form
}

/// Something else that the disk tier was asked to do.
enum DiskErrand {
    /// Keep a buffer, held until it is done.
    case keep(BufferID, bytes: Int)
    /// Forget a URL: then the client is told how many originals were forgotten, those in memory included.
    case forget(ClientID, id: Int, inMemory: Set<String>)
    /// Say what is cached.
    case query(ClientID, id: Int, inMemory: Bool)
}

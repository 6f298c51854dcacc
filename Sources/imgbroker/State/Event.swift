import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

/// The kinds of worker.
enum WorkerKind: String, CaseIterable, Sendable {
    /// Downloads: many at once.
    case fetch
    /// Decodes: one at a time.
    case decode
    /// The disk tier: one process.
    case cache
}

/// Something that happened outside of the state.
enum Event {
    // Clients.
    case clientConnected(ClientID, uid: UInt32, isAdmin: Bool)
    case clientDisconnected(ClientID)
    case messageReceived(ClientID, ClientMessage)
    /// A message that is wrong; the connection goes on.
    case messageRejected(ClientID, id: Int?, WireError)
    /// A `store` with its bytes, which the shell has.
    case storeReceived(ClientID, StoreRequest, bytes: Int)
    /// Bytes that are no frame: the connection is lost.
    case streamBroken(ClientID, WireError)
    /// A frame has begun to arrive, or the one that had begun is complete.
    case frameBegun(ClientID)
    case frameCompleted(ClientID)
    /// An inline payload was sent completely.
    case payloadSent(ClientID, BufferID)

    // Workers.
    case workerStarted(WorkerID, pid: Int)
    /// It can take jobs; what confines it, and the build of its decoders, where it said so.
    case workerReady(WorkerID, SandboxReport?, build: String? = nil)
    /// It said what is no message, or what it had no right to say.
    case workerMisbehaved(WorkerID, String)
    /// Its socket has ended; its process should, too.
    case workerHungUp(WorkerID)
    /// It was found to be ending before it was told of a download or a decoding.
    case workerEnding(WorkerID, JobID)
    case workerExited(WorkerID, WorkerExit)
    /// A body begins, which can be continued by `validator`.
    case fetchResponded(WorkerID, JobID, ResponseRecord, validator: String?, total: Int?)
    case fetchProgressed(WorkerID, JobID, received: Int, expected: Int?)
    case fetchFinished(WorkerID, JobID, FetchResult)
    case fetchNotModified(WorkerID, JobID, FetchConfirmation)
    case fetchFailed(WorkerID, JobID, FetchFailure)
    /// A transfer that was to be stopped writes no more.
    case fetchStopped(WorkerID, JobID, received: Int)
    case headerRead(WorkerID, JobID, DecodePlan)
    /// The result is complete, and sealed where it was asked for.
    case decodeFinished(WorkerID, JobID, DecodeResult)
    case decodeFailed(WorkerID, JobID, WireError)

    /// What a worker has used of a processor since its job began.
    case processorTimeUsed(WorkerID, JobID, milliseconds: Int)
    /// A worker's memory after a job, in bytes that are its own.
    case workerMeasured(WorkerID, residentBytes: Int)

    // The disk tier.
    case diskReported(DiskReport)
    /// The original was found, and is there as the job's product.
    case foundOriginal(WorkerID, JobID, OriginalRecord)
    case foundRaster(WorkerID, JobID, OriginalRecord, RasterRecord)
    case notFound(WorkerID, JobID)
    case diskQueried(WorkerID, JobID, OriginalRecord?)
    /// What was to be kept is, or is not.
    case keepingEnded(WorkerID, JobID, isKept: Bool)
    case forgotten(WorkerID, JobID, keys: [String])
    case cleared(WorkerID, JobID, removed: Int, bytes: Int)
    /// What an earlier broker wanted to be remembered.
    case quarantineRemembered([QuarantineRecord])

    /// Nothing but that time has passed.
    case timePassed
    /// The process is asked to end.
    case shutdownRequested
}

/// How a worker's process has ended, as far as the shell can tell.
enum WorkerExit: Equatable {
    /// It could not be started.
    case notStarted(String)
    case ended(ProcessExit, ExitCircumstances = ExitCircumstances())
}

/// What was found beside the process that has ended.
struct ExitCircumstances: Equatable {
    /// The kernel has ended processes for want of memory since that was last looked at.
    var isMemoryShort = false
    /// The most memory the process ever had, in bytes.
    var peakBytes = 0
}

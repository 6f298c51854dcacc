import DiskRecords
import IPCProtocol
import WorkerProtocol

/// Something to be done outside of the state, in the order given.
enum Action: Equatable {
    /// What goes with a reply.
    enum Attachment: Equatable {
        case nothing
        /// The buffer's descriptor.
        case descriptor(BufferID)
        /// The buffer's bytes behind the frame.
        case payload(BufferID, count: Int)
        /// The validity page's descriptor.
        case page
    }

    // Clients.
    case reply(ClientID, Reply, Attachment)
    /// Close the connection once everything queued is sent.
    case close(ClientID)

    // Workers.
    case startWorker(WorkerKind, WorkerID)
    case killWorker(WorkerID)
    /// Let a worker end by itself: its socket is closed.
    case retireWorker(WorkerID)
    /// Lay out the next decode workers anew.
    case renewForkServer
    /// Hand over a download; with a resumption, the job's product is there already.
    case startFetch(WorkerID, FetchJob)
    /// Have the bytes of a buffer identified.
    case identify(WorkerID, JobID, BufferID, bytes: Int)
    case stopFetch(WorkerID, JobID)
    case startDecode(WorkerID, DecodeJob, body: BufferID)
    /// Hand over what is there of a download's body, which the worker must not be able to change.
    case startPartialDecode(WorkerID, DecodeJob, of: JobID)
    /// Make a memfd of so many bytes, or of so many at most, and let the worker fill it.
    case provideOutput(WorkerID, JobID, bytes: Int, isExact: Bool)
    case refuseOutput(WorkerID, JobID)
    /// Say how much processor time a worker has used since its job began.
    case measureProcessorTime(WorkerID, JobID)

    // The disk tier.
    case find(WorkerID, JobID, keys: [String], form: String?, rasterOnly: Bool)
    /// These originals were used by way of memory.
    case touch(WorkerID, keys: [String])
    case queryDisk(WorkerID, JobID, keys: [String])
    case keepOriginal(WorkerID, JobID, OriginalRecord, BufferID)
    case keepRaster(WorkerID, JobID, RasterRecord, BufferID)
    /// The origin has confirmed an original: this is what it says of it now.
    case update(WorkerID, OriginalRecord)
    case forget(WorkerID, JobID, url: String, owner: UInt32?)
    case clear(WorkerID, JobID, olderThanSeconds: Int?)
    case rememberQuarantine(WorkerID, [QuarantineRecord])

    // Buffers.
    /// What the job has produced becomes a buffer.
    case publish(JobID, BufferID)
    /// What a client gave becomes a buffer.
    case adopt(ClientID, BufferID)
    /// What the job has produced is not wanted.
    case discard(JobID)
    case dropBuffer(BufferID)

    // The process.
    case stopListening
    case exit
    case log(LogLine)

    /// A line for the log, and how grave it is.
    enum LogLine: Equatable {
        case warning(String)
        case notice(String)
    }
}

import IPCProtocol

/// The two kinds of worker.
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
    case clientConnected(ClientID, uid: UInt32)
    case clientDisconnected(ClientID)
    case messageReceived(ClientID, ClientMessage)
    /// A message that is wrong; the connection goes on.
    case messageRejected(ClientID, id: Int?, WireError)
    /// Bytes that are no frame: the connection is lost.
    case streamBroken(ClientID, WireError)
    /// A frame has begun to arrive, or the one that had begun is complete.
    case frameBegun(ClientID)
    case frameCompleted(ClientID)
    /// An inline payload was sent completely.
    case payloadSent(ClientID, BufferID)

    // Workers.
    case workerReady(WorkerID)
    /// Its socket has ended; its process should, too.
    case workerHungUp(WorkerID)
    case workerExited(WorkerID, WorkerExit)
    case fetchProgressed(WorkerID, JobID, received: Int, expected: Int?)
    case fetchFinished(WorkerID, JobID, FetchResult)
    case fetchFailed(WorkerID, JobID, WireError)
    case headerRead(WorkerID, JobID, DecodePlan)
    /// The pixels are complete, and sealed where they were asked for.
    case decodeFinished(WorkerID, JobID)
    case decodeFailed(WorkerID, JobID, WireError)

    /// A worker's memory after a job, in bytes that are its own.
    case workerMeasured(WorkerID, residentBytes: Int)

    // The disk tier.
    case diskReported(DiskReport)
    /// The original was found, and is there as the job's product.
    case foundOriginal(WorkerID, JobID, OriginalRecord)
    case foundRaster(WorkerID, JobID, OriginalRecord, RasterRecord)
    case notFound(WorkerID, JobID)
    case diskQueried(WorkerID, JobID, found: Bool)
    /// What was to be kept is, or is not.
    case keepingEnded(WorkerID, JobID)
    case forgotten(WorkerID, JobID, keys: [String])

    /// Nothing but that time has passed.
    case timePassed
    /// The process is asked to end.
    case shutdownRequested
}

/// Why a worker is no more.
enum WorkerExit: Equatable {
    /// By its own making: a crash, a failed start.
    case crashed(String)
    /// Someone else ended it, as the kernel does when memory is short.
    case killed(String)
    /// It could not be started.
    case notStarted(String)
    /// It said what is no message, and was ended for it.
    case misbehaved(String)
}

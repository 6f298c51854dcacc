package import DiskRecords
package import HTTPValues
package import IPCProtocol
package import WorkerProtocol

/// Something that happened outside of the state.
package enum Event {
    // MARK: Clients

    case clientConnected(ClientID, uid: UInt32, isAdmin: Bool, seesFigures: Bool = false, namespace: UInt64? = nil)
    /// A connection ended; `isForced` if the client has not ended it itself.
    case clientDisconnected(ClientID, isForced: Bool = false)
    /// A disconnected client's socket stays open and counts, because descriptors were not received.
    case connectionLingers(uid: UInt32)
    /// Such a socket was closed.
    case connectionClosed(uid: UInt32)
    case messageReceived(ClientID, ClientMessage)
    /// A malformed message; the connection goes on.
    case messageRejected(ClientID, id: Int?, WireError)
    /// A `store` with its bytes, which the shell has.
    case storeReceived(ClientID, StoreRequest, bytes: Int)
    /// A `get`, `query` or `remove` of a local file, whose descriptor a helper has.
    case fileRequested(ClientID, ClientMessage, FileID)
    /// A helper has looked at a file; `bad-request` when it cannot be read.
    case fileExamined(FileID, Result<FileFacts, WireError>)
    /// The helper that had a file has ended.
    case fileLost(FileID)
    /// A file was read completely, into the job's product.
    case fileRead(JobID)
    case fileReadFailed(JobID, FileReadFailure)
    /// Bytes that are no frame: the connection must be closed.
    case streamBroken(ClientID, WireError)
    /// A frame has begun to arrive, or the begun one is complete.
    case frameBegun(ClientID)
    case frameCompleted(ClientID)
    /// An inline payload was sent completely.
    case payloadSent(ClientID, BufferID)

    // MARK: Workers

    case workerStarted(WorkerID, pid: Int)
    /// It can take jobs, and reports the version of its program. A decoder also reports its build.
    case workerReady(WorkerID, SandboxReport?, version: String? = ProductVersion.current, build: String? = nil)
    /// It sent a malformed message, or one that it must not send.
    case workerMisbehaved(WorkerID, String)
    /// Its socket has ended; its process should exit.
    case workerHungUp(WorkerID)
    /// Its process was found exiting before it was told of a download or a decoding.
    case workerExiting(WorkerID, JobID)
    case workerExited(WorkerID, WorkerExit)
    /// A transfer goes on at the origin of this URL.
    case fetchRedirected(WorkerID, JobID, to: String)
    /// A body begins, which can be continued by `validator`.
    case fetchResponded(WorkerID, JobID, ResponseRecord, validator: String?, total: Int?, isMultiplexed: Bool? = nil)
    case fetchProgressed(WorkerID, JobID, received: Int, expected: Int?)
    case fetchFinished(WorkerID, JobID, FetchResult)
    case fetchNotModified(WorkerID, JobID, FetchConfirmation)
    case fetchFailed(WorkerID, JobID, FetchFailure)
    /// A transfer that was to be stopped writes no more.
    case fetchStopped(WorkerID, JobID, received: Int)
    /// The digest of a body (64 digits), the sealed early result, and the format if another program decodes it.
    case identified(WorkerID, JobID, digest: String, early: EarlyResult? = nil, format: ImageFormat? = nil)
    /// Another program decodes the image of a decoding.
    case decodeForeign(WorkerID, JobID, ImageFormat)
    case headerRead(WorkerID, JobID, DecodePlan)
    /// The result is complete, in the room that came with the order.
    case decodedAtOnce(WorkerID, JobID, EarlyResult)
    /// The result is complete, and sealed where it was asked for.
    case decodeFinished(WorkerID, JobID, DecodeResult)
    case decodeFailed(WorkerID, JobID, WireError)

    /// The processor time of a worker since its job began.
    case processorTimeUsed(WorkerID, JobID, milliseconds: Int)
    /// A worker's own memory after a job, in bytes.
    case workerMeasured(WorkerID, residentBytes: Int)

    // MARK: The disk tier

    case diskReported(DiskReport)
    /// Hashes of keys that the disk tier has, and whether these were the last.
    case originalsKnown(hashes: [UInt64], isComplete: Bool)
    /// The original was found, and is the job's product.
    case foundOriginal(WorkerID, JobID, OriginalRecord)
    case foundRaster(WorkerID, JobID, OriginalRecord, RasterRecord)
    /// Nothing was found; if that is not certain, it could not be received.
    case notFound(WorkerID, JobID, isCertain: Bool = true)
    case diskQueried(WorkerID, JobID, OriginalRecord?)
    /// Buffers were saved on disk, or could not be.
    case savesFinished(WorkerID, [JobID], isSaved: Bool)
    case forgotten(WorkerID, JobID, keys: [String])
    case cleared(WorkerID, JobID, removed: Int, bytes: Int)
    /// The quarantine that an earlier broker saved.
    case quarantineLoaded([QuarantineRecord])

    // MARK: The shared tier

    /// The original was found, and is the job's product.
    case sharedFound(WorkerID, JobID, SharedRecord)
    /// A record was found that cannot be read: damaged, or written by something else.
    case sharedUnreadable(WorkerID, JobID)
    /// A record without bytes was found.
    case sharedNoted(WorkerID, JobID, SharedRecord)
    /// No record was found.
    case sharedAnswered(WorkerID, JobID, SharedAnswer)
    /// A record was written, or could not be.
    case sharedWritten(WorkerID, JobID)
    /// The servers of the tier with their figures.
    case sharedServersReported([StatsReport.SharedServer])

    /// The settings were read again, for a client's `reload` if there is one.
    case reloaded(Result<Reconfiguration, WireError>, for: (client: ClientID, id: Int)?)
    /// A client is not handed over to the program that is about to take this one's place.
    case clientLeftBehind(ClientID)
    /// A client's `upgrade` has failed, or without an error it has succeeded: this process has taken the other's place.
    case upgradeEnded(ClientID, id: Int, WireError?)
    /// There was no memory for the bytes of a buffer in a segment, or for the segment, if that was new.
    case placeLost(BufferID, segment: Int?)
    /// The machine was suspended for this time, in which the monotonic clock stood still.
    case machineSuspended(milliseconds: Int)
    /// Processes wait for memory.
    case memoryPressure
    /// Time has passed.
    case timePassed
    /// The process is asked to shut down.
    case shutdownRequested
}

/// Settings that take the place of others while the broker runs.
package struct Reconfiguration {
    /// The limits. The numbers of workers and of what takes descriptors are unchanged.
    let limits: BrokerLimits
    /// Whether a download from this numeric address may be accepted.
    let isAllowedAddress: (String) -> Bool
    /// Whether download workers that run with the former settings take no more jobs.
    let replacesFetchers: Bool
    /// The changes, for the client that has asked for them.
    let report: ReloadReport

    package init(
        limits: BrokerLimits, isAllowedAddress: @escaping (String) -> Bool, replacesFetchers: Bool,
        report: ReloadReport
    ) {
        (self.limits, self.isAllowedAddress) = (limits, isAllowedAddress)
        (self.replacesFetchers, self.report) = (replacesFetchers, report)
    }
}

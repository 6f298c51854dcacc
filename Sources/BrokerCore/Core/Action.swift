package import DiskRecords
package import IPCProtocol
package import SystemValues
package import WorkerProtocol

/// Something to be done outside of the state, in the order given.
package enum Action: Equatable {
    package enum Attachment: Equatable {
        case nothing
        /// The buffer's descriptor.
        case descriptor(BufferID)
        /// The buffer's bytes after the frame.
        case payload(BufferID, offset: Int, count: Int)
        /// The validity page's descriptor.
        case page
        /// A segment's descriptor.
        case segment(Int)
    }

    // Clients.
    case reply(ClientID, Reply, Attachment)
    /// Close the connection once everything queued is sent.
    case close(ClientID)

    // Local files.
    /// Make the job's product, and have the file read into it.
    case readFile(JobID, FileID, FileIdentity)
    /// A file's descriptor is not needed any more.
    case releaseFile(FileID)

    // Workers.
    case startWorker(WorkerKind, WorkerID)
    case killWorker(WorkerID)
    /// Close a worker's socket, so that it exits by itself.
    case retireWorker(WorkerID)
    /// Start another fork server, so that the next decoders have another memory layout.
    case respawnForkServer
    /// Hand over a download. Its product is made, but with a resumption it exists already.
    case startFetch(WorkerID, FetchJob)
    case stopFetch(WorkerID, JobID)
    /// Have the digest of a buffer's bytes computed, and a small image decoded into a product of `room` bytes.
    case identify(WorkerID, JobID, BufferID, early: EarlyDecode?, room: Int)
    /// Have a variant made of a buffer's bytes: at once if it fits a product of `room` bytes, else after its header.
    case startDecode(WorkerID, DecodeJob, body: BufferID, room: Int)
    /// Hand over the received part of a download's body, read-only.
    case startPartialDecode(WorkerID, DecodeJob, of: JobID)
    /// Make the job's product, a memfd of this size or of at most this size, and let the worker fill it.
    case provideOutput(WorkerID, JobID, bytes: Int, isExact: Bool)
    case refuseOutput(WorkerID, JobID)
    /// Report the processor time that a worker has used since its job began.
    case measureProcessorTime(WorkerID, JobID)

    // The disk tier.
    case find(WorkerID, JobID, keys: [String], form: String?, rasterOnly: Bool)
    /// These originals were used by way of memory.
    case touch(WorkerID, keys: [String])
    case queryDisk(WorkerID, JobID, keys: [String])
    case saveOriginal(WorkerID, JobID, OriginalRecord, BufferID)
    case saveRaster(WorkerID, JobID, RasterRecord, BufferID)
    /// Save the identity of a local file in place of an original.
    case saveIdentity(WorkerID, JobID, OriginalRecord, text: String)
    /// The origin has confirmed an original with this response.
    case update(WorkerID, OriginalRecord)
    case forget(WorkerID, JobID, url: String, owner: UInt32?)
    /// Remove everything that was made of bytes with these digests.
    case discardOnDisk(WorkerID, JobID, digests: [String])
    case clear(WorkerID, JobID, olderThanSeconds: Int?)
    case saveQuarantine(WorkerID, [QuarantineRecord])

    // The shared tier.
    /// Find the record with this key, or take the lease with this token.
    case findShared(WorkerID, JobID, key: String, token: String?)
    case renewLease(WorkerID, key: String, token: String)
    case releaseLease(WorkerID, key: String, token: String)
    /// Write a record, with the bytes of a buffer or without, and end the lease with this token.
    case writeShared(WorkerID, JobID, SharedRecord, token: String?, BufferID?)
    case removeShared(WorkerID, keys: [String])
    /// Count a record as rejected, and remove it.
    case rejectShared(WorkerID, key: String)

    // Buffers.
    /// The job's product becomes a buffer, in the broker's own memory or a memfd.
    case publish(JobID, BufferID, inBroker: Bool)
    /// The job's product is copied to a place in a segment, and becomes a buffer.
    case place(JobID, BufferID, bytes: Int, Segments.Placement)
    /// A buffer in the broker's own memory is copied to a place in a segment, and lies there.
    case moveIntoSegment(BufferID, Segments.Placement)
    /// Copy these images in segments.
    case move([Segments.Move])
    /// Unmap a segment.
    case endSegment(Int)
    /// The bytes that a client stored become a buffer.
    case adopt(ClientID, BufferID, inBroker: Bool)
    /// The job's product, if there is one, is discarded.
    case discard(JobID)
    case dropBuffer(BufferID)
    /// Keep a memfd of a buffer besides, until `unshare`.
    case share(BufferID)
    case unshare(BufferID)
    /// Write these words to the validity page. Comes before all replies.
    case updateValidity([ValiditySlots.Change])

    // The process.
    /// Read the settings again; `reloaded` answers it.
    case reload(ClientID, id: Int)
    /// Let the installed program take this process's place, when `unfinished` says so; `upgradeEnded` answers it.
    case upgrade(ClientID, id: Int)
    case stopListening
    case exit
    case log(LogRecord)
}

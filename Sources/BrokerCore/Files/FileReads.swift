import IPCProtocol
import SystemValues

/// The files whose descriptors clients have sent, and the reads of their contents: one for each identity, however many
/// requests wait for it.
///
/// It owns the queue of reads and knows who needs a descriptor. The descriptors themselves are with the helper that has
/// received them.
package struct FileReads {
    /// The request that a file came with.
    enum Asker: Equatable {
        case get(WaiterID)
        /// A `query` or `remove`.
        case other(ClientID, ClientMessage)
    }

    /// A read of a file's contents.
    struct Read {
        enum State: Equatable {
            /// → `running`; ends with its last waiter.
            case queued
            /// Its bytes are reserved. → `pausing`; ends when it is finished or has failed.
            case running
            /// The file could not be read; tried again then. → `queued`; ends with its last waiter.
            case pausing(until: Instant)
        }

        let key: OriginalKey
        /// The file whose descriptor is used.
        let file: FileID
        let identity: FileIdentity
        /// The waiters. When the last one leaves, the read is given up; if it is running, its bytes are discarded.
        var waiters: JobWaiters
        var state = State.queued
        var startedAt: Instant?

        var bytes: Int { identity.size }
        var owner: JobOwner { waiters.first?.owner ?? JobOwner() }
    }

    /// The request of each file, unless it has ended, and the read that uses the descriptor.
    private var files: [FileID: (asker: Asker?, read: JobID?)] = [:]
    private var reads: [JobID: Read] = [:]
    private var jobByKey: [OriginalKey: JobID] = [:]
    var queue: JobQueue
    /// A read that has its turn and waits for memory.
    private var next: JobID?
    /// The bytes of running reads.
    private(set) var reservedBytes = 0

    init(limits: BrokerLimits) {
        // A user is a group of its own, of which its share leaves one place free.
        queue = JobQueue(limit: limits.readsAtOnce, groupLimit: limits.readsOfUser + 1, order: limits.queueOrder)
    }

    subscript(job: JobID) -> Read? { reads[job] }
    var waiterCount: Int { reads.values.reduce(0) { $0 + $1.waiters.count } }
    var queued: Int { reads.values.count { $0.state == .queued } }
    func isPausing(_ job: JobID) -> Bool { if case .pausing = reads[job]?.state { true } else { false } }
    func knows(_ file: FileID) -> Bool { files[file] != nil }
    /// The request of a file, unless it has ended.
    func asker(of file: FileID) -> Asker? { files[file]?.asker }

    // MARK: Files

    mutating func insert(_ file: FileID, for asker: Asker) { files[file] = (asker, nil) }

    /// Notes that a file's request has ended; returns whether its descriptor is not needed any more.
    mutating func release(_ file: FileID) -> Bool {
        files.change(file) { $0.asker = nil }
        return forgetUnused(file)
    }

    private mutating func forgetUnused(_ file: FileID) -> Bool {
        guard let known = files[file], known.asker == nil, known.read == nil else { return false }
        files[file] = nil
        return true
    }

    // MARK: Reads

    mutating func join(_ key: OriginalKey, _ waiter: JobWaiter) -> JobID? {
        guard let job = jobByKey[key] else { return nil }
        reads.change(job) { $0.waiters.append(waiter) }
        queue.join(job, waiter.owner)
        if let priority = reads[job]?.waiters.priority { queue.change(job, to: priority) }
        return job
    }

    mutating func setPriority(_ priority: GetOptions.Priority, of waiter: WaiterID, in job: JobID) {
        reads.change(job) { $0.waiters.setPriority(priority, of: waiter) }
        if let highest = reads[job]?.waiters.priority { queue.change(job, to: highest) }
    }

    mutating func enqueue(
        _ key: OriginalKey, _ file: FileID, _ identity: FileIdentity, _ waiter: JobWaiter, as job: JobID
    ) {
        reads[job] = Read(key: key, file: file, identity: identity, waiters: [waiter])
        jobByKey[key] = job
        files.change(file) { $0.read = job }
        push(job)
    }

    /// Starts the next read of a user who may load if there is room for its bytes. A read that runs alone needs no
    /// room.
    ///
    /// - Parameter most: the bytes that all reads together may have reserved.
    mutating func startNext(
        of mayLoad: (JobOwner.User) -> Bool, atMost most: Int, at now: Instant, hasRoom: (Int) -> Bool
    ) -> (job: JobID, read: Read)? {
        if next == nil { next = queue.pop(of: mayLoad) }
        guard let job = next, let read = reads[job] else { return nil }
        guard reservedBytes == 0 || reservedBytes + read.bytes <= most && hasRoom(read.bytes) else { return nil }
        next = nil
        reads.change(job) {
            $0.state = .running
            if $0.startedAt == nil { $0.startedAt = now }
        }
        reservedBytes += read.bytes
        return (job, read)
    }

    /// Takes a running read out. The file is returned if its descriptor is not needed any more.
    mutating func end(_ job: JobID) -> (read: Read, released: FileID?)? {
        guard let read = reads.removeValue(forKey: job) else { return nil }
        if jobByKey[read.key] == job { jobByKey[read.key] = nil }
        switch read.state {
        case .running:
            reservedBytes -= read.bytes
            queue.jobEnded(job)
        case .queued:
            if next == job {
                next = nil
                queue.jobEnded(job)
            } else {
                queue.remove(job)
            }
        case .pausing: break
        }
        guard files[read.file]?.read == job else { return (read, nil) }
        files.change(read.file) { $0.read = nil }
        return (read, forgetUnused(read.file) ? read.file : nil)
    }

    mutating func pause(_ job: JobID, until: Instant) {
        guard let read = reads[job], read.state == .running else { return }
        reservedBytes -= read.bytes
        queue.jobEnded(job)
        reads.change(job) { $0.state = .pausing(until: until) }
    }

    mutating func pauseOver(_ job: JobID, at now: Instant) {
        guard let read = reads[job], case .pausing(let until) = read.state, until <= now else { return }
        reads.change(job) { $0.state = .queued }
        push(job)
    }

    private mutating func push(_ job: JobID) {
        guard let read = reads[job] else { return }
        queue.push(
            job, priority: read.waiters.priority ?? .normal, owner: read.owner,
            group: read.owner.user.uid.map { "\($0)" })
    }

    /// Whether another user's read waits for the memory or the place of a running one.
    mutating func isAwaited(_ job: JobID) -> Bool {
        if let next, queue.user(ofRunning: next) != queue.user(ofRunning: job) { return true }
        return queue.isAwaited(job, isWorkerFree: false)
    }

    func isRunning(_ job: JobID) -> Bool { reads[job]?.state == .running }

    /// Takes a waiter out; returns whether the read has none any more, and is to be ended.
    mutating func leave(_ job: JobID, _ waiter: WaiterID) -> Bool {
        reads.change(job) { $0.waiters.remove(waiter) }
        guard let priority = reads[job]?.waiters.priority else { return reads[job] != nil }
        queue.change(job, to: priority)
        return false
    }

    mutating func releaseMemory() {
        files.releaseIfEmpty()
        reads.releaseIfEmpty()
        jobByKey.releaseIfEmpty()
    }

    func brokenInvariant() -> String? {
        for (job, read) in reads {
            if files[read.file]?.read != job { return "a read whose file is not its own" }
            if read.waiters.isEmpty { return "a read without waiters" }
            if jobByKey[read.key] != job { return "a read that cannot be joined" }
            if read.state == .queued, next != job, !queue.contains(job) { return "a read that is not in the queue" }
        }
        for (key, job) in jobByKey where reads[job]?.key != key { return "a read that is gone" }
        for file in files.values {
            if file.asker == nil, file.read == nil { return "a file that nothing needs" }
            if let read = file.read, reads[read] == nil { return "a file whose read is gone" }
        }
        let running = reads.values.reduce(0) { $0 + ($1.state == .running ? $1.bytes : 0) }
        if running != reservedBytes { return "the reserved bytes of files" }
        return queue.brokenInvariant()
    }
}

/// The reason why a file was not read.
package enum FileReadFailure: Equatable {
    /// It was modified meanwhile: its bytes may be a mixture.
    case changed
    /// It cannot be read by this descriptor.
    case unreadable(String)
    /// Reading it has failed, and may succeed later (`EIO`).
    case failed(String)
    /// The helper has ended.
    case lost
    /// There is no memory for its bytes.
    case noMemory(String)

    /// The error for the request whose file it was.
    var error: WireError {
        switch self {
        case .changed: WireError(.transferFailed, "The file was changed while it was read.")
        case .unreadable(let reason): WireError(.badRequest, "The descriptor cannot be read: \(reason).")
        case .failed(let reason): WireError(.transferFailed, "The file could not be read: \(reason).")
        case .lost: WireError(.transferFailed, "The process that read the file has ended.")
        case .noMemory(let reason): WireError(.outOfMemory, "There is no room for the file: \(reason).")
        }
    }
}

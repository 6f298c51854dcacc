import Digests
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

// Local files, whose descriptors clients send: a helper looks at each, which names its contents, and reads those that
// are not cached.
extension BrokerState {
    // MARK: Requests

    mutating func fileRequested(_ message: ClientMessage, _ file: FileID, from client: ClientID) {
        guard let asking = clients[client] else { return actions.append(.releaseFile(file)) }
        if let refusal = asking.refusal(ofID: message.id) {
            actions.append(.releaseFile(file))
            return reject(nil, of: client, with: refusal)
        }
        switch message {
        case .get(let request): get(request, from: client, asking, file: file)
        case .query(var request):
            if let refusal = expandPreset(of: &request.options, for: asking) {
                actions.append(.releaseFile(file))
                return reject(request.id, of: client, with: refusal)
            }
            ask(.query(request), about: file, id: request.id, from: client, asking)
        case .removeFile(let id, _): ask(message, about: file, id: id, from: client, asking)
        default: actions.append(.releaseFile(file))
        }
    }

    /// Lets a `get` wait until a helper has looked at its file, unless it is refused.
    mutating func open(_ file: FileID, for waiter: Waiter, _ refusal: WireError?, _ asking: Clients.Client) {
        if let refusal = refusal ?? clients.refusal(ofWeight: waiter.request.weight, from: asking) {
            actions.append(.releaseFile(file))
            return fail(waiter, refusal)
        }
        var waiter = waiter
        (waiter.file, waiter.stage) = (file, .opening)
        files.insert(file, for: .get(waiter.id))
        register(waiter)
    }

    private mutating func ask(
        _ message: ClientMessage, about file: FileID, id: Int, from client: ClientID, _ asking: Clients.Client
    ) {
        if let refusal = clients.refusal(ofWeight: 1, from: asking) {
            actions.append(.releaseFile(file))
            return reject(id, of: client, with: refusal)
        }
        clients.began(id, .other, weight: 1, of: client)
        files.insert(file, for: .other(client, message))
        schedule(.file(file), in: GetOptions().totalTimeoutMs)
    }

    /// Notes that a request needs its file no longer.
    mutating func release(_ file: FileID) {
        if files.release(file) { actions.append(.releaseFile(file)) }
    }

    // MARK: Examination

    mutating func fileExamined(_ file: FileID, _ result: Result<FileFacts, WireError>) {
        guard let asker = files.asker(of: file) else { return }
        switch asker {
        case .get(let id):
            guard let waiter = requests[id], waiter.stage == .opening else { return }
            switch checkedSize(result) {
            case .success(let facts):
                requests.nameFile(facts, of: id)
                advance(id)
            case .failure(let error): fail(waiter, error)
            }
        case .other(let client, let message):
            release(file)
            guard let id = message.id, clients.ended(id, of: client), let asking = clients[client] else { return }
            switch (result, message) {
            case (.failure(let error), _): reject(id, of: client, with: error)
            case (.success(let facts), .query(var request)):
                request.url = facts.identity.url
                query(request, from: client, asking)
            case (.success(let facts), _): remove(facts.identity.url, id: id, from: client, asking)
            }
        }
    }

    // Of the result, because a method given to `flatMap` has a copy of all of the state.
    private func checkedSize(_ result: Result<FileFacts, WireError>) -> Result<FileFacts, WireError> {
        guard case .success(let facts) = result else { return result }
        let size = facts.identity.size
        if size <= 0 { return .failure(WireError(.emptyImage, "The file is empty.")) }
        let limit = min(limits.maxFileBytes, memoryBudget.limit)
        if size > limit {
            let message = "The file has \(size) bytes; --max-file and --memory-limit permit \(limit)."
            return .failure(WireError(.tooLarge, message))
        }
        return result
    }

    /// Fails the request of a file that was not examined, or whose helper has ended before it was read.
    mutating func fileLost(_ file: FileID) {
        let error = WireError(.transferFailed, "The process that had the file has ended.")
        guard case .get(let id)? = files.asker(of: file) else { return fileExamined(file, .failure(error)) }
        // One that waits for others' work, or is read, hears of it from there.
        guard let waiter = requests[id], waiter.stage == .opening else { return }
        fail(waiter, error)
    }

    // MARK: Reading

    /// Lets a waiter join the read of its file, or queues one. `startReads` starts it.
    mutating func readFile(for id: WaiterID) {
        requests.setSource(.file, of: id)
        guard let waiter = requests[id], let file = waiter.file, let identity = waiter.identity else { return }
        if let refusal = recentFailure(of: waiter) { return fail(waiter, refusal) }
        let jobWaiter = jobWaiter(for: waiter)
        if let (job, _) = downloads.join(waiter.key, isForced: true, jobWaiter) {
            requests.wait(id, for: .downloading(job), joining: true)
            return decoding.joined(identification: job, downloads[job]?.waiters ?? [])
        }
        if let job = files.join(waiter.key, jobWaiter) { return requests.wait(id, for: .reading(job), joining: true) }
        let job = jobIDs.next()
        files.enqueue(waiter.key, file, identity, jobWaiter, as: job)
        requests.wait(id, for: .reading(job))
    }

    mutating func startReads() {
        let users = usersWithRoom()
        let (limit, others) = (memory.limit, downloads.reservedBytes + decoding.reservedBytes)
        while true {
            let reserved = others + files.reservedBytes
            // The rest is for originals from elsewhere.
            let next = files.startNext(of: users, atMost: limit / 8 * 3, at: now.instant) { reserved + $0 <= limit }
            guard let (job, read) = next else { return }
            actions.append(.readFile(job, read.file, read.identity))
            schedule(.read(job), in: limits.readPatienceMs)
            tell(.started, of: read)
        }
    }

    /// Goes on with the bytes of a file. Large ones need no digest, because the file's identity is their name.
    mutating func fileRead(_ job: JobID) {
        guard let read = endRead(job), let first = read.waiters.first else { return actions.append(.discard(job)) }
        tell(.finished, of: read)
        if let startedAt = read.startedAt {
            ended(.file, from: startedAt, queuedAt: first.since, for: read.waiters)
        }
        let body = publishOriginal(job, bytes: read.identity.size)
        if let content = Self.content(of: read.key), read.identity.size > limits.earlyBodyBytes {
            return serve(read.key, job, read.waiters, content, body, bytes: read.identity.size)
        }
        var download = Download(DownloadKey(original: read.key, isForced: true), url: read.key.url, waiter: first)
        download.waiters = read.waiters
        downloads.insert(download, body, bytes: read.identity.size, as: job)
        decoding.identify(job, body, bytes: read.identity.size, for: read.waiters)
        for waiter in read.waiters { requests.wait(waiter.id, for: .downloading(job)) }
        evictToFit()
    }

    mutating func fileReadFailed(_ job: JobID, _ failure: FileReadFailure) {
        guard let read = files[job] else { return }
        actions.append(.discard(job))
        if case .failed = failure {
            // A disk or server that fails now may work again before the waiters give up.
            let until = now.instant.adding(milliseconds: limits.readPauseMs)
            files.pause(job, until: until)
            return deadlines.add(.readAgain(job), at: until)
        }
        _ = endRead(job)
        tell(.failed, of: read, reason: failure.error.code.rawValue)
        for waiting in read.waiters {
            guard let waiter = requests[waiting.id] else { continue }
            // The others have descriptors of their own, which may still do.
            if waiter.file == read.file { fail(waiter, failure.error) } else { readFile(for: waiting.id) }
        }
    }

    /// Ends a read that nothing waits for. The helper may go on with it, but its bytes are discarded.
    mutating func giveUpRead(_ job: JobID) {
        let isRunning = files.isRunning(job)
        _ = endRead(job)
        if isRunning { actions.append(.discard(job)) }
    }

    /// Fails the requests of a slow read that another user's waits for: the file system may never answer.
    mutating func readTimePassed(_ job: JobID) {
        guard let read = files[job], files.isRunning(job) else { return }
        guard files.isAwaited(job) else { return schedule(.read(job), in: limits.readPatienceMs) }
        let seconds = Double(limits.readPatienceMs) / 1000
        giveUpRead(job)
        let error = WireError(.timeout, "The file was not read within \(seconds) s, and another user's wait.")
        for waiting in read.waiters {
            if let waiter = requests[waiting.id] { fail(waiter, error) }
        }
    }

    private mutating func endRead(_ job: JobID) -> FileReads.Read? {
        guard let (read, released) = files.end(job) else { return nil }
        if let released { actions.append(.releaseFile(released)) }
        return read
    }

    // MARK: The bytes

    mutating func fileIdentified(
        _ job: JobID, _ download: Download, _ received: BufferID, _ digest: ContentDigest, _ early: EarlyVariant?,
        by worker: WorkerID
    ) {
        let content = Self.content(of: download.original) ?? ContentKey(digest: digest, owner: nil)
        note(content, of: worker)
        serve(download.original, job, download.waiters, content, received, bytes: download.received, early: early)
    }

    /// The content of a file by its identity; nil if it might change without another. Its bytes are not needed.
    private static func content(of key: OriginalKey) -> ContentKey? {
        key.nonce == 0 ? ContentKey(digest: key.fileDigest, owner: nil) : nil
    }

    /// Caches the bytes of a file where they may be, and serves their waiters.
    private mutating func serve(
        _ key: OriginalKey, _ job: JobID, _ waiters: JobWaiters, _ content: ContentKey, _ received: BufferID,
        bytes: Int, early: EarlyVariant? = nil
    ) {
        // Earlier results of the same contents are replaced, also on disk: the file may have changed without another
        // identity.
        if waiters.contains(where: { requests[$0.id]?.request.options.cache == .reload }) { forget(key) }
        let staysInMemory = waiters.contains { requests[$0.id]?.mayEnterMemory == true }
        let name = staysInMemory ? key : key.hidden(as: job.number)
        let original = OriginalFacts(
            content: content, bytes: bytes, origin: storedStatement(contentType: nil, for: key),
            staysOffDisk: !waiters.contains { requests[$0.id]?.mayEnterDisk == true })
        // Another size of a known file changes nothing for those that have the others.
        if memory.original(name).map({ $0.content == content && !($0.staysOffDisk && !original.staysOffDisk) }) != true
        {
            dropRemoved(memory.insert(original, for: name))
        }
        let body = adopt(received, content, bytes: bytes, since: nil)
        publish(early, of: content)
        serve(waiters, original, from: body, key: key, reportingProgress: bytes)
        if !staysInMemory { dropRemoved(memory.remove(name)) }
    }

    /// Has the disk tier save the identity of a file in place of its bytes, which are never copied there. So it finds
    /// the rasters that were made of the same contents, and verifies that they belong to them.
    mutating func saveIdentity(_ key: OriginalKey, with raster: BufferID, on worker: WorkerID) {
        guard let original = memory.original(key), !original.isOnDisk else { return }
        let text = key.url.text
        let record = OriginalRecord(
            key: key.word, url: text, owner: nil, digest: original.content.digest.hexadecimal, bytes: text.utf8.count,
            response: original.origin.response)
        beginSaving(raster, bytes: text.utf8.count, as: key, on: worker) {
            .saveIdentity(worker, $0, record, text: text)
        }
    }

    private mutating func tell(_ name: BrokerEvent.Name, of read: FileReads.Read, reason: String? = nil) {
        if !clients.hasSubscribers { return }
        // Each user hears the name that it has given.
        var titles: [UInt32: String] = [:]
        for waiter in read.waiters where titles[waiter.uid] == nil {
            titles[waiter.uid] = requests[waiter.id]?.request.file?.name ?? ""
        }
        for (uid, title) in titles.sorted(by: { $0.key < $1.key }) {
            tell(BrokerEvent(name, file: title, reason: reason), uids: [uid])
        }
    }
}

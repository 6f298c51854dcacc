import BrokerCore
import DiskRecords
import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

// Workers: starting them, handing them jobs, and receiving their reports.
extension Broker {
    func start(_ kind: WorkerKind, _ id: WorkerID) {
        do {
            let (child, socket) = try startProcess(kind)
            let worker = try WorkerProcess(kind, id: id, child, socket, closing: closingMemory)
            workers[id] = worker
            events.append(.workerStarted(id, pid: Int(worker.child.pid)))
            try queue.add(worker.channel.socket.raw, token: Self.token(.worker, id.number))
            try queue.add(worker.child.descriptor.raw, token: Self.token(.workerExit, id.number))
        } catch {
            if let worker = workers.removeValue(forKey: id) { end([worker.child], within: 0) }
            events.append(.workerExited(id, .notStarted("\(error)")))
        }
    }

    /// Starts a process for a worker: a fork of the fork server if that can, otherwise the program.
    private func startProcess(_ kind: WorkerKind) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        if kind == .decode {
            if let forkServer {
                let wasReady = forkServer.isReady
                let worker = wasReady ? forkServer.fork() : nil
                if forkServer.isOld { respawnForkServer() }
                if let worker { return worker }
                if wasReady { log.warning(.worker, "the fork server has made no worker in time") }
            }
            if forkServer == nil { replaceForkServer() }
        }
        return try launcher.start(kind)
    }

    /// Starts the fork server and waits until it is ready, so that the first workers are its forks. No client is served
    /// yet; those of the process whose place this one takes do not wait for a slow one.
    func startForkServer(isTakingOver: Bool) {
        respawnForkServer()
        guard let server = forkServer, !server.waitUntilReady(milliseconds: isTakingOver ? 100 : 1000) else { return }
        if !isTakingOver { dropForkServer() }
    }

    /// Replaces a fork server that has exited, unless it lived for less than a second: another would not, either.
    func replaceForkServer() {
        let now = Instant.now
        dropForkServer()
        if let forkServerStartedAt, now.microseconds(since: forkServerStartedAt) < 1_000_000 { return }
        respawnForkServer()
    }

    /// Starts a fork server with a new memory layout, and kills the present one.
    func respawnForkServer() {
        dropForkServer()
        forkServerStartedAt = .now
        guard let server = try? ForkServer(launcher),
            (try? queue.add(server.socket.raw, token: Self.token(.forkServer))) != nil
        else { return }
        forkServer = server
    }

    private func dropForkServer() {
        guard let server = forkServer else { return }
        queue.remove(server.socket.raw)
        server.child.send(SignalNumber.kill)
        formerServers.append(server.child)
        forkServer = nil
    }

    /// Whether a worker is found exiting, so that it gets no `job`. Its exit is reported a millisecond later, and a
    /// spare may be ready now. A worker that was heard just now is not looked at: the question costs more than handing
    /// over a small image, and a job that is lost is done again.
    private func isExiting(_ worker: WorkerID, before job: JobID) -> Bool {
        guard let process = workers[worker], !process.wasHeard(at: iterationBegunAt), process.child.isEnding else {
            return false
        }
        events.append(.workerExiting(worker, job))
        return true
    }

    func startFetch(_ job: FetchJob, on worker: WorkerID) {
        let id = JobID(number: job.id)
        if isExiting(worker, before: id) { return }
        do {
            var job = job
            // The product of a continued download exists already.
            var begun = job.resumption.flatMap { _ in products[id] }
            if begun?.descriptor?.isSealed == true {
                // Its worker has died between the seal and the report. A sealed file takes no more: all is loaded anew.
                (job.resumption, begun) = (nil, nil)
            }
            // A body that begins gets a file when its worker needs one.
            let product = job.resumption == nil ? nil : try begun ?? Product(name: "imgbroker-original")
            products[id] = product
            send(FetchOrder.fetch(job), product?.descriptor.map { [$0] } ?? [], to: worker) {
                .fetchFailed(worker, id, FetchFailure($0))
            }
        } catch {
            refuseFile(error, for: id, on: worker)
        }
    }

    /// Provides the file for a body that is not small, or does not come at once.
    private func provideFile(for job: JobID, on worker: WorkerID) {
        // The job may have ended, for another reason than its worker's.
        guard state.isRunning(job, on: worker) else { return }
        guard products[job] == nil else {
            return handle(.workerMisbehaved(worker, "it needs a second file for a body"))
        }
        do {
            let product = try Product(name: "imgbroker-original")
            products[job] = product
            send(FetchOrder.file(job: job.number), product.descriptor.map { [$0] } ?? [], to: worker)
        } catch {
            refuseFile(error, for: job, on: worker)
        }
    }

    private func refuseFile(_ error: any Error, for job: JobID, on worker: WorkerID) {
        let error = WireError(.outOfMemory, "There is no room for the download: \(error).")
        handle(.fetchFailed(worker, job, FetchFailure(error)))
        send(FetchOrder.stop(job: job.number), to: worker)
    }

    func identify(_ buffer: BufferID, for job: JobID, _ early: EarlyDecode?, room: Int, on id: WorkerID) {
        if isExiting(id, before: job) { return }
        guard let (bytes, body) = buffers.source(of: buffer), let worker = workers[id] else {
            return events.append(.decodeFailed(id, job, WireError(.internal, "The bytes are gone.")))
        }
        worker.jobBegins(at: iterationBegunAt)
        guard early != nil,
            let product = regionProduct(of: room, on: worker)
                ?? (try? Product(name: "imgbroker-pixels", size: room, mayShrink: true))
        else { return send(DecodeOrder.identify(job: job.number), body, bytes: bytes, to: id) }
        products[job] = product
        send(
            DecodeOrder.identify(job: job.number, early: early, at: product.region?.place),
            body + [product.descriptor].compactMap(\.self), bytes: bytes, to: id)
    }

    func startDecode(_ job: DecodeJob, of body: BufferID, room: Int, on id: WorkerID) {
        let number = JobID(number: job.id)
        guard let worker = workers[id] else { return }
        guard let (bytes, descriptors) = buffers.source(of: body) else {
            let error = WireError(.outOfMemory, "There is no room for the encoded bytes.")
            return events.append(.decodeFailed(id, number, error))
        }
        if isExiting(id, before: number) { return }
        let product = room == 0 ? nil : regionProduct(of: room, on: worker)
        products[number] = product
        begin(job, with: descriptors, bytes: bytes, into: product, on: worker)
    }

    func startPartialDecode(_ job: DecodeJob, of fetch: JobID, on id: WorkerID) {
        guard let worker = workers[id] else { return }
        if isExiting(id, before: Identifier(number: job.id)) { return }
        do {
            guard let body = products[fetch]?.descriptor else {
                throw SystemError("open", code: SystemError.invalidArgument)
            }
            // Opened once more, read-only: a decoder must not be able to change a body that is being downloaded.
            begin(job, with: [try FileDescriptor.open(readingAt: "/proc/self/fd/\(body.raw)")], on: worker)
        } catch {
            let error = WireError(.internal, "The received bytes cannot be read: \(error).")
            events.append(.decodeFailed(id, Identifier(number: job.id), error))
        }
    }

    /// Hands over a job, and notes the processor time that the worker has used before it.
    private func begin(
        _ job: DecodeJob, with descriptors: [FileDescriptor], bytes: [UInt8]? = nil, into product: Product? = nil,
        on worker: WorkerProcess
    ) {
        worker.jobBegins(at: iterationBegunAt)
        send(DecodeOrder.decode(job, at: product?.region?.place), descriptors, bytes: bytes, to: worker.id) {
            .decodeFailed(worker.id, Identifier(number: job.id), $0)
        }
    }

    func provideOutput(of bytes: Int, isExact: Bool, for job: JobID, on worker: WorkerID) {
        if bytes <= configuration.limits.mostSegmentImageBytes, let process = workers[worker],
            let product = regionProduct(of: bytes, on: process)
        {
            products[job] = product
            return send(DecodeOrder.output(job: job.number, at: product.region?.place), to: worker)
        }
        do {
            let product = try Product(name: "imgbroker-pixels", size: bytes, mayShrink: !isExact)
            products[job] = product
            send(DecodeOrder.output(job: job.number), product.descriptor.map { [$0] } ?? [], to: worker)
        } catch {
            let error = WireError(.outOfMemory, "There is no room for the image: \(error).")
            events.append(.decodeFailed(worker, job, error))
            send(DecodeOrder.refuse(job: job.number), to: worker)
        }
    }

    /// A product in a worker's memory, which the worker is given before its first use; nil where each result has a
    /// memfd, and without room.
    private func regionProduct(of bytes: Int, on worker: WorkerProcess) -> Product? {
        guard configuration.limits.mostSegmentImageBytes > 0 else { return nil }
        if worker.memory == nil, let memory = try? WorkerMemory() {
            worker.memory = memory
            send(DecodeOrder.memory, [memory.file], to: worker.id)
        }
        return worker.memory?.region(of: bytes).map { Product($0) }
    }

    /// Has the cache process save contents, as `BufferTable.source` returns them.
    func keep(
        _ order: StoreOrder, _ contents: (bytes: [UInt8]?, descriptors: [FileDescriptor])?, _ job: JobID,
        on worker: WorkerID
    ) {
        guard let contents else { return events.append(.savesFinished(worker, [job], isSaved: false)) }
        send(order, contents.descriptors, bytes: contents.bytes, to: worker) { _ in
            .savesFinished(worker, [job], isSaved: false)
        }
    }

    /// Sends an order, with `bytes` in place of its first descriptor. If no frame can hold it, `failure` states the
    /// event that ends its job instead, because the worker would refuse a longer frame and exit.
    func send(
        _ message: some WorkerMessage, _ descriptors: [FileDescriptor] = [], bytes: [UInt8]? = nil, to id: WorkerID,
        orElse failure: (WireError) -> Event? = { _ in nil }
    ) {
        guard let worker = workers[id] else { return }
        do {
            try worker.channel.enqueue(message, descriptors: descriptors, bytes: bytes)
            if !worker.hasUnsentOrders {
                worker.hasUnsentOrders = true
                unsentOrders.append(worker)
            }
        } catch {
            let problem = "The order \(message.type) of \(error.length) bytes is too long."
            log.warning(.worker, problem)
            if let event = failure(WireError(.internal, problem)) { events.append(event) }
        }
    }

    /// Sends the orders that have come together in an iteration of the event loop, one system call for each worker.
    func sendOrders() {
        while let worker = unsentOrders.popLast() {
            worker.hasUnsentOrders = false
            flush(worker)
        }
    }

    func flush(_ worker: WorkerProcess) {
        if worker.hasEnded { return }
        var (isEmpty, isStalled) = (false, false)
        do throws(SystemError) {
            isEmpty = try worker.channel.flush()
            isStalled = worker.channel.isStalled
        } catch {
            isStalled = [SystemError.noBufferSpace, SystemError.outOfMemory].contains(error.code)
            // A lost worker is noticed by its exit; its jobs go to another one then.
            if !isStalled { return }
        }
        if isStalled { stalledWorkers.insert(worker.id) }
        let isWriting = !isEmpty && !isStalled
        guard isWriting != worker.isWatchedForWriting else { return }
        worker.isWatchedForWriting = isWriting
        try? queue.change(
            worker.channel.socket.raw, token: Self.token(.worker, worker.id.number), reading: true, writing: isWriting)
    }

    /// Receives a worker's reports; returns whether there may be more.
    @discardableResult
    func receive(from worker: WorkerProcess) -> Bool {
        do {
            if worker.isUnheard { return false }
            let fill = try worker.channel.fill()
            if fill == .hasDescriptors {
                // Only the processes of the disk tier and the shared tier have descriptors to send.
                handle(.workerMisbehaved(worker.id, "it sent a descriptor"))
                stopReceiving(from: worker)
                return false
            }
            worker.heardAt = iterationBegunAt
            if fill == .end {
                queue.remove(worker.channel.socket.raw)
                worker.hasEnded = true
                handle(.workerHungUp(worker.id))
                return false
            }
            switch worker.kind {
            case .cache:
                while let (report, descriptors) = try worker.channel.nextMessage(StoreReport.self, mayLose: true) {
                    take(report, descriptors.first, from: worker)
                }
            case .tier:
                while let (report, descriptors) = try worker.channel.nextMessage(TierReport.self, mayLose: true) {
                    take(report, descriptors.first, from: worker)
                }
            case .fetch:
                while let (report, _) = try worker.channel.nextMessage(FetchReport.self) { take(report, from: worker) }
            case .decode, .loader:
                // Nothing is read after a report that it must not make.
                while !worker.isUnheard, let (report, _) = try worker.channel.nextMessage(DecodeReport.self) {
                    take(report, from: worker)
                    if state.isCondemned(worker.id) { stopReceiving(from: worker) }
                }
            }
            // Unexpected descriptors are closed at once; those of the two tiers may precede their message.
            if !worker.kind.sendsDescriptors || !worker.channel.isInsideFrame { worker.channel.closeDescriptors() }
            return fill == .received
        } catch {
            if !worker.isUnheard { handle(.workerMisbehaved(worker.id, "it sent \(error)")) }
            stopReceiving(from: worker)
            return false
        }
    }

    /// Receives what the process of the shared tier has answered by now: what it has not answered will be late.
    func hearTier() {
        guard let tier = workers.values.first(where: { $0.kind == .tier && !$0.hasEnded }) else { return }
        for _ in 0..<Self.mostReceptions where !receive(from: tier) { return }
    }

    /// Bounds the time for which a compromised process is heard.
    private static let mostReceptions = 64

    private func take(_ report: FetchReport, from worker: WorkerProcess) {
        switch report {
        case .ready(let sandbox, let version):
            handle(.workerReady(worker.id, sandbox, version: version))
            measure(worker)
        case .needsFile(let job): provideFile(for: Identifier(number: job), on: worker.id)
        case .progress(let job, let received, let expected):
            handle(.fetchProgressed(worker.id, Identifier(number: job), received: received, expected: expected))
        case .finished(let job, let result):
            let id = JobID(number: job)
            // Another worker's job is not this one's to end.
            guard state.isRunning(id, on: worker.id) else { return }
            // In the frame, a file that it has asked for came too late.
            let bytes = worker.channel.frameBytes
            if let bytes, bytes.count != result.bytes || bytes.count > FetchResult.mostBytesInFrame {
                return handle(.workerMisbehaved(worker.id, "it sent another body than it reported"))
            }
            do throws(SystemError) {
                if let bytes { products[id] = try Self.product(of: bytes) } else { try seal(id, size: result.bytes) }
            } catch {
                let error =
                    bytes == nil
                    ? WireError(.internal, "The download could not be sealed: \(error).")
                    : WireError(.outOfMemory, "There is no room for the download: \(error).")
                return handle(.fetchFailed(worker.id, id, FetchFailure(error)))
            }
            handle(.fetchFinished(worker.id, id, result))
            measure(worker)
        case .failed(let job, let failure):
            handle(.fetchFailed(worker.id, Identifier(number: job), failure))
        case .redirected(let job, let root): handle(.fetchRedirected(worker.id, Identifier(number: job), to: root))
        case .responded(let job, let response, let beginning):
            handle(
                .fetchResponded(
                    worker.id, Identifier(number: job), response, validator: beginning.validator,
                    total: beginning.total, isMultiplexed: beginning.isMultiplexed))
        case .notModified(let job, let confirmation):
            handle(.fetchNotModified(worker.id, Identifier(number: job), confirmation))
            measure(worker)
        case .stopped(let job, let received):
            handle(.fetchStopped(worker.id, Identifier(number: job), received: received))
        }
    }

    private func take(_ report: StoreReport, _ descriptor: FileDescriptor?, from worker: WorkerProcess) {
        // What was found and cannot be received, for want of a free descriptor, is not missing.
        let isLost = descriptor == nil && worker.channel.frameBytes == nil
        switch report {
        case .ready(let sandbox, let version): handle(.workerReady(worker.id, sandbox, version: version))
        case .state(let report): handle(.diskReported(report))
        case .foundOriginal(let job, let record):
            let id = JobID(number: job)
            guard record.bytes <= configuration.limits.maxDownloadBytes,
                accept(worker.channel.frameBytes, descriptor, record.bytes, for: id, worker)
            else { return handle(.notFound(worker.id, id, isCertain: !isLost)) }
            handle(.foundOriginal(worker.id, id, record))
        case .foundRaster(let job, let record, let raster):
            let id = JobID(number: job)
            guard isPlausible(raster), accept(worker.channel.frameBytes, descriptor, raster.bytes, for: id, worker)
            else {
                return handle(.notFound(worker.id, id, isCertain: !isLost))
            }
            handle(.foundRaster(worker.id, id, record, raster))
        case .missing(let job): handle(.notFound(worker.id, Identifier(number: job)))
        case .queried(let job, let record):
            handle(.diskQueried(worker.id, Identifier(number: job), record))
        case .cleared(let job, let removed, let bytes):
            handle(.cleared(worker.id, Identifier(number: job), removed: removed, bytes: bytes))
        case .quarantine(let records): handle(.quarantineLoaded(records))
        case .known(let hashes, let isComplete): handle(.originalsKnown(hashes: hashes, isComplete: isComplete))
        case .kept(let jobs): handle(.savesFinished(worker.id, jobs.map(Identifier.init(number:)), isSaved: true))
        case .notKept(let jobs): handle(.savesFinished(worker.id, jobs.map(Identifier.init(number:)), isSaved: false))
        case .forgotten(let job, let keys): handle(.forgotten(worker.id, Identifier(number: job), keys: keys))
        }
    }

    /// The product of a body that came in a frame. Only small ones stay in the broker's own memory.
    private static func product(of bytes: [UInt8]) throws(SystemError) -> Product {
        if bytes.count <= SmallContents.mostBytes { return Product(bytes: bytes) }
        return Product(sealed: try SealedBuffer(copying: bytes, name: "imgbroker-original"))
    }

    func writeShared(_ record: SharedRecord, token: String?, _ buffer: BufferID?, _ job: JobID, on worker: WorkerID) {
        guard let buffer else {
            return send(TierOrder.note(job: job.number, record, token: token), to: worker) { _ in
                .sharedWritten(worker, job)
            }
        }
        guard let (bytes, contents) = buffers.source(of: buffer) else {
            return events.append(.sharedWritten(worker, job))
        }
        send(TierOrder.keep(job: job.number, record, token: token), contents, bytes: bytes, to: worker) { _ in
            .sharedWritten(worker, job)
        }
    }

    /// Whether a record's contents may be given to clients, as far as its metadata tells.
    private func isPlausible(_ record: SharedRecord) -> Bool {
        if case .variant(let raster) = record.content { isPlausible(raster) } else { record.bytes > 0 }
    }

    private func isPlausible(_ raster: RasterRecord) -> Bool {
        raster.geometry.pixels <= configuration.limits.maxPixels
            && raster.bytes <= Encoding.mostBytes(of: raster.geometry)
    }

    private func take(_ report: TierReport, _ descriptor: FileDescriptor?, from worker: WorkerProcess) {
        func answer(_ job: Int, _ answer: SharedAnswer) {
            handle(.sharedAnswered(worker.id, Identifier(number: job), answer))
        }
        switch report {
        case .ready(let sandbox, let version): handle(.workerReady(worker.id, sandbox, version: version))
        case .found(let job, let record):
            let id = JobID(number: job)
            guard isPlausible(record), accept(nil, descriptor, record.bytes, for: id, worker) else {
                return answer(job, .nothing)
            }
            handle(.sharedFound(worker.id, id, record))
        case .foundSmall(let job, let length):
            let (id, bytes) = (JobID(number: job), worker.channel.frameBytes ?? [])
            guard length <= bytes.count,
                let record = SharedRecord(decoding: bytes[..<length]), record.bytes == bytes.count - length
            else { return handle(.sharedUnreadable(worker.id, id)) }
            guard isPlausible(record), accept(Array(bytes[length...]), nil, record.bytes, for: id, worker) else {
                return answer(job, .nothing)
            }
            handle(.sharedFound(worker.id, id, record))
        case .noted(let job, let record): handle(.sharedNoted(worker.id, Identifier(number: job), record))
        case .leased(let job): answer(job, .leased)
        case .busy(let job): answer(job, .busy)
        case .unavailable(let job): answer(job, .nothing)
        case .kept(let job, _): handle(.sharedWritten(worker.id, Identifier(number: job)))
        case .servers(let servers): handle(.sharedServersReported(servers))
        }
    }

    private func seal(_ job: JobID, size: Int) throws(SystemError) {
        guard let product = products[job] else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        try product.seal(size: size)
    }

    /// Seals a decode worker's result; false if it maps the buffer writable, which no decoder of ours does. The broker
    /// cannot wait until it unmaps it; the buffer goes with the worker.
    private func sealResult(of job: JobID, size: Int, _ worker: WorkerProcess) -> Bool {
        do throws(SystemError) { try seal(job, size: size) } catch {
            handle(.workerMisbehaved(worker.id, "it keeps its result from being sealed: \(error)"))
            return false
        }
        return true
    }

    /// Accepts the bytes in the frame of a tier's report, or else the buffer that came with it, if that is sealed and
    /// of the right size: more would not be charged.
    private func accept(
        _ bytes: [UInt8]?, _ descriptor: FileDescriptor?, _ size: Int, for job: JobID, _ worker: WorkerProcess
    ) -> Bool {
        guard state.isRunning(job, on: worker.id) else { return false }
        if let bytes {
            guard bytes.count == size, size <= SmallContents.mostBytes else { return false }
            products[job] = Product(bytes: bytes)
        } else {
            guard let descriptor, let buffer = try? SealedBuffer(verifying: descriptor, atLeast: size),
                buffer.size == size
            else { return false }
            products[job] = Product(sealed: buffer)
        }
        return true
    }

    /// Reports a worker's own memory after a job to the state. Jobs that follow at once are measured together.
    private func measure(_ worker: WorkerProcess) {
        if iterationBegunAt.microseconds(since: worker.measuredAt) < WorkerProcess.measuringPause { return }
        worker.measuredAt = iterationBegunAt
        if let bytes = worker.child.residentBytes { handle(.workerMeasured(worker.id, residentBytes: bytes)) }
    }

    private func take(_ report: DecodeReport, from worker: WorkerProcess) {
        switch report {
        case .ready(let sandbox, let version, let build):
            handle(.workerReady(worker.id, sandbox, version: version, build: build))
            measure(worker)
        case .header(let job, let header): handle(.headerRead(worker.id, Identifier(number: job), header))
        case .decoded(let job, let result):
            let id = JobID(number: job)
            if !isResult(result, of: id, worker) { return }
            handle(.decodedAtOnce(worker.id, id, result))
            measure(worker)
        case .finished(let job, let result):
            let id = JobID(number: job)
            guard state.expects(result, of: id, on: worker.id) else {
                return handle(.workerMisbehaved(worker.id, "it reported a result without being asked"))
            }
            if !sealResult(of: id, size: result.bytes, worker) { return }
            handle(.decodeFinished(worker.id, id, result))
            measure(worker)
        case .failed(let job, let error): handle(.decodeFailed(worker.id, Identifier(number: job), error))
        case .foreign(let job, let format): handle(.decodeForeign(worker.id, Identifier(number: job), format))
        case .identified(let job, let digest, let early, let format):
            let id = JobID(number: job)
            if let early, !isResult(early, of: id, worker) { return }
            handle(.identified(worker.id, id, digest: digest, early: early, format: format))
            measure(worker)
        }
    }

    /// Seals a result that was made without an answer to its header, if it can be that of the job.
    private func isResult(_ early: EarlyResult, of job: JobID, _ worker: WorkerProcess) -> Bool {
        guard state.expects(early, of: job, on: worker.id) else {
            handle(.workerMisbehaved(worker.id, "it made another result than was ordered"))
            return false
        }
        return sealResult(of: job, size: early.result.bytes, worker)
    }

    /// Reads no more of a condemned worker's reports, however many it sends.
    private func stopReceiving(from worker: WorkerProcess) {
        worker.isUnheard = true
        queue.remove(worker.channel.socket.raw)
    }

    /// Takes the exit of a worker, after its last reports.
    func reap(_ worker: WorkerProcess) {
        guard let exit = worker.child.reap() else { return }
        // Its socket need not have ended, because another process may hold it.
        while !worker.hasEnded, receive(from: worker) {}
        queue.remove(worker.channel.socket.raw)
        queue.remove(worker.child.descriptor.raw)
        workers[worker.id] = nil
        var found = ExitCircumstances(peakBytes: worker.child.peakBytes)
        if exit == .signal(SignalNumber.kill), !state.isCondemned(worker.id) {
            found.isMemoryShort = memoryShortage.takeKill()
        }
        handle(.workerExited(worker.id, .ended(exit, found)))
    }
}

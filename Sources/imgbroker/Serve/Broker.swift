import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache

/// The shell around the state: turns what the kernel reports into events, and performs the actions they lead to. One
/// thread; nothing in it waits but the event queue.
final class Broker {
    private enum Source: UInt64 {
        case listener, timer, signals, client, worker, workerExit
    }

    private let configuration: Configuration
    private let launcher: WorkerLauncher
    private let log: Log
    private let listener: ListeningSocket
    private let queue: EventQueue
    private let timer: Timer
    private let signals: Signals
    private let maximumClients: Int

    private var state: BrokerState
    private var events: [Event] = []
    private var clients: [ClientID: ClientConnection] = [:]
    private var clientIDs = IdentifierSource<ClientKind>()
    private var unflushed: Set<ClientID> = []
    private var workers: [WorkerID: WorkerProcess] = [:]
    private var products: [JobID: Product] = [:]
    private var buffers: [BufferID: SealedBuffer] = [:]
    private var timerSetTo: Instant?
    private var isAccepting = true
    private var isFinished = false

    /// Prepares everything but the workers: they start with `run`.
    init(
        _ configuration: Configuration, launcher: WorkerLauncher, listener: ListeningSocket, log: Log
    ) throws(SystemError) {
        self.configuration = configuration
        self.launcher = launcher
        self.listener = listener
        self.log = log
        let descriptors = CurrentProcess.raiseDescriptorLimit()
        maximumClients = max(descriptors / 4, 16)
        var limits = configuration.limits
        limits.memoryEntries = min(limits.memoryEntries, max(descriptors / 2, 16))
        let policy = configuration.addressPolicy
        state = BrokerState(
            limits: limits, isAllowedAddress: { IPAddress($0).map(policy.permits) ?? false }, at: .now)
        // SIGPIPE is among them only to be silent: sendfile cannot be told not to raise it.
        signals = try Signals([Signals.terminate, Signals.interrupt, Signals.hangup, Signals.brokenPipe])
        queue = try EventQueue()
        timer = try Timer()
        try queue.add(listener.descriptor.raw, token: Self.token(.listener))
        try queue.add(timer.descriptor.raw, token: Self.token(.timer))
        try queue.add(signals.descriptor.raw, token: Self.token(.signals))
    }

    /// Serves until a signal asks it to end, and leaves nothing behind.
    func run() {
        let limits = configuration.limits
        log.notice(
            "listening at \(listener.path), decode workers: \(limits.workers), download workers: \(limits.fetchers), "
                + "memory: \(ByteCount(limits.memoryBytes))")
        handle(.timePassed)
        while !isFinished {
            if state.nextReminder != timerSetTo {
                timerSetTo = state.nextReminder
                timer.set(to: timerSetTo)
            }
            do {
                for event in try queue.wait(milliseconds: isAccepting ? nil : 100) { dispatch(event) }
            } catch {
                log.error("\(error)")
                break
            }
            flushClients()
            resumeAccepting()
        }
        end()
    }

    private static func token(_ source: Source, _ number: Int = 0) -> UInt64 {
        source.rawValue << 56 | UInt64(number)
    }

    private func dispatch(_ event: EventQueue.Event) {
        let number = Int(event.token & (1 << 56 - 1))
        switch Source(rawValue: event.token >> 56) {
        case .listener: accept()
        case .timer:
            // Setting it also makes it unreadable: nothing may be due any more, and the loop would not rest.
            timer.set(to: nil)
            timerSetTo = nil
            handle(.timePassed)
        case .signals:
            while let signal = signals.next() {
                if signal == Signals.brokenPipe { continue }
                log.notice("ending")
                handle(.shutdownRequested)
            }
        case .client:
            guard let client = clients[Identifier(number: number)] else { return }
            if event.writable { unflushed.insert(client.id) }
            if event.readable { receive(from: client) }
        case .worker:
            guard let worker = workers[Identifier(number: number)] else { return }
            if event.writable { flush(worker) }
            if event.readable { receive(from: worker) }
        case .workerExit:
            if let worker = workers[Identifier(number: number)] { reap(worker) }
        case nil: break
        }
    }

    /// Lets the state handle an event, and performs what follows; that may lead to further events.
    private func handle(_ event: Event) {
        events.append(event)
        // Actions add to the list when something fails; the outermost call works it off.
        guard events.count == 1 else { return }
        while let event = events.first {
            for action in state.handle(event, at: .now) { perform(action) }
            events.removeFirst()
        }
    }

    private func perform(_ action: Action) {
        switch action {
        case .reply(let client, let reply, let attachment): send(reply, attachment, to: client)
        case .close(let client):
            clients[client]?.isClosing = true
            unflushed.insert(client)
        case .startWorker(let kind, let worker): start(kind, worker)
        case .killWorker(let worker): workers[worker]?.child.send(Signals.kill)
        case .startFetch(let worker, let job): startFetch(job, on: worker)
        case .stopFetch(let worker, let job): send(FetchOrder.stop(job: job.number), to: worker)
        case .startDecode(let worker, let job, let body):
            guard let buffer = buffers[body] else {
                let error = WireError(.internal, "The encoded bytes are gone.")
                return events.append(.decodeFailed(worker, Identifier(number: job.id), error))
            }
            send(DecodeOrder.decode(job), [buffer.descriptor], to: worker)
        case .provideOutput(let worker, let job, let bytes): provideOutput(of: bytes, for: job, on: worker)
        case .refuseOutput(let worker, let job): send(DecodeOrder.refuse(job: job.number), to: worker)
        case .publish(let job, let buffer): buffers[buffer] = products.removeValue(forKey: job)?.sealed
        case .discard(let job): products[job] = nil
        case .dropBuffer(let buffer): buffers[buffer] = nil
        case .stopListening:
            queue.remove(listener.descriptor.raw)
            listener.remove()
        case .exit: isFinished = true
        case .log(.warning(let text)): log.warning(text)
        case .log(.notice(let text)): log.notice(text)
        }
    }

    // MARK: Clients

    private func accept() {
        // A few at a time, so that a flood of connections does not keep the loop.
        for _ in 0..<64 {
            if clients.count >= maximumClients { return pauseAccepting() }
            do {
                guard let socket = try UnixSocket.accept(from: listener.descriptor) else { return }
                let peer = try UnixSocket.peerCredentials(of: socket)
                let client = ClientConnection(id: clientIDs.next(), socket: socket)
                try queue.add(socket.raw, token: Self.token(.client, client.id.number))
                clients[client.id] = client
                handle(.clientConnected(client.id, uid: peer.uid))
            } catch {
                log.warning("a connection could not be accepted: \(error)")
                if [SystemError.tooManyOpenFiles, SystemError.tooManyOpenFilesInSystem].contains(error.code) {
                    return pauseAccepting()
                }
            }
        }
    }

    /// Leaves new connections in the backlog for a moment: the listener would be reported again and again.
    private func pauseAccepting() {
        queue.remove(listener.descriptor.raw)
        isAccepting = false
    }

    private func resumeAccepting() {
        guard !isAccepting, !state.isDraining, clients.count < maximumClients else { return }
        isAccepting = (try? queue.add(listener.descriptor.raw, token: Self.token(.listener))) != nil
    }

    private func receive(from client: ClientConnection) {
        // Nothing is read from it any more, so this is news of its end.
        if client.isClosing { return disconnect(client) }
        do {
            switch try client.channel.fill() {
            case .wouldBlock: return
            case .end: return disconnect(client)
            case .received: break
            }
        } catch {
            return disconnect(client)
        }
        // No message of a client brings descriptors.
        client.channel.closeDescriptors()
        var hasCompleted = false
        while !client.isClosing, let outcome = nextMessage(from: client) {
            hasCompleted = true
            let hits = state.counters.hitCount
            let begun = Instant.now
            handle(outcome)
            if state.counters.hitCount > hits {
                state.counters.hits.record(microseconds: Instant.now.microseconds(since: begun))
            }
        }
        noteArrival(client, hasCompleted: hasCompleted)
        unflushed.insert(client.id)
    }

    private func nextMessage(from client: ClientConnection) -> Event? {
        let text: ArraySlice<UInt8>
        do {
            guard let frame = try client.channel.nextFrame() else { return nil }
            text = frame
        } catch {
            let message = "A frame of \(error.length) bytes: only 1 to \(Frame.maximumLength) are allowed."
            return .streamBroken(client.id, WireError(.badFrame, message))
        }
        do {
            let (decoded, envelope) = try ClientMessage.decode(text)
            if envelope.payload > configuration.limits.maxDownloadBytes {
                let message = "A payload of \(envelope.payload) bytes is too long."
                return .streamBroken(client.id, WireError(.badFrame, message))
            }
            client.channel.skipPayload(envelope.payload)
            switch decoded {
            case .message(let message): return .messageReceived(client.id, message)
            case .rejected(let id, let error): return .messageRejected(client.id, id: id, error)
            }
        } catch {
            let message = "Not a JSON object: expected \(error.expected) at byte \(error.offset)."
            return .streamBroken(client.id, WireError(.badFrame, message))
        }
    }

    /// Tells the state when a frame begins that is not complete yet, and when it is.
    private func noteArrival(_ client: ClientConnection, hasCompleted: Bool) {
        if client.hasBegunFrame, hasCompleted || !client.channel.isInsideFrame {
            client.hasBegunFrame = false
            handle(.frameCompleted(client.id))
        }
        if !client.hasBegunFrame, client.channel.isInsideFrame {
            client.hasBegunFrame = true
            handle(.frameBegun(client.id))
        }
    }

    private func send(_ reply: Reply, _ attachment: Action.Attachment, to client: ClientID) {
        guard let connection = clients[client] else { return }
        var reply = reply
        if case .stats(let id, var report) = reply {
            report[.openDescriptors] = CurrentProcess.openDescriptors
            reply = .stats(id: id, report)
        }
        switch attachment {
        case .nothing: connection.channel.enqueue(reply.encoded())
        case .descriptor(let buffer):
            connection.channel.enqueue(reply.encoded(), descriptors: buffers[buffer].map { [$0.descriptor] } ?? [])
        case .payload(let buffer, let count):
            let payload = buffers[buffer].map {
                FrameChannel.FilePayload(file: $0.descriptor, count: count, name: buffer.number)
            }
            connection.channel.enqueue(reply.encoded(), payload: payload)
        }
        unflushed.insert(client)
    }

    private func flushClients() {
        while let id = unflushed.popFirst() {
            guard let client = clients[id] else { continue }
            do {
                let isEmpty = try client.channel.flush()
                for buffer in client.channel.takeSentPayloads() {
                    handle(.payloadSent(client.id, Identifier(number: buffer)))
                }
                if isEmpty, client.isClosing {
                    disconnect(client)
                } else if client.channel.queuedBytes > ClientConnection.maximumQueuedBytes {
                    log.warning("a client that does not read its answers is disconnected")
                    disconnect(client)
                } else {
                    let wanted = client.wanted
                    if wanted != client.watched {
                        client.watched = wanted
                        try queue.change(
                            client.channel.socket.raw, token: Self.token(.client, id.number), reading: wanted.reading,
                            writing: wanted.writing)
                    }
                }
            } catch {
                disconnect(client)
            }
        }
    }

    private func disconnect(_ client: ClientConnection) {
        queue.remove(client.channel.socket.raw)
        clients[client.id] = nil
        unflushed.remove(client.id)
        handle(.clientDisconnected(client.id))
    }

    // MARK: Workers

    private func start(_ kind: WorkerKind, _ id: WorkerID) {
        do {
            let worker = try WorkerProcess(kind, id: id, launcher: launcher)
            workers[id] = worker
            try queue.add(worker.channel.socket.raw, token: Self.token(.worker, id.number))
            try queue.add(worker.child.descriptor.raw, token: Self.token(.workerExit, id.number))
        } catch {
            if let worker = workers.removeValue(forKey: id) {
                worker.child.send(Signals.kill)
                _ = worker.child.waitForExit(milliseconds: 1000)
            }
            events.append(.workerExited(id, .notStarted("\(error)")))
        }
    }

    private func startFetch(_ job: FetchJob, on worker: WorkerID) {
        let id = JobID(number: job.id)
        do {
            let product = try Product(name: "imgbroker-original")
            products[id] = product
            send(FetchOrder.fetch(job), product.descriptor.map { [$0] } ?? [], to: worker)
        } catch {
            let error = WireError(.outOfMemory, "There is no room for the download: \(error).")
            events.append(.fetchFailed(worker, id, error))
            send(FetchOrder.stop(job: job.id), to: worker)
        }
    }

    private func provideOutput(of bytes: Int, for job: JobID, on worker: WorkerID) {
        do {
            let product = try Product(name: "imgbroker-pixels", size: bytes)
            products[job] = product
            send(DecodeOrder.output(job: job.number), product.descriptor.map { [$0] } ?? [], to: worker)
        } catch {
            let error = WireError(.outOfMemory, "There is no room for the picture: \(error).")
            events.append(.decodeFailed(worker, job, error))
            send(DecodeOrder.refuse(job: job.number), to: worker)
        }
    }

    private func send(_ message: some WorkerMessage, _ descriptors: [FileDescriptor] = [], to id: WorkerID) {
        guard let worker = workers[id] else { return }
        worker.channel.enqueue(message, descriptors: descriptors)
        flush(worker)
    }

    private func flush(_ worker: WorkerProcess) {
        // A worker that is gone is noticed by its end; its jobs go to another then.
        guard !worker.hasEnded, let isEmpty = try? worker.channel.flush(), isEmpty == worker.isWatchedForWriting else {
            return
        }
        worker.isWatchedForWriting = !isEmpty
        try? queue.change(
            worker.channel.socket.raw, token: Self.token(.worker, worker.id.number), reading: true, writing: !isEmpty)
    }

    private func receive(from worker: WorkerProcess) {
        do {
            if try worker.channel.fill() == .end {
                queue.remove(worker.channel.socket.raw)
                worker.hasEnded = true
                return handle(.workerHungUp(worker.id))
            }
            switch worker.kind {
            case .fetch:
                while let (report, _) = try worker.channel.nextMessage(FetchReport.self) { take(report, from: worker) }
            case .decode:
                while let (report, _) = try worker.channel.nextMessage(DecodeReport.self) { take(report, from: worker) }
            }
        } catch {
            worker.misbehaviour = worker.misbehaviour ?? "\(error)"
            worker.child.send(Signals.kill)
        }
    }

    private func take(_ report: FetchReport, from worker: WorkerProcess) {
        switch report {
        case .ready: handle(.workerReady(worker.id))
        case .progress(let job, let received, let expected):
            handle(.fetchProgressed(worker.id, Identifier(number: job), received: received, expected: expected))
        case .finished(let job, let result):
            let id = JobID(number: job)
            do {
                try products[id]?.seal(size: result.bytes)
                handle(.fetchFinished(worker.id, id, result))
            } catch {
                handle(.fetchFailed(worker.id, id, WireError(.internal, "The download could not be sealed: \(error).")))
            }
        case .failed(let job, let error): handle(.fetchFailed(worker.id, Identifier(number: job), error))
        }
    }

    private func take(_ report: DecodeReport, from worker: WorkerProcess) {
        switch report {
        case .ready: handle(.workerReady(worker.id))
        case .header(let job, let header): handle(.headerRead(worker.id, Identifier(number: job), header))
        case .finished(let job, let bytes):
            let id = JobID(number: job)
            do {
                try products[id]?.seal(size: bytes)
                handle(.decodeFinished(worker.id, id))
            } catch {
                handle(.decodeFailed(worker.id, id, WireError(.internal, "The picture could not be sealed: \(error).")))
            }
        case .failed(let job, let error): handle(.decodeFailed(worker.id, Identifier(number: job), error))
        }
    }

    /// Deals with a worker that has ended: first with what it had still said.
    private func reap(_ worker: WorkerProcess) {
        guard let exit = worker.child.reap() else { return }
        while !worker.hasEnded, worker.misbehaviour == nil { receive(from: worker) }
        queue.remove(worker.channel.socket.raw)
        queue.remove(worker.child.descriptor.raw)
        workers[worker.id] = nil
        handle(.workerExited(worker.id, worker.classify(exit)))
    }

    // MARK: The end

    private func end() {
        flushClients()
        clients = [:]
        listener.remove()
        // A worker ends by itself when its socket does; whoever does not is ended.
        let children = workers.values.map(\.child)
        workers = [:]
        let deadline = Instant.now.adding(milliseconds: 500)
        for child in children {
            let left = max(0, deadline.microseconds(since: .now) / 1000)
            if child.waitForExit(milliseconds: left) == nil {
                child.send(Signals.kill)
                _ = child.waitForExit(milliseconds: 1000)
            }
        }
    }
}

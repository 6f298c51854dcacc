import BrokerCore
import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache
import SystemValues
import WorkerProtocol

/// The shell around the state: it turns the kernel's reports into events, and performs the actions they lead to. It has
/// one thread, on which only the event queue waits; settings are read on another (`SettingsReading`).
final class Broker {
    enum Source: UInt64 {
        case listener, timer, signals, client, worker, workerExit, forkServer, receiver, pressure, clock, watchdog,
            settings
    }

    /// The time that one iteration of the event loop spends on messages of all clients.
    private static let microsecondsForClients = 1000
    /// The poll interval for work without a readiness event.
    private static let retryMilliseconds = 100
    /// The time without an event, in milliseconds, after which freed memory is given back.
    private static let quietTime = 2000

    /// The sources of the configuration, as they were last read.
    var settings: Settings
    var configuration: Configuration
    var launcher: WorkerLauncher
    var log: Log
    /// The limit of the broker's control group in bytes; nil without one.
    let groupBytes: Int?
    /// The limit of descriptors at the start.
    let descriptors: Int
    let listener: ListeningSocket
    let queue: EventQueue
    private let timer: Timer
    /// Due when the service manager expects a sign of life; nil if it expects none.
    private var watchdog: Timer?
    private let signals: Signals
    let maximumClients: Int

    var state: BrokerState
    /// Events that actions have led to.
    var events: [Event] = []
    private var isHandling = false
    /// When the state was given the latest event.
    var handledAt = Instant.now
    var clients: [ClientID: ClientConnection] = [:]
    let receiveBuffer = FrameChannel.ReceiveBuffer()
    var clientIDs = IdentifierSource<ClientKind>()
    var unflushed: Set<ClientID> = []
    /// Clients with unread messages, in the order of their turns.
    private var turns = ClientTurns()
    /// The bytes that clients are sending: payloads, files to be copied, and long frames.
    var arriving: SharedPool
    /// Descriptors of replies that are not sent. A client can release their buffers before.
    var unsentDescriptors: SharedPool
    /// Descriptors sent to clients and not received yet.
    var unread: UnreadDescriptors
    /// Clients whose descriptors wait until other clients have received theirs; polled every 100 ms.
    var stalled: Set<ClientID> = []
    var stalledWorkers: Set<WorkerID> = []
    /// Workers with orders that are sent before the event loop waits.
    var unsentOrders: [WorkerProcess] = []
    var workers: [WorkerID: WorkerProcess] = [:]
    /// The fork server for decode workers; without one, they are started as programs.
    var forkServer: ForkServer?
    var forkServerStartedAt: Instant?
    /// Fork servers that are exiting; polled in each iteration, and every 100 ms.
    var formerServers: [ChildProcess] = []
    var products: [JobID: Product] = [:]
    let buffers: BufferTable
    /// Buffers for which there was no memory in their segment, until the state knows.
    var lostPlaces: Set<BufferID> = []
    /// The bytes of `store`s that the state is about to accept or refuse.
    var uploads: [ClientID: SealedBuffer] = [:]
    /// Tells a worker that the kernel killed for want of memory from one that was killed from outside.
    var memoryShortage: MemoryShortage
    /// Reports that processes wait for memory; nil if the kernel does not.
    private let pressure: MemoryPressure?
    private var suspensions = SuspensionWatch()
    private var quiet = QuietWatch(milliseconds: quietTime)
    /// The durations of the event loop's iterations: while one lasts, no other event is served.
    var iterations = LatencyHistogram()
    /// The durations of hits, from the frame to the queued reply.
    var hits = LatencyHistogram()
    /// The durations from the event that answers a request with an image to the queued reply. Hits by a repeated text
    /// are counted in `hits` alone.
    var replies = LatencyHistogram()
    /// The validity page; nil if the kernel cannot seal it.
    let page: ValidityPage?
    let closer: DescriptorCloser
    let receiver: DescriptorReceiver
    /// Closes the connections of clients and of workers.
    let closingConnections: @Sendable (Int32) -> Void
    /// Closes what the cache process has made.
    let closingMemory: @Sendable (Int32) -> Void
    /// Clients that have accepted nothing lately; looked at every 100 ms.
    var blocked: Set<ClientID> = []
    private var timerSetTo: Instant?
    private var retriedAt = Instant(nanoseconds: 0)
    var iterationBegunAt = Instant.now
    var isAccepting = true
    /// When to accept again, after no descriptor was left for a new connection.
    var acceptAgainAt: Instant?
    /// As process 1: whether children may have exited that the broker has not started.
    private var mayHaveStrangers = false
    private var isFinished = false
    var pendingReload: PendingReload?
    var pendingUpgrade: PendingUpgrade?
    /// A killed check of the installed program, which has not exited because a file system does not answer it.
    var lateCheck: ChildProcess?
    /// What the process has left whose place this one takes, until `run`.
    var inheritance: Inheritance?
    /// What an earlier process has stored, until `run`.
    var stored: [(name: String, descriptor: FileDescriptor)] = []
    /// Images that outlast this process; nil without a service manager that stores descriptors.
    let store = DescriptorStore(at: .now)
    var remover: SocketRemover?

    /// The most bytes that all clients may be sending; saturates on overflow.
    static func mostArriving(_ limits: BrokerLimits) -> Int {
        let (bodies, isUnbounded) = limits.maxDownloadBytes.multipliedReportingOverflow(by: 4)
        return max(isUnbounded ? .max : bodies, limits.memoryBytes / 4)
    }

    /// Prepares everything but the workers: they start with `run`.
    init(
        _ settings: Settings, _ configuration: Configuration, launcher: WorkerLauncher, listener: ListeningSocket,
        group: MemoryGroup?, log: Log
    ) throws(SystemError) {
        self.settings = settings
        self.configuration = configuration
        self.listener = listener
        self.log = log
        groupBytes = group?.limit
        descriptors = CurrentProcess.raiseDescriptorLimit()
        var limits = configuration.limits.fitted(to: descriptors)
        maximumClients = limits.maxClients
        do throws(SystemError) {
            page = try ValidityPage(slots: limits.validitySlots)
        } catch {
            log.notice(.system, "clients request each image, as there is no validity page: \(error)")
            page = nil
            limits.validitySlots = 0
        }
        unread = UnreadDescriptors(limit: descriptors / 2, departedLimit: maximumClients / 8)
        arriving = SharedPool(limit: Self.mostArriving(limits))
        unsentDescriptors = SharedPool(limit: descriptors / 16)
        state = BrokerState(
            limits: limits, isAllowedAddress: configuration.isAllowedAddress, seed: UInt64.random(in: .min ... .max),
            at: .now)
        // SIGPIPE is among them only to be ignored, because sendfile has no flag against it.
        // Those that are ignored stay so: nohup, and the shell for commands in the background, order it.
        let orders = [SignalNumber.interrupt, SignalNumber.hangup].filter { !Signals.isIgnored($0) }
        let adopts = CurrentProcess.pid == 1 ? [SignalNumber.child] : []
        signals = try Signals(orders + adopts + [SignalNumber.terminate, SignalNumber.brokenPipe])
        queue = try EventQueue()
        let isStrict = configuration.hasStrictSandbox
        nonisolated(unsafe) let closer = DescriptorCloser(isStrict: isStrict)
        nonisolated(unsafe) let receiver = unsafe DescriptorReceiver(
            queue: queue, closer: closer, isStrict: isStrict
        ) { Self.token(.receiver, $0) }
        closingConnections = { unsafe receiver.close($0) }
        closingMemory = { unsafe closer.dispose($0) }
        unsafe (self.closer, self.receiver) = (closer, receiver)
        buffers = unsafe BufferTable(close: closer.close)
        var launcher = launcher
        launcher.closing = closingConnections
        self.launcher = launcher
        timer = try Timer()
        try queue.add(listener.descriptor.raw, token: Self.token(.listener))
        try queue.add(timer.descriptor.raw, token: Self.token(.timer))
        try queue.add(signals.descriptor.raw, token: Self.token(.signals))
        // In version 1, a group without a limit is the machine, or shared with others.
        memoryShortage = MemoryShortage(in: group?.limit != nil || group?.pressurePath != nil ? group : nil)
        pressure = MemoryPressure(of: group)
        if let pressure { try queue.add(pressure, token: Self.token(.pressure)) }
        if let watch = suspensions.descriptor { try queue.add(watch.raw, token: Self.token(.clock)) }
    }

    /// Serves until a signal asks it to shut down.
    func run() {
        let limits = configuration.limits
        log.notice(
            .started,
            "listening at \(listener.path), decode workers: \(limits.workers), download workers: \(limits.fetchers), "
                + "memory: \(ByteCount(limits.memoryBytes))")
        CurrentProcess.preferShortTimeSlices()
        startForkServer(isTakingOver: inheritance != nil)
        if let inheritance = inheritance.take() { takeOver(inheritance) }
        restoreStored(exchange(&stored, with: []))
        handle(.timePassed)
        ServiceManager.notify("READY=1")
        startWatchdog()
        while !isFinished {
            sendOrders()
            let deadline = Self.earlier(
                Self.earlier(state.nextDeadline, quiet.nextLook),
                Self.earlier(log.nextCount, pendingReload?.nextDeadline))
            if deadline != timerSetTo {
                timerSetTo = deadline
                timer.set(to: deadline)
            }
            let isRetrying =
                !isAccepting || !stalled.isEmpty || !stalledWorkers.isEmpty || !unread.left.isEmpty
                || !formerServers.isEmpty || receiver.isBusy || !blocked.isEmpty
                || closer.isBehind || mayHaveStrangers || pendingUpgrade != nil || lateCheck != nil
                || store?.isBehind(state.keptRevision) == true
            let ready: [EventQueue.Event]
            do {
                let pause: Int? = isRetrying ? pendingUpgrade?.pausesClients == true ? 1 : Self.retryMilliseconds : nil
                ready = try queue.wait(milliseconds: turns.isEmpty ? pause : 0)
            } catch {
                log.error(.system, "\(error)")
                break
            }
            let begun = Instant.now
            iterationBegunAt = begun
            // Before any request is answered.
            if let milliseconds = suspensions.take() { handle(.machineSuspended(milliseconds: milliseconds)) }
            for event in ready { dispatch(event) }
            serveClients(at: begun)
            if begun.microseconds(since: retriedAt) >= Self.retryMilliseconds * 1000 {
                retriedAt = begun
                if !unread.left.isEmpty { unread.forgetReceived() }
                retryStalled()
                receiver.advance()
                advanceStore()
            }
            if !formerServers.isEmpty { formerServers.removeAll { $0.reap() != nil } }
            if mayHaveStrangers { mayHaveStrangers = !ChildProcess.reapStrangers() }
            sendOrders()
            flushClients()
            if quiet.hasBecomeQuiet(at: begun) {
                state.releaseMemory()
                buffers.returnFreedMemory()
            }
            // After the flush, which may find that they have accepted bytes while the broker was kept from running.
            if retriedAt == begun { disconnectBlocked() }
            for user in unread.takeForgotten() { handle(.connectionClosed(uid: user)) }
            handleReceiverEvents()
            closer.release()
            advanceUpgrade()
            iterations.record(microseconds: Instant.now.microseconds(since: begun))
            resumeAccepting()
        }
        end()
    }

    private static func earlier(_ left: Instant?, _ right: Instant?) -> Instant? {
        guard let left, let right else { return left ?? right }
        return min(left, right)
    }

    /// Has the event loop report signs of life, twice as often as the service manager expects them.
    private func startWatchdog() {
        guard ServiceManager.watchdogMilliseconds != nil, let timer = try? Timer(),
            (try? queue.add(timer.descriptor.raw, token: Self.token(.watchdog))) != nil
        else { return }
        watchdog = timer
        reportLife()
    }

    private func reportLife() {
        guard let milliseconds = ServiceManager.watchdogMilliseconds else { return }
        ServiceManager.notify("WATCHDOG=1")
        watchdog?.set(to: .now.adding(milliseconds: max(milliseconds / 2, 1)))
    }

    func waitForTurn(_ client: ClientConnection) {
        if client.waitsForTurn { return }
        client.waitsForTurn = true
        turns.append(client.id, of: client.uid)
    }

    /// Serves the clients whose turn it is, until the iteration's time for it is over.
    private func serveClients(at begun: Instant) {
        var now = begun
        for served in 0..<turns.count {
            if served > 0, now.microseconds(since: begun) >= Self.microsecondsForClients { break }
            guard let client = turns.popFirst().flatMap({ clients[$0] }) else { continue }
            client.waitsForTurn = false
            receive(from: client, at: &now)
        }
    }

    private func retryStalled() {
        unflushed.formUnion(stalled)
        stalled = []
        for id in exchange(&stalledWorkers, with: []) { if let worker = workers[id] { flush(worker) } }
    }

    static func token(_ source: Source, _ number: Int = 0) -> UInt64 {
        source.rawValue << 56 | UInt64(number)
    }

    private func dispatch(_ event: EventQueue.Event) {
        let number = Int(event.token & (1 << 56 - 1))
        let source = Source(rawValue: event.token >> 56)
        if source != .timer, source != .watchdog { quiet.note(at: iterationBegunAt) }
        switch source {
        case .listener: accept()
        case .timer:
            // Setting it also makes it unreadable; otherwise the loop would spin when nothing is due any more.
            timer.set(to: nil)
            timerSetTo = nil
            log.writeCounts()
            advanceReload()
            hearTier()
            handle(.timePassed)
        case .signals:
            while let signal = signals.next() {
                switch signal {
                case SignalNumber.brokenPipe: break
                case SignalNumber.child: mayHaveStrangers = true
                case SignalNumber.hangup: reload(for: nil)
                default:
                    log.notice(.stopping, "ending")
                    ServiceManager.notify("STOPPING=1")
                    handle(.shutdownRequested)
                }
            }
        case .client:
            guard let client = clients[Identifier(number: number)] else { return }
            if event.writable { unflushed.insert(client.id) }
            if event.readable { becameReadable(client) }
        case .worker:
            guard let worker = workers[Identifier(number: number)] else { return }
            if event.writable { flush(worker) }
            if event.readable { receive(from: worker) }
        case .forkServer:
            if forkServer?.becameReadable() == false { replaceForkServer() }
        case .workerExit:
            if let worker = workers[Identifier(number: number)] { reap(worker) }
        case .pressure: handle(.memoryPressure)
        case .clock: suspensions.takeNotice()
        case .watchdog: reportLife()
        case .settings: finishReload()
        case .receiver:
            for (client, message) in receiver.becameReadable(number) { take(message, from: client) }
            handleReceiverEvents()
        case nil: break
        }
    }

    func writePage(_ changes: [ValiditySlots.Change]) {
        for change in changes {
            let word = ValidityWord(generation: change.generation, validUntil: change.validUntil)
            page?.store(word, in: change.slot)
        }
    }

    /// Lets the state handle an event, and performs what follows; that may lead to further events.
    func handle(_ event: Event) {
        // Actions add to the list when something fails; the outermost call works it off.
        if isHandling { return events.append(event) }
        isHandling = true
        handleOne(event)
        while !events.isEmpty { handleOne(events.removeFirst()) }
        isHandling = false
    }

    private func handleOne(_ event: Event) {
        handledAt = .now
        for action in state.handle(event, at: handledAt, unixMs: WallClock.milliseconds) { perform(action) }
        if !lostPlaces.isEmpty, events.isEmpty { lostPlaces = [] }
    }

    private func perform(_ action: Action) {
        switch action {
        case .reply(let client, let reply, let attachment): send(reply, attachment, to: client)
        case .close(let client):
            clients[client]?.isClosing = true
            unflushed.insert(client)
        case .startWorker(let kind, let worker): start(kind, worker)
        case .killWorker(let worker): workers[worker]?.child.send(SignalNumber.kill)
        case .retireWorker(let worker): workers[worker]?.channel.endSending()
        case .respawnForkServer: respawnForkServer()
        case .find(let worker, let job, let keys, let form, let rasterOnly):
            send(StoreOrder.find(job: job.number, keys: keys, form: form, rasterOnly: rasterOnly), to: worker) { _ in
                .notFound(worker, job)
            }
        case .touch(let worker, let keys): send(StoreOrder.touch(keys: keys), to: worker)
        case .queryDisk(let worker, let job, let keys):
            send(StoreOrder.query(job: job.number, keys: keys), to: worker) { _ in .diskQueried(worker, job, nil) }
        case .update(let worker, let record): send(StoreOrder.update(record), to: worker)
        case .discardOnDisk(let worker, let job, let digests):
            send(StoreOrder.discard(job: job.number, digests: digests), to: worker)
        case .clear(let worker, let job, let seconds):
            send(StoreOrder.clear(job: job.number, olderThanSeconds: seconds), to: worker)
        case .saveQuarantine(let worker, let records): send(StoreOrder.quarantine(records), to: worker)
        case .saveOriginal(let worker, let job, let record, let buffer):
            keep(.keepOriginal(job: job.number, record), buffers.source(of: buffer), job, on: worker)
        case .saveRaster(let worker, let job, let record, let buffer):
            keep(.keepRaster(job: job.number, record), buffers.source(of: buffer), job, on: worker)
        case .saveIdentity(let worker, let job, let record, let text):
            let memory = try? SealedBuffer(copying: Array(text.utf8), name: "imgbroker-identity")
            keep(.keepOriginal(job: job.number, record), memory.map { (nil, [$0.descriptor]) }, job, on: worker)
        case .forget(let worker, let job, let url, let owner):
            send(StoreOrder.forget(job: job.number, url: url, owner: owner), to: worker) { _ in
                .forgotten(worker, job, keys: [])
            }
        case .findShared(let worker, let job, let key, let token):
            send(TierOrder.find(job: job.number, key: key, token: token), to: worker)
        case .renewLease(let worker, let key, let token): send(TierOrder.renew(key: key, token: token), to: worker)
        case .releaseLease(let worker, let key, let token): send(TierOrder.release(key: key, token: token), to: worker)
        case .writeShared(let worker, let job, let record, let token, let buffer):
            writeShared(record, token: token, buffer, job, on: worker)
        case .removeShared(let worker, let keys): send(TierOrder.remove(keys: keys), to: worker)
        case .rejectShared(let worker, let key): send(TierOrder.reject(key: key), to: worker)
        case .readFile(let job, let file, let identity): readFile(file, identity, for: job)
        case .releaseFile(let file): receiver.release(file)
        case .startFetch(let worker, let job): startFetch(job, on: worker)
        case .identify(let worker, let job, let buffer, let early, let room):
            identify(buffer, for: job, early, room: room, on: worker)
        case .adopt(let client, let buffer, let inBroker):
            publish(uploads.removeValue(forKey: client).map { Product(sealed: $0) }, as: buffer, inBroker: inBroker)
        case .stopFetch(let worker, let job): send(FetchOrder.stop(job: job.number), to: worker)
        case .startDecode(let worker, let job, let body, let room):
            startDecode(job, of: body, room: room, on: worker)
        case .startPartialDecode(let worker, let job, let fetch): startPartialDecode(job, of: fetch, on: worker)
        case .provideOutput(let worker, let job, let bytes, let isExact):
            provideOutput(of: bytes, isExact: isExact, for: job, on: worker)
        case .measureProcessorTime(let id, let job):
            guard let worker = workers[id], let now = worker.child.processorMilliseconds else { return }
            events.append(.processorTimeUsed(id, job, milliseconds: now - worker.processorTimeBefore))
        case .refuseOutput(let worker, let job): send(DecodeOrder.refuse(job: job.number), to: worker)
        case .publish(let job, let buffer, let inBroker):
            publish(products.removeValue(forKey: job), as: buffer, inBroker: inBroker)
        case .place(let job, let buffer, let bytes, let placement):
            place(products.removeValue(forKey: job), as: buffer, bytes: bytes, placement)
        case .moveIntoSegment(let buffer, let placement):
            let bytes = buffers.bytes(of: buffer) ?? []
            place(Product(bytes: bytes), as: buffer, bytes: bytes.count, placement)
        case .move(let moves): lose(buffers.move(moves))
        case .endSegment(let number): buffers.endSegment(number)
        case .discard(let job): products[job] = nil
        case .dropBuffer(let buffer):
            buffers.remove(buffer)
            store?.drop(buffer)
        case .share(let buffer): buffers.share(buffer)
        case .unshare(let buffer): buffers.unshare(buffer)
        case .updateValidity(let changes): writePage(changes)
        case .stopListening:
            queue.remove(listener.descriptor.raw)
            listener.remove()
        case .reload(let client, let id): reload(for: (client, id))
        case .upgrade(let client, let id): upgrade(for: client, id: id)
        case .exit: isFinished = true
        case .log(let record): log.write(record)
        }
    }

    private func place(_ product: Product?, as buffer: BufferID, bytes: Int, _ placement: Segments.Placement) {
        lose(buffers.move(placement.moves))
        do throws(SystemError) { try buffers.place(product, as: buffer, bytes: bytes, placement) } catch {
            lose([buffer], segment: placement.newSegmentBytes.map { _ in placement.place.segment })
        }
    }

    /// Tells the core that there are no such buffers. Clients that are answered with one are refused.
    private func lose(_ lost: [BufferID], segment: Int? = nil) {
        for buffer in lost {
            lostPlaces.insert(buffer)
            events.append(.placeLost(buffer, segment: segment))
        }
    }

    private func publish(_ product: Product?, as buffer: BufferID, inBroker: Bool) {
        do throws(SystemError) {
            if inBroker {
                if let bytes = try product?.takeBytes() { buffers.insert(bytes, as: buffer) }
            } else if let sealed = try product?.takeSealed() {
                buffers.insert(sealed, as: buffer)
            }
        } catch {
            lose([buffer])
        }
    }

    // MARK: Shutdown

    private func end() {
        log.end()
        page?.end()
        advanceStore(isLast: true)
        flushClients()
        clients = [:]
        listener.remove()
        if let server = forkServer { formerServers.append(server.child) }
        forkServer = nil
        let children = workers.values.map(\.child) + formerServers + [lateCheck].compactMap(\.self)
        // A worker exits by itself when its socket ends; one that does not is killed.
        workers = [:]
        end(children, within: 500)
        // Last, because they close what workers have sent.
        end(receiver.end(), within: 500)
        end([closer.end()].compactMap(\.self), within: 500)
    }

    /// Waits for processes that are about to exit, and kills those that do not within the time.
    func end(_ children: [ChildProcess], within milliseconds: Int) {
        let deadline = Instant.now.adding(milliseconds: milliseconds)
        for child in children {
            let left = max(0, deadline.microseconds(since: .now) / 1000)
            if child.waitForExit(milliseconds: left) == nil {
                child.send(SignalNumber.kill)
                _ = child.waitForExit(milliseconds: 1000)
            }
        }
    }
}

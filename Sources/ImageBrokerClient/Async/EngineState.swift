internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import SharedCache
internal import SystemValues

/// The connection of an engine and its requests. All of it is guarded by the engine's lock, and nothing in it waits.
struct EngineState {
    /// Work to do without the lock, because it runs code of executors.
    enum Effect: Sendable {
        /// A request has a reply.
        case update(Request, ImageBroker.Incoming)
        /// A request has ended, with an error or a reply before.
        case end(Request, ClientError?)

        func perform() {
            switch self {
            case .update(let request, let incoming): request.updates?.yield(incoming)
            case .end(let request, let error): request.updates?.finish(throwing: error)
            }
        }
    }

    /// The kept images, for all threads. No thread waits while it has the lock.
    let kept: Locked<KeptImages?>
    let keeping: ImageBroker.Keeping?
    /// Wakes the engine's thread; nil before the first one started.
    private(set) var waker: Waker?
    /// Whether a broker has answered before.
    private(set) var wasConnected = false
    private var session: Session?
    /// The id of the session's `hello`; nil after the broker has answered it.
    private var hello: Int?
    /// The requests that were sent and not answered, by their ids, and subscriptions.
    private var pending: [Int: Request] = [:]
    /// The requests that wait for a connection, in their order.
    private var waiting: [Request] = []
    /// The requests that a broker has refused because it is shutting down.
    private var deferred: [Request] = []
    /// When leases that were released are sent to the broker at the latest.
    private var releaseBy: Instant?
    private var isRunning = false
    private var isClosed = false
    private var effects: [Effect] = []

    /// The longest time that released leases wait for another message, in milliseconds.
    private static let releaseDelayMs = 100

    init(kept: Locked<KeptImages?>, keeping: ImageBroker.Keeping?) {
        (self.kept, self.keeping) = (kept, keeping)
    }

    // MARK: Requests

    /// Sends a request, or queues it until the broker has answered. Returns whether the engine's thread is to be
    /// started.
    mutating func submit(_ request: Request) throws(ClientError) -> Bool {
        if isClosed { throw .connectionLost }
        if session != nil, hello == nil {
            try send(request)
            return false
        }
        waiting.append(request)
        return !exchange(&isRunning, with: true)
    }

    /// Returns the waker for a thread that starts.
    mutating func makeWaker() throws(SystemError) -> Waker {
        if let waker { return waker }
        let waker = try Waker()
        self.waker = waker
        return waker
    }

    /// Cancels a request that nobody waits for any more. It stays pending until the broker has answered it.
    mutating func cancel(_ request: Request) {
        request.isCancelled = true
        waiting.removeAll { $0 === request }
        deferred.removeAll { $0 === request }
        guard let number = request.id, pending[number] === request else { return }
        let message = Request(
            { .cancel(id: $0, request: number) }, isRepeatable: false, updates: nil,
            accepts: { if case .reply(.ok) = $0 { true } else { false } })
        try? send(message)
    }

    /// Changes a request that is pending; one that is still to be sent stays as it is.
    mutating func change(_ request: Request, priority: GetOptions.Priority?, detach: Bool) {
        guard let number = request.id, pending[number] === request else { return }
        let call = Call.update(number, priority: priority, detach: detach)
        let message = Request(
            call.message, isRepeatable: false, updates: nil,
            accepts: { if case .reply = $0 { true } else { false } })
        try? send(message)
    }

    /// Sends the report of uses of kept images.
    mutating func report() {
        session?.enqueueDue(report: takeReport())
        flush()
    }

    /// Ends the engine's thread with its next iteration.
    mutating func close() {
        isClosed = true
        waker?.wake()
    }

    /// Takes the report of uses that the broker did not see; nil when none is due.
    private func takeReport() -> ClientMessage? { kept.withLock { $0?.takeTouch() } }

    private mutating func send(_ request: Request) throws(ClientError) {
        guard let session else { throw .connectionLost }
        let id = try session.enqueue(
            descriptors: request.descriptors, report: takeReport(), request.message)
        request.id = id
        request.attempts += 1
        pending[id] = request
        flush()
    }

    /// Sends the queued messages; the thread sends the rest, and finds that a connection is lost.
    private func flush() {
        if let session, (try? session.flush()) != true { waker?.wake() }
    }

    // MARK: The thread

    /// Begins a session over a new connection: sends `hello`.
    mutating func begin(_ socket: FileDescriptor) throws(ClientError) {
        if isClosed { throw .connectionLost }
        let session = Session(socket, releases: PendingReleases(waker: waker))
        let call = Call.hello(client: "imgbroker-swift/\(ProductVersion.current)", validity: keeping != nil)
        hello = try session.enqueue(report: nil, call.message)
        self.session = session
        flush()
    }

    /// Returns the events that the thread waits for: whether the socket becomes writable, too, and the longest time.
    mutating func plan() -> (isWriting: Bool, milliseconds: Int?) {
        guard let session else { return (false, nil) }
        let pause = session.isRefused ? Session.sendPauseMs : nil
        let isWriting = session.channel.hasOutgoing && !session.isRefused
        guard session.releases.hasLeasesOrWakes() || session.hasSegmentsToForget else {
            releaseBy = nil
            return (isWriting, pause)
        }
        let now = Instant.now
        let due = releaseBy ?? now.adding(milliseconds: Self.releaseDelayMs)
        releaseBy = due
        return (isWriting, min(max(0, due.microseconds(since: now) / 1000 + 1), pause ?? .max))
    }

    /// Receives the available bytes and sends the queued ones. Returns the effects, and the reason if the connection
    /// has ended.
    mutating func advance(isReadable: Bool) -> (effects: [Effect], end: ClientError?) {
        var end: ClientError?
        do throws(ClientError) {
            guard let session, !isClosed else { throw .connectionLost }
            if isReadable {
                try session.fill()
                while let event = try session.next() { try handle(event) }
            }
            if let releaseBy, Instant.now >= releaseBy {
                session.enqueueDue(report: takeReport())
                self.releaseBy = nil
            }
            if session.channel.hasOutgoing { try sendRest(over: session) }
        } catch {
            end = error
        }
        return (exchange(&effects, with: []), end)
    }

    /// Sends the queued messages without waking the thread, which calls this.
    private func sendRest(over session: Session) throws(ClientError) {
        do throws(ClientError) { _ = try session.flush() } catch {
            // A broker that has closed the connection may have sent the reason before.
            if !session.channel.waitUntilReadable(milliseconds: 0) { throw error }
        }
    }

    /// What the thread does after a connection has ended.
    enum Next: Sendable {
        /// It ends, because no request waits.
        case end
        /// It connects, for requests that are sent once more.
        case reconnect
        /// It connects again after a pause.
        case retry
    }

    /// Leaves the connection: ends its requests, or keeps those that are to be sent once more.
    ///
    /// - Parameter mayRetry: whether the waiting requests may wait longer for a broker that answers.
    mutating func leave(_ error: ClientError, mayRetry: Bool = false) -> (effects: [Effect], next: Next) {
        let wasReady = session != nil && hello == nil
        let requests = deferred + pending.sorted { $0.key < $1.key }.map(\.value) + waiting
        kept.withLock { $0 = nil }
        session?.abandon()
        (session, deferred, pending, waiting) = (nil, [], [:], [])
        var ended: [Request] = []
        var next = Next.end
        switch error {
        case .connectionLost where wasReady && !isClosed:
            next = .reconnect
            for request in requests {
                if request.mayRepeat { waiting.append(request) } else { ended.append(request) }
            }
        // A broker that exits may accept a connection that it does not serve.
        case .connectionLost where mayRetry && !isClosed, .noBroker where mayRetry && !isClosed:
            (next, waiting) = (.retry, requests)
        default: ended = requests
        }
        isRunning = !waiting.isEmpty
        return (ended.map { .end($0, error) }, isRunning ? next : .end)
    }

    private mutating func handle(_ event: Session.Event) throws(ClientError) {
        switch event {
        case .unusableImage(let id, let isFinal, let error):
            guard let request = pending[id] else { throw Self.strayReply(id) }
            if isFinal { end(request, id, error) }
        case .ownHello: startKeeping()
        case .segmentEnded(let number): kept.withLock { $0?.removeImages(inSegment: number) }
        case .incoming(let incoming):
            guard let id = incoming.id else {
                // A broker that ends, or cannot hand the connection over, closes it next.
                if case .reply(.error(_, let error)) = incoming {
                    throw error.code == .shuttingDown ? .connectionLost : .refused(error)
                }
                throw ImageBroker.unexpected
            }
            if id == hello { return try greet(incoming) }
            guard let request = pending[id] else { throw Self.strayReply(id) }
            if case .reply(.error(_, let error)) = incoming { return refuse(request, id, error) }
            guard request.accepts(incoming) else { throw ImageBroker.unexpected }
            if case .image(_, let image) = incoming, image.reply.final, let (url, options) = request.keepAs {
                kept.withLock { $0?.keep(image, at: url, options) }
            }
            effects.append(.update(request, incoming))
            if incoming.isTerminal, !request.isSubscription { end(request, id, nil) }
        }
    }

    /// Keeps images by the validity page that has come, if one has.
    private func startKeeping() {
        if let keeping, let page = session?.page {
            kept.withLock { $0 = KeptImages((keeping.images, keeping.bytes, keeping.descriptors), page) }
        }
    }

    /// Sends the waiting requests, because the broker has answered `hello`.
    private mutating func greet(_ incoming: ImageBroker.Incoming) throws(ClientError) {
        if case .reply(.error(_, let error)) = incoming { throw .refused(error) }
        guard case .reply(.hello) = incoming else { throw ImageBroker.unexpected }
        hello = nil
        wasConnected = true
        startKeeping()
        for request in exchange(&waiting, with: []) { sendOrEnd(request) }
    }

    private mutating func sendOrEnd(_ request: Request) {
        do { try send(request) } catch { effects.append(.end(request, error)) }
    }

    private mutating func refuse(_ request: Request, _ id: Int, _ error: WireError) {
        if error.code == .shuttingDown, request.mayRepeat {
            pending[id] = nil
            deferred.append(request)
        } else if error.code == .quotaExceeded || error.code == .overloaded, !request.isCancelled,
            case .get = request.message(id), hasRoom(for: id)
        {
            // Requested images take precedence over kept ones.
            pending[id] = nil
            request.attempts -= 1
            sendOrEnd(request)
        } else {
            // A stream tells of its cancellation before it has ended, so that the broker's answer may come before.
            end(request, id, request.isCancelled ? nil : .refused(error))
        }
    }

    /// Whether there is more room than when a request was refused for want of it.
    private func hasRoom(for id: Int) -> Bool {
        guard let session, id > session.roomMadeAt else { return true }
        guard kept.withLock({ $0?.makeRoom() }) == true else { return false }
        session.roomMadeAt = session.lastID
        return true
    }

    private mutating func end(_ request: Request, _ id: Int, _ error: ClientError?) {
        pending[id] = nil
        effects.append(.end(request, error))
    }

    private static func strayReply(_ id: Int) -> ClientError {
        .protocolViolation("a reply to request \(id), which is not in flight")
    }
}

internal import IPCProtocol
internal import LinuxSystem
internal import SystemValues

/// The connection of an `AsyncImageBroker`. Any thread sends; a thread of the engine receives. It starts with the first
/// request, and ends when the connection is lost and no request is in flight, or by `close`.
///
/// Requests that were in flight when the connection was lost are sent once more, over a new connection. An engine that
/// was connected waits up to `reconnectMs` for the broker to come back; otherwise the first failure counts.
final class Engine: Sendable {
    private let path: String?
    private let reconnectMs: Int
    private let kept = Locked<KeptImages?>(nil)
    private let state: Locked<EngineState>

    /// The time between two attempts to connect to a broker that restarts, in milliseconds.
    private static let pauseMs: Int32 = 50
    /// The longest time that a connection may wait for the broker to accept it, in milliseconds.
    private static let connectMs = 5000

    /// Creates an engine without a connection and a thread.
    init(path: String?, keeping: ImageBroker.Keeping?, reconnectMs: Int) {
        (self.path, self.reconnectMs) = (path, reconnectMs)
        state = Locked(EngineState(kept: kept, keeping: keeping))
    }

    // MARK: Any thread

    /// Returns the kept image of a request, if the request would return it again.
    func keptImage(at url: String, _ options: GetOptions) -> BrokerImage? {
        guard let (image, isReportDue) = kept.withLock({ $0?.image(at: url, options) }) else { return nil }
        if isReportDue { state.withLock { $0.report() } }
        return image
    }

    /// Sends a request without waiting. Returns its replies. When the stream is dropped, or the task that waits for it
    /// is cancelled, the request is cancelled.
    ///
    /// - Parameters:
    ///   - limit: the number of replies that are kept for a slow consumer; older ones are dropped.
    ///   - request: makes the request that delivers its replies to a continuation.
    func submit(limit: Int = 8, _ request: (Updates.Continuation) -> Request) -> Updates {
        let (updates, continuation) = Updates.makeStream(bufferingPolicy: .bufferingNewest(limit))
        let request = request(continuation)
        continuation.onTermination = { [self] reason in
            if case .cancelled = reason { state.withLock { $0.cancel(request) } }
        }
        do throws(ClientError) {
            if try state.withLock({ (state) throws(ClientError) in try state.submit(request) }) { start() }
        } catch {
            continuation.finish(throwing: error)
        }
        return updates
    }

    /// Changes requests that are pending.
    func change(_ requests: [Request], priority: GetOptions.Priority?, detach: Bool) {
        state.withLock { (state) in
            for request in requests { state.change(request, priority: priority, detach: detach) }
        }
    }

    /// Ends the connection and the thread.
    func close() {
        state.withLock { $0.close() }
    }

    private func start() {
        do throws(SystemError) {
            let waker = try state.withLock { (state) throws(SystemError) in try state.makeWaker() }
            try DetachedThread.start(name: "imgbroker") { [self] in run(waker) }
        } catch {
            state.withLock { $0.leave(.system(error)).effects }.forEach { $0.perform() }
        }
    }

    // MARK: The thread

    private static let (wakerToken, socketToken): (UInt64, UInt64) = (0, 1)

    private func run(_ waker: Waker) {
        var deadline = Instant.now
        if state.withLock({ $0.wasConnected }) { deadline = deadline.adding(milliseconds: reconnectMs) }
        while true {
            let error = serve(waker)
            let (effects, next) = state.withLock { $0.leave(error, mayRetry: Instant.now < deadline) }
            effects.forEach { $0.perform() }
            switch next {
            case .end: return
            case .reconnect: deadline = Instant.now.adding(milliseconds: reconnectMs)
            case .retry:
                UnixSocket.waitUntilReadable(waker.descriptor, milliseconds: Self.pauseMs)
                waker.clear()
            }
        }
    }

    /// Connects, and serves the connection. Returns the reason for its end.
    private func serve(_ waker: Waker) -> ClientError {
        do {
            let socket = try connect()
            let events = try EventQueue()
            try events.add(waker.descriptor.raw, token: Self.wakerToken)
            try events.add(socket.raw, token: Self.socketToken)
            try state.withLock { (state) throws(ClientError) in try state.begin(socket) }
            var isWriting = false
            while true {
                let plan = state.withLock { $0.plan() }
                if plan.isWriting != isWriting {
                    isWriting = plan.isWriting
                    try events.change(socket.raw, token: Self.socketToken, reading: true, writing: isWriting)
                }
                let ready = try events.wait(milliseconds: plan.milliseconds)
                if ready.contains(where: { $0.token == Self.wakerToken }) { waker.clear() }
                let isReadable = ready.contains { $0.token == Self.socketToken && $0.readable }
                let (effects, end) = state.withLock { $0.advance(isReadable: isReadable) }
                effects.forEach { $0.perform() }
                if let end { return end }
            }
        } catch let error as ClientError {
            return error
        } catch let error as SystemError {
            return .system(error)
        } catch {
            return .connectionLost
        }
    }

    private func connect() throws -> FileDescriptor {
        let path = path ?? SocketPath.forClient
        let socket: FileDescriptor
        do { socket = try UnixSocket.connect(to: path, milliseconds: Self.connectMs) } catch {
            throw ClientError.noBroker(path: path, error)
        }
        try socket.setNonBlocking()
        return socket
    }
}

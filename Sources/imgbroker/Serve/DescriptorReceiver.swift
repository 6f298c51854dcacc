import BrokerCore
import LinuxSystem
import SystemValues

/// Receives the messages that clients send with descriptors, in a process of its own: the helper.
///
/// A descriptor may belong to any file, and closing it may take as long as its sender likes: a TCP socket that lingers, or
/// a file of a file system that the sender implements (FUSE). The broker therefore never receives one. It only sees, by
/// peeking, that a message has descriptors; the helper receives the message, and passes on the bytes and the first
/// descriptor, if that is a file in memory. Then it closes the others, which may take long. It is replaced meanwhile.
///
/// A connection that is closed with unreceived descriptors would close them, too, so it is closed by the helper.
final class DescriptorReceiver {
    /// A message, or a part of one, as the helper has received it.
    struct Message {
        enum Descriptor {
            case none
            /// A file in memory.
            case memory(FileDescriptor)
            /// Any other file, which the helper closes.
            case other
            /// The helper could open no more descriptors.
            case lost
        }

        var bytes: ArraySlice<UInt8> = []
        var descriptor = Descriptor.none
        /// Whether the client has closed the connection, or the message was lost.
        var isEnd = false
    }

    /// The first word of its command line.
    static let word = "receive-descriptors"

    /// The most helpers that are still closing the descriptors of one user, and of all. Further ones of that user are not
    /// received until a helper is done.
    private static let closingOfUser = 2
    private static let closingOfAll = 8
    /// The time after which a helper that closes descriptors is replaced if other messages wait.
    private static let patienceMicroseconds = 10_000

    private enum Task {
        case receive(ClientID, user: UInt32, FileDescriptor)
        /// A connection to be closed. No object owns the descriptor.
        case close(Int32, user: UInt32)

        var user: UInt32 {
            switch self {
            case .receive(_, let user, _), .close(_, let user): user
            }
        }
    }

    private final class Helper {
        enum State {
            case idle
            case receiving(ClientID)
            /// It closes descriptors of a user.
            case closing(UInt32, since: Instant)
        }

        let child: ChildProcess
        let socket: FileDescriptor
        var state = State.idle
        var bytes: [UInt8] = []
        var descriptors: [FileDescriptor] = []
        /// The user whose message it was given last.
        var user: UInt32 = 0

        init(_ child: ChildProcess, _ socket: FileDescriptor) {
            self.child = child
            self.socket = socket
        }
    }

    private let queue: EventQueue
    private let token: (Int) -> UInt64
    /// Closes files in memory.
    private let closer: DescriptorCloser
    private var current: Helper?
    /// Helpers that were replaced, each still closing descriptors.
    private var replaced: [Int: Helper] = [:]
    private var exiting: [ChildProcess] = []
    private var waiting: [Task] = []
    /// The users of connections that `close` was given, and of those that are closed now, since the last `takeClosed`.
    private var begun: [UInt32] = []
    private var closed: [UInt32] = []

    /// `token` names a helper's socket in `queue`.
    init(queue: EventQueue, closer: DescriptorCloser, token: @escaping (Int) -> UInt64) {
        self.queue = queue
        self.closer = closer
        self.token = token
        // Now, because later there may be no descriptors left for it.
        start()
    }

    /// Whether `advance` must be called now and then.
    var isBusy: Bool { !waiting.isEmpty || !exiting.isEmpty }
    /// The number of connections that wait to be closed.
    var lingering: Int { waiting.count { if case .close = $0 { true } else { false } } }

    /// Has the next message on a client's connection received. `becameReadable` returns it.
    func receive(from client: ClientID, of user: UInt32, on socket: FileDescriptor) {
        waiting.append(.receive(client, user: user, socket))
        advance()
    }

    /// Closes a client's connection, which no object owns any more.
    func close(_ socket: Int32) {
        UnixSocket.shutDownReceiving(socket)
        guard UnixSocket.hasUnreceived(socket), let user = try? UnixSocket.peerCredentials(of: socket).uid else {
            return FileDescriptor.close(raw: socket)
        }
        begun.append(user)
        waiting.append(.close(socket, user: user))
        advance()
    }

    /// The users of connections that wait to be closed, and of those that no longer do, since the last call.
    func takeLingering() -> (begun: [UInt32], closed: [UInt32]) {
        (exchange(&begun, with: []), exchange(&closed, with: []))
    }

    /// Gives the next waiting message to a helper, if one is idle or can be started.
    func advance() {
        exiting.removeAll { $0.reap() != nil }
        while let index = waiting.firstIndex(where: { closing(of: $0.user) < Self.closingOfUser }) {
            if case .closing(_, let since) = current?.state,
                Instant.now.microseconds(since: since) >= Self.patienceMicroseconds,
                replaced.count < Self.closingOfAll, let helper = current.take()
            {
                replaced[Int(helper.child.pid)] = helper
            }
            if current == nil { start() }
            guard let helper = current, case .idle = helper.state else { return }
            give(waiting.remove(at: index), to: helper)
        }
    }

    /// Receives a helper's answers.
    func becameReadable(_ pid: Int) -> [(ClientID, Message)] {
        guard let helper = current.flatMap({ $0.child.pid == pid ? $0 : nil }) ?? replaced[pid] else { return [] }
        var messages: [(ClientID, Message)] = []
        var hasEnded = false
        unsafe withUnsafeTemporaryAllocation(byteCount: DescriptorHelper.longestAnswer, alignment: 16) { buffer in
            nonisolated(unsafe) let closer = closer
            loop: while true {
                let received = try? unsafe UnixSocket.receive(into: buffer, from: helper.socket) {
                    unsafe closer.dispose($0)
                }
                switch received {
                case .bytes(let count, let descriptors, _):
                    unsafe helper.bytes.append(contentsOf: buffer[..<count])
                    helper.descriptors += descriptors
                case .wouldBlock: break loop
                case .end, nil:
                    hasEnded = true
                    break loop
                }
            }
        }
        while let answer = DescriptorHelper.Answer(takenFrom: &helper.bytes) { take(answer, of: helper, &messages) }
        if hasEnded { lost(helper, &messages) }
        advance()
        return messages
    }

    /// Ends all helpers that are not held up.
    func end() {
        (current, replaced) = (nil, [:])
    }

    private func take(_ answer: DescriptorHelper.Answer, of helper: Helper, _ messages: inout [(ClientID, Message)]) {
        if answer.kind == .closed {
            helper.state = .idle
            if helper !== current { remove(helper) }
            return
        }
        guard case .receiving(let client) = helper.state else { return }
        helper.state = .closing(helper.user, since: .now)
        var message = Message(bytes: answer.bytes)
        switch answer.kind {
        case .bytes, .closed: break
        case .memory:
            message.descriptor = helper.descriptors.isEmpty ? .lost : .memory(helper.descriptors.removeFirst())
        case .other: message.descriptor = .other
        case .lost: message.descriptor = .lost
        case .end: message.isEnd = true
        }
        messages.append((client, message))
    }

    /// A helper has exited by itself. What it has received is lost.
    private func lost(_ helper: Helper, _ messages: inout [(ClientID, Message)]) {
        if case .receiving(let client) = helper.state { messages.append((client, Message(isEnd: true))) }
        if helper === current { current = nil }
        remove(helper)
        if current == nil { start() }
    }

    private func remove(_ helper: Helper) {
        queue.remove(helper.socket.raw)
        replaced[Int(helper.child.pid)] = nil
        helper.child.send(SignalNumber.kill)
        exiting.append(helper.child)
    }

    private func closing(of user: UInt32) -> Int {
        replaced.values.count { $0.user == user }
    }

    private func start() {
        guard let (child, socket) = try? WorkerLauncher.startAgain([Self.word]),
            (try? socket.setNonBlocking()) != nil,
            (try? queue.add(socket.raw, token: token(Int(child.pid)))) != nil
        else { return }
        current = Helper(child, socket)
    }

    private func give(_ task: Task, to helper: Helper) {
        helper.user = task.user
        switch task {
        case .receive(let client, _, let socket):
            helper.state = .receiving(client)
            send(.receive, [socket], to: helper)
        case .close(let raw, let user):
            helper.state = .closing(user, since: .now)
            // The helper holds the connection until the broker has closed it: the last one to close it may wait.
            send(.hold, [FileDescriptor(owning: raw)], to: helper)
            send(.close, [], to: helper)
            closed.append(user)
        }
    }

    private func send(_ order: DescriptorHelper.Order, _ descriptors: [FileDescriptor], to helper: Helper) {
        // An idle helper has received everything, so there is room. One that has exited is noticed by its end.
        _ = try? unsafe withUnsafeBytes(of: order.rawValue) { (bytes) throws(SystemError) in
            try unsafe UnixSocket.send(bytes, descriptors: descriptors, on: helper.socket)
        }
    }
}

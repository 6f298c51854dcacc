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

    /// The time for which others wait at least until a helper that closes descriptors is replaced, and one that receives a
    /// message: there the kernel may close descriptors, too.
    private static let closingMicroseconds = 10_000
    private static let receivingMicroseconds = 100_000

    /// A message to be received.
    private struct Task {
        let client: ClientID
        let user: UInt32
        let socket: FileDescriptor
    }

    private final class Helper {
        enum State {
            case idle
            case receiving(ClientID, since: Instant)
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

    /// The command line of a helper.
    private let arguments: [String]
    private let queue: EventQueue
    private let token: (Int) -> UInt64
    /// Closes files in memory.
    private let closer: DescriptorCloser
    private var current: Helper?
    /// Helpers that were replaced, each still closing descriptors or receiving.
    private var replaced: [Int: Helper] = [:]
    private var exiting: [ChildProcess] = []
    private var waiting: [Task] = []
    /// Closes connections. It can always be replaced: unlike receiving a descriptor and closing it, closing a connection with
    /// unreceived ones never waits for another process (no `flush`), and a socket that lingers does so only until the process
    /// that closes it is killed.
    private var closingHelper: Helper?
    /// Connections to be closed, which no object owns, and their users.
    private var waitingToClose: [(socket: Int32, user: UInt32)] = []
    /// The users of connections that `close` was given, and of those that are closed now, since the last `takeLingering`.
    private var begun: [UInt32] = []
    private var closed: [UInt32] = []

    /// - Parameters:
    ///   - isStrict: whether an unexpected system call kills a helper; for tests.
    ///   - token: names a helper's socket in `queue`.
    init(queue: EventQueue, closer: DescriptorCloser, isStrict: Bool, token: @escaping (Int) -> UInt64) {
        arguments = HelperSandbox.arguments(Self.word, isStrict: isStrict)
        self.queue = queue
        self.closer = closer
        self.token = token
        // Now, because later there may be no descriptors left for it.
        current = start()
    }

    /// Whether `advance` must be called now and then.
    var isBusy: Bool { !waiting.isEmpty || !exiting.isEmpty || !waitingToClose.isEmpty }
    /// The number of connections that wait to be closed.
    var lingering: Int { waitingToClose.count }

    /// Has the next message on a client's connection received. `becameReadable` returns it.
    func receive(from client: ClientID, of user: UInt32, on socket: FileDescriptor) {
        waiting.append(Task(client: client, user: user, socket: socket))
        advance()
    }

    /// Gives up a message that was not received yet, because its client is disconnected.
    func forget(_ client: ClientID) {
        let index = waiting.firstIndex { $0.client == client }
        // Outside of the list, because releasing its socket may add to it.
        if let index { _ = waiting.remove(at: index) }
    }

    /// Closes a client's connection, which no object owns any more.
    func close(_ socket: Int32) {
        UnixSocket.shutDownReceiving(socket)
        guard UnixSocket.hasUnreceived(socket), let user = try? UnixSocket.peerCredentials(of: socket).uid else {
            return FileDescriptor.close(raw: socket)
        }
        begun.append(user)
        waitingToClose.append((socket, user))
        closeWaiting()
    }

    /// Gives the connections that wait to be closed to the helper for that, all together.
    private func closeWaiting() {
        if waitingToClose.isEmpty { return }
        if let helper = closingHelper, case .closing(_, let since) = helper.state {
            if Instant.now.microseconds(since: since) < Self.receivingMicroseconds { return }
            closingHelper = nil
            remove(helper)
        }
        if closingHelper == nil { closingHelper = start() }
        guard let helper = closingHelper else { return }
        // Kept by the helper until the broker has closed them: the last one to close a connection may wait.
        while let (raw, user) = waitingToClose.last,
            send(.hold, [FileDescriptor(owning: raw, disposal: { _ in })], to: helper)
        {
            FileDescriptor.close(raw: raw)
            waitingToClose.removeLast()
            closed.append(user)
            helper.state = .closing(user, since: .now)
        }
        if case .closing = helper.state { _ = send(.close, [], to: helper) }
    }

    /// The users of connections that wait to be closed, and of those that no longer do, since the last call.
    func takeLingering() -> (begun: [UInt32], closed: [UInt32]) {
        (exchange(&begun, with: []), exchange(&closed, with: []))
    }

    /// Gives the next waiting message to a helper, if one is idle or can be started.
    func advance() {
        exiting.removeAll { $0.reap() != nil }
        closeWaiting()
        while let index = nextTask() {
            if let helper = current, isLate(helper) {
                replaced[Int(helper.child.pid)] = helper
                current = nil
            }
            if current == nil { current = start() }
            guard let helper = current, case .idle = helper.state else { return }
            let task = waiting.remove(at: index)
            if !give(task, to: helper) {
                // Too many descriptors are in flight; tried again later.
                waiting.insert(task, at: 0)
                return
            }
        }
    }

    /// The next task of a user that may have one, if possible another than the last one served. The others are not received
    /// until a helper is done.
    private func nextTask() -> Int? {
        // The present one is still in its place when it is late, but held up like those that were replaced.
        let heldUp = replaced.values.map(\.user) + [current].compactMap(\.self).filter(isLate).map(\.user)
        let mayBegin = { (task: Task) in
            HelperShares.permits(own: heldUp.count { $0 == task.user }, all: heldUp.count)
        }
        return waiting.firstIndex { mayBegin($0) && $0.user != current?.user } ?? waiting.firstIndex(where: mayBegin)
    }

    private func isLate(_ helper: Helper) -> Bool {
        switch helper.state {
        case .idle: false
        case .receiving(_, let since): Instant.now.microseconds(since: since) >= Self.receivingMicroseconds
        case .closing(_, let since): Instant.now.microseconds(since: since) >= Self.closingMicroseconds
        }
    }

    /// Receives a helper's answers.
    func becameReadable(_ pid: Int) -> [(ClientID, Message)] {
        guard
            let helper = [current, closingHelper].compactMap(\.self).first(where: { $0.child.pid == pid })
                ?? replaced[pid]
        else { return [] }
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
        (current, closingHelper, replaced) = (nil, nil, [:])
    }

    private func take(_ answer: DescriptorHelper.Answer, of helper: Helper, _ messages: inout [(ClientID, Message)]) {
        if answer.kind == .closed {
            helper.state = .idle
            if helper !== current, helper !== closingHelper { remove(helper) }
            return
        }
        guard case .receiving(let client, _) = helper.state else { return }
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
        if case .receiving(let client, _) = helper.state { messages.append((client, Message(isEnd: true))) }
        if helper === current { current = nil }
        if helper === closingHelper { closingHelper = nil }
        remove(helper)
    }

    private func remove(_ helper: Helper) {
        queue.remove(helper.socket.raw)
        replaced[Int(helper.child.pid)] = nil
        helper.child.send(SignalNumber.kill)
        exiting.append(helper.child)
    }

    private func start() -> Helper? {
        guard let (child, socket) = try? WorkerLauncher.startAgain(arguments) else { return nil }
        guard (try? socket.setNonBlocking()) != nil,
            (try? queue.add(socket.raw, token: token(Int(child.pid)))) != nil
        else {
            child.send(SignalNumber.kill)
            exiting.append(child)
            return nil
        }
        return Helper(child, socket)
    }

    /// Gives a message to an idle helper; returns whether it was sent.
    private func give(_ task: Task, to helper: Helper) -> Bool {
        guard send(.receive, [task.socket], to: helper) else { return false }
        (helper.user, helper.state) = (task.user, .receiving(task.client, since: .now))
        return true
    }

    private func send(_ order: DescriptorHelper.Order, _ descriptors: [FileDescriptor], to helper: Helper) -> Bool {
        let sent = try? unsafe withUnsafeBytes(of: order.rawValue) { (bytes) throws(SystemError) in
            try unsafe UnixSocket.send(bytes, descriptors: descriptors, on: helper.socket)
        }
        return (sent ?? nil) == 1
    }
}

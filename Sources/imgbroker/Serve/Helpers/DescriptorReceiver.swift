import BrokerCore
import Digests
import IPCProtocol
import IPCTransport
import LinuxSystem
import SystemValues

/// Receives clients' messages with descriptors, and reads the local files behind them, in another process: the helper.
///
/// A descriptor may belong to any file, and closing it may take as long as its sender likes: a TCP socket that lingers,
/// or a file of a file system that the sender implements (FUSE). The broker therefore never receives one. It only sees,
/// by peeking, that a message has descriptors; the helper receives the message, and passes on the bytes and the first
/// descriptor, if that is a file in memory. It goes on with the client's next messages as long as nothing can hold it
/// up. Any other file it keeps, looks at, and reads on request. Then it closes the others. All of that may take long;
/// it is replaced meanwhile.
///
/// A helper that keeps files of a user serves only that user: a file system that hangs holds up its users alone.
///
/// A connection that is closed with unreceived descriptors would close them, too, so it is closed by the helper.
final class DescriptorReceiver {
    /// A message, or a part of one, as the helper has received it.
    struct Message {
        var bytes: ArraySlice<UInt8> = []
        /// A file in memory, or any other file, which the helper keeps until the last reference is gone: `fileExamined`
        /// or `fileLost` follows. Nil without one.
        var descriptor: FrameChannel.Arrival?
        /// Whether the client has closed the connection, or the message was lost.
        var isEnd = false
    }

    /// The first word of its command line.
    static let word = "receive-descriptors"

    /// The time for which others wait at least until a helper that closes descriptors is replaced, and one that
    /// receives a message: there the kernel may close descriptors, too.
    private static let closingMicroseconds = 10_000
    private static let receivingMicroseconds = 100_000
    /// The most helpers beside the present one. Messages of users without files wait while there are so many.
    private static let mostHelpers = 128
    private static let mostHelpersOfUser = 4
    /// The time after which a helper that reads a file counts as held up. A disk may take long for a large file.
    private static let readingMicroseconds = 2_000_000
    /// The time after which a helper is killed that still reads a file for no request.
    private static let abandonedMicroseconds = 5_000_000

    private enum Work: Equatable {
        case receive(ClientID)
        /// Look at a file in memory.
        case keep(FileID)
    }

    /// Work for a helper that any may do. The descriptor is that of the client's connection, or of the file.
    private typealias Task = (work: Work, user: UInt32, descriptor: FileDescriptor)

    /// Work for the helper that has the file.
    private enum FileOrder {
        case read(JobID, FileID, into: FileDescriptor)
        case release(FileID)
    }

    private final class Helper {
        enum State: Equatable {
            case idle, receiving
            case examining(FileID)
            case reading(JobID, FileID)
            /// It closes descriptors of its user.
            case closing
        }

        let child: ChildProcess
        let socket: FileDescriptor
        var state = State.idle { didSet { since = .now } }
        /// When its state has begun.
        private(set) var since = Instant.now
        var bytes: [UInt8] = []
        var descriptors: [FileDescriptor] = []
        /// The user whose message it was given last, and to whom all its files belong.
        var user: UInt32 = 0
        /// The files that it keeps, or is to keep.
        var files: Set<FileID> = []
        /// The client whose messages it receives, and the number of those that are announced besides.
        var client: ClientID?
        var remaining = 0
        /// The file of the next message that it receives, if that has one.
        var expected = FileID(number: 0)
        /// Waits until it is idle.
        var orders: [FileOrder] = []
        /// Those of its files that never make it wait when they are closed.
        var localFiles: Set<FileID> = []
        /// Those of them that are to be closed with its next order.
        var unneeded: [FileID] = []
        /// Files that it still reads although no request needs them.
        var abandoned: [FileID: Instant] = [:]

        /// Whether it may have descriptors of its user.
        var hasDescriptors: Bool { state != .idle || !files.isEmpty || !unneeded.isEmpty }

        /// Whether a client's message has not come.
        var isReceiving: Bool { state == .receiving || remaining > 0 }

        init(_ child: ChildProcess, _ socket: FileDescriptor) {
            self.child = child
            self.socket = socket
        }
    }

    private let arguments: [String]
    private let queue: EventQueue
    private let token: (Int) -> UInt64
    private let closer: DescriptorCloser
    private var current: Helper?
    /// Helpers that keep files, and those that were replaced, each still closing descriptors, receiving or reading.
    private var others: [Int: Helper] = [:]
    private var keepers: [FileID: Helper] = [:]
    private var fileIDs = IdentifierSource<FileKind>()
    /// The files that were not released: whether their messages were read, and the findings about the others.
    private var wanted: [FileID: (isClaimed: Bool, look: Event?)] = [:]
    private var leftOverClosedAt = Instant.now
    /// Killed helpers. Those of the program before this one are held up by the descriptors of a user.
    private var exiting: [(child: ChildProcess, heldUpBy: UInt32?)] = []
    private var waiting: [Task] = []
    /// Closes connections. It can always be replaced: unlike receiving a descriptor and closing it, closing a
    /// connection with unreceived ones never waits for another process (no `flush`), and a socket that lingers does so
    /// only until the process that closes it is killed.
    private var closingHelper: Helper?
    /// Connections to be closed, which no object owns, and their users.
    private var waitingToClose: [(socket: Int32, user: UInt32)] = []
    /// What has happened since the last `takeEvents`: that connections given to `close` linger, and are closed; that
    /// local files were looked at, after `claim` only, and were read, or not. The memfd of one that was read is sealed.
    private var events: [Event] = []

    /// `token` names a helper's socket in `queue`. With `isStrict`, for tests, unexpected system calls kill.
    init(queue: EventQueue, closer: DescriptorCloser, isStrict: Bool, token: @escaping (Int) -> UInt64) {
        arguments = HelperSandbox.arguments(Self.word, isStrict: isStrict)
        self.queue = queue
        self.closer = closer
        self.token = token
        // Now, because later there may be no descriptors left for it.
        current = start()
    }

    /// Whether `advance` must be called now and then.
    var isBusy: Bool {
        !waiting.isEmpty || !exiting.isEmpty || !waitingToClose.isEmpty
            || others.values.contains { !$0.orders.isEmpty || !$0.abandoned.isEmpty || !$0.unneeded.isEmpty }
    }
    var lingering: Int { waitingToClose.count }

    /// Has the next message on a client's connection received. `becameReadable` returns it.
    func receive(from client: ClientID, of user: UInt32, on socket: FileDescriptor) {
        waiting.append((.receive(client), user, socket))
        advance()
    }

    /// Has a user's file in memory looked at, as if a helper had received it. `becameReadable` returns the result.
    func examine(_ descriptor: FileDescriptor, of user: UInt32) -> FileID {
        let file = fileIDs.next()
        wanted[file] = (false, nil)
        waiting.append((.keep(file), user, descriptor))
        advance()
        return file
    }

    /// Notes that the message of a file was read. Returns the finding about the file, if there is one; otherwise
    /// `becameReadable` returns it.
    func claim(_ file: FileID) -> Event? {
        wanted[file]?.isClaimed = true
        return wanted[file]?.look.take()
    }

    private func report(_ look: Event, of file: FileID) {
        if wanted[file]?.isClaimed == true { events.append(look) } else { wanted[file]?.look = look }
    }

    /// Has a file read into a memfd of its size. `becameReadable` returns the result; false without its helper.
    func read(_ file: FileID, for job: JobID, into memory: FileDescriptor) -> Bool {
        guard let helper = keepers[file] else { return false }
        helper.orders.append(.read(job, file, into: memory))
        giveOrders(to: helper)
        return true
    }

    func release(_ file: FileID) {
        wanted[file] = nil
        if let index = waiting.firstIndex(where: { $0.work == .keep(file) }) { _ = waiting.remove(at: index) }
        guard let helper = keepers[file] else { return }
        // A read that has not begun is not wanted any more.
        helper.orders.removeAll { if case .read(_, file, _) = $0 { true } else { false } }
        if case .reading(_, file) = helper.state { helper.abandoned[file] = .now }
        if helper.localFiles.contains(file), helper.abandoned.isEmpty { return giveUp(file, of: helper) }
        helper.orders.append(.release(file))
        giveOrders(to: helper)
    }

    /// Gives up a client's message. Returns whether it is still in the connection, because no helper was given it.
    @discardableResult
    func forget(_ client: ClientID) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.work == .receive(client) }) else { return false }
        // Outside of the list, because releasing its socket may add to it.
        _ = waiting.remove(at: index)
        return true
    }

    // MARK: Handing over

    var sockets: [FileDescriptor] { helpers.map(\.socket) }

    /// The helpers' processes, with the users whose descriptors may hold some of them up, also when they exit.
    var processes: [(child: ChildProcess, heldUpBy: UInt32?)] {
        helpers.map { ($0.child, $0.hasDescriptors ? $0.user : nil) } + exiting
    }

    private var helpers: [Helper] { [current, closingHelper].compactMap(\.self) + others.values }

    /// Takes the connections that wait to be closed. Those that are released wait again.
    func takeWaitingToClose(_ disposal: @escaping @Sendable (Int32) -> Void) -> [FileDescriptor] {
        events += waitingToClose.map { .connectionClosed(uid: $0.user) }
        return exchange(&waitingToClose, with: []).map { FileDescriptor(owning: $0.socket, disposal: disposal) }
    }

    /// Counts a killed helper of the process whose place this one takes for a user, unless it has exited.
    func adopt(_ child: ChildProcess, heldUpBy user: UInt32) {
        if child.reap() == nil { exiting.append((child, user)) }
    }

    // MARK: Closing

    /// Closes a client's connection, which no object owns any more.
    func close(_ socket: Int32) {
        UnixSocket.shutDown(socket)
        guard UnixSocket.hasUnreceived(socket), let user = try? UnixSocket.peerCredentials(of: socket).uid else {
            return FileDescriptor.close(raw: socket)
        }
        events.append(.connectionLingers(uid: user))
        waitingToClose.append((socket, user))
        closeWaiting()
    }

    /// Gives the connections that wait to be closed to the helper for that, all together.
    private func closeWaiting() {
        if waitingToClose.isEmpty { return }
        if let helper = closingHelper, helper.state == .closing {
            if Instant.now.microseconds(since: helper.since) < Self.receivingMicroseconds { return }
            closingHelper = nil
            remove(helper)
        }
        if closingHelper == nil { closingHelper = start() }
        guard let helper = closingHelper else { return }
        // Kept by the helper until the broker has closed them: the last one to close a connection may wait.
        while let (raw, user) = waitingToClose.last,
            send(.init(.hold), FileDescriptor(owning: raw, disposal: { _ in }), to: helper)
        {
            FileDescriptor.close(raw: raw)
            waitingToClose.removeLast()
            events.append(.connectionClosed(uid: user))
            (helper.user, helper.state) = (user, .closing)
        }
        if helper.state == .closing { _ = send(.init(.close), to: helper) }
    }

    func takeEvents() -> [Event] { exchange(&events, with: []) }

    /// Gives waiting messages to helpers, as far as some are idle or can be started.
    func advance() {
        exiting.removeAll { $0.child.reap() != nil }
        closeWaiting()
        // Helpers that have read for a long time what no request needs. The file system may have to answer first.
        for helper in others.values where !helper.abandoned.isEmpty {
            guard case .reading(_, let file) = helper.state, let since = helper.abandoned[file],
                Instant.now.microseconds(since: since) >= Self.abandonedMicroseconds
            else { continue }
            helper.abandoned = [:]
            helper.child.send(SignalNumber.kill)
        }
        for helper in others.values where !helper.orders.isEmpty { giveOrders(to: helper) }
        // Files that are not needed, of helpers that had no order for a while.
        let now = Instant.now
        if now.microseconds(since: leftOverClosedAt) >= Self.receivingMicroseconds {
            leftOverClosedAt = now
            for helper in others.values where !helper.unneeded.isEmpty { closeUnneeded(of: helper) }
        }
        while let (index, helper) = nextTask() {
            let task = waiting.remove(at: index)
            if !give(task, to: helper) {
                // Too many descriptors are in flight; tried again later.
                waiting.insert(task, at: 0)
                return
            }
        }
    }

    /// The next task that can be given to a helper, and the helper: the one that has the user's files, if that is not
    /// held up. If possible the task of another user than the one last served. The tasks of users that may not hold up
    /// another helper are left until one is done.
    private func nextTask() -> (Int, Helper)? {
        if waiting.isEmpty { return nil }
        // The present one is still in its place when it is late, but held up like those that were replaced.
        let present = (others.values + [current].compactMap(\.self)).filter(isHeldUp).map(\.user)
        let heldUp = present + exiting.compactMap(\.heldUpBy)
        var second: Int?
        var busyUsers: Set<UInt32> = []
        for (index, task) in waiting.enumerated() where !busyUsers.contains(task.user) {
            busyUsers.insert(task.user)
            if let keeper = keeper(of: task.user) {
                if keeper.state == .idle, keeper.orders.isEmpty { return (index, keeper) }
                continue
            }
            guard HelperShares.permits(own: heldUp.count { $0 == task.user }, all: heldUp.count),
                others.count < Self.mostHelpers,
                others.values.count(where: { $0.user == task.user }) < Self.mostHelpersOfUser
            else { continue }
            if task.user != current?.user { return idleCurrent().map { (index, $0) } }
            second = second ?? index
        }
        return second.flatMap { index in idleCurrent().map { (index, $0) } }
    }

    /// The helper that has files of a user and is not held up.
    private func keeper(of user: UInt32) -> Helper? {
        others.values.first { $0.user == user && !($0.files.isEmpty && $0.unneeded.isEmpty) && !isLate($0) }
    }

    /// The present helper, if it is idle. A late one is replaced.
    private func idleCurrent() -> Helper? {
        if let helper = current, isLate(helper) {
            others[Int(helper.child.pid)] = helper
            current = nil
        }
        if current == nil { current = start() }
        guard let helper = current, helper.state == .idle else { return nil }
        return helper
    }

    /// Gives a helper its next order about a file, if it is idle.
    private func giveOrders(to helper: Helper) {
        guard helper.state == .idle, let order = helper.orders.first else { return }
        switch order {
        case .read(let job, let file, let memory):
            guard send(.init(.read, numbers: [file.number]), memory, to: helper) else { return }
            helper.state = .reading(job, file)
        case .release(let file):
            guard send(.init(.release, numbers: [file.number]), to: helper) else { return }
            forget(file, of: helper)
            helper.state = .closing
        }
        helper.orders.removeFirst()
    }

    private func keep(_ file: FileID, in helper: Helper) {
        helper.files.insert(file)
        keepers[file] = helper
        if helper === current { current = nil }
        others[Int(helper.child.pid)] = helper
    }

    /// The most files that a helper keeps that are not needed.
    private static let mostUnneeded = 64

    /// Has a local file closed with the helper's next order, or soon, which wakes it less often.
    private func giveUp(_ file: FileID, of helper: Helper) {
        forget(file, of: helper)
        helper.unneeded.append(file)
        if helper.unneeded.count >= Self.mostUnneeded { closeUnneeded(of: helper) }
    }

    private func closeUnneeded(of helper: Helper) {
        let orders = helper.unneeded.flatMap { DescriptorHelper.Order(.forget, numbers: [$0.number]).encoded }
        if send(orders, to: helper) { helper.unneeded = [] }
        if helper.state == .idle { becameIdle(helper) }
    }

    private func forget(_ file: FileID, of helper: Helper) {
        helper.files.remove(file)
        helper.localFiles.remove(file)
        helper.abandoned[file] = nil
        keepers[file] = nil
    }

    /// Whether a helper is kept from its work by a file system.
    private func isHeldUp(_ helper: Helper) -> Bool {
        if case .reading = helper.state {
            return Instant.now.microseconds(since: helper.since) >= Self.readingMicroseconds
        }
        return isLate(helper)
    }

    private func isLate(_ helper: Helper) -> Bool {
        let patience = helper.state == .closing ? Self.closingMicroseconds : Self.receivingMicroseconds
        return helper.state != .idle && Instant.now.microseconds(since: helper.since) >= patience
    }

    /// Takes what a helper has sent. Returns the messages of clients.
    func becameReadable(_ pid: Int) -> [(ClientID, Message)] {
        let isSender = { (helper: Helper) in helper.child.pid == pid }
        guard let helper = others[pid] ?? [current, closingHelper].compactMap(\.self).first(where: isSender) else {
            return []
        }
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
                    // The queue reports the rest.
                    if count < buffer.count { break loop }
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

    /// Ends all helpers that are not held up. Returns their processes.
    func end() -> [ChildProcess] {
        let children = processes.map(\.child)
        (current, closingHelper, others, keepers, exiting) = (nil, nil, [:], [:], [])
        return children
    }

    private func take(_ answer: DescriptorHelper.Answer, of helper: Helper, _ messages: inout [(ClientID, Message)]) {
        switch answer.kind {
        case .closed: becameIdle(helper)
        case .examined, .refused: examined(answer, by: helper)
        case .read, .unread:
            guard case .reading(let job, _) = helper.state else { return }
            helper.state = .closing
            events.append(
                answer.kind == .read ? .fileRead(job) : .fileReadFailed(job, Self.failure(answer.numbers)))
        case .several:
            guard helper.state == .receiving, let count = answer.numbers.first,
                (2...DescriptorHelper.mostMessages).contains(count)
            else { return }
            helper.remaining = count
        case .bytes, .memory, .file, .lost, .end:
            guard let client = helper.client, helper.isReceiving else { return }
            let file = helper.expected
            helper.expected = FileID(number: file.number + 1)
            helper.remaining = max(0, helper.remaining - 1)
            helper.state = .closing
            var message = Message(bytes: answer.bytes)
            switch answer.kind {
            case .memory:
                message.descriptor = helper.descriptors.isEmpty ? .lost : .descriptor(helper.descriptors.removeFirst())
            case .file:
                wanted[file] = (false, nil)
                keep(file, in: helper)
                helper.state = .examining(file)
                message.descriptor = .kept(KeptDescriptor(file.number) { [self] in release(FileID(number: $0)) })
            case .lost: message.descriptor = .lost
            case .end: message.isEnd = true
            default: break
            }
            messages.append((client, message))
        }
    }

    /// Takes the result of looking at a file.
    private func examined(_ answer: DescriptorHelper.Answer, by helper: Helper) {
        let numbers = answer.numbers
        guard case .examining(let file) = helper.state, numbers.first == file.number else { return }
        helper.state = .closing
        if answer.kind == .examined, numbers.count == 9 || numbers.count == 13 {
            if numbers[7] != 0 { helper.localFiles.insert(file) }
            let identity = FileIdentity(
                device: UInt64(bitPattern: Int64(numbers[1])), inode: UInt64(bitPattern: Int64(numbers[2])),
                size: numbers[3], modified: numbers[4], changed: numbers[5],
                user: numbers[8] != 0 ? helper.user : nil, digest: Self.digest(numbers.dropFirst(9)))
            let facts = FileFacts(identity, isRecent: numbers[6] != 0, isLocal: numbers[7] != 0)
            return report(.fileExamined(file, .success(facts)), of: file)
        }
        // The helper has not kept it.
        forget(file, of: helper)
        let code = Int32(truncatingIfNeeded: numbers.last ?? 0)
        let error =
            code == 0
            ? WireError(.badRequest, "The descriptor must be that of a regular file, opened for reading.")
            : WireError(.transferFailed, "The file is not accessible: \(SystemError("fstat", code: code)).")
        report(.fileExamined(file, .failure(error)), of: file)
    }

    private static func digest(_ words: ArraySlice<Int>) -> ContentDigest? {
        words.count == 4 ? ContentDigest(words: SIMD4(words.map { UInt64(UInt(bitPattern: $0)) })) : nil
    }

    private static func failure(_ numbers: [Int]) -> FileReadFailure {
        let code = Int32(truncatingIfNeeded: numbers.last ?? 0)
        return switch numbers.count == 3 ? DescriptorHelper.ReadFailure(rawValue: numbers[1]) : nil {
        case .changed: .changed
        case .unreadable: .unreadable("\(SystemError("pread", code: code))")
        case .failed: .failed("\(SystemError("pread", code: code))")
        case .noMemory: .noMemory("\(SystemError("pwrite", code: code))")
        case .unknown, nil: .lost
        }
    }

    /// A helper has closed all descriptors of its order.
    private func becameIdle(_ helper: Helper) {
        helper.state = .idle
        (helper.client, helper.remaining) = (nil, 0)
        if helper === current || helper === closingHelper { return }
        giveOrders(to: helper)
        guard helper.state == .idle, helper.files.isEmpty, helper.unneeded.isEmpty, helper.orders.isEmpty else {
            return
        }
        if current != nil { return remove(helper) }
        others[Int(helper.child.pid)] = nil
        current = helper
    }

    /// A helper has exited by itself, or was killed. What it has received, and its files, are lost.
    private func lost(_ helper: Helper, _ messages: inout [(ClientID, Message)]) {
        if let client = helper.client, helper.isReceiving { messages.append((client, Message(isEnd: true))) }
        if case .reading(let job, _) = helper.state { events.append(.fileReadFailed(job, .lost)) }
        for case .read(let job, _, _) in helper.orders { events.append(.fileReadFailed(job, .lost)) }
        helper.orders = []
        for file in helper.files.sorted() {
            forget(file, of: helper)
            report(.fileLost(file), of: file)
        }
        if helper === current { current = nil }
        if helper === closingHelper { closingHelper = nil }
        remove(helper)
    }

    private func remove(_ helper: Helper) {
        queue.remove(helper.socket.raw)
        others[Int(helper.child.pid)] = nil
        helper.child.send(SignalNumber.kill)
        exiting.append((helper.child, nil))
    }

    private func start() -> Helper? {
        guard let (child, socket) = try? WorkerLauncher.startAgain(arguments) else { return nil }
        guard (try? socket.setNonBlocking()) != nil,
            (try? queue.add(socket.raw, token: token(Int(child.pid)))) != nil
        else {
            child.send(SignalNumber.kill)
            exiting.append((child, nil))
            return nil
        }
        return Helper(child, socket)
    }

    /// Gives a task to an idle helper; returns whether it was sent.
    private func give(_ task: Task, to helper: Helper) -> Bool {
        switch task.work {
        case .receive(let client):
            let file = fileIDs.next()
            for _ in 1..<DescriptorHelper.mostMessages { _ = fileIDs.next() }
            guard send(.init(.receive, numbers: [file.number]), task.descriptor, to: helper) else { return false }
            (helper.user, helper.expected, helper.client) = (task.user, file, client)
            helper.state = .receiving
        case .keep(let file):
            guard send(.init(.keep, numbers: [file.number]), task.descriptor, to: helper) else { return false }
            helper.user = task.user
            keep(file, in: helper)
            helper.state = .examining(file)
        }
        return true
    }

    private func send(_ order: DescriptorHelper.Order, _ descriptor: FileDescriptor? = nil, to helper: Helper) -> Bool {
        // The descriptor comes with the first order.
        let bytes =
            order.encoded + helper.unneeded.flatMap { DescriptorHelper.Order(.forget, numbers: [$0.number]).encoded }
        guard send(bytes, descriptor, to: helper) else { return false }
        helper.unneeded = []
        return true
    }

    private func send(_ bytes: [UInt8], _ descriptor: FileDescriptor? = nil, to helper: Helper) -> Bool {
        let sent = try? UnixSocket.send(bytes[...], [descriptor].compactMap(\.self), on: helper.socket)
        return (sent ?? nil) == bytes.count
    }
}

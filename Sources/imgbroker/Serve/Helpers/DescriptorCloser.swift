import LinuxSystem
import Sandbox
import SystemValues

/// Closes large files in memory in a process of its own, because freeing 48 MB of pages takes 10 ms, in which no client
/// would be served.
///
/// The process keeps a descriptor until `release`, when the broker has closed its own: the last one to close it frees
/// the pages. A compromised worker may have sent another file, such as a TCP socket that lingers: a process that does
/// not answer a release is replaced, and what it has is closed when it is killed.
final class DescriptorCloser {
    /// Smaller buffers are closed faster than they are handed over.
    private static let worthwhileBytes = 1 << 20

    /// The first word of its command line.
    static let word = "close-descriptors"

    /// Bytes to the process.
    private static let keep: UInt8 = 0
    private static let release: UInt8 = 1
    /// The byte that it answers a release with.
    private static let released: UInt8 = 2

    /// The time after which a process that has not answered is replaced. To free a gigabyte takes some 200 ms.
    private static let patienceMicroseconds = 1_000_000

    private let arguments: [String]
    private var child: ChildProcess?
    private var socket: FileDescriptor?
    /// Whether the process keeps something that it may close.
    private var isKeeping = false
    /// Given to be closed, and not sent yet, because the process is behind.
    private(set) var pending: [FileDescriptor] = []
    /// The releases that are not answered, and since when the first of them is.
    private var unanswered = 0
    private var waitingSince = Instant.now
    /// Processes that were replaced.
    private var exiting: [ChildProcess] = []

    /// - Parameter isStrict: whether an unexpected system call kills the process; for tests.
    init(isStrict: Bool) {
        arguments = HelperSandbox.arguments(Self.word, isStrict: isStrict)
        start()
    }

    func close(_ buffer: FileDescriptor) {
        if let size = try? buffer.size(), size >= Self.worthwhileBytes { hand(over: buffer) }
    }

    /// Closes a file in memory that another process made, and that no object owns any more. Its size is not known: the
    /// other may change it at any time.
    func dispose(_ raw: Int32) { hand(over: FileDescriptor(owning: raw)) }

    /// Lets the process close what it was given before. Called when the broker has no references to it.
    func release() {
        if !isBehind { return }
        exiting.removeAll { $0.reap() != nil }
        takeAnswers()
        if unanswered > 0, Instant.now.microseconds(since: waitingSince) >= Self.patienceMicroseconds { start() }
        if isKeeping, send(Self.release) {
            isKeeping = false
            if unanswered == 0 { waitingSince = .now }
            unanswered += 1
        }
        while let buffer = pending.last, send(Self.keep, [buffer]) {
            pending.removeLast()
            isKeeping = true
        }
    }

    /// Whether `release` must be called again.
    var isBehind: Bool { isKeeping || !pending.isEmpty || unanswered > 0 || !exiting.isEmpty }

    private func takeAnswers() {
        guard let socket else { return }
        while unanswered > 0, let (answers, _) = UnixSocket.receive(atMost: 64, from: socket) {
            unanswered = max(0, unanswered - answers.count)
            waitingSince = .now
        }
    }

    /// The process, and those that it has replaced.
    var processes: [ChildProcess] { [child].compactMap(\.self) + exiting }

    /// Ends the process, and returns it. Those that it has replaced were killed.
    func end() -> ChildProcess? {
        socket = nil
        return child
    }

    private func hand(over buffer: FileDescriptor) {
        if pending.isEmpty, send(Self.keep, [buffer]) { isKeeping = true } else { pending.append(buffer) }
    }

    /// Sends a byte to the process; false when it must be tried again.
    private func send(_ byte: UInt8, _ descriptors: [FileDescriptor] = []) -> Bool {
        guard let socket else {
            start()
            return false
        }
        do throws(SystemError) {
            return try UnixSocket.send([byte], descriptors, on: socket) == 1
        } catch {
            // With too many descriptors in flight it goes on later; any other error means that the process has exited.
            if error.code != SystemError.tooManyReferences { start() }
            return false
        }
    }

    private func start() {
        if let child {
            child.send(SignalNumber.kill)
            exiting.append(child)
        }
        (child, socket, isKeeping, unanswered) = (nil, nil, false, 0)
        guard let (child, socket) = try? WorkerLauncher.startAgain(arguments) else { return }
        self.child = child
        try? socket.setNonBlocking()
        self.socket = socket
    }

    /// The process's work: receives descriptors and closes them, until the socket ends.
    static func run(_ words: some Sequence<String>) -> Int32 {
        guard let control = HelperSandbox.control else { return 2 }
        HelperSandbox.enter(.descriptors, words)
        var kept: [FileDescriptor] = []
        while let (bytes, descriptors) = UnixSocket.receive(atMost: 4096, from: control) {
            // Bytes after the one with a descriptor are not received together with it.
            let releases = bytes.count { $0 == Self.release }
            if releases > 0 {
                kept = []
                _ = try? UnixSocket.send([UInt8](repeating: Self.released, count: releases)[...], on: control)
            }
            kept += descriptors
        }
        return 0
    }
}

/// The sandbox of the processes that receive and close descriptors for the broker.
enum HelperSandbox {
    private static let strict = "--strict-sandbox"

    /// The socket to the broker; nil in a process that the broker has not started.
    static var control: FileDescriptor? {
        let socket = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        return (try? UnixSocket.peerCredentials(of: socket)) == nil ? nil : socket
    }

    /// The command line of the process that `word` names.
    static func arguments(_ word: String, isStrict: Bool) -> [String] {
        isStrict ? [word, strict] : [word]
    }

    /// Gives up all rights but those to a socket and to memory.
    ///
    /// A kernel without a part of the sandbox is reported, and refuses the workers, unless the broker may do without.
    /// The helper goes on with the other parts: it parses nothing, and the broker cannot receive descriptors itself.
    static func enter(_ policy: SandboxPolicy, _ words: some Sequence<String>) {
        var policy = policy
        policy.isStrict = words.contains(strict)
        let log = Log(name: "imgbroker", level: .warning)
        for problem in policy.enter().problems {
            log.warning(.sandbox, "the process for descriptors is not confined in full: \(problem)")
        }
    }
}

import IPCProtocol
import IPCTransport
import LinuxSystem
import SystemValues
import WorkerProtocol

/// A decode worker that is warm and forks when one more is wanted, as seen from the broker, whose children they all are.
///
/// Nothing depends on it: without it, workers are started as programs, which takes several times as long.
final class ForkServer {
    /// So long the loop waits for a child. It is there after one, on an idle machine.
    private static let patienceMilliseconds: Int32 = 100
    /// So long one serves: libraries may have been replaced since it has loaded them.
    private static let lifetimeMicroseconds = 3_600_000_000

    let child: ChildProcess
    private let channel: FrameChannel
    private let startedAt = Instant.now
    /// Readable when it has something to say, or has ended.
    var socket: FileDescriptor { channel.socket }
    /// Whether it waits for orders.
    private(set) var isReady = false
    /// When it was given an order that it did not answer in time. Its worker may still come, and nobody wants it any more.
    private var owesWorkerSince: Instant?
    /// One that has not answered for so long hangs.
    private static let lostAfterMicroseconds = 10_000_000

    /// Starts one.
    ///
    /// - Throws: `SystemError` of `socketpair`, `fcntl` or `posix_spawn`.
    init(_ launcher: WorkerLauncher) throws(SystemError) {
        let (child, socket) = try launcher.startForkServer()
        try socket.setNonBlocking()
        self.child = child
        channel = FrameChannel(socket: socket)
    }

    /// Whether another should take its place: nothing need be wrong with it.
    var isOld: Bool {
        let now = Instant.now
        if let owesWorkerSince, now.microseconds(since: owesWorkerSince) >= Self.lostAfterMicroseconds { return true }
        return now.microseconds(since: startedAt) >= Self.lifetimeMicroseconds
    }

    /// Takes what it says unasked: that it is ready, or what it was late with. False when it has ended or talks nonsense.
    func becameReadable() -> Bool {
        do {
            if try channel.fill() == .end { return false }
            while let (report, _) = try channel.nextMessage(ForkReport.self) {
                switch report {
                case .ready where !isReady && owesWorkerSince == nil: isReady = true
                case .forked(let pid) where owesWorkerSince != nil:
                    ChildProcess.end(pid)
                    (owesWorkerSince, isReady) = (nil, true)
                case .ready, .forked: return false
                }
            }
            return true
        } catch {
            return false
        }
    }

    /// Waits until it is ready, for so long at most.
    func waitUntilReady(milliseconds: Int32) -> Bool {
        channel.waitUntilReadable(milliseconds: milliseconds) && becameReadable() && isReady
    }

    /// Makes a worker; nil when that fails, or takes too long.
    func fork() -> (ChildProcess, FileDescriptor)? {
        do {
            let (own, control) = try UnixSocket.pair()
            try channel.sendMessage(ForkOrder.fork, descriptors: [control])
            isReady = false
            guard channel.waitUntilReadable(milliseconds: Self.patienceMilliseconds) else {
                owesWorkerSince = .now
                return nil
            }
            guard try channel.fill() == .received, case .forked(let pid)? = try channel.nextMessage(ForkReport.self)?.0
            else {
                // Of no more use; its end is heard of, and another takes its place.
                child.send(SignalNumber.kill)
                return nil
            }
            isReady = true
            do { return (try ChildProcess(adopting: pid), own) } catch {
                // It is a child all the same, and would stay one for ever.
                ChildProcess.end(pid)
                return nil
            }
        } catch {
            return nil
        }
    }
}

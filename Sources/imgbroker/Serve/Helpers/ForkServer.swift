import BrokerCore
import IPCTransport
import LinuxSystem
import SystemValues
import WorkerProtocol

/// A warm decode worker that forks when another one is wanted. All forks are the broker's children.
///
/// It only saves time: without it, workers are started as programs, which takes several times as long.
final class ForkServer {
    /// The time that the event loop waits for a child, which takes one millisecond on an idle machine.
    private static let patienceMilliseconds: Int32 = 100
    /// The lifetime of a fork server, because libraries may have been replaced since it loaded them.
    private static let lifetimeMicroseconds = 3_600_000_000

    let child: ChildProcess
    private let closing: (@Sendable (Int32) -> Void)?
    private let channel: FrameChannel
    private let startedAt = Instant.now
    /// Readable when it has sent a report, or has exited.
    var socket: FileDescriptor { channel.socket }
    /// Whether it waits for orders.
    private(set) var isReady = false
    /// When it was given an order that it did not answer in time. Its worker may still come, and is then killed.
    private var owesWorkerSince: Instant?
    /// A server that has not answered for this long hangs.
    private static let lostAfterMicroseconds = 10_000_000

    init(_ launcher: WorkerLauncher) throws(SystemError) {
        let (child, socket) = try launcher.start(.decode, asForkServer: true)
        try socket.setNonBlocking()
        self.child = child
        closing = launcher.closing
        channel = FrameChannel(socket: socket)
    }

    /// Whether another should replace it, by age or because it hangs.
    var isOld: Bool {
        let now = Instant.now
        if let owesWorkerSince, now.microseconds(since: owesWorkerSince) >= Self.lostAfterMicroseconds { return true }
        return now.microseconds(since: startedAt) >= Self.lifetimeMicroseconds
    }

    /// Receives its reports: that it is ready, or a late worker. Returns false when it has exited or sent nonsense.
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

    func waitUntilReady(milliseconds: Int32) -> Bool {
        channel.waitUntilReadable(milliseconds: milliseconds) && becameReadable() && isReady
    }

    /// Forks a worker; nil when that fails, or takes too long.
    func fork() -> (ChildProcess, FileDescriptor)? {
        do {
            let (own, control) = try UnixSocket.pair(disposal: closing)
            try channel.sendMessage(ForkOrder.fork, descriptors: [control])
            isReady = false
            guard channel.waitUntilReadable(milliseconds: Self.patienceMilliseconds) else {
                owesWorkerSince = .now
                return nil
            }
            guard try channel.fill() == .received, case .forked(let pid)? = try channel.nextMessage(ForkReport.self)?.0
            else {
                // Its exit is reported, and another one replaces it.
                child.send(SignalNumber.kill)
                return nil
            }
            isReady = true
            do { return (try ChildProcess(adopting: pid), own) } catch {
                // It is the broker's child all the same, and would stay a zombie.
                ChildProcess.end(pid)
                return nil
            }
        } catch {
            return nil
        }
    }
}

import LinuxSystem
import SystemValues

/// Closes large buffers in a process of its own, because freeing 48 MB of pages takes 10 ms, in which no client would be
/// served. Buffers that cannot be handed over are closed here.
final class DescriptorCloser {
    /// Smaller buffers are closed faster than they are handed over.
    private static let worthwhileBytes = 1 << 20

    /// The first word of its command line.
    static let word = "close-descriptors"

    private var child: ChildProcess?
    private var socket: FileDescriptor?

    init() {
        start()
    }

    /// Closes a buffer.
    func close(_ buffer: FileDescriptor) {
        guard let socket, let size = try? buffer.size(), size >= Self.worthwhileBytes else { return }
        do throws(SystemError) {
            // A full socket means that the process is behind.
            _ = try unsafe withUnsafeBytes(of: UInt8(0)) { (bytes) throws(SystemError) in
                try unsafe UnixSocket.send(bytes, descriptors: [buffer], on: socket)
            }
        } catch  where error.code == SystemError.tooManyReferences {
            // Too many descriptors are in flight: this one is closed here.
        } catch {
            start()
        }
    }

    /// Ends the process.
    func end() {
        socket = nil
        if child?.waitForExit(milliseconds: 500) == nil { child?.send(SignalNumber.kill) }
        _ = child?.waitForExit(milliseconds: 500)
    }

    private func start() {
        child?.send(SignalNumber.kill)
        _ = child?.waitForExit(milliseconds: 100)
        (child, socket) = (nil, nil)
        guard let (child, socket) = try? WorkerLauncher.startAgain([Self.word]) else { return }
        self.child = child
        try? socket.setNonBlocking()
        self.socket = socket
    }

    /// The process's work: receives descriptors and closes them, until the socket ends.
    static func run() -> Int32 {
        let control = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        guard (try? UnixSocket.peerCredentials(of: control)) != nil else { return 2 }
        return unsafe withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { buffer in
            while true {
                // The descriptors are closed as they go out of scope.
                guard let received = try? unsafe UnixSocket.receive(into: buffer, from: control) else { return 1 }
                if case .end = received { return 0 }
            }
        }
    }
}

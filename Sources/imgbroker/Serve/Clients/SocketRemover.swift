import LinuxSystem

/// Removes the socket's file for a broker that has dropped the privilege to do so: with `--user`, root starts a process that
/// waits for the broker's exit, however it comes, and removes the file.
final class SocketRemover {
    /// The first word of its command line.
    static let word = "remove-socket"

    /// Nil in a process that has taken the place of the one that started it.
    private let child: ChildProcess?
    /// The control socket, whose end it waits for.
    private(set) var socket: FileDescriptor?

    /// Starts the process, before the user is changed.
    init(path: String) throws(SystemError) {
        let (child, socket) = try WorkerLauncher.startAgain([Self.word, path])
        self.child = child
        self.socket = socket
    }

    /// Takes over the process that another has started.
    init(inherited socket: FileDescriptor) {
        child = nil
        self.socket = socket
    }

    /// Lets it remove the file, and waits for it.
    func run() {
        socket = nil
        _ = child?.waitForExit(milliseconds: 1000)
    }

    /// The process's work.
    static func run(_ words: some Sequence<String>) -> Int32 {
        let control = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        guard let path = words.first(where: { _ in true }), (try? UnixSocket.peerCredentials(of: control)) != nil,
            let identity = UnixSocket.identity(of: path), identity.isSocket
        else { return 2 }
        unsafe withUnsafeTemporaryAllocation(byteCount: 16, alignment: 16) { buffer in
            while let received = try? unsafe UnixSocket.receive(into: buffer, from: control) {
                if case .end = received { break }
            }
        }
        if UnixSocket.identity(of: path) == identity { try? FileDescriptor.remove(path) }
        return 0
    }
}

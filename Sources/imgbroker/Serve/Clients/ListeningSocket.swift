import ImageBrokerClient
import LinuxSystem
import SystemValues

/// The socket that clients connect to. At most one broker serves a path; the file of a broker that died is replaced.
final class ListeningSocket {
    let path: String
    let descriptor: FileDescriptor
    /// The identity of its file; nil if the service manager has made that.
    let identity: UnixSocket.FileIdentity?

    /// The longest wait for the lock, which a broker that starts holds for milliseconds. Any user who may read the
    /// directory can hold it for longer.
    private static let lockMilliseconds = 2000

    init(path: String, mode: UInt32, group: UInt32? = nil, log: Log) throws(ServeRefusal) {
        self.path = path
        do throws(SystemError) {
            // A lock serialises two brokers that start concurrently.
            let directory = Self.directory(of: path)
            let lock = try UnixSocket.lock(directory: directory, milliseconds: Self.lockMilliseconds)
            if lock == nil { log.warning(.setting, "another process keeps \(directory) locked: starting all the same") }
            try UnixSocket.clear(path)
            descriptor = try UnixSocket.listen(at: path, mode: mode, group: group)
            identity = UnixSocket.identity(of: path)
            _ = lock
        } catch  where error.code == SystemError.addressInUse {
            throw ServeRefusal("\(path) is in use: another broker serves it, or it is no socket")
        } catch  where group != nil && error.call == "chown" {
            let remedy = "only root and the group's members may do that"
            throw ServeRefusal("\(path) cannot be given to the group (\(error)): \(remedy)")
        } catch {
            throw ServeRefusal("cannot listen at \(path): \(error)")
        }
    }

    /// Listens with the socket of the process whose place this one takes, or the service manager's.
    init(
        inherited descriptor: FileDescriptor, path: String = "the service manager's socket",
        identity: UnixSocket.FileIdentity? = nil
    ) {
        (self.descriptor, self.path, self.identity) = (descriptor, path, identity)
    }

    func remove() {
        if let identity, UnixSocket.identity(of: path) == identity { try? FileDescriptor.remove(path) }
    }

    /// The default path; nil when no directory for it is writable.
    static var defaultPath: String? {
        if CurrentProcess.mayWrite(to: directory(of: SocketPath.system)) { return SocketPath.system }
        return SocketPath.user
    }

    static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

/// Removes the socket's file for a broker that has dropped the privilege to do so: with `--user`, root starts a process
/// that waits for the broker's exit, however it comes, and removes the file.
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
        guard let control = HelperSandbox.control, let path = words.first(where: { _ in true }),
            let identity = UnixSocket.identity(of: path), identity.isSocket
        else { return 2 }
        while UnixSocket.receive(atMost: 16, from: control) != nil {}
        if UnixSocket.identity(of: path) == identity { try? FileDescriptor.remove(path) }
        return 0
    }
}

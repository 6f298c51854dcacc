import BrokerCore
import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache

/// How workers are started.
struct WorkerLauncher {
    /// The folder with the workers' programs.
    let directory: String
    /// Whom they become; nil when they stay what the broker is.
    var user: (uid: UInt32, gid: UInt32)?
    var allowedAddresses: [String] = []
    /// The slowest body that is waited for, in bytes a second; 0 for any.
    var slowestBody = 1000
    /// The proxy that download workers are to use; nil for none.
    var proxy: String?
    /// A system call that nobody foresaw ends a worker: for tests.
    var hasStrictSandbox = false
    /// The bytes of the largest body.
    var largestDownload: Int?
    /// The pixels of the largest picture.
    var largestPicture: Int?
    /// What a decode worker may have of memory, in bytes.
    var workerMemory: Int?
    /// What the cache process is told about its directory and its limits.
    var cacheArguments: [String] = []
    var logLevel = LogLevel.notice

    /// Looks for the workers' executables beside this one, then in `../libexec/imgbroker`.
    init?() {
        guard let own = CurrentProcess.executablePath, let slash = own.lastIndex(of: "/") else { return nil }
        let places = [String(own[..<slash]), own[..<slash] + "/../libexec/imgbroker"]
        guard let place = places.first(where: { CurrentProcess.exists($0 + "/imgworker") }) else { return nil }
        self.directory = place
    }

    /// The descriptor by which a started process hears from the broker.
    static let controlDescriptor: Int32 = 3

    /// Starts this very program once more, with other arguments.
    ///
    /// - Throws: `SystemError` of `socketpair`, `readlink` or `posix_spawn`.
    static func startAgain(_ arguments: [String]) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        guard let path = CurrentProcess.executablePath else { throw SystemError("readlink") }
        let (own, control) = try UnixSocket.pair()
        return (try ChildProcess(path: path, arguments: arguments, control: control), own)
    }

    /// Starts a worker and returns it with this end of its control socket. The worker alone has the other end, so that
    /// its death is the socket's end.
    ///
    /// - Throws: `SystemError` of `socketpair` or `posix_spawn`.
    func start(_ kind: WorkerKind) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        try start(kind, asForkServer: false)
    }

    /// Starts what makes decode workers, and returns it with this end of its control socket.
    ///
    /// - Throws: `SystemError` of `socketpair` or `posix_spawn`.
    func startForkServer() throws(SystemError) -> (ChildProcess, FileDescriptor) {
        try start(.decode, asForkServer: true)
    }

    private func start(
        _ kind: WorkerKind, asForkServer isForkServer: Bool
    ) throws(SystemError) -> (ChildProcess, FileDescriptor) {
        let (own, control) = try UnixSocket.pair()
        var arguments = ["--parent", "\(CurrentProcess.pid)"]
        if let user { arguments += ["--uid", "\(user.uid)", "--gid", "\(user.gid)"] }
        let program: String
        switch kind {
        case .fetch:
            program = "imgfetch"
            arguments += ["--log-level", logLevel.rawValue]
            for range in allowedAddresses { arguments += ["--allow-address", range] }
            if let proxy { arguments += ["--proxy", proxy] }
            arguments += ["--min-speed", "\(slowestBody)"]
            // With room, so that it is the limit of a download that is met first.
            if let largestDownload, largestDownload <= Int.max >> 1 {
                arguments += ["--largest-file", "\(largestDownload + (1 << 20))"]
            }
            if hasStrictSandbox { arguments.append("--strict-sandbox") }
        case .decode:
            program = "imgworker"
            // What an encoded picture may become is the most; no limit where that is no number.
            if let largestPicture, largestPicture <= Int.max >> 5 {
                arguments += ["--largest-file", "\(Encoding.mostBytes(ofPixels: largestPicture))"]
            }
            if let workerMemory { arguments += ["--memory", "\(workerMemory)"] }
            if hasStrictSandbox { arguments.append("--strict-sandbox") }
            if isForkServer { arguments.append("--fork-server") }
        case .cache:
            program = "imgcache"
            arguments += cacheArguments + ["--log-level", logLevel.rawValue]
            if hasStrictSandbox { arguments.append("--strict-sandbox") }
        }
        let child = try ChildProcess(
            path: directory + "/" + program, arguments: arguments,
            // A crash is the broker's to report: no backtrace of a hostile picture's making.
            environment: ["SWIFT_BACKTRACE=enable=no", "LC_ALL=C", "PATH=/usr/bin:/bin"], control: control)
        return (child, own)
    }
}

/// One worker as the event loop sees it.
final class WorkerProcess {
    let id: WorkerID
    let kind: WorkerKind
    let child: ChildProcess
    let channel: FrameChannel
    /// Nothing that it says counts any more.
    var isUnheard = false
    /// The processor time that it had used when its job began, in milliseconds.
    var processorTimeBefore = 0
    /// Its socket has ended.
    var hasEnded = false
    var isWatchedForWriting = false

    /// A process that has just begun, with this end of its control socket.
    init(
        _ kind: WorkerKind, id: WorkerID, _ child: ChildProcess, _ socket: FileDescriptor
    ) throws(SystemError) {
        try socket.setNonBlocking()
        self.child = child
        channel = FrameChannel(socket: socket)
        self.id = id
        self.kind = kind
    }
}

/// What a job is producing: a memfd that a worker fills, then a sealed one that waits to be published.
final class Product {
    private var writable: WritableBuffer?
    private(set) var sealed: SealedBuffer?
    private let mayShrink: Bool

    /// A memfd of `size` bytes, or of as many at most; of any number where that is not known.
    init(name: String, size: Int? = nil, mayShrink: Bool = false) throws(SystemError) {
        writable = try WritableBuffer(name: name, size: size, mayShrink: mayShrink)
        self.mayShrink = mayShrink
    }

    /// What another process has made and sealed.
    init(sealed: SealedBuffer) {
        self.sealed = sealed
        mayShrink = false
    }

    /// The descriptor for the worker; nil once it is sealed.
    var descriptor: FileDescriptor? { writable?.descriptor }

    /// Ends the writing; the buffer must then be of `size` bytes.
    ///
    /// - Throws: `SystemError` of `fcntl`; `EINVAL` when the size is another.
    func seal(size: Int) throws(SystemError) {
        if mayShrink { try writable?.descriptor.truncate(to: size) }
        guard let buffer = try writable.take()?.seal(), buffer.size == size else {
            throw SystemError("fcntl", code: SystemError.invalidArgument)
        }
        sealed = buffer
    }
}

import IPCProtocol
import IPCTransport
import LinuxSystem
import Sandbox

/// How the cache process comes to life. The order of the steps matters.
enum StartSequence {
    /// The descriptor on which the broker speaks.
    static let controlDescriptor: Int32 = 3

    /// Starts, serves until the broker closes the control socket, and returns the exit status: 0 then, 1 when
    /// something failed, 2 for wrong use.
    static func run(_ arguments: [String]) -> Int32 {
        let control = FileDescriptor(owning: controlDescriptor)
        let options = StartOptions(arguments.dropFirst())
        let log = Log(name: "imgcache", level: options?.logLevel ?? .warning)
        guard (try? UnixSocket.peerCredentials(of: control)) != nil else {
            log.error("no control socket on descriptor \(controlDescriptor): imgbroker starts this program")
            return 2
        }
        guard let options else {
            log.error(
                """
                usage: imgcache --directory DIR --disk-limit BYTES --raster-limit BYTES [--max-age SECONDS] \
                [--largest-body BYTES] [--extra-directory DIR]... [--retry-interval MILLISECONDS] [--parent PID] [--uid N --gid N] \
                [--log-level LEVEL] [--strict-sandbox]
                """)
            return 2
        }
        do {
            if let user = options.user {
                // While it may still be made anywhere. Whatever goes wrong shows again when it is opened.
                do throws(Obstacle) {
                    try CacheDirectory(path: options.store.directory).make(for: user.uid, gid: user.gid)
                } catch {
                    log.debug(error.reason)
                }
                // Before the death signal, which a change of user clears.
                try CurrentProcess.become(uid: user.uid, gid: user.gid)
            }
            if let parent = options.parent {
                try CurrentProcess.dieWithParent()
                // It may have died before it could be heard of.
                guard CurrentProcess.parent == parent else { return 1 }
            }
            try CurrentProcess.forbidCoreDumps()
            // The index, too, which SQLite creates: it names URLs.
            CurrentProcess.createFilesForOwnerOnly()
            let store = Store(options.store, log: log)
            store.open()
            var loop = try StoreLoop(channel: FrameChannel(socket: control), store: store)
            // Behind what may need more: making the directory, and SQLite's own beginning. No byte of an entry, and no
            // word of a client, has been looked at yet.
            var policy = SandboxPolicy.cache(
                directory: options.store.directory, extraDirectories: options.store.extraDirectories)
            policy.isStrict = options.hasStrictSandbox
            let sandbox = policy.enter()
            for problem in sandbox.problems { log.warning("not confined in full: \(problem)") }
            if sandbox.report.landlock > 0 { store.confine() }
            try loop.run(sandbox.report)
            return 0
        } catch {
            log.error("\(error)")
            return 1
        }
    }
}

/// What the command line says.
struct StartOptions: Equatable {
    /// What to keep, and where.
    var store: Store.Options
    /// The process whose death ends this one.
    var parent: Int32?
    /// Whom to become.
    var user: User?
    var logLevel = LogLevel.warning
    /// A system call that nobody foresaw ends the process.
    var hasStrictSandbox = false

    /// A user and a group by their numbers.
    struct User: Equatable {
        var uid: UInt32
        var gid: UInt32
    }

    /// Reads `arguments`, without the program's name; nil when they make no sense.
    init?(_ arguments: some Sequence<String>) {
        var values: [String: String] = [:]
        var extraDirectories: [String] = []
        var rest = arguments.makeIterator()
        while let name = rest.next() {
            if name == "--strict-sandbox" {
                hasStrictSandbox = true
                continue
            }
            guard Self.names.contains(name), let value = rest.next() else { return nil }
            if name == "--extra-directory" { extraDirectories.append(value) } else { values[name] = value }
        }
        func number<Number: FixedWidthInteger>(_ name: String, in range: ClosedRange<Number>) -> Number?? {
            guard let text = values[name] else { return .some(nil) }
            guard let number = Number(text), range.contains(number) else { return nil }
            return number
        }
        guard let directory = values["--directory"], !directory.isEmpty, extraDirectories.allSatisfy({ !$0.isEmpty }),
            case let diskLimit?? = number("--disk-limit", in: 0...Int.max),
            case let rasterLimit?? = number("--raster-limit", in: 0...Int.max),
            case let maxAge? = number("--max-age", in: Int.min...Int.max / 1000),
            case let largestBody? = number("--largest-body", in: 1...Int.max),
            case let retryInterval? = number("--retry-interval", in: 1...Int.max / 1_000_000),
            case let parent? = number("--parent", in: 1...Int32.max),
            case let uid? = number("--uid", in: 0...UInt32.max), case let gid? = number("--gid", in: 0...UInt32.max)
        else { return nil }
        store = Store.Options(
            directory: directory, diskLimit: diskLimit, rasterLimit: rasterLimit,
            maxAge: (maxAge ?? -1) < 0 ? nil : maxAge.map { $0 * 1000 },
            extraDirectories: extraDirectories)
        if maxAge == nil { store.maxAge = Self.defaultMaxAge }
        if let largestBody { store.largestBody = largestBody }
        if let retryInterval { store.retryInterval = retryInterval }
        self.parent = parent
        switch (uid, gid) {
        case (let uid?, let gid?): user = User(uid: uid, gid: gid)
        case (nil, nil): break
        default: return nil
        }
        if let word = values["--log-level"] {
            guard let level = LogLevel(rawValue: word) else { return nil }
            logLevel = level
        }
    }

    /// Seven days.
    private static let defaultMaxAge = 7 * 86_400 * 1000

    private static let names: Set = [
        "--directory", "--disk-limit", "--raster-limit", "--max-age", "--retry-interval", "--parent", "--uid", "--gid",
        "--log-level", "--extra-directory", "--largest-body",
    ]
}

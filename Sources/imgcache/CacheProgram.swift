import IPCTransport
import LinuxSystem
import Sandbox
import SystemValues
import WorkerProtocol
import WorkerRuntime

/// The cache process's options, and what it acquires before the sandbox.
struct CacheProgram: WorkerProgram {
    let name = "imgcache"

    /// The directories and limits of the disk tier. `--directory`, `--disk-limit` and `--raster-limit` are required.
    private(set) var store = StoreOptions(directory: "", diskLimit: -1, rasterLimit: -1, maxAge: defaultMaxAge)

    private static let defaultMaxAge = 7 * 86_400 * 1000

    mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool {
        switch name {
        case "--directory": store.directory = try arguments.value(Self.path)
        case "--extra-directory": store.extraDirectories.append(try arguments.value(Self.path))
        case "--disk-limit": store.diskLimit = try arguments.number(in: 0...Int.max)
        case "--raster-limit": store.rasterLimit = try arguments.number(in: 0...Int.max)
        case "--max-age":
            // In seconds; negative for no limit.
            let seconds = try arguments.number(in: Int.min...Int.max / 1000)
            store.maxAge = seconds < 0 ? nil : seconds * 1000
        case "--largest-body": store.largestBody = try arguments.number(in: 1...Int.max)
        case "--small-entry": store.smallEntry = try arguments.number(in: 0...StoreOptions.largestSmallEntry)
        case "--retry-interval": store.retryInterval = try arguments.number(in: 1...Int.max / 1_000_000)
        default: return false
        }
        return true
    }

    private static func path(_ text: String) -> String? { text.isEmpty ? nil : text }

    func validate() throws(UsageError) {
        if store.directory.isEmpty || store.diskLimit < 0 || store.rasterLimit < 0 {
            throw UsageError("--directory, --disk-limit and --raster-limit are required")
        }
    }

    /// The directory, opened before the change of user, if it is out of the user's reach by its path.
    private var opened: FileDescriptor?

    /// Makes the cache directory for `user`, who may have no right to make it, or to reach it.
    mutating func prepareFiles(for user: WorkerOptions.User, log: Log) {
        do throws(Obstacle) {
            try CacheDirectory(path: store.directory).make(for: user.uid, gid: user.gid)
        } catch {
            // The store meets the same obstacle when it opens the directory, and reports it.
            log.debug(.disk, [], error.reason)
        }
        opened = try? FileSystem.openDirectory(store.directory)
    }

    func makeService(channel: FrameChannel, log: Log) throws -> StoreLoop {
        var options = store
        // Without a right to search the directories above it, the status is an error, and not that of a missing
        // directory.
        if let opened, (try? FileSystem.status(of: options.directory)) == nil {
            options.directory = FileSystem.path(ofDescriptor: opened.raw)
        }
        SQLiteConnection.configure()
        let store = Store(options, log: log, holding: opened)
        store.prepare()
        return try StoreLoop(channel: channel, store: store)
    }
}

extension StoreLoop: WorkerService {
    var sandboxPolicy: SandboxPolicy {
        .cache(directory: store.options.directory, extraDirectories: store.options.extraDirectories)
    }

    /// Lets SQLite do what it does once.
    func warmUp() { _ = try? CacheIndex(path: ":memory:", holdsContents: true) }

    /// Opens the directory. Others may have written any file in it, the index among them, so this is the first read.
    func didEnterSandbox(_ report: SandboxReport) {
        if report.landlock > 0 { store.confine() }
        if store.obstacle == nil { store.open() }
    }

    func ready(in report: SandboxReport) -> StoreReport { .ready(report) }
}

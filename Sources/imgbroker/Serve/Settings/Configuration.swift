import BrokerCore
import HTTPValues
import LinuxSystem
import SystemValues
import WorkerProtocol

struct Configuration {
    /// The socket's path; nil for the default.
    var socketPath: String?
    /// The user that the broker becomes once it has bound the socket; nil to stay the same.
    var user: String?
    /// The socket's mode; nil for 0600, or 0660 when a group is named or root starts the broker.
    var socketMode: UInt32?
    /// The socket's group; nil for that of the process.
    var socketGroup: UInt32?
    /// The addresses allowed beyond the globally routable ones.
    var allowedAddresses: [AddressRange] = []
    var adminGroup: UInt32?
    var statsGroup: UInt32?
    /// The proxy that all downloads go through; it then decides which addresses may be reached.
    var proxy: String?
    /// The user name and password for the proxy, of a file.
    var proxyCredentials: Credentials?
    /// Root certificates (PEM) that are trusted besides those of the system.
    var roots: String?
    /// Warnings for the log, one sentence each, by setting.
    var warnings: [String: String] = [:]
    /// The least speed of a body in bytes per second; 0 for any.
    var slowestBody = 1000
    var limits = {
        var limits = BrokerLimits()
        limits.mostSegmentImageBytes = BrokerLimits.usualSegmentImageBytes
        return limits
    }()
    /// Whether an unexpected system call kills a worker; for tests.
    var hasStrictSandbox = false
    var logLevel: LogLevel { limits.logLevel }
    var logFormat = LogFormat()
    /// The disk tier's directory; nil for the default.
    var cacheDirectory: String?
    /// The bytes of rasters, in addition to those of originals (`limits.diskBytes`).
    var rasterLimitBytes = 1 << 30
    /// The seconds without use after which an entry leaves the disk; nil for never.
    var maxAge: Int? = 7 * 86_400
    /// Read-only disk caches of other brokers.
    var extraCacheDirectories: [String] = []

    /// The servers of the shared tier, as "host:port"; none without one.
    var sharedServers: [String] = []
    /// The key by which its records are signed; nil when they are not.
    var sharedKey: [UInt8]?

    /// What download workers are told by descriptor.
    var fetchPrivate: FetchPrivate {
        FetchPrivate(proxy: proxy, proxyCredentials: proxyCredentials, roots: roots)
    }

    var isAllowedAddress: (String) -> Bool {
        // Through a proxy, only the proxy's address is known.
        if proxy != nil { return { _ in true } }
        let policy = AddressPolicy(allowed: allowedAddresses)
        return { IPAddress($0).map(policy.permits) ?? false }
    }

    /// The default directory of the disk tier (XDG Base Directory Specification).
    static var usualCacheDirectory: String? {
        if CurrentProcess.uid == 0 { return "/var/cache/imgbroker" }
        if let base = CurrentProcess.environment("XDG_CACHE_HOME"), base.hasPrefix("/") { return base + "/imgbroker" }
        return CurrentProcess.environment("HOME").map { $0 + "/.cache/imgbroker" }
    }
}

// What may take descriptors, of which a process has a limited number.
extension BrokerLimits {
    /// The descriptors that clients and images need at least.
    private static let leastDescriptors = 16

    /// The descriptors of the workers and of the loop itself.
    private var descriptorsOfProcesses: Int {
        // Two for each process, spares included; a job's result is one, too.
        3 * (workers + fetchers + families.count * workersOfFamily + 5) + 16
    }

    var neededDescriptors: Int { descriptorsOfProcesses + Self.leastDescriptors }

    /// The limits with those of what takes descriptors, for a limit of descriptors.
    func fitted(to descriptors: Int) -> BrokerLimits {
        var limits = self
        var free = max(descriptors - descriptorsOfProcesses, Self.leastDescriptors)
        // The results of jobs that decode workers are given ahead take an eighth of them at most.
        limits.briefJobs = min(briefJobs, max(free / 8 / max(workers, 1), 1))
        free -= (limits.briefJobs - 1) * workers
        limits.maxClients = min(maxClients, max(free / 4, 8))
        limits.memoryEntries = min(memoryEntries, max(free / 2, 8))
        limits.maxLeasedBuffers = min(maxLeasedBuffers, max(descriptors / 4, 16))
        limits.maxEvictedBuffers = min(maxEvictedBuffers, max(free / 8, 8))
        limits.maxStores = min(maxStores, max(free / 8, 8))
        return limits
    }
}

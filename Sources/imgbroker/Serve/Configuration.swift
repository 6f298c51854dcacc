import BrokerCore
import HTTPCaching
import HTTPValues
import IPCProtocol
import LinuxSystem

/// The settings of a broker.
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
    /// The group whose members are administrators.
    var adminGroup: UInt32?
    /// The proxy that all downloads go through; it then decides which addresses may be reached.
    var proxy: String?
    /// The least speed of a body in bytes per second; 0 for any.
    var slowestBody = 1000
    var limits = BrokerLimits()
    /// Whether an unexpected system call kills a worker; for tests.
    var hasStrictSandbox = false
    var logLevel = LogLevel.notice
    /// The disk tier's directory; nil for the default.
    var cacheDirectory: String?
    /// The bytes of rasters, in addition to those of originals (`limits.diskBytes`).
    var rasterLimitBytes = 1 << 30
    /// The seconds without use after which an entry leaves the disk; nil for never.
    var maxAge: Int? = 7 * 86_400
    /// Read-only disk caches of other brokers.
    var extraCacheDirectories: [String] = []

    var addressPolicy: AddressPolicy { AddressPolicy(allowed: allowedAddresses) }

    /// The meaning of a command line.
    enum Request {
        case serve(Configuration)
        case help
        case version
        case formats(json: Bool)
    }

    /// Reads the arguments after the program's name.
    static func read(_ words: some Sequence<String>) throws(UsageError) -> Request {
        var configuration = Configuration()
        configuration.limits.workers = CurrentProcess.processors
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            guard case .flag(let flag) = word else {
                if case .operand(let operand) = word {
                    throw UsageError(description: "unknown command \"\(operand)\": there are get and ctl, and options")
                }
                continue
            }
            if try configuration.takeSocket(flag, &arguments) { continue }
            if try configuration.takeLimit(flag, &arguments) { continue }
            if try configuration.takeDownload(flag, &arguments) { continue }
            if try configuration.takeDisk(flag, &arguments) { continue }
            switch flag {
            case "--allow-unsandboxed": configuration.limits.allowsUnsandboxed = true
            case "--strict-sandbox": configuration.hasStrictSandbox = true
            case "--log-level": configuration.logLevel = try arguments.choice(of: flag)
            case "--help", "-h": return .help
            case "--version", "-V": return .version
            case "--formats": return .formats(json: try Self.wantsJSON(&arguments))
            default: throw UsageError(description: "unknown option \(flag) (see imgbroker --help)")
            }
        }
        let caching = configuration.limits.caching
        if caching.minimumLifetime > caching.maximumLifetime {
            let longest = caching.maximumLifetime
            throw UsageError(description: "--min-ttl is longer than --max-ttl (\(longest) s): give a longer --max-ttl")
        }
        if configuration.limits.diskBytes == 0, !configuration.extraCacheDirectories.isEmpty {
            throw UsageError(description: "--extra-cache-dir needs an own disk cache: give a --disk-limit above 0")
        }
        configuration.limits.usesDisk = configuration.limits.diskBytes > 0
        // As much again as is cached, and at least one large image.
        configuration.limits.maxEvictedBytes = max(configuration.limits.memoryBytes, 64 << 20)
        return .serve(configuration)
    }

    // MARK: Groups of flags. Each reads the value of a flag of its group, and returns false for any other flag.

    private mutating func takeSocket(_ flag: String, _ arguments: inout Arguments) throws(UsageError) -> Bool {
        switch flag {
        case "--socket": socketPath = try arguments.path(of: flag)
        case "--socket-mode":
            let text = try arguments.value(of: flag)
            guard let mode = UInt32(text, radix: 8), mode <= 0o777 else {
                throw UsageError(description: "\(flag) needs an octal mode such as 0660, not \"\(text)\"")
            }
            socketMode = mode
        case "--socket-group": socketGroup = try Self.group(of: flag, &arguments)
        case "--admin-group": adminGroup = try Self.group(of: flag, &arguments)
        case "--user": user = try arguments.value(of: flag)
        default: return false
        }
        return true
    }

    private mutating func takeLimit(_ flag: String, _ arguments: inout Arguments) throws(UsageError) -> Bool {
        switch flag {
        case "--workers": limits.workers = try arguments.number(of: flag, in: 1...256)
        case "--fetchers": limits.fetchers = try arguments.number(of: flag, in: 1...16)
        case "--queue-order": limits.queueOrder = try arguments.choice(of: flag) as QueueOrder == .fifo ? .fifo : .lifo
        case "--worker-memory": limits.workerMemoryBytes = try Self.workerMemory(of: flag, &arguments)
        case "--decode-time": limits.decodeSeconds = try Self.workTime(of: flag, &arguments)
        case "--decode-deadline": limits.decodeDeadlineMs = 1000 * (try Self.workTime(of: flag, &arguments))
        case "--memory-limit": limits.memoryBytes = try arguments.size(of: flag, unit: .binary)
        case "--max-pixels": limits.maxPixels = try arguments.size(of: flag, unit: .decimal)
        case "--max-source-pixels": limits.maxSourcePixels = try arguments.size(of: flag, unit: .decimal)
        case "--scale-down-limit": limits.scaleDownBytes = try arguments.size(of: flag, unit: .decimal)
        default: return false
        }
        return true
    }

    private mutating func takeDownload(_ flag: String, _ arguments: inout Arguments) throws(UsageError) -> Bool {
        switch flag {
        case "--max-file": limits.maxFileBytes = try arguments.size(of: flag, unit: .binary)
        case "--max-download": limits.maxDownloadBytes = try arguments.size(of: flag, unit: .binary)
        case "--allow-address":
            let text = try arguments.value(of: flag)
            guard let range = AddressRange(text) else {
                let expected = "an address range such as 10.0.0.0/8 or fd00::/8"
                throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
            }
            allowedAddresses.append(range)
        case "--proxy": proxy = try Self.proxy(of: flag, &arguments)
        case "--min-speed": slowestBody = try arguments.size(of: flag, unit: .decimal, orZero: true)
        case "--allow-invalid-certificates": limits.allowsInvalidCertificates = true
        case "--retries": limits.retries = try arguments.number(of: flag, in: 0...5)
        case "--min-ttl": limits.caching.minimumLifetime = try Self.time(of: flag, &arguments)
        case "--max-ttl": limits.caching.maximumLifetime = try Self.time(of: flag, &arguments)
        case "--stale-while-revalidate": limits.caching.staleWhileRevalidate = try Self.time(of: flag, &arguments)
        case "--stale-if-error": limits.caching.staleIfError = try Self.time(of: flag, &arguments)
        default: return false
        }
        return true
    }

    private mutating func takeDisk(_ flag: String, _ arguments: inout Arguments) throws(UsageError) -> Bool {
        switch flag {
        case "--cache-dir": cacheDirectory = try arguments.path(of: flag)
        case "--extra-cache-dir": extraCacheDirectories.append(try arguments.path(of: flag))
        case "--disk-limit": limits.diskBytes = try arguments.size(of: flag, unit: .binary, orZero: true)
        case "--raster-limit": rasterLimitBytes = try arguments.size(of: flag, unit: .binary, orZero: true)
        case "--max-age": maxAge = try arguments.seconds(of: flag, orNever: true)
        default: return false
        }
        return true
    }

    // MARK: Values

    private enum QueueOrder: String, CaseIterable {
        case fifo, lifo
    }

    /// Whether `--json`, and nothing else, follows.
    private static func wantsJSON(_ arguments: inout Arguments) throws(UsageError) -> Bool {
        guard let word = try arguments.next() else { return false }
        guard case .flag("--json") = word, try arguments.next() == nil else {
            throw UsageError(description: "--formats stands alone, or with --json")
        }
        return true
    }

    private static func time(of flag: String, _ arguments: inout Arguments) throws(UsageError) -> Int {
        try arguments.seconds(of: flag) ?? 0
    }

    private static func workTime(of flag: String, _ arguments: inout Arguments) throws(UsageError) -> Int {
        let seconds = try time(of: flag, &arguments)
        guard (1...3600).contains(seconds) else {
            throw UsageError(description: "\(flag) needs a time of 1 s to 1 h, not \(seconds) s")
        }
        return seconds
    }

    private static func workerMemory(of flag: String, _ arguments: inout Arguments) throws(UsageError) -> Int {
        let bytes = try arguments.size(of: flag, unit: .binary)
        if bytes < BrokerLimits.leastWorkerMemory { throw UsageError(description: "\(flag) needs 128M at least") }
        return bytes
    }

    private static func group(of flag: String, _ arguments: inout Arguments) throws(UsageError) -> UInt32 {
        let name = try arguments.value(of: flag)
        guard let group = CurrentProcess.findGroup(name) else {
            let remedy = "getent group lists those there are, groupadd makes one"
            throw UsageError(description: "\(flag): there is no group \"\(name)\"; \(remedy)")
        }
        return group
    }

    /// A proxy's URL as the download worker takes it.
    private static func proxy(of flag: String, _ arguments: inout Arguments) throws(UsageError) -> String {
        let text = try arguments.value(of: flag)
        let scheme = text.prefix { $0 != ":" }
        // The user info, which may contain a password, is taken unchanged and never printed.
        let rest = text.dropFirst(scheme.count + 3)
        let userInfo = rest.prefix { $0 != "/" }.lastIndex(of: "@").map { rest[...$0] } ?? ""
        guard ["http", "https", "socks5h"].contains(scheme.lowercased()), text.dropFirst(scheme.count).hasPrefix("://"),
            (try? SourceURL("http://" + rest.dropFirst(userInfo.count))) != nil
        else {
            let expected = "a URL such as http://proxy:3128 (or https, socks5h)"
            let found = text.contains("@") ? "" : ", not \"\(text)\""
            throw UsageError(description: "\(flag) needs \(expected)\(found)")
        }
        return text
    }
}

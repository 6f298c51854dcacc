import BrokerCore
import HTTPCaching
import HTTPValues
import IPCProtocol
import LinuxSystem
import WorkerProtocol

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
    /// The group whose members see the figures of all users.
    var statsGroup: UInt32?
    /// The proxy that all downloads go through; it then decides which addresses may be reached.
    var proxy: String?
    /// The user name and password for the proxy, of a file.
    var proxyCredentials: Credentials?
    /// Root certificates (PEM) that are trusted besides those of the system.
    var roots: String?
    /// Warnings for the log, one sentence each.
    var warnings: [String] = []
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

    /// What download workers are told by descriptor.
    var fetchPrivate: FetchPrivate {
        FetchPrivate(proxy: proxy, proxyCredentials: proxyCredentials, roots: roots)
    }

    /// Whether a download from a numeric address may be accepted.
    var isAllowedAddress: (String) -> Bool {
        // Through a proxy, only the proxy's address is known.
        if proxy != nil { return { _ in true } }
        let policy = AddressPolicy(allowed: allowedAddresses)
        return { IPAddress($0).map(policy.permits) ?? false }
    }

    /// The meaning of a command line.
    enum Request {
        case serve(Settings)
        /// Show the settings and where each comes from.
        case check(GivenSettings)
        case help
        case version
        case formats(json: Bool)
        case manual(ManualPage)
        case completion(Completion)
    }

    /// Reads the arguments after the program's name, the environment, and the configuration file.
    ///
    /// - Parameters:
    ///   - environment: the value of a variable; nil for none.
    ///   - usualFiles: the files of which the first that exists is read if no other is named; nil for the usual ones.
    static func read(
        _ words: some Sequence<String>, environment: (String) -> String? = CurrentProcess.environment,
        usualFiles: [String]? = nil
    ) throws(UsageError) -> Request {
        var flags: [String: [GivenValue]] = [:]
        var file: String?
        var isCheck = false
        let settings = Dictionary(uniqueKeysWithValues: BrokerSetting.all.map { ($0.flag, $0) })
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            guard case .flag(let flag) = word else {
                if case .operand(let operand) = word {
                    throw UsageError(
                        description: "unknown command \"\(operand)\": there are get, ctl and doctor, and options")
                }
                continue
            }
            switch flag {
            case "--config": file = try arguments.given(flag).path()
            case "--check-config": isCheck = true
            case "--help", "-h": return .help
            case "--version", "-V": return .version
            case "--manual": return .manual(try arguments.given(flag).choice())
            case "--completion": return .completion(try arguments.given(flag).choice())
            case "--formats": return .formats(json: try Self.wantsJSON(&arguments))
            default:
                guard let setting = settings[flag] else {
                    throw UsageError(description: "unknown option \(flag) (see imgbroker --help)")
                }
                let text = setting.value == nil ? "true" : try arguments.value(of: flag)
                flags[setting.name, default: []].append(GivenValue(name: flag, text: text))
            }
        }
        let sources = SettingSources(
            namedFile: file,
            usualFiles: usualFiles
                ?? ConfigurationFile.usualPaths(uid: CurrentProcess.uid, environment: environment),
            flags: flags,
            environment: Dictionary(
                (["IMGBROKER_CONFIG"] + BrokerSetting.all.map(\.variable)).compactMap { name in
                    environment(name).map { (name, $0) }
                }, uniquingKeysWith: { first, _ in first }))
        let read = try Settings(sources)
        return isCheck ? .check(read.given) : .serve(read)
    }

    /// Whether `--json`, and nothing else, follows.
    private static func wantsJSON(_ arguments: inout Arguments) throws(UsageError) -> Bool {
        guard let word = try arguments.next() else { return false }
        guard case .flag("--json") = word, try arguments.next() == nil else {
            throw UsageError(description: "--formats stands alone, or with --json")
        }
        return true
    }
}

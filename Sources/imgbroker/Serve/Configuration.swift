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
    /// The group whose members see the figures of all users.
    var statsGroup: UInt32?
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
    ///   - usualFile: the file that is read if it exists and no other is named.
    static func read(
        _ words: some Sequence<String>, environment: (String) -> String? = CurrentProcess.environment,
        usualFile: String = ConfigurationFile.usualPath
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
        var given = GivenSettings()
        if file == nil, let path = environment("IMGBROKER_CONFIG"), !path.isEmpty { file = path }
        if file == nil, CurrentProcess.exists(usualFile) { file = usualFile }
        if let file { try given.add(try ConfigurationFile.read(file), of: file) }
        given.add(environment)
        given.add(flags: flags)
        let configuration = try given.configuration()
        return isCheck ? .check(given) : .serve(configuration)
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

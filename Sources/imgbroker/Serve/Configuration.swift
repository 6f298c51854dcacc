import IPCProtocol
import LinuxSystem

/// How a broker is to serve.
struct Configuration {
    /// Where it listens; nil for the usual place.
    var socketPath: String?
    /// Whom it becomes once it has bound the socket; nil to stay what it is.
    var user: String?
    /// What is beyond the globally routable addresses.
    var allowedAddresses: [AddressRange] = []
    /// The group whose members may do what administrators may.
    var adminGroup: UInt32?
    var limits = BrokerState.Limits()
    var logLevel = LogLevel.notice
    /// Where the disk tier is; nil for the usual place.
    var cacheDirectory: String?
    /// The bytes of rasters, beside those of originals (`limits.diskBytes`).
    var rasterLimitBytes = 1 << 30

    var addressPolicy: AddressPolicy { AddressPolicy(allowed: allowedAddresses) }

    /// What the command line asks for.
    enum Request {
        case serve(Configuration)
        case help
        case version
    }

    static let usage = """
        Usage: imgbroker [OPTION]...          serve images to the processes of this machine
               imgbroker get URL [OPTION]...  load one image through the broker
               imgbroker ctl stats [--json]   show how the broker is doing

        Options of the broker:
          --socket PATH           listen at PATH (default: $IMGBROKER_SOCKET, /run/imgbroker.sock
                                  where that may be written, else $XDG_RUNTIME_DIR/imgbroker.sock)
          --workers N             decode workers (default: one per core)
          --fetchers N            download workers (default: 1)
          --memory-limit SIZE     decoded pictures kept in memory (default: 512M)
          --max-download SIZE     largest body that is downloaded (default: 32M)
          --max-pixels N          largest picture that is made (default: 50M)
          --allow-address CIDR    let downloads reach these addresses too, e.g. 127.0.0.0/8
                                  (repeatable; default: globally routable addresses only)
          --user NAME             serve as this user; workers run as it, else as nobody,
                                  when root starts the broker
          --max-source-pixels N   largest picture that is scaled down (default: 300M)
          --scale-down-limit SIZE what "scaleDown" brings pictures under (default: 60M)
          --cache-dir DIR         the disk cache (default: /var/cache/imgbroker for root, else
                                  $XDG_CACHE_HOME/imgbroker or ~/.cache/imgbroker)
          --disk-limit SIZE       originals kept on disk; 0 for no disk cache (default: 4G)
          --raster-limit SIZE     scaled pictures kept on disk beside them (default: 1G)
          --log-level LEVEL       error, warning, notice, info or debug (default: notice)
          --help                  show this and exit
          --version               show the version and exit

        Sizes take K, M and G. See also: imgbroker get --help, imgbroker ctl --help.
        """

    /// Reads the words after the program's name.
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
            switch flag {
            case "--socket": configuration.socketPath = try arguments.value(of: flag)
            case "--workers": configuration.limits.workers = try arguments.number(of: flag, in: 1...256)
            case "--fetchers": configuration.limits.fetchers = try arguments.number(of: flag, in: 1...16)
            case "--memory-limit":
                configuration.limits.memoryBytes = try arguments.size(of: flag, unit: .binary)
            case "--max-download":
                configuration.limits.maxDownloadBytes = try arguments.size(of: flag, unit: .binary)
            case "--max-pixels": configuration.limits.maxPixels = try arguments.size(of: flag, unit: .decimal)
            case "--allow-address":
                let text = try arguments.value(of: flag)
                guard let range = AddressRange(text) else {
                    let expected = "an address range such as 10.0.0.0/8 or fd00::/8"
                    throw UsageError(description: "\(flag) needs \(expected), not \"\(text)\"")
                }
                configuration.allowedAddresses.append(range)
            case "--user": configuration.user = try arguments.value(of: flag)
            case "--cache-dir": configuration.cacheDirectory = try arguments.value(of: flag)
            case "--disk-limit":
                configuration.limits.diskBytes = try arguments.size(of: flag, unit: .binary, orZero: true)
            case "--raster-limit":
                configuration.rasterLimitBytes = try arguments.size(of: flag, unit: .binary, orZero: true)
            case "--max-source-pixels":
                configuration.limits.maxSourcePixels = try arguments.size(of: flag, unit: .decimal)
            case "--scale-down-limit":
                configuration.limits.scaleDownBytes = try arguments.size(of: flag, unit: .decimal)
            case "--log-level":
                let text = try arguments.value(of: flag)
                guard let level = LogLevel(rawValue: text) else {
                    let levels = LogLevel.allCases.map(\.rawValue).joined(separator: ", ")
                    throw UsageError(description: "\(flag) needs one of \(levels), not \"\(text)\"")
                }
                configuration.logLevel = level
            case "--help", "-h": return .help
            case "--version", "-V": return .version
            default: throw UsageError(description: "unknown option \(flag) (see imgbroker --help)")
            }
        }
        configuration.limits.usesDisk = configuration.limits.diskBytes > 0
        return .serve(configuration)
    }
}

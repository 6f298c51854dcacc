import BrokerCore
import HTTPCaching
import HTTPValues
import LinuxSystem
import SystemValues
import WorkerProtocol

/// A setting of the broker: a flag, an environment variable and a key of the configuration file.
struct BrokerSetting: Sendable {
    /// The key; with "--" before it, the flag.
    let name: String
    /// What the help calls the value; nil for a switch.
    let value: String?
    /// One sentence or two, with the unit and the range.
    let summary: String
    /// The default as it would be written; nil for none.
    let usual: String?
    /// The default in words, where it depends on the machine.
    let usualInWords: String?
    /// The words that the value may be; none if it may be others.
    let choices: [String]
    /// Whether it may be given several times. All values of one source replace those of the weaker ones.
    let isRepeatable: Bool
    /// Whether its value may contain a password, and is not shown.
    let isSecret: Bool
    let onReload: Reload
    /// Applies the values, and throws `UsageError`.
    private let take: @Sendable (inout Configuration, [GivenValue]) throws -> Void

    enum Reload {
        case changes
        /// The new value is used, but not in place of 0, nor 0 in its place.
        case changesAboveZero
        case needsRestart
    }

    private init(
        _ name: String, _ value: String?, _ summary: String, usual: String? = nil, inWords: String? = nil,
        choices: [String] = [], isSecret: Bool = false, onReload: Reload = .changes,
        take: @escaping @Sendable (inout Configuration, GivenValue) throws -> Void
    ) {
        (self.name, self.value, self.summary) = (name, value, summary)
        (self.usual, usualInWords, self.choices) = (usual, inWords, choices)
        (isRepeatable, self.isSecret, self.onReload) = (false, isSecret, onReload)
        self.take = { configuration, values in
            for value in values { try take(&configuration, value) }
        }
    }

    private init(
        _ name: String, several value: String, _ summary: String, inWords: String? = nil, onReload: Reload = .changes,
        take: @escaping @Sendable (inout Configuration, [GivenValue]) throws -> Void
    ) {
        (self.name, self.value, self.summary, self.onReload, self.take) = (name, value, summary, onReload, take)
        (usual, usualInWords, choices, isRepeatable, isSecret) = (nil, inWords, [], true, false)
    }

    /// Applies the values, of which there is one unless it is repeatable.
    func apply(_ configuration: inout Configuration, _ values: [GivenValue]) throws(UsageError) {
        do { try take(&configuration, values) } catch { throw UsageError(error) }
    }

    var flag: String { "--" + name }
    /// `IMGBROKER_MEMORY_LIMIT` for "memory-limit".
    var variable: String { "IMGBROKER_" + name.uppercased().split(separator: "-").joined(separator: "_") }

    var help: FlagHelp { FlagHelp(flag + (value.map { " " + $0 } ?? ""), explanation, choices: choices) }

    /// The summary with the default.
    var explanation: String {
        var notes = isRepeatable ? ["repeatable"] : []
        if let usualInWords { notes.append("default: \(usualInWords)") }
        // Not parted at the end of a line.
        if let usual { notes.append("default:\u{A0}\(usual)") }
        return summary + (notes.isEmpty ? "" : " (\(notes.joined(separator: "; ")))")
    }

    /// All settings by topic, in the order of the help.
    static let groups: [(title: String, settings: [BrokerSetting])] = [
        ("The socket, and who may do what", sockets), ("Work and limits", limits), ("Downloads", downloads),
        ("Freshness", freshness), ("The disk cache", disk), ("The shared tier", shared), ("Other", others),
    ]

    static let all = groups.flatMap(\.settings)

    private static let sockets = [
        BrokerSetting(
            "socket", "PATH", "listen at PATH",
            inWords: "/run/imgbroker.sock where that may be written, else $XDG_RUNTIME_DIR/imgbroker.sock",
            onReload: .needsRestart
        ) { $0.socketPath = try $1.path() },
        BrokerSetting(
            "socket-mode", "OCTAL", "the socket's mode",
            inWords: "0600; 0660 when root starts the broker or a group is named", onReload: .needsRestart
        ) { $0.socketMode = try $1.socketMode() },
        BrokerSetting(
            "socket-group", "NAME", "the socket's group, whose members may use the broker", onReload: .needsRestart
        ) { $0.socketGroup = try $1.group() },
        BrokerSetting(
            "admin-group", "NAME",
            "a group whose members may also use the commands of imgbroker ctl that are for administrators; root and the broker's user may always"
        ) { $0.adminGroup = try $1.group() },
        BrokerSetting(
            "stats-group", "NAME",
            "a group whose members may see the figures of all users, as administrators do, and nothing else: for imgbroker exporter",
            onReload: .needsRestart
        ) { $0.statsGroup = try $1.group() },
        BrokerSetting(
            "user", "NAME",
            "serve as this user, once the socket is bound; workers run as it, else as nobody, when root starts the broker",
            onReload: .needsRestart
        ) { $0.user = $1.text },
    ]

    private static let limits = [
        BrokerSetting("workers", "N", "decode workers, 1 to 256", inWords: "one per core", onReload: .needsRestart) {
            $0.limits.workers = try $1.number(in: 1...256)
        },
        BrokerSetting(
            "fetchers", "N", "download workers, 1 to 16; each carries up to 64 transfers", usual: "1",
            onReload: .needsRestart
        ) { $0.limits.fetchers = try $1.number(in: 1...16) },
        BrokerSetting(
            "queue-order", "ORDER",
            "the order of a client's waiting jobs: fifo, the oldest first, or lifo, the latest first, as for a scrolling view",
            usual: "fifo", choices: QueueOrder.allCases.map(\.rawValue), onReload: .needsRestart
        ) { $0.limits.queueOrder = try $1.choice() as QueueOrder == .fifo ? .fifo : .lifo },
        BrokerSetting("memory-limit", "SIZE", "images kept in memory", usual: "512M") {
            $0.limits.memoryBytes = try $1.size(.binary)
        },
        BrokerSetting(
            "segments", "STATE",
            "on: small images of a user lie side by side in memory that its clients map once; or off",
            usual: "on", choices: Switch.allCases.map(\.rawValue), onReload: .needsRestart
        ) {
            $0.limits.mostSegmentImageBytes = try $1.choice() as Switch == .on ? BrokerLimits.usualSegmentImageBytes : 0
        },
        BrokerSetting(
            "worker-memory", "SIZE",
            "memory that decoding one image may take, its result included, 128M at least; larger images are refused",
            usual: "1G", onReload: .needsRestart
        ) { $0.limits.workerMemoryBytes = try $1.workerMemory() },
        BrokerSetting(
            "decode-time", "TIME", "processor time that decoding one image may take, 1 s to 1 h", usual: "10"
        ) { $0.limits.decodeSeconds = try $1.workTime() },
        BrokerSetting("decode-deadline", "TIME", "elapsed time that it may take, 1 s to 1 h", usual: "20") {
            $0.limits.decodeDeadlineMs = 1000 * (try $1.workTime())
        },
        BrokerSetting("max-pixels", "N", "pixels of the largest result", usual: "50M", onReload: .needsRestart) {
            $0.limits.maxPixels = try $1.size(.decimal)
        },
        BrokerSetting("max-source-pixels", "N", "pixels of the largest source that is scaled down", usual: "300M") {
            $0.limits.maxSourcePixels = try $1.size(.decimal)
        },
        BrokerSetting(
            "scale-down-limit", "SIZE", "the bytes of pixels that \"scaleDown\" keeps images below", usual: "60M"
        ) { $0.limits.scaleDownBytes = try $1.size(.decimal) },
        BrokerSetting(
            "only-presets", nil,
            "serve the file's presets only, except to administrators; each is a section [preset NAME]"
        ) { $0.limits.allowsPresetsOnly = try $1.isOn() },
    ]

    private static let downloads = [
        BrokerSetting(
            "max-download", "SIZE", "the largest body that is downloaded", usual: "32M", onReload: .needsRestart
        ) { $0.limits.maxDownloadBytes = try $1.size(.binary) },
        BrokerSetting("max-file", "SIZE", "the largest local file that is read", usual: "256M") {
            $0.limits.maxFileBytes = try $1.size(.binary)
        },
        BrokerSetting(
            "allow-address", several: "CIDR", "let downloads reach these addresses, too, e.g. 127.0.0.0/8",
            inWords: "globally routable addresses only"
        ) { $0.allowedAddresses = try $1.map { try $0.addresses() } },
        BrokerSetting(
            "proxy", "URL",
            "load everything through this proxy (http, https or socks5h), which then enforces which addresses may be reached",
            isSecret: true, onReload: .needsRestart
        ) { $0.proxy = try $1.proxy() },
        BrokerSetting(
            "proxy-credentials-file", "FILE",
            "its only line is USER:PASSWORD for the proxy; readable by the broker's user, and by no others; its contents may change",
            onReload: .needsRestart
        ) { configuration, value in
            let file = try value.file()
            configuration.proxyCredentials = try value.credentials(in: file.text)
            configuration.warnings["proxy-credentials-file"] = value.warning(of: file, with: "password")
        },
        BrokerSetting("ca-file", "FILE", "trust these root certificates (PEM), too, besides those of the system") {
            $0.roots = try $1.certificates(in: $1.file().text)
        },
        BrokerSetting(
            "allow-invalid-certificates", nil, "let requests ask for a server's certificate not to be verified"
        ) { $0.limits.allowsInvalidCertificates = try $1.isOn() },
        BrokerSetting(
            "min-speed", "SIZE", "give up a body that brings fewer bytes a second for 30 s; 0 for never", usual: "1K"
        ) { $0.slowestBody = try $1.size(.decimal, orZero: true) },
        BrokerSetting(
            "retries", "N", "retries of a failed transfer, 0 to 5; with 0 a request is sent once", usual: "1"
        ) { $0.limits.retries = try $1.number(in: 0...5) },
    ]

    private static let freshness = [
        BrokerSetting("min-ttl", "TIME", "the shortest time that a response is fresh", usual: "0") {
            $0.limits.caching.minimumLifetime = try $1.seconds()
        },
        BrokerSetting("max-ttl", "TIME", "the longest time that it is fresh", usual: "30d") {
            $0.limits.caching.maximumLifetime = try $1.seconds()
        },
        BrokerSetting(
            "stale-while-revalidate", "TIME",
            "serve a stale response for this time while it is revalidated, unless the response states a time",
            usual: "0"
        ) { $0.limits.caching.staleWhileRevalidate = try $1.seconds() },
        BrokerSetting(
            "stale-if-error", "TIME",
            "serve a stale response for this time when the origin fails, unless the response states a time",
            usual: "0"
        ) { $0.limits.caching.staleIfError = try $1.seconds() },
    ]

    private static let disk = [
        BrokerSetting(
            "cache-dir", "DIR", "its directory; one broker per directory",
            inWords: "/var/cache/imgbroker for root, else $XDG_CACHE_HOME/imgbroker or ~/.cache/imgbroker",
            onReload: .needsRestart
        ) { $0.cacheDirectory = try $1.path() },
        BrokerSetting(
            "disk-limit", "SIZE", "originals kept on disk; 0 for no disk cache, which a reload does not switch",
            usual: "4G", onReload: .changesAboveZero
        ) { $0.limits.diskBytes = try $1.size(.binary, orZero: true) },
        BrokerSetting("raster-limit", "SIZE", "scaled images kept on disk in addition", usual: "1G") {
            $0.rasterLimitBytes = try $1.size(.binary, orZero: true)
        },
        BrokerSetting("max-age", "TIME", "entries unused for this time are removed; negative for never", usual: "7d") {
            $0.maxAge = try $1.secondsOrNever()
        },
        BrokerSetting(
            "extra-cache-dir", several: "DIR", "another broker's disk cache, to read only", onReload: .needsRestart
        ) { $0.extraCacheDirectories = try $1.map { try $0.path() } },
    ]

    private static let shared = [
        BrokerSetting(
            "shared-tier", several: "SERVERS",
            "share originals with other brokers by way of these memcached servers, of which all brokers have the same list: memcached:HOST1,HOST2:PORT",
            inWords: "none", onReload: .needsRestart
        ) { configuration, values in
            // One list after the other, as a line of the configuration file is too short for many servers.
            configuration.sharedServers = []
            for value in values { configuration.sharedServers += try value.servers(after: configuration.sharedServers) }
        },
        BrokerSetting(
            "shared-tier-key-file", "FILE",
            "its contents, 16 bytes to 4096, are the key by which brokers sign the records of the shared tier; others are rejected then",
            onReload: .needsRestart
        ) { configuration, value in
            let file = try value.file()
            configuration.sharedKey = try value.key(in: file.text)
            configuration.warnings["shared-tier-key-file"] = value.warning(of: file, with: "key")
        },
    ]

    private static let others = [
        BrokerSetting(
            "allow-unsandboxed", nil, "run workers although the kernel lacks seccomp or Landlock",
            onReload: .needsRestart
        ) { $0.limits.allowsUnsandboxed = try $1.isOn() },
        BrokerSetting(
            "strict-sandbox", nil,
            "kill a worker at any unexpected system call, instead of refusing the call: for tests",
            onReload: .needsRestart
        ) { $0.hasStrictSandbox = try $1.isOn() },
        BrokerSetting(
            "log-level", "LEVEL", "error, warning, notice, info or debug, to standard error", usual: "notice",
            choices: LogLevel.allCases.map(\.rawValue)
        ) { $0.limits.logLevel = try $1.choice() },
        BrokerSetting(
            "log-format", "NOTATION", "text (key=value) or json, one line for each event", usual: "text",
            choices: LogFormat.Notation.allCases.map(\.rawValue)
        ) { $0.logFormat.notation = try $1.choice() },
        BrokerSetting("log-full-urls", nil, "log URLs with their query and user info, which may be secret") {
            $0.logFormat.showsFullURLs = try $1.isOn()
        },
    ]

    private enum QueueOrder: String, CaseIterable { case fifo, lifo }

    private enum Switch: String, CaseIterable { case on, off }
}

extension GivenValue {
    func socketMode() throws(UsageError) -> UInt32 {
        guard let mode = UInt32(text, radix: 8), mode <= 0o777 else { throw needs("an octal mode such as 0660") }
        return mode
    }

    fileprivate func workTime() throws(UsageError) -> Int {
        let seconds = try seconds()
        guard (1...3600).contains(seconds) else { throw needs("a time of 1 s to 1 h") }
        return seconds
    }

    fileprivate func workerMemory() throws(UsageError) -> Int {
        let bytes = try size(.binary)
        if bytes < BrokerLimits.leastWorkerMemory { throw needs("128M at least") }
        return bytes
    }

    fileprivate func addresses() throws(UsageError) -> AddressRange {
        guard let range = AddressRange(text) else { throw needs("an address range such as 10.0.0.0/8 or fd00::/8") }
        return range
    }

    fileprivate func file() throws(UsageError) -> SettingsFile {
        let path = try path()
        do throws(SystemError) {
            if let file = try SettingsFile(path) { return file }
        } catch {
            throw UsageError("\(name): \(path) cannot be read: \(error)")
        }
        throw UsageError("\(name): \(path) is no regular file of 1 MiB at most")
    }

    /// The warning that all users may read a secret in the file at the path; nil if they may not.
    fileprivate func warning(of file: SettingsFile, with secret: String) -> String? {
        file.isReadableByAll ? "all users may read the \(secret) in \(text) (\(name)): chmod o-r \(text)" : nil
    }

    /// The servers of "memcached:" and a list, each with its port, and all others than those `before`. The list may
    /// stand alone after another one.
    fileprivate func servers(after before: [String]) throws(UsageError) -> [String] {
        let expected = "memcached: and at most 64 servers, such as memcached:cache1,cache2:11311,[fd00::1]"
        let prefix = text.hasPrefix("memcached:") ? "memcached:" : ""
        if prefix.isEmpty, before.isEmpty { throw needs(expected) }
        let names = text.dropFirst(prefix.count).split(separator: ",", omittingEmptySubsequences: false)
        var servers: [String] = []
        for name in names {
            guard let server = ServerName(String(name)), !(before + servers).contains(server.text) else {
                throw needs(expected)
            }
            servers.append(server.text)
        }
        if servers.isEmpty || before.count + servers.count > 64 { throw needs(expected) }
        return servers
    }

    /// A key for signatures, without the end of its last line.
    fileprivate func key(in contents: String) throws(UsageError) -> [UInt8] {
        var key = Array(contents.utf8)
        while key.last == 10 || key.last == 13 { key.removeLast() }
        guard (16...4096).contains(key.count) else { throw UsageError("\(name): \(text) must have 16 bytes to 4096") }
        return key
    }

    /// Certificates in PEM (RFC 7468), of which none is cut off: one such would make all others useless.
    fileprivate func certificates(in contents: String) throws(UsageError) -> String {
        let (begin, end) = ("-----BEGIN ", "-----END ")
        let borders = contents.split(whereSeparator: \.isNewline).filter { $0.hasPrefix(begin) || $0.hasPrefix(end) }
        guard borders.count.isMultiple(of: 2),
            borders.enumerated().allSatisfy({ $1.hasPrefix($0.isMultiple(of: 2) ? begin : end) })
        else { throw UsageError("\(name): \(text) has a certificate that is cut off") }
        guard borders.contains(where: { $0.hasPrefix("-----BEGIN CERTIFICATE-----") }) else {
            throw UsageError("\(name): there is no certificate (PEM) in \(text)")
        }
        return contents
    }

    /// "USER:PASSWORD" in one line. The message of an error has no part of it.
    fileprivate func credentials(in contents: String) throws(UsageError) -> Credentials {
        let lines = contents.utf8.split(separator: 10).map { String(Substring($0)) }
        let line = lines.first.map { $0.utf8.last == 13 ? String($0.dropLast()) : $0 } ?? ""
        guard lines.count == 1, let colon = line.firstIndex(of: ":"), colon != line.startIndex,
            line[..<colon].utf8.count <= Credentials.longestPart,
            line[line.index(after: colon)...].utf8.count <= Credentials.longestPart,
            !line.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }), !line.unicodeScalars.contains("\u{FFFD}")
        else { throw UsageError("\(name): \(text) must have one line, USER:PASSWORD, in UTF-8") }
        return Credentials(username: String(line[..<colon]), password: String(line[line.index(after: colon)...]))
    }

    /// A proxy's URL as the download worker takes it.
    fileprivate func proxy() throws(UsageError) -> String {
        let scheme = text.prefix { $0 != ":" }
        // The user info, which may contain a password, is taken unchanged and never printed.
        let rest = text.dropFirst(scheme.count + 3)
        let userInfo = rest.prefix { $0 != "/" }.lastIndex(of: "@").map { rest[...$0] } ?? ""
        guard ["http", "https", "socks5h"].contains(scheme.lowercased()), text.dropFirst(scheme.count).hasPrefix("://"),
            (try? SourceURL("http://" + rest.dropFirst(userInfo.count))) != nil
        else {
            let expected = "a URL such as http://proxy:3128 (or https, socks5h)"
            let found = text.contains("@") ? "" : ", not \"\(text)\""
            throw UsageError("\(name) needs \(expected)\(found)")
        }
        return text
    }
}

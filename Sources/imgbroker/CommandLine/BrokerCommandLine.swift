import LinuxSystem

/// The meaning of a command line without the name of a command.
enum BrokerCommandLine {
    case serve(Settings)
    /// Show the settings and where each comes from.
    case check(GivenSettings)
    case help
    case version
    case formats(json: Bool)
    case manual(ManualPage)
    case completion(Completion)

    /// The settings of a broker that is to serve; nil when something else is wanted.
    var settings: Settings? { if case .serve(let settings) = self { settings } else { nil } }

    /// Reads the arguments after the program's name, the environment, and the configuration file: `usualFile` or the usual
    /// one if it exists and no other is named.
    static func read(
        _ words: some Sequence<String>, environment: (String) -> String? = CurrentProcess.environment,
        usualFile: String? = nil
    ) throws(UsageError) -> BrokerCommandLine {
        var flags: [String: [GivenValue]] = [:]
        var file: String?
        var isCheck = false
        let settings = Dictionary(uniqueKeysWithValues: BrokerSetting.all.map { ($0.flag, $0) })
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            switch word {
            case .operand(let operand):
                let guess = UsageError.suggestion(for: operand, among: names)
                let all = ": there are get, info, store, ctl, exporter, http and doctor, and options"
                throw UsageError("unknown command \"\(operand)\"\(guess.isEmpty ? all : guess)")
            case .flag("--config"): file = try arguments.given("--config").path()
            case .flag("--check-config"): isCheck = true
            case .flag("--help"), .flag("-h"): return .help
            case .flag("--version"), .flag("-V"): return .version
            case .flag("--manual"): return .manual(try arguments.given("--manual").choice())
            case .flag("--completion"): return .completion(try arguments.given("--completion").choice())
            case .flag("--formats"):
                guard let word = try arguments.next() else { return .formats(json: false) }
                guard word == .flag("--json"), try arguments.next() == nil else {
                    throw UsageError("--formats stands alone, or with --json")
                }
                return .formats(json: true)
            case .flag(let flag):
                guard let setting = settings[flag] else {
                    throw .unknown(option: flag, among: BrokerSetting.all.map(\.help) + commands, of: "imgbroker")
                }
                let value = setting.value == nil ? GivenValue(name: flag, text: "true") : try arguments.given(flag)
                flags[setting.name, default: []].append(value)
            }
        }
        let sources = SettingSources(
            namedFile: file,
            usualFile: usualFile
                ?? ConfigurationFile.usualPath(uid: CurrentProcess.uid, environment: environment),
            flags: flags,
            environment: Dictionary(
                (["IMGBROKER_CONFIG"] + BrokerSetting.all.map(\.variable)).compactMap { name in
                    environment(name).map { (name, $0) }
                }, uniquingKeysWith: { first, _ in first }))
        let read = try Settings(sources)
        return isCheck ? .check(read.given) : .serve(read)
    }

    static let names = ["get", "info", "store", "ctl", "exporter", "http", "doctor"]

    /// The help for the flags that are no settings.
    static let commands = [
        FlagHelp(
            "--config FILE",
            "the configuration file (default: $IMGBROKER_CONFIG, else \(ConfigurationFile.pathOfSystem), in a user's session ~/.config/\(ConfigurationFile.nameOfUsers), if it exists)"
        ),
        FlagHelp("--check-config", "show each setting and where it comes from, and exit; 2 if one is wrong"),
        FlagHelp("--formats [--json]", "show the decoded formats and their libraries, and exit"),
        FlagHelp(
            "--manual PAGE", "write a manual page: \(ManualPage.allCases.map(\.rawValue).joined(separator: ", "))"),
        FlagHelp(
            "--completion SHELL", "write completions for \(Completion.allCases.map(\.rawValue).joined(separator: ", "))"
        ),
        FlagHelp("--help", "show this and exit"),
        FlagHelp("--version", "show the version and exit"),
    ]

    static let units = "Sizes take K, M and G; times are seconds, or take m, h and d (90, 30m, 12h, 7d)."

    static let usage = """
        Usage: imgbroker [OPTION]...               serve images to the processes of this machine
               imgbroker get SOURCE... [OPTION]... load images through the broker
               imgbroker info SOURCE... [OPTION]...
                                                   describe images by their headers
               imgbroker store URL [FILE]...       put an image into its cache
               imgbroker ctl COMMAND [OPTION]...   look after a running broker
               imgbroker exporter [OPTION]...      show a broker's figures over HTTP
               imgbroker http [OPTION]...          make images over HTTP, as Imaginary and imgproxy do
               imgbroker doctor [OPTION]...        say what the broker lacks on this machine

        Each of these options is also a key of the configuration file (memory-limit = 1G) and a variable of the
        environment (IMGBROKER_MEMORY_LIMIT=1G). The command line counts most, then the environment.

        \(BrokerSetting.groups.map { "\($0.title):\n\($0.settings.map(\.help).lines)" }.joined(separator: "\n\n"))

        On the command line only:
        \(commands.lines)

        \(units)
        See also: imgbroker COMMAND --help for get, info, store, ctl, exporter and http.
        """
}

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

    /// Reads the arguments after the program's name, the environment, and the configuration file: `usualFile` or the
    /// usual one if it exists and no other is named.
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
}

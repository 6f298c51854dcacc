import BrokerCore
import HTTPCaching
import IPCProtocol
import LinuxSystem

/// The settings that were given, and from where: by the configuration file, the environment and the command line, of
/// which a later one replaces what an earlier one says.
struct GivenSettings {
    /// The values of each setting from all sources, the one that counts last, and their sources in words.
    private var given: [String: [(values: [GivenValue], source: String)]] = [:]
    /// The presets of the configuration file: their lines, and where their sections begin.
    private(set) var presets: [String: Preset] = [:]

    struct Preset {
        let source: String
        fileprivate(set) var values: [(key: String, value: GivenValue)] = []

        /// Its lines in one: "width = 64, height = 64".
        var text: String { values.map { "\($0.key) = \($0.value.text)" }.joined(separator: ", ") }
    }

    /// Adds the lines of a configuration file, whose keys must be known, and given once unless they are repeatable.
    mutating func add(_ contents: ConfigurationFile.Contents, of path: String) throws(UsageError) {
        for (name, line) in contents.presets { presets[name] = Preset(source: "\(path):\(line)") }
        var values: [String: (values: [GivenValue], line: Int)] = [:]
        for line in contents.lines {
            let place = "\(path):\(line.number)"
            if let preset = line.preset {
                try add(line, to: preset, place)
                continue
            }
            guard let setting = BrokerSetting.all.first(where: { $0.name == line.key }) else {
                throw UsageError("\(place): unknown key \"\(line.key)\" (see man imgbroker.conf)")
            }
            if let earlier = values[line.key], !setting.isRepeatable {
                throw UsageError("\(place): \(line.key) was given in line \(earlier.line)")
            }
            let value = GivenValue(name: "\(place): \(line.key)", text: line.value)
            values[line.key] = ((values[line.key]?.values ?? []) + [value], line.number)
        }
        for (key, entry) in values {
            given[key, default: []].append((entry.values, "\(path):\(entry.line)"))
        }
    }

    private mutating func add(_ line: ConfigurationFile.Line, to preset: String, _ place: String) throws(UsageError) {
        guard let option = GetOptions.Variant.options.first(where: { $0.name == line.key }) else {
            let hint =
                BrokerSetting.all.contains { $0.name == line.key }
                ? "settings come before all presets" : "see man imgbroker.conf"
            throw UsageError("\(place): unknown key \"\(line.key)\" of a preset (\(hint))")
        }
        if !option.isRepeatable, presets[preset]?.values.contains(where: { $0.key == line.key }) == true {
            throw UsageError("\(place): \(line.key) was given before in this preset")
        }
        presets[preset]?.values.append((line.key, GivenValue(name: "\(place): \(line.key)", text: line.value)))
    }

    /// Adds the environment's variables. Several values have commas between them; an empty variable does not count.
    mutating func add(_ environment: (String) -> String?) {
        for setting in BrokerSetting.all {
            guard let text = environment(setting.variable), !text.isEmpty else { continue }
            let texts = setting.isRepeatable ? text.split(separator: ",").map(String.init) : [text]
            let values = texts.map { GivenValue(name: setting.variable, text: $0.trimmed) }
            given[setting.name, default: []].append((values, setting.variable))
        }
    }

    /// Adds the values of flags. Of several values for a setting that takes one, the last counts.
    mutating func add(flags: [String: [GivenValue]]) {
        for (name, values) in flags {
            given[name, default: []].append((values, "--" + name))
        }
    }

    /// The configuration that they result in. All values must be understood, whether or not they count.
    func configuration() throws(UsageError) -> Configuration {
        var configuration = Configuration()
        configuration.limits.workers = CurrentProcess.processors
        for setting in BrokerSetting.all {
            for source in given[setting.name] ?? [] { try setting.apply(&configuration, source.values) }
        }
        for (name, preset) in presets {
            var variant = GetOptions.Variant()
            for option in GetOptions.Variant.options {
                for (key, value) in preset.values where key == option.name { try option.apply(&variant, value) }
            }
            configuration.limits.presets[name] = variant
        }
        if configuration.limits.allowsPresetsOnly, presets.isEmpty {
            throw UsageError("only-presets needs a section [preset NAME] in the configuration file")
        }
        if configuration.proxyCredentials != nil {
            guard let proxy = configuration.proxy else { throw UsageError("--proxy-credentials-file needs a --proxy") }
            if proxy.contains("@") {
                throw UsageError("the user name is either in the URL of --proxy or in --proxy-credentials-file")
            }
        }
        let caching = configuration.limits.caching
        if caching.minimumLifetime > caching.maximumLifetime {
            let longest = caching.maximumLifetime
            throw UsageError("--min-ttl is longer than --max-ttl (\(longest) s): give a longer --max-ttl")
        }
        if configuration.limits.diskBytes == 0, !configuration.extraCacheDirectories.isEmpty {
            throw UsageError("--extra-cache-dir needs an own disk cache: give a --disk-limit above 0")
        }
        if configuration.sharedKey != nil, configuration.sharedServers.isEmpty {
            throw UsageError("--shared-tier-key-file needs a --shared-tier")
        }
        configuration.limits.usesSharedTier = !configuration.sharedServers.isEmpty
        configuration.limits.sharesVariants = configuration.sharedKey != nil
        configuration.limits.usesDisk = configuration.limits.diskBytes > 0
        // As much again as is cached, and at least one large image.
        configuration.limits.maxEvictedBytes = max(configuration.limits.memoryBytes, 64 << 20)
        return configuration
    }

    /// The values of a setting that count, or its default; several only for a repeatable one; none without a value.
    func values(of setting: BrokerSetting) -> [String] {
        if let last = given[setting.name]?.last {
            return last.values.suffix(setting.isRepeatable ? .max : 1).map(\.text)
        }
        return (setting.usual ?? (setting.value == nil ? "false" : nil)).map { [$0] } ?? []
    }

    /// The same without passwords.
    private func shownValues(of setting: BrokerSetting) -> [String] {
        values(of: setting).map { setting.isSecret ? $0.withoutUserInfo : $0 }
    }

    /// The same as a text of at most 200 characters.
    func shown(_ setting: BrokerSetting) -> String { shownValues(of: setting).joined(separator: ", ").shortened }

    mutating func take(_ setting: BrokerSetting, from other: GivenSettings) {
        given[setting.name] = other.given[setting.name]
    }

    /// All settings as a configuration file, each with its source behind it. A setting without a value is a comment.
    var text: String {
        BrokerSetting.groups.map { group in
            (["# \(group.title)"] + group.settings.flatMap { lines(of: $0) }).joined(separator: "\n") + "\n"
        }.joined(separator: "\n")
            + presets.sorted { $0.key < $1.key }.map { name, preset in
                let lines = preset.values.map { "\($0.key) = \($0.value.text)\n" }
                return "\n" + line("[preset \(name)]", preset.source) + "\n" + lines.joined()
            }.joined()
    }

    private func line(_ text: String, _ source: String) -> String {
        let width = max(40, text.count + 1)
        if width + 2 + source.utf8.count > ConfigurationFile.longestLine { return "# \(source)\n\(text)" }
        return text + String(repeating: " ", count: max(1, 40 - text.count)) + "; " + source
    }

    private func lines(of setting: BrokerSetting) -> [String] {
        let given = given[setting.name]?.last?.source
        let source = given ?? setting.usualInWords.map { "default: \($0)" } ?? "default"
        let values = shownValues(of: setting)
        if given == nil, values.isEmpty { return [line("# \(setting.name) =", source)] }
        return values.map { line("\(setting.name) = \($0)", source) }
    }
}

extension String {
    var shortened: String { count > 200 ? prefix(199) + "…" : self }

    fileprivate var trimmed: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }

    /// A URL with "***" for its user name and password.
    fileprivate var withoutUserInfo: String {
        guard let at = lastIndex(of: "@"), let colon = firstIndex(of: ":") else { return self }
        return self[...colon] + "//***" + self[at...]
    }
}

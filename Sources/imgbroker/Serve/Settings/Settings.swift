import BrokerCore
import IPCProtocol
import LinuxSystem

/// Where settings come from: the flags and the environment of the start, and the configuration file, which may change.
struct SettingSources {
    /// The file that `--config` names; nil without that flag.
    let namedFile: String?
    /// The file that is read if it exists and no other is named.
    let usualFile: String
    let flags: [String: [GivenValue]]
    let environment: [String: String]
    /// The file that was read before. One that is missing now is an error: its settings would end unnoticed.
    var readFile: String?

    fileprivate var file: String? {
        if let file = namedFile ?? readFile { return file }
        if let path = environment["IMGBROKER_CONFIG"], !path.isEmpty { return path }
        return CurrentProcess.exists(usualFile) ? usualFile : nil
    }
}

/// The settings in force, and the sources to read them from again.
struct Settings {
    private var sources: SettingSources
    private(set) var given = GivenSettings()
    private(set) var configuration: Configuration

    /// Reads the configuration file, and joins it with the other sources.
    init(_ sources: SettingSources) throws(UsageError) {
        self.sources = sources
        self.sources.readFile = sources.file
        if let file = self.sources.readFile { try given.add(try ConfigurationFile.read(file), of: file) }
        given.add { sources.environment[$0] }
        given.add(flags: sources.flags)
        configuration = try given.configuration()
    }

    /// Reads the sources again. Returns the settings that follow, in which each setting that needs a restart has its
    /// old value, and the changes. All values must be understood, whether or not they would be used.
    func reloaded() throws(UsageError) -> (settings: Settings, report: ReloadReport) {
        var read = try Settings(sources)
        var report = ReloadReport()
        for setting in BrokerSetting.all where given.values(of: setting) != read.given.values(of: setting) {
            var change = ReloadReport.Change(
                key: setting.name, old: given.shown(setting), new: read.given.shown(setting))
            if let reason = refusal(of: setting, in: read.configuration) {
                change.reason = reason
                report.refused.append(change)
                read.given.take(setting, from: given)
            } else {
                report.changed.append(change)
            }
        }
        // The files of other settings.
        for (key, hasChanged) in [
            ("ca-file", configuration.roots != read.configuration.roots),
            ("proxy-credentials-file", configuration.proxyCredentials != read.configuration.proxyCredentials),
        ] where hasChanged && !(report.changed + report.refused).contains(where: { $0.key == key }) {
            guard let setting = BrokerSetting.all.first(where: { $0.name == key }) else { continue }
            let path = read.given.shown(setting)
            report.changed.append(ReloadReport.Change(key: key, old: path, new: path + " (other contents)"))
        }
        for name in Set(given.presets.keys).union(read.given.presets.keys).sorted() {
            let (old, new) = (given.presets[name], read.given.presets[name])
            if old?.text == new?.text { continue }
            report.changed.append(
                ReloadReport.Change(
                    key: "preset \(name)", old: old?.text.shortened ?? "", new: new?.text.shortened ?? ""))
        }
        // Deriving the configuration reads the files that settings name.
        if !report.refused.isEmpty { read.configuration = try read.given.configuration() }
        return (read, report)
    }

    /// Why a setting keeps its value; nil if it may change.
    private func refusal(of setting: BrokerSetting, in new: Configuration) -> String? {
        switch setting.onReload {
        case .needsRestart: "needs a restart"
        case .changesAboveZero where (configuration.limits.diskBytes == 0) != (new.limits.diskBytes == 0):
            "switching the disk cache on or off needs a restart"
        case .changes, .changesAboveZero: nil
        }
    }
}

/// A reading of the settings' sources on a thread of its own, because a file system may never answer.
///
/// A thread whose file system never answers holds up the end of the process until that file system is unmounted.
final class SettingsReading: Sendable {
    typealias Outcome = Result<(settings: Settings, report: ReloadReport), UsageError>

    let waker: Waker
    private let result = Locked<Outcome?>(nil)

    /// Starts to read the sources of `settings` again.
    init(of settings: Settings) throws(SystemError) {
        waker = try Waker()
        try DetachedThread.start(name: "settings") { [self] in
            let outcome = Outcome { () throws(UsageError) in try settings.reloaded() }
            result.withLock { $0 = outcome }
            waker.wake()
        }
    }

    var outcome: Outcome? { result.withLock { $0 } }
}

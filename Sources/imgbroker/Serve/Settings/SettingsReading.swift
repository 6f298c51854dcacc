import IPCProtocol
import LinuxSystem

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

    /// The outcome; nil before the end.
    var outcome: Outcome? { result.withLock { $0 } }
}

import BrokerCore
import IPCProtocol
import LinuxSystem
import SystemValues

/// An upgrade from a client's request to the start of the other program.
struct PendingUpgrade {
    enum Stage {
        /// The installed program reads the settings, because a file system may never answer. Clients are served.
        case reading(UpgradeCheck, deadline: Instant)
        /// Clients are served, until nothing is unfinished.
        case waiting(since: Instant)
        /// Clients are paused, until nothing is unfinished.
        case pausing(since: Instant)
    }

    let client: ClientID
    let id: Int
    var stage: Stage

    var pausesClients: Bool { if case .pausing = stage { true } else { false } }
}

/// A process of the installed program that says whether it could take over with a state. It reads the settings, too.
struct UpgradeCheck {
    let path: String
    let child: ChildProcess

    init(of path: String, with state: FileDescriptor) throws(WireError) {
        self.path = path
        let words = [TakeOverWords.check] + TakeOverWords.brokerArguments
        do throws(SystemError) {
            child = try ChildProcess(
                path: path, arguments: words, environment: CurrentProcess.environmentWords, control: state)
        } catch {
            throw WireError(.internal, "\(path) cannot be started: \(error).")
        }
    }

    /// Waits up to `milliseconds` for the answer; nil if it has not come.
    func answer(within milliseconds: Int) -> Result<Void, WireError>? {
        switch child.waitForExit(milliseconds: milliseconds) {
        case .status(0): .success(())
        case let exit?: .failure(WireError(.internal, "\(path) cannot take over (\(exit)); see the broker's log."))
        case nil: nil
        }
    }
}

import IPCProtocol
import LinuxSystem
import SystemValues

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

import IPCProtocol
import LinuxSystem

/// `imgbroker`: serves until it is asked to end.
enum ServeCommand {
    /// Runs the broker and returns the exit status.
    static func run(_ configuration: Configuration) -> Int32 {
        let log = Log(name: "imgbroker", level: configuration.logLevel)
        guard var launcher = WorkerLauncher() else {
            log.error(
                "the worker programs imgfetch and imgworker are neither beside imgbroker nor in ../libexec/imgbroker")
            return 1
        }
        launcher.logLevel = configuration.logLevel
        launcher.allowedAddresses = configuration.allowedAddresses.map(\.description)

        var ownUser: (uid: UInt32, gid: UInt32)?
        if let name = configuration.user {
            guard let user = CurrentProcess.findUser(name) else {
                log.error("--user: there is no user \"\(name)\"")
                return 2
            }
            guard CurrentProcess.uid == 0 || CurrentProcess.uid == user.uid else {
                log.error("--user: only root can become another user")
                return 2
            }
            if CurrentProcess.uid == 0 { ownUser = user }
        } else if CurrentProcess.uid == 0 {
            guard let nobody = CurrentProcess.findUser("nobody") else {
                log.error("there is no user \"nobody\" for the workers: name one with --user")
                return 2
            }
            launcher.user = nobody
        }

        guard let path = configuration.socketPath ?? ListeningSocket.defaultPath else {
            log.error(
                "no place to listen: /run cannot be written and XDG_RUNTIME_DIR is not set; name one with --socket")
            return 2
        }
        let listener: ListeningSocket
        do {
            listener = try ListeningSocket(path: path, mode: CurrentProcess.uid == 0 ? 0o660 : 0o600)
        } catch {
            log.error("\(error)")
            return 1
        }
        do throws(SystemError) {
            if let ownUser { try CurrentProcess.become(uid: ownUser.uid, gid: ownUser.gid) }
            try Broker(configuration, launcher: launcher, listener: listener, log: log).run()
            return 0
        } catch {
            log.error("\(error)")
            listener.remove()
            return 1
        }
    }
}

import BrokerCore
import HTTPValues
import IPCProtocol
import LinuxSystem
import SystemValues

/// `imgbroker`: serves until it is asked to shut down.
enum ServeCommand {
    /// Why the broker does not start.
    private struct Refusal: Error {
        let reason: String
        var status: Int32 = 1
    }

    /// Runs the broker and returns the exit status.
    ///
    /// - Parameter inheritance: what the process has left whose place this one takes.
    static func run(_ settings: Settings, _ inheritance: Inheritance? = nil) -> Int32 {
        var configuration = settings.configuration
        configuration.logFormat.isForJournal = Log.isJournal
        let log = Log(name: "imgbroker", level: configuration.logLevel, format: configuration.logFormat)
        for warning in configuration.warnings.values { log.warning(.setting, warning) }
        guard CurrentProcess.exists("/proc/self/fd") else {
            log.error(
                .setting, "/proc is not mounted, and the broker needs it for its workers: mount -t proc proc /proc"
            )
            return 1
        }
        guard var launcher = WorkerLauncher() else {
            log.error(
                .setting,
                "the worker programs imgfetch and imgworker are neither beside imgbroker nor in ../libexec/imgbroker")
            return 1
        }
        if configuration.limits.usesSharedTier, !launcher.has(.tier) {
            log.error(
                .setting,
                "shared-tier needs imgtier, which is missing in \(launcher.directory): install the package imgbroker-tier"
            )
            return 1
        }
        configuration.limits.families = launcher.families
        let group = MemoryGroup.own
        if let bytes = group?.limit, configuration.limits.fit(intoGroupOf: bytes) {
            log.notice(.memory, "the control group has \(ByteCount(bytes)) of memory, which bounds images and workers")
        }
        let descriptors = CurrentProcess.raiseDescriptorLimit()
        let needed = configuration.limits.neededDescriptors
        if descriptors < needed {
            let workers = configuration.limits.workers
            log.error(
                .setting,
                "\(workers) decode workers need \(needed) descriptors, and \(descriptors) are allowed: raise the limit (ulimit -n), or use fewer --workers"
            )
            return 1
        }
        launcher.configuration = configuration

        var ownUser: (uid: UInt32, gid: UInt32)?
        if let name = configuration.user {
            guard let user = CurrentProcess.findUser(name) else {
                log.error(.setting, "--user: there is no user \"\(name)\"")
                return 2
            }
            guard CurrentProcess.uid == 0 || CurrentProcess.uid == user.uid else {
                log.error(.setting, "--user: only root can become another user")
                return 2
            }
            if CurrentProcess.uid == 0 { ownUser = user }
        } else if CurrentProcess.uid == 0 {
            guard let nobody = CurrentProcess.findUser("nobody") else {
                log.error(.setting, "there is no user \"nobody\" for the workers: name one with --user")
                return 2
            }
            launcher.user = nobody
        }

        if configuration.limits.usesDisk {
            if let directory = configuration.cacheDirectory ?? Configuration.usualCacheDirectory {
                launcher.cachePath = directory
            } else {
                log.warning(
                    .setting,
                    "no place for the disk cache: neither XDG_CACHE_HOME nor HOME is set; name one with --cache-dir")
                configuration.limits.usesDisk = false
            }
        }

        let listener: ListeningSocket
        var stored: [(name: String, descriptor: FileDescriptor)] = []
        do {
            if let inheritance {
                listener = inheritance.listener
            } else if let inherited = try takeHandover(&stored) {
                listener = ListeningSocket(inherited: inherited)
                if configuration.socketPath != nil || configuration.socketMode != nil
                    || configuration.socketGroup != nil
                {
                    log.warning(
                        .setting,
                        "socket, socket-mode and socket-group have no effect: the service manager has made the socket")
                }
            } else {
                guard let path = configuration.socketPath ?? ListeningSocket.defaultPath else {
                    log.error(
                        .setting,
                        "no place to listen: /run cannot be written and XDG_RUNTIME_DIR is not set; name one with --socket"
                    )
                    return 2
                }
                let isForGroup = CurrentProcess.uid == 0 || configuration.socketGroup != nil
                listener = try ListeningSocket(
                    path: path, mode: configuration.socketMode ?? (isForGroup ? 0o660 : 0o600),
                    group: configuration.socketGroup, log: log)
            }
        } catch {
            log.error(.setting, "\(error)")
            return 1
        }
        do throws(SystemError) {
            var remover = inheritance?.remover
            if let inheritance {
                // It has dropped its privileges already.
                launcher.cacheDirectory = inheritance.cacheDirectory
                launcher.keepCacheDirectoryIfOutOfReach()
            } else if let ownUser {
                // These need the privileges that are dropped below.
                if listener.hasFile { remover = try SocketRemover(path: listener.path) }
                if configuration.limits.usesDisk,
                    let directory = configuration.cacheDirectory ?? Configuration.usualCacheDirectory
                {
                    try? CurrentProcess.makeDirectory(directory, owner: ownUser)
                    launcher.cacheDirectory = try? FileSystem.openDirectory(directory)
                }
                try CurrentProcess.become(uid: ownUser.uid, gid: ownUser.gid)
                launcher.keepCacheDirectoryIfOutOfReach()
            }
            let broker = try Broker(
                settings, configuration, launcher: launcher, listener: listener, group: group, log: log)
            broker.inheritance = inheritance
            broker.remover = remover
            broker.stored = stored
            broker.run()
            remover?.run()
            return 0
        } catch {
            log.error(.setting, "\(error)")
            listener.remove()
            return 1
        }
    }

    /// Takes what the service manager hands over. Returns the listening socket, if there is one.
    private static func takeHandover(
        _ stored: inout [(name: String, descriptor: FileDescriptor)]
    ) throws(ServiceManager.UnusableSocket) -> FileDescriptor? {
        let handover = try ServiceManager.takeDescriptors()
        stored = handover.stored
        return handover.listener
    }
}

import BrokerCore
import LinuxSystem
import SystemValues

/// `imgbroker`: serves until it is asked to shut down.
enum ServeCommand {
    /// Runs the broker, maybe in the place of a process that has left `inheritance`, and returns the exit status.
    static func run(_ settings: Settings, _ inheritance: Inheritance? = nil) -> Int32 {
        var configuration = settings.configuration
        configuration.logFormat.isForJournal = Log.isJournal
        let log = Log(name: "imgbroker", level: configuration.logLevel, format: configuration.logFormat)
        for warning in configuration.warnings.values { log.warning(.setting, warning) }
        do {
            try serve(settings, configuration, inheritance, log)
            return 0
        } catch {
            log.error(.setting, "\(error)")
            return (error as? ServeRefusal)?.status ?? 1
        }
    }

    /// Prepares the workers, and finds the user that the broker is to become if root starts it. `TakeOver.check` calls
    /// this, too, so that the running program goes on if the new one refuses.
    static func prepare(
        _ configuration: Configuration, isTakingOver: Bool
    ) throws(ServeRefusal) -> (launcher: WorkerLauncher, ownUser: (uid: UInt32, gid: UInt32)?) {
        guard CurrentProcess.exists("/proc/self/fd") else {
            throw ServeRefusal(
                "/proc is not mounted, and the broker needs it for its workers: mount -t proc proc /proc")
        }
        guard var launcher = WorkerLauncher() else {
            throw ServeRefusal(
                "the worker programs imgfetch and imgworker are neither beside imgbroker nor in ../libexec/imgbroker")
        }
        if configuration.limits.usesSharedTier, !launcher.has(.tier) {
            throw ServeRefusal(
                "shared-tier needs imgtier, which is missing in \(launcher.directory): install the package imgbroker-tier"
            )
        }
        var limits = configuration.limits
        limits.families = launcher.families
        let (descriptors, needed) = (CurrentProcess.raiseDescriptorLimit(), limits.neededDescriptors)
        if descriptors < needed {
            throw ServeRefusal(
                "\(limits.workers) decode workers need \(needed) descriptors, and \(descriptors) are allowed: raise the limit (ulimit -n), or use fewer --workers"
            )
        }
        if let name = configuration.user {
            guard let user = CurrentProcess.findUser(name) else {
                throw ServeRefusal("--user: there is no user \"\(name)\"", status: 2)
            }
            // A process in another's place stays the user that the other was.
            guard CurrentProcess.uid == user.uid || CurrentProcess.uid == 0 && !isTakingOver else {
                let reason = isTakingOver ? "another user needs a restart" : "only root can become another user"
                throw ServeRefusal("--user: \(reason)", status: 2)
            }
            return (launcher, CurrentProcess.uid == 0 ? user : nil)
        }
        if CurrentProcess.uid == 0 {
            guard let nobody = CurrentProcess.findUser("nobody") else {
                throw ServeRefusal("there is no user \"nobody\" for the workers: name one with --user", status: 2)
            }
            launcher.user = nobody
        }
        return (launcher, nil)
    }

    private static func serve(
        _ settings: Settings, _ configuration: Configuration, _ inheritance: Inheritance?, _ log: Log
    ) throws {
        var configuration = configuration
        let (prepared, ownUser) = try prepare(configuration, isTakingOver: inheritance != nil)
        var launcher = prepared
        configuration.limits.families = launcher.families
        let group = MemoryGroup.own
        if let bytes = group?.limit, configuration.limits.fit(intoGroupOf: bytes) {
            log.notice(.memory, "the control group has \(ByteCount(bytes)) of memory, which bounds images and workers")
        }
        launcher.configuration = configuration

        if configuration.limits.usesDisk {
            launcher.cachePath = configuration.cacheDirectory ?? Configuration.usualCacheDirectory
            if launcher.cachePath == nil {
                log.warning(
                    .setting,
                    "no place for the disk cache: neither XDG_CACHE_HOME nor HOME is set; name one with --cache-dir")
                configuration.limits.usesDisk = false
            }
        }

        let handover = try inheritance == nil ? ServiceManager.takeDescriptors() : nil
        let listener = try inheritance?.listener ?? listen(with: handover?.listener, configuration, log)
        do {
            var remover = inheritance?.remover
            if let inheritance {
                // It has dropped its privileges already.
                launcher.cacheDirectory = inheritance.cacheDirectory
                launcher.keepCacheDirectoryIfOutOfReach()
            } else if let ownUser {
                // These need the privileges that are dropped below.
                if listener.identity != nil { remover = try SocketRemover(path: listener.path) }
                if let directory = launcher.cachePath {
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
            broker.stored = handover?.stored ?? []
            broker.run()
            remover?.run()
        } catch {
            listener.remove()
            throw error
        }
    }

    /// Listens with the service manager's socket, if there is one.
    private static func listen(
        with inherited: FileDescriptor?, _ configuration: Configuration, _ log: Log
    ) throws -> ListeningSocket {
        if let inherited {
            if configuration.socketPath != nil || configuration.socketMode != nil || configuration.socketGroup != nil {
                log.warning(
                    .setting,
                    "socket, socket-mode and socket-group have no effect: the service manager has made the socket")
            }
            return ListeningSocket(inherited: inherited)
        }
        guard let path = configuration.socketPath ?? ListeningSocket.defaultPath else {
            throw ServeRefusal(
                "no place to listen: /run cannot be written and XDG_RUNTIME_DIR is not set; name one with --socket",
                status: 2)
        }
        let isForGroup = CurrentProcess.uid == 0 || configuration.socketGroup != nil
        return try ListeningSocket(
            path: path, mode: configuration.socketMode ?? (isForGroup ? 0o660 : 0o600),
            group: configuration.socketGroup, log: log)
    }
}

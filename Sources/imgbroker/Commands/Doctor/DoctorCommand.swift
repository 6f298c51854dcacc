import BrokerCore
import ImageBrokerClient
import LinuxSystem
import Sandbox
import SharedCache
import SystemValues
import WorkerProtocol

/// `imgbroker doctor`: looks at everything that a broker needs, and names a remedy for each shortage.
enum DoctorCommand {
    static let purpose = """
        Looks at what a broker with these options needs (kernel, limits, socket, disk, shared tier, names, certificates),
        and the installed services for HTTP and thumbnails, a line each. Takes the options of imgbroker.
        """

    static let status = "0; 1 when something needs attention; 2 for an invalid command line or configuration."

    static let usage = """
        Usage: imgbroker doctor [OPTION]...

        \(purpose)

        Exit status: \(status)
        """

    /// Examines the machine for a broker, or shows the help without a configuration. Returns the exit status.
    static func run(_ configuration: Configuration?) -> Int32 {
        guard let configuration else { return StandardOutput.writeHelp(usage) }
        let findings = facts(for: configuration).findings(for: configuration)
        StandardOutput.write(findings.map(line).joined())
        return findings.contains { $0.remedy != nil } ? CommandStatus.failed : CommandStatus.done
    }

    private static func line(_ finding: Finding) -> String {
        let mark = finding.remedy == nil ? "ok  " : "!!  "
        let subject = finding.subject.padded(to: 14)
        return "\(mark)\(subject) \(finding.text)" + (finding.remedy.map { "\n      → \($0)" } ?? "") + "\n"
    }

    // MARK: Looking

    /// The time for a broker that has just started to get its workers ready, in milliseconds.
    private static let patience = 5000
    private static let pollInterval: UInt32 = 50

    private static func facts(for configuration: Configuration) -> MachineFacts {
        var facts = MachineFacts()
        facts.kernel = text("/proc/sys/kernel/osrelease")?.split(separator: "\n").first.map(String.init) ?? "unknown"
        facts.hasSeccomp = CurrentProcess.exists("/proc/sys/kernel/seccomp/actions_avail")
        facts.landlock = SandboxPolicy.landlockOfKernel
        facts.canSeal = (try? SealedBuffer(copying: [0], name: "imgbroker-doctor")) != nil
        facts.hugePages = text("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
        facts.descriptors = CurrentProcess.raiseDescriptorLimit()
        let installed = text("/proc/meminfo")?.split(separator: "\n").first { $0.hasPrefix("MemTotal:") }
        let kibibytes = installed?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        facts.memory = min(MemoryGroup.own?.limit ?? .max, kibibytes.map { $0 << 10 } ?? .max)
        let launcher = WorkerLauncher()
        facts.hasWorkers = launcher != nil
        facts.hasTierProgram = launcher?.has(.tier) ?? false
        facts.silentServers = TierProbe.silent(configuration.sharedServers)
        facts.missingFamilies = CodecFamily.optional.filter { launcher?.families.contains($0) == false }
        facts.resolver = text("/etc/resolv.conf")
        facts.hasCertificates = CurrentProcess.exists("/etc/ssl/certs/ca-certificates.crt")
        facts.cache = cache(for: configuration)
        facts.foreignOwner = foreignOwner(of: facts.cache?.directory, for: configuration)
        facts.socket = socket(for: configuration)
        facts.access = access(to: configuration.socketPath ?? SocketPath.forClient)
        if var service = HTTPService(in: HTTPService.directories) {
            service.hasProgram = HTTPCommand.program.path != nil
            if service.isEnabled, service.hasProgram { service.health = service.listener.map(HTTPService.health) }
            facts.http = service
        }
        facts.thumbnails = ThumbnailService(in: ThumbnailService.directories)
        facts.user = userName(CurrentProcess.uid)
        return facts
    }

    private static func text(_ path: String) -> String? {
        (try? FileDescriptor.open(readingAt: path)).flatMap { try? $0.readToEnd() }
    }

    /// The cache's directory, or the nearest one above it that exists, in which it would be made.
    private static func cache(for configuration: Configuration) -> (directory: String, freeBytes: Int)? {
        guard let directory = configuration.cacheDirectory ?? Configuration.usualCacheDirectory else { return nil }
        var nearest = directory
        while nearest != ".", !CurrentProcess.exists(nearest) { nearest = ListeningSocket.directory(of: nearest) }
        guard CurrentProcess.mayWrite(to: nearest), let free = FileSystem.freeBytes(at: nearest) else { return nil }
        return (directory, free)
    }

    /// The owner of the cache's directory if that is another user than the configuration's, who could not write to it.
    private static func foreignOwner(of directory: String?, for configuration: Configuration) -> String? {
        guard let directory, let user = configuration.user.flatMap({ CurrentProcess.findUser($0) }),
            let status = (try? FileSystem.status(of: directory)) ?? nil, status.owner != user.uid
        else { return nil }
        return userName(status.owner)
    }

    /// What a broker says of itself when it has workers, and its tier if it should have one, or after a while.
    private static func service(of broker: ImageBroker, usesTier: Bool) throws(ClientError) -> MachineFacts.Service {
        let end = Instant.now.adding(milliseconds: patience)
        var report = try broker.stats()
        func isStarting() -> Bool {
            report[.workers] == 0 || report[.fetchers] == 0
                || usesTier && report.isComplete && !report.sharedServers.contains { $0.state == "up" }
        }
        while isStarting(), .now < end, CurrentProcess.pause(milliseconds: pollInterval) {
            report = try broker.stats()
        }
        return MachineFacts.Service(
            hasWorkers: report[.workers] > 0 && report[.fetchers] > 0, sandbox: report.sandbox,
            diskState: report.diskState, descriptorEvictions: report[.descriptorEvictions],
            isTierRunning: report.isComplete ? report.sharedServers.contains { $0.state == "up" } : nil)
    }

    /// The access rights of the socket at `path`; nil without a socket.
    private static func access(to path: String) -> SocketAccess? {
        func file(_ path: String) -> SocketAccess.File? {
            guard let status = (try? FileSystem.status(of: path)) ?? nil else { return nil }
            return SocketAccess.File(
                path: path, owner: userName(status.owner),
                group: CurrentProcess.group(status.group)?.name ?? "\(status.group)", gid: status.group,
                mode: status.permissions)
        }
        let directories = SocketAccess.directories(of: path).compactMap(file)
        let hidden = directories.last.map { !CurrentProcess.maySearch($0.path) } ?? true
        guard let socket = file(path) else {
            return hidden ? SocketAccess(path: path, socket: nil, directories: directories) : nil
        }
        let members = CurrentProcess.group(socket.gid)?.members ?? []
        return SocketAccess(path: path, socket: socket, directories: directories, members: members)
    }

    private static func userName(_ uid: UInt32) -> String { CurrentProcess.userName(uid) ?? "\(uid)" }

    private static func socket(for configuration: Configuration) -> MachineFacts.SocketFacts {
        let path = configuration.socketPath ?? SocketPath.forClient
        do throws(ClientError) {
            let broker = try CommandConnection.open(path)
            let service = try service(of: broker, usesTier: !configuration.sharedServers.isEmpty)
            return .serving(path: path, version: try broker.hello().server, service)
        } catch {
            if case .noBroker(_, let reason) = error, reason.code == SystemError.accessDenied {
                return .forbidden(path: path)
            }
            return (configuration.socketPath ?? ListeningSocket.defaultPath).map { .free(path: $0) } ?? .nowhere
        }
    }
}

/// Asks the servers of a shared tier whether they are there.
enum TierProbe {
    /// The time for all servers together, in milliseconds, and that of each step with one in seconds.
    private static let (patience, secondsOfStep) = (3000, 2)

    /// Returns those of `servers` that do not answer as memcached does. All are asked at the same time, because an
    /// answer that does not come takes long.
    static func silent(_ servers: [String]) -> [String] {
        guard let waker = try? Waker() else { return servers }
        // Whether each server that has been asked is there.
        let outcomes = Locked<[String: Bool]>([:])
        var asked = 0
        for (name, server) in Set(servers).compactMap({ name in ServerName(name).map { (name, $0) } }) {
            let isStarted: Void? = try? DetachedThread.start(name: "server") {
                let answer = TCPConnection.ask(
                    host: server.host, port: server.port, "version\r\n", seconds: secondsOfStep)
                let isThere = answer?.starts(with: Array("VERSION ".utf8)) == true
                outcomes.withLock { $0[name] = isThere }
                waker.wake()
            }
            if isStarted != nil { asked += 1 }
        }
        let end = Instant.now.adding(milliseconds: patience)
        while outcomes.withLock({ $0.count }) < asked, case let left = end.microseconds(since: .now), left > 0 {
            _ = UnixSocket.waitUntilReadable(waker.descriptor, milliseconds: Int32(left / 1000 + 1))
            waker.clear()
        }
        return outcomes.withLock { outcomes in servers.filter { outcomes[$0] != true } }
    }
}

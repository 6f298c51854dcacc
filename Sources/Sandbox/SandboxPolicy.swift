internal import CSandbox
internal import CSeccomp
internal import Glibc
internal import LinuxSystem
package import WorkerProtocol

/// The rights that a worker keeps in its sandbox.
package struct SandboxPolicy: Sendable {
    /// The permitted calls, for the process with a number: `SystemCallRule+Workers`.
    let rules: @Sendable (Int32) -> [SystemCallRule]
    /// Files that can be read, and directories with all files beneath them.
    var readable: [String] = []
    /// Directories beneath which files and directories can also be made, changed and removed. Nothing else is writable.
    var writable: [String] = []
    var connects = false
    /// The only ports that connections may lead to; none for any.
    var ports: [UInt16] = []
    /// The limit of open descriptors; nil for that of the process that started it.
    let descriptors: UInt64?
    /// Whether threads, which count as processes, can be started.
    var startsThreads = false
    /// Whether failing calls are recorded in the kernel's log. For processes in which none is expected.
    let logsRefusals: Bool

    /// Whether a call that is not in the table kills the process instead of failing, so that tests find missing
    /// entries.
    package var isStrict = false
    /// The limit of a written file's size in bytes, which applies to memfds too; nil for no limit.
    package var largestFile: Int?
    /// The limit of the process's own writable memory in bytes; nil for no limit.
    package var memory: Int?

    /// The policy of a decode worker: neither files nor network, only the descriptors that it receives.
    package static let decode = SandboxPolicy(
        rules: { SystemCallRule.decode(pid: $0) }, descriptors: 64, logsRefusals: true)

    /// The policy of a decode worker of SVG: as that of the others, and the fonts and their configuration, which the
    /// libraries read when text needs them; and a thread, in which filters work.
    package static let svg = SandboxPolicy(
        rules: { SystemCallRule.svg(pid: $0) }, readable: fontFiles, descriptors: 64, startsThreads: true,
        logsRefusals: false)

    /// The files that fontconfig reads. Those in home directories are not among them: another user's document must not
    /// show which fonts a user has.
    private static let fontFiles = [
        "/etc/fonts", "/usr/share/fontconfig", "/usr/share/fonts", "/usr/local/share/fonts", "/var/cache/fontconfig",
    ]

    /// The policy of a download worker: the network, and the files that the resolver and TLS read.
    package static let fetch = SandboxPolicy(
        rules: { SystemCallRule.fetch(pid: $0) }, readable: networkFiles, connects: true, descriptors: 4096,
        startsThreads: true, logsRefusals: false)

    /// No libraries, because they cannot be loaded: memory cannot become executable.
    ///
    /// Directories instead of single files, because a right applies to the file that has the path now, and resolv.conf
    /// is replaced whenever the machine joins another network.
    private static let networkFiles = [
        // resolv.conf, hosts, nsswitch.conf, gai.conf, services, certificates.
        "/etc",
        // The targets of resolv.conf as a link.
        "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/connman",
        // The targets of certificates as links.
        "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/pki", "/usr/lib/ssl",
        "/var/lib/ca-certificates",
        // The number of processors, for the heap; random bytes on old systems.
        "/sys/devices/system/cpu", "/proc/stat", "/dev/urandom", "/dev/null",
    ]

    /// The policy of the cache process: one directory to write in, others to read files in, and no network.
    ///
    /// A right applies to the directory that has the path now. When it is removed, a successor cannot be made.
    package static func cache(directory: String, extraDirectories: [String]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.cache(pid: $0) },
            // Random bytes, for the database.
            readable: extraDirectories + ["/dev/urandom"], writable: [directory], descriptors: 1024,
            logsRefusals: false)
    }

    /// The policy of the process of the shared tier: TCP connections to the ports of its servers, memfds to pass on,
    /// and no files. Kernels before 6.7 cannot restrict ports; there it may connect to any.
    ///
    /// Its descriptors are those of records that wait to be written and of bodies that it has found
    /// (`BrokerLimits.maxSharedWrites` and `SharedTier.maximumLookups` of the core), and its connections.
    package static func tier(ports: [UInt16]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.tier(pid: $0) }, connects: true, ports: ports, descriptors: 1024,
            logsRefusals: false)
    }

    /// The policy of the process that makes images over HTTP: connections to its listening socket and to sockets of
    /// this machine that have a path, threads, and memfds. No files, and no connection to the network.
    package static let http = SandboxPolicy(
        rules: { SystemCallRule.http(pid: $0) }, descriptors: nil, startsThreads: true, logsRefusals: false)

    /// The policy of the process that closes descriptors for the broker: its socket, and nothing else.
    ///
    /// The limit of descriptors stays that of the broker: a connection that found no place would be closed by the
    /// kernel, while the broker waits.
    package static let descriptors = SandboxPolicy(
        rules: { SystemCallRule.descriptors(pid: $0) }, descriptors: nil, logsRefusals: true)

    /// The policy of the process that receives descriptors for the broker, and reads the files behind them: the
    /// contents of these files, too.
    package static let files = SandboxPolicy(
        rules: { SystemCallRule.files(pid: $0) }, descriptors: nil, logsRefusals: true)
}

package struct SandboxOutcome: Sendable {
    /// The parts in force.
    package var report = SandboxReport()
    /// The parts that are not in force, and the reasons.
    package var problems: [String] = []
}

extension SandboxPolicy {
    /// The version of the kernel's Landlock; 0 without it.
    package static var landlockOfKernel: Int { Int(csandbox_landlock_abi()) }

    /// Gives up all rights that the policy does not name, irrevocably. The process must have one thread, because this
    /// affects only the calling thread and those that it starts afterwards.
    ///
    /// Unavailable parts are missing from the report; the others are in force. The caller, or the process that it
    /// reports to, decides whether that is enough.
    package func enter() -> SandboxOutcome {
        var outcome = SandboxOutcome()
        guard Self.threads == 1 else {
            outcome.problems.append("there are \(Self.threads) threads")
            return outcome
        }
        let abi = min(csandbox_landlock_abi(), Self.newestLandlock)
        // Before the limits, because it opens the paths.
        guard csandbox_no_new_privileges() == 0 else {
            outcome.problems.append("no_new_privs: \(Self.text(of: errno))")
            return outcome
        }
        if abi == 0 {
            outcome.problems.append("the kernel has no Landlock")
        } else if enterLandlock(abi) {
            outcome.report.landlock = Int(abi)
        } else {
            outcome.problems.append("Landlock: \(Self.text(of: errno))")
        }
        limit()
        let status = loadFilter()
        outcome.report.seccomp = status == 0
        if status != 0 { outcome.problems.append("seccomp: \(Self.text(of: -status))") }
        return outcome
    }

    /// The newest version whose rights are known here. Version 7 denies no more than version 6.
    private static let newestLandlock: Int32 = 7

    private func enterLandlock(_ abi: Int32) -> Bool {
        let ruleset = csandbox_landlock_create(abi, connects && ports.isEmpty ? 1 : 0)
        if ruleset < 0 { return false }
        defer { close(ruleset) }
        return readable.allSatisfy { unsafe csandbox_landlock_allow_path(ruleset, abi, $0, 0) == 0 }
            && writable.allSatisfy { unsafe csandbox_landlock_allow_path(ruleset, abi, $0, 1) == 0 }
            && (abi < 4 || !connects || ports.allSatisfy { csandbox_landlock_allow_port(ruleset, $0) == 0 })
            && csandbox_landlock_restrict(ruleset) == 0
    }

    /// Sets limits, which bound the damage of a fault and do not stop an attack. Failures are therefore ignored.
    private func limit() {
        // A write beyond the limit fails with EFBIG instead of killing the process.
        signal(SIGXFSZ, SIG_IGN)
        let limits = [
            (RLIMIT_CORE, 0), (__RLIMIT_MEMLOCK, 0), (RLIMIT_NOFILE, descriptors),
            // It counts the user's threads in all processes, so it would prevent threads.
            (__RLIMIT_NPROC, startsThreads ? nil : 0),
            (RLIMIT_DATA, memory.map { UInt64($0) }), (RLIMIT_FSIZE, largestFile.map { UInt64($0) }),
        ]
        for case (let resource, let limit?) in limits { csandbox_limit(Int32(resource.rawValue), limit) }
    }

    /// 0, or a negative errno.
    private func loadFilter() -> Int32 {
        let fallback = isStrict ? SystemCallRule.Action.kill : .fail(ENOSYS)
        guard let filter = unsafe seccomp_init(fallback.code) else {
            // The library does not say why: it may be the kernel, which then says it itself.
            return csandbox_seccomp_available() == 0 ? -ENOMEM : -errno
        }
        defer { unsafe seccomp_release(filter) }
        // Calls by another architecture's table.
        let status = unsafe seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)
        if status < 0 { return status }
        // Ignored by kernels before 4.14.
        if logsRefusals { unsafe seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1) }
        // A binary search over system calls, because the tables are long. Since libseccomp 2.5.
        unsafe seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2)
        for rule in rules(getpid()) {
            let call = unsafe seccomp_syscall_resolve_name(rule.name)
            // The fallback applies to a call that the architecture or libseccomp does not know.
            if call == __NR_SCMP_ERROR { continue }
            let checks = rule.checks.map {
                scmp_arg_cmp(arg: $0.argument, op: SCMP_CMP_MASKED_EQ, datum_a: $0.mask, datum_b: $0.value)
            }
            let status = unsafe seccomp_rule_add_array(filter, rule.action.code, call, UInt32(checks.count), checks)
            // EACCES: the fallback has the same effect.
            if status != 0, status != -EACCES { return status }
        }
        return unsafe seccomp_load(filter)
    }

    /// The number of threads of this process; 0 when it is unknown.
    package static var threads: Int { (try? FileSystem.names(in: "/proc/self/task").count) ?? 0 }

    private static func text(of error: Int32) -> String { unsafe String(cString: strerror(error)) }
}

internal import CSandbox
internal import Glibc
package import WorkerProtocol

/// What a worker needs, and so what it keeps when it gives up everything else.
package struct SandboxPolicy: Sendable {
    /// Which calls are left, for the process with this number.
    let rules: @Sendable (Int32) -> [SystemCallRule]
    /// Files that can be read, and folders with all files beneath them.
    let readable: [String]
    /// Folders beneath which files and folders can be made, changed and removed, too. Nowhere else can anything be written.
    var writable: [String] = []
    /// Whether TCP connections may be made.
    let connects: Bool
    /// The most descriptors at once.
    let descriptors: UInt64
    /// Whether threads may still be started, which count as processes.
    let startsThreads: Bool
    /// Whether calls that fail are to show in the kernel's log: where none is expected to.
    let logsRefusals: Bool

    /// A call that is not in the table ends the process, instead of failing: so that tests find what a table lacks.
    package var isStrict = false
    /// The largest file that may be written, in bytes; nil for no such limit. It counts for buffers in memory, too.
    package var largestFile: Int?
    /// The most memory that is the process's own and can be written, in bytes; nil for no such limit.
    package var memory: Int?

    /// Of a process that turns bytes into pixels: neither files nor network, only descriptors that it is handed.
    package static let decode = SandboxPolicy(
        rules: { SystemCallRule.decode(pid: $0) }, readable: [], connects: false, descriptors: 64, startsThreads: false,
        logsRefusals: true)

    /// Of a process that downloads: the network, and what the resolver and TLS read.
    package static let fetch = SandboxPolicy(
        rules: { SystemCallRule.fetch(pid: $0) }, readable: networkFiles, connects: true, descriptors: 4096,
        startsThreads: true, logsRefusals: false)

    /// No library is among them: memory cannot be made executable any more, so that looking for one is better refused.
    ///
    /// Folders, where single files would do: a right is to the file that has the name now, and resolv.conf, for one, is
    /// replaced by another whenever the machine joins another network.
    private static let networkFiles = [
        // resolv.conf, hosts, nsswitch.conf, gai.conf, services, certificates.
        "/etc",
        // Where resolv.conf leads to.
        "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/connman",
        // Where certificates lead to.
        "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/pki", "/usr/lib/ssl",
        "/var/lib/ca-certificates",
        // How many processors there are, for the heap; random bytes on old systems.
        "/sys/devices/system/cpu", "/proc/stat", "/dev/urandom", "/dev/null",
    ]
}

/// What came of entering a sandbox.
package struct SandboxOutcome: Sendable {
    /// What holds now.
    package var report = SandboxReport()
    /// What does not, and why, in words.
    package var problems: [String] = []
}

extension SandboxPolicy {
    /// Gives up, for good, all that the policy does not name. The process must have one thread: what is given up is
    /// given up by the one that calls, and by those it starts afterwards.
    ///
    /// What cannot be had is missing from the report, and the rest holds: whether that is enough is for the caller, or
    /// for whom it reports to, to say.
    package func enter() -> SandboxOutcome {
        var outcome = SandboxOutcome()
        guard Self.threads == 1 else {
            outcome.problems.append("there are \(Self.threads) threads")
            return outcome
        }
        let abi = min(csandbox_landlock_abi(), Self.newestLandlock)
        // Before the limits, as it opens the paths.
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

    /// The newest version whose rights are known here. Version 7 can deny no more than 6 could.
    private static let newestLandlock: Int32 = 7

    private func enterLandlock(_ abi: Int32) -> Bool {
        let all = readable.map { ($0, Int32(0)) } + writable.map { ($0, Int32(1)) }
        let paths = unsafe all.map { unsafe csandbox_path(path: strdup($0), writable: $1) }
        defer { unsafe paths.forEach { unsafe free(UnsafeMutablePointer(mutating: $0.path)) } }
        return unsafe paths.withUnsafeBufferPointer {
            unsafe csandbox_landlock_enter(abi, $0.baseAddress, $0.count, connects ? 1 : 0) == 0
        }
    }

    /// What bounds the damage of a fault rather than stops an attack, and therefore may fail.
    private func limit() {
        _ = csandbox_limit(csandbox_limit_core(), 0)
        _ = csandbox_limit(csandbox_limit_locked_memory(), 0)
        _ = csandbox_limit(csandbox_limit_files(), descriptors)
        // Else for the whole user: threads of other processes would count.
        if !startsThreads { _ = csandbox_limit(csandbox_limit_processes(), 0) }
        if let memory { _ = csandbox_limit(csandbox_limit_data(), UInt64(memory)) }
        csandbox_ignore_file_size_signal()
        if let largestFile { _ = csandbox_limit(csandbox_limit_file_size(), UInt64(largestFile)) }
    }

    /// 0, or a negative errno.
    private func loadFilter() -> Int32 {
        let fallback = isStrict ? CSANDBOX_KILL : CSANDBOX_FAIL
        guard let filter = unsafe csandbox_filter_create(fallback, ENOSYS, logsRefusals ? 1 : 0) else { return -ENOMEM }
        for rule in rules(getpid()) {
            let (action, error) =
                switch rule.action {
                case .allow: (CSANDBOX_ALLOW, Int32(0))
                case .kill: (CSANDBOX_KILL, Int32(0))
                case .fail(let error): (CSANDBOX_FAIL, error)
                }
            let checks = rule.checks.map { csandbox_check(argument: $0.argument, mask: $0.mask, value: $0.value) }
            let status = unsafe checks.withUnsafeBufferPointer {
                unsafe csandbox_filter_add(filter, rule.name, action, error, $0.baseAddress, UInt32($0.count))
            }
            if status != 0 {
                unsafe csandbox_filter_free(filter)
                return status
            }
        }
        return unsafe csandbox_filter_load(filter)
    }

    /// The threads of this process; 0 where they cannot be counted.
    private static var threads: Int {
        guard let directory = unsafe opendir("/proc/self/task") else { return 0 }
        defer { unsafe closedir(directory) }
        var count = 0
        while unsafe readdir(directory) != nil { count += 1 }
        // Without "." and "..".
        return count - 2
    }

    private static func text(of error: Int32) -> String { unsafe String(cString: strerror(error)) }
}

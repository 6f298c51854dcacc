internal import Glibc

extension SandboxPolicy {
    /// The policy of the process that makes images over HTTP: connections to its listening socket and to sockets of this machine
    /// that have a path, threads, and memfds. No files, and no connection to the network.
    package static let http = SandboxPolicy(
        rules: { SystemCallRule.http(pid: $0) }, readable: [], connects: false, descriptors: nil, startsThreads: true,
        logsRefusals: false)
}

extension SystemCallRule {
    /// The calls of the process that makes images over HTTP.
    static func http(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // Connections, of clients and to the broker.
            "accept", "accept4", "connect", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto",
            "recvfrom",
            "shutdown", "poll", "ppoll",
            // Wake-ups of other threads.
            "eventfd2", "pipe2", "read", "write",
            "memfd_create", "ftruncate",
            // The start and the end of threads.
            "set_robust_list", "rseq", "membarrier", "sched_getaffinity", "getcpu",
            // The signal that ends the process.
            "rt_sigtimedwait",
            "getuid", "geteuid", "getgid", "getegid", "sysinfo",
        ]
        let rules: [SystemCallRule] = [
            .kill("socketpair"), .kill("ioctl"),
            // To the broker, by a path.
            .allow("socket", .equals(0, AF_UNIX), .isOfType(1, SOCK_STREAM)),
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_INET)), .fail("socket", EAFNOSUPPORT, .equals(0, AF_INET6)),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            // Threads. The arguments of clone3 cannot be checked: it fails, and the C library calls clone.
            .allow("clone", .bits(0, Kernel.threadFlags, are: true)),
            .kill("clone", .bits(0, Kernel.threadFlags, are: false)),
            .fail("clone3", ENOSYS),
            .allow("fcntl", .equals(1, F_GETFL)), .allow("fcntl", .equals(1, F_SETFL)),
            .allow("fcntl", .equals(1, F_GETFD)), .allow("fcntl", .equals(1, F_SETFD)),
            .allow("fcntl", .equals(1, F_DUPFD_CLOEXEC)), .allow("fcntl", .equals(1, Kernel.getSeals)),
            .allow("fcntl", .equals(1, Kernel.addSeals)),
            // abort() sends a signal to the process itself, and to no other.
            .allow("tgkill", .equals(0, pid), .equals(2, SIGABRT)),
            // Its limits can be read, and not set.
            .allow("prlimit64", .equals(0, 0), .isNull(2)),
            // Files that the C library looks for; Landlock permits none.
            .fail("openat", EACCES), .fail("open", EACCES),
        ]
        let own: Set = ["accept", "accept4", "memfd_create"]
        return shared(pid: pid).filter { !own.contains($0.name) } + plain.map { SystemCallRule.allow($0) } + rules
    }
}

internal import Glibc

extension SandboxPolicy {
    /// The policy of the process of the shared tier: TCP connections to the ports of its servers, memfds to pass on, and no
    /// files. Kernels before 6.7 cannot restrict ports; there it may connect to any.
    ///
    /// Its descriptors are those of records that wait to be written and of bodies that it has found (`BrokerLimits.maxSharedWrites` and
    /// `SharedTier.maximumLookups` of the core), and its connections.
    package static func tier(ports: [UInt16]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.tier(pid: $0) }, readable: [], connects: true, ports: ports, descriptors: 1024,
            startsThreads: false, logsRefusals: false)
    }
}

extension SystemCallRule {
    /// The calls of the process of the shared tier: its socket to the broker, TCP connections, memfds.
    static func tier(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // The socket to the broker, and waiting for it and for servers.
            "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll",
            // Connections.
            "connect", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto", "recvfrom", "shutdown",
            "read",
            "memfd_create", "ftruncate",
            // The library's hash of the time and of the process.
            "getuid", "geteuid", "sched_getaffinity", "sysinfo",
        ]
        let rules: [SystemCallRule] = [
            // No process, no thread, no device.
            .kill("clone"), .kill("socketpair"), .kill("ioctl"),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            // Messages, to standard error.
            .allow("write", .equals(0, 2)),
            .allow("socket", .equals(0, AF_INET), .isOfType(1, SOCK_STREAM)),
            .allow("socket", .equals(0, AF_INET6), .isOfType(1, SOCK_STREAM)),
            // Numeric addresses need no resolver; the C library asks for the kernel's addresses and does without.
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_NETLINK)), .fail("socket", EAFNOSUPPORT, .equals(0, AF_UNIX)),
            .allow("fcntl", .equals(1, F_GETFL)), .allow("fcntl", .equals(1, F_SETFL)),
            .allow("fcntl", .equals(1, F_GETFD)), .allow("fcntl", .equals(1, F_SETFD)),
            .allow("fcntl", .equals(1, Kernel.getSeals)), .allow("fcntl", .equals(1, Kernel.addSeals)),
            // abort() sends a signal to the process itself, and to no other.
            .allow("tgkill", .equals(0, pid), .equals(2, SIGABRT)),
            // Its limits can be read, and not set.
            .allow("prlimit64", .equals(0, 0), .isNull(2)),
            // Files that the C library looks for; Landlock permits none.
            .fail("openat", EACCES), .fail("open", EACCES),
        ]
        // It makes memfds in its sandbox, as the cache process does.
        return shared(pid: pid).filter { $0.name != "memfd_create" } + plain.map { SystemCallRule.allow($0) } + rules
    }
}

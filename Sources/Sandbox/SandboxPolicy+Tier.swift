internal import Glibc

extension SandboxPolicy {
    /// The policy of the process of the shared tier: TCP connections to the ports of its servers, memfds to pass on, and no
    /// files. Kernels before 6.7 cannot restrict ports; there it may connect to any.
    ///
    /// Its descriptors are those of records that wait to be written and of bodies that it has found (`BrokerLimits.maxSharedWrites` and
    /// `SharedTier.maximumLookups` of the core), and its connections.
    package static func tier(ports: [UInt16]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.tier(pid: $0) }, connects: true, ports: ports, descriptors: 1024,
            logsRefusals: false)
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
            messages,
            .allow("socket", .equals(0, AF_INET), .isOfType(1, SOCK_STREAM)),
            .allow("socket", .equals(0, AF_INET6), .isOfType(1, SOCK_STREAM)),
            // Numeric addresses need no resolver; the C library asks for the kernel's addresses and does without.
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_NETLINK)), .fail("socket", EAFNOSUPPORT, .equals(0, AF_UNIX)),
            abort(pid: pid), ownLimits,
        ]
        // It makes memfds in its sandbox, as the cache process does.
        return shared.filter { $0.name != "memfd_create" } + plain.map { allow($0) } + rules + noFiles
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, Kernel.getSeals, Kernel.addSeals)
    }
}

internal import Glibc

extension SandboxPolicy {
    /// The policy of the process that makes images over HTTP: connections to its listening socket and to sockets of this machine
    /// that have a path, threads, and memfds. No files, and no connection to the network.
    package static let http = SandboxPolicy(
        rules: { SystemCallRule.http(pid: $0) }, descriptors: nil, startsThreads: true, logsRefusals: false)
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
            noProcess, abort(pid: pid), ownLimits,
        ]
        let own: Set = ["accept", "accept4", "memfd_create"]
        return shared.filter { !own.contains($0.name) } + plain.map { allow($0) } + threads + rules + noFiles
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, Kernel.getSeals, Kernel.addSeals)
    }
}

internal import Glibc

extension SandboxPolicy {
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
}

extension SystemCallRule {
    /// The calls of the cache process: its socket, files beneath its directory, memfds to pass on.
    static func cache(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // The socket to the broker, and waiting for it.
            "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll", "clock_nanosleep", "nanosleep",
            // Files and directories that Landlock permits.
            "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
            "readlinkat", "getcwd", "getdents64", "mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat",
            "renameat2", "linkat", "flock", "lseek", "read", "ftruncate", "fallocate", "copy_file_range",
            // SQLite gives a new file the database's mode and, if made by root, its owner. Landlock does not check these
            // calls. They take a descriptor, so they reach only files that it permits to open.
            "fchmod", "fchown",
            // Synchronisation, and the C library's allocation on file systems without fallocate.
            "fsync", "fdatasync", "fstatfs",
            // Memory for copies that are passed on.
            "memfd_create",
            // Users and memory sizes.
            "getuid", "geteuid", "getgid", "getegid", "sysinfo", "sched_getaffinity",
        ]
        let rules: [SystemCallRule] = [
            // No process, no thread, no socket of its own, no device.
            .kill("clone"), .kill("socket"), .kill("socketpair"), .kill("connect"), .kill("sendto"), .kill("ioctl"),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            messages, ownLimits,
            // A file's times, by descriptor: Landlock would not restrict a path.
            .allow("utimensat", .isNull(1)),
        ]
        // It makes memfds in its sandbox.
        return shared.filter { $0.name != "memfd_create" } + plain.map { allow($0) } + rules
            // Seals, and SQLite's locks.
            + fcntl(Kernel.addSeals, Kernel.getSeals, F_SETLK, F_GETLK, F_GETFD, F_SETFD, F_GETFL)
    }
}

internal import Glibc

extension SandboxPolicy {
    /// The policy of the cache process: one directory to write in, others to read files in, and no network.
    ///
    /// A right applies to the directory that has the path now. When it is removed, a successor cannot be made.
    package static func cache(directory: String, extraDirectories: [String]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.cache(pid: $0) },
            // Random bytes, for the database.
            readable: extraDirectories + ["/dev/urandom"], writable: [directory], connects: false, descriptors: 1024,
            startsThreads: false, logsRefusals: false)
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
            // Messages, to standard error.
            .allow("write", .equals(0, 2)),
            // Seals, and SQLite's locks.
            .allow("fcntl", .equals(1, FileControl.addSeals)), .allow("fcntl", .equals(1, FileControl.getSeals)),
            .allow("fcntl", .equals(1, F_SETLK)), .allow("fcntl", .equals(1, F_GETLK)),
            .allow("fcntl", .equals(1, F_GETFD)), .allow("fcntl", .equals(1, F_SETFD)),
            .allow("fcntl", .equals(1, F_GETFL)),
            // A file's times, by descriptor: Landlock would not restrict a path.
            .allow("utimensat", .isNull(1)),
            // Its limits can be read, and not set.
            .allow("prlimit64", .equals(0, 0), .isNull(2)),
        ]
        // No other process makes memfds in its sandbox.
        return shared(pid: pid).filter { $0.name != "memfd_create" } + plain.map { SystemCallRule.allow($0) } + rules
    }
}

/// Constants of the kernel's headers that Swift does not import.
private enum FileControl {
    static let addSeals: Int32 = 1033
    static let getSeals: Int32 = 1034
}
